#include "cli/bench/infer.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/rng.h"
#include "base/system/stop.h"
#include "base/system/thread.h"
#include "cli/bench/cpu_share.h"
#include "infer/network/network_build.h"

enum { WARM_UP = 2, IMAGENET_CLASSES = 1000, REPEATS_MAX = 10000 };
/* A sample lasts at least this long, so that clock resolution and single interruptions matter
 * little. */
static const double sample_seconds = 0.02;

/* In a pass, only a slice of a tensor may be in memory. So the convolutions are timed in a network
 * of their own, run op by op, whose tensors one pass has filled. */
struct work {
    struct xt_network network;
    struct xt_network lower_bound;
    uint8_t *pixels;
    double *pass; /* [samples] */
    double *conv;
    int samples;
};

static enum xt_status open_network(struct xt_network *network,
                                   const struct xt_infer_settings *settings, struct xt_err *err)
{
    enum xt_status status = xt_network_open(network, &settings->network, &settings->device, err);
    network->seed = settings->data.seed;
    if (!status && network->task == XT_TASK_CLASSES && !network->has_weights)
        network->classes = settings->network.classes ? settings->network.classes : IMAGENET_CLASSES;
    return status ? status : xt_network_build(network, &settings->network, 1, false, err);
}

static enum xt_status fill_pixels(struct work *work, int batch, struct xt_err *err)
{
    const struct xt_network *network = &work->network;
    size_t count = (size_t)batch * xt_network_image_bytes(network);
    free(work->pixels);
    work->pixels = NULL;
    enum xt_status status = xt_mem_aligned(&work->pixels, count, 1, "a batch of images", err);
    for (size_t i = 0; i < count && !status; i++)
        work->pixels[i] = (uint8_t)xt_rng_at(0, 0, i);
    return status;
}

static enum xt_status forward(const struct work *work, struct xt_network *network,
                              struct xt_err *err)
{
    network->graph->pass = (struct xt_graph_pass){.pixels = work->pixels, .count = network->batch};
    enum xt_status stop = xt_stop_check(err, "before all passes were timed");
    return stop ? stop : xt_graph_forward(network->graph, err);
}

static enum xt_status run_pass(struct work *work, struct xt_err *err)
{
    return forward(work, &work->network, err);
}

static enum xt_status run_convolutions(struct work *work, struct xt_err *err)
{
    return xt_graph_convolutions_alone(work->lower_bound.graph, false, err);
}

/* Finds the tensors' ranges for int8. */
static enum xt_status find_ranges(struct work *work, struct xt_err *err)
{
    struct xt_network *network = &work->network;
    struct xt_recording *recording = NULL;
    enum xt_status status = xt_recording_create(&recording, err);
    network->graph->recording = recording;
    if (!status)
        status = run_pass(work, err);
    if (!status)
        status = xt_recording_ranges(recording, network->graph, &network->ranges, err);
    network->graph->recording = NULL;
    xt_recording_destroy(recording);
    return status;
}

/* Builds the graphs of one run; for int8 first the one that finds the ranges. */
static enum xt_status build(struct work *work, const struct xt_network_settings *settings,
                            const struct xt_bench_infer_run *run, struct xt_err *err)
{
    struct xt_network_settings own = *settings;
    own.amp = run->amp;
    own.fuse = run->fuse;
    work->network.ranges = (struct xt_ranges){0};
    enum xt_status status = xt_network_rebuild(&work->network, &own, run->batch, err);
    if (!status && run->amp == XT_AMP_INT8)
        status = find_ranges(work, err);
    if (!status && run->amp == XT_AMP_INT8)
        status = xt_network_rebuild(&work->network, &own, run->batch, err);
    own.lower_bound = true;
    work->lower_bound.ranges = work->network.ranges;
    if (!status)
        status = xt_network_rebuild(&work->lower_bound, &own, run->batch, err);
    return status ? status : forward(work, &work->lower_bound, err);
}

typedef enum xt_status work_function(struct work *work, struct xt_err *err);

/* The mean of `repeats` consecutive runs. */
static enum xt_status time_one(struct work *work, work_function *function, int repeats,
                               double *seconds, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    double start = xt_thread_seconds();
    for (int i = 0; i < repeats && !status; i++)
        status = function(work, err);
    *seconds = (xt_thread_seconds() - start) / repeats;
    return status;
}

static enum xt_status find_repeats(struct work *work, int *repeats, struct xt_err *err)
{
    double pass = 0;
    double conv = 0;
    enum xt_status status = XT_OK;
    for (int i = 0; i < WARM_UP && !status; i++) {
        status = time_one(work, run_pass, 1, &pass, err);
        if (!status)
            status = time_one(work, run_convolutions, 1, &conv, err);
    }
    double wanted = pass > 0 ? sample_seconds / pass : 1;
    *repeats = wanted < 1 ? 1 : wanted > REPEATS_MAX ? REPEATS_MAX : (int)wanted + 1;
    return status;
}

static enum xt_status sum_up(struct work *work, struct xt_bench_infer_run *run, int passes,
                             struct xt_err *err)
{
    const struct xt_graph *graph = work->network.graph;
    enum xt_status status =
        xt_mem_calloc(&run->ops, (size_t)graph->op_count, sizeof *run->ops, "the profile", err);
    if (status)
        return status;
    run->op_count = graph->op_count;
    for (int i = 0; i < graph->op_count; i++) {
        const struct xt_op *op = graph->ops[i];
        run->ops[i] =
            (struct xt_bench_infer_op){.dtype = op->dtype, .seconds = op->seconds[0] / passes};
        snprintf(run->ops[i].name, sizeof run->ops[i].name, "%s", op->name);
        snprintf(run->ops[i].kind, sizeof run->ops[i].kind, "%s", xt_op_kind_name(op));
    }
    run->pass_s = xt_bench_median(work->pass, work->samples);
    run->conv_s = xt_bench_median(work->conv, work->samples);
    return XT_OK;
}

static enum xt_status measure(struct work *work, struct xt_bench_infer_run *run, struct xt_err *err)
{
    struct xt_graph *graph = work->network.graph;
    int repeats = 1;
    enum xt_status status = find_repeats(work, &repeats, err);
    struct xt_cpu_time before = xt_cpu_time();
    for (int i = 0; i < work->samples && !status; i++) {
        graph->profile = true;
        status = time_one(work, run_pass, repeats, &work->pass[i], err);
        graph->profile = false;
        if (!status)
            status = time_one(work, run_convolutions, repeats, &work->conv[i], err);
    }
    run->others = xt_cpu_share_of_others(&before);
    return status ? status : sum_up(work, run, work->samples * repeats, err);
}

enum xt_status xt_bench_infer(struct xt_bench_infer *bench,
                              const struct xt_infer_settings *settings, int samples,
                              const struct xt_bench_observer *observer, struct xt_err *err)
{
    struct work work = {.samples = samples};
    struct xt_infer_settings same = *settings;
    enum xt_status status = open_network(&work.network, settings, err);
    same.device.threads = work.network.device.threads;
    if (!status)
        status = open_network(&work.lower_bound, &same, err);
    if (!status)
        status = xt_mem_calloc(&work.pass, (size_t)samples, sizeof(double), "samples", err);
    if (!status)
        status = xt_mem_calloc(&work.conv, (size_t)samples, sizeof(double), "samples", err);
    for (int i = 0; i < bench->count && !status; i++) {
        struct xt_bench_infer_run *run = &bench->runs[i];
        if (observer->progress)
            observer->progress(observer->context, i, bench->count);
        status = fill_pixels(&work, run->batch, err);
        if (!status)
            status = build(&work, &same.network, run, err);
        if (!status)
            status = measure(&work, run, err);
    }
    snprintf(bench->device, sizeof bench->device, "%s", work.network.device.name);
    bench->threads = work.network.device.threads;
    bench->classes = work.network.classes;
    bench->width = work.network.width;
    bench->height = work.network.height;
    free(work.pixels);
    free(work.pass);
    free(work.conv);
    xt_network_clear(&work.network);
    xt_network_clear(&work.lower_bound);
    return status;
}
