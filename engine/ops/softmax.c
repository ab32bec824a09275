/* Softmax over the channels. Its gradient is computed from the output. */
#include <math.h>

#include "engine/ops/ops.h"

static const char what_forward[] = "the softmax";
static const char what_backward[] = "the softmax's gradient";

/* ---- the program ---- */

static struct xt_operand rows_of(const struct xt_tensor *t, const struct xt_buffer *buffer,
                                 dnnl_data_type_t dtype)
{
    return xt_operand_matrix(xt_in_buffer(buffer), dtype, xt_tensor_count(t) / (size_t)t->c,
                             (size_t)t->c);
}

static dnnl_primitive_desc_t make_forward(struct xt_program *program, const struct xt_operand *x,
                                          const struct xt_operand *y, bool training)
{
    enum { AXIS = 1 };
    dnnl_memory_desc_t from = xt_program_layout(program, x);
    dnnl_memory_desc_t to = xt_program_layout(program, y);
    dnnl_primitive_attr_t attr = xt_program_attr(program, NULL);
    dnnl_primitive_desc_t pd = NULL;
    if (!xt_program_fails(program))
        xt_program_check(program,
                         xt_dnnl.softmax_forward_primitive_desc_create(
                             &pd, program->device->engine,
                             training ? dnnl_forward_training : dnnl_forward_inference,
                             dnnl_softmax_accurate, from, to, AXIS, attr),
                         what_forward);
    return pd;
}

static void add_backward(struct xt_op *op, const struct xt_operand *x, const struct xt_operand *y)
{
    enum { AXIS = 1 };
    struct xt_program *program = &op->program;
    const struct xt_tensor *out = xt_op_out(op, 0);
    struct xt_operand dy = rows_of(out, out->grad[0], y->dtype);
    struct xt_operand dx = rows_of(out, xt_op_in_grad(op, 0), y->dtype);
    dnnl_primitive_desc_t hint = make_forward(program, x, y, true);
    dnnl_memory_desc_t md = xt_program_layout(program, y);
    dnnl_primitive_attr_t attr = xt_program_attr(program, NULL);
    dnnl_primitive_desc_t pd = NULL;
    if (!xt_program_fails(program))
        xt_program_check(
            program,
            xt_dnnl.softmax_backward_primitive_desc_create(
                &pd, program->device->engine, dnnl_softmax_accurate, md, md, md, AXIS, hint, attr),
            what_backward);
    xt_program_keep(program, hint);
    struct xt_step *step = xt_program_add(program, XT_BACKWARD, pd, what_backward);
    xt_step_arg(step, DNNL_ARG_DST, y->place);
    xt_step_arg(step, DNNL_ARG_DIFF_DST, dy.place);
    xt_step_arg(step, DNNL_ARG_DIFF_SRC, dx.place);
}

static void describe(struct xt_op *op, struct xt_graph *graph)
{
    const struct xt_tensor *out = xt_op_out(op, 0);
    bool learns = xt_op_learns(op, graph);
    xt_graph_use_inputs(op, graph, 0);
    xt_op_share_memory(op, graph, true);
    xt_graph_use_outputs(op, graph, 1);
    struct xt_operand numbers = xt_op_numbers(op, graph, 0);
    struct xt_operand x = rows_of(out, numbers.place.buffer, numbers.dtype);
    struct xt_operand y = rows_of(out, out->value, xt_dtype_dnnl(out->dtype));
    struct xt_step *step = xt_program_add(&op->program, XT_FORWARD,
                                          make_forward(&op->program, &x, &y, learns), what_forward);
    xt_step_arg(step, DNNL_ARG_SRC, x.place);
    xt_step_arg(step, DNNL_ARG_DST, y.place);
    if (learns && xt_op_in(op, 0)->wants_grad)
        add_backward(op, &x, &y);
}

/* ---- in double precision ---- */

static void softmax(const double *x, int count, double *y)
{
    double most = x[0];
    double sum = 0;
    for (int k = 1; k < count; k++)
        most = fmax(most, x[k]);
    for (int k = 0; k < count; k++)
        sum += y[k] = exp(x[k] - most);
    for (int k = 0; k < count; k++)
        y[k] /= sum;
}

static enum xt_status reference_forward(struct xt_reference_op *reference)
{
    const struct xt_tensor *t = xt_op_out(reference->op, 0);
    for (size_t i = 0; i < xt_tensor_count(t); i += (size_t)t->c)
        softmax(reference->in[0] + i, t->c, reference->out[0] + i);
    return XT_OK;
}

static enum xt_status reference_backward(struct xt_reference_op *reference)
{
    const struct xt_tensor *t = xt_op_out(reference->op, 0);
    for (size_t i = 0; i < xt_tensor_count(t); i += (size_t)t->c) {
        const double *y = reference->out[0] + i;
        const double *dy = reference->out_grad[0] + i;
        double mean = 0;
        for (int k = 0; k < t->c; k++)
            mean += y[k] * dy[k];
        for (int k = 0; k < t->c; k++)
            reference->in_grad[0][i + (size_t)k] = y[k] * (dy[k] - mean);
    }
    return XT_OK;
}

/* The output is rounded before the gradient is computed from it. */
static struct xt_bound bound(const struct xt_reference_op *reference, enum xt_part part, int which)
{
    const struct xt_tensor *t = xt_op_out(reference->op, 0);
    double roundings = part == XT_PART_OUTPUT ? 2 : 4;
    double terms = 0; /* y dy, which may cancel */
    (void)which;
    for (size_t i = 0; part == XT_PART_INPUT_GRAD && i < xt_tensor_count(t); i++)
        terms = fmax(terms, fabs(reference->out[0][i] * reference->out_grad[0][i]));
    return (struct xt_bound){.scale = terms,
                             .relative = xt_reference_op_relative(t->dtype, roundings, t->c)};
}

const struct xt_op_kind xt_kind_softmax = {
    .name = "softmax",
    .size = sizeof(struct xt_op),
    .describe = describe,
    .what = {what_forward, what_backward},
    .reference = {.forward = reference_forward, .backward = reference_backward, .bound = bound},
};

struct xt_tensor *xt_graph_softmax(struct xt_graph *graph, struct xt_tensor *in, const char *name)
{
    struct xt_op *op = xt_graph_add_op(graph, &xt_kind_softmax, name);
    if (!xt_op_read(op, graph, in))
        return NULL;
    struct xt_tensor *out =
        xt_op_write(op, graph, name, in->n, in->h, in->w, in->c, xt_op_numbers_type(graph, in));
    if (!out)
        return NULL;
    out->one_reader = true;
    out->above_0 = true;
    return out;
}
