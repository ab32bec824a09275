/* Max and average pools as separate ops, in training too: any kernel, strides, paddings. An average
 * that counts padding is the average of the elements inside, times their fraction of the divisor.
 * In inference a pool after a ReLU may use the loops instead (pool.c).
 */
#include <math.h>
#include <stdio.h>

#include "engine/ops/ops.h"
#include "engine/ops/reference.h"

static const char what_max[] = "the max pool";
static const char what_gradient[] = "the max pool's gradient";

/* ---- windows ---- */

/* Along one axis: a window's range, clipped to the padded input and to the input. */
struct covered {
    int first, end; /* within the input */
    int counted;
};

static struct covered cover(int out, int kernel, int stride, int before, int behind, int size)
{
    int first = out * stride - before;
    int end = first + kernel;
    int last = end < size + behind ? end : size + behind;
    return (struct covered){first > 0 ? first : 0, end < size ? end : size, last - first};
}

static struct covered rows_of(const struct xt_window_pool_op *pool, int oy)
{
    const struct xt_window *w = &pool->window;
    return cover(oy, w->kernel_h, w->stride_h, w->pad_h, pool->pad_bottom,
                 xt_op_in(&pool->op, 0)->h);
}

static struct covered columns_of(const struct xt_window_pool_op *pool, int ox)
{
    const struct xt_window *w = &pool->window;
    return cover(ox, w->kernel_w, w->stride_w, w->pad_w, pool->pad_right,
                 xt_op_in(&pool->op, 0)->w);
}

double xt_window_pool_share(const struct xt_window_pool_op *pool, int oy, int ox)
{
    struct covered y = rows_of(pool, oy);
    struct covered x = columns_of(pool, ox);
    return (double)(y.end - y.first) * (x.end - x.first) / ((double)y.counted * x.counted);
}

/* ---- the program ---- */

/* The shares, [1][1][h][w]. */
static struct xt_operand add_shares(struct xt_window_pool_op *pool, struct xt_graph *graph)
{
    const struct xt_tensor *out = xt_op_out(&pool->op, 0);
    int64_t dims[] = {1, 1, out->h, out->w};
    struct xt_location place = xt_op_follow_host(&pool->op, graph, "shares",
                                                 (size_t)out->h * (size_t)out->w, &pool->shares);
    return xt_operand_dense(place, dnnl_f32, 4, dims);
}

static enum xt_status refresh(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    struct xt_window_pool_op *pool = (struct xt_window_pool_op *)op;
    const struct xt_tensor *out = xt_op_out(op, 0);
    float *shares = pool->shares.host;
    (void)graph;
    (void)err;
    for (int i = 0; i < out->h * out->w && pool->counts_padding; i++)
        shares[i] = (float)xt_window_pool_share(pool, i / out->w, i % out->w);
    return XT_OK;
}

static void describe(struct xt_op *op, struct xt_graph *graph)
{
    struct xt_window_pool_op *pool = (struct xt_window_pool_op *)op;
    const struct xt_tensor *in = xt_op_in(op, 0);
    const struct xt_tensor *out = xt_op_out(op, 0);
    bool learns = xt_op_learns(op, graph) && in->wants_grad;
    struct xt_pooling pooling = {.in = in,
                                 .out = out,
                                 .window = &pool->window,
                                 .average = pool->average,
                                 .training = learns,
                                 .forward = xt_op_forward_time(op),
                                 .backward = xt_op_backward_time(graph, op)};
    struct xt_operand shares = {.ndims = 0};
    xt_graph_use(op, graph, 0, 0);
    pooling.from = in->value;
    xt_pooling_forward(op, graph, &pooling);
    struct xt_operand y = xt_operand_tensor(out, out->value);
    if (pool->counts_padding) {
        shares = add_shares(pool, graph);
        xt_program_binary(&op->program, XT_FORWARD, dnnl_binary_mul, &y, &shares, &y, NULL);
    }
    if (!learns)
        return;
    struct xt_operand dy = xt_operand_tensor(out, out->grad[0]);
    if (pool->counts_padding)
        xt_program_binary(&op->program, XT_BACKWARD, dnnl_binary_mul, &dy, &shares, &dy, NULL);
    xt_pooling_backward(op, graph, &pooling, out->grad[0], xt_op_in_grad(op, 0));
}

static void destroy(struct xt_op *op)
{
    xt_device_memory_destroy(&((struct xt_window_pool_op *)op)->shares);
}

/* ---- in double precision ---- */

/* One window: its index in the output, and the input's element that is its first maximum; *lead:
 * its margin over the others. */
struct view {
    const struct xt_window_pool_op *pool;
    struct xt_reference_shape in;
    int n, k;
    struct covered y, x;
};

static struct view view_of(const struct xt_reference_op *reference, size_t index)
{
    const struct xt_window_pool_op *pool = (const struct xt_window_pool_op *)reference->op;
    const struct xt_tensor *in = xt_op_in(reference->op, 0);
    const struct xt_tensor *out = xt_op_out(reference->op, 0);
    size_t pixel = index / (size_t)out->c;
    return (struct view){.pool = pool,
                         .in = {in->n, in->h, in->w, in->c},
                         .n = (int)(pixel / (size_t)out->w / (size_t)out->h),
                         .k = (int)(index % (size_t)out->c),
                         .y = rows_of(pool, (int)(pixel / (size_t)out->w % (size_t)out->h)),
                         .x = columns_of(pool, (int)(pixel % (size_t)out->w))};
}

static size_t largest(const struct view *v, const double *from, double *lead)
{
    size_t best = xt_reference_at(&v->in, v->n, v->y.first, v->x.first, v->k);
    double second = -1e300;
    for (int y = v->y.first; y < v->y.end; y++)
        for (int x = v->x.first; x < v->x.end; x++) {
            size_t at = xt_reference_at(&v->in, v->n, y, x, v->k);
            if (at == best)
                continue;
            if (from[at] > from[best]) {
                second = from[best];
                best = at;
            } else if (from[at] > second) {
                second = from[at];
            }
        }
    *lead = from[best] - second;
    return best;
}

/* The weight of a window's numbers in its average. */
static double weight_of(const struct view *v)
{
    if (v->pool->counts_padding)
        return 1 / ((double)v->y.counted * v->x.counted);
    return 1 / ((double)(v->y.end - v->y.first) * (v->x.end - v->x.first));
}

/* Adds the window's average to *sum or, if that is NULL, its gradient to the elements'. */
static void average(const struct view *v, const double *from, double *sum, double *grads, double dy)
{
    for (int y = v->y.first; y < v->y.end; y++)
        for (int x = v->x.first; x < v->x.end; x++) {
            size_t at = xt_reference_at(&v->in, v->n, y, x, v->k);
            if (sum)
                *sum += from[at] * weight_of(v);
            else
                grads[at] += dy * weight_of(v);
        }
}

static enum xt_status reference_forward(struct xt_reference_op *reference)
{
    for (size_t i = 0; i < xt_tensor_count(xt_op_out(reference->op, 0)); i++) {
        struct view v = view_of(reference, i);
        double lead;
        reference->out[0][i] = 0;
        if (v.pool->average)
            average(&v, reference->in[0], &reference->out[0][i], NULL, 0);
        else
            reference->out[0][i] = reference->in[0][largest(&v, reference->in[0], &lead)];
    }
    return XT_OK;
}

static enum xt_status reference_backward(struct xt_reference_op *reference)
{
    for (size_t i = 0; i < xt_tensor_count(xt_op_out(reference->op, 0)); i++) {
        struct view v = view_of(reference, i);
        double dy = reference->out_grad[0][i];
        double lead;
        if (v.pool->average)
            average(&v, NULL, NULL, reference->in_grad[0], dy);
        else
            reference->in_grad[0][largest(&v, reference->in[0], &lead)] += dy;
    }
    return XT_OK;
}

static void certain(struct xt_reference_op *reference, int output, double *keep)
{
    (void)output;
    for (size_t i = 0; i < xt_tensor_count(xt_op_out(reference->op, 0)); i++) {
        struct view v = view_of(reference, i);
        if (v.pool->average)
            keep[i] = 1;
        else
            largest(&v, reference->in[0], &keep[i]);
    }
}

/* The gradients of an element's windows are summed in the type: half a rounding each. */
static struct xt_bound bound(const struct xt_reference_op *reference, enum xt_part part, int which)
{
    const struct xt_window_pool_op *pool = (const struct xt_window_pool_op *)reference->op;
    const struct xt_window *w = &pool->window;
    double terms = (double)w->kernel_h * w->kernel_w;
    double over = terms / ((double)w->stride_h * w->stride_w);
    double roundings = part == XT_PART_INPUT_GRAD ? fmax(4, over / 2) : 4;
    (void)which;
    return (struct xt_bound){
        .relative = xt_reference_op_relative(xt_op_in(reference->op, 0)->dtype, roundings, terms)};
}

const struct xt_op_kind xt_kind_window_pool = {
    .name = "pool",
    .size = sizeof(struct xt_window_pool_op),
    .describe = describe,
    .refresh = refresh,
    .what = {what_max, what_gradient},
    .reference = {.forward = reference_forward,
                  .backward = reference_backward,
                  .bound = bound,
                  .certain = certain},
    .destroy = destroy,
};

/* ---- adding it to a graph ---- */

/* The number of windows; with ceil_mode the last may extend beyond the padding, but not begin
 * there. */
static int count_windows(int size, int kernel, int stride, int before, int behind, bool ceil_mode)
{
    int room = size + before + behind - kernel;
    if (room < 0)
        return 0;
    int count = (room + (ceil_mode ? stride - 1 : 0)) / stride + 1;
    return ceil_mode && (count - 1) * stride >= size + before ? count - 1 : count;
}

static struct xt_window window_of(const struct xt_pool_spec *spec, const struct xt_tensor *in)
{
    struct xt_window w = {.kernel_h = spec->kernel_h,
                          .kernel_w = spec->kernel_w,
                          .stride_h = spec->stride_h ? spec->stride_h : spec->kernel_h,
                          .stride_w = spec->stride_w ? spec->stride_w : spec->kernel_w,
                          .pad_h = spec->pad_top,
                          .pad_w = spec->pad_left};
    w.out_h =
        count_windows(in->h, w.kernel_h, w.stride_h, w.pad_h, spec->pad_bottom, spec->ceil_mode);
    w.out_w =
        count_windows(in->w, w.kernel_w, w.stride_w, w.pad_w, spec->pad_right, spec->ceil_mode);
    return w;
}

/* A requirement of oneDNN: no window is entirely padding. */
static bool is_possible(const struct xt_pool_spec *spec)
{
    return spec->kernel_h > 0 && spec->kernel_w > 0 && spec->stride_h >= 0 && spec->stride_w >= 0 &&
           spec->pad_top >= 0 && spec->pad_top < spec->kernel_h && spec->pad_left >= 0 &&
           spec->pad_left < spec->kernel_w && spec->pad_bottom >= 0 &&
           spec->pad_bottom < spec->kernel_h && spec->pad_right >= 0 &&
           spec->pad_right < spec->kernel_w;
}

static bool is_padded(const struct xt_window_pool_op *pool)
{
    for (int y = 0; y < pool->window.out_h; y++)
        for (int x = 0; x < pool->window.out_w; x++)
            if (xt_window_pool_share(pool, y, x) != 1)
                return true;
    return false;
}

/* oneDNN's gradient of a maximum in bf16 is wrong where places in the window take more than a byte
 * (seen in 3.2, with and without AVX512_BF16). */
static bool loses_places(const struct xt_graph *graph, const struct xt_tensor *in,
                         const struct xt_pool_spec *spec)
{
    return graph->options.training && !spec->average && in->dtype != XT_F32 &&
           (int64_t)spec->kernel_h * spec->kernel_w > UINT8_MAX;
}

static struct xt_tensor *pool_in_f32(struct xt_graph *graph, struct xt_tensor *in,
                                     const struct xt_pool_spec *spec)
{
    char before[80];
    char behind[80];
    snprintf(before, sizeof before, "%s: input in float32", spec->name);
    snprintf(behind, sizeof behind, "%s in %s", spec->name, xt_dtype_name(in->dtype));
    struct xt_tensor *out =
        xt_graph_window_pool(graph, xt_graph_cast(graph, in, XT_F32, before), spec);
    return xt_graph_cast(graph, out, in->dtype, behind);
}

struct xt_tensor *xt_graph_window_pool(struct xt_graph *graph, struct xt_tensor *in,
                                       const struct xt_pool_spec *spec)
{
    if (!in || xt_graph_fails(graph))
        return NULL;
    if (loses_places(graph, in, spec))
        return pool_in_f32(graph, in, spec);
    if (!is_possible(spec))
        return xt_graph_refuse(graph, XT_ERR_USAGE,
                               "%s: a pool of %dx%d windows with padding %d, %d, %d, %d",
                               spec->name, spec->kernel_h, spec->kernel_w, spec->pad_top,
                               spec->pad_left, spec->pad_bottom, spec->pad_right);
    struct xt_window window = window_of(spec, in);
    bool is_3x3 = spec->kernel_h == 3 && spec->kernel_w == 3;
    bool is_unpadded = !spec->pad_top && !spec->pad_left && !spec->pad_bottom && !spec->pad_right;
    bool has_loops = !graph->options.training && in->above_0 &&
                     (spec->average ? spec->f32 && is_unpadded && !spec->ceil_mode : is_3x3);
    if (has_loops)
        return xt_graph_pool(graph, in, &window, spec->average, spec->name);
    struct xt_window_pool_op *pool = xt_graph_add_op(graph, &xt_kind_window_pool, spec->name);
    if (!pool || !xt_op_read(&pool->op, graph, in))
        return NULL;
    pool->window = window;
    pool->average = spec->average;
    pool->pad_bottom = spec->pad_bottom;
    pool->pad_right = spec->pad_right;
    pool->counts_padding = spec->average && spec->count_include_pad && is_padded(pool);
    bool wide = spec->average && (spec->f32 || xt_dtype_is_int8(in->dtype));
    struct xt_tensor *out = xt_op_write(&pool->op, graph, spec->name, in->n, window.out_h,
                                        window.out_w, in->c, wide ? XT_F32 : in->dtype);
    if (!out)
        return NULL;
    out->scale = wide ? 1 : in->scale;
    out->above_0 = in->above_0;
    out->one_reader = true;
    return out;
}
