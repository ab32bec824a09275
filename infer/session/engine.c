#include "infer/session/engine.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/system/thread.h"
#include "infer/session/cutter.h"

enum stage { OPENING, OPEN, BUILDING, READY, FAILED };
enum place { QUEUED, IN_PASS };
enum {
    WORKERS_MOST = 4, /* each graph has its own copies of the weights, as its kernels want them */
    WORKER_BATCH = 4, /* more in a pass gain less than 1 % where threads do not wait */
    LONE_RETRY = 32,  /* lone pictures until all threads together are tried again */
};

/* An unused cutter. */
struct spare {
    struct spare *next;
    struct xt_cutter cutter;
};

struct xtrain_answer {
    struct xtrain *of;
    struct xtrain_answer *next;
    enum place place;
    atomic_bool is_there; /* set last: from then on it belongs to the caller */
    double since;         /* when it was queued */
    uint64_t number;      /* in the order of queueing */
    void (*done)(void *context);
    void *context;
    struct xt_err err;
    double confidence;
    bool rejected;
    int parts;
    float part_confidence[XT_DECODE_MAX];
    size_t part_at[XT_DECODE_MAX]; /* offsets in `texts` */
    struct xt_str texts;           /* the answer and its parts, NUL-terminated */
    uint8_t pixels[];
};

/* A thread that computes. */
struct worker {
    struct xtrain *engine;
    pthread_t thread;
    pthread_cond_t wake;
    bool is_idle;
    struct xt_session session;   /* with its part of the threads; empty: it is the only worker */
    struct xt_session *runs;     /* of the pass: that, or the engine's */
    struct xtrain_answer **pass; /* [batch] */
};

/* Passes of several workers run side by side, so that threads do not wait for each other, and their
 * total is the number that was asked for. The first worker also runs the engine's own session: with
 * all threads, for a lone picture. */
struct xtrain {
    struct xt_infer_settings settings;
    struct xt_engine_plan plan;
    struct xt_session session; /* its network is read-only once open */
    struct worker workers[WORKERS_MOST];
    int worker_count, workers_started;
    int batch;   /* that is due without waiting for more */
    int busy;    /* threads that compute */
    int retries; /* lone pictures until the next retry */
    /* Recent times of the first worker's passes over a lone picture: alone, and all threads. */
    double lone_seconds[2];
    struct xt_feed_size size;
    pthread_mutex_t lock;
    pthread_cond_t to_callers;
    enum stage stage;
    struct xt_err err; /* of the stage that failed */
    bool closing;
    struct xtrain_answer *first;
    struct xtrain_answer **last;
    int queued;             /* in the list */
    int taken;              /* places: queued ones, and those being decoded */
    uint64_t sent, flushed; /* numbers of the last one queued and of the last one flushed */
    struct spare *spares;
};

/* ---- the workers ---- */

static void enter(struct xtrain *engine, enum stage stage, const struct xt_err *err)
{
    pthread_mutex_lock(&engine->lock);
    engine->stage = err->status ? FAILED : stage;
    engine->err = *err;
    pthread_cond_broadcast(&engine->to_callers);
    pthread_mutex_unlock(&engine->lock);
}

/* False where it is closed first. */
static bool wait_for_plan(struct xtrain *engine)
{
    pthread_mutex_lock(&engine->lock);
    while (engine->stage == OPEN && !engine->closing)
        pthread_cond_wait(&engine->workers[0].wake, &engine->lock);
    bool build = engine->stage == BUILDING;
    pthread_mutex_unlock(&engine->lock);
    return build;
}

static int threads_of(const struct xtrain *engine)
{
    return engine->session.network.device.threads;
}

/* Where an answer depends on the other pictures of its pass, there is one pass at a time. */
static int count_workers(const struct xtrain *engine)
{
    const struct xt_session_plan *plan = &engine->plan.session;
    const struct xt_network *network = &engine->session.network;
    int most = threads_of(engine) < plan->batch ? threads_of(engine) : plan->batch;
    if (!plan->any_count || network->device.own_memory || network->over_batch || most < 1)
        return 1;
    return most < WORKERS_MOST ? most : WORKERS_MOST;
}

static enum xt_status build_worker(struct xtrain *engine, int index, struct xt_err *err)
{
    struct worker *worker = &engine->workers[index];
    int count = engine->worker_count;
    int threads = threads_of(engine) / count + (index < threads_of(engine) % count);
    int batch = (engine->batch + count - 1) / count;
    enum xt_status status = XT_OK;
    if (count > 1)
        status = xt_session_build_beside(&worker->session, &engine->session, &engine->settings,
                                         threads, batch < WORKER_BATCH ? batch : WORKER_BATCH, err);
    return status ? status
                  : xt_mem_calloc(&worker->pass, (size_t)engine->batch,
                                  sizeof(struct xtrain_answer *), "a batch of answers", err);
}

/* The shorter time of two, after those that warmed up. */
static enum xt_status time_lone(struct xtrain *engine, struct xt_err *err)
{
    struct xt_session *sessions[] = {&engine->workers[0].session, &engine->session};
    enum xt_status status = XT_OK;
    for (int i = 0; i < 4 && !status; i++) {
        double start = xt_thread_seconds();
        status = xt_session_run(sessions[i % 2], 1, err);
        double seconds = xt_thread_seconds() - start;
        engine->lone_seconds[i % 2] = i < 2 ? seconds : fmin(seconds, engine->lone_seconds[i % 2]);
    }
    return status;
}

static enum xt_status build(struct xtrain *engine, struct xt_err *err)
{
    struct xt_session_plan whole = engine->plan.session;
    engine->worker_count = count_workers(engine);
    whole.batch = engine->worker_count > 1 ? 1 : whole.batch;
    enum xt_status status = xt_session_build(&engine->session, &engine->settings, &whole, err);
    engine->batch =
        engine->worker_count > 1 ? engine->plan.session.batch : engine->session.network.batch;
    for (int i = 0; i < engine->worker_count && !status; i++)
        status = build_worker(engine, i, err);
    if (!status && engine->worker_count > 1)
        status = time_lone(engine, err);
    if (!engine->plan.queue)
        engine->plan.queue = 4 * engine->batch;
    if (engine->plan.queue < engine->batch)
        engine->plan.queue = engine->batch;
    return status;
}

/* Wakes one that can take from the queue, the first if it is idle; each wakes the next one for what
 * it does not take. */
static void wake_worker(struct xtrain *engine)
{
    for (int i = 0; i < WORKERS_MOST; i++)
        if (engine->workers[i].is_idle) {
            pthread_cond_signal(&engine->workers[i].wake);
            return;
        }
}

static void wait_until(struct worker *worker, double seconds)
{
    struct xtrain *engine = worker->engine;
    worker->is_idle = true;
    if (isinf(seconds)) {
        pthread_cond_wait(&worker->wake, &engine->lock);
    } else {
        struct timespec until = {.tv_sec = (time_t)seconds};
        until.tv_nsec = (long)((seconds - (double)until.tv_sec) * 1e9);
        pthread_cond_timedwait(&worker->wake, &engine->lock, &until);
    }
    worker->is_idle = false;
}

/* Whether the queue is to be computed now. */
static bool is_due(const struct xtrain *engine)
{
    return engine->queued >= engine->batch || engine->closing ||
           engine->first->number <= engine->flushed ||
           xt_thread_seconds() >= engine->first->since + engine->plan.wait;
}

/* All threads answer a lone picture sooner, unless other processes hold some of their CPUs: then
 * each op waits for the slowest. */
static bool is_for_all_threads(struct worker *worker)
{
    struct xtrain *engine = worker->engine;
    if (worker != engine->workers || engine->queued > 1 || engine->busy)
        return false;
    if (engine->lone_seconds[1] <= engine->lone_seconds[0])
        return true;
    engine->retries = (engine->retries + 1) % LONE_RETRY;
    return !engine->retries;
}

/* Chooses the session and the number of pictures for it: a fair part, where others are idle. */
static int choose(struct worker *worker)
{
    struct xtrain *engine = worker->engine;
    int takers = 1;
    worker->runs = &engine->session;
    if (engine->worker_count > 1 && !is_for_all_threads(worker))
        worker->runs = &worker->session;
    for (int i = 0; i < engine->worker_count; i++)
        takers += engine->workers[i].is_idle;
    return xt_session_take(worker->runs, (engine->queued + takers - 1) / takers);
}

/* The batch that the first one begins, of which other workers have their part. */
static void make_due(struct xtrain *engine)
{
    uint64_t last = engine->first->number + (uint64_t)engine->batch - 1;
    last = last < engine->sent ? last : engine->sent;
    engine->flushed = last > engine->flushed ? last : engine->flushed;
}

static int take(struct worker *worker)
{
    struct xtrain *engine = worker->engine;
    int most = engine->first ? choose(worker) : 0;
    int count = 0;
    if (engine->first)
        make_due(engine);
    while (count < most && engine->first) {
        struct xtrain_answer *answer = engine->first;
        engine->first = answer->next;
        answer->place = IN_PASS;
        worker->pass[count++] = answer;
    }
    if (!engine->first)
        engine->last = &engine->first;
    engine->queued -= count;
    engine->taken -= count;
    engine->busy += count ? worker->runs->network.device.threads : 0;
    if (engine->first)
        wake_worker(engine);
    pthread_cond_broadcast(&engine->to_callers);
    return count;
}

static bool has_threads(const struct worker *worker)
{
    const struct xtrain *engine = worker->engine;
    return engine->worker_count == 1 ||
           engine->busy + worker->session.network.device.threads <= threads_of(engine);
}

/* The size of the next batch; 0 when it is closed and the queue is empty. */
static int next_batch(struct worker *worker)
{
    struct xtrain *engine = worker->engine;
    pthread_mutex_lock(&engine->lock);
    while (engine->first ? !has_threads(worker) || !is_due(engine) : !engine->closing)
        wait_until(worker, engine->first && has_threads(worker)
                               ? engine->first->since + engine->plan.wait
                               : INFINITY);
    int count = take(worker);
    pthread_mutex_unlock(&engine->lock);
    return count;
}

/* Lets others have its threads. */
static void end_pass(struct worker *worker)
{
    struct xtrain *engine = worker->engine;
    pthread_mutex_lock(&engine->lock);
    engine->busy -= worker->runs->network.device.threads;
    if (engine->first)
        wake_worker(engine);
    pthread_mutex_unlock(&engine->lock);
}

static enum xt_status append_text(struct xtrain_answer *answer, const struct xt_str *text)
{
    return xt_str_append(&answer->texts, xt_str_get(text), text->length + 1, &answer->err);
}

static enum xt_status append_part(struct xtrain_answer *answer, const struct xt_network *network,
                                  int symbol)
{
    struct xt_str text = {0};
    enum xt_status status =
        network->task == XT_TASK_PLATES
            ? xt_alphabet_decode(network->alphabet, &symbol, 1, &text, &answer->err)
            : xt_network_class_text(network, symbol, &text, &answer->err);
    answer->part_at[answer->parts++] = answer->texts.length;
    if (!status)
        status = append_text(answer, &text);
    xt_str_clear(&text);
    return status;
}

static enum xt_status fill(struct xtrain_answer *answer, const struct xt_session *session,
                           int image)
{
    const struct xt_predictor *predictor = session->predictor;
    struct xt_decoded decoded;
    struct xt_str text = {0};
    enum xt_status status = xt_predictor_predict(session->predictor, image, &decoded, &answer->err);
    if (!status)
        status =
            predictor->class->text(predictor, decoded.symbols, decoded.length, &text, &answer->err);
    if (!status)
        status = append_text(answer, &text);
    for (int i = 0; !status && i < decoded.length; i++) {
        answer->part_confidence[i] = decoded.confidence[i];
        status = append_part(answer, &session->network, decoded.symbols[i]);
    }
    if (!status) {
        answer->confidence = decoded.probability;
        answer->rejected = xt_predictor_rejects(predictor, &decoded);
    }
    xt_str_clear(&text);
    return status;
}

/* A single long pass says little. */
static void note_lone(struct worker *worker, double seconds)
{
    struct xtrain *engine = worker->engine;
    double *recent = &engine->lone_seconds[worker->runs == &engine->session];
    *recent = seconds < *recent ? seconds : *recent + (fmin(seconds, 2 * *recent) - *recent) / 8;
}

static void compute(struct worker *worker, int count)
{
    struct xtrain *engine = worker->engine;
    struct xt_session *session = worker->runs;
    size_t bytes = xt_network_image_bytes(&session->network);
    struct xt_err err = {0};
    double start = xt_thread_seconds();
    for (int i = 0; i < count; i++)
        memcpy(session->pixels + (size_t)i * bytes, worker->pass[i]->pixels, bytes);
    enum xt_status status = xt_session_run(session, count, &err);
    for (int i = 0; i < count; i++)
        if (status)
            worker->pass[i]->err = err;
        else
            fill(worker->pass[i], session, i);
    double seconds = xt_thread_seconds() - start;
    if (count == 1 && worker == engine->workers)
        note_lone(worker, seconds);
    if (engine->plan.passed)
        engine->plan.passed(engine->plan.context, count, seconds);
}

static void hand_out(struct worker *worker, int count)
{
    struct xtrain *engine = worker->engine;
    for (int i = 0; i < count; i++) {
        struct xtrain_answer *answer = worker->pass[i];
        void (*done)(void *) = answer->done;
        void *context = answer->context;
        pthread_mutex_lock(&engine->lock);
        atomic_store(&answer->is_there, true);
        pthread_cond_broadcast(&engine->to_callers);
        pthread_mutex_unlock(&engine->lock);
        if (done)
            done(context);
    }
}

static void *work(void *argument)
{
    struct worker *worker = argument;
    for (int count; (count = next_batch(worker));) {
        compute(worker, count);
        end_pass(worker);
        hand_out(worker, count);
    }
    return NULL;
}

static enum xt_status start_others(struct xtrain *engine, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    engine->workers_started = 1;
    while (engine->workers_started < engine->worker_count && !status) {
        struct worker *worker = &engine->workers[engine->workers_started];
        status = xt_thread_start(&worker->thread, work, worker, "a thread that computes", err);
        engine->workers_started += !status;
    }
    return status;
}

/* All sessions are built, and all threads started, on the first worker's: the host's are not
 * affected. */
static void *work_first(void *argument)
{
    struct xtrain *engine = argument;
    struct xt_err err = {0};
    err.status = xt_session_open(&engine->session, &engine->settings, &err);
    enter(engine, OPEN, &err);
    if (!err.status && wait_for_plan(engine)) {
        err.status = build(engine, &err);
        if (!err.status)
            err.status = start_others(engine, &err);
        enter(engine, READY, &err);
        if (!err.status)
            work(&engine->workers[0]);
    }
    for (int i = 1; i < engine->workers_started; i++)
        pthread_join(engine->workers[i].thread, NULL);
    for (int i = 0; i < engine->worker_count; i++)
        xt_session_clear(&engine->workers[i].session);
    xt_session_clear(&engine->session);
    return NULL;
}

/* ---- opening and closing ---- */

static enum xt_status wait_for_stage(struct xtrain *engine, enum stage passing, struct xt_err *err)
{
    pthread_mutex_lock(&engine->lock);
    while (engine->stage == passing)
        pthread_cond_wait(&engine->to_callers, &engine->lock);
    enum xt_status status = engine->err.status;
    if (status)
        xt_err_set(err, status, "%s", engine->err.text);
    pthread_mutex_unlock(&engine->lock);
    return status;
}

static void init_locks(struct xtrain *engine)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&engine->lock, NULL);
    for (int i = 0; i < WORKERS_MOST; i++) {
        engine->workers[i].engine = engine;
        pthread_cond_init(&engine->workers[i].wake, &monotonic);
    }
    pthread_cond_init(&engine->to_callers, NULL);
    pthread_condattr_destroy(&monotonic);
}

static void destroy(struct xtrain *engine)
{
    while (engine->spares) {
        struct spare *spare = engine->spares;
        engine->spares = spare->next;
        xt_cutter_clear(&spare->cutter);
        free(spare);
    }
    pthread_cond_destroy(&engine->to_callers);
    for (int i = 0; i < WORKERS_MOST; i++) {
        pthread_cond_destroy(&engine->workers[i].wake);
        free(engine->workers[i].pass);
    }
    pthread_mutex_destroy(&engine->lock);
    free(engine);
}

enum xt_status xt_engine_open(struct xtrain **out, const struct xt_infer_settings *settings,
                              struct xt_err *err)
{
    struct xtrain *engine = NULL;
    *out = NULL;
    enum xt_status status = xt_mem_calloc(&engine, 1, sizeof *engine, "a network", err);
    if (status)
        return status;
    engine->settings = *settings;
    engine->last = &engine->first;
    init_locks(engine);
    status = xt_thread_start(&engine->workers[0].thread, work_first, engine,
                             "the thread that computes", err);
    if (status) {
        destroy(engine);
        return status;
    }
    status = wait_for_stage(engine, OPENING, err);
    if (status) {
        xtrain_close(engine);
        return status;
    }
    const struct xt_network *network = &engine->session.network;
    engine->size = (struct xt_feed_size){network->width, network->height, network->model->bgr};
    *out = engine;
    return XT_OK;
}

enum xt_status xt_engine_start(struct xtrain *engine, const struct xt_engine_plan *plan,
                               struct xt_err *err)
{
    pthread_mutex_lock(&engine->lock);
    engine->plan = *plan;
    engine->stage = BUILDING;
    pthread_cond_signal(&engine->workers[0].wake);
    pthread_mutex_unlock(&engine->lock);
    return wait_for_stage(engine, BUILDING, err);
}

void xtrain_close(struct xtrain *network)
{
    if (!network)
        return;
    pthread_mutex_lock(&network->lock);
    network->closing = true;
    for (int i = 0; i < WORKERS_MOST; i++)
        pthread_cond_signal(&network->workers[i].wake);
    pthread_mutex_unlock(&network->lock);
    pthread_join(network->workers[0].thread, NULL);
    destroy(network);
}

const struct xt_network *xt_engine_network(const struct xtrain *engine)
{
    return &engine->session.network;
}

int xt_engine_batch(const struct xtrain *engine)
{
    return engine->batch;
}

int xt_engine_waiting(struct xtrain *engine)
{
    pthread_mutex_lock(&engine->lock);
    int queued = engine->queued;
    pthread_mutex_unlock(&engine->lock);
    return queued;
}

/* ---- sending ---- */

static enum xt_status take_place(struct xtrain *engine, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    pthread_mutex_lock(&engine->lock);
    while (engine->taken >= engine->plan.queue && !engine->plan.refuse)
        pthread_cond_wait(&engine->to_callers, &engine->lock);
    if (engine->taken < engine->plan.queue)
        engine->taken++;
    else
        status = xt_err_set(err, (enum xt_status)XTRAIN_BUSY,
                            "%d pictures are waiting already, the most allowed: retry later",
                            engine->taken);
    pthread_mutex_unlock(&engine->lock);
    return status;
}

static void leave_place(struct xtrain *engine)
{
    pthread_mutex_lock(&engine->lock);
    engine->taken--;
    pthread_cond_broadcast(&engine->to_callers);
    pthread_mutex_unlock(&engine->lock);
}

static enum xt_status borrow_cutter(struct xtrain *engine, struct spare **out, struct xt_err *err)
{
    pthread_mutex_lock(&engine->lock);
    *out = engine->spares;
    if (*out)
        engine->spares = (*out)->next;
    pthread_mutex_unlock(&engine->lock);
    return *out ? XT_OK : xt_mem_calloc(out, 1, sizeof **out, "a decoder", err);
}

static void return_cutter(struct xtrain *engine, struct spare *spare)
{
    xt_cutter_trim(&spare->cutter);
    pthread_mutex_lock(&engine->lock);
    spare->next = engine->spares;
    engine->spares = spare;
    pthread_mutex_unlock(&engine->lock);
}

bool xt_engine_reserved_is_zero(void *const *reserved, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (reserved[i])
            return false;
    return true;
}

static enum xt_status read_region(const struct xtrain_image *image, struct xt_region *region,
                                  struct xt_err *err)
{
    *region = (struct xt_region){0};
    if (!xt_engine_reserved_is_zero(image->reserved, 8))
        return xt_err_set(err, XT_ERR_USAGE,
                          "struct xtrain_image: its reserved fields must be zero: clear it before "
                          "setting its fields");
    if (!image->region && image->region_numbers)
        return xt_err_set(err, XT_ERR_USAGE, "a region of %d numbers without the numbers",
                          image->region_numbers);
    if (!image->region)
        return XT_OK;
    region->count = image->region_numbers;
    if (region->count != 4 && region->count != 8)
        return xt_err_set(err, XT_ERR_USAGE, "a region has 4 or 8 numbers, not %d", region->count);
    for (int i = 0; i < region->count; i++)
        region->numbers[i] = image->region[i];
    return xt_region_check(region, err);
}

static enum xt_status read_pixels(const struct xtrain *engine, const struct xtrain_image *image,
                                  struct xt_pixels *out, struct xt_err *err)
{
    size_t width = (size_t)image->width * (image->pixels == XTRAIN_GREY ? 1 : 3);
    size_t stride = image->stride ? image->stride : width;
    if (image->width < 0 || image->height <= 0 || image->pixels < 0 ||
        image->pixels > XTRAIN_GREY || stride < width || stride > SIZE_MAX / (size_t)image->height)
        return xt_err_set(
            err, XT_ERR_USAGE,
            "pixels of %d x %d, rows %zu bytes apart, in order %d: not a valid picture",
            image->width, image->height, image->stride, image->pixels);
    if (image->size < stride * ((size_t)image->height - 1) + width)
        return xt_err_set(err, XT_ERR_USAGE,
                          "pixels of %d x %d, rows %zu bytes apart, take more than %zu bytes",
                          image->width, image->height, stride, image->size);
    *out = (struct xt_pixels){.bytes = image->bytes,
                              .width = image->width,
                              .height = image->height,
                              .stride = stride,
                              .grey = image->pixels == XTRAIN_GREY,
                              .is_swapped = (image->pixels == XTRAIN_BGR) != engine->size.bgr};
    return XT_OK;
}

static enum xt_status cut(const struct xtrain *engine, struct xt_cutter *cutter,
                          const struct xtrain_image *image, uint8_t *out, struct xt_err *err)
{
    struct xt_region region;
    struct xt_pixels pixels;
    enum xt_status status = read_region(image, &region, err);
    if (status)
        return status;
    if (!image->path && !image->bytes)
        return xt_err_set(err, XT_ERR_USAGE, "the image has neither a path nor bytes");
    if (image->path)
        return xt_cutter_file(cutter, &engine->size, image->path, &region, out, err);
    if (!image->width)
        return xt_cutter_encoded(cutter, &engine->size, image->bytes, image->size, "the image",
                                 &region, out, err);
    status = read_pixels(engine, image, &pixels, err);
    return status ? status : xt_cutter_pixels(cutter, &engine->size, &pixels, &region, out, err);
}

static void queue(struct xtrain *engine, struct xtrain_answer *answer)
{
    pthread_mutex_lock(&engine->lock);
    answer->since = xt_thread_seconds();
    answer->number = ++engine->sent;
    *engine->last = answer;
    engine->last = &answer->next;
    engine->queued++;
    wake_worker(engine);
    pthread_mutex_unlock(&engine->lock);
}

static enum xt_status make(struct xtrain *engine, const struct xtrain_image *image,
                           struct xtrain_answer **out, struct xt_err *err)
{
    struct xtrain_answer *answer = NULL;
    struct spare *spare = NULL;
    size_t bytes = (size_t)engine->size.width * (size_t)engine->size.height * 3;
    enum xt_status status = xt_mem_calloc(&answer, 1, sizeof *answer + bytes, "an image", err);
    if (!status)
        status = borrow_cutter(engine, &spare, err);
    if (!status) {
        spare->cutter.decoder.cpu_seconds = engine->plan.decode_seconds;
        status = cut(engine, &spare->cutter, image, answer->pixels, err);
        if (status == XT_ERR_DATA && spare->cutter.decoder.is_late)
            status = xt_err_set(err, (enum xt_status)XTRAIN_COSTLY,
                                "the image takes more than %g s to decode; send a smaller one",
                                engine->plan.decode_seconds);
        return_cutter(engine, spare);
    }
    if (status) {
        free(answer);
        return status;
    }
    answer->of = engine;
    answer->done = image->done;
    answer->context = image->context;
    *out = answer;
    return XT_OK;
}

void xt_engine_fail(const struct xt_err *err, struct xtrain_error *error)
{
    if (!error)
        return;
    error->status = (int)err->status;
    memcpy(error->text, err->text, sizeof error->text);
}
_Static_assert(sizeof((struct xt_err *)0)->text == sizeof((struct xtrain_error *)0)->text,
               "sentences are of one length");

enum xt_status xt_engine_err(const struct xtrain_error *error, struct xt_err *err)
{
    return xt_err_set(err, (enum xt_status)error->status, "%s", error->text);
}

int xtrain_send(struct xtrain *network, const struct xtrain_image *image,
                struct xtrain_answer **out, struct xtrain_error *error)
{
    struct xt_err err = {0};
    if (!network || !image || !out) {
        int wrong = (int)xt_err_set(&err, XT_ERR_USAGE,
                                    "xtrain_send needs a network, a picture and a place for the "
                                    "answer: one of them is NULL");
        xt_engine_fail(&err, error);
        return wrong;
    }
    *out = NULL;
    int status = (int)take_place(network, &err);
    if (!status) {
        status = (int)make(network, image, out, &err);
        if (status)
            leave_place(network);
    }
    if (status)
        xt_engine_fail(&err, error);
    else
        queue(network, *out);
    return status;
}

void xtrain_flush(struct xtrain *network)
{
    if (!network)
        return;
    pthread_mutex_lock(&network->lock);
    network->flushed = network->sent;
    wake_worker(network);
    pthread_mutex_unlock(&network->lock);
}

/* ---- answers ---- */

int xtrain_ready(const struct xtrain_answer *answer)
{
    return !answer || atomic_load(&answer->is_there);
}

int xtrain_wait(struct xtrain_answer *answer, struct xtrain_error *error)
{
    if (!answer) {
        struct xt_err err = {0};
        xt_err_set(&err, XT_ERR_USAGE, "xtrain_wait needs an answer: this one is NULL");
        xt_engine_fail(&err, error);
        return XTRAIN_USAGE;
    }
    if (!atomic_load(&answer->is_there)) {
        struct xtrain *engine = answer->of;
        pthread_mutex_lock(&engine->lock);
        while (!atomic_load(&answer->is_there))
            pthread_cond_wait(&engine->to_callers, &engine->lock);
        pthread_mutex_unlock(&engine->lock);
    }
    if (answer->err.status)
        xt_engine_fail(&answer->err, error);
    return (int)answer->err.status;
}

int xtrain_read(struct xtrain *network, const struct xtrain_image *image,
                struct xtrain_answer **out, struct xtrain_error *error)
{
    int status = xtrain_send(network, image, out, error);
    if (status)
        return status;
    status = xtrain_wait(*out, error);
    if (status) {
        xtrain_answer_free(*out);
        *out = NULL;
    }
    return status;
}

const char *xtrain_answer_text(const struct xtrain_answer *answer)
{
    return xt_str_get(&answer->texts);
}

double xtrain_answer_confidence(const struct xtrain_answer *answer)
{
    return answer->confidence;
}

int xtrain_answer_rejected(const struct xtrain_answer *answer)
{
    return answer->rejected;
}

int xtrain_answer_count(const struct xtrain_answer *answer)
{
    return answer->parts;
}

const char *xtrain_answer_part(const struct xtrain_answer *answer, int part)
{
    return part >= 0 && part < answer->parts ? answer->texts.data + answer->part_at[part] : "";
}

double xtrain_answer_part_confidence(const struct xtrain_answer *answer, int part)
{
    return part >= 0 && part < answer->parts ? (double)answer->part_confidence[part] : 0;
}

/* Removes it from the queue. */
static void withdraw(struct xtrain *engine, struct xtrain_answer *answer)
{
    struct xtrain_answer **at = &engine->first;
    while (*at != answer)
        at = &(*at)->next;
    *at = answer->next;
    if (!answer->next)
        engine->last = at;
    engine->queued--;
    engine->taken--;
    pthread_cond_broadcast(&engine->to_callers);
}

void xtrain_answer_free(struct xtrain_answer *answer)
{
    if (!answer)
        return;
    if (!atomic_load(&answer->is_there)) {
        struct xtrain *engine = answer->of;
        pthread_mutex_lock(&engine->lock);
        if (answer->place == QUEUED)
            withdraw(engine, answer);
        else
            while (!atomic_load(&answer->is_there))
                pthread_cond_wait(&engine->to_callers, &engine->lock);
        pthread_mutex_unlock(&engine->lock);
    }
    xt_str_clear(&answer->texts);
    free(answer);
}
