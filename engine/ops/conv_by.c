/* Convolution whose weights are a tensor: computed from parameters, as weight standardisation and
 * weight normalisation do. oneDNN's primitives as in conv.c, on copies of the weights in the
 * kernels' formats, made whenever they are computed; the weights' gradient is that of the tensor.
 */
#include <stdio.h>

#include "engine/ops/conv_primitives.h"
#include "engine/ops/ops.h"
#include "engine/ops/reference.h"

static const char what_forward[] = "the convolution by computed weights";
static const char what_data[] = "the data gradient of the convolution by computed weights";
static const char what_weights[] = "the gradient of computed weights";
static const char what_copy[] = "the copy of computed weights";

enum { INPUT, WEIGHTS };

/* ---- the program ---- */

struct description {
    struct xt_conv_op *conv;
    struct xt_graph *graph;
    struct xt_program *program;
    struct xt_operand x, y;
    struct xt_operand tensor; /* the weights as they lie in their tensor */
    struct xt_conv_primitives of;
    dnnl_memory_desc_t weights_grad;
};

static struct description begin(struct xt_op *op, struct xt_graph *graph)
{
    const struct xt_tensor *weights = xt_op_in(op, WEIGHTS);
    const struct xt_tensor *out = xt_op_out(op, 0);
    struct description m = {
        .conv = (struct xt_conv_op *)op, .graph = graph, .program = &op->program};
    struct xt_program *p = m.program;
    dnnl_dims_t dims;
    int ndims = xt_conv_weight_dims(m.conv, dims);
    m.x = xt_op_numbers(op, graph, INPUT);
    m.y = xt_operand_tensor(out, out->value);
    m.tensor =
        xt_operand_dense(xt_in_buffer(weights->value), xt_dtype_dnnl(weights->dtype), ndims, dims);
    m.of = xt_conv_primitives_of(p, m.conv);
    m.of.in = xt_program_layout(p, &m.x);
    m.of.out = xt_program_layout(p, &m.y);
    m.of.weights = xt_program_layout_as(p, m.x.dtype, ndims, dims, dnnl_format_tag_any);
    m.weights_grad = xt_program_layout_as(p, dnnl_f32, ndims, dims, dnnl_format_tag_any);
    if (m.conv->bias >= 0)
        m.of.bias = xt_program_layout_as(p, dnnl_f32, 1, (int64_t[]){out->c}, dnnl_a);
    return m;
}

/* The weights in the format of a primitive, copied in this phase. */
static struct xt_location add_copy(const struct description *m, enum xt_phase phase,
                                   const_dnnl_primitive_desc_t pd)
{
    const struct xt_op *op = &m->conv->op;
    struct xt_tensor *weights = xt_op_in(op, WEIGHTS);
    const_dnnl_memory_desc_t md = xt_layout_of(pd, dnnl_query_weights_md, 0);
    const_dnnl_memory_desc_t from = xt_program_layout(m->program, &m->tensor);
    if (xt_program_fails(m->program) || xt_dnnl.memory_desc_equal(md, from))
        return m->tensor.place;
    size_t bytes = xt_layout_bytes(md);
    int time = phase == XT_BACKWARD ? xt_op_backward_time(m->graph, op) : xt_op_forward_time(op);
    struct xt_location to =
        xt_in_buffer(m->graph->options.training
                         ? xt_graph_temporary(m->graph, weights, bytes, time)
                         : xt_graph_permanent(m->graph, op->name, XT_WORKING_WEIGHTS, bytes));
    xt_program_reorder_md(m->program, phase, from, m->tensor.place, md, to, what_copy);
    return to;
}

static void add_forward(struct description *m)
{
    const struct xt_conv_op *c = m->conv;
    struct xt_program *p = m->program;
    dnnl_prop_kind_t kind =
        m->graph->options.training ? dnnl_forward_training : dnnl_forward_inference;
    xt_conv_forward(&m->of, kind, m->of.attr, what_forward);
    struct xt_location weights = add_copy(m, XT_COMPUTED, m->of.forward);
    struct xt_step *step = xt_program_add(p, XT_FORWARD, m->of.forward, what_forward);
    xt_step_is_lower_bound(step);
    xt_step_arg(step, DNNL_ARG_SRC, m->x.place);
    xt_step_arg(step, DNNL_ARG_WEIGHTS, weights);
    if (m->of.bias)
        xt_step_arg(step, DNNL_ARG_BIAS, xt_graph_value_of(m->graph, c->bias));
    xt_step_arg(step, DNNL_ARG_DST, m->y.place);
}

/* Of the weights and the bias. Where the kernel writes another format or type than the tensor's, by
 * a memory of its own; so where only the bias learns. */
static void add_weight_gradient(const struct description *m, const struct xt_operand *dy)
{
    const struct xt_conv_op *c = m->conv;
    struct xt_program *p = m->program;
    struct xt_tensor *weights = xt_op_in(&c->op, WEIGHTS);
    dnnl_primitive_desc_t pd =
        xt_conv_backward_weights(&m->of, m->weights_grad, m->of.bias, what_weights);
    struct xt_operand grad = m->tensor;
    if (weights->wants_grad)
        grad.place = xt_in_buffer(xt_op_in_grad(&c->op, WEIGHTS));
    const_dnnl_memory_desc_t md = xt_layout_of(pd, dnnl_query_diff_weights_md, 0);
    const_dnnl_memory_desc_t wanted = xt_program_layout(p, &grad);
    bool direct =
        weights->wants_grad && !xt_program_fails(p) && xt_dnnl.memory_desc_equal(md, wanted);
    struct xt_location to =
        direct ? grad.place
               : xt_in_buffer(xt_graph_temporary(m->graph, weights, xt_layout_bytes(md),
                                                 xt_op_backward_time(m->graph, &c->op)));
    struct xt_step *step = xt_program_add(p, XT_BACKWARD, pd, what_weights);
    xt_step_is_lower_bound(step);
    xt_step_arg(step, DNNL_ARG_SRC, m->x.place);
    xt_step_arg(step, DNNL_ARG_DIFF_DST, dy->place);
    xt_step_arg(step, DNNL_ARG_DIFF_WEIGHTS, to);
    if (m->of.bias)
        xt_step_arg(step, DNNL_ARG_DIFF_BIAS, xt_graph_grad_of(m->graph, c->bias));
    if (weights->wants_grad && !direct)
        xt_program_reorder_md(p, XT_BACKWARD, md, to, wanted, grad.place, what_copy);
}

static void add_data_gradient(const struct description *m, const struct xt_operand *dy)
{
    const struct xt_conv_op *c = m->conv;
    struct xt_program *p = m->program;
    dnnl_primitive_desc_t pd = xt_conv_backward_data(&m->of, what_data);
    struct xt_location weights = add_copy(m, XT_BACKWARD, pd);
    struct xt_step *step = xt_program_add(p, XT_BACKWARD, pd, what_data);
    xt_step_is_lower_bound(step);
    xt_step_arg(step, DNNL_ARG_DIFF_DST, dy->place);
    xt_step_arg(step, DNNL_ARG_WEIGHTS, weights);
    xt_step_arg(step, DNNL_ARG_DIFF_SRC, xt_in_buffer(xt_op_in_grad(&c->op, INPUT)));
}

static void describe(struct xt_op *op, struct xt_graph *graph)
{
    const struct xt_conv_op *conv = (const struct xt_conv_op *)op;
    const struct xt_tensor *out = xt_op_out(op, 0);
    const uint64_t both = 1U << INPUT | 1U << WEIGHTS;
    xt_graph_use(op, graph, both, 0);
    struct description m = begin(op, graph);
    add_forward(&m);
    if (!xt_op_learns(op, graph))
        return;
    struct xt_operand dy = xt_operand_tensor(out, out->grad[0]);
    if (xt_op_in(op, WEIGHTS)->wants_grad || conv->bias >= 0)
        add_weight_gradient(&m, &dy);
    if (xt_op_in(op, INPUT)->wants_grad)
        add_data_gradient(&m, &dy);
}

/* ---- in double precision ---- */

/* The weights as the kernels read them. */
static enum xt_status reference_forward(struct xt_reference_op *reference)
{
    const struct xt_tensor *weights = xt_op_in(reference->op, WEIGHTS);
    enum xt_dtype dtype = xt_op_numbers_type(reference->graph, xt_op_in(reference->op, INPUT));
    xt_reference_op_round(dtype, reference->in[WEIGHTS], xt_tensor_count(weights));
    return XT_OK;
}

static enum xt_status reference_backward(struct xt_reference_op *reference)
{
    (void)reference;
    return XT_OK;
}

static double element(const struct xt_reference_op *reference, enum xt_part part, int which,
                      size_t i)
{
    const struct xt_conv_op *conv = (const struct xt_conv_op *)reference->op;
    const struct xt_reference_conv by = xt_conv_reference(conv);
    if (part == XT_PART_INPUT_GRAD && which == INPUT)
        return xt_reference_conv_input_grad(&by, reference->out_grad[0], reference->in[WEIGHTS], i);
    if (part == XT_PART_INPUT_GRAD)
        return xt_reference_conv_weight_grad(&by, reference->in[INPUT], reference->out_grad[0], i);
    if (part == XT_PART_PARAM_GRAD)
        return xt_reference_bias_grad(&by.out, reference->out_grad[0], i);
    return xt_reference_conv_output(&by, reference->in[INPUT], reference->in[WEIGHTS], i) +
           (conv->bias >= 0 ? reference->param[0][i % (size_t)by.out.c] : 0);
}

static double terms(const struct xt_reference_op *reference, enum xt_part part, int which)
{
    const struct xt_conv_op *conv = (const struct xt_conv_op *)reference->op;
    const struct xt_tensor *out = xt_op_out(reference->op, 0);
    double each = (double)xt_tensor_count(xt_op_in(reference->op, WEIGHTS)) / out->c;
    if (part == XT_PART_OUTPUT)
        return each;
    if (part == XT_PART_INPUT_GRAD && which == INPUT)
        return each * out->c / xt_op_in(reference->op, INPUT)->c;
    return (double)conv->op.outputs[0]->n * out->h * out->w;
}

static struct xt_bound bound(const struct xt_reference_op *reference, enum xt_part part, int which)
{
    const struct xt_tensor *out = xt_op_out(reference->op, 0);
    double count = terms(reference, part, which);
    bool of_weights = part == XT_PART_PARAM_GRAD || (part == XT_PART_INPUT_GRAD && which);
    return (struct xt_bound){.relative =
                                 xt_reference_op_relative(out->dtype, of_weights ? 0 : 2, count) +
                                 xt_reference_op_relative(XT_F32, 2, count)};
}

static bool passes_nan(const struct xt_op *op)
{
    return !xt_dtype_is_int8(xt_op_in(op, INPUT)->dtype);
}

const struct xt_op_kind xt_kind_conv_by = {
    .name = "convolution by computed weights",
    .size = sizeof(struct xt_conv_op),
    .describe = describe,
    .what = {what_forward, what_weights},
    .reference = {.forward = reference_forward,
                  .backward = reference_backward,
                  .element = element,
                  .terms = terms,
                  .bound = bound,
                  .passes_nan = passes_nan,
                  .grads_pass_nan = true,
                  .inputs = {"input", "weights"}},
};

/* ---- adding it to a graph ---- */

/* The bias, its only parameter. */
static bool add_bias(struct xt_graph *graph, struct xt_conv_op *conv,
                     const struct xt_conv_spec *spec)
{
    struct xt_param bias = {
        .role = XT_PARAM_BIAS, .ndims = 1, .dims = {spec->channels}, .file_dims = {spec->channels}};
    conv->bias = -1;
    if (spec->params && spec->params->bias >= 0) {
        conv->bias = spec->params->bias;
        xt_op_take_param(&conv->op, graph, conv->bias);
    } else if (!spec->params && spec->bias) {
        snprintf(bias.name, sizeof bias.name, "%s.bias", spec->name);
        conv->bias = xt_op_param(&conv->op, graph, &bias);
    }
    return !xt_graph_fails(graph);
}

struct xt_tensor *xt_graph_conv_by(struct xt_graph *graph, struct xt_tensor *in,
                                   struct xt_tensor *weights, const struct xt_conv_spec *spec)
{
    struct xt_conv_op *conv = xt_graph_add_op(graph, &xt_kind_conv_by, spec->name);
    int size[2];
    if (!conv || !xt_op_read(&conv->op, graph, in) || !xt_op_read(&conv->op, graph, weights) ||
        !xt_conv_set(conv, graph, spec, size) || !add_bias(graph, conv, spec))
        return NULL;
    conv->weight = -1;
    int64_t row = (int64_t)in->c / conv->groups * spec->kernel_h * spec->kernel_w;
    if (weights->n != 1 || (int64_t)xt_tensor_count(weights) != row * spec->channels)
        return xt_graph_refuse(graph, XT_ERR_USAGE,
                               "%s: %s of %dx%dx%d is no weight of a %dx%d convolution from %d to "
                               "%d channels",
                               spec->name, weights->name, weights->h, weights->w, weights->c,
                               spec->kernel_h, spec->kernel_w, in->c, spec->channels);
    struct xt_tensor *out =
        xt_op_write(&conv->op, graph, spec->name, in->n, size[0], size[1], spec->channels,
                    spec->why_f32 ? XT_F32 : xt_op_numbers_type(graph, in));
    if (!out)
        return NULL;
    out->one_reader = true;
    conv->op.why_f32 = spec->why_f32;
    conv->op.flops = 2.0 * (double)xt_tensor_count(out) * (double)row;
    conv->op.backward_flops = conv->op.frozen ? 0 : (in->wants_grad ? 2 : 1) * conv->op.flops;
    return out;
}
