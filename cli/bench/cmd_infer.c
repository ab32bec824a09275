/* xtrain bench infer: the time of an inference pass in each type, compared with its lower bound,
 * the network's convolutions. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "cli/progress.h"
#include "cli/json/result.h"
#include "cli/report.h"
#include "device/device.h"
#include "device/dnnl.h"
#include "models/registry.h"
#include "cli/bench/infer.h"
#include "cli/bench/cpu_share.h"

enum { SAMPLES = 12, SAMPLES_MAX = 100000 };

/* The types that are timed at each batch. */
static const struct {
    const char *name;
    enum xt_amp amp;
    bool fuse;
} types[] = {
    {"f32", XT_AMP_OFF, false},
    {"fused f32", XT_AMP_OFF, true},
    {"fused bf16", XT_AMP_BF16, true},
    {"fused int8", XT_AMP_INT8, true},
};
enum { TYPES = sizeof types / sizeof types[0] };

/* Whether a type that nobody asked for is timed: the CPU may have no kernels in it. */
static bool is_usual(const struct xt_options *options, enum xt_amp amp)
{
    const char *device = options->values.device.name;
    struct xt_err err;
    if (amp != XT_AMP_BF16 || (device && strcmp(device, "cpu") != 0))
        return true;
    return xt_dnnl_load(XT_DNNL_CPU, &err) || xt_device_cpu_runs_bf16();
}

/* The types of --amp, or all that run, as indices; returns how many. */
static int choose_types(const struct xt_options *options, int chosen[TYPES])
{
    int count = 0;
    bool said = xt_options_source(options, "amp") >= XT_SOURCE_CONFIG;
    for (int t = 0; t < TYPES; t++) {
        bool wanted = !said && is_usual(options, types[t].amp);
        struct xt_settings settings = options->values;
        for (int i = 0; i < xt_options_count(options, "amp") && said && !wanted; i++)
            wanted = !xt_options_pick(options, "amp", i, &settings, NULL) &&
                     settings.network.amp == types[t].amp;
        if (wanted)
            chosen[count++] = t;
    }
    return count;
}

static const int usual_batches[] = {1, 32};
enum { USUAL_BATCHES = sizeof usual_batches / sizeof usual_batches[0] };

/* Every type at each batch of --batch, or at the usual batches. */
static enum xt_status list_runs(const struct xt_options *options, struct xt_bench_infer *bench,
                                struct xt_err *err)
{
    bool said = xt_options_source(options, "batch") >= XT_SOURCE_CONFIG;
    int batches = said ? xt_options_count(options, "batch") : USUAL_BATCHES;
    int chosen[TYPES];
    int count = choose_types(options, chosen);
    if (!count)
        return xt_err_set(err, XT_ERR_USAGE, "bench infer times f32, bf16 and int8, not fp16");
    enum xt_status status =
        xt_mem_calloc(&bench->runs, (size_t)batches * TYPES, sizeof *bench->runs, "the runs", err);
    for (int b = 0; b < batches && !status; b++) {
        struct xt_settings settings = options->values;
        status = xt_options_pick(options, "batch", b, &settings, err);
        for (int t = 0; t < count && !status; t++)
            bench->runs[bench->count++] = (struct xt_bench_infer_run){
                .amp = types[chosen[t]].amp,
                .fuse = types[chosen[t]].fuse,
                .batch = said ? settings.network.batch : usual_batches[b]};
    }
    return status;
}

/* ---- reporting ---- */

static double images_per_s(const struct xt_bench_infer_run *run)
{
    return run->batch / run->pass_s;
}

static void describe_profile(struct xt_report *row, const struct xt_bench_infer_run *run,
                             const char *type)
{
    struct xt_report *profile = xt_report_group(row, NULL);
    double sum = 0;
    xt_report_line(profile, "%s", "");
    xt_report_line(profile, "%s, batch %d", type, run->batch);
    struct xt_report *table = xt_report_table(profile, "ops");
    for (int i = 0; i < run->op_count; i++) {
        const struct xt_bench_infer_op *op = &run->ops[i];
        struct xt_report *item = xt_report_group(table, NULL);
        xt_report_add(item, "op", "op", "%-24s", op->name);
        xt_report_add(item, "kind", "kind", "%-14s", op->kind);
        xt_report_add(item, "type", "type", "%-4s", xt_dtype_name(op->dtype));
        xt_report_add(item, "ms", "ms", "%9.3f", 1e3 * op->seconds);
        xt_report_scaled(item, NULL, "share", 100, "%5.1f %%", op->seconds / run->pass_s);
        sum += op->seconds;
    }
    xt_report_line(profile, "these ops add up to %.3f ms of the %.3f ms that a pass takes",
                   1e3 * sum, 1e3 * run->pass_s);
}

static enum xt_status report(const struct xt_options *options, const struct xt_bench_infer *bench,
                             struct xt_err *err)
{
    const struct xt_settings *s = &options->values;
    struct xt_report *report = xt_report_create();
    int chosen[TYPES];
    int count = choose_types(options, chosen);
    xt_report_line(report, "%s: inference on random images of %dx%d in memory, %d classes, %s",
                   xt_model_title(s->network.model), bench->width, bench->height, bench->classes,
                   bench->device);
    xt_report_values(report, "model=%s device_name=%s threads=%d", s->network.model, bench->device,
                     bench->threads);
    struct xt_report *table = xt_report_table(report, "runs");
    for (int i = 0; i < bench->count; i++) {
        const struct xt_bench_infer_run *run = &bench->runs[i];
        const struct xt_bench_infer_run *first = &bench->runs[i / count * count];
        struct xt_report *row = xt_report_group(table, NULL);
        xt_report_add(row, "type", "type", "%-10s", types[chosen[i % count]].name);
        xt_report_add(row, "batch", "batch", "%d", run->batch);
        xt_report_add(row, "images_per_s", "images/s", "%9.1f", images_per_s(run));
        xt_report_add(row, "pass_ms", "pass ms", "%9.3f", 1e3 * run->pass_s);
        xt_report_add(row, NULL, "ms/image", "%9.3f", 1e3 * run->pass_s / run->batch);
        xt_report_add(row, "conv_ms", "conv ms", "%9.3f", 1e3 * run->conv_s);
        xt_report_scaled(row, "share", "share", 100, "%4.0f %%", run->conv_s / run->pass_s);
        xt_report_add(row, NULL, "to first", "%9.2f", images_per_s(run) / images_per_s(first));
        if (run->others >= 0)
            xt_report_add(row, "others_cpu_share", NULL, "%f", run->others);
        if (s->bench.profile)
            describe_profile(row, run, types[chosen[i % count]].name);
    }
    return xt_result_put(report, err);
}

static enum xt_status measure(const struct xt_options *options, struct xt_bench_infer *bench,
                              struct xt_err *err)
{
    const struct xt_settings *s = &options->values;
    const struct xt_infer_settings settings = xt_options_infer(s);
    struct xt_progress progress;
    /* The recipe's steps are the length of a training run. */
    bool said = xt_options_source(options, "steps") >= XT_SOURCE_CONFIG;
    int64_t samples = said ? s->run.steps : SAMPLES;
    /* Standard output is for the results. */
    xt_progress_init(&progress, s->output.quiet, true);
    const struct xt_bench_observer observer = {.context = &progress, .progress = xt_progress_count};
    enum xt_status status = xt_bench_infer(
        bench, &settings, samples > SAMPLES_MAX ? SAMPLES_MAX : (int)samples, &observer, err);
    xt_progress_clear(&progress);
    return status;
}

enum xt_status xt_cmd_bench_infer(struct xt_options *options, struct xt_err *err)
{
    struct xt_bench_infer bench = {0};
    double others = 0;
    enum xt_status status = list_runs(options, &bench, err);
    if (!status)
        status = measure(options, &bench, err);
    if (!status)
        status = report(options, &bench, err);
    for (int i = 0; i < bench.count; i++) {
        others = fmax(others, bench.runs[i].others);
        free(bench.runs[i].ops);
    }
    if (!status)
        xt_cpu_warn_of_others(others);
    free(bench.runs);
    return status;
}
