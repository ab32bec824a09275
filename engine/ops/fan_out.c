/* A tensor with any number of readers: the output is the input's memory; the backward pass sums all
 * readers' gradients in the first one's.
 */
#include <string.h>

#include "engine/ops/ops.h"

static void describe(struct xt_op *op, struct xt_graph *graph)
{
    const struct xt_tensor *in = xt_op_in(op, 0);
    struct xt_tensor *out = xt_op_out(op, 0);
    bool learns = xt_op_learns(op, graph) && in->wants_grad;
    xt_graph_use_inputs(op, graph, 0);
    out->value = in->value;
    if (learns)
        out->grad[0] = xt_op_in_grad(op, 0);
    xt_graph_use_outputs(op, graph, 0);
    struct xt_operand sum = xt_operand_tensor(in, out->grad[0]);
    for (int r = 1; r < out->readers && learns; r++) {
        struct xt_operand grad = xt_operand_tensor(in, out->grad[r]);
        xt_program_binary(&op->program, XT_BACKWARD, dnnl_binary_add, &sum, &grad, &sum, NULL);
    }
}

static enum xt_status reference_forward(struct xt_reference_op *reference)
{
    memcpy(reference->out[0], reference->in[0],
           xt_tensor_count(xt_op_in(reference->op, 0)) * sizeof(double));
    return XT_OK;
}

static enum xt_status reference_backward(struct xt_reference_op *reference)
{
    memcpy(reference->in_grad[0], reference->out_grad[0],
           xt_tensor_count(xt_op_in(reference->op, 0)) * sizeof(double));
    return XT_OK;
}

static struct xt_bound bound(const struct xt_reference_op *reference, enum xt_part part, int which)
{
    const struct xt_tensor *out = xt_op_out(reference->op, 0);
    (void)part;
    (void)which;
    return (struct xt_bound){.relative =
                                 xt_reference_op_relative(out->dtype, out->readers, out->readers)};
}

const struct xt_op_kind xt_kind_fan_out = {
    .name = "fan-out",
    .size = sizeof(struct xt_op),
    .describe = describe,
    .what = {NULL, xt_what_binary},
    .reference = {.forward = reference_forward, .backward = reference_backward, .bound = bound},
};

struct xt_tensor *xt_graph_fan_out(struct xt_graph *graph, struct xt_tensor *in, const char *name)
{
    if (!graph->options.training)
        return in;
    struct xt_op *op = xt_graph_add_op(graph, &xt_kind_fan_out, name);
    if (!xt_op_read(op, graph, in))
        return NULL;
    struct xt_tensor *out = xt_op_write(op, graph, name, in->n, in->h, in->w, in->c, in->dtype);
    if (!out)
        return NULL;
    out->scale = in->scale;
    out->offset = in->offset;
    out->above_0 = in->above_0;
    out->wants_grad = in->wants_grad && out->wants_grad;
    out->fanned_out = true;
    in->shared = out->shared = true;
    op->out_bytes = 0; /* the input's memory */
    return out;
}
