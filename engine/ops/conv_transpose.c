/* Transposed convolution: what the data gradient is of a convolution that leads from the output
 * back to the input. So that convolution's primitives run, each in another one's place; the weights
 * lie as that has them, [in][out / groups][kernel_h][kernel_w], which is PyTorch's order.
 */
#include <stdio.h>
#include <string.h>

#include "engine/ops/conv_primitives.h"
#include "engine/ops/ops.h"
#include "engine/ops/reference.h"

static const char what_forward[] = "the transposed convolution";
static const char what_data[] = "the transposed convolution's data gradient";
static const char what_weights[] = "the transposed convolution's weight gradient";
static const char what_working[] = "the working copy of the weights";

/* Of the weights, as in a convolution of groups: G, O / G, I / G, H, W; the count of dimensions. */
static int weight_dims(const struct xt_conv_transpose_op *conv, dnnl_dims_t dims)
{
    int first = conv->groups > 1;
    if (first)
        dims[0] = conv->groups;
    dims[first] = xt_op_in(&conv->op, 0)->c / conv->groups;
    dims[first + 1] = xt_op_out(&conv->op, 0)->c / conv->groups;
    dims[first + 2] = conv->kernel[0];
    dims[first + 3] = conv->kernel[1];
    return first + 4;
}

/* ---- the program ---- */

struct description {
    struct xt_conv_transpose_op *conv;
    struct xt_graph *graph;
    struct xt_program *program;
    struct xt_operand x, y;
    struct xt_conv_primitives of; /* the convolution that leads back: it reads y and gives x */
    dnnl_memory_desc_t weights_grad, master;
    dnnl_primitive_desc_t data, of_weights; /* its gradients */
};

static void make_layouts(struct description *m)
{
    struct xt_program *p = m->program;
    dnnl_dims_t dims;
    int ndims = weight_dims(m->conv, dims);
    struct xt_operand master = xt_operand_dense((struct xt_location){0}, dnnl_f32, ndims, dims);
    m->of = (struct xt_conv_primitives){.program = p,
                                        .strides = m->conv->strides,
                                        .dilates = m->conv->dilates,
                                        .pads = m->conv->pads,
                                        .pads_after = m->conv->pads_after,
                                        .attr = xt_program_attr(p, NULL)};
    m->of.in = xt_program_layout(p, &m->y);
    m->of.out = xt_program_layout(p, &m->x);
    m->of.weights = xt_program_layout_as(p, m->x.dtype, ndims, dims, dnnl_format_tag_any);
    m->weights_grad = xt_program_layout_as(p, dnnl_f32, ndims, dims, dnnl_format_tag_any);
    m->master = xt_program_layout(p, &master);
}

static void make_primitives(struct description *m, bool learns)
{
    xt_conv_forward(&m->of, dnnl_forward_training, m->of.attr, what_data);
    m->data = xt_conv_backward_data(&m->of, what_forward);
    if (learns)
        m->of_weights = xt_conv_backward_weights(&m->of, m->weights_grad, NULL, what_weights);
}

/* The weights in the primitive's format. */
static struct xt_location working(struct description *m, const_dnnl_primitive_desc_t pd)
{
    const_dnnl_memory_desc_t md = xt_layout_of(pd, dnnl_query_weights_md, 0);
    struct xt_location copy = xt_in_buffer(
        xt_graph_permanent(m->graph, m->conv->op.name, XT_WORKING_WEIGHTS, xt_layout_bytes(md)));
    xt_program_reorder_md(m->program, XT_BEFORE, m->master,
                          xt_graph_value_of(m->graph, m->conv->weight), md, copy, what_working);
    return copy;
}

static void add_bias(struct description *m)
{
    int64_t channels[] = {1, m->y.dims[1], 1, 1};
    struct xt_operand value =
        xt_operand_dense(xt_graph_value_of(m->graph, m->conv->bias), dnnl_f32, 4, channels);
    struct xt_operand bias = value;
    bias.dtype = m->y.dtype;
    if (bias.dtype != dnnl_f32) {
        bias.place = xt_in_buffer(xt_graph_permanent(m->graph, m->conv->op.name, "bias",
                                                     (size_t)channels[1] * sizeof(float)));
        xt_program_reorder(m->program, XT_BEFORE, &value, &bias);
    }
    xt_program_binary(m->program, XT_FORWARD, dnnl_binary_add, &m->y, &bias, &m->y, NULL);
}

static void add_forward(struct description *m)
{
    struct xt_location weights = working(m, m->data);
    struct xt_step *step = xt_program_add(m->program, XT_FORWARD, m->data, what_forward);
    xt_step_arg(step, DNNL_ARG_DIFF_DST, m->x.place);
    xt_step_arg(step, DNNL_ARG_WEIGHTS, weights);
    xt_step_arg(step, DNNL_ARG_DIFF_SRC, m->y.place);
    if (m->conv->bias >= 0)
        add_bias(m);
}

static void add_data_gradient(struct description *m)
{
    struct xt_location weights = working(m, m->of.forward);
    struct xt_step *step = xt_program_add(m->program, XT_BACKWARD, m->of.forward, what_data);
    xt_step_arg(step, DNNL_ARG_SRC, xt_in_buffer(xt_op_out(&m->conv->op, 0)->grad[0]));
    xt_step_arg(step, DNNL_ARG_WEIGHTS, weights);
    xt_step_arg(step, DNNL_ARG_DST, xt_in_buffer(xt_op_in_grad(&m->conv->op, 0)));
}

/* Written in the kernel's format, then reordered to the parameter's. */
static void add_weight_gradient(struct description *m)
{
    struct xt_op *op = &m->conv->op;
    const struct xt_tensor *out = xt_op_out(op, 0);
    const_dnnl_memory_desc_t md = xt_layout_of(m->of_weights, dnnl_query_diff_weights_md, 0);
    struct xt_location written = xt_in_buffer(
        xt_graph_temporary(m->graph, out, xt_layout_bytes(md), xt_op_backward_time(m->graph, op)));
    struct xt_step *step = xt_program_add(m->program, XT_BACKWARD, m->of_weights, what_weights);
    xt_step_arg(step, DNNL_ARG_SRC, xt_in_buffer(out->grad[0]));
    xt_step_arg(step, DNNL_ARG_DIFF_DST, m->x.place);
    xt_step_arg(step, DNNL_ARG_DIFF_WEIGHTS, written);
    xt_program_reorder_md(m->program, XT_BACKWARD, md, written, m->master,
                          xt_graph_grad_of(m->graph, m->conv->weight),
                          "the weight gradient's format");
    if (m->conv->bias < 0)
        return;
    struct xt_operand dy = xt_operand_channels_last(out, out->grad[0]);
    struct xt_operand sum = xt_operand_dense(xt_graph_grad_of(m->graph, m->conv->bias), dnnl_f32,
                                             XT_DENSE_AXES, (int64_t[]){1, 1, 1, out->c});
    xt_op_sum(op, m->graph, XT_BACKWARD, &dy, &sum);
}

static void describe(struct xt_op *op, struct xt_graph *graph)
{
    const struct xt_tensor *in = xt_op_in(op, 0);
    const struct xt_tensor *out = xt_op_out(op, 0);
    bool learns = xt_op_learns(op, graph);
    xt_graph_use(op, graph, 1, 0);
    struct xt_operand whole = xt_operand_tensor(out, out->value);
    struct description m = {.conv = (struct xt_conv_transpose_op *)op,
                            .graph = graph,
                            .program = &op->program,
                            .x = xt_op_numbers(op, graph, 0),
                            .y = whole};
    if (m.x.dtype != m.y.dtype) { /* int8 as float32 */
        m.y.dtype = m.x.dtype;
        m.y.place = xt_op_room(op, graph, XT_FORWARD, m.x.dtype, whole.dims).place;
    }
    make_layouts(&m);
    make_primitives(&m, learns);
    add_forward(&m);
    if (m.y.dtype != whole.dtype)
        xt_program_reorder(&op->program, XT_FORWARD, &m.y, &whole);
    if (learns)
        add_weight_gradient(&m);
    if (learns && in->wants_grad)
        add_data_gradient(&m);
    else
        xt_program_keep(&op->program, m.of.forward);
}

/* ---- in double precision ---- */

enum { WEIGHT, BIAS };

static struct xt_reference_conv leading_back(const struct xt_op *op)
{
    const struct xt_conv_transpose_op *conv = (const struct xt_conv_transpose_op *)op;
    const struct xt_tensor *in = xt_op_in(op, 0);
    const struct xt_tensor *out = xt_op_out(op, 0);
    return (struct xt_reference_conv){
        .in = {out->n, out->h, out->w, out->c},
        .out = {in->n, in->h, in->w, in->c},
        .kernel_h = (int)conv->kernel[0],
        .kernel_w = (int)conv->kernel[1],
        .stride_h = (int)conv->strides[0],
        .stride_w = (int)conv->strides[1],
        .dilation_h = (int)conv->dilates[0] + 1,
        .dilation_w = (int)conv->dilates[1] + 1,
        .pad_h = (int)conv->pads[0],
        .pad_w = (int)conv->pads[1],
        .groups = conv->groups,
    };
}

static enum xt_status reference_forward(struct xt_reference_op *reference)
{
    /* The type it computes in, which an int8 input's is not. */
    xt_reference_op_round(xt_op_out(reference->op, 0)->dtype, reference->param[WEIGHT],
                          xt_reference_op_param_count(reference, WEIGHT));
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
    const struct xt_reference_conv conv = leading_back(reference->op);
    const double *weight = reference->param[WEIGHT];
    if (part == XT_PART_INPUT_GRAD)
        return xt_reference_conv_output(&conv, reference->out_grad[0], weight, i);
    if (part == XT_PART_PARAM_GRAD && which == WEIGHT)
        return xt_reference_conv_weight_grad(&conv, reference->out_grad[0], reference->in[0], i);
    if (part == XT_PART_OUTPUT) {
        bool has_bias = ((const struct xt_conv_transpose_op *)reference->op)->bias >= 0;
        return xt_reference_conv_input_grad(&conv, reference->in[0], weight, i) +
               (has_bias ? reference->param[BIAS][i % (size_t)conv.in.c] : 0);
    }
    return xt_reference_bias_grad(&conv.in, reference->out_grad[0], i);
}

static double terms(const struct xt_reference_op *reference, enum xt_part part, int which)
{
    const struct xt_conv_transpose_op *conv = (const struct xt_conv_transpose_op *)reference->op;
    const struct xt_tensor *in = xt_op_in(reference->op, 0);
    const struct xt_tensor *out = xt_op_out(reference->op, 0);
    int64_t channels = (part == XT_PART_OUTPUT ? in : out)->c / conv->groups;
    if (part == XT_PART_PARAM_GRAD)
        return which == WEIGHT ? (double)in->n * in->h * in->w : (double)out->n * out->h * out->w;
    return (double)(channels * conv->kernel[0] * conv->kernel[1]);
}

/* The product and its sum with the bias are rounded, and the bias itself. */
static struct xt_bound bound(const struct xt_reference_op *reference, enum xt_part part, int which)
{
    const struct xt_tensor *out = xt_op_out(reference->op, 0);
    enum xt_dtype dtype = part == XT_PART_PARAM_GRAD ? XT_F32 : out->dtype;
    return (struct xt_bound){.relative =
                                 xt_reference_op_relative(dtype, part == XT_PART_OUTPUT ? 4 : 2,
                                                          terms(reference, part, which))};
}

const struct xt_op_kind xt_kind_conv_transpose = {
    .name = "transposed convolution",
    .size = sizeof(struct xt_conv_transpose_op),
    .describe = describe,
    .what = {what_forward, what_weights},
    .reference = {.forward = reference_forward,
                  .backward = reference_backward,
                  .element = element,
                  .terms = terms,
                  .bound = bound},
};

/* ---- adding it to a graph ---- */

static void add_params(struct xt_graph *graph, struct xt_conv_transpose_op *conv,
                       const struct xt_conv_transpose_spec *spec)
{
    const int dims[] = {xt_op_in(&conv->op, 0)->c, spec->channels / conv->groups, spec->kernel[0],
                        spec->kernel[1]};
    struct xt_param weight = {.role = XT_PARAM_WEIGHT, .ndims = 4};
    struct xt_param bias = {
        .role = XT_PARAM_BIAS, .ndims = 1, .dims = {spec->channels}, .file_dims = {spec->channels}};
    memcpy(weight.dims, dims, sizeof dims);
    memcpy(weight.file_dims, dims, sizeof dims);
    snprintf(weight.name, sizeof weight.name, "%s.weight", spec->name);
    snprintf(bias.name, sizeof bias.name, "%s.bias", spec->name);
    conv->weight = xt_op_param(&conv->op, graph, &weight);
    conv->bias = spec->bias ? xt_op_param(&conv->op, graph, &bias) : -1;
}

static void take_params(struct xt_graph *graph, struct xt_conv_transpose_op *conv,
                        const struct xt_conv_params *params)
{
    conv->weight = params->weight;
    conv->bias = params->bias;
    xt_op_take_param(&conv->op, graph, conv->weight);
    if (conv->bias >= 0)
        xt_op_take_param(&conv->op, graph, conv->bias);
}

struct xt_tensor *xt_graph_conv_transpose(struct xt_graph *graph, struct xt_tensor *in,
                                          const struct xt_conv_transpose_spec *spec)
{
    struct xt_conv_transpose_op *conv = xt_graph_add_op(graph, &xt_kind_conv_transpose, spec->name);
    int sides[2];
    if (!conv || !xt_op_read(&conv->op, graph, in))
        return NULL;
    conv->groups = spec->groups ? spec->groups : 1;
    if (conv->groups < 1 || in->c % conv->groups || spec->channels % conv->groups)
        return xt_graph_refuse(graph, XT_ERR_RUN,
                               "%s: %d groups do not divide its %d input and %d output channels",
                               spec->name, conv->groups, in->c, spec->channels);
    for (int i = 0; i < 2; i++) {
        conv->kernel[i] = spec->kernel[i];
        conv->strides[i] = spec->stride[i] ? spec->stride[i] : 1;
        conv->dilates[i] = spec->dilation[i] ? spec->dilation[i] - 1 : 0;
        conv->pads[i] = spec->pad_before[i];
        conv->pads_after[i] = spec->pad_after[i];
        sides[i] = (int)(((i ? in->w : in->h) - 1) * conv->strides[i] +
                         (conv->kernel[i] - 1) * (conv->dilates[i] + 1) + 1 - conv->pads[i] -
                         conv->pads_after[i] + spec->more[i]);
    }
    if (spec->params)
        take_params(graph, conv, spec->params);
    else
        add_params(graph, conv, spec);
    struct xt_tensor *out = xt_op_write(&conv->op, graph, spec->name, in->n, sides[0], sides[1],
                                        spec->channels, xt_op_numbers_type(graph, in));
    if (!out)
        return NULL;
    out->one_reader = true;
    int64_t each = spec->channels / conv->groups * conv->kernel[0] * conv->kernel[1];
    conv->op.flops = 2.0 * in->n * in->h * in->w * in->c * (double)each;
    conv->op.backward_flops = conv->op.frozen ? 0 : (in->wants_grad ? 2 : 1) * conv->op.flops;
    return out;
}
