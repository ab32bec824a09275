/* GELU: x * Phi(x), by the error function. A convolution before it keeps its own output, since the
 * gradient needs it. */
#include <math.h>

#include "engine/ops/ops.h"

static const char what_gradient[] = "the GELU's gradient";

/* int8 becomes the numbers that it stands for first. */
static struct xt_operand numbers_of(struct xt_op *op, struct xt_graph *graph)
{
    const struct xt_tensor *in = xt_op_in(op, 0);
    struct xt_operand x = xt_operand_tensor(in, in->value);
    if (!xt_dtype_is_int8(in->dtype))
        return x;
    struct xt_operand numbers =
        xt_operand_tensor(in, xt_graph_temporary(graph, in, xt_tensor_count(in) * sizeof(float),
                                                 xt_op_forward_time(op)));
    numbers.dtype = dnnl_f32;
    xt_program_dequantise(&op->program, XT_FORWARD, &x, xt_graph_scale_of(graph, in), &numbers);
    return numbers;
}

static void describe(struct xt_op *op, struct xt_graph *graph)
{
    const struct xt_tensor *in = xt_op_in(op, 0);
    const struct xt_tensor *out = xt_op_out(op, 0);
    xt_graph_use(op, graph, 1, 0);
    struct xt_operand x = numbers_of(op, graph);
    struct xt_operand y = xt_operand_tensor(out, out->value);
    xt_program_eltwise(&op->program, XT_FORWARD, dnnl_eltwise_gelu_erf, 0, 0, &x, &y);
    if (!xt_op_learns(op, graph) || !in->wants_grad)
        return;
    struct xt_operand dy = xt_operand_tensor(out, out->grad[0]);
    struct xt_operand dx = xt_operand_tensor(in, xt_op_in_grad(op, 0));
    xt_program_eltwise_backward(&op->program, dnnl_eltwise_gelu_erf, &x, &dy, &dx, what_gradient);
}

/* ---- in double precision ---- */

static enum xt_status reference_forward(struct xt_reference_op *reference)
{
    for (size_t i = 0; i < xt_tensor_count(xt_op_out(reference->op, 0)); i++) {
        double x = reference->in[0][i];
        reference->out[0][i] = 0.5 * x * erfc(-x / sqrt(2));
    }
    return XT_OK;
}

static enum xt_status reference_backward(struct xt_reference_op *reference)
{
    for (size_t i = 0; i < xt_tensor_count(xt_op_in(reference->op, 0)); i++) {
        double x = reference->in[0][i];
        double density = exp(-x * x / 2) / sqrt(2 * acos(-1));
        reference->in_grad[0][i] =
            reference->out_grad[0][i] * (0.5 * erfc(-x / sqrt(2)) + x * density);
    }
    return XT_OK;
}

static struct xt_bound bound(const struct xt_reference_op *reference, enum xt_part part, int which)
{
    (void)part;
    (void)which;
    return (struct xt_bound){.relative = xt_reference_op_relative(reference->op->dtype, 2, 4)};
}

const struct xt_op_kind xt_kind_gelu = {
    .name = "GELU",
    .size = sizeof(struct xt_op),
    .describe = describe,
    .what = {xt_what_eltwise, what_gradient},
    .reference = {.forward = reference_forward, .backward = reference_backward, .bound = bound},
};

struct xt_tensor *xt_graph_gelu(struct xt_graph *graph, struct xt_tensor *in, const char *name)
{
    struct xt_op *op = xt_graph_add_op(graph, &xt_kind_gelu, name);
    if (!xt_op_read(op, graph, in))
        return NULL;
    enum xt_dtype dtype = xt_dtype_is_int8(in->dtype) ? graph->options.dtype : in->dtype;
    struct xt_tensor *out = xt_op_write(op, graph, name, in->n, in->h, in->w, in->c, dtype);
    if (out)
        out->one_reader = true;
    return out;
}
