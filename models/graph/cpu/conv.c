/* The ReLU's gradient of a convolution, with the sum of two readers' gradients in one pass. */
#include "models/graph/cpu/cpu.h"

static void relu_backward(const struct xt_tensor *out, const struct xt_graph *graph)
{
    size_t sample = xt_tensor_count(out) / (size_t)out->n;
#pragma omp parallel for schedule(static)
    for (int n = 0; n < out->n; n++)
        graph->loops->relu_backward(
            out->dtype, xt_tensor_sample(out, out->value, n),
            xt_tensor_sample(out, out->grad[0], n),
            out->readers > 1 ? xt_tensor_sample(out, out->grad[1], n) : NULL, sample);
}

enum xt_status xt_cpu_conv_backward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    if (((const struct xt_conv_op *)op)->relu)
        relu_backward(xt_op_out(op, 0), graph);
    return xt_program_run(&op->program, XT_BACKWARD, err);
}
