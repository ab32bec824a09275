/* The gradients of a product with a gate, one factor for each channel of a sample, as in
 * squeeze-and-excitation: both in one pass over memory. */
#include "base/number.h"
#include "engine/cpu/cpu.h"

/* Whether the second factor is a gate of the first one, and both gradients are wanted. */
static bool is_gate(const struct xt_op *op, const struct xt_graph *graph)
{
    const struct xt_tensor *in = xt_op_in(op, 0);
    const struct xt_tensor *gate = xt_op_in(op, 1);
    const struct xt_tensor *out = xt_op_out(op, 0);
    return xt_op_learns(op, graph) && in->wants_grad && gate->wants_grad &&
           xt_tensor_count(in) == xt_tensor_count(out) && in->dtype == out->dtype &&
           gate->dtype == in->dtype && (in->dtype == XT_F32 || in->dtype == XT_BF16) &&
           gate->n == in->n && gate->c == in->c && gate->h == 1 && gate->w == 1 &&
           in->h * in->w > 1;
}

void xt_cpu_gate_prepare(struct xt_op *op, struct xt_graph *graph)
{
    op->own_name[0] = NULL; /* the program runs forward */
    if (!is_gate(op, graph)) {
        op->kind->describe(op, graph);
        op->own_name[1] = NULL;
        return;
    }
    xt_binary_describe_forward(op, graph);
    xt_graph_want_scratch(graph, (size_t)xt_op_in(op, 1)->c);
}

/* The first factor's gradient is in the output's memory. */
static void sample_backward(const struct xt_op *op, const struct xt_graph *graph, int n)
{
    const struct xt_tensor *in = xt_op_in(op, 0);
    const struct xt_tensor *gate = xt_op_in(op, 1);
    float *sums = xt_graph_loop_scratch(graph);
    graph->loops->gate_backward(
        in->dtype, xt_tensor_sample(in, in->value, n), xt_tensor_sample(gate, gate->value, n),
        xt_tensor_sample(in, xt_op_in_grad(op, 0), n), (size_t)in->h * (size_t)in->w, in->c, sums);
    graph->loops->convert(gate->dtype, sums, (size_t)gate->c,
                          xt_tensor_sample(gate, xt_op_in_grad(op, 1), n));
}

enum xt_status xt_cpu_gate_backward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    if (!is_gate(op, graph))
        return xt_program_run(&op->program, XT_BACKWARD, err);
#pragma omp parallel for schedule(static)
    for (int n = 0; n < xt_op_in(op, 0)->n; n++)
        sample_backward(op, graph, n);
    return XT_OK;
}
