/* Dropout; the backward pass recomputes the mask instead of storing it. */
#include <string.h>

#include "engine/cpu/cpu.h"

/* Backward the gradients are in place. */
static void drop_sample(const struct xt_op *op, const struct xt_graph *graph, bool backward, int n)
{
    const struct xt_graph_pass *pass = &graph->pass;
    const struct xt_tensor *t = xt_op_in(op, 0);
    const struct xt_buffer *grad = xt_op_in_grad(op, 0);
    size_t count = xt_tensor_count(t) / (size_t)t->n;
    const void *from = xt_tensor_sample(t, backward ? grad : t->value, n);
    void *to = xt_tensor_sample(t, backward ? grad : xt_op_out(op, 0)->value, n);
    double p = xt_dropout_probability(op, pass);
    if (!to)
        return;
    if (p > 0)
        graph->loops->dropout(t->dtype, from, to, count, xt_dropout_key(op, pass, n), 0,
                              xt_dropout_threshold(p), (float)(1 / (1 - p)));
    else if (to != from)
        memcpy(to, from, count * xt_dtype_size(t->dtype));
}

static enum xt_status drop(struct xt_op *op, struct xt_graph *graph, bool backward)
{
#pragma omp parallel for schedule(static)
    for (int n = 0; n < xt_op_in(op, 0)->n; n++)
        drop_sample(op, graph, backward, n);
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

static void run_sample(struct xt_op *op, struct xt_graph *graph, bool backward, bool second, int n)
{
    (void)second;
    drop_sample(op, graph, backward, n);
}

const struct xt_by_slices xt_cpu_dropout_by_slices = {.sample = run_sample};
