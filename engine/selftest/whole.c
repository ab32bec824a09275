#include "engine/selftest/whole.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/number.h"
#include "base/rng.h"
#include "engine/backend.h"
#include "engine/executor.h"
#include "engine/selftest/values.h"

/* Both round differently, which turns single ReLUs over: norms stay near each other, and so do most
 * directions. A gradient below `part` of the whole's norm is compared with that: some are rounding
 * alone. */
struct bounds {
    double logits, norm, direction, part;
};
static const struct bounds of_f32 = {2e-3, 0.05, 0.5, 1e-3};
static const struct bounds of_16_bits = {0.3, 0.5, 1.7, 0.02};

/* One of the two passes, and what it computed. */
struct side {
    struct xt_params params;
    struct xt_graph *graph;
    uint8_t *pixels;
    size_t logits, count; /* numbers: logits, then gradients in the order of the parameters */
    float *numbers;
};

static void clear(struct side *side)
{
    xt_graph_destroy(side->graph);
    xt_params_clear(&side->params);
    free(side->pixels);
    free(side->numbers);
}

/* ---- running ---- */

static enum xt_status build(struct side *side, const struct xt_selftest_options *o, bool training,
                            bool by_slices, struct xt_err *err)
{
    const struct xt_graph_options options = {.device = o->device,
                                             .params = &side->params,
                                             .backend = o->backend,
                                             .batch = o->batch,
                                             .training = training,
                                             .fuse = !training,
                                             .dtype = o->dtype,
                                             .by_slices = by_slices};
    enum xt_status status = xt_graph_create(&side->graph, &options, err);
    /* An XPU's kernels are not compiled for nothing. */
    if (status || (by_slices && !side->graph->backend->by_slices))
        return status;
    return xt_graph_build(side->graph, o->network.describe(side->graph, o->network.context), err);
}

static enum xt_status allocate(struct side *side, struct xt_err *err)
{
    side->count = side->logits = xt_tensor_count(side->graph->logits);
    for (int i = 0; i < side->params.count; i++)
        if (xt_param_learns(&side->params.items[i]))
            side->count += xt_param_file_count(&side->params.items[i]);
    enum xt_status status =
        xt_mem_aligned(&side->pixels, xt_graph_slot_bytes(side->graph), 1, "random pixels", err);
    if (!status)
        status = xt_mem_calloc(&side->numbers, side->count, sizeof *side->numbers,
                               "a pass's results", err);
    return status;
}

static enum xt_status keep_gradients(struct side *side, struct xt_err *err)
{
    struct xt_params *params = &side->params;
    float *to = side->numbers + side->logits;
    enum xt_status status = xt_params_pull_grads(params, err);
    const struct xt_params_view view = {params->grads, NULL};
    for (int i = 0; i < params->count && !status; i++) {
        const struct xt_param *param = &params->items[i];
        if (!xt_param_learns(param))
            continue;
        status = xt_params_export(param, side->graph->options.device, &view, to, err);
        to += xt_param_file_count(param);
    }
    return status;
}

/* On images of that stream of random numbers. */
static enum xt_status run(struct side *side, uint64_t stream, struct xt_err *err)
{
    struct xt_graph *graph = side->graph;
    struct xt_rng rng = xt_rng_begin(XT_SELFTEST_SEED, stream);
    size_t bytes = xt_graph_slot_bytes(graph);
    for (size_t i = 0; i < bytes; i++)
        side->pixels[i] = (uint8_t)xt_rng_next(&rng);
    graph->pass = (struct xt_graph_pass){.pixels = side->pixels,
                                         .count = graph->options.batch,
                                         .training = graph->options.training,
                                         .seed = XT_SELFTEST_SEED};
    /* A pass in training moves running statistics. */
    enum xt_status status = xt_selftest_fill_all(&side->params, graph->options.device, err);
    if (!status)
        status = xt_graph_forward(graph, err);
    if (status)
        return status;
    memcpy(side->numbers, xt_graph_logits(graph), side->logits * sizeof *side->numbers);
    if (!graph->options.training)
        return XT_OK;
    rng = xt_rng_begin(XT_SELFTEST_SEED, 1);
    for (size_t i = 0; i < side->logits; i++)
        xt_graph_logits_grad(graph)[i] = 2 * xt_rng_uniform(&rng) - 1;
    status = xt_graph_backward(graph, err);
    return status ? status : keep_gradients(side, err);
}

/* Of other images first, so that what the pass leaves out is seen. */
static enum xt_status compute(struct side *side, struct xt_err *err)
{
    enum xt_status status = allocate(side, err);
    if (!status)
        status = run(side, 2, err);
    return status ? status : run(side, 0, err);
}

/* ---- comparing ---- */

static double norm_of(const float *numbers, size_t count)
{
    double square = 0;
    for (size_t i = 0; i < count; i++)
        square += (double)numbers[i] * (double)numbers[i];
    return sqrt(square);
}

static double distance(const float *a, const float *b, size_t count)
{
    double square = 0;
    for (size_t i = 0; i < count; i++)
        square += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
    return sqrt(square);
}

/* What a row is to hold, and whether one of its comparisons is beyond its bound. */
struct judgement {
    struct xt_selftest_row *row;
    bool wrong;
};

static struct xt_selftest_row *row_of(struct xt_selftest *out, const struct side *ops,
                                      enum xt_selftest_pass pass, struct xt_err *err)
{
    return xt_selftest_row(out, "whole pass", ops->graph->options.dtype, pass, err);
}

/* The comparison that comes nearest to its bound, or is farthest beyond it, stays. */
static void judge(struct judgement *j, double error, double bound, const char *where)
{
    struct xt_selftest_row *row = j->row;
    error = isnan(error) ? INFINITY : error;
    j->wrong |= !(error <= bound);
    if (*row->where && error * row->bound <= row->error * bound)
        return;
    row->error = error;
    row->bound = bound;
    snprintf(row->where, sizeof row->where, "%s", where);
}

static void end(const struct judgement *j, struct xt_selftest *out)
{
    j->row->ops++;
    j->row->wrong += j->wrong;
    out->wrong += j->wrong;
}

/* `directions` has room for one of each. */
static void judge_gradients(const struct side *slices, const struct side *ops,
                            const struct bounds *bounds, double *directions,
                            struct judgement *judgement)
{
    const float *a = slices->numbers + slices->logits;
    const float *b = ops->numbers + ops->logits;
    double whole = norm_of(b, ops->count - ops->logits);
    size_t count = 0;
    for (int i = 0; i < ops->params.count; i++) {
        const struct xt_param *param = &ops->params.items[i];
        if (!xt_param_learns(param))
            continue;
        size_t numbers = xt_param_file_count(param);
        double norm = norm_of(b, numbers);
        double other = norm_of(a, numbers);
        double scale = norm + bounds->part * whole;
        char where[sizeof judgement->row->where];
        snprintf(where, sizeof where, "gradient of %s, by slices beside op by op", param->name);
        if (scale > 0 || other > 0)
            judge(judgement, fabs(other - norm) / scale, bounds->norm, where);
        directions[count++] = scale > 0 ? distance(a, b, numbers) / scale : 0;
        a += numbers;
        b += numbers;
    }
    qsort(directions, count, sizeof *directions, xt_number_compare);
    if (count)
        judge(judgement, directions[count / 2], bounds->direction,
              "the median of the gradients, by slices beside op by op");
}

static enum xt_status compare_gradients(struct xt_selftest *out, const struct side *slices,
                                        const struct side *ops, const struct bounds *bounds,
                                        struct xt_err *err)
{
    double *directions = NULL;
    struct judgement judgement = {row_of(out, ops, XT_SELFTEST_BACKWARD, err), false};
    if (!judgement.row || xt_mem_calloc(&directions, (size_t)ops->params.count + 1,
                                        sizeof *directions, "a pass's results", err))
        return err->status;
    judge_gradients(slices, ops, bounds, directions, &judgement);
    end(&judgement, out);
    free(directions);
    return XT_OK;
}

static enum xt_status compare(struct xt_selftest *out, const struct side *slices,
                              const struct side *ops, struct xt_err *err)
{
    const struct xt_graph_options *options = &ops->graph->options;
    const struct bounds *bounds = options->dtype == XT_F32 ? &of_f32 : &of_16_bits;
    double whole = norm_of(ops->numbers, ops->logits);
    double off = distance(slices->numbers, ops->numbers, ops->logits);
    struct judgement logits = {
        row_of(out, ops, options->training ? XT_SELFTEST_FORWARD : XT_SELFTEST_INFERENCE, err),
        false};
    if (!logits.row)
        return err->status;
    judge(&logits, off > 0 ? off / whole : off, bounds->logits,
          "logits, by slices beside op by op");
    end(&logits, out);
    return options->training ? compare_gradients(out, slices, ops, bounds, err) : XT_OK;
}

static enum xt_status compute_both(struct xt_selftest *out,
                                   const struct xt_selftest_options *options, bool training,
                                   struct side sides[2], struct xt_err *err)
{
    enum xt_status status = build(&sides[0], options, training, true, err);
    if (status || !sides[0].graph->slices.workers)
        return status;
    status = compute(&sides[0], err);
    if (!status)
        status = build(&sides[1], options, training, false, err);
    if (!status)
        status = compute(&sides[1], err);
    /* Weights at random may lead to numbers that are none. */
    if (status || !isfinite(norm_of(sides[1].numbers, sides[1].count)))
        return status;
    return compare(out, &sides[0], &sides[1], err);
}

static enum xt_status check(struct xt_selftest *out, const struct xt_selftest_options *options,
                            bool training, struct xt_err *err)
{
    struct side *sides = NULL;
    enum xt_status status = xt_mem_calloc(&sides, 2, sizeof *sides, "the self-test", err);
    if (status)
        return status;
    status = compute_both(out, options, training, sides, err);
    for (int i = 0; i < 2; i++)
        clear(&sides[i]);
    free(sides);
    return status;
}

enum xt_status xt_selftest_whole(struct xt_selftest *out, const struct xt_selftest_options *options,
                                 struct xt_err *err)
{
    if (options->int8)
        return XT_OK;
    enum xt_status status = check(out, options, true, err);
    return status ? status : check(out, options, false, err);
}
