/* The pools that read a norm, by themselves: what is left of it in a fused graph, where the
 * convolution before has taken the rest.
 */
#include <stdio.h>

#include "models/graph/xpu_ops.h"

static enum xt_status prepare(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    struct pool *pool = (struct pool *)op;
    size_t scratch = (size_t)pool->in->w * (size_t)pool->in->c;
    if (scratch > graph->loop_scratch_floats)
        graph->loop_scratch_floats = scratch;
    enum xt_status status = xt_graph_use_value(graph, pool->in, xt_op_forward_time(op), err);
    return status ? status : xt_graph_use_value(graph, pool->out, xt_op_forward_time(op), err);
}

static void run_row(const struct pool *pool, const struct xt_graph *graph, int n, int oy)
{
    const struct xt_tensor *in = pool->in;
    const struct xt_tensor *out = pool->out;
    const char *from =
        (const char *)in->value->data + xt_tensor_bytes(in) / (size_t)in->n * (size_t)n;
    size_t row = xt_tensor_bytes(out) / (size_t)(out->n * out->h);
    void *to = (char *)out->value->data + row * (size_t)(n * out->h + oy);
    if (pool->average)
        graph->loops->average_pool_row(in->dtype, from, in->w, in->c, &pool->window, oy, in->scale,
                                       xt_graph_loop_scratch(graph), to);
    else
        graph->loops->max_pool_row(in->dtype, from, in->h, in->w, in->c, &pool->window, oy,
                                   xt_graph_loop_scratch(graph), to);
}

static enum xt_status forward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    (void)err;
    const struct pool *pool = (const struct pool *)op;
#pragma omp parallel for collapse(2) schedule(static)
    for (int n = 0; n < pool->out->n; n++)
        for (int oy = 0; oy < pool->out->h; oy++)
            run_row(pool, graph, n, oy);
    return XT_OK;
}

static const char *implementation(const struct xt_op *op, bool backward)
{
    (void)op;
    return backward ? "" : "xtrain loops";
}

static const struct xt_op_class class_pool = {
    .kind = "pool",
    .prepare = prepare,
    .forward = forward,
    .implementation = implementation,
};

struct xt_tensor *xt_graph_pool(struct xt_graph *graph, struct xt_tensor *in,
                                const struct xt_window *window, bool average, const char *name,
                                struct xt_err *err)
{
    struct pool *pool = xt_graph_add_op(graph, sizeof *pool,
                                        xt_on_xpu(graph) ? &xt_xpu_pool : &class_pool, name, err);
    if (!pool)
        return NULL;
    /* Readers are counted for their gradients; here there are none. */
    pool->window = *window;
    pool->average = average;
    pool->in = in;
    enum xt_dtype dtype = average ? XT_F32 : in->dtype;
    pool->out =
        xt_graph_add_tensor(graph, name, in->n, window->out_h, window->out_w, in->c, dtype, err);
    if (!pool->out)
        return NULL;
    if (!average)
        pool->out->scale = in->scale;
    pool->op.dtype = dtype;
    pool->op.out_bytes = xt_tensor_bytes(pool->out);
    return pool->out;
}
