#include "engine/recompute.h"

#include "base/system/thread.h"
#include "engine/backend.h"

static bool is_recomputed(const struct xt_tensor *tensor)
{
    return tensor->value && tensor->value->recompute;
}

/* Whether an op writes its own output over this value, as dropout does. */
static bool is_written_over(const struct xt_graph *graph, const struct xt_tensor *tensor)
{
    for (int i = 0; i < graph->tensor_count; i++)
        if (graph->tensors[i] != tensor && graph->tensors[i]->value == tensor->value)
            return true;
    return false;
}

/* Stored from the forward to the backward pass, which reads it. */
static bool is_stored(const struct xt_tensor *tensor)
{
    return tensor && tensor->value && tensor->value->backward_first;
}

/* Of one element's own type: float32 averages of a norm are small, and stay. */
static bool wants_recompute(const struct xt_op *op, int output)
{
    return is_stored(op->outputs[output]) && output != XT_NORM_AVERAGE;
}

static bool can_recompute(const struct xt_op *op, const struct xt_graph *graph)
{
    const struct xt_override *override = op->override;
    if (!override || !override->can_recompute || !xt_op_learns(op, graph) ||
        !override->can_recompute(op))
        return false;
    for (int i = 0; i < op->input_count; i++)
        if (is_recomputed(xt_op_in(op, i)))
            return false;
    for (int i = 0; i < op->output_count; i++)
        if (wants_recompute(op, i) && is_written_over(graph, op->outputs[i]))
            return false;
    return true;
}

static void plan_op(struct xt_op *op)
{
    for (int i = 0; i < op->output_count; i++)
        if (wants_recompute(op, i) &&
            (!op->recompute || op->outputs[i]->value->backward_first < op->recompute))
            op->recompute = op->outputs[i]->value->backward_first;
    for (int i = 0; i < op->output_count && op->recompute; i++)
        if (wants_recompute(op, i))
            op->outputs[i]->value->recompute = op->recompute;
}

void xt_graph_plan_recompute(struct xt_graph *graph)
{
    for (int i = 0; i < graph->op_count; i++)
        if (can_recompute(graph->ops[i], graph))
            plan_op(graph->ops[i]);
}

void xt_op_recompute(struct xt_op *op, struct xt_graph *graph)
{
    double start = graph->profile ? xt_thread_seconds() : 0;
    op->override->recompute(op, graph);
    if (graph->profile)
        op->seconds[1] += xt_thread_seconds() - start;
}

void xt_graph_recompute(struct xt_graph *graph, int time)
{
    for (int i = 0; i < graph->op_count; i++)
        if (graph->ops[i]->recompute == time)
            xt_op_recompute(graph->ops[i], graph);
}

int xt_graph_count_recomputed(const struct xt_graph *graph, size_t *bytes)
{
    int count = 0;
    *bytes = 0;
    for (int i = 0; i < graph->op_count; i++) {
        const struct xt_op *op = graph->ops[i];
        count += op->recompute != 0;
        for (int k = 0; k < op->output_count; k++)
            if (op->outputs[k] && is_recomputed(op->outputs[k]))
                *bytes += op->outputs[k]->value->bytes;
    }
    return count;
}
