/* Convolution on an XPU: op_conv.c's descriptors as programs. The master weights are plain; each
 * kernel has a working copy of them in its own format. Folded and int8 weights are made on the
 * host, in memory that the device copies them from. */
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "models/graph/ranges.h"
#include "models/graph/xpu_ops.h"

static const char what_forward[] = "the convolution";
static const char what_data[] = "the convolution's data gradient";
static const char what_weights[] = "the convolution's weight gradient";

static size_t weight_count(const struct conv *conv)
{
    return (size_t)(conv->out->c * conv->in->c * conv->kernel[0] * conv->kernel[1]);
}

static enum xt_status plain_weights(const struct conv *conv, dnnl_memory_desc_t *md,
                                    struct xt_err *err)
{
    dnnl_dims_t dims = {conv->out->c, conv->in->c, conv->kernel[0], conv->kernel[1]};
    return xt_dnnl_check(xt_dnnl.memory_desc_create_with_tag(md, 4, dims, dnnl_f32, dnnl_oihw),
                         "the weights", err);
}

/* Takes a descriptor out of the step that op_conv.c made it in. */
static struct xt_xpu_step *take(struct conv *conv, enum xt_xpu_phase phase, struct step *from,
                                const char *what, struct xt_err *err)
{
    dnnl_primitive_desc_t pd = from->pd;
    from->pd = NULL;
    return xt_xpu_add(conv->op.program, phase, pd, what, err);
}

/* A permanent copy of the weights in the format that the primitive wants. */
static struct xt_buffer *add_working(struct conv *conv, struct xt_graph *graph,
                                     dnnl_primitive_desc_t pd, const_dnnl_memory_desc_t plain,
                                     struct xt_xpu_place master, struct xt_err *err)
{
    const_dnnl_memory_desc_t md = xt_dnnl.primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
    struct xt_buffer *buffer = xt_xpu_permanent(graph, conv->op.name, "working weights",
                                                xt_dnnl.memory_desc_get_size(md), err);
    if (!buffer ||
        xt_xpu_reorder_md(conv->op.program, XT_XPU_BEFORE, plain, master, md,
                          xt_xpu_in_buffer(buffer), "the working copy of the weights", err))
        return NULL;
    return buffer;
}

/* Where the kernel's copies come from: the parameters, or what is made of them on the host. */
struct masters {
    struct xt_xpu_place weights;
    struct xt_xpu_place bias;   /* where there is one */
    struct xt_xpu_place scales; /* of int8 weights */
};

static enum xt_status create_own(struct conv *conv, struct xt_graph *graph, struct masters *out,
                                 struct xt_err *err)
{
    size_t channels = (size_t)conv->out->c;
    struct xt_xpu_operand weights =
        xt_xpu_matrix(xt_xpu_in_memory(&conv->host_weights), dnnl_f32, 1, weight_count(conv));
    out->weights = weights.place;
    enum xt_status status = xt_xpu_pin(graph, &weights, "folded weights", &conv->host_weights, err);
    if (!status)
        status = xt_xpu_follow_host(&conv->op, graph, "folded bias", channels, &conv->host_bias,
                                    &out->bias, err);
    if (!status && xt_conv_reads_int8(conv))
        status = xt_xpu_follow_host(&conv->op, graph, "steps of int8 weights", channels,
                                    &conv->host_scales, &out->scales, err);
    return status;
}

static enum xt_status find_masters(struct conv *conv, struct xt_graph *graph, struct masters *out,
                                   struct xt_err *err)
{
    *out = (struct masters){0};
    if (xt_conv_has_own_weights(conv))
        return create_own(conv, graph, out, err);
    out->weights = xt_xpu_value_of(graph, conv->weight);
    if (conv->bias >= 0)
        out->bias = xt_xpu_value_of(graph, conv->bias);
    return XT_OK;
}

static void add_scales(const struct conv *conv, const struct xt_graph *graph,
                       const struct masters *masters, struct xt_xpu_step *step)
{
    xt_xpu_scales(step, DNNL_ARG_SRC, xt_xpu_scale_of(graph, conv->in), 1);
    xt_xpu_scales(step, DNNL_ARG_WEIGHTS, masters->scales, conv->out->c);
    if (xt_dtype_is_int8(conv->out->dtype))
        xt_xpu_scales(step, DNNL_ARG_DST, xt_xpu_scale_of(graph, conv->out), 1);
}

/* The residual as float32 numbers, before its memory becomes the output's. */
static enum xt_status copy_residual(struct conv *conv, struct xt_graph *graph,
                                    struct xt_xpu_place *out, struct xt_err *err)
{
    const struct xt_tensor *residual = conv->fold.residual;
    const struct xt_buffer *buffer =
        xt_xpu_temporary(graph, residual, xt_tensor_count(residual) * sizeof(float),
                         xt_op_forward_time(&conv->op), err);
    if (!buffer)
        return err->status;
    *out = xt_xpu_in_buffer(buffer);
    struct xt_xpu_operand from = xt_xpu_tensor(residual, residual->value);
    struct xt_xpu_operand to = xt_xpu_tensor(residual, buffer);
    to.dtype = dnnl_f32;
    return xt_xpu_dequantise(conv->op.program, XT_XPU_FORWARD, &from,
                             xt_xpu_scale_of(graph, residual), &to, err);
}

static enum xt_status prepare_forward(struct conv *conv, struct xt_graph *graph,
                                      const_dnnl_memory_desc_t plain, struct xt_err *err)
{
    enum { COPY = DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1 };
    struct masters masters;
    struct xt_xpu_place copy = {0};
    bool copies = xt_conv_copies_residual(conv);
    enum xt_status status = find_masters(conv, graph, &masters, err);
    if (!status && copies)
        status = copy_residual(conv, graph, &copy, err);
    if (status)
        return status;
    const struct xt_buffer *weights =
        add_working(conv, graph, conv->forward.pd, plain, masters.weights, err);
    struct xt_xpu_step *step =
        weights ? take(conv, XT_XPU_FORWARD, &conv->forward, what_forward, err) : NULL;
    if (!step)
        return err->status;
    xt_xpu_arg(step, DNNL_ARG_SRC, xt_xpu_in_buffer(conv->in->value));
    xt_xpu_arg(step, DNNL_ARG_WEIGHTS, xt_xpu_in_buffer(weights));
    if (xt_conv_has_bias(conv))
        xt_xpu_arg(step, DNNL_ARG_BIAS, masters.bias);
    xt_xpu_arg(step, DNNL_ARG_DST, xt_xpu_in_buffer(conv->out->value));
    if (copies)
        xt_xpu_arg(step, COPY, copy);
    if (xt_conv_reads_int8(conv))
        add_scales(conv, graph, &masters, step);
    return XT_OK;
}

/* The gradients of the output become one, before the ReLU. */
static enum xt_status prepare_relu_backward(struct conv *conv, struct xt_err *err)
{
    struct xt_xpu_operand y = xt_xpu_tensor(conv->out, conv->out->value);
    struct xt_xpu_operand dy = xt_xpu_tensor(conv->out, conv->out->grad[0]);
    struct xt_xpu_operand more = xt_xpu_tensor(conv->out, conv->out->grad[1]);
    enum xt_status status = XT_OK;
    if (conv->out->readers > 1)
        status = xt_xpu_binary(conv->op.program, XT_XPU_BACKWARD, dnnl_binary_add, &dy, &more, &dy,
                               NULL, err);
    return status ? status : xt_xpu_relu_backward(conv->op.program, &y, &dy, &dy, err);
}

/* The kernel's format of the gradient, then the parameters'. */
static enum xt_status prepare_weight_gradient(struct conv *conv, struct xt_graph *graph,
                                              const_dnnl_memory_desc_t plain, struct xt_err *err)
{
    const_dnnl_memory_desc_t md =
        xt_dnnl.primitive_desc_query_md(conv->backward_weights.pd, dnnl_query_diff_weights_md, 0);
    struct xt_xpu_place arena = xt_xpu_grad_of(graph, conv->weight);
    struct xt_xpu_place weights = arena;
    bool direct = xt_dnnl.memory_desc_equal(md, plain);
    struct xt_buffer *own =
        direct ? NULL
               : xt_xpu_temporary(graph, conv->out, xt_dnnl.memory_desc_get_size(md),
                                  xt_op_backward_time(graph, &conv->op), err);
    if (!direct && !own)
        return err->status;
    if (own)
        weights = xt_xpu_in_buffer(own);
    struct xt_xpu_step *step =
        take(conv, XT_XPU_BACKWARD, &conv->backward_weights, what_weights, err);
    if (!step)
        return err->status;
    xt_xpu_arg(step, DNNL_ARG_SRC, xt_xpu_in_buffer(conv->in->value));
    xt_xpu_arg(step, DNNL_ARG_DIFF_DST, xt_xpu_in_buffer(conv->out->grad[0]));
    xt_xpu_arg(step, DNNL_ARG_DIFF_WEIGHTS, weights);
    if (conv->bias >= 0)
        xt_xpu_arg(step, DNNL_ARG_DIFF_BIAS, xt_xpu_grad_of(graph, conv->bias));
    /* The descriptor lives on in the step. */
    return direct ? XT_OK
                  : xt_xpu_reorder_md(conv->op.program, XT_XPU_BACKWARD, md, weights, plain, arena,
                                      "the weight gradient's format", err);
}

static enum xt_status prepare_data_gradient(struct conv *conv, struct xt_graph *graph,
                                            const_dnnl_memory_desc_t plain, struct xt_err *err)
{
    const struct xt_buffer *weights = add_working(conv, graph, conv->backward_data.pd, plain,
                                                  xt_xpu_value_of(graph, conv->weight), err);
    struct xt_xpu_step *step =
        weights ? take(conv, XT_XPU_BACKWARD, &conv->backward_data, what_data, err) : NULL;
    if (!step)
        return err->status;
    xt_xpu_arg(step, DNNL_ARG_DIFF_DST, xt_xpu_in_buffer(conv->out->grad[0]));
    xt_xpu_arg(step, DNNL_ARG_WEIGHTS, xt_xpu_in_buffer(weights));
    xt_xpu_arg(step, DNNL_ARG_DIFF_SRC, xt_xpu_in_buffer(conv->in->grad[conv->reader]));
    return XT_OK;
}

static enum xt_status prepare(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    struct conv *conv = (struct conv *)op;
    dnnl_memory_desc_t plain = NULL;
    enum xt_status status = xt_xpu_op_begin(op, graph, err);
    if (!status)
        status = xt_conv_describe(conv, graph, err);
    if (!status)
        status = xt_conv_use_buffers(conv, graph, err);
    if (!status)
        status = plain_weights(conv, &plain, err);
    if (!status)
        status = prepare_forward(conv, graph, plain, err);
    bool learns = graph->options.training && !op->frozen;
    if (!status && learns && conv->relu)
        status = prepare_relu_backward(conv, err);
    bool has_data_gradient = conv->backward_data.pd != NULL;
    if (!status && learns)
        status = prepare_weight_gradient(conv, graph, plain, err);
    if (!status && has_data_gradient)
        status = prepare_data_gradient(conv, graph, plain, err);
    if (plain)
        xt_dnnl.memory_desc_destroy(plain);
    return status;
}

/* In float32, as on the CPU; the copy that the kernel reads has its own type. */
static enum xt_status make_weights(struct conv *conv, struct xt_graph *graph, struct xt_err *err)
{
    struct xt_params *params = graph->options.params;
    float *weights = conv->host_weights.host;
    conv->own_bias = conv->host_bias.host;
    conv->weight_scales = conv->host_scales.host;
    memcpy(weights, xt_params_value(params, &params->items[conv->weight]),
           weight_count(conv) * sizeof *weights);
    return xt_conv_make_weights(conv, params, weights, err);
}

static enum xt_status before(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    struct conv *conv = (struct conv *)op;
    enum xt_status status = xt_conv_has_own_weights(conv) ? make_weights(conv, graph, err) : XT_OK;
    return status ? status : xt_xpu_op_before(op, graph, err);
}

/* What came out, for int8's ranges. */
static enum xt_status record(const struct conv *conv, struct xt_graph *graph, struct xt_err *err)
{
    const struct xt_tensor *out = conv->out;
    size_t count = xt_tensor_count(out);
    float *values = NULL;
    enum xt_status status = xt_mem_calloc(&values, count, sizeof *values, out->name, err);
    if (!status)
        status = xt_graph_read_back(graph, out->value, XT_F32, values, count, err);
    if (!status)
        status = xt_recording_see(graph->recording, graph, out, values, !conv->relu, err);
    free(values);
    return status;
}

static enum xt_status forward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    const struct conv *conv = (const struct conv *)op;
    enum xt_status status = xt_xpu_op_forward(op, graph, err);
    bool seen = graph->recording && conv->out->dtype == XT_F32;
    return status || !seen ? status : record(conv, graph, err);
}

static const char *implementation(const struct xt_op *op, bool is_backward)
{
    return xt_xpu_program_implementation(op->program,
                                         is_backward ? XT_XPU_BACKWARD : XT_XPU_FORWARD,
                                         is_backward ? what_weights : what_forward);
}

static void destroy(struct xt_op *op)
{
    struct conv *conv = (struct conv *)op;
    struct step *left[] = {&conv->forward, &conv->backward_data, &conv->backward_weights};
    for (int i = 0; i < 3; i++)
        if (left[i]->pd)
            xt_dnnl.primitive_desc_destroy(left[i]->pd);
    xt_device_memory_destroy(&conv->host_weights);
    xt_device_memory_destroy(&conv->host_bias);
    xt_device_memory_destroy(&conv->host_scales);
}

const struct xt_op_class xt_xpu_conv = {
    .kind = "convolution",
    .prepare = prepare,
    .forward = forward,
    .backward = xt_xpu_op_backward,
    .refresh = before,
    .implementation = implementation,
    .destroy = destroy,
};
