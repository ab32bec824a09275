#include "cli/bench/step_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/slow_report.h"
#include "engine/executor.h"

static int fastest_of(const struct xt_bench_run *runs, int count)
{
    int fastest = 0;
    for (int i = 1; i < count; i++)
        if (xt_bench_images_per_s(&runs[i].result) > xt_bench_images_per_s(&runs[fastest].result))
            fastest = i;
    return fastest;
}

/* ---- a profile ---- */

/* Amount per second in units of 1e9, if the amount is known and the time is not zero. */
static double rate_of(double amount, double seconds)
{
    return amount > 0 && seconds > 0 ? amount / seconds / 1e9 : NAN;
}

static void describe_op(struct xt_report *table, const struct xt_bench_op *op, const char *type,
                        double step_s)
{
    struct xt_report *row = xt_report_group(table, NULL);
    double all_s = op->seconds[0] + op->seconds[1];
    xt_report_add(row, "op", "op", "%-24s", op->name);
    xt_report_add(row, "kind", "kind", "%-14s", op->kind);
    xt_report_add(row, "type", "type", "%-4s", type);
    xt_report_add(row, "forward_ms", "fwd ms", "%9.2f", 1e3 * op->seconds[0]);
    xt_report_add(row, "backward_ms", "bwd ms", "%9.2f", 1e3 * op->seconds[1]);
    xt_report_scaled(row, NULL, "share", 100, "%5.1f %%", all_s / step_s);
    xt_report_add(row, "forward_gflops_per_s", "GFLOP/s", "%8.1f",
                  rate_of(op->flops[0], op->seconds[0]));
    xt_report_add(row, "backward_gflops_per_s", "bwd", "%8.1f",
                  rate_of(op->flops[1], op->seconds[1]));
    xt_report_add(row, "forward_gb_per_s", "GB/s", "%7.1f", rate_of(op->bytes[0], op->seconds[0]));
    xt_report_add(row, "backward_gb_per_s", "bwd", "%7.1f", rate_of(op->bytes[1], op->seconds[1]));
}

static void add_op(struct xt_bench_op *sum, const struct xt_bench_op *op)
{
    for (int pass = 0; pass < 2; pass++) {
        sum->seconds[pass] += op->seconds[pass];
        sum->flops[pass] += op->flops[pass];
        sum->bytes[pass] += op->bytes[pass];
    }
}

/* A row for each op, and for the parts of a layer one. */
static void describe_ops(struct xt_report *table, const struct xt_bench_profile *p)
{
    int end = 0;
    for (int i = 0; i < p->op_count; i = end) {
        struct xt_bench_op sum = p->ops[i];
        const char *name = p->ops[i].name;
        for (end = i + 1; end < p->op_count && xt_op_shares_layer(name, p->ops[end].name); end++)
            add_op(&sum, &p->ops[end]);
        if (end > i + 1) {
            snprintf(sum.name, sizeof sum.name, "%.*s", xt_op_layer_length(name), name);
            snprintf(sum.kind, sizeof sum.kind, "%d ops", end - i);
        }
        describe_op(table, &sum, xt_dtype_name(sum.dtype), p->step_s);
    }
}

/* A row for all ops of a kind and type, in order of first use. */
static void describe_kinds(struct xt_report *table, const struct xt_bench_profile *p)
{
    for (int i = 0; i < p->op_count; i++) {
        struct xt_bench_op sum = {.name = "all"};
        int first = p->op_count;
        memcpy(sum.kind, p->ops[i].kind, sizeof sum.kind);
        for (int k = p->op_count - 1; k >= 0; k--)
            if (strcmp(p->ops[k].kind, sum.kind) == 0 && p->ops[k].dtype == p->ops[i].dtype) {
                add_op(&sum, &p->ops[k]);
                first = k;
            }
        if (first == i)
            describe_op(table, &sum, xt_dtype_name(p->ops[i].dtype), p->step_s);
    }
}

static void describe_part(struct xt_report *table, const struct xt_bench_profile *p,
                          const char *name, const char *kind, double seconds)
{
    struct xt_bench_op part = {.seconds = {seconds, 0}};
    snprintf(part.name, sizeof part.name, "%s", name);
    snprintf(part.kind, sizeof part.kind, "%s", kind);
    describe_op(table, &part, "", p->step_s);
}

static void describe_profile(struct xt_report *row, const struct xt_bench_run *run)
{
    const struct xt_bench_profile *p = &run->result.profile;
    struct xt_report *to = xt_report_group(row, "profile");
    xt_report_line(to, "%s", "");
    xt_report_line(to, "%s, %s, batch %d", run->device, xt_dtype_name(run->result.dtype),
                   run->result.batch);
    xt_report_values(to, "step_ms=%f sum_ms=%f refresh_ms=%f loss_ms=%f update_ms=%f",
                     1e3 * p->step_s, 1e3 * p->sum_s, 1e3 * p->refresh_s, 1e3 * p->loss_s,
                     1e3 * p->update_s);
    struct xt_report *ops = xt_report_table(to, "ops");
    describe_ops(ops, p);
    struct xt_report *sums = xt_report_group_in(to, NULL, NULL);
    xt_report_line(sums, "%s", "");
    struct xt_report *kinds = xt_report_table(sums, NULL);
    describe_kinds(kinds, p);
    describe_part(kinds, p, "weight copies", "refresh", p->refresh_s);
    describe_part(kinds, p, "loss", "loss", p->loss_s);
    describe_part(kinds, p, "clip and update", "update", p->update_s);
    xt_report_line(sums,
                   "these parts add up to %.1f ms, %.1f %% of the %.1f ms that these steps took",
                   1e3 * p->sum_s, 100 * p->sum_s / p->step_s, 1e3 * p->step_s);
}

/* ---- what makes it slow ---- */

/* As text below all rows. */
static void describe_why(struct xt_report *report, struct xt_report *row,
                         const struct xt_bench_run *run, bool named)
{
    struct xt_report *to = xt_report_group_in(report, row, "why");
    if (named) {
        xt_report_line(to, "%s", "");
        xt_report_line(to, "%s, %s, batch %d", run->device, xt_dtype_name(run->result.dtype),
                       run->result.batch);
    }
    xt_slow_report_why(to, &run->result.slow, &run->result.facts);
}

/* ---- the runs ---- */

static void describe_run(struct xt_report *row, const struct xt_bench_run *run, bool beside)
{
    const struct xt_bench_step *r = &run->result;
    xt_report_add(row, "model", NULL, "%s", run->model);
    xt_report_add(row, "device", "device", "%-6s", run->device);
    xt_report_add(row, "device_name", NULL, "%s", r->device);
    xt_report_add(row, "type", "type", "%-4s", xt_dtype_name(r->dtype));
    xt_report_add(row, "batch", "batch", "%d", r->batch);
    xt_report_add(row, "threads", "threads", "%d", r->threads);
    xt_report_add(row, "beside", beside ? "beside" : NULL, "%d", run->beside);
    xt_report_add(row, "steps", NULL, "%d", r->steps);
    xt_report_add(row, "images_per_s", "images/s", "%9.1f", xt_bench_images_per_s(r));
    xt_report_add(row, "step_ms", "step ms", "%8.1f", 1e3 * r->step_s);
    xt_report_add(row, "conv_ms", "conv ms", "%8.1f", 1e3 * r->conv_s);
    xt_report_scaled(row, "share", "share", 100, "%4.0f %%", r->conv_s / r->step_s);
    xt_report_add(row, "free_conv_ms", "free conv ms", "%13.1f", 1e3 * r->free_conv_s);
    xt_report_scaled(row, "free_share", "share", 100, "%4.0f %%", r->free_conv_s / r->step_s);
    xt_report_add(row, "first_step_seconds", "first step s", "%13.2f", r->first_step_s);
    xt_report_add(row, "peak_rss_mb", "peak MB", "%8.0f", r->peak_rss_bytes / 1e6);
    xt_report_add(row, "planned_mb", "planned MB", "%11.0f", r->planned_bytes / 1e6);
    if (r->others >= 0)
        xt_report_add(row, "others_cpu_share", NULL, "%f", r->others);
}

void xt_bench_describe(struct xt_report *report, const struct xt_bench_run *runs, int count,
                       struct xt_bench_show show)
{
    struct xt_report *table = xt_report_table(report, count > 1 ? "runs" : NULL);
    for (int i = 0; i < count; i++) {
        struct xt_report *row = xt_report_group(table, NULL);
        double rate = xt_bench_images_per_s(&runs[i].result);
        describe_run(row, &runs[i], show.beside);
        if (count > 1)
            xt_report_add(row, NULL, "to first", "%9.2f",
                          rate / xt_bench_images_per_s(&runs[0].result));
        if (runs[i].old_rate > 0)
            xt_report_add(row, "to_old", "to old", "%7.2f", rate / runs[i].old_rate);
        if (show.profile)
            describe_profile(row, &runs[i]);
        if (show.why)
            describe_why(report, row, &runs[i], count > 1);
    }
    if (count == 1)
        return;
    int fastest = fastest_of(runs, count);
    const struct xt_bench_step *r = &runs[fastest].result;
    xt_report_add(report, "fastest", NULL, "%d", fastest);
    xt_report_line(report, "fastest: --device %s --amp %s --batch %d, %.1f images/s",
                   runs[fastest].device, r->dtype == XT_F32 ? "f32" : xt_dtype_name(r->dtype),
                   r->batch, xt_bench_images_per_s(r));
}
