/* The mean over the channels, [h][w][c] to [h][w][1], as a product with a column of ones (see
 * reduce.c).
 */
#include "engine/ops/ops.h"

/* [n * h * w][c] */
static struct xt_operand rows_of(const struct xt_tensor *t, const struct xt_buffer *buffer,
                                 dnnl_data_type_t dtype)
{
    return xt_operand_matrix(xt_in_buffer(buffer), dtype, xt_tensor_count(t) / (size_t)t->c,
                             (size_t)t->c);
}

/* to = a b / c */
static void add_product(struct xt_op *op, enum xt_phase phase, const struct xt_operand *a,
                        const struct xt_operand *b, const struct xt_operand *to)
{
    float part = 1 / (float)xt_op_in(op, 0)->c;
    const struct xt_post_ops scaled = {.count = 1,
                                       .items = {xt_then(dnnl_eltwise_linear, part, 0)}};
    xt_program_matmul(&op->program, phase, a, b, to, &scaled);
}

static void describe(struct xt_op *op, struct xt_graph *graph)
{
    const struct xt_tensor *in = xt_op_in(op, 0);
    const struct xt_tensor *out = xt_op_out(op, 0);
    xt_graph_use(op, graph, 0, 0);
    struct xt_operand numbers = xt_op_numbers(op, graph, 0);
    struct xt_operand ones = xt_op_ones(op, graph, (size_t)in->c, numbers.dtype);
    struct xt_operand column = xt_operand_transposed(ones);
    struct xt_operand x = rows_of(in, numbers.place.buffer, numbers.dtype);
    struct xt_operand y = rows_of(out, out->value, xt_dtype_dnnl(out->dtype));
    add_product(op, XT_FORWARD, &x, &column, &y);
    if (!xt_op_learns(op, graph) || !in->wants_grad)
        return;
    struct xt_operand dy = rows_of(out, out->grad[0], xt_dtype_dnnl(out->dtype));
    struct xt_operand dx = rows_of(in, xt_op_in_grad(op, 0), xt_dtype_dnnl(in->dtype));
    add_product(op, XT_BACKWARD, &dy, &ones, &dx);
}

/* ---- in double precision ---- */

static enum xt_status reference_forward(struct xt_reference_op *reference)
{
    const struct xt_tensor *in = xt_op_in(reference->op, 0);
    for (size_t row = 0; row < xt_tensor_count(xt_op_out(reference->op, 0)); row++) {
        const double *from = reference->in[0] + row * (size_t)in->c;
        reference->out[0][row] = 0;
        for (int c = 0; c < in->c; c++)
            reference->out[0][row] += from[c] / in->c;
    }
    return XT_OK;
}

static enum xt_status reference_backward(struct xt_reference_op *reference)
{
    const struct xt_tensor *in = xt_op_in(reference->op, 0);
    for (size_t i = 0; i < xt_tensor_count(in); i++)
        reference->in_grad[0][i] = reference->out_grad[0][i / (size_t)in->c] / in->c;
    return XT_OK;
}

static struct xt_bound bound(const struct xt_reference_op *reference, enum xt_part part, int which)
{
    const struct xt_tensor *in = xt_op_in(reference->op, 0);
    (void)which;
    return (struct xt_bound){.relative =
                                 xt_reference_op_relative(xt_op_out(reference->op, 0)->dtype, 2,
                                                          part == XT_PART_OUTPUT ? in->c : 1)};
}

const struct xt_op_kind xt_kind_channel_mean = {
    .name = "channel mean",
    .size = sizeof(struct xt_op),
    .describe = describe,
    .what = {xt_what_matmul, xt_what_matmul},
    .reference = {.forward = reference_forward, .backward = reference_backward, .bound = bound},
};

struct xt_tensor *xt_graph_channel_mean(struct xt_graph *graph, struct xt_tensor *in,
                                        const char *name)
{
    struct xt_op *op = xt_graph_add_op(graph, &xt_kind_channel_mean, name);
    if (!op || !xt_op_read(op, graph, in))
        return NULL;
    struct xt_tensor *out =
        xt_op_write(op, graph, name, in->n, in->h, in->w, 1, xt_op_numbers_type(graph, in));
    if (!out)
        return NULL;
    out->above_0 = in->above_0;
    out->one_reader = true;
    return out;
}
