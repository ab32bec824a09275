#include "infer/feed.h"

#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/system/numa.h"
#include "base/system/thread.h"

enum { SLOTS = 4 };

/* Without --workers: at first half the number of threads, but at most 8 and at least one on each
 * NUMA node. Too few would burden only a few cores, for which all others then wait. */
static void choose_workers(const struct xt_data_settings *settings, struct xt_loader_config *config)
{
    enum { FIRST_MOST = 8 };
    struct xt_numa numa;
    config->workers = config->workers_most = settings->workers;
    if (settings->workers > 0)
        return;
    xt_numa_read(&numa, NULL);
    config->workers_most = xt_thread_available(NULL);
    int half = (config->workers_most + 1) / 2;
    half = half < FIRST_MOST ? half : FIRST_MOST;
    config->workers = half > numa.count ? half : numa.count;
}

int xt_feed_slots(const struct xt_data_settings *settings)
{
    return settings->slots > 0 ? settings->slots : SLOTS;
}

struct xt_loader_config xt_feed_config(const struct xt_data_settings *settings,
                                       const struct xt_feed_size *size, bool training)
{
    struct xt_loader_config config = {
        .width = size->width,
        .height = size->height,
        .strict = settings->strict,
        .seed = settings->seed,
        .order = size->bgr ? XT_PIXEL_BGR : XT_PIXEL_RGB,
    };
    choose_workers(settings, &config);
    if (settings->fit == XT_IMAGES_CROP)
        config.fit = training ? XT_FIT_RANDOM_CROP : XT_FIT_CENTRE_CROP;
    if (!training)
        return config;
    config.shuffle = config.drop_last = config.repeat = true;
    config.augment = settings->augment;
    config.flip = settings->flip;
    config.jitter = (float)settings->jitter;
    config.hue = (float)settings->hue;
    config.mixup = settings->mixup;
    return config;
}

/* The limit of the cache in memory, in bytes. */
static uint64_t cache_limit(const struct xt_data_settings *settings)
{
    const uint64_t usual = (uint64_t)256 << 20; /* of files */
    uint64_t half = xt_thread_memory_available() / 2;
    if (settings->processes)
        half /= (uint64_t)settings->processes;
    if (settings->cache_limit)
        return (uint64_t)settings->cache_limit << 20;
    return settings->cache == XT_CACHE_CHOICE_FILES && half > usual ? usual : half;
}

double xt_feed_cache_bytes(const struct xt_data_settings *settings,
                           const struct xt_loader_config *config)
{
    double limit = (double)cache_limit(settings);
    double wanted = 0;
    if (settings->cache == XT_CACHE_CHOICE_RAM)
        wanted = 3.0 * config->width * config->height * (double)config->source->count;
    if (settings->cache == XT_CACHE_CHOICE_FILES)
        wanted = xt_source_small_bytes(config->source);
    return wanted < limit ? wanted : limit;
}

enum xt_status xt_feed_open_cache(const struct xt_data_settings *settings, const char *path,
                                  struct xt_source *source, struct xt_loader_config *config,
                                  struct xt_cache **out, struct xt_err *err)
{
    *out = NULL;
    bool disk = settings->cache == XT_CACHE_CHOICE_DISK;
    if (settings->cache_file && !disk)
        return xt_err_set(err, XT_ERR_USAGE,
                          "--image-cache-file is the file of --image-cache disk; give both");
    if (settings->cache == XT_CACHE_CHOICE_OFF)
        return XT_OK;
    if (settings->cache == XT_CACHE_CHOICE_FILES)
        return xt_source_cache(source, cache_limit(settings), err);
    if (settings->cache_file)
        path = settings->cache_file;
    struct xt_cache_config cache = {
        .source = config->source,
        .kind = disk ? XT_CACHE_DISK : XT_CACHE_RAM,
        .path = path,
        .shared = settings->cache_file != NULL || settings->cache_is_made,
        .limit = (uint64_t)settings->cache_limit << 20,
        .width = config->width,
        .height = config->height,
        .fit = config->fit,
        .order = config->order,
    };
    enum xt_status status = xt_cache_create(out, &cache, err);
    if (status)
        return status;
    size_t room = xt_cache_room(*out);
    xt_log_note("decoded images are cached in %s: room for %zu of %zu (%.0f MB)",
                disk ? path : "memory", room, config->source->count,
                1e-6 * (double)room * config->width * config->height * 3);
    config->cache = *out;
    return XT_OK;
}

/* ---- transfer to the device ---- */

/* What the step needs of the batch in a buffer, once its slot has gone back to the loader. */
struct stage {
    struct xt_batch batch;
    int *labels;
    int *label_lengths;
    size_t *indices;
};

struct xt_feed {
    struct xt_upload *upload;
    struct xt_loader *loader;
    int rows; /* of a batch */
    struct stage stages[XT_UPLOAD_BUFFERS];
    struct xt_batch in_slot; /* the last one whose upload was started */
    bool threaded;
    pthread_t thread;
    double returned;    /* time when the consumer got its last batch */
    double computed;    /* seconds of the steps timed so far, */
    int64_t step_count; /* and their number */
    int requested;      /* batches requested while steps are timed */
    bool training;
    bool fits_workers; /* workers may be added if steps need them */
    double waits;      /* seconds the consumer waited for the thread; used by the consumer only */
    int64_t taken;     /* batches, by the consumer; used by it only */

    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t room;  /* a buffer was released, or the feed stops */
    pthread_cond_t ready; /* a batch was uploaded, or there are no more */
    int64_t uploaded;     /* batches */
    int64_t released;
    bool stop;
    bool end;
    struct xt_err failure; /* its status tells whether it is set */
};

/* Starts the upload of the loader's next batch into buffer number % XT_UPLOAD_BUFFERS. */
static enum xt_status upload_next(struct xt_feed *feed, int64_t number, bool *end, double *waited,
                                  struct xt_err *err)
{
    int buffer = (int)(number % XT_UPLOAD_BUFFERS);
    struct stage *stage = &feed->stages[buffer];
    struct xt_batch batch;
    enum xt_status status = xt_loader_next(feed->loader, &batch, end, waited, err);
    if (status || *end)
        return status;
    status = xt_upload_start(feed->upload, batch.slot, buffer, err);
    size_t rows = (size_t)feed->rows;
    memcpy(stage->labels, batch.labels, rows * XT_LABEL_MAX * sizeof *stage->labels);
    memcpy(stage->label_lengths, batch.label_lengths, rows * sizeof *stage->label_lengths);
    memcpy(stage->indices, batch.indices, rows * sizeof *stage->indices);
    feed->in_slot = batch;
    stage->batch = batch;
    stage->batch.pixels = NULL;
    stage->batch.labels = stage->labels;
    stage->batch.label_lengths = stage->label_lengths;
    stage->batch.indices = stage->indices;
    return status;
}

/* Gives the slot back once it is read. */
static enum xt_status end_upload(struct xt_feed *feed, int64_t number, struct xt_err *err)
{
    enum xt_status status = xt_upload_finish(feed->upload, (int)(number % XT_UPLOAD_BUFFERS), err);
    xt_loader_release(feed->loader, &feed->in_slot);
    return status;
}

/* False where the feed stops. */
static bool wait_for_room(struct xt_feed *feed, int64_t number)
{
    pthread_mutex_lock(&feed->lock);
    while (!feed->stop && number - feed->released >= XT_UPLOAD_BUFFERS)
        pthread_cond_wait(&feed->room, &feed->lock);
    bool stop = feed->stop;
    pthread_mutex_unlock(&feed->lock);
    return !stop;
}

static void tell(struct xt_feed *feed, bool uploaded, bool end, const struct xt_err *err)
{
    pthread_mutex_lock(&feed->lock);
    feed->uploaded += uploaded;
    feed->end = end;
    feed->failure = *err;
    pthread_cond_signal(&feed->ready);
    pthread_mutex_unlock(&feed->lock);
}

/* The step may begin while its batch is on its way: the device waits for that. */
static void *transfer(void *argument)
{
    struct xt_feed *feed = argument;
    enum xt_status status = XT_OK;
    bool end = false;
    for (int64_t number = 0; !status && !end && wait_for_room(feed, number); number++) {
        struct xt_err err = {0};
        status = upload_next(feed, number, &end, NULL, &err);
        tell(feed, !status && !end, end, &err);
        if (!status && !end)
            status = end_upload(feed, number, &err);
        if (err.status)
            tell(feed, false, end, &err);
    }
    return NULL;
}

static enum xt_status create_stages(struct xt_feed *feed, struct xt_err *err)
{
    static const char what[] = "a batch's labels";
    size_t rows = (size_t)feed->rows;
    enum xt_status status = XT_OK;
    for (int i = 0; i < XT_UPLOAD_BUFFERS && !status; i++) {
        struct stage *stage = &feed->stages[i];
        status =
            xt_mem_calloc(&stage->labels, rows * XT_LABEL_MAX, sizeof *stage->labels, what, err);
        if (!status)
            status =
                xt_mem_calloc(&stage->label_lengths, rows, sizeof *stage->label_lengths, what, err);
        if (!status)
            status = xt_mem_calloc(&stage->indices, rows, sizeof *stage->indices, what, err);
    }
    return status;
}

enum xt_status xt_feed_create(struct xt_feed **out, struct xt_upload *upload,
                              const struct xt_loader_config *config, bool synchronous,
                              struct xt_err *err)
{
    *out = NULL;
    struct xt_feed *feed = NULL;
    enum xt_status status = xt_mem_calloc(&feed, 1, sizeof *feed, "the feed of batches", err);
    if (status)
        return status;
    feed->upload = upload;
    feed->rows = xt_loader_rows(config);
    pthread_mutex_init(&feed->lock, NULL);
    pthread_cond_init(&feed->room, NULL);
    pthread_cond_init(&feed->ready, NULL);
    struct xt_loader_config own = *config;
    own.slots = upload->count;
    own.slot_pixels = upload->pixels;
    feed->training = config->repeat;
    feed->fits_workers = config->workers_most > config->workers;
    status = xt_loader_create(&feed->loader, &own, err);
    if (!status && upload->transfers)
        status = create_stages(feed, err);
    if (!status && upload->transfers && !synchronous) {
        status = xt_thread_start(&feed->thread, transfer, feed, "the transfer thread", err);
        feed->threaded = !status;
    }
    if (status)
        xt_feed_destroy(feed);
    else
        *out = feed;
    return status;
}

void xt_feed_destroy(struct xt_feed *feed)
{
    if (!feed)
        return;
    if (feed->threaded) {
        pthread_mutex_lock(&feed->lock);
        feed->stop = true;
        pthread_cond_signal(&feed->room);
        pthread_mutex_unlock(&feed->lock);
        /* It may wait for a batch being decoded; the loader's threads still run. */
        pthread_join(feed->thread, NULL);
    }
    xt_loader_destroy(feed->loader);
    for (int i = 0; i < XT_UPLOAD_BUFFERS; i++) {
        free(feed->stages[i].labels);
        free(feed->stages[i].label_lengths);
        free(feed->stages[i].indices);
    }
    pthread_cond_destroy(&feed->ready);
    pthread_cond_destroy(&feed->room);
    pthread_mutex_destroy(&feed->lock);
    free(feed);
}

/* Waits for the transfer thread's next batch. */
static enum xt_status await(struct xt_feed *feed, bool *end, double *waited, struct xt_err *err)
{
    double start = xt_thread_seconds();
    pthread_mutex_lock(&feed->lock);
    while (!feed->failure.status && !feed->end && feed->uploaded == feed->taken)
        pthread_cond_wait(&feed->ready, &feed->lock);
    enum xt_status status = feed->failure.status;
    if (status && err)
        *err = feed->failure;
    *end = feed->uploaded == feed->taken;
    pthread_mutex_unlock(&feed->lock);
    *waited = xt_thread_seconds() - start;
    feed->waits += *waited;
    return status;
}

/* Sets the number of workers so that they decode a quarter more images than the steps consume. */
static void fit_workers(struct xt_feed *feed)
{
    const double spare = 1.25;
    double need = (double)feed->rows * (double)feed->step_count / feed->computed;
    double rate = xt_loader_rate(feed->loader);
    int before = xt_loader_workers(feed->loader);
    double wanted = rate > 0 ? ceil(spare * need / rate) : before;
    if (wanted > before)
        xt_loader_grow(feed->loader, wanted < INT_MAX ? (int)wanted : INT_MAX);
    int now = xt_loader_workers(feed->loader);
    const struct xt_counted threads = xt_count(now, "thread");
    if (now > before && feed->training)
        xt_log_note("loader: %s from here on; each decodes %.0f images/s, the steps consume %.0f",
                    threads.text, rate, need);
    else
        xt_log_detail("loader: %s, of %d that this process may use; each decodes %.0f images/s, "
                      "the steps consume %.0f",
                      threads.text, xt_thread_available(NULL), rate, need);
}

/* The time between two batches is the step's. The first steps (warm-up) are not timed; the number
 * of workers is fitted three times, as caches fill and clocks settle. */
static void time_step(struct xt_feed *feed)
{
    enum { FIRST = 3, EARLY = 4, MIDDLE = 16, LAST = 64 };
    if (!feed->fits_workers || feed->step_count >= LAST || feed->requested++ < FIRST)
        return;
    feed->computed += xt_thread_seconds() - feed->returned;
    feed->step_count++;
    if (feed->step_count == EARLY || feed->step_count == MIDDLE || feed->step_count == LAST)
        fit_workers(feed);
}

enum xt_status xt_feed_next(struct xt_feed *feed, struct xt_feed_batch *out, bool *end,
                            double *waited, struct xt_err *err)
{
    double seconds = 0;
    time_step(feed);
    *out = (struct xt_feed_batch){.uploaded = NULL};
    enum xt_status status;
    if (!feed->upload->transfers)
        status = xt_loader_next(feed->loader, &out->host, end, &seconds, err);
    else if (feed->threaded)
        status = await(feed, end, &seconds, err);
    else if (!(status = upload_next(feed, feed->taken, end, &seconds, err)) && !*end)
        status = end_upload(feed, feed->taken, err);
    if (waited)
        *waited = seconds;
    feed->returned = xt_thread_seconds();
    if (status || *end || !feed->upload->transfers)
        return status;
    int buffer = (int)(feed->taken++ % XT_UPLOAD_BUFFERS);
    out->host = feed->stages[buffer].batch;
    out->uploaded = &feed->upload->buffers[buffer];
    return xt_upload_order(feed->upload, buffer, err);
}

void xt_feed_release(struct xt_feed *feed, const struct xt_feed_batch *batch)
{
    if (!batch->uploaded) {
        xt_loader_release(feed->loader, &batch->host);
        return;
    }
    pthread_mutex_lock(&feed->lock);
    feed->released++;
    pthread_cond_signal(&feed->room);
    pthread_mutex_unlock(&feed->lock);
}

struct xt_loader *xt_feed_loader(struct xt_feed *feed)
{
    return feed->loader;
}

void xt_feed_note_waits(struct xt_feed *feed, const struct xt_loader_config *config, double seconds)
{
    const double noticeable = 0.05;
    double steps = 0;
    double workers = 0;
    if (!feed || seconds <= 0)
        return;
    xt_loader_waits(feed->loader, feed->threaded ? NULL : &steps, &workers);
    if (feed->threaded)
        steps = feed->waits;
    bool can_cache = !config->cache && config->fit != XT_FIT_RANDOM_CROP;
    if (steps > noticeable * seconds)
        xt_log_note("loader-bound: steps waited for images %.0f %% of the time; more --workers "
                    "(now %d)%s would help",
                    100 * steps / seconds, xt_loader_workers(feed->loader),
                    can_cache ? ", or --image-cache ram with several epochs," : "");
    else
        xt_log_detail("compute-bound: steps waited for images %.1f %% of the time, workers for "
                      "steps %.0f %%; more --workers would not help",
                      100 * steps / seconds, 100 * workers / seconds);
}
