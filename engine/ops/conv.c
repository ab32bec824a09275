/* Convolution with bias and ReLU: oneDNN's forward, data-gradient and weight-gradient primitives on
 * N, H, W, C tensors; in inference graphs, also int8, with the next norm folded into the weights
 * and the residual added in place.
 *
 * Each kernel that needs the weights in its own format or type has a working copy, updated with the
 * parameters. Folded and int8 weights are computed on the host, in float32.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "engine/backend.h"
#include "engine/form.h"
#include "engine/ranges.h"
#include "engine/ops/conv_primitives.h"
#include "engine/ops/layout_kernel.h"
#include "engine/ops/norm_kernels.h"
#include "engine/ops/reference.h"

static const char what_forward[] = "the convolution";
static const char what_data[] = "the convolution's data gradient";
static const char what_weights[] = "the convolution's weight gradient";
static const char what_working[] = "the working copy of the weights";

static bool reads_int8(const struct xt_conv_op *conv)
{
    return xt_dtype_is_int8(xt_op_in(&conv->op, 0)->dtype);
}

/* Weights and bias are computed in float32 from the parameters, then converted to the kernel's
 * type. */
static bool has_own_weights(const struct xt_conv_op *conv)
{
    return conv->folded || conv->own_weights || reads_int8(conv);
}

/* The arena has the weights as H, W, I, O, and kernels read and write them so. */
static bool has_hwio(const struct xt_conv_op *conv, const struct xt_graph *graph)
{
    return graph->options.params->items[conv->weight].hwio && !has_own_weights(conv);
}

/* One kernel writes the copies of all weights, so those may have any format. */
static bool copies_at_once(const struct xt_conv_op *conv, const struct xt_graph *graph)
{
    return !has_own_weights(conv) && !has_hwio(conv, graph) && xt_layout_kernel_is(graph);
}

static bool has_bias(const struct xt_conv_op *conv)
{
    return conv->bias >= 0 || has_own_weights(conv);
}

/* One kernel computes the ReLU's gradient and the bias's, where the device has it. */
static bool has_relu_kernel(const struct xt_conv_op *conv, const struct xt_graph *graph)
{
    return conv->relu && conv->bias >= 0 && xt_op_learns(&conv->op, graph) &&
           xt_norm_kernels_code(graph, xt_op_out(&conv->op, 0));
}

/* Weights of one output channel. */
static size_t row_of(const struct xt_conv_op *conv)
{
    return (size_t)(xt_op_in(&conv->op, 0)->c / conv->groups * conv->kernel[0] * conv->kernel[1]);
}

static size_t weight_count(const struct xt_conv_op *conv)
{
    return row_of(conv) * (size_t)xt_op_out(&conv->op, 0)->c;
}

/* ---- the program ---- */

int xt_conv_weight_dims(const struct xt_conv_op *conv, dnnl_dims_t dims)
{
    int64_t groups = conv->groups;
    int64_t out = xt_op_out(&conv->op, 0)->c / groups;
    int64_t in = xt_op_in(&conv->op, 0)->c / groups;
    int first = groups > 1;
    if (first)
        dims[0] = groups;
    dims[first] = out;
    dims[first + 1] = in;
    dims[first + 2] = conv->kernel[0];
    dims[first + 3] = conv->kernel[1];
    return first + 4;
}

/* The weights' copies in the kernels' formats; kernels with the same format share one. */
struct copies {
    int count;
    const_dnnl_memory_desc_t md[XT_WEIGHT_COPIES_MAX]; /* the steps' own */
    struct xt_location at[XT_WEIGHT_COPIES_MAX];
};

/* Memory descriptors of a convolution's primitives: of the batch, or of a slice's samples. */
struct description {
    bool slice;
    struct xt_conv_op *conv;
    struct xt_graph *graph;
    struct xt_program *program;
    struct xt_conv_primitives of;
    dnnl_memory_desc_t weights_grad;
    dnnl_memory_desc_t bias_grad;        /* NULL: the weight gradient does not compute it */
    dnnl_memory_desc_t reference;        /* of float32 weights */
    dnnl_memory_desc_t own_weights_grad; /* NULL: computed by a primitive */
    dnnl_primitive_attr_t post_attr;
    dnnl_primitive_desc_t backward_weights, backward_data; /* the steps' own, once added */
    const_dnnl_memory_desc_t master_md;
    struct xt_location master, bias_at, scales_at;
    struct copies *copies;
};

/* The post-ops: adds the residual, which is in the output's memory; applies ReLU or another
 * activation. */
static struct xt_post_ops post_ops_of(const struct description *m, const struct xt_location *copy)
{
    const struct xt_conv_op *conv = m->conv;
    const struct xt_tensor *residual = conv->fold.residual;
    struct xt_post_ops post_ops = {0};
    if (copy->buffer) {
        struct xt_operand with = xt_operand_tensor(residual, copy->buffer);
        with.dtype = dnnl_f32;
        post_ops.items[post_ops.count++] = xt_then_with(dnnl_binary_add, with);
    } else if (residual) {
        post_ops.items[post_ops.count] = xt_then_sum();
        post_ops.items[post_ops.count].alpha = residual->scale;
        post_ops.items[post_ops.count++].dtype = xt_dtype_dnnl(residual->dtype);
    }
    if (conv->relu)
        post_ops.items[post_ops.count++] = xt_then(dnnl_eltwise_relu, 0, 0);
    if (conv->fold.activation) {
        struct xt_eltwise_algorithm a = xt_eltwise_algorithm(conv->fold.activation, XT_F32);
        post_ops.items[post_ops.count++] = xt_then(a.forward, a.alpha, a.beta);
    }
    return post_ops;
}

/* int8: a scale for the source, one for the destination, one for each output channel's weights. */
static void set_scales(const struct description *m)
{
    static const char what[] = "the steps of an int8 convolution";
    struct xt_program *p = m->program;
    int each_channel = m->conv->groups > 1 ? 3 : 1;
    if (xt_program_fails(p))
        return;
    xt_program_check(p, xt_dnnl.primitive_attr_set_scales_mask(m->post_attr, DNNL_ARG_SRC, 0),
                     what);
    xt_program_check(
        p, xt_dnnl.primitive_attr_set_scales_mask(m->post_attr, DNNL_ARG_WEIGHTS, each_channel),
        what);
    if (xt_dtype_is_int8(xt_op_out(&m->conv->op, 0)->dtype))
        xt_program_check(p, xt_dnnl.primitive_attr_set_scales_mask(m->post_attr, DNNL_ARG_DST, 0),
                         what);
}

static void creation_init(struct description *m, const struct xt_post_ops *post_ops)
{
    const struct xt_conv_op *conv = m->conv;
    const struct xt_tensor *in = xt_op_in(&conv->op, 0);
    const struct xt_tensor *out = xt_op_out(&conv->op, 0);
    struct xt_program *p = m->program;
    dnnl_dims_t dims;
    int ndims = xt_conv_weight_dims(conv, dims);
    struct xt_operand from = xt_operand_tensor(in, NULL);
    struct xt_operand to = xt_operand_tensor(out, NULL);
    if (m->slice)
        from.dims[0] = to.dims[0] =
            conv->op.by_slices[0] ? conv->op.by_slices[0] : conv->op.by_slices[1];
    struct xt_operand reference = xt_operand_dense((struct xt_location){0}, dnnl_f32, ndims, dims);
    struct xt_operand bias =
        xt_operand_dense((struct xt_location){0}, dnnl_f32, 1, (int64_t[]){out->c});
    m->of = xt_conv_primitives_of(p, conv);
    m->of.in = xt_program_layout(p, &from);
    m->of.out = xt_program_layout(p, &to);
    m->reference = xt_program_layout(p, &reference);
    dnnl_format_tag_t format = has_hwio(conv, m->graph) ? dnnl_hwio : dnnl_format_tag_any;
    m->of.weights = xt_program_layout_as(p, reads_int8(conv) ? dnnl_s8 : xt_dtype_dnnl(in->dtype),
                                         ndims, dims, format);
    m->weights_grad = xt_program_layout_as(p, dnnl_f32, ndims, dims, format);
    if (conv->own_weight_grad)
        m->own_weights_grad =
            xt_program_layout_as(p, dnnl_f32, ndims, dims, conv->weight_grad_format);
    m->of.bias = has_bias(conv) ? xt_program_layout(p, &bias) : NULL;
    m->bias_grad = has_relu_kernel(conv, m->graph) ? NULL : m->of.bias;
    m->post_attr = xt_program_attr(p, post_ops);
    if (reads_int8(conv))
        set_scales(m);
}

/* Whether a primitive computes the output, or the input's gradient, of the batch or of slices. */
static bool by_primitive(const struct xt_conv_op *conv, bool backward, bool slices)
{
    return !conv->own[backward] && (conv->op.by_slices[backward] > 0) == slices &&
           !(backward && conv->read_grad);
}

static bool is_format(const struct description *m, const_dnnl_memory_desc_t md,
                      dnnl_data_type_t dtype, dnnl_format_tag_t tag)
{
    dnnl_dims_t dims;
    int ndims = xt_conv_weight_dims(m->conv, dims);
    const_dnnl_memory_desc_t is = xt_program_layout_as(m->program, dtype, ndims, dims, tag);
    return is && xt_dnnl.memory_desc_equal(md, is);
}

/* A 1x1's input gradient is a matrix product with the weights in the order in which they are, where
 * a convolution would transpose them first. Only with kernels that take that order without a copy:
 * on other GPUs the product's kernel takes operands as surfaces (xt_program_matmul). */
static bool is_product(const struct description *m)
{
    const struct xt_conv_op *conv = m->conv;
    bool in_any_format = copies_at_once(conv, m->graph) && conv->groups == 1;
    bool is = m->of.forward && (has_hwio(conv, m->graph) || in_any_format) &&
              is_format(m, xt_layout_of(m->of.forward, dnnl_query_weights_md, 0),
                        xt_dtype_dnnl(xt_op_in(&conv->op, 0)->dtype), dnnl_hwio) &&
              xt_op_in(&conv->op, 0)->dtype == xt_op_out(&conv->op, 0)->dtype &&
              !xt_layout_bytes(xt_layout_of(m->of.forward, dnnl_query_scratchpad_md, 0));
    for (int i = 0; i < 2; i++)
        is = is && conv->kernel[i] == 1 && conv->strides[i] == 1 && !conv->pads[i] &&
             !conv->pads_after[i];
    return is;
}

static void create_forward(struct description *m)
{
    xt_conv_forward(&m->of,
                    m->graph->options.training ? dnnl_forward_training : dnnl_forward_inference,
                    m->post_attr, what_forward);
}

static void create_backward_weights(struct description *m)
{
    m->backward_weights =
        xt_conv_backward_weights(&m->of, m->weights_grad, m->bias_grad, what_weights);
}

static void make_primitives(struct description *m)
{
    struct xt_conv_op *c = m->conv;
    bool learns = xt_op_learns(&c->op, m->graph);
    bool lower_bound = m->graph->options.lower_bound && !m->slice;
    bool weights = learns && !m->slice && (!c->own_weight_grad || lower_bound);
    bool data = learns && xt_op_in(&c->op, 0)->wants_grad &&
                (by_primitive(c, true, m->slice) || lower_bound);
    create_forward(m);
    if (weights)
        create_backward_weights(m);
    if (data && !is_product(m))
        m->backward_data = xt_conv_backward_data(&m->of, what_data);
}

/* The weight gradient's format; NULL: no gradient. */
static const_dnnl_memory_desc_t grad_layout(const struct description *m)
{
    return m->own_weights_grad ? m->own_weights_grad
                               : xt_layout_of(m->backward_weights, dnnl_query_diff_weights_md, 0);
}

/* The source of the kernels' copies: the parameters, or what the host computed from them. A back
 * end may store trained weights in the gradient's format, so that the update needs no reorder; of
 * several convolutions each may want another one. */
static void find_masters(struct description *m)
{
    struct xt_conv_op *conv = m->conv;
    struct xt_params *params = m->graph->options.params;
    struct xt_param *weight = &params->items[conv->weight];
    size_t channels = (size_t)xt_op_out(&conv->op, 0)->c;
    const_dnnl_memory_desc_t grad = grad_layout(m);
    if (m->graph->backend->master_format && grad && !params->values && conv->groups == 1 &&
        !xt_param_is_shared(m->graph, conv->weight))
        xt_program_check(m->program, xt_dnnl.memory_desc_clone(&weight->md, grad), weight->name);
    m->master_md = weight->md                 ? weight->md
                   : has_hwio(conv, m->graph) ? m->weights_grad
                                              : m->reference;
    m->master = xt_graph_value_of(m->graph, conv->weight);
    if (has_own_weights(conv)) {
        m->master_md = m->reference;
        m->master = xt_graph_staging(m->graph, weight_count(conv));
        m->bias_at =
            xt_op_follow_host(&conv->op, m->graph, "folded bias", channels, &conv->host_bias);
    } else if (conv->bias >= 0) {
        m->bias_at = xt_graph_value_of(m->graph, conv->bias);
    }
    if (reads_int8(conv))
        m->scales_at = xt_op_follow_host(&conv->op, m->graph, "steps of int8 weights", channels,
                                         &conv->host_scales);
}

/* Whether the back end's loop writes the copy: from blocks of 16 by 16 to AMX formats without
 * padding. */
static bool copies_by_loop(const struct description *m, const_dnnl_memory_desc_t md,
                           struct xt_weight_copy *copy)
{
    static const struct {
        dnnl_format_tag_t tag;
        bool out_is_wide;
        int wide;
    } formats[] = {
        {dnnl_AcdB16b64a2b, true, 64},  {dnnl_AcdB16b48a2b, true, 48},
        {dnnl_AcdB16b32a2b, true, 32},  {dnnl_BcdA16a64b2a, false, 64},
        {dnnl_BcdA16a48b2a, false, 48}, {dnnl_BcdA16a32b2a, false, 32},
    };
    enum { PAIRED = 32 };
    const struct xt_conv_op *conv = m->conv;
    if (!m->graph->backend->copy_weights || has_own_weights(conv) || conv->groups > 1)
        return false;
    *copy = (struct xt_weight_copy){
        .out = xt_op_out(&conv->op, 0)->c,
        .in = xt_op_in(&conv->op, 0)->c,
        .taps = (int)(conv->kernel[0] * conv->kernel[1]),
        .out_is_row = is_format(m, m->master_md, dnnl_f32, dnnl_ABcd16a16b),
        .summands = 1,
    };
    if (!copy->out_is_row && !is_format(m, m->master_md, dnnl_f32, dnnl_ABcd16b16a))
        return false;
    for (size_t i = 0; i < sizeof formats / sizeof formats[0]; i++) {
        copy->out_is_wide = formats[i].out_is_wide;
        copy->wide = formats[i].wide;
        int wide = copy->out_is_wide ? copy->out : copy->in;
        int paired = copy->out_is_wide ? copy->in : copy->out;
        if (wide % copy->wide == 0 && paired % PAIRED == 0 &&
            is_format(m, md, dnnl_bf16, formats[i].tag))
            return true;
    }
    return false;
}

static void add_copy(struct description *m, const_dnnl_memory_desc_t md, struct xt_location to)
{
    struct xt_conv_op *conv = m->conv;
    struct xt_weight_copy copy;
    if (!copies_by_loop(m, md, &copy)) {
        xt_program_reorder_md(m->program, XT_BEFORE, m->master_md, m->master, md, to, what_working);
        return;
    }
    conv->copied_from = m->master;
    conv->copied_to[conv->copy_count] = to;
    conv->copies[conv->copy_count++] = copy;
}

static struct xt_location hwio_weights(const struct description *m)
{
    return xt_op_in(&m->conv->op, 0)->dtype == XT_F32 ? m->master
                                                      : xt_graph_cast_of(m->graph, m->conv->weight);
}

/* Memory that only the lower bound uses, for arbitrary data. */
static struct xt_buffer *lower_bound_memory(const struct description *m, int which,
                                            const char *kind, size_t bytes)
{
    struct xt_buffer **memory = &m->graph->lower_bound_memory[which];
    if (!*memory) {
        *memory = xt_graph_add_buffer(m->graph, "the convolutions alone", kind, 0);
        xt_buffer_use(*memory, 2 * m->graph->op_count + 1);
    }
    if (*memory && (*memory)->bytes < bytes)
        (*memory)->bytes = bytes;
    return *memory;
}

/* The weights in the primitive's format: the parameter itself if it has that format. For the lower
 * bound (`alone`) a memory of the same size is as good: training does not make that copy. */
static struct xt_location working(struct description *m, const_dnnl_primitive_desc_t pd, bool alone)
{
    const_dnnl_memory_desc_t md = xt_layout_of(pd, dnnl_query_weights_md, 0);
    if (xt_program_fails(m->program) ||
        (!has_own_weights(m->conv) && xt_dnnl.memory_desc_equal(md, m->master_md)))
        return m->master;
    if (alone)
        return xt_layout_bytes(md) <= xt_layout_bytes(m->master_md)
                   ? m->master
                   : xt_in_buffer(lower_bound_memory(m, 2, "weights", xt_layout_bytes(md)));
    if (has_hwio(m->conv, m->graph))
        return hwio_weights(m);
    struct copies *copies = m->copies;
    for (int i = 0; i < copies->count; i++)
        if (xt_dnnl.memory_desc_equal(md, copies->md[i]))
            return copies->at[i];
    struct xt_location copy;
    if (!copies_at_once(m->conv, m->graph) ||
        !xt_layout_kernel_copy(m->graph, m->conv->weight, m->master_md, md, &copy)) {
        copy = xt_in_buffer(xt_graph_permanent(m->graph, m->conv->op.name, XT_WORKING_WEIGHTS,
                                               xt_layout_bytes(md)));
        add_copy(m, md, copy);
    }
    copies->md[copies->count] = md;
    copies->at[copies->count++] = copy;
    return copy;
}

/* A tensor as a step's argument; a slice's step reads some of its samples. */
static void add_tensor(const struct description *m, struct xt_step *step, int arg,
                       const struct xt_tensor *tensor, const struct xt_buffer *buffer)
{
    if (m->slice)
        xt_step_arg_samples(step, arg, xt_in_buffer(buffer), xt_tensor_sample_bytes(tensor));
    else
        xt_step_arg(step, arg, xt_in_buffer(buffer));
}

/* Whether the step runs by slices, is part of the lower bound, or both. */
static void set_use(const struct description *m, struct xt_step *step, bool backward)
{
    if (m->slice)
        xt_step_by_slices(m->program, step, m->graph->slices.workers);
    else if (!by_primitive(m->conv, backward, false))
        xt_step_is_lower_bound_alone(step);
    else
        xt_step_is_lower_bound(step);
}

/* The output; the lower bound uses a memory of its own if only some rows of it exist at a time. */
static const struct xt_buffer *whole_output(const struct description *m)
{
    const struct xt_tensor *out = xt_op_out(&m->conv->op, 0);
    if (!out->value || !out->value->ring || m->slice)
        return out->value;
    return lower_bound_memory(m, 3, "value", xt_tensor_bytes(out));
}

static void add_forward(struct description *m, const struct xt_post_ops *post_ops)
{
    const struct xt_tensor *in = xt_op_in(&m->conv->op, 0);
    const struct xt_tensor *out = xt_op_out(&m->conv->op, 0);
    struct xt_location weights = working(m, m->of.forward, !by_primitive(m->conv, false, m->slice));
    struct xt_step *step = xt_program_add(m->program, XT_FORWARD, m->of.forward, what_forward);
    set_use(m, step, false);
    add_tensor(m, step, DNNL_ARG_SRC, in, in->value);
    xt_step_arg(step, DNNL_ARG_WEIGHTS, weights);
    if (has_bias(m->conv))
        xt_step_arg(step, DNNL_ARG_BIAS, m->bias_at);
    add_tensor(m, step, DNNL_ARG_DST, out, whole_output(m));
    xt_step_post_args(step, post_ops);
    if (!reads_int8(m->conv))
        return;
    xt_step_scales(step, DNNL_ARG_SRC, xt_graph_scale_of(m->graph, in), 1);
    xt_step_scales(step, DNNL_ARG_WEIGHTS, m->scales_at, out->c);
    if (xt_dtype_is_int8(out->dtype))
        xt_step_scales(step, DNNL_ARG_DST, xt_graph_scale_of(m->graph, out), 1);
}

/* Sums the output's gradients into the one before the ReLU. */
static void add_relu_backward(const struct description *m)
{
    static const char what[] = "the ReLU's gradient";
    const struct xt_tensor *out = xt_op_out(&m->conv->op, 0);
    struct xt_operand y = xt_operand_tensor(out, out->value);
    struct xt_operand dy = xt_operand_tensor(out, out->grad[0]);
    struct xt_operand more = xt_operand_tensor(out, out->grad[1]);
    if (out->readers > 1)
        xt_program_binary(m->program, XT_BACKWARD, dnnl_binary_add, &dy, &more, &dy, NULL);
    if (has_relu_kernel(m->conv, m->graph))
        xt_relu_kernel_backward(&m->conv->op, m->graph, xt_graph_grad_of(m->graph, m->conv->bias),
                                what);
    else
        xt_program_eltwise_backward(m->program, dnnl_eltwise_relu, 0, 0, &y, &dy, &dy, what);
}

/* The parameter's own gradient if it has the format, else a memory for it. */
static struct xt_location place_gradient(const struct description *m, const_dnnl_memory_desc_t md)
{
    struct xt_conv_op *conv = m->conv;
    if (xt_dnnl.memory_desc_equal(md, m->master_md))
        return xt_graph_grad_of(m->graph, conv->weight);
    return xt_in_buffer(xt_graph_temporary(m->graph, xt_op_out(&conv->op, 0), xt_layout_bytes(md),
                                           xt_op_backward_time(m->graph, &conv->op)));
}

/* The gradient of the output, or the input's. The lower bound uses a memory of its own if the
 * gradient exists only for a slice, or overwrites what its convolutions read again. */
static const struct xt_buffer *whole_gradient(const struct description *m,
                                              const struct xt_conv_op *conv, bool input)
{
    const struct xt_tensor *tensor = input ? xt_op_in(&conv->op, 0) : xt_op_out(&conv->op, 0);
    struct xt_buffer *grad = input ? xt_op_in_grad(&conv->op, 0) : tensor->grad[0];
    if (!grad || (!grad->ring && grad != tensor->value) || m->slice)
        return grad;
    return lower_bound_memory(m, input, "gradient", xt_tensor_bytes(tensor));
}

static void add_weight_primitive(struct description *m, struct xt_location written)
{
    const struct xt_conv_op *conv = m->conv;
    struct xt_step *step =
        xt_program_add(m->program, XT_BACKWARD, m->backward_weights, what_weights);
    if (conv->own_weight_grad)
        xt_step_is_lower_bound_alone(step);
    else
        xt_step_is_lower_bound(step);
    xt_step_arg(step, DNNL_ARG_SRC, xt_in_buffer(xt_op_in(&conv->op, 0)->value));
    xt_step_arg(step, DNNL_ARG_DIFF_DST, xt_in_buffer(whole_gradient(m, conv, false)));
    xt_step_arg(step, DNNL_ARG_DIFF_WEIGHTS, written);
    if (m->bias_grad)
        xt_step_arg(step, DNNL_ARG_DIFF_BIAS, xt_graph_grad_of(m->graph, conv->bias));
}

/* Written in the kernel's format, then reordered to the parameter's if that differs. */
static void add_weight_gradient(struct description *m)
{
    struct xt_conv_op *conv = m->conv;
    const_dnnl_memory_desc_t md = grad_layout(m);
    struct xt_location grad = xt_graph_grad_of(m->graph, conv->weight);
    if (xt_program_fails(m->program))
        return;
    struct xt_location written = place_gradient(m, md);
    conv->weight_grad = written;
    if (m->backward_weights)
        add_weight_primitive(m, conv->own_weight_grad
                                    ? place_gradient(m, xt_layout_of(m->backward_weights,
                                                                     dnnl_query_diff_weights_md, 0))
                                    : written);
    if (!xt_dnnl.memory_desc_equal(md, m->master_md))
        xt_program_reorder_md(m->program, XT_BACKWARD, md, written, m->master_md, grad,
                              "the weight gradient's format");
}

static void add_data_gradient(struct description *m)
{
    struct xt_location weights =
        working(m, m->backward_data, !by_primitive(m->conv, true, m->slice));
    struct xt_step *step = xt_program_add(m->program, XT_BACKWARD, m->backward_data, what_data);
    set_use(m, step, true);
    add_tensor(m, step, DNNL_ARG_DIFF_DST, xt_op_out(&m->conv->op, 0),
               whole_gradient(m, m->conv, false));
    xt_step_arg(step, DNNL_ARG_WEIGHTS, weights);
    add_tensor(m, step, DNNL_ARG_DIFF_SRC, xt_op_in(&m->conv->op, 0),
               whole_gradient(m, m->conv, true));
}

static void add_product(struct description *m)
{
    const struct xt_tensor *in = xt_op_in(&m->conv->op, 0);
    const struct xt_tensor *out = xt_op_out(&m->conv->op, 0);
    size_t pixels = (size_t)in->n * (size_t)in->h * (size_t)in->w;
    size_t columns[] = {(size_t)in->c, (size_t)out->c};
    dnnl_data_type_t dtype = xt_dtype_dnnl(in->dtype);
    struct xt_operand behind = xt_operand_matrix(xt_in_buffer(whole_gradient(m, m->conv, false)),
                                                 dtype, pixels, columns[1]);
    struct xt_operand before = xt_operand_matrix(xt_in_buffer(whole_gradient(m, m->conv, true)),
                                                 dtype, pixels, columns[0]);
    struct xt_operand weights = xt_operand_transposed(
        xt_operand_matrix(working(m, m->of.forward, false), dtype, columns[0], columns[1]));
    struct xt_step *step =
        xt_program_matmul(m->program, XT_BACKWARD, &behind, &weights, &before, NULL);
    xt_step_name(step, what_data);
    xt_step_is_lower_bound(step);
}

/* The convolution without strides: its input gradient has only the pixels that are read. */
static void add_read_gradient(struct description *m)
{
    const struct xt_conv_op *conv = m->conv;
    struct xt_tensor read = *xt_op_out(&conv->op, 0);
    read.c = xt_op_in(&conv->op, 0)->c;
    struct xt_operand operand = xt_operand_tensor(&read, conv->read_grad);
    dnnl_memory_desc_t md = xt_program_layout(m->program, &operand);
    const dnnl_dims_t strides = {1, 1};
    struct xt_conv_primitives of = m->of;
    of.in = md;
    of.bias = NULL;
    of.strides = strides;
    of.pads_after = conv->pads;
    xt_program_keep(m->program, xt_conv_forward(&of, dnnl_forward_training, of.attr, what_data));
    dnnl_primitive_desc_t pd = xt_conv_backward_data(&of, what_data);
    struct xt_location weights = working(m, pd, false);
    struct xt_step *step = xt_program_add(m->program, XT_BACKWARD, pd, what_data);
    xt_step_arg(step, DNNL_ARG_DIFF_DST, xt_in_buffer(xt_op_out(&conv->op, 0)->grad[0]));
    xt_step_arg(step, DNNL_ARG_WEIGHTS, weights);
    xt_step_arg(step, DNNL_ARG_DIFF_SRC, operand.place);
}

static void use_buffers(struct xt_conv_op *conv, struct xt_graph *graph)
{
    struct xt_tensor *out = xt_op_out(&conv->op, 0);
    xt_graph_use_inputs(&conv->op, graph, 1);
    if (conv->fold.residual)
        out->value = conv->fold.residual->value;
    xt_graph_use_outputs(&conv->op, graph, conv->relu ? 1 : 0);
}

/* For kernels that add in place only in the output's type: a signed residual of an unsigned output
 * is added from a float32 copy, written before its memory becomes the output's. */
static struct xt_location copy_residual(const struct description *m)
{
    const struct xt_tensor *residual = m->conv->fold.residual;
    bool copies = residual && m->graph->backend->adds_own_type &&
                  residual->dtype != xt_op_out(&m->conv->op, 0)->dtype;
    if (!copies)
        return (struct xt_location){0};
    struct xt_location copy = xt_in_buffer(
        xt_graph_temporary(m->graph, residual, xt_tensor_count(residual) * sizeof(float),
                           xt_op_forward_time(&m->conv->op)));
    struct xt_operand from = xt_operand_tensor(residual, residual->value);
    struct xt_operand to = xt_operand_tensor(residual, copy.buffer);
    to.dtype = dnnl_f32;
    xt_program_dequantise(m->program, XT_FORWARD, &from, xt_graph_scale_of(m->graph, residual),
                          &to);
    return copy;
}

/* The same primitives for a slice, run by one thread. */
static struct description make_slice(const struct description *whole,
                                     const struct xt_post_ops *post_ops)
{
    const struct xt_conv_op *conv = whole->conv;
    struct description slice = {.slice = true,
                                .conv = whole->conv,
                                .graph = whole->graph,
                                .program = whole->program,
                                .master_md = whole->master_md,
                                .master = whole->master,
                                .bias_at = whole->bias_at,
                                .scales_at = whole->scales_at,
                                .copies = whole->copies};
    if (!by_primitive(conv, false, true) && !by_primitive(conv, true, true))
        return slice;
    xt_device_make_for_threads(1);
    creation_init(&slice, post_ops);
    make_primitives(&slice);
    xt_device_use_threads(whole->graph->options.device);
    return slice;
}

static void add_slice(struct description *slice, const struct xt_post_ops *post_ops)
{
    const struct xt_conv_op *conv = slice->conv;
    if (slice->of.forward && by_primitive(conv, false, true))
        add_forward(slice, post_ops);
    else if (slice->of.forward)
        xt_program_keep(slice->program, slice->of.forward);
    if (slice->backward_data)
        add_data_gradient(slice);
}

static void describe(struct xt_op *op, struct xt_graph *graph)
{
    struct xt_conv_op *conv = (struct xt_conv_op *)op;
    struct copies copies = {.count = 0};
    struct description m = {
        .conv = conv, .graph = graph, .program = &op->program, .copies = &copies};
    use_buffers(conv, graph);
    struct xt_location copy = copy_residual(&m);
    struct xt_post_ops post_ops = post_ops_of(&m, &copy);
    creation_init(&m, &post_ops);
    make_primitives(&m);
    find_masters(&m);
    bool lower_bound = graph->options.lower_bound;
    struct description slice = make_slice(&m, &post_ops);
    if (by_primitive(conv, false, false) || lower_bound)
        add_forward(&m, &post_ops);
    else
        xt_program_keep(m.program, m.of.forward);
    bool by_program = !op->override || !op->override->backward;
    if (xt_op_learns(op, graph) && conv->relu && by_program)
        add_relu_backward(&m);
    if (grad_layout(&m) && xt_op_learns(op, graph))
        add_weight_gradient(&m);
    if (m.backward_data)
        add_data_gradient(&m);
    if (xt_op_learns(op, graph) && xt_op_in(op, 0)->wants_grad && is_product(&m))
        add_product(&m);
    if (conv->read_grad && !conv->own[1])
        add_read_gradient(&m);
    add_slice(&slice, &post_ops);
}

/* ---- weights computed from the parameters ---- */

/* scale[o] = gamma / sqrt(var + eps) of the folded norm, and own_bias, its bias; without a norm 1
 * and the convolution's bias. */
static void fold_bias(const struct xt_conv_op *conv, struct xt_params *params, float *scale,
                      float *own_bias)
{
    const float *own = conv->bias >= 0 ? xt_params_value(params, &params->items[conv->bias]) : NULL;
    int channels = xt_op_out(&conv->op, 0)->c;
    for (int o = 0; o < channels; o++) {
        scale[o] = 1;
        own_bias[o] = own ? own[o] : 0;
    }
    if (!conv->folded)
        return;
    const struct xt_norm_params *norm = &conv->fold.params;
    bool scaled = norm->scale >= 0;
    const float *gamma = scaled ? xt_params_value(params, &params->items[norm->scale]) : NULL;
    const float *beta = scaled ? xt_params_value(params, &params->items[norm->shift]) : NULL;
    const float *mean = xt_params_value(params, &params->items[norm->mean]);
    const float *var = xt_params_value(params, &params->items[norm->var]);
    for (int o = 0; o < channels; o++) {
        double factor = (gamma ? (double)gamma[o] : 1) / sqrt((double)var[o] + conv->fold.eps);
        double bias = (double)own_bias[o] - (double)mean[o];
        scale[o] = (float)factor;
        own_bias[o] = (float)((beta ? (double)beta[o] : 0) + bias * factor);
    }
}

/* The largest int8 weight. Instruction sets that add two products in 16 bits overflow with more
 * than 7 bits of weight; for a signed source oneDNN prevents that itself, and a back end's own
 * loops add in 32. */
static int weight_most(const struct xt_conv_op *conv, const struct xt_graph *graph)
{
    if (!xt_device_sums_int8_in_32(graph->options.device) && !conv->own_weights)
        return xt_op_in(&conv->op, 0)->dtype == XT_S8 ? XT_INT8_MOST : XT_INT8_OF_7_BITS_MOST;
    return graph->options.int8_of_7_bits ? XT_INT8_OF_7_BITS_MOST : XT_INT8_MOST;
}

/* Quantises an output channel's weights with a scale that maps `largest` to `most`; the source's
 * zero point, `offset`, is folded into the bias. */
static void quantise_weights(float *w, size_t count, float largest, float most, float offset,
                             float *own_bias, float *scale)
{
    /* Adding it leaves no fraction: rintf of the small numbers here, in vectors. */
    const float whole = 0x1.8p23f;
    int64_t sum = 0;
    /* Weights too small for a finite 1 / scale become zeros. */
    float step = largest / most >= FLT_MIN ? largest / most : 1;
    for (size_t i = 0; i < count; i++) {
        w[i] = w[i] / step + whole - whole;
        sum += (int)w[i];
    }
    *scale = step;
    *own_bias += (float)((double)sum * (double)step * (double)offset);
}

/* The parameter in dense O, I, H, W. */
static enum xt_status stage(const struct xt_conv_op *conv, const struct xt_graph *graph,
                            float *weights, struct xt_err *err)
{
    struct xt_params *params = graph->options.params;
    const struct xt_param *weight = &params->items[conv->weight];
    return xt_param_read(weight, graph->options.device, xt_params_value(params, weight), weights,
                         err);
}

enum xt_status xt_conv_weights(const struct xt_conv_op *conv, const struct xt_graph *graph,
                               int most, float *weights, float *bias, float *scales,
                               struct xt_err *err)
{
    size_t channels = (size_t)xt_op_out(&conv->op, 0)->c;
    size_t row = row_of(conv);
    float *scale = NULL;
    enum xt_status status = xt_mem_calloc(&scale, channels, sizeof *scale, "folded weights", err);
    if (!status)
        status = stage(conv, graph, weights, err);
    if (!status) {
        const struct xt_tensor *in = xt_op_in(&conv->op, 0);
        bool finite = true;
        fold_bias(conv, graph->options.params, scale, bias);
#pragma omp parallel for schedule(static) reduction(&& : finite)
        for (size_t o = 0; o < channels; o++) {
            float *own = weights + o * row;
            for (size_t i = 0; i < row; i++)
                own[i] *= scale[o];
            float largest = reads_int8(conv) ? graph->loops->largest(own, row) : 0;
            finite = finite && !isnan(largest);
            if (reads_int8(conv) && !isnan(largest))
                quantise_weights(own, row, largest, (float)most, in->offset * in->scale, &bias[o],
                                 &scales[o]);
        }
        if (!finite)
            status = xt_err_set(err, XT_ERR_DATA,
                                "%s: its weights, with the batch norm's scale, are not finite: "
                                "int8 cannot hold them",
                                conv->op.name);
    }
    free(scale);
    return status;
}

static enum xt_status refresh(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    const struct xt_conv_op *conv = (const struct xt_conv_op *)op;
    if (!has_own_weights(conv))
        return XT_OK;
    return xt_conv_weights(conv, graph, weight_most(conv, graph), graph->staging.host,
                           conv->host_bias.host, conv->host_scales.host, err);
}

static void destroy(struct xt_op *op)
{
    struct xt_conv_op *conv = (struct xt_conv_op *)op;
    xt_device_memory_destroy(&conv->host_bias);
    xt_device_memory_destroy(&conv->host_scales);
}

/* ---- in double precision ---- */

/* Indices of the op's parameters: the weights, the bias; those of the folded norm are the last. */
enum { WEIGHT, BIAS };

struct reference_work {
    struct xt_reference_conv conv;
    double *bias; /* NULL: none */
    double step;  /* int8: the largest of the output channels' weights */
};

/* Folds the norm's scale and shift into weights and bias. */
static void reference_fold(struct xt_reference_op *reference, double *bias)
{
    const struct xt_conv_op *conv = (const struct xt_conv_op *)reference->op;
    double *const *end = &reference->param[reference->op->param_count];
    bool scaled = conv->fold.params.scale >= 0;
    size_t row = row_of(conv);
    for (size_t o = 0; o < (size_t)xt_op_out(reference->op, 0)->c; o++) {
        double factor = (scaled ? end[-4][o] : 1) / sqrt(end[-1][o] + conv->fold.eps);
        bias[o] = (scaled ? end[-3][o] : 0) + (bias[o] - end[-2][o]) * factor;
        for (size_t i = 0; i < row; i++)
            reference->param[WEIGHT][o * row + i] *= factor;
    }
}

/* Quantised weights, as multiples of their scale. Padding is a stored 0, so the input's zero point
 * is folded into the bias. */
static void reference_quantise(struct xt_reference_op *reference, struct reference_work *work)
{
    const struct xt_conv_op *conv = (const struct xt_conv_op *)reference->op;
    const struct xt_tensor *in = xt_op_in(reference->op, 0);
    size_t row = row_of(conv);
    double offset = (double)in->offset * (double)in->scale;
    for (size_t o = 0; o < (size_t)xt_op_out(reference->op, 0)->c; o++) {
        double *weight = reference->param[WEIGHT] + o * row;
        double step = xt_reference_op_largest(weight, row) / weight_most(conv, reference->graph);
        for (size_t i = 0; i < row && step > 0; i++) {
            weight[i] = rint(weight[i] / step) * step;
            work->bias[o] += weight[i] * offset;
        }
        work->step = fmax(work->step, step);
    }
    for (size_t i = 0; i < xt_tensor_count(in); i++)
        reference->in[0][i] -= offset;
}

struct xt_reference_conv xt_conv_reference(const struct xt_conv_op *conv)
{
    const struct xt_tensor *in = xt_op_in(&conv->op, 0);
    const struct xt_tensor *out = xt_op_out(&conv->op, 0);
    return (struct xt_reference_conv){
        .in = {in->n, in->h, in->w, in->c},
        .out = {out->n, out->h, out->w, out->c},
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

/* The weights used in the arithmetic. */
static enum xt_status reference_forward(struct xt_reference_op *reference)
{
    const struct xt_conv_op *conv = (const struct xt_conv_op *)reference->op;
    size_t channels = (size_t)xt_op_out(reference->op, 0)->c;
    struct reference_work *work = (struct reference_work *)(void *)xt_reference_op_take(
        reference, sizeof *work / sizeof(double) + 1);
    double *bias = work && has_bias(conv) ? xt_reference_op_take(reference, channels) : NULL;
    if (!work || (has_bias(conv) && !bias))
        return reference->err->status;
    reference->work = work;
    work->conv = xt_conv_reference(conv);
    work->bias = bias;
    for (size_t o = 0; o < channels && conv->bias >= 0; o++)
        bias[o] = reference->param[BIAS][o];
    if (conv->folded)
        reference_fold(reference, bias);
    if (reads_int8(conv))
        reference_quantise(reference, work);
    else
        xt_reference_op_round(xt_op_in(reference->op, 0)->dtype, reference->param[WEIGHT],
                              weight_count(conv));
    return XT_OK;
}

/* The ReLU's gradient follows the device's output, which has been checked. */
static enum xt_status reference_backward(struct xt_reference_op *reference)
{
    const struct xt_conv_op *conv = (const struct xt_conv_op *)reference->op;
    for (size_t i = 0; i < xt_tensor_count(xt_op_out(reference->op, 0)) && conv->relu; i++)
        reference->out_grad[0][i] = reference->came[0][i] > 0 ? reference->out_grad[0][i] : 0;
    return XT_OK;
}

/* Clamps to an 8-bit type's range. */
static double cut_off(const struct xt_tensor *tensor, double value)
{
    double least = (tensor->dtype == XT_U8 ? 0 : -128) * (double)tensor->scale;
    double most = (tensor->dtype == XT_U8 ? 255 : 127) * (double)tensor->scale;
    return xt_dtype_is_int8(tensor->dtype) ? fmin(fmax(value, least), most) : value;
}

static double element(const struct xt_reference_op *reference, enum xt_part part, int which,
                      size_t i)
{
    const struct xt_conv_op *conv = (const struct xt_conv_op *)reference->op;
    const struct reference_work *work = reference->work;
    const struct xt_tensor *out = xt_op_out(reference->op, 0);
    if (part == XT_PART_INPUT_GRAD)
        return xt_reference_conv_input_grad(&work->conv, reference->out_grad[0],
                                            reference->param[WEIGHT], i);
    if (part == XT_PART_PARAM_GRAD && which == WEIGHT)
        return xt_reference_conv_weight_grad(&work->conv, reference->in[0], reference->out_grad[0],
                                             i);
    if (part == XT_PART_PARAM_GRAD)
        return xt_reference_bias_grad(&work->conv.out, reference->out_grad[0], i);
    double value =
        xt_reference_conv_output(&work->conv, reference->in[0], reference->param[WEIGHT], i);
    value += work->bias ? work->bias[i % (size_t)out->c] : 0;
    value += conv->fold.residual ? reference->in[1][i] : 0;
    if (conv->fold.activation)
        return cut_off(out, xt_activation_value(conv->fold.activation, value));
    return cut_off(out, conv->relu && value < 0 ? 0 : value);
}

/* The channels that a part is summed over, and the convolution whose result the sums are. */
struct summing {
    struct xt_reference_groups groups; /* of the part */
    struct xt_reference_groups of;     /* of the weights, or of the output's gradient */
    const double *from;                /* those */
    struct xt_reference_conv conv;
};

static struct summing summing_of(const struct xt_reference_op *reference, enum xt_part part)
{
    const struct xt_conv_op *conv = (const struct xt_conv_op *)reference->op;
    const struct reference_work *work = reference->work;
    const struct xt_reference_shape *in = &work->conv.in;
    const struct xt_reference_shape *out = &work->conv.out;
    const double *weight = reference->param[WEIGHT];
    size_t groups = (size_t)conv->groups;
    size_t own = (size_t)out->c / groups;
    size_t read = (size_t)in->c / groups;
    size_t in_pixels = xt_reference_count(in) / (size_t)in->c;
    size_t out_pixels = xt_reference_count(out) / (size_t)out->c;
    size_t taps = row_of(conv) / read;
    struct summing s = {
        {out_pixels, groups, own, 1}, {1, groups, own, read * taps}, weight, work->conv};
    if (part == XT_PART_PARAM_GRAD)
        s = (struct summing){s.of, s.groups, reference->out_grad[0], work->conv};
    if (part == XT_PART_INPUT_GRAD)
        s = (struct summing){
            {in_pixels, groups, read, 1}, {(size_t)out->c, 1, read, taps}, weight, work->conv};
    *(part == XT_PART_INPUT_GRAD ? &s.conv.in.c : &s.conv.out.c) = conv->groups;
    return s;
}

static enum xt_status sums(struct xt_reference_op *reference, enum xt_part part, int which,
                           const double *got, struct xt_reference_sums *out)
{
    const struct xt_conv_op *conv = (const struct xt_conv_op *)reference->op;
    bool is_output = part == XT_PART_OUTPUT;
    if ((is_output && (conv->relu || conv->folded || reads_int8(conv))) ||
        (part == XT_PART_PARAM_GRAD && which != WEIGHT))
        return XT_OK;
    const struct summing s = summing_of(reference, part);
    size_t count = s.groups.outer * s.groups.groups * s.groups.inner;
    double *of = xt_reference_op_take(reference, s.of.outer * s.of.groups * s.of.inner);
    out->got = of ? xt_reference_op_take(reference, count) : NULL;
    out->wanted = out->got ? xt_reference_op_take(reference, count) : NULL;
    if (!out->wanted)
        return reference->err->status;
    out->count = count;
    out->terms = (double)s.groups.channels;
    xt_reference_sum_channels(&s.groups, got, out->got);
    xt_reference_sum_channels(&s.of, s.from, of);
#pragma omp parallel for schedule(static)
    for (size_t i = 0; i < count; i++)
        out->wanted[i] = is_output ? xt_reference_conv_output(&s.conv, reference->in[0], of, i)
                         : part == XT_PART_INPUT_GRAD
                             ? xt_reference_conv_input_grad(&s.conv, reference->out_grad[0], of, i)
                             : xt_reference_conv_weight_grad(&s.conv, reference->in[0], of, i);
    const double *bias = ((const struct reference_work *)reference->work)->bias;
    if (!is_output || !bias)
        return XT_OK;
    const struct xt_reference_groups one = {1, s.groups.groups, s.groups.channels, 1};
    xt_reference_sum_channels(&one, bias, of);
    for (size_t i = 0; i < count; i++)
        out->wanted[i] += of[i % s.groups.groups];
    return XT_OK;
}

/* Rectifying may drop it. */
static bool passes_nan(const struct xt_op *op)
{
    const struct xt_conv_op *conv = (const struct xt_conv_op *)op;
    return !conv->relu && !conv->fold.activation && !xt_dtype_is_int8(xt_op_in(op, 0)->dtype) &&
           !xt_dtype_is_int8(xt_op_out(op, 0)->dtype);
}

static double terms(const struct xt_reference_op *reference, enum xt_part part, int which)
{
    const struct xt_conv_op *conv = (const struct xt_conv_op *)reference->op;
    const struct xt_tensor *out = xt_op_out(reference->op, 0);
    (void)which;
    if (part == XT_PART_PARAM_GRAD)
        return (double)out->n * out->h * out->w;
    if (part == XT_PART_OUTPUT)
        return (double)row_of(conv);
    int64_t channels = out->c / conv->groups;
    return (double)(channels * conv->kernel[0] * conv->kernel[1]);
}

/* An int8 output is accurate to half a step. A few weights of thousands may round either way. */
static double int8_error(const struct xt_reference_op *reference, double count)
{
    const struct reference_work *work = reference->work;
    const struct xt_tensor *in = xt_op_in(reference->op, 0);
    const struct xt_tensor *out = xt_op_out(reference->op, 0);
    double turned = 2 + 1e-3 * count;
    /* Without VNNI oneDNN halves the weights of a signed source, which puts each off by up to a
     * step: the largest of many sums is five deviations off. */
    if (in->dtype == XT_S8 && !xt_device_sums_int8_in_32(reference->graph->options.device))
        turned += 2 * sqrt(count);
    double output = xt_dtype_is_int8(out->dtype) ? 0.501 * (double)out->scale : 0;
    return output +
           turned * work->step * xt_reference_op_largest(reference->in[0], xt_tensor_count(in));
}

static struct xt_bound bound(const struct xt_reference_op *reference, enum xt_part part, int which)
{
    const struct xt_conv_op *conv = (const struct xt_conv_op *)reference->op;
    const struct xt_tensor *in = xt_op_in(reference->op, 0);
    const struct xt_tensor *out = xt_op_out(reference->op, 0);
    double count = terms(reference, part, which);
    /* The sum of two readers' gradients is rounded. */
    double sums = out->readers > 1 ? 2 : 0;
    if (part == XT_PART_PARAM_GRAD)
        return (struct xt_bound){.relative = xt_reference_op_relative(out->dtype, sums, count) +
                                             xt_reference_op_relative(XT_F32, 2, count)};
    if (part == XT_PART_INPUT_GRAD)
        return (struct xt_bound){.relative = xt_reference_op_relative(in->dtype, 2 + sums, count)};
    if (reads_int8(conv))
        return (struct xt_bound){.relative = xt_reference_op_relative(XT_F32, 2, 1),
                                 .absolute = int8_error(reference, count)};
    /* Folded weights are rounded after folding, which may round either way. */
    return (struct xt_bound){.relative =
                                 xt_reference_op_relative(out->dtype, conv->folded ? 3 : 2, count)};
}

const struct xt_op_kind xt_kind_conv = {
    .name = "convolution",
    .size = sizeof(struct xt_conv_op),
    .describe = describe,
    .refresh = refresh,
    .what = {what_forward, what_weights},
    .reference = {.forward = reference_forward,
                  .backward = reference_backward,
                  .element = element,
                  .sums = sums,
                  .terms = terms,
                  .bound = bound,
                  .passes_nan = passes_nan,
                  .grads_pass_nan = true},
    .destroy = destroy,
};

/* ---- describing ---- */

static void take_params(struct xt_graph *graph, struct xt_conv_op *conv,
                        const struct xt_conv_params *params)
{
    conv->weight = params->weight;
    conv->bias = params->bias;
    xt_op_take_param(&conv->op, graph, conv->weight);
    if (conv->bias >= 0)
        xt_op_take_param(&conv->op, graph, conv->bias);
}

/* Fixed before the parameters are allocated. */
static void choose_order(const struct xt_graph *graph, const struct xt_conv_op *conv)
{
    struct xt_params *params = graph->options.params;
    if (!params->values && conv->weight >= 0)
        params->items[conv->weight].hwio =
            graph->backend->hwio && conv->groups == 1 && !xt_layout_kernel_is(graph);
}

/* Where the copies that kernels read are written at once, weights lie as their gradient is
 * computed, so that the update needs no reorder. */
static void choose_format(struct xt_graph *graph, struct xt_conv_op *conv)
{
    struct xt_params *params = graph->options.params;
    struct xt_program program;
    struct xt_form form;
    if (xt_graph_fails(graph) || params->values || params->items[conv->weight].md ||
        !xt_op_learns(&conv->op, graph) || !copies_at_once(conv, graph))
        return;
    xt_program_init(&program, graph->options.device, conv->op.name, &graph->err);
    struct description m = {.conv = conv, .graph = graph, .program = &program};
    const struct xt_post_ops post_ops = post_ops_of(&m, &(struct xt_location){0});
    creation_init(&m, &post_ops);
    create_forward(&m);
    create_backward_weights(&m);
    const_dnnl_memory_desc_t grad = grad_layout(&m);
    if (grad && xt_form_of(grad, &form))
        xt_program_check(&program, xt_dnnl.memory_desc_clone(&params->items[conv->weight].md, grad),
                         what_weights);
    xt_program_keep(&program, m.of.forward);
    xt_program_keep(&program, m.backward_weights);
    xt_program_clear(&program);
}

static void add_params(struct xt_graph *graph, struct xt_conv_op *conv,
                       const struct xt_conv_spec *spec)
{
    int in = xt_op_in(&conv->op, 0)->c;
    struct xt_param weight = {
        .role = XT_PARAM_WEIGHT,
        .ndims = 4,
        .dims = {spec->channels, in / conv->groups, spec->kernel_h, spec->kernel_w},
        .file_dims = {spec->out.file_count ? spec->out.file_count : spec->channels,
                      spec->in.file_count ? spec->in.file_count : in / conv->groups, spec->kernel_h,
                      spec->kernel_w},
    };
    /* Maps are read and copied, never written. */
    union {
        const int *in;
        int *out;
    } rows = {.in = spec->out.map}, columns = {.in = spec->in.map};
    weight.rows = rows.out;
    weight.columns = columns.out;
    snprintf(weight.name, sizeof weight.name, "%s.weight", spec->name);
    struct xt_param bias = {.role = XT_PARAM_BIAS,
                            .ndims = 1,
                            .dims = {spec->channels},
                            .file_dims = {weight.file_dims[0]},
                            .rows = rows.out};
    snprintf(bias.name, sizeof bias.name, "%s.bias", spec->name);
    conv->weight = xt_op_param(&conv->op, graph, &weight);
    conv->bias = spec->bias ? xt_op_param(&conv->op, graph, &bias) : -1;
}

static struct xt_conv_op *find_conv(const struct xt_graph *graph, const struct xt_tensor *out)
{
    for (int i = 0; i < graph->op_count; i++)
        if (graph->ops[i]->kind == &xt_kind_conv && xt_op_out(graph->ops[i], 0) == out)
            return (struct xt_conv_op *)graph->ops[i];
    return NULL;
}

static void write_int8(const struct xt_graph *graph, struct xt_conv_op *conv)
{
    struct xt_tensor *out = xt_op_out(&conv->op, 0);
    xt_ranges_quantise(graph->options.int8, out);
    conv->op.dtype = out->dtype;
    conv->op.out_bytes = xt_tensor_bytes(out);
}

/* The sum with a float32 residual, which the kernel adds in place. */
static void write_f32(struct xt_conv_op *conv)
{
    struct xt_tensor *out = xt_op_out(&conv->op, 0);
    out->dtype = conv->op.dtype = XT_F32;
    out->scale = 1;
    conv->op.out_bytes = xt_tensor_bytes(out);
}

bool xt_conv_can_absorb(const struct xt_graph *graph, const struct xt_tensor *out,
                        const struct xt_tensor *residual)
{
    const struct xt_conv_op *conv = find_conv(graph, out);
    return conv && !conv->relu && !conv->folded && out->readers == 0 &&
           xt_op_in(&conv->op, 0) != residual && !(residual && residual->shared) &&
           !graph->options.training;
}

void xt_conv_absorb(struct xt_graph *graph, struct xt_tensor *out, const struct xt_fold *fold)
{
    struct xt_conv_op *conv = find_conv(graph, out);
    struct xt_tensor *residual =
        xt_dtype_is_int8(out->dtype) ? fold->residual : xt_graph_dequantise(graph, fold->residual);
    if (residual && residual->dtype == XT_F32 && xt_dtype_is_int8(out->dtype))
        write_f32(conv);
    if (residual && (xt_tensor_bytes(residual) != xt_tensor_bytes(out) || residual->c != out->c)) {
        xt_graph_refuse(graph, XT_ERR_RUN, "%s: the residual %s has another shape", out->name,
                        residual->name);
        return;
    }
    if (residual && !xt_op_read(&conv->op, graph, residual))
        return;
    if (residual)
        residual->overwritten = true;
    conv->folded = true;
    conv->fold = *fold;
    conv->fold.residual = residual;
    conv->relu = fold->relu;
    out->above_0 = fold->relu || (fold->activation && xt_activation_is_above_0(fold->activation));
    if (fold->activation) {
        conv->activation = *fold->activation;
        conv->fold.activation = &conv->activation;
    }
    xt_norm_take_params(&conv->op, graph, &fold->params);
    if (xt_dtype_is_int8(out->dtype))
        write_int8(graph, conv);
    xt_graph_run_last(graph, &conv->op);
}

static int out_size(const struct xt_conv_op *conv, int in, int axis)
{
    int64_t kernel = (conv->kernel[axis] - 1) * (conv->dilates[axis] + 1) + 1;
    int64_t room = in + conv->pads[axis] + conv->pads_after[axis] - kernel;
    return room < 0 ? 0 : (int)(room / conv->strides[axis]) + 1;
}

bool xt_conv_is_even(const struct xt_conv_op *conv)
{
    for (int i = 0; i < 2; i++)
        if (conv->dilates[i] || conv->pads[i] != conv->pads_after[i])
            return false;
    return true;
}

/* Refuses sizes that the kernels do not support. */
static bool check(struct xt_graph *graph, const struct xt_tensor *in,
                  const struct xt_conv_spec *spec, int groups)
{
    if (groups < 1 || in->c % groups || spec->channels % groups)
        return xt_graph_refuse(graph, XT_ERR_RUN,
                               "%s: %d groups do not divide its %d input and %d output channels",
                               spec->name, groups, in->c, spec->channels);
    if (groups > 1 && (spec->in.map || spec->out.map))
        return xt_graph_refuse(graph, XT_ERR_RUN, "%s: a grouped convolution of a part of a tensor",
                               spec->name);
    if (spec->why_f32 && in->dtype != XT_F32 && !xt_dtype_is_int8(in->dtype))
        return xt_graph_refuse(graph, XT_ERR_RUN,
                               "%s stays float32 (%s), but the tensor %s that it reads is in %s",
                               spec->name, spec->why_f32, in->name, xt_dtype_name(in->dtype));
    return true;
}

bool xt_conv_set(struct xt_conv_op *conv, struct xt_graph *graph, const struct xt_conv_spec *spec,
                 int size[2])
{
    const struct xt_tensor *in = xt_op_in(&conv->op, 0);
    int groups = spec->groups ? spec->groups : 1;
    if (!check(graph, in, spec, groups))
        return false;
    conv->groups = groups;
    conv->kernel[0] = spec->kernel_h;
    conv->kernel[1] = spec->kernel_w;
    conv->strides[0] = spec->stride_h ? spec->stride_h : 1;
    conv->strides[1] = spec->stride_w ? spec->stride_w : 1;
    conv->dilates[0] = spec->dilation_h ? spec->dilation_h - 1 : 0;
    conv->dilates[1] = spec->dilation_w ? spec->dilation_w - 1 : 0;
    conv->pads[0] = spec->pad_h;
    conv->pads[1] = spec->pad_w;
    conv->pads_after[0] = spec->pad_h + spec->more_h;
    conv->pads_after[1] = spec->pad_w + spec->more_w;
    size[0] = out_size(conv, in->h, 0);
    size[1] = out_size(conv, in->w, 1);
    return (size[0] > 0 && size[1] > 0) ||
           xt_graph_refuse(graph, XT_ERR_USAGE,
                           "%s: an input of %dx%d is too small for this network", spec->name, in->h,
                           in->w);
}

struct xt_tensor *xt_graph_conv(struct xt_graph *graph, struct xt_tensor *in,
                                const struct xt_conv_spec *spec)
{
    struct xt_conv_op *conv = xt_graph_add_op(graph, &xt_kind_conv, spec->name);
    int size[2];
    if (!conv || !xt_op_read(&conv->op, graph, in) || !xt_conv_set(conv, graph, spec, size))
        return NULL;
    conv->relu = spec->relu;
    if (spec->params)
        take_params(graph, conv, spec->params);
    else
        add_params(graph, conv, spec);
    choose_order(graph, conv);
    struct xt_tensor *out =
        xt_op_write(&conv->op, graph, spec->name, in->n, size[0], size[1], spec->channels,
                    spec->why_f32 ? XT_F32 : graph->options.dtype);
    if (!out)
        return NULL;
    out->above_0 = spec->relu;
    out->one_reader = !spec->relu; /* two gradients are summed before the ReLU's */
    out->range = ++graph->range_count;
    conv->op.why_f32 = spec->why_f32;
    choose_format(graph, conv);
    if (!spec->why_f32 && reads_int8(conv))
        write_int8(graph, conv);
    conv->op.flops = 2.0 * (double)xt_tensor_count(out) * (double)row_of(conv);
    conv->op.backward_flops = conv->op.frozen ? 0 : (in->wants_grad ? 2 : 1) * conv->op.flops;
    return out;
}
