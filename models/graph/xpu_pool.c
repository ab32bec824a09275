/* Pools on an XPU, by themselves in a fused graph and as parts of a norm. */
#include "models/graph/xpu_ops.h"

static const char what_max[] = "the max pool";
static const char what_average[] = "the average pool";

struct windows {
    dnnl_dims_t strides, kernel, dilation, pads;
};

static struct windows windows_of(const struct xt_window *w)
{
    return (struct windows){.strides = {w->stride_h, w->stride_w},
                            .kernel = {w->kernel_h, w->kernel_w},
                            .pads = {w->pad_h, w->pad_w}};
}

static dnnl_alg_kind_t alg_of(const struct xt_xpu_pooling *pool)
{
    return pool->average ? dnnl_pooling_avg_exclude_padding : dnnl_pooling_max;
}

static const char *what_of(const struct xt_xpu_pooling *pool)
{
    return pool->average ? what_average : what_max;
}

static bool is_copy(const struct xt_xpu_pooling *pool)
{
    const struct xt_window *w = pool->window;
    return pool->average && w->kernel_h == 1 && w->kernel_w == 1 && w->stride_h == 1 &&
           w->stride_w == 1;
}

static enum xt_status describe_forward(const struct xt_xpu_program *program,
                                       const struct xt_xpu_pooling *pool,
                                       const struct xt_xpu_operand *in,
                                       const struct xt_xpu_operand *out, dnnl_primitive_desc_t *pd,
                                       struct xt_err *err)
{
    struct windows w = windows_of(pool->window);
    dnnl_memory_desc_t md[2] = {NULL, NULL};
    dnnl_primitive_attr_t attr = NULL;
    enum xt_status status = xt_xpu_attr(NULL, &attr, err);
    if (!status)
        status = xt_xpu_desc(in, &md[0], err);
    if (!status)
        status = xt_xpu_desc(out, &md[1], err);
    bool keeps_winners = pool->training && !pool->average;
    if (!status)
        status = xt_dnnl_check(xt_dnnl.pooling_forward_primitive_desc_create(
                                   pd, program->device->engine,
                                   keeps_winners ? dnnl_forward_training : dnnl_forward_inference,
                                   alg_of(pool), md[0], md[1], w.strides, w.kernel, w.dilation,
                                   w.pads, w.pads, attr),
                               what_of(pool), err);
    for (int i = 0; i < 2; i++)
        if (md[i])
            xt_dnnl.memory_desc_destroy(md[i]);
    if (attr)
        xt_dnnl.primitive_attr_destroy(attr);
    return status;
}

static enum xt_status add_workspace(struct xt_graph *graph, struct xt_xpu_pooling *pool,
                                    const_dnnl_primitive_desc_t pd, struct xt_err *err)
{
    const_dnnl_memory_desc_t md = xt_dnnl.primitive_desc_query_md(pd, dnnl_query_workspace_md, 0);
    size_t bytes = md ? xt_dnnl.memory_desc_get_size(md) : 0;
    if (!bytes)
        return XT_OK;
    pool->workspace = xt_graph_add_buffer(graph, pool->out->name, "winners", bytes, err);
    if (!pool->workspace)
        return err->status;
    xt_buffer_use(pool->workspace, pool->forward);
    xt_buffer_use(pool->workspace, pool->backward);
    return XT_OK;
}

/* The pool itself, within the input's type: oneDNN has no other on an XPU. */
static enum xt_status add_pool(struct xt_xpu_program *program, struct xt_graph *graph,
                               struct xt_xpu_pooling *pool, const struct xt_xpu_operand *in,
                               const struct xt_xpu_operand *out, struct xt_err *err)
{
    dnnl_primitive_desc_t pd = NULL;
    enum xt_status status = describe_forward(program, pool, in, out, &pd, err);
    if (!status && pool->training && !pool->average)
        status = add_workspace(graph, pool, pd, err);
    if (status) {
        if (pd)
            xt_dnnl.primitive_desc_destroy(pd);
        return status;
    }
    struct xt_xpu_step *step = xt_xpu_add(program, XT_XPU_FORWARD, pd, what_of(pool), err);
    if (!step)
        return err->status;
    xt_xpu_arg(step, DNNL_ARG_SRC, in->place);
    xt_xpu_arg(step, DNNL_ARG_DST, out->place);
    if (pool->workspace)
        xt_xpu_arg(step, DNNL_ARG_WORKSPACE, xt_xpu_in_buffer(pool->workspace));
    return XT_OK;
}

/* Room for the output in the input's type. */
static enum xt_status add_narrow(const struct xt_xpu_pooling *pool, struct xt_graph *graph,
                                 int time, struct xt_xpu_operand *out, struct xt_err *err)
{
    size_t bytes = xt_tensor_count(pool->out) * xt_dtype_size(pool->in->dtype);
    const struct xt_buffer *own = xt_xpu_temporary(graph, pool->out, bytes, time, err);
    *out = xt_xpu_tensor(pool->out, own);
    out->dtype = xt_dtype_dnnl(pool->in->dtype);
    return own ? XT_OK : err->status;
}

/* int8 becomes the numbers that it stands for before their average is taken. */
static enum xt_status add_int8_average(struct xt_xpu_program *program, struct xt_graph *graph,
                                       struct xt_xpu_pooling *pool, const struct xt_xpu_operand *in,
                                       const struct xt_xpu_operand *out, struct xt_err *err)
{
    struct xt_xpu_place scale = xt_xpu_scale_of(graph, pool->in);
    if (is_copy(pool))
        return xt_xpu_dequantise(program, XT_XPU_FORWARD, in, scale, out, err);
    size_t bytes = xt_tensor_count(pool->in) * sizeof(float);
    const struct xt_buffer *own = xt_xpu_temporary(graph, pool->in, bytes, pool->forward, err);
    if (!own)
        return err->status;
    struct xt_xpu_operand wide = xt_xpu_tensor(pool->in, own);
    wide.dtype = dnnl_f32;
    enum xt_status status = xt_xpu_dequantise(program, XT_XPU_FORWARD, in, scale, &wide, err);
    return status ? status : add_pool(program, graph, pool, &wide, out, err);
}

enum xt_status xt_xpu_pool_forward(struct xt_xpu_program *program, struct xt_graph *graph,
                                   struct xt_xpu_pooling *pool, struct xt_err *err)
{
    struct xt_xpu_operand in = xt_xpu_tensor(pool->in, pool->from);
    struct xt_xpu_operand out = xt_xpu_tensor(pool->out, pool->out->value);
    if (pool->average && xt_dtype_is_int8(pool->in->dtype))
        return add_int8_average(program, graph, pool, &in, &out, err);
    if (is_copy(pool))
        return xt_xpu_reorder(program, XT_XPU_FORWARD, &in, &out, err);
    if (pool->out->dtype == pool->in->dtype)
        return add_pool(program, graph, pool, &in, &out, err);
    struct xt_xpu_operand narrow;
    enum xt_status status = add_narrow(pool, graph, pool->forward, &narrow, err);
    if (!status)
        status = add_pool(program, graph, pool, &in, &narrow, err);
    return status ? status : xt_xpu_reorder(program, XT_XPU_FORWARD, &narrow, &out, err);
}

static enum xt_status describe_backward(const struct xt_xpu_program *program,
                                        const struct xt_xpu_pooling *pool,
                                        const struct xt_xpu_operand *in,
                                        const struct xt_xpu_operand *out, dnnl_primitive_desc_t *pd,
                                        struct xt_err *err)
{
    struct windows w = windows_of(pool->window);
    dnnl_primitive_desc_t hint = NULL;
    dnnl_memory_desc_t md[2] = {NULL, NULL};
    dnnl_primitive_attr_t attr = NULL;
    enum xt_status status = xt_xpu_attr(NULL, &attr, err);
    if (!status)
        status = xt_xpu_desc(in, &md[0], err);
    if (!status)
        status = xt_xpu_desc(out, &md[1], err);
    if (!status)
        status =
            xt_dnnl_check(xt_dnnl.pooling_forward_primitive_desc_create(
                              &hint, program->device->engine, dnnl_forward_training, alg_of(pool),
                              md[0], md[1], w.strides, w.kernel, w.dilation, w.pads, w.pads, attr),
                          what_of(pool), err);
    if (!status)
        status = xt_dnnl_check(
            xt_dnnl.pooling_backward_primitive_desc_create(
                pd, program->device->engine, alg_of(pool), md[0], md[1], w.strides, w.kernel,
                w.dilation, w.pads, w.pads, hint, attr),
            pool->average ? "the average pool's gradient" : "the max pool's gradient", err);
    if (hint)
        xt_dnnl.primitive_desc_destroy(hint);
    for (int i = 0; i < 2; i++)
        if (md[i])
            xt_dnnl.memory_desc_destroy(md[i]);
    if (attr)
        xt_dnnl.primitive_attr_destroy(attr);
    return status;
}

enum xt_status xt_xpu_pool_backward(struct xt_xpu_program *program, struct xt_graph *graph,
                                    const struct xt_xpu_pooling *pool, const struct xt_buffer *grad,
                                    const struct xt_buffer *to, struct xt_err *err)
{
    struct xt_xpu_operand in = xt_xpu_tensor(pool->in, to);
    struct xt_xpu_operand given = xt_xpu_tensor(pool->out, grad);
    if (is_copy(pool))
        return xt_xpu_reorder(program, XT_XPU_BACKWARD, &given, &in, err);
    struct xt_xpu_operand out = given;
    enum xt_status status = XT_OK;
    if (pool->out->dtype != pool->in->dtype) {
        status = add_narrow(pool, graph, pool->backward, &out, err);
        if (!status)
            status = xt_xpu_reorder(program, XT_XPU_BACKWARD, &given, &out, err);
    }
    dnnl_primitive_desc_t pd = NULL;
    if (!status)
        status = describe_backward(program, pool, &in, &out, &pd, err);
    if (status)
        return status;
    struct xt_xpu_step *step =
        xt_xpu_add(program, XT_XPU_BACKWARD, pd,
                   pool->average ? "the average pool's gradient" : "the max pool's gradient", err);
    if (!step)
        return err->status;
    xt_xpu_arg(step, DNNL_ARG_DIFF_DST, out.place);
    xt_xpu_arg(step, DNNL_ARG_DIFF_SRC, in.place);
    if (pool->workspace)
        xt_xpu_arg(step, DNNL_ARG_WORKSPACE, xt_xpu_in_buffer(pool->workspace));
    return XT_OK;
}

/* ---- the op of a fused graph ---- */

static enum xt_status prepare(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    struct pool *pool = (struct pool *)op;
    enum xt_status status = xt_xpu_op_begin(op, graph, err);
    if (!status)
        status = xt_graph_use_value(graph, pool->in, xt_op_forward_time(op), err);
    if (!status)
        status = xt_graph_use_value(graph, pool->out, xt_op_forward_time(op), err);
    struct xt_xpu_pooling pooling = {
        .in = pool->in,
        .from = pool->in->value,
        .out = pool->out,
        .window = &pool->window,
        .average = pool->average,
        .forward = xt_op_forward_time(op),
    };
    return status ? status : xt_xpu_pool_forward(op->program, graph, &pooling, err);
}

static const char *implementation(const struct xt_op *op, bool is_backward)
{
    const struct pool *pool = (const struct pool *)op;
    if (is_backward)
        return "";
    const char *own = xt_xpu_program_implementation(op->program, XT_XPU_FORWARD,
                                                    pool->average ? what_average : what_max);
    return *own ? own : xt_xpu_program_implementation(op->program, XT_XPU_FORWARD, xt_xpu_change);
}

const struct xt_op_class xt_xpu_pool = {
    .kind = "pool",
    .prepare = prepare,
    .forward = xt_xpu_op_forward,
    .backward = xt_xpu_op_backward,
    .implementation = implementation,
};
