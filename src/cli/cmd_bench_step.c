/* xtrain bench step: what a training step takes, and how near that is to the convolutions alone. */
#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/thread.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "cli/progress.h"
#include "models/model.h"
#include "train/bench_step.h"

enum { STEPS = 12 };

/* ---- showing ---- */

static void print_head(void)
{
    printf("%-6s %-4s %5s %8s %9s %8s %8s %6s %12s %8s %10s\n", "device", "type", "batch",
           "threads", "images/s", "step ms", "conv ms", "share", "first step s", "peak MB",
           "planned MB");
}

static void print_row(const char *device, const struct xt_bench_step *r)
{
    printf("%-6s %-4s %5d %8d %9.1f %8.1f %8.1f %4.0f %% %12.2f %8.0f %10.0f\n", device,
           xt_dtype_name(r->dtype), r->batch, r->threads, xt_bench_images_per_s(r), 1e3 * r->step_s,
           1e3 * r->conv_s, 100 * xt_bench_share(r), r->first_step_s, r->peak_rss_bytes / 1e6,
           r->planned_bytes / 1e6);
}

/* Amount per second in units of 1e9, or "-" where the amount is not known or the time is none. */
static void format_rate(char text[16], double amount, double seconds)
{
    if (amount > 0 && seconds > 0)
        snprintf(text, 16, "%.1f", amount / seconds / 1e9);
    else
        snprintf(text, 16, "-");
}

static void print_op(const struct xt_bench_op *op, double step_s)
{
    char rates[4][16];
    for (int pass = 0; pass < 2; pass++) {
        format_rate(rates[pass], op->flops[pass], op->seconds[pass]);
        format_rate(rates[2 + pass], op->bytes[pass], op->seconds[pass]);
    }
    printf("%-24s %-14s %-4s %9.2f %9.2f %5.1f %% %8s %8s %7s %7s\n", op->name, op->kind,
           xt_dtype_name(op->dtype), 1e3 * op->seconds[0], 1e3 * op->seconds[1],
           100 * (op->seconds[0] + op->seconds[1]) / step_s, rates[0], rates[1], rates[2],
           rates[3]);
}

static void print_part(const char *name, const char *kind, double forward_s, double backward_s,
                       double step_s)
{
    printf("%-24s %-14s %-4s %9.2f %9.2f %5.1f %%\n", name, kind, "", 1e3 * forward_s,
           1e3 * backward_s, 100 * (forward_s + backward_s) / step_s);
}

/* One line for all ops of a kind. */
static void print_kinds(const struct xt_bench_profile *p)
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
            print_op(&sum, p->step_s);
    }
}

static void print_profile(const struct xt_bench_profile *p)
{
    printf("\n%-24s %-14s %-4s %9s %9s %7s %8s %8s %7s %7s\n", "op", "kind", "type", "fwd ms",
           "bwd ms", "share", "GFLOP/s", "bwd", "GB/s", "bwd");
    for (int i = 0; i < p->op_count; i++)
        print_op(&p->ops[i], p->step_s);
    printf("\n");
    print_kinds(p);
    print_part("weight copies", "refresh", p->refresh_s, 0, p->step_s);
    print_part("loss", "loss", p->loss_s, 0, p->step_s);
    print_part("clip and update", "update", p->update_s, 0, p->step_s);
    printf("these parts add up to %.1f ms, %.1f %% of the %.1f ms that the same steps took\n",
           1e3 * p->sum_s, 100 * p->sum_s / p->step_s, 1e3 * p->step_s);
}

static void show_progress(void *context, int done, int all)
{
    struct xt_progress *progress = context;
    struct xt_progress_state state = {.step = done,
                                      .steps = all,
                                      .loss = NAN,
                                      .lr = NAN,
                                      .images_per_s = NAN,
                                      .seconds_left = NAN,
                                      .wait = NAN};
    xt_progress_show(progress, &state, xt_thread_seconds(), false);
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

static cJSON *row_to_json(const char *model, const char *device, const struct xt_bench_step *r,
                          bool profile)
{
    cJSON *row = cJSON_CreateObject();
    bool ok = cJSON_AddStringToObject(row, "model", model) &&
              cJSON_AddStringToObject(row, "device", device) &&
              cJSON_AddStringToObject(row, "device_name", r->device) &&
              cJSON_AddNumberToObject(row, "threads", r->threads) &&
              cJSON_AddStringToObject(row, "type", xt_dtype_name(r->dtype)) &&
              cJSON_AddNumberToObject(row, "batch", r->batch) &&
              cJSON_AddNumberToObject(row, "steps", r->steps) &&
              cJSON_AddNumberToObject(row, "images_per_s", xt_bench_images_per_s(r)) &&
              cJSON_AddNumberToObject(row, "step_ms", 1e3 * r->step_s) &&
              cJSON_AddNumberToObject(row, "conv_ms", 1e3 * r->conv_s) &&
              cJSON_AddNumberToObject(row, "share", xt_bench_share(r)) &&
              cJSON_AddNumberToObject(row, "first_step_s", r->first_step_s) &&
              cJSON_AddNumberToObject(row, "peak_rss_mb", r->peak_rss_bytes / 1e6) &&
              cJSON_AddNumberToObject(row, "planned_mb", r->planned_bytes / 1e6) &&
              (!profile || add_profile(row, &r->profile));
    if (ok)
        return row;
    cJSON_Delete(row);
    return NULL;
}

static enum xt_status print_json(const struct xt_settings *s, const struct xt_bench_step *r,
                                 struct xt_err *err)
{
    cJSON *row = row_to_json(s->model, s->device, r, s->profile);
    char *text = row ? cJSON_Print(row) : NULL;
    if (text)
        printf("%s\n", text);
    cJSON_free(text);
    cJSON_Delete(row);
    return text ? XT_OK : xt_err_no_memory(err, "the results as JSON", 0);
}

/* ---- the command ---- */

static int steps_to_time(const struct xt_options *options)
{
    bool said = xt_options_source(options, "steps") >= XT_SOURCE_CONFIG;
    int64_t steps = said ? options->values.steps : STEPS;
    return steps > 100000 ? 100000 : (int)steps;
}

enum xt_status xt_cmd_bench_step(struct xt_options *options, struct xt_err *err)
{
    const struct xt_settings *s = &options->values;
    struct xt_bench_step result;
    struct xt_progress progress;
    xt_progress_init(&progress, s->quiet, true);
    const struct xt_bench_observer observer = {.context = &progress, .progress = show_progress};
    enum xt_status status = xt_bench_step(&result, s, steps_to_time(options), &observer, err);
    xt_progress_clear(&progress);
    if (!status && s->json)
        status = print_json(s, &result, err);
    if (!status && !s->json) {
        printf("%s, training steps on random pictures in memory, %s\n",
               xt_model_find(s->model)->title, result.device);
        print_head();
        print_row(s->device, &result);
        if (s->profile)
            print_profile(&result.profile);
    }
    xt_bench_step_clear(&result);
    return status;
}
