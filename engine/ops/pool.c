/* Max and average pools: parts of a norm's program, or separate ops in a fused graph, where the
 * rest of the norm is folded into the convolution.
 */

#include "engine/ops/ops.h"
#include "engine/ops/reference.h"

static const char what_max[] = "the max pool";
static const char what_average[] = "the average pool";
static const char what_max_gradient[] = "the max pool's gradient";
static const char what_average_gradient[] = "the average pool's gradient";

/* ---- a pool as primitives ---- */

struct windows {
    dnnl_dims_t strides, kernel, dilation, pads, ends;
};

static int end_of(int out, int kernel, int stride, int pad, int size)
{
    int end = (out - 1) * stride + kernel - pad - size;
    return end > 0 ? end : 0;
}

struct xt_window_ends xt_window_ends(const struct xt_window *w, int h, int width)
{
    return (struct xt_window_ends){end_of(w->out_h, w->kernel_h, w->stride_h, w->pad_h, h),
                                   end_of(w->out_w, w->kernel_w, w->stride_w, w->pad_w, width)};
}

static struct windows windows_of(const struct xt_pooling *pool)
{
    const struct xt_window *w = pool->window;
    struct xt_window_ends ends = xt_window_ends(w, pool->in->h, pool->in->w);
    return (struct windows){.strides = {w->stride_h, w->stride_w},
                            .kernel = {w->kernel_h, w->kernel_w},
                            .pads = {w->pad_h, w->pad_w},
                            .ends = {ends.h, ends.w}};
}

static dnnl_alg_kind_t alg_of(const struct xt_pooling *pool)
{
    return pool->average ? dnnl_pooling_avg_exclude_padding : dnnl_pooling_max;
}

static const char *what_of(const struct xt_pooling *pool)
{
    return pool->average ? what_average : what_max;
}

static bool is_copy(const struct xt_pooling *pool)
{
    const struct xt_window *w = pool->window;
    return pool->average && w->kernel_h == 1 && w->kernel_w == 1 && w->stride_h == 1 &&
           w->stride_w == 1;
}

static dnnl_primitive_desc_t make_forward(struct xt_program *program, const struct xt_pooling *pool,
                                          const struct xt_operand *in, const struct xt_operand *out,
                                          dnnl_prop_kind_t kind)
{
    struct windows w = windows_of(pool);
    dnnl_memory_desc_t from = xt_program_layout(program, in);
    dnnl_memory_desc_t to = xt_program_layout(program, out);
    dnnl_primitive_attr_t attr = xt_program_attr(program, NULL);
    dnnl_primitive_desc_t pd = NULL;
    if (!xt_program_fails(program))
        xt_program_check(program,
                         xt_dnnl.pooling_forward_primitive_desc_create(
                             &pd, program->device->engine, kind, alg_of(pool), from, to, w.strides,
                             w.kernel, w.dilation, w.pads, w.ends, attr),
                         what_of(pool));
    return pd;
}

/* The pool in the input's type: oneDNN supports no other on an XPU. */
static void add_pool(struct xt_op *op, struct xt_graph *graph, struct xt_pooling *pool,
                     const struct xt_operand *in, const struct xt_operand *out)
{
    bool keeps_argmax = pool->training && !pool->average;
    dnnl_primitive_desc_t pd = make_forward(
        &op->program, pool, in, out, keeps_argmax ? dnnl_forward_training : dnnl_forward_inference);
    size_t bytes = keeps_argmax ? xt_layout_bytes(xt_layout_of(pd, dnnl_query_workspace_md, 0)) : 0;
    if (bytes)
        pool->workspace = xt_graph_saved(graph, op, "argmax", bytes);
    struct xt_step *step = xt_program_add(&op->program, XT_FORWARD, pd, what_of(pool));
    xt_step_arg(step, DNNL_ARG_SRC, in->place);
    xt_step_arg(step, DNNL_ARG_DST, out->place);
    if (pool->workspace)
        xt_step_arg(step, DNNL_ARG_WORKSPACE, xt_in_buffer(pool->workspace));
}

/* Memory for a tensor in another type, at that time. */
static struct xt_operand add_room(const struct xt_tensor *tensor, struct xt_graph *graph, int time,
                                  enum xt_dtype dtype)
{
    size_t bytes = xt_tensor_count(tensor) * xt_dtype_size(dtype);
    struct xt_operand room =
        xt_operand_tensor(tensor, xt_graph_temporary(graph, tensor, bytes, time));
    room.dtype = xt_dtype_dnnl(dtype);
    return room;
}

/* int8 is dequantised before it is averaged. */
static void add_int8_average(struct xt_op *op, struct xt_graph *graph, struct xt_pooling *pool,
                             const struct xt_operand *in, const struct xt_operand *out)
{
    struct xt_location scale = xt_graph_scale_of(graph, pool->in);
    if (is_copy(pool)) {
        xt_program_dequantise(&op->program, XT_FORWARD, in, scale, out);
        return;
    }
    struct xt_operand wide = add_room(pool->in, graph, pool->forward, XT_F32);
    xt_program_dequantise(&op->program, XT_FORWARD, in, scale, &wide);
    add_pool(op, graph, pool, &wide, out);
}

void xt_pooling_forward(struct xt_op *op, struct xt_graph *graph, struct xt_pooling *pool)
{
    struct xt_operand in = xt_operand_tensor(pool->in, pool->from);
    struct xt_operand out = xt_operand_tensor(pool->out, pool->out->value);
    if (pool->average && xt_dtype_is_int8(pool->in->dtype)) {
        add_int8_average(op, graph, pool, &in, &out);
    } else if (is_copy(pool)) {
        xt_program_reorder(&op->program, XT_FORWARD, &in, &out);
    } else if (pool->out->dtype == pool->in->dtype) {
        add_pool(op, graph, pool, &in, &out);
    } else {
        struct xt_operand narrow = add_room(pool->out, graph, pool->forward, pool->in->dtype);
        add_pool(op, graph, pool, &in, &narrow);
        xt_program_reorder(&op->program, XT_FORWARD, &narrow, &out);
    }
}

static dnnl_primitive_desc_t make_backward(struct xt_program *program,
                                           const struct xt_pooling *pool,
                                           const struct xt_operand *in,
                                           const struct xt_operand *out, const char *what)
{
    struct windows w = windows_of(pool);
    dnnl_primitive_desc_t hint = make_forward(program, pool, in, out, dnnl_forward_training);
    dnnl_memory_desc_t before = xt_program_layout(program, in);
    dnnl_memory_desc_t behind = xt_program_layout(program, out);
    dnnl_primitive_attr_t attr = xt_program_attr(program, NULL);
    dnnl_primitive_desc_t pd = NULL;
    if (!xt_program_fails(program))
        xt_program_check(program,
                         xt_dnnl.pooling_backward_primitive_desc_create(
                             &pd, program->device->engine, alg_of(pool), before, behind, w.strides,
                             w.kernel, w.dilation, w.pads, w.ends, hint, attr),
                         what);
    xt_program_keep(program, hint);
    return pd;
}

/* The input's; but oneDNN's kernel for GPUs gives a wrong gradient of an average in bf16, or NaN
 * (3.2, on the tests' double of a GPU). */
static enum xt_dtype gradient_type(const struct xt_graph *graph, const struct xt_pooling *pool)
{
    bool is_wrong =
        pool->average && graph->options.device->own_memory && pool->in->dtype == XT_BF16;
    return is_wrong ? XT_F32 : pool->in->dtype;
}

void xt_pooling_backward(struct xt_op *op, struct xt_graph *graph, const struct xt_pooling *pool,
                         const struct xt_buffer *grad, const struct xt_buffer *to)
{
    const char *what = pool->average ? what_average_gradient : what_max_gradient;
    struct xt_operand in = xt_operand_tensor(pool->in, to);
    struct xt_operand given = xt_operand_tensor(pool->out, grad);
    if (is_copy(pool)) {
        xt_program_reorder(&op->program, XT_BACKWARD, &given, &in);
        return;
    }
    enum xt_dtype dtype = gradient_type(graph, pool);
    struct xt_operand out = given;
    struct xt_operand wide = in;
    if (pool->out->dtype != dtype) {
        out = add_room(pool->out, graph, pool->backward, dtype);
        xt_program_reorder(&op->program, XT_BACKWARD, &given, &out);
    }
    if (pool->in->dtype != dtype)
        wide = add_room(pool->in, graph, pool->backward, dtype);
    struct xt_step *step = xt_program_add(
        &op->program, XT_BACKWARD, make_backward(&op->program, pool, &wide, &out, what), what);
    xt_step_arg(step, DNNL_ARG_DIFF_DST, out.place);
    xt_step_arg(step, DNNL_ARG_DIFF_SRC, wide.place);
    if (pool->workspace)
        xt_step_arg(step, DNNL_ARG_WORKSPACE, xt_in_buffer(pool->workspace));
    if (pool->in->dtype != dtype)
        xt_program_reorder(&op->program, XT_BACKWARD, &wide, &in);
}

/* ---- the op of a fused graph ---- */

static void describe(struct xt_op *op, struct xt_graph *graph)
{
    const struct xt_pool_op *pool = (const struct xt_pool_op *)op;
    xt_graph_use(op, graph, 0, 0);
    struct xt_pooling pooling = {
        .in = xt_op_in(op, 0),
        .from = xt_op_in(op, 0)->value,
        .out = xt_op_out(op, 0),
        .window = &pool->window,
        .average = pool->average,
        .forward = xt_op_forward_time(op),
    };
    xt_pooling_forward(op, graph, &pooling);
}

static enum xt_status reference_forward(struct xt_reference_op *reference)
{
    const struct xt_pool_op *pool = (const struct xt_pool_op *)reference->op;
    const struct xt_tensor *in = xt_op_in(reference->op, 0);
    struct xt_reference_shape shape = {in->n, in->h, in->w, in->c};
    if (pool->average)
        xt_reference_average_pool(&shape, &pool->window, reference->in[0], reference->out[0]);
    else
        xt_reference_max_pool(&shape, &pool->window, reference->in[0], reference->out[0], NULL);
    return XT_OK;
}

/* It follows a ReLU and relies on that. */
static double least_input(const struct xt_op *op)
{
    (void)op;
    return 0;
}

static struct xt_bound bound(const struct xt_reference_op *reference, enum xt_part part, int which)
{
    const struct xt_pool_op *pool = (const struct xt_pool_op *)reference->op;
    double terms = pool->average ? (double)pool->window.kernel_h * pool->window.kernel_w : 1;
    (void)part;
    (void)which;
    return (struct xt_bound){
        .relative = xt_reference_op_relative(xt_op_in(reference->op, 0)->dtype, 2, terms)};
}

/* A 1x1 average to another type is a reorder, not a pool of oneDNN's. */
const struct xt_op_kind xt_kind_pool = {
    .name = "pool",
    .size = sizeof(struct xt_pool_op),
    .describe = describe,
    .what = {what_max, NULL},
    .reference = {.forward = reference_forward, .bound = bound, .least = least_input},
};

struct xt_tensor *xt_graph_pool(struct xt_graph *graph, struct xt_tensor *in,
                                const struct xt_window *window, bool average, const char *name)
{
    struct xt_pool_op *pool = xt_graph_add_op(graph, &xt_kind_pool, name);
    if (!pool)
        return NULL;
    pool->window = *window;
    pool->average = average;
    /* Readers are counted for their gradients; inference has none. */
    pool->op.inputs[pool->op.input_count++].tensor = in;
    enum xt_dtype dtype = average ? XT_F32 : in->dtype;
    struct xt_tensor *out =
        xt_op_write(&pool->op, graph, name, in->n, window->out_h, window->out_w, in->c, dtype);
    if (!out)
        return NULL;
    out->scale = average ? 1 : in->scale;
    out->above_0 = in->above_0;
    return out;
}
