#include "cli/bench/report.h"

#include <cjson/cJSON.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "train/network.h"

enum { OLD_LIMIT = 16 << 20 };

/* ---- tables ---- */

static int fastest_of(const struct xt_bench_run *runs, int count)
{
    int fastest = 0;
    for (int i = 1; i < count; i++)
        if (xt_bench_images_per_s(&runs[i].result) > xt_bench_images_per_s(&runs[fastest].result))
            fastest = i;
    return fastest;
}

void xt_bench_print_table(const struct xt_bench_run *runs, int count, FILE *out)
{
    bool compared = runs[0].old_rate > 0;
    fprintf(out, "%-6s %-4s %5s %7s %9s %8s %8s %6s %13s %8s %11s%s%s\n", "device", "type", "batch",
            "threads", "images/s", "step ms", "conv ms", "share", "first step s", "peak MB",
            "planned MB", count > 1 ? "  to first" : "", compared ? "  to old" : "");
    for (int i = 0; i < count; i++) {
        const struct xt_bench_step *r = &runs[i].result;
        double rate = xt_bench_images_per_s(r);
        fprintf(out, "%-6s %-4s %5d %7d %9.1f %8.1f %8.1f %4.0f %% %13.2f %8.0f %11.0f",
                runs[i].device, xt_dtype_name(r->dtype), r->batch, r->threads, rate,
                1e3 * r->step_s, 1e3 * r->conv_s, 100 * xt_bench_share(r), r->first_step_s,
                r->peak_rss_bytes / 1e6, r->planned_bytes / 1e6);
        if (count > 1)
            fprintf(out, " %9.2f", rate / xt_bench_images_per_s(&runs[0].result));
        if (compared)
            fprintf(out, " %7.2f", rate / runs[i].old_rate);
        fprintf(out, "\n");
    }
    const struct xt_bench_run *fastest = &runs[fastest_of(runs, count)];
    if (count > 1)
        fprintf(out, "fastest: --device %s --amp %s --batch %d, %.1f images/s\n", fastest->device,
                fastest->result.dtype == XT_F32 ? "off" : xt_dtype_name(fastest->result.dtype),
                fastest->result.batch, xt_bench_images_per_s(&fastest->result));
}

/* Amount per second in units of 1e9, or "-" where the amount is not known or the time is none. */
static void format_rate(char text[16], double amount, double seconds)
{
    if (amount > 0 && seconds > 0)
        snprintf(text, 16, "%.1f", amount / seconds / 1e9);
    else
        snprintf(text, 16, "-");
}

static void print_op(const struct xt_bench_op *op, double step_s, FILE *out)
{
    char rates[4][16];
    for (int pass = 0; pass < 2; pass++) {
        format_rate(rates[pass], op->flops[pass], op->seconds[pass]);
        format_rate(rates[2 + pass], op->bytes[pass], op->seconds[pass]);
    }
    fprintf(out, "%-24s %-14s %-4s %9.2f %9.2f %5.1f %% %8s %8s %7s %7s\n", op->name, op->kind,
            xt_dtype_name(op->dtype), 1e3 * op->seconds[0], 1e3 * op->seconds[1],
            100 * (op->seconds[0] + op->seconds[1]) / step_s, rates[0], rates[1], rates[2],
            rates[3]);
}

static void print_part(const char *name, const char *kind, double forward_s, double backward_s,
                       double step_s, FILE *out)
{
    fprintf(out, "%-24s %-14s %-4s %9.2f %9.2f %5.1f %%\n", name, kind, "", 1e3 * forward_s,
            1e3 * backward_s, 100 * (forward_s + backward_s) / step_s);
}

/* One line for all ops of a kind. */
static void print_kinds(const struct xt_bench_profile *p, FILE *out)
{
    for (int i = 0; i < p->op_count; i++) {
        struct xt_bench_op sum = {.dtype = p->ops[i].dtype};
        bool seen = false;
        for (int k = 0; k < p->op_count; k++) {
            const struct xt_bench_op *op = &p->ops[k];
            if (strcmp(op->kind, p->ops[i].kind) != 0 || op->dtype != sum.dtype)
                continue;
            seen = seen || k < i;
            for (int pass = 0; pass < 2; pass++) {
                sum.seconds[pass] += op->seconds[pass];
                sum.flops[pass] += op->flops[pass];
                sum.bytes[pass] += op->bytes[pass];
            }
        }
        snprintf(sum.name, sizeof sum.name, "all");
        memcpy(sum.kind, p->ops[i].kind, sizeof sum.kind);
        if (!seen)
            print_op(&sum, p->step_s, out);
    }
}

void xt_bench_print_profile(const struct xt_bench_profile *p, FILE *out)
{
    fprintf(out, "\n%-24s %-14s %-4s %9s %9s %7s %8s %8s %7s %7s\n", "op", "kind", "type", "fwd ms",
            "bwd ms", "share", "GFLOP/s", "bwd", "GB/s", "bwd");
    for (int i = 0; i < p->op_count; i++)
        print_op(&p->ops[i], p->step_s, out);
    fprintf(out, "\n");
    print_kinds(p, out);
    print_part("weight copies", "refresh", p->refresh_s, 0, p->step_s, out);
    print_part("loss", "loss", p->loss_s, 0, p->step_s, out);
    print_part("clip and update", "update", p->update_s, 0, p->step_s, out);
    fprintf(out, "these parts add up to %.1f ms, %.1f %% of the %.1f ms that the same steps took\n",
            1e3 * p->sum_s, 100 * p->sum_s / p->step_s, 1e3 * p->step_s);
}

/* ---- JSON ---- */

static cJSON *op_to_json(const struct xt_bench_op *op)
{
    static const char *const keys[2][3] = {
        {"forward_ms", "forward_gflops_per_s", "forward_gb_per_s"},
        {"backward_ms", "backward_gflops_per_s", "backward_gb_per_s"},
    };
    cJSON *json = cJSON_CreateObject();
    bool ok = cJSON_AddStringToObject(json, "op", op->name) &&
              cJSON_AddStringToObject(json, "kind", op->kind) &&
              cJSON_AddStringToObject(json, "type", xt_dtype_name(op->dtype));
    for (int pass = 0; pass < 2 && ok; pass++) {
        double seconds = op->seconds[pass];
        ok = cJSON_AddNumberToObject(json, keys[pass][0], 1e3 * seconds);
        if (ok && op->flops[pass] > 0 && seconds > 0)
            ok = cJSON_AddNumberToObject(json, keys[pass][1], op->flops[pass] / seconds / 1e9);
        if (ok && op->bytes[pass] > 0 && seconds > 0)
            ok = cJSON_AddNumberToObject(json, keys[pass][2], op->bytes[pass] / seconds / 1e9);
    }
    if (ok)
        return json;
    cJSON_Delete(json);
    return NULL;
}

static bool add_profile(cJSON *row, const struct xt_bench_profile *p)
{
    cJSON *profile = cJSON_AddObjectToObject(row, "profile");
    bool ok = profile && cJSON_AddNumberToObject(profile, "step_ms", 1e3 * p->step_s) &&
              cJSON_AddNumberToObject(profile, "sum_ms", 1e3 * p->sum_s) &&
              cJSON_AddNumberToObject(profile, "refresh_ms", 1e3 * p->refresh_s) &&
              cJSON_AddNumberToObject(profile, "loss_ms", 1e3 * p->loss_s) &&
              cJSON_AddNumberToObject(profile, "update_ms", 1e3 * p->update_s);
    cJSON *ops = ok ? cJSON_AddArrayToObject(profile, "ops") : NULL;
    ok = ops != NULL;
    for (int i = 0; i < p->op_count && ok; i++)
        ok = cJSON_AddItemToArray(ops, op_to_json(&p->ops[i]));
    return ok;
}

static cJSON *run_to_json(const struct xt_bench_run *run, bool profile)
{
    const struct xt_bench_step *r = &run->result;
    cJSON *json = cJSON_CreateObject();
    bool ok = cJSON_AddStringToObject(json, "model", run->model) &&
              cJSON_AddStringToObject(json, "device", run->device) &&
              cJSON_AddStringToObject(json, "device_name", r->device) &&
              cJSON_AddNumberToObject(json, "threads", r->threads) &&
              cJSON_AddStringToObject(json, "type", xt_dtype_name(r->dtype)) &&
              cJSON_AddNumberToObject(json, "batch", r->batch) &&
              cJSON_AddNumberToObject(json, "steps", r->steps) &&
              cJSON_AddNumberToObject(json, "images_per_s", xt_bench_images_per_s(r)) &&
              cJSON_AddNumberToObject(json, "step_ms", 1e3 * r->step_s) &&
              cJSON_AddNumberToObject(json, "conv_ms", 1e3 * r->conv_s) &&
              cJSON_AddNumberToObject(json, "share", xt_bench_share(r)) &&
              cJSON_AddNumberToObject(json, "first_step_s", r->first_step_s) &&
              cJSON_AddNumberToObject(json, "peak_rss_mb", r->peak_rss_bytes / 1e6) &&
              cJSON_AddNumberToObject(json, "planned_mb", r->planned_bytes / 1e6) &&
              (r->others < 0 || cJSON_AddNumberToObject(json, "others_cpu_share", r->others)) &&
              (run->old_rate <= 0 ||
               cJSON_AddNumberToObject(json, "to_old", xt_bench_images_per_s(r) / run->old_rate)) &&
              (!profile || add_profile(json, &r->profile));
    if (ok)
        return json;
    cJSON_Delete(json);
    return NULL;
}

static cJSON *runs_to_json(const struct xt_bench_run *runs, int count, bool profile)
{
    if (count == 1)
        return run_to_json(&runs[0], profile);
    cJSON *json = cJSON_CreateObject();
    cJSON *list = cJSON_AddArrayToObject(json, "runs");
    bool ok = list != NULL;
    for (int i = 0; i < count && ok; i++)
        ok = cJSON_AddItemToArray(list, run_to_json(&runs[i], profile));
    if (ok && cJSON_AddNumberToObject(json, "fastest", fastest_of(runs, count)))
        return json;
    cJSON_Delete(json);
    return NULL;
}

enum xt_status xt_bench_to_json(const struct xt_bench_run *runs, int count, bool profile,
                                struct xt_str *out, struct xt_err *err)
{
    cJSON *json = runs_to_json(runs, count, profile);
    char *text = json ? cJSON_Print(json) : NULL;
    enum xt_status status = text ? xt_str_printf(out, err, "%s\n", text)
                                 : xt_err_no_memory(err, "the results as JSON", 0);
    cJSON_free(text);
    cJSON_Delete(json);
    return status;
}

/* ---- an earlier run ---- */

struct xt_bench_old {
    char *path;
    cJSON *json;
};

enum xt_status xt_bench_old_read(struct xt_bench_old **out, const char *path, struct xt_err *err)
{
    uint8_t *bytes = NULL;
    size_t capacity = 0;
    size_t size = 0;
    enum xt_status status = xt_file_read(path, OLD_LIMIT, &bytes, &capacity, &size, err);
    if (!status)
        status = xt_mem_calloc(out, 1, sizeof **out, "an earlier run's results", err);
    if (!status)
        status = xt_mem_strdup(&(*out)->path, path, err);
    if (!status) {
        (*out)->json = cJSON_ParseWithLength((const char *)bytes, size);
        if (!cJSON_IsObject((*out)->json))
            status = xt_err_set(err, XT_ERR_DATA,
                                "--against %s: this is not JSON; write the file with `xtrain bench "
                                "step --json ... > FILE`",
                                path);
    }
    free(bytes);
    return status;
}

void xt_bench_old_destroy(struct xt_bench_old *old)
{
    if (!old)
        return;
    cJSON_Delete(old->json);
    free(old->path);
    free(old);
}

static const char *type_name(const struct xt_settings *settings)
{
    return xt_dtype_name(xt_network_dtype(settings));
}

static bool is_text(const cJSON *run, const char *key, const char *text)
{
    const char *own = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(run, key));
    return own && strcmp(own, text) == 0;
}

/* The number, 0 where there is none. */
static double number(const cJSON *run, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(run, key);
    return cJSON_IsNumber(item) ? item->valuedouble : 0;
}

static bool is_same(const cJSON *run, const struct xt_settings *settings)
{
    return is_text(run, "model", settings->model) && is_text(run, "device", settings->device) &&
           is_text(run, "type", type_name(settings)) && number(run, "batch") == settings->batch;
}

static const cJSON *find_run(const cJSON *json, const struct xt_settings *settings)
{
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(json, "runs");
    if (!list)
        return is_same(json, settings) ? json : NULL;
    const cJSON *run = NULL;
    cJSON_ArrayForEach(run, list)
    {
        if (is_same(run, settings))
            return run;
    }
    return NULL;
}

enum xt_status xt_bench_old_rate(const struct xt_bench_old *old, const struct xt_settings *settings,
                                 int threads, double *rate, struct xt_err *err)
{
    const cJSON *run = find_run(old->json, settings);
    if (!run)
        return xt_err_set(err, XT_ERR_DATA,
                          "--against %s has no run of %s on %s in %s at batch %d to compare with",
                          old->path, settings->model, settings->device, type_name(settings),
                          settings->batch);
    double old_threads = number(run, "threads");
    if (threads && old_threads != threads)
        return xt_err_set(err, XT_ERR_DATA,
                          "--against %s was measured with %.0f threads, this run with %d; give "
                          "--threads %.0f",
                          old->path, old_threads, threads, old_threads);
    *rate = number(run, "images_per_s");
    if (*rate > 0)
        return XT_OK;
    return xt_err_set(err, XT_ERR_DATA, "--against %s: the run of batch %d has no images_per_s",
                      old->path, settings->batch);
}

enum xt_status xt_bench_compare(const struct xt_bench_run *runs, int count, const char *path,
                                struct xt_err *err)
{
    for (int i = 0; i < count; i++) {
        const struct xt_bench_step *r = &runs[i].result;
        double rate = xt_bench_images_per_s(r);
        if (rate < XT_BENCH_SLOWEST * runs[i].old_rate)
            return xt_err_set(err, XT_ERR_RUN,
                              "%s on %s in %s at batch %d: %.1f images/s, %.0f %% slower than the "
                              "%.1f of %s",
                              runs[i].model, runs[i].device, xt_dtype_name(r->dtype), r->batch,
                              rate, 100 * (1 - rate / runs[i].old_rate), runs[i].old_rate, path);
    }
    return XT_OK;
}
