#include "cli/bench/upload.h"

#include <pthread.h>
#include <string.h>

#include "base/system/stop.h"
#include "base/system/thread.h"
#include "device/upload.h"

enum { SLOTS = 2, ROUNDS = 6, WORK_MOST = 1000 };
static const double turn_seconds = 0.15;

struct bench {
    struct xt_device *device;
    struct xt_upload ways[2]; /* pinned, pageable */
    struct xt_device_memory floats;
    struct xt_transfer work; /* from a slot's buffer to the floats */
    int repeats;             /* of the work, in each step */
};

/* A thread that uploads while the step's work runs; both synchronise before and after. */
struct mover {
    pthread_t thread;
    pthread_barrier_t meeting;
    struct xt_upload *upload;
    int step; /* whose batch to upload; -1: stop */
    struct xt_err err;
};

static enum xt_status compute(const struct bench *bench, const struct xt_upload *upload, int step,
                              struct xt_err *err)
{
    struct xt_transfer work = bench->work;
    work.from = &upload->buffers[step % XT_UPLOAD_BUFFERS];
    enum xt_status status = XT_OK;
    for (int i = 0; i < bench->repeats && !status; i++)
        status = xt_transfer_run(&work, NULL, err);
    if (!status)
        status = xt_dnnl_check(xt_dnnl.stream_wait(bench->device->stream), "the work beside", err);
    return status;
}

static enum xt_status move(struct xt_upload *upload, int step, struct xt_err *err)
{
    return xt_upload_move(upload, step % SLOTS, step % XT_UPLOAD_BUFFERS, err);
}

static void *move_on(void *argument)
{
    struct mover *mover = argument;
    for (;;) {
        pthread_barrier_wait(&mover->meeting);
        if (mover->step < 0)
            return NULL;
        move(mover->upload, mover->step, &mover->err);
        pthread_barrier_wait(&mover->meeting);
    }
}

/* Runs steps for one turn; each batch is uploaded while the previous one is computed. */
static enum xt_status run_overlapped(const struct bench *bench, struct xt_upload *upload,
                                     int *steps, struct xt_err *err)
{
    struct mover mover = {.upload = upload};
    enum xt_status status = move(upload, 0, err);
    if (status)
        return status;
    pthread_barrier_init(&mover.meeting, NULL, 2);
    if (pthread_create(&mover.thread, NULL, move_on, &mover)) {
        pthread_barrier_destroy(&mover.meeting);
        return xt_err_set(err, XT_ERR_RUN, "cannot start an upload thread");
    }
    double end = xt_thread_seconds() + turn_seconds;
    for (; !status && xt_thread_seconds() < end; ++*steps) {
        mover.step = *steps + 1;
        pthread_barrier_wait(&mover.meeting);
        status = compute(bench, upload, *steps, err);
        pthread_barrier_wait(&mover.meeting);
        if (!status && mover.err.status) {
            *err = mover.err;
            status = err->status;
        }
    }
    mover.step = -1;
    pthread_barrier_wait(&mover.meeting);
    pthread_join(mover.thread, NULL);
    pthread_barrier_destroy(&mover.meeting);
    return status;
}

static enum xt_status run_in_turn(const struct bench *bench, struct xt_upload *upload, int *steps,
                                  struct xt_err *err)
{
    double end = xt_thread_seconds() + turn_seconds;
    enum xt_status status = XT_OK;
    for (; !status && xt_thread_seconds() < end; ++*steps) {
        status = move(upload, *steps, err);
        if (!status)
            status = compute(bench, upload, *steps, err);
    }
    return status;
}

/* Times one upload and one piece of work in isolation, and derives how many pieces a step has. */
static enum xt_status calibrate(struct bench *bench, double *upload_s, double *compute_s,
                                struct xt_err *err)
{
    enum { TIMES = 20 };
    struct xt_upload *upload = &bench->ways[0];
    enum xt_status status = XT_OK;
    double start = 0;
    *upload_s = *compute_s = 1e9;
    bench->repeats = 1;
    for (int i = 0; i < TIMES && !status; i++) {
        start = xt_thread_seconds();
        status = move(upload, i, err);
        double moved = xt_thread_seconds();
        if (!status)
            status = compute(bench, upload, i, err);
        double done = xt_thread_seconds();
        *upload_s = moved - start < *upload_s ? moved - start : *upload_s;
        *compute_s = done - moved < *compute_s ? done - moved : *compute_s;
    }
    double pieces = *upload_s / *compute_s;
    bench->repeats = pieces > WORK_MOST ? WORK_MOST : pieces < 1 ? 1 : (int)(pieces + 0.5);
    *compute_s *= bench->repeats;
    return status;
}

static enum xt_status measure(struct bench *bench, struct xt_bench_upload *out, struct xt_err *err)
{
    double seconds[XT_BENCH_UPLOAD_ROWS] = {0};
    double steps[XT_BENCH_UPLOAD_ROWS] = {0};
    enum xt_status status = calibrate(bench, &out->upload_s, &out->compute_s, err);
    for (int turn = 0; turn < ROUNDS * XT_BENCH_UPLOAD_ROWS && !status; turn++) {
        int row = turn % XT_BENCH_UPLOAD_ROWS;
        struct xt_upload *upload = &bench->ways[out->rows[row].pageable];
        int done = 0;
        double start = xt_thread_seconds();
        status = xt_stop_check(err, "before all uploads were timed");
        if (status)
            break;
        status = out->rows[row].overlapped ? run_overlapped(bench, upload, &done, err)
                                           : run_in_turn(bench, upload, &done, err);
        /* The first round starts with cold caches. */
        if (turn < XT_BENCH_UPLOAD_ROWS)
            continue;
        seconds[row] += xt_thread_seconds() - start;
        steps[row] += done;
    }
    for (int row = 0; row < XT_BENCH_UPLOAD_ROWS && !status; row++)
        out->rows[row].bytes_per_s = steps[row] / seconds[row] * (double)bench->ways[0].bytes;
    return status;
}

static enum xt_status prepare(struct bench *bench, const struct xt_upload_config *config,
                              struct xt_err *err)
{
    const dnnl_dims_t dims = {config->batch, 3, config->height, config->width};
    dnnl_memory_desc_t md = NULL;
    enum xt_status status = XT_OK;
    for (int i = 0; i < 2 && !status; i++) {
        struct xt_upload_config way = *config;
        way.pageable = i == 1;
        status = xt_upload_init(&bench->ways[i], &way, err);
        for (int slot = 0; slot < SLOTS && !status; slot++)
            memset(bench->ways[i].pixels[slot], 0x55, bench->ways[i].bytes);
    }
    if (!status)
        status =
            xt_dnnl_check(xt_dnnl.memory_desc_create_with_tag(&md, 4, dims, dnnl_f32, dnnl_acdb),
                          "the format of a batch in float32", err);
    if (!status)
        status = xt_device_memory_create(config->device, md, XT_ON_DEVICE, "a batch in float32",
                                         &bench->floats, err);
    if (!status)
        status = xt_transfer_create(config->device, &bench->ways[0].buffers[0], &bench->floats,
                                    XT_CAUSE_OTHER, &bench->work, err);
    if (md)
        xt_dnnl.memory_desc_destroy(md);
    return status;
}

enum xt_status xt_bench_upload(struct xt_bench_upload *out, struct xt_device *device, int batch,
                               int height, int width, struct xt_err *err)
{
    const struct xt_upload_config config = {
        .device = device, .slots = SLOTS, .batch = batch, .height = height, .width = width};
    struct bench bench = {.device = device};
    *out = (struct xt_bench_upload){.rows = {{.pageable = false, .overlapped = false},
                                             {.pageable = false, .overlapped = true},
                                             {.pageable = true, .overlapped = false},
                                             {.pageable = true, .overlapped = true}}};
    enum xt_status status = prepare(&bench, &config, err);
    if (!status)
        out->slots = xt_pointer_ask(device->engine, bench.ways[0].pixels[0]);
    if (!status)
        status = measure(&bench, out, err);
    for (int row = 0; row < XT_BENCH_UPLOAD_ROWS && !status; row++)
        out->rows[row].images_per_s =
            out->rows[row].bytes_per_s / (double)bench.ways[0].bytes * batch;
    xt_transfer_destroy(&bench.work);
    xt_device_memory_destroy(&bench.floats);
    for (int i = 0; i < 2; i++)
        xt_upload_clear(&bench.ways[i]);
    return status;
}
