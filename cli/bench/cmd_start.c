/* xtrain bench start: start-up time with an empty kernel cache and with a filled one.
 *
 * Each start is its own process, with a temporary cache folder shared by both. The CPU needs no
 * such cache: there the second start shows the effect of files that are already in memory.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/system/process.h"
#include "base/system/stop.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "cli/bench/scratch.h"
#include "cli/bench/start.h"
#include "cli/json/result.h"
#include "cli/report.h"
#include "models/registry.h"

/* longer than any compilation */
enum { SECONDS_MOST = 4 * 3600 };

/* Both starts of one type. */
struct pair {
    struct xt_start cold;
    struct xt_start warm;
};

struct bench {
    const struct xt_options *options;
    struct xt_scratch scratch; /* for the kernel caches */
    struct pair *pairs;
    int count;
};

struct outcome {
    struct xt_err err;
    struct xt_start start;
};

/* Runs in a child. A cache that the user named is not empty, and must not be filled by a bench. */
static void start_once(const void *argument, void *result)
{
    const struct xt_train_settings *settings = argument;
    struct outcome *outcome = result;
    xt_stop_forget();
    unsetenv("NEO_CACHE_DIR");
    unsetenv("NEO_CACHE_PERSISTENT");
    unsetenv("cl_cache_dir");
    xt_start_measure(&outcome->start, settings, &outcome->err);
}

static enum xt_status measure(const struct xt_train_settings *settings, struct xt_start *out,
                              struct xt_err *err)
{
    struct outcome outcome;
    const struct xt_process process = {
        .work = start_once, .argument = settings, .seconds = SECONDS_MOST};
    enum xt_status status = xt_process_run(&process, &outcome, sizeof outcome, NULL, err);
    enum xt_status stop = xt_stop_check(err, "before all starts were timed");
    if (stop)
        return stop;
    if (status)
        return xt_err_prefix(err, "a start in a process of its own: ");
    if (outcome.err.status) {
        *err = outcome.err;
        return err->status;
    }
    *out = outcome.start;
    return XT_OK;
}

/* Measures one type: with an empty cache, then with the cache that the first start filled. */
static enum xt_status measure_pair(const struct bench *bench, int index, struct xt_err *err)
{
    struct xt_settings settings = bench->options->values;
    char name[16];
    snprintf(name, sizeof name, "%d", index);
    enum xt_status status = xt_options_pick(bench->options, "amp", index, &settings, err);
    const struct xt_path cache = xt_file_path(bench->scratch.folder, name);
    settings.device.cache_dir = cache.text;
    settings.device.kernel_cache = true;
    const struct xt_train_settings training = xt_options_train(&settings);
    if (!status)
        status = measure(&training, &bench->pairs[index].cold, err);
    if (!status)
        status = measure(&training, &bench->pairs[index].warm, err);
    return status;
}

/* CPU time is hardly affected by other load. */
static struct xt_span ratio(const struct pair *pair)
{
    return (struct xt_span){.wall = pair->cold.all.wall / pair->warm.all.wall,
                            .cpu = pair->cold.all.cpu / pair->warm.all.cpu};
}

/* A phase of one start: two columns of the phase's row. */
static void add_span(struct xt_report *row, const char *key, const char *title,
                     const struct xt_span *span)
{
    struct xt_report *to = xt_report_group(row, key);
    xt_report_add(to, "seconds", title, "%9.2f s", span->wall);
    xt_report_add(to, "cpu_seconds", "CPU time", "%9.2f s", span->cpu);
}

static void add_kernels(struct xt_report *at, struct xt_report *start, const char *title,
                        const struct xt_start *from)
{
    struct xt_report *to = xt_report_group_in(at, start, NULL);
    if (from->has_cache) {
        xt_report_add(to, "kernels_compiled", title, "kernels: %d compiled", from->compiled);
        xt_report_add(to, "kernels_from_cache", "", ", %d from the cache", from->cached);
    } else if (*from->no_cache) {
        xt_report_add(to, NULL, title, "the number of compiled kernels is unknown: %s",
                      from->no_cache);
    }
}

static void describe_pair(struct xt_report *list, const struct pair *pair)
{
    struct xt_report *item = xt_report_group(list, NULL);
    struct xt_report *cold = xt_report_group(item, "cold");
    struct xt_report *warm = xt_report_group(item, "warm");
    struct xt_span times = ratio(pair);
    const char *type = xt_dtype_name(pair->cold.dtype);
    bool cached = pair->cold.has_cache;
    xt_report_add(item, "type", NULL, "%s", type);
    struct xt_report *table = xt_report_table(item, "phases");
    for (int i = 0; i <= XT_START_PHASES; i++) {
        struct xt_report *row = xt_report_group(table, NULL);
        struct xt_start_phase first = xt_start_phase(&pair->cold, i);
        struct xt_start_phase second = xt_start_phase(&pair->warm, i);
        xt_report_add(row, "name", type, "  %-20s", first.name);
        add_span(row, "cold", cached ? "cold" : "first", &first.span);
        add_span(row, "warm", cached ? "warm" : "second", &second.span);
    }
    xt_report_add(item, "ratio", cached ? "  cold / warm:" : "  first / second:", "%.1f",
                  times.wall);
    xt_report_add(item, "cpu_ratio", "", ", in CPU time %.1f", times.cpu);
    add_kernels(item, cold, cached ? "  cold" : "  first", &pair->cold);
    add_kernels(item, warm, cached ? "  warm" : "  second", &pair->warm);
}

static enum xt_status report(const struct bench *bench, struct xt_err *err)
{
    const struct xt_settings *s = &bench->options->values;
    const struct xt_start *first = &bench->pairs[0].cold;
    struct xt_report *report = xt_report_create();
    xt_report_line(report,
                   "%s, batches of %d, on %s: from start to the end of the first training step",
                   xt_model_title(s->network.model), s->network.batch, first->device);
    if (!first->has_cache && !*first->no_cache)
        xt_report_line(report,
                       "the CPU has no kernel cache: its kernels are created at each start");
    xt_report_values(report, "model=%s batch=%d device=%s", s->network.model, s->network.batch,
                     first->device);
    xt_report_flag(report, "kernel_cache", NULL, first->has_cache, "", "");
    struct xt_report *list = xt_report_list(report, "starts");
    for (int i = 0; i < bench->count; i++)
        describe_pair(list, &bench->pairs[i]);
    return xt_result_put(report, err);
}

enum xt_status xt_cmd_bench_start(struct xt_options *options, struct xt_err *err)
{
    struct bench bench = {.options = options, .count = xt_options_count(options, "amp")};
    enum xt_status status =
        xt_mem_calloc(&bench.pairs, (size_t)bench.count, sizeof *bench.pairs, "the starts", err);
    if (!status)
        status = xt_scratch_make(&bench.scratch, "a kernel cache", err);
    for (int i = 0; i < bench.count && !status; i++)
        status = measure_pair(&bench, i, err);
    if (!status)
        status = report(&bench, err);
    xt_scratch_remove(&bench.scratch);
    free(bench.pairs);
    return status;
}
