/* Dropout in place; the backward pass makes the mask again instead of keeping it. */
#include "models/graph/cpu/cpu.h"

static void drop(const struct xt_op *op, const struct xt_graph *graph,
                 const struct xt_buffer *buffer)
{
    const struct xt_graph_pass *pass = &graph->pass;
    const struct xt_tensor *t = xt_op_in(op, 0);
    size_t sample = xt_tensor_count(t) / (size_t)t->n;
    float factor = (float)(1 / (1 - pass->dropout));
#pragma omp parallel for schedule(static)
    for (int n = 0; n < t->n; n++) {
        void *at = xt_tensor_sample(t, buffer, n);
        graph->loops->dropout(t->dtype, at, at, sample, xt_dropout_key(op, pass, n), 0,
                              xt_dropout_threshold(pass), factor);
    }
}

enum xt_status xt_cpu_dropout_forward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    (void)err;
    if (graph->pass.training && graph->pass.dropout > 0)
        drop(op, graph, xt_op_in(op, 0)->value);
    return XT_OK;
}

enum xt_status xt_cpu_dropout_backward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    (void)err;
    if (graph->pass.dropout > 0)
        drop(op, graph, xt_op_in_grad(op, 0));
    return XT_OK;
}
