/* The pools of a fused graph, row by row. */
#include "models/graph/cpu/cpu.h"

void xt_cpu_pool_prepare(struct xt_op *op, struct xt_graph *graph)
{
    const struct xt_tensor *in = xt_op_in(op, 0);
    xt_graph_want_scratch(graph, (size_t)in->w * (size_t)in->c);
    xt_graph_use(op, graph, 0, 0);
}

static void run_row(const struct xt_pool_op *pool, const struct xt_graph *graph, int n, int oy)
{
    const struct xt_tensor *in = xt_op_in(&pool->op, 0);
    const struct xt_tensor *out = xt_op_out(&pool->op, 0);
    const void *from = xt_tensor_sample(in, in->value, n);
    size_t row = xt_tensor_bytes(out) / (size_t)(out->n * out->h);
    void *to = (char *)out->value->data + row * (size_t)(n * out->h + oy);
    if (pool->average)
        graph->loops->average_pool_row(in->dtype, from, in->w, in->c, &pool->window, oy, in->scale,
                                       xt_graph_loop_scratch(graph), to);
    else
        graph->loops->max_pool_row(in->dtype, from, in->h, in->w, in->c, &pool->window, oy,
                                   xt_graph_loop_scratch(graph), to);
}

enum xt_status xt_cpu_pool_forward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    const struct xt_tensor *out = xt_op_out(op, 0);
    (void)err;
#pragma omp parallel for collapse(2) schedule(static)
    for (int n = 0; n < out->n; n++)
        for (int oy = 0; oy < out->h; oy++)
            run_row((const struct xt_pool_op *)op, graph, n, oy);
    return XT_OK;
}
