/* Dropout in place; the backward pass makes the mask again instead of keeping it. */
#include "engine/cpu/cpu.h"

static void drop_sample(const struct xt_op *op, const struct xt_graph *graph,
                        const struct xt_buffer *buffer, int n)
{
    const struct xt_graph_pass *pass = &graph->pass;
    const struct xt_tensor *t = xt_op_in(op, 0);
    void *at = xt_tensor_sample(t, buffer, n);
    graph->loops->dropout(t->dtype, at, at, xt_tensor_count(t) / (size_t)t->n,
                          xt_dropout_key(op, pass, n), 0, xt_dropout_threshold(pass),
                          (float)(1 / (1 - pass->dropout)));
}

static bool drops(const struct xt_graph *graph, bool backward)
{
    return graph->pass.dropout > 0 && (graph->pass.training || backward);
}

static enum xt_status drop(struct xt_op *op, struct xt_graph *graph, bool backward)
{
    const struct xt_tensor *t = xt_op_in(op, 0);
    const struct xt_buffer *buffer = backward ? xt_op_in_grad(op, 0) : t->value;
    if (!drops(graph, backward))
        return XT_OK;
#pragma omp parallel for schedule(static)
    for (int n = 0; n < t->n; n++)
        drop_sample(op, graph, buffer, n);
    return XT_OK;
}

enum xt_status xt_cpu_dropout_forward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    (void)err;
    return drop(op, graph, false);
}

enum xt_status xt_cpu_dropout_backward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    (void)err;
    return drop(op, graph, true);
}

static enum xt_status forward_slice(struct xt_op *op, struct xt_graph *graph, bool second,
                                    const struct xt_slice *slice, struct xt_err *err)
{
    (void)second;
    (void)err;
    for (int i = 0; i < slice->count && drops(graph, false); i++)
        drop_sample(op, graph, xt_op_in(op, 0)->value, slice->first + i);
    return XT_OK;
}

static enum xt_status backward_slice(struct xt_op *op, struct xt_graph *graph, bool second,
                                     const struct xt_slice *slice, struct xt_err *err)
{
    (void)second;
    (void)err;
    for (int i = 0; i < slice->count && drops(graph, true); i++)
        drop_sample(op, graph, xt_op_in_grad(op, 0), slice->first + i);
    return XT_OK;
}

const struct xt_by_slices xt_cpu_dropout_by_slices = {.forward = forward_slice,
                                                      .backward = backward_slice};
