/* xtrain bench start: what a start takes with an empty kernel cache and with a filled one.
 *
 * Each start is a process of its own, with the same cache folder, which is made for the bench and
 * goes with it. On the CPU there is no such cache: there the second start shows what a first one
 * owes to files not being in memory yet. */
#include <cjson/cJSON.h>
#include <errno.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/stop.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "cli/bench/start_report.h"
#include "device/isolate.h"
#include "models/registry.h"

/* More than any compiler takes. */
enum { SECONDS_MOST = 4 * 3600 };

/* Both starts of one type. */
struct pair {
    struct xt_start cold;
    struct xt_start warm;
};

struct bench {
    const struct xt_options *options;
    char folder[64]; /* of the kernel caches */
    struct pair *pairs;
    int count;
};

struct outcome {
    struct xt_err err;
    struct xt_start start;
};

/* In a child. A cache that the user named is not empty, and is not the bench's to fill. */
static void start_once(const void *argument, void *result)
{
    const struct xt_settings *settings = argument;
    struct outcome *outcome = result;
    signal(SIGINT, SIG_DFL);
    signal(SIGTERM, SIG_DFL);
    unsetenv("NEO_CACHE_DIR");
    unsetenv("NEO_CACHE_PERSISTENT");
    unsetenv("cl_cache_dir");
    xt_start_measure(&outcome->start, settings, &outcome->err);
}

static enum xt_status measure(const struct xt_settings *settings, struct xt_start *out,
                              struct xt_err *err)
{
    struct outcome outcome;
    enum xt_status status =
        xt_isolate(start_once, settings, &outcome, sizeof outcome, SECONDS_MOST, NULL, err);
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

/* One type: with an empty cache, then with what that left. */
static enum xt_status measure_pair(const struct bench *bench, int index, struct xt_err *err)
{
    struct xt_settings settings = bench->options->values;
    char *cache = NULL;
    char name[16];
    snprintf(name, sizeof name, "%d", index);
    enum xt_status status = xt_options_pick(bench->options, "amp", index, &settings, err);
    if (!status)
        status = xt_file_join(&cache, bench->folder, name, err);
    settings.cache_dir = cache;
    settings.kernel_cache = true;
    if (!status)
        status = measure(&settings, &bench->pairs[index].cold, err);
    if (!status)
        status = measure(&settings, &bench->pairs[index].warm, err);
    free(cache);
    return status;
}

/* CPU time is what a machine with other work to do does not change. */
static struct xt_span ratio(const struct pair *pair)
{
    return (struct xt_span){.wall = pair->cold.all.wall / pair->warm.all.wall,
                            .cpu = pair->cold.all.cpu / pair->warm.all.cpu};
}

static void print_line(const char *name, const struct xt_span *cold, const struct xt_span *warm)
{
    printf("  %-20s %9.2f s %9.2f s   %9.2f s %9.2f s\n", name, cold->wall, cold->cpu, warm->wall,
           warm->cpu);
}

static void print_pair(const struct pair *pair, const char *first, const char *second)
{
    char kernels[400];
    char title[64];
    snprintf(title, sizeof title, "%s", xt_dtype_name(pair->cold.dtype));
    printf("%-22s %9s %11s   %11s %11s\n", title, first, "CPU time", second, "CPU time");
    for (int i = 0; i < XT_START_PHASES; i++) {
        struct xt_span cold = xt_start_phase(&pair->cold, i);
        struct xt_span warm = xt_start_phase(&pair->warm, i);
        print_line(xt_start_phase_name(i), &cold, &warm);
    }
    print_line("to the first step", &pair->cold.all, &pair->warm.all);
    struct xt_span times = ratio(pair);
    printf("  %s / %s: %.1f, in CPU time %.1f\n", first, second, times.wall, times.cpu);
    xt_start_describe_kernels(&pair->cold, kernels, sizeof kernels);
    if (*kernels)
        printf("  %s: %s\n", first, kernels);
    xt_start_describe_kernels(&pair->warm, kernels, sizeof kernels);
    if (*kernels)
        printf("  %s: %s\n", second, kernels);
}

static void print_text(const struct bench *bench)
{
    const struct xt_settings *s = &bench->options->values;
    const struct xt_start *first = &bench->pairs[0].cold;
    bool cached = first->has_cache;
    printf("%s, batches of %d, on %s: starts to the end of the first training step\n",
           xt_model_find(s->model)->title, s->batch, first->device);
    if (!cached && !*first->no_cache)
        printf("the CPU has no kernel cache: its kernels are made anew in each start\n");
    for (int i = 0; i < bench->count; i++)
        print_pair(&bench->pairs[i], cached ? "cold" : "first", cached ? "warm" : "second");
}

static bool add_pair(cJSON *list, const struct pair *pair)
{
    cJSON *item = cJSON_CreateObject();
    if (!item || !cJSON_AddItemToArray(list, item)) {
        cJSON_Delete(item);
        return false;
    }
    struct xt_span times = ratio(pair);
    return cJSON_AddStringToObject(item, "type", xt_dtype_name(pair->cold.dtype)) &&
           cJSON_AddNumberToObject(item, "ratio", times.wall) &&
           cJSON_AddNumberToObject(item, "cpu_ratio", times.cpu) &&
           cJSON_AddItemToObject(item, "cold", xt_start_to_json(&pair->cold)) &&
           cJSON_AddItemToObject(item, "warm", xt_start_to_json(&pair->warm));
}

static enum xt_status print_json(const struct bench *bench, struct xt_err *err)
{
    const struct xt_settings *s = &bench->options->values;
    cJSON *root = cJSON_CreateObject();
    bool ok = root && cJSON_AddStringToObject(root, "model", s->model) &&
              cJSON_AddNumberToObject(root, "batch", s->batch) &&
              cJSON_AddStringToObject(root, "device", bench->pairs[0].cold.device) &&
              cJSON_AddBoolToObject(root, "kernel_cache", bench->pairs[0].cold.has_cache);
    cJSON *list = ok ? cJSON_AddArrayToObject(root, "starts") : NULL;
    ok = list != NULL;
    for (int i = 0; i < bench->count && ok; i++)
        ok = add_pair(list, &bench->pairs[i]);
    char *text = ok ? cJSON_Print(root) : NULL;
    if (text)
        printf("%s\n", text);
    cJSON_free(text);
    cJSON_Delete(root);
    return text ? XT_OK : xt_err_no_memory(err, "the result as JSON", 0);
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *place)
{
    (void)st;
    (void)kind;
    (void)place;
    return remove(path);
}

static void remove_folder(const struct bench *bench)
{
    enum { OPEN_MOST = 8 };
    if (*bench->folder && nftw(bench->folder, remove_entry, OPEN_MOST, FTW_DEPTH | FTW_PHYS))
        xt_log_warn("%s is left behind: %s", bench->folder, strerror(errno));
}

static enum xt_status make_folder(struct bench *bench, struct xt_err *err)
{
    const char *parent = getenv("TMPDIR");
    int length = snprintf(bench->folder, sizeof bench->folder, "%s/xtrain-start-XXXXXX",
                          parent && *parent && strlen(parent) < 32 ? parent : "/tmp");
    if (length < 0 || !mkdtemp(bench->folder)) {
        bench->folder[0] = '\0';
        return xt_err_set(err, XT_ERR_RUN, "no folder for a kernel cache can be made: %s",
                          strerror(errno));
    }
    return XT_OK;
}

enum xt_status xt_cmd_bench_start(struct xt_options *options, struct xt_err *err)
{
    struct bench bench = {.options = options, .count = xt_options_count(options, "amp")};
    enum xt_status status =
        xt_mem_calloc(&bench.pairs, (size_t)bench.count, sizeof *bench.pairs, "the starts", err);
    if (!status)
        status = make_folder(&bench, err);
    for (int i = 0; i < bench.count && !status; i++)
        status = measure_pair(&bench, i, err);
    if (!status && options->values.json)
        status = print_json(&bench, err);
    else if (!status)
        print_text(&bench);
    remove_folder(&bench);
    free(bench.pairs);
    return status;
}
