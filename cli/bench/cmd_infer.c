/* xtrain bench infer: what a pass of inference takes in each type, and how near that is to its own
 * convolutions alone. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/thread.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "cli/progress.h"
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

static const int usual_batches[] = {1, 32};
enum { USUAL_BATCHES = sizeof usual_batches / sizeof usual_batches[0] };

static void show_progress(void *context, int done, int all)
{
    struct xt_progress_state state = {.step = done,
                                      .steps = all,
                                      .loss = NAN,
                                      .lr = NAN,
                                      .images_per_s = NAN,
                                      .seconds_left = NAN,
                                      .wait = NAN};
    xt_progress_show(context, &state, xt_thread_seconds(), false);
}

/* Every type at each batch; --batch says which, else the usual ones. */
static enum xt_status list_runs(const struct xt_options *options, struct xt_bench_infer *bench,
                                struct xt_err *err)
{
    bool said = xt_options_source(options, "batch") >= XT_SOURCE_CONFIG;
    int batches = said ? xt_options_count(options, "batch") : USUAL_BATCHES;
    enum xt_status status =
        xt_mem_calloc(&bench->runs, (size_t)batches * TYPES, sizeof *bench->runs, "the runs", err);
    for (int b = 0; b < batches && !status; b++) {
        struct xt_settings settings = options->values;
        status = xt_options_pick(options, "batch", b, &settings, err);
        for (int t = 0; t < TYPES && !status; t++)
            bench->runs[bench->count++] =
                (struct xt_bench_infer_run){.amp = types[t].amp,
                                            .fuse = types[t].fuse,
                                            .batch = said ? settings.batch : usual_batches[b]};
    }
    return status;
}

/* ---- text ---- */

static double images_per_s(const struct xt_bench_infer_run *run)
{
    return run->batch / run->pass_s;
}

static void print_table(const struct xt_bench_infer *bench)
{
    printf("%-10s %5s %9s %9s %9s %9s %6s %9s\n", "type", "batch", "images/s", "pass ms",
           "ms/image", "conv ms", "share", "to first");
    for (int i = 0; i < bench->count; i++) {
        const struct xt_bench_infer_run *run = &bench->runs[i];
        const struct xt_bench_infer_run *first = &bench->runs[i / TYPES * TYPES];
        printf("%-10s %5d %9.1f %9.3f %9.3f %9.3f %4.0f %% %9.2f\n", types[i % TYPES].name,
               run->batch, images_per_s(run), 1e3 * run->pass_s, 1e3 * run->pass_s / run->batch,
               1e3 * run->conv_s, 100 * xt_bench_infer_share(run),
               images_per_s(run) / images_per_s(first));
    }
}

static void print_profile(const struct xt_bench_infer *bench, int index)
{
    const struct xt_bench_infer_run *run = &bench->runs[index];
    double sum = 0;
    printf("\n%s, batch %d\n%-24s %-14s %-4s %9s %7s\n", types[index % TYPES].name, run->batch,
           "op", "kind", "type", "ms", "share");
    for (int i = 0; i < run->op_count; i++) {
        const struct xt_bench_infer_op *op = &run->ops[i];
        printf("%-24s %-14s %-4s %9.3f %5.1f %%\n", op->name, op->kind, xt_dtype_name(op->dtype),
               1e3 * op->seconds, 100 * op->seconds / run->pass_s);
        sum += op->seconds;
    }
    printf("these ops add up to %.3f ms of the %.3f ms that a pass takes\n", 1e3 * sum,
           1e3 * run->pass_s);
}

static void print_text(const struct xt_options *options, const struct xt_bench_infer *bench)
{
    printf("%s: inference on random pictures of %dx%d in memory, %d classes, %s\n",
           xt_model_find(options->values.model)->title, bench->width, bench->height, bench->classes,
           bench->device);
    print_table(bench);
    for (int i = 0; i < bench->count && options->values.profile; i++)
        print_profile(bench, i);
}

/* ---- JSON ---- */

static bool add_profile(cJSON *json, const struct xt_bench_infer_run *run)
{
    cJSON *list = cJSON_AddArrayToObject(json, "ops");
    bool ok = list != NULL;
    for (int i = 0; i < run->op_count && ok; i++) {
        cJSON *item = cJSON_CreateObject();
        ok = item && cJSON_AddItemToArray(list, item) &&
             cJSON_AddStringToObject(item, "op", run->ops[i].name) &&
             cJSON_AddStringToObject(item, "kind", run->ops[i].kind) &&
             cJSON_AddStringToObject(item, "type", xt_dtype_name(run->ops[i].dtype)) &&
             cJSON_AddNumberToObject(item, "ms", 1e3 * run->ops[i].seconds);
    }
    return ok;
}

static bool add_run(cJSON *list, const struct xt_bench_infer *bench, int index, bool profile)
{
    const struct xt_bench_infer_run *run = &bench->runs[index];
    cJSON *json = cJSON_CreateObject();
    return json && cJSON_AddItemToArray(list, json) &&
           cJSON_AddStringToObject(json, "type", types[index % TYPES].name) &&
           cJSON_AddNumberToObject(json, "batch", run->batch) &&
           cJSON_AddNumberToObject(json, "images_per_s", images_per_s(run)) &&
           cJSON_AddNumberToObject(json, "pass_ms", 1e3 * run->pass_s) &&
           cJSON_AddNumberToObject(json, "conv_ms", 1e3 * run->conv_s) &&
           cJSON_AddNumberToObject(json, "share", xt_bench_infer_share(run)) &&
           (run->others < 0 || cJSON_AddNumberToObject(json, "others_cpu_share", run->others)) &&
           (!profile || add_profile(json, run));
}

static enum xt_status print_json(const struct xt_options *options,
                                 const struct xt_bench_infer *bench, struct xt_err *err)
{
    cJSON *root = cJSON_CreateObject();
    bool ok = root && cJSON_AddStringToObject(root, "model", options->values.model) &&
              cJSON_AddStringToObject(root, "device_name", bench->device) &&
              cJSON_AddNumberToObject(root, "threads", bench->threads);
    cJSON *list = ok ? cJSON_AddArrayToObject(root, "runs") : NULL;
    ok = list != NULL;
    for (int i = 0; i < bench->count && ok; i++)
        ok = add_run(list, bench, i, options->values.profile);
    char *text = ok ? cJSON_Print(root) : NULL;
    if (text)
        printf("%s\n", text);
    cJSON_free(text);
    cJSON_Delete(root);
    return text ? XT_OK : xt_err_no_memory(err, "the results as JSON", 0);
}

static void warn_of_others(const struct xt_bench_infer *bench)
{
    double most = 0;
    for (int i = 0; i < bench->count; i++)
        most = fmax(most, bench->runs[i].others);
    if (most > XT_CPU_OTHERS_MAX)
        xt_log_warn("other processes took %.0f %% of this machine's CPU time meanwhile: the rates "
                    "are too low, and ratios between runs are uncertain",
                    100 * most);
}

static enum xt_status measure(const struct xt_options *options, struct xt_bench_infer *bench,
                              struct xt_err *err)
{
    const struct xt_settings *s = &options->values;
    struct xt_progress progress;
    /* A recipe's steps are the length of a training run. */
    bool said = xt_options_source(options, "steps") >= XT_SOURCE_CONFIG;
    int64_t samples = said ? s->steps : SAMPLES;
    /* Standard output belongs to the results. */
    xt_progress_init(&progress, s->quiet, true);
    const struct xt_bench_infer_observer observer = {.context = &progress,
                                                     .progress = show_progress};
    enum xt_status status = xt_bench_infer(
        bench, s, samples > SAMPLES_MAX ? SAMPLES_MAX : (int)samples, &observer, err);
    xt_progress_clear(&progress);
    return status;
}

enum xt_status xt_cmd_bench_infer(struct xt_options *options, struct xt_err *err)
{
    struct xt_bench_infer bench = {0};
    enum xt_status status = list_runs(options, &bench, err);
    if (!status)
        status = measure(options, &bench, err);
    if (!status && options->values.json)
        status = print_json(options, &bench, err);
    else if (!status)
        print_text(options, &bench);
    if (!status)
        warn_of_others(&bench);
    xt_bench_infer_clear(&bench);
    free(bench.runs);
    return status;
}
