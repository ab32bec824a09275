#include "cli/bench/step.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/mem.h"
#include "base/system/process.h"
#include "base/system/stop.h"
#include "base/system/thread.h"
#include "cli/bench/cpu_share.h"
#include "infer/network/memory_plan.h"
#include "cli/bench/random_batch.h"
#include "train/trainer.h"
#include "train/watch/slow_watch.h"

enum { WARM_UP = 3, TURN = 2 };

/* Parts of each timed step beside its ops. */
enum line { LINE_STEP, LINE_REFRESH, LINE_LOSS, LINE_UPDATE, LINE_COUNT };

struct bench {
    struct xt_trainer *trainer;
    struct xt_network *network; /* the trainer's */
    struct xt_slow_watch slow;
    struct xt_random_batch random;
    int steps;
    int done;         /* warm-up not included */
    double *conv;     /* [steps] */
    double *lines;    /* [steps][LINE_COUNT] */
    double *op_times; /* [steps][2 * ops]: forward, backward */
    const struct xt_bench_observer *observer;
};

/* ---- the process ---- */

/* Peak resident set size. /proc comes first: getrusage also counts the process before exec. */
static double peak_rss(void)
{
    char line[256];
    unsigned long long kilobytes = 0;
    FILE *file = fopen("/proc/self/status", "re");
    while (file && !kilobytes && fgets(line, sizeof line, file))
        if (strncmp(line, "VmHWM:", 6) == 0)
            kilobytes = strtoull(line + 6, NULL, 10);
    if (file)
        fclose(file);
    struct rusage usage;
    if (!kilobytes && getrusage(RUSAGE_SELF, &usage) == 0)
        kilobytes = (unsigned long long)usage.ru_maxrss;
    return 1024 * (double)kilobytes;
}

/* ---- set-up ---- */

static enum xt_status allocate(struct bench *bench, struct xt_err *err)
{
    size_t steps = (size_t)bench->steps;
    size_t ops = (size_t)bench->network->graph->op_count;
    static const char what[] = "the bench's samples";
    enum xt_status status = xt_mem_calloc(&bench->conv, steps, sizeof(double), what, err);
    if (!status)
        status = xt_mem_calloc(&bench->lines, steps * LINE_COUNT, sizeof(double), what, err);
    if (!status)
        status = xt_mem_calloc(&bench->op_times, steps * 2 * ops, sizeof(double), what, err);
    return status;
}

static void clear(struct bench *bench)
{
    xt_random_batch_clear(&bench->random);
    free(bench->conv);
    free(bench->lines);
    free(bench->op_times);
    xt_trainer_destroy(bench->trainer);
}

/* ---- measuring ---- */

static void tell(const struct bench *bench, int done)
{
    if (bench->observer->progress)
        bench->observer->progress(bench->observer->context, done, WARM_UP + bench->steps);
}

static enum xt_status check_stop(struct xt_err *err)
{
    return xt_stop_check(err, "before all steps were timed");
}

static enum xt_status run_step(struct bench *bench, double *seconds, struct xt_err *err)
{
    double loss = 0;
    double start = xt_thread_seconds();
    enum xt_status status = xt_trainer_step(bench->trainer, &bench->random.batch, &loss, err);
    *seconds = xt_thread_seconds() - start;
    return status ? status : check_stop(err);
}

static enum xt_status time_step(struct bench *bench, struct xt_err *err)
{
    struct xt_graph *graph = bench->network->graph;
    double *lines = bench->lines + (size_t)bench->done * LINE_COUNT;
    double *times = bench->op_times + (size_t)bench->done * 2 * (size_t)graph->op_count;
    for (int i = 0; i < graph->op_count; i++)
        graph->ops[i]->seconds[0] = graph->ops[i]->seconds[1] = 0;
    graph->refresh_seconds = 0;
    graph->profile = true;
    enum xt_status status = run_step(bench, &lines[LINE_STEP], err);
    graph->profile = false;
    lines[LINE_REFRESH] = graph->refresh_seconds;
    const struct xt_step_seconds parts = xt_trainer_summary(bench->trainer).times.step;
    lines[LINE_LOSS] = parts.loss;
    lines[LINE_UPDATE] = parts.update;
    for (int i = 0; i < graph->op_count; i++)
        memcpy(times + 2 * i, graph->ops[i]->seconds, sizeof graph->ops[i]->seconds);
    return status;
}

static enum xt_status time_convolutions(struct bench *bench, double *seconds, struct xt_err *err)
{
    struct xt_network *network = bench->network;
    struct xt_graph *graph = network->graph;
    /* Updating copies of the parameters is the next step's work; at a rate of 0 they are unchanged
     * anyway. */
    uint64_t version = graph->params_version;
    graph->params_version = network->params.version;
    double start = xt_thread_seconds();
    enum xt_status status = xt_graph_convolutions_alone(graph, true, err);
    *seconds = xt_thread_seconds() - start;
    graph->params_version = version;
    return status ? status : check_stop(err);
}

static enum xt_status warm_up(struct bench *bench, double start, struct xt_bench_step *out,
                              struct xt_err *err)
{
    enum xt_status status = XT_OK;
    double seconds = 0;
    for (int i = 0; i < WARM_UP && !status; i++) {
        status = run_step(bench, &seconds, err);
        if (i == 0)
            out->first_step_s = xt_process_seconds(start);
        tell(bench, i + 1);
    }
    return status ? status : time_convolutions(bench, &seconds, err);
}

/* TURN steps, then as many runs of the convolutions. */
static enum xt_status measure(struct bench *bench, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    while (bench->done < bench->steps && !status) {
        int first = bench->done;
        for (int i = 0; i < TURN && bench->done < bench->steps && !status; i++) {
            status = time_step(bench, err);
            tell(bench, WARM_UP + ++bench->done);
        }
        for (int i = first; i < bench->done && !status; i++)
            status = time_convolutions(bench, &bench->conv[i], err);
    }
    return status;
}

static enum xt_status time_free_convolutions(struct bench *bench, struct xt_bench_step *out,
                                             struct xt_err *err)
{
    enum { RUNS_MOST = 5 };
    int runs = bench->steps < RUNS_MOST ? bench->steps : RUNS_MOST;
    out->free_conv_s = NAN;
    return bench->network->device.own_memory
               ? XT_OK
               : xt_graph_convolutions_free(bench->network->graph, runs, &out->free_conv_s, err);
}

/* Steps as in training: per-op timing would add a wait to each op. */
static enum xt_status watch_steps(struct bench *bench, struct xt_slow_watch *watch,
                                  struct xt_monitor *monitor, struct xt_err *err)
{
    enum { MOST = 1000 };
    const double seconds = 2;
    struct xt_monitor_figures device;
    enum xt_status status = XT_OK;
    double step_s = 0;
    for (int i = 0; i < MOST && !status && !xt_slow_watch_judge(watch, watch->step >= seconds);
         i++) {
        xt_slow_watch_step(watch, NAN);
        status = run_step(bench, &step_s, err);
        xt_monitor_read(monitor, &device);
        xt_slow_watch_end_step(watch, NAN, xt_trainer_summary(bench->trainer).times.step.loss,
                               &device);
    }
    xt_slow_watch_judge(watch, true);
    return status;
}

static enum xt_status find_why(struct bench *bench, struct xt_bench_step *out, struct xt_err *err)
{
    const double interval = 0.1;
    struct xt_slow_watch *watch = &bench->slow;
    struct xt_monitor *monitor = NULL;
    xt_slow_watch_begin(watch, bench->network);
    enum xt_status status = xt_monitor_start(&monitor, &bench->network->device, interval, err);
    if (!status)
        status = watch_steps(bench, watch, monitor, err);
    xt_monitor_destroy(monitor);
    snprintf(watch->facts.why[XT_SLOW_LOADER], sizeof watch->facts.why[0],
             "a bench reads no images");
    out->facts = watch->facts;
    out->slow = watch->slow;
    return status;
}

/* ---- reporting ---- */

double xt_bench_median(double *values, int count)
{
    qsort(values, (size_t)count, sizeof *values, xt_number_compare);
    return (values[(count - 1) / 2] + values[count / 2]) / 2;
}

double xt_bench_images_per_s(const struct xt_bench_step *result)
{
    return result->batch / result->step_s;
}

/* A step counts if it is in the middle half by time. */
static bool is_middle(const struct bench *bench, int step)
{
    double time = bench->lines[(size_t)step * LINE_COUNT + LINE_STEP];
    int faster = 0;
    for (int i = 0; i < bench->steps; i++) {
        double other = bench->lines[(size_t)i * LINE_COUNT + LINE_STEP];
        faster += other < time || (other == time && i < step);
    }
    return faster >= bench->steps / 4 && faster < bench->steps - bench->steps / 4;
}

static void add_step(const struct bench *bench, int step, double part,
                     struct xt_bench_profile *profile)
{
    const double *lines = bench->lines + (size_t)step * LINE_COUNT;
    const double *times = bench->op_times + (size_t)step * 2 * (size_t)profile->op_count;
    profile->step_s += part * lines[LINE_STEP];
    profile->refresh_s += part * lines[LINE_REFRESH];
    profile->loss_s += part * lines[LINE_LOSS];
    profile->update_s += part * lines[LINE_UPDATE];
    for (int i = 0; i < profile->op_count; i++)
        for (int pass = 0; pass < 2; pass++)
            profile->ops[i].seconds[pass] += part * times[2 * i + pass];
}

static enum xt_status sum_up_profile(const struct bench *bench, struct xt_bench_profile *profile,
                                     struct xt_err *err)
{
    const struct xt_graph *graph = bench->network->graph;
    enum xt_status status = xt_mem_calloc(&profile->ops, (size_t)graph->op_count,
                                          sizeof *profile->ops, "the profile", err);
    if (status)
        return status;
    profile->op_count = graph->op_count;
    for (int i = 0; i < graph->op_count; i++) {
        const struct xt_op *op = graph->ops[i];
        struct xt_bench_op *to = &profile->ops[i];
        *to = (struct xt_bench_op){.dtype = op->dtype};
        for (int pass = 0; pass < 2; pass++) {
            double flops = pass ? op->backward_flops : op->flops;
            to->flops[pass] = op->with_other[pass] ? 0 : flops;
            to->bytes[pass] = op->with_other[pass] ? 0 : op->bytes[pass];
        }
        snprintf(to->name, sizeof to->name, "%s", op->name);
        snprintf(to->kind, sizeof to->kind, "%s", xt_op_kind_name(op));
    }
    int middle = 0;
    for (int i = 0; i < bench->steps; i++)
        middle += is_middle(bench, i);
    for (int i = 0; i < bench->steps; i++)
        if (is_middle(bench, i))
            add_step(bench, i, 1.0 / middle, profile);
    profile->sum_s = profile->refresh_s + profile->loss_s + profile->update_s;
    for (int i = 0; i < profile->op_count; i++)
        profile->sum_s += profile->ops[i].seconds[0] + profile->ops[i].seconds[1];
    return XT_OK;
}

static enum xt_status report(struct bench *bench, struct xt_bench_step *out, struct xt_err *err)
{
    const struct xt_network *network = bench->network;
    enum xt_status status = sum_up_profile(bench, &out->profile, err);
    snprintf(out->device, sizeof out->device, "%s", network->device.name);
    out->threads = network->device.threads;
    out->batch = network->batch;
    out->dtype = network->graph->options.dtype;
    out->steps = bench->steps;
    /* A bench saves nothing. */
    struct xt_memory_plan plan = xt_trainer_memory_plan(bench->trainer);
    out->planned_bytes = plan.host.all - plan.host.parts[XT_MEMORY_FILES];
    /* op_times is no longer needed, and has room for the steps' times. */
    for (int i = 0; i < bench->steps; i++)
        bench->op_times[i] = bench->lines[(size_t)i * LINE_COUNT + LINE_STEP];
    out->step_s = xt_bench_median(bench->op_times, bench->steps);
    out->conv_s = xt_bench_median(bench->conv, bench->steps);
    return status;
}

enum xt_status xt_bench_step(struct xt_bench_step *out, const struct xt_train_settings *settings,
                             int steps, bool why, const struct xt_bench_observer *observer,
                             struct xt_err *err)
{
    double start = xt_thread_seconds();
    *out = (struct xt_bench_step){.steps = steps};
    struct xt_train_settings same_work = *settings;
    same_work.recipe.sched = XT_SCHED_CONSTANT;
    same_work.recipe.warmup = 0;
    same_work.recipe.lr = 0;
    same_work.network.lower_bound = true;
    struct bench bench = {.steps = steps, .observer = observer};
    enum xt_status status = xt_trainer_create(&bench.trainer, &same_work, err);
    if (!status)
        status = xt_trainer_prepare(bench.trainer, err);
    if (!status) {
        bench.network = xt_trainer_network(bench.trainer);
        status = allocate(&bench, err);
    }
    if (!status)
        status = xt_random_batch_init(&bench.random, bench.trainer, err);
    if (!status)
        status = warm_up(&bench, start, out, err);
    struct xt_cpu_time before = xt_cpu_time();
    if (!status)
        status = measure(&bench, err);
    out->peak_rss_bytes = peak_rss();
    if (!status)
        status = time_free_convolutions(&bench, out, err);
    out->others = xt_cpu_share_of_others(&before);
    if (!status && why)
        status = find_why(&bench, out, err);
    if (!status)
        status = report(&bench, out, err);
    clear(&bench);
    return status;
}

void xt_bench_step_clear(struct xt_bench_step *result)
{
    free(result->profile.ops);
    *result = (struct xt_bench_step){0};
}
