/* Products of two tensors' matrices: [h][rows][inner] by [h][inner][columns], for each sample and
 * each h (an attention's heads). The second may be transposed, [h][columns][inner].
 */
#include "engine/ops/ops.h"

/* ---- the program ---- */

/* [n * h][w][c] */
static struct xt_operand matrices(const struct xt_tensor *t, const struct xt_buffer *buffer)
{
    return xt_operand_matrices(xt_in_buffer(buffer), xt_dtype_dnnl(t->dtype),
                               (size_t)t->n * (size_t)t->h, (size_t)t->w, (size_t)t->c);
}

/* Dense, in the type of the tensor's operand. */
static struct xt_operand numbers(struct xt_op *op, struct xt_graph *graph, int i)
{
    struct xt_operand held = xt_op_numbers(op, graph, i);
    struct xt_operand m = matrices(xt_op_in(op, i), held.place.buffer);
    m.dtype = held.dtype;
    return m;
}

/* to = scale * a b */
static void add_product(struct xt_op *op, enum xt_phase phase, struct xt_operand a,
                        struct xt_operand b, struct xt_operand to)
{
    float scale = ((const struct xt_matmul_op *)op)->scale;
    const struct xt_post_ops scaled = {.count = scale != 1,
                                       .items = {xt_then(dnnl_eltwise_linear, scale, 0)}};
    xt_program_matmul(&op->program, phase, &a, &b, &to, &scaled);
}

static void add_backward(struct xt_op *op, const struct xt_operand *a, const struct xt_operand *b)
{
    bool transpose = ((const struct xt_matmul_op *)op)->transpose;
    const struct xt_tensor *out = xt_op_out(op, 0);
    struct xt_operand dy = matrices(out, out->grad[0]);
    struct xt_operand da = matrices(xt_op_in(op, 0), xt_op_in_grad(op, 0));
    struct xt_operand db = matrices(xt_op_in(op, 1), xt_op_in_grad(op, 1));
    if (xt_op_in(op, 0)->wants_grad)
        add_product(op, XT_BACKWARD, dy, transpose ? *b : xt_operand_transposed(*b), da);
    if (!xt_op_in(op, 1)->wants_grad)
        return;
    if (transpose)
        add_product(op, XT_BACKWARD, xt_operand_transposed(dy), *a, db);
    else
        add_product(op, XT_BACKWARD, xt_operand_transposed(*a), dy, db);
}

static void describe(struct xt_op *op, struct xt_graph *graph)
{
    bool transpose = ((const struct xt_matmul_op *)op)->transpose;
    const struct xt_tensor *out = xt_op_out(op, 0);
    xt_graph_use(op, graph, 3, 0);
    struct xt_operand a = numbers(op, graph, 0);
    struct xt_operand b = numbers(op, graph, 1);
    add_product(op, XT_FORWARD, a, transpose ? xt_operand_transposed(b) : b,
                matrices(out, out->value));
    if (xt_op_learns(op, graph))
        add_backward(op, &a, &b);
}

/* ---- in double precision ---- */

/* Index of the second factor's element (inner, column) in the i-th matrix. */
static size_t second_at(const struct xt_op *op, size_t matrix, int inner, int column)
{
    const struct xt_tensor *b = xt_op_in(op, 1);
    bool transpose = ((const struct xt_matmul_op *)op)->transpose;
    int row = transpose ? column : inner;
    int at = transpose ? inner : column;
    return (matrix * (size_t)b->w + (size_t)row) * (size_t)b->c + (size_t)at;
}

/* Adds each product of two numbers to its sum, forward or backward. */
static enum xt_status run(struct xt_reference_op *reference, bool backward)
{
    const struct xt_op *op = reference->op;
    const struct xt_tensor *a = xt_op_in(op, 0);
    const struct xt_tensor *out = xt_op_out(op, 0);
    double scale = (double)((const struct xt_matmul_op *)op)->scale;
    for (size_t row = 0; row < (size_t)out->n * (size_t)out->h * (size_t)out->w; row++)
        for (int column = 0; column < out->c; column++) {
            size_t y = row * (size_t)out->c + (size_t)column;
            double dy = backward ? scale * reference->out_grad[0][y] : 0;
            double sum = 0;
            for (int inner = 0; inner < a->c; inner++) {
                size_t i = row * (size_t)a->c + (size_t)inner;
                size_t k = second_at(op, row / (size_t)out->w, inner, column);
                sum += reference->in[0][i] * reference->in[1][k];
                if (!backward)
                    continue;
                reference->in_grad[0][i] += dy * reference->in[1][k];
                reference->in_grad[1][k] += dy * reference->in[0][i];
            }
            if (!backward)
                reference->out[0][y] = scale * sum;
        }
    return XT_OK;
}

static enum xt_status reference_forward(struct xt_reference_op *reference)
{
    return run(reference, false);
}

static enum xt_status reference_backward(struct xt_reference_op *reference)
{
    return run(reference, true);
}

static struct xt_bound bound(const struct xt_reference_op *reference, enum xt_part part, int which)
{
    const struct xt_tensor *out = xt_op_out(reference->op, 0);
    int terms = part == XT_PART_OUTPUT ? xt_op_in(reference->op, 0)->c
                : which == 0           ? out->c
                                       : out->w;
    return (struct xt_bound){.relative = xt_reference_op_relative(out->dtype, 2, terms)};
}

const struct xt_op_kind xt_kind_matmul = {
    .name = "matrix product",
    .size = sizeof(struct xt_matmul_op),
    .describe = describe,
    .what = {xt_what_matmul, xt_what_matmul},
    .reference = {.forward = reference_forward,
                  .backward = reference_backward,
                  .bound = bound,
                  .inputs = {"first factor", "second factor"}},
};

struct xt_tensor *xt_graph_matmul(struct xt_graph *graph, struct xt_tensor *a, struct xt_tensor *b,
                                  const struct xt_matmul_spec *spec)
{
    struct xt_matmul_op *matmul = xt_graph_add_op(graph, &xt_kind_matmul, spec->name);
    if (!matmul || !xt_op_read(&matmul->op, graph, a) || !xt_op_read(&matmul->op, graph, b))
        return NULL;
    int inner = spec->transpose ? b->c : b->w;
    int columns = spec->transpose ? b->w : b->c;
    enum xt_dtype dtype = xt_op_numbers_type(graph, a);
    if (a->n != b->n || a->h != b->h || a->c != inner || dtype != xt_op_numbers_type(graph, b))
        return xt_graph_refuse(
            graph, XT_ERR_USAGE, "%s: matrices of %dx%dx%d cannot be multiplied by %dx%dx%d%s",
            spec->name, a->h, a->w, a->c, b->h, b->w, b->c, spec->transpose ? " transposed" : "");
    matmul->transpose = spec->transpose;
    matmul->scale = spec->scale != 0 ? spec->scale : 1;
    matmul->op.flops = 2.0 * a->n * a->h * a->w * a->c * columns;
    matmul->op.backward_flops = 2 * matmul->op.flops;
    struct xt_tensor *out =
        xt_op_write(&matmul->op, graph, spec->name, a->n, a->h, a->w, columns, dtype);
    if (out)
        out->one_reader = true;
    return out;
}
