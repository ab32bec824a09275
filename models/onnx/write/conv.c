/* Convolution, with the norm folded into its weights, the residual and the ReLU; in int8 with
 * integer weights and their scales. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "models/onnx/write/exporter.h"

/* Its parameters in the type of the arithmetic. */
struct numbers {
    int64_t dims[4];
    float *weights, *bias, *scales;
    bool has_bias;
    bool is_int8;
};

static bool any(const float *numbers, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (numbers[i] != 0)
            return true;
    return false;
}

static enum xt_status make_numbers(const struct xt_exporter *exporter,
                                   const struct xt_conv_op *conv, struct numbers *out,
                                   struct xt_err *err)
{
    const struct xt_tensor *in = xt_op_in(&conv->op, 0);
    *out = (struct numbers){
        .dims = {xt_op_out(&conv->op, 0)->c, in->c / conv->groups, conv->kernel[0],
                 conv->kernel[1]},
        .is_int8 = xt_dtype_is_int8(in->dtype),
    };
    int most = exporter->graph->options.int8_of_7_bits ? XT_INT8_OF_7_BITS_MOST : XT_INT8_MOST;
    size_t channels = (size_t)out->dims[0];
    size_t row = (size_t)(out->dims[1] * out->dims[2] * out->dims[3]);
    enum xt_status status =
        xt_mem_calloc(&out->weights, channels * row, sizeof(float), conv->op.name, err);
    if (!status)
        status = xt_mem_calloc(&out->bias, channels, sizeof(float), conv->op.name, err);
    if (!status)
        status = xt_mem_calloc(&out->scales, channels, sizeof(float), conv->op.name, err);
    if (!status)
        status =
            xt_conv_weights(conv, exporter->graph, most, out->weights, out->bias, out->scales, err);
    out->has_bias = !status && any(out->bias, out->dims[0]);
    return status;
}

static void free_numbers(struct numbers *numbers)
{
    free(numbers->weights);
    free(numbers->bias);
    free(numbers->scales);
}

static const char *dequantised(struct xt_exporter *exporter, const struct xt_op *op,
                               const char *held, const char *scales)
{
    return xt_export_node(exporter, op,
                          &(struct xt_onnx_node){.type = "DequantizeLinear",
                                                 .inputs = {held, scales},
                                                 .attributes = {{"axis", .number = 0}}});
}

static const char *int8_weights(struct xt_exporter *exporter, const struct xt_op *op,
                                const struct numbers *n, const char *scales)
{
    int8_t *held = NULL;
    size_t count = (size_t)(n->dims[0] * n->dims[1] * n->dims[2] * n->dims[3]);
    const char *weights = xt_onnx_constant(
        exporter->onnx, xt_export_name(op->name, ".weight").text,
        &(struct xt_onnx_shape){XT_S8, 4, {n->dims[0], n->dims[1], n->dims[2], n->dims[3]}}, &held);
    for (size_t i = 0; held && i < count; i++)
        held[i] = (int8_t)n->weights[i];
    return dequantised(exporter, op, weights, scales);
}

/* In units of the products' scale, as runtimes need that accumulate integers; in float32 where it
 * exceeds their range. */
static const char *int8_bias(struct xt_exporter *exporter, const struct xt_op *op,
                             const struct numbers *n)
{
    const double most = 1 << 30;
    const double step = (double)xt_op_in(op, 0)->scale;
    const struct xt_export_name name = xt_export_name(op->name, ".bias");
    int32_t *held = NULL;
    float *steps = NULL;
    for (int64_t i = 0; i < n->dims[0]; i++)
        if (!(fabs((double)n->bias[i]) < most * step * (double)n->scales[i]))
            return xt_export_constant(exporter, name.text, XT_F32, 1, n->dims, n->bias);
    const char *bias = xt_onnx_constant(exporter->onnx, name.text,
                                        &(struct xt_onnx_shape){XT_I32, 1, {n->dims[0]}}, &held);
    const char *scales =
        xt_onnx_constant(exporter->onnx, xt_export_name(op->name, ".bias/scale").text,
                         &(struct xt_onnx_shape){XT_F32, 1, {n->dims[0]}}, &steps);
    for (int64_t i = 0; held && steps && i < n->dims[0]; i++) {
        steps[i] = (float)(step * (double)n->scales[i]);
        held[i] = (int32_t)lrint((double)n->bias[i] / (double)steps[i]);
    }
    return dequantised(exporter, op, bias, scales);
}

static void name_numbers(struct xt_exporter *exporter, const struct xt_op *op,
                         const struct numbers *n, enum xt_dtype dtype, struct xt_onnx_node *node)
{
    if (n->is_int8) {
        const char *scales =
            xt_export_constant(exporter, xt_export_name(op->name, ".weight/scale").text, XT_F32, 1,
                               n->dims, n->scales);
        node->inputs[1] = int8_weights(exporter, op, n, scales);
        node->inputs[2] = n->has_bias ? int8_bias(exporter, op, n) : NULL;
        return;
    }
    node->inputs[1] = xt_export_constant(exporter, xt_export_name(op->name, ".weight").text, dtype,
                                         4, n->dims, n->weights);
    if (n->has_bias)
        node->inputs[2] = xt_export_constant(exporter, xt_export_name(op->name, ".bias").text,
                                             dtype, 1, n->dims, n->bias);
}

/* What a node's attributes point to. */
struct sizes {
    int64_t pads[4], dilations[2];
};

/* Of x, without its weights and bias. */
static struct xt_onnx_node node_of(const struct xt_conv_op *conv, const char *x,
                                   struct sizes *sizes)
{
    for (int i = 0; i < 2; i++) {
        sizes->pads[i] = conv->pads[i];
        sizes->pads[2 + i] = conv->pads_after[i];
        sizes->dilations[i] = conv->dilates[i] + 1;
    }
    return (struct xt_onnx_node){
        .type = "Conv",
        .inputs = {x},
        .attributes = {{"kernel_shape", conv->kernel, 2, 0, NULL},
                       {"strides", conv->strides, 2, 0, NULL},
                       {"pads", sizes->pads, 4, 0, NULL},
                       {"dilations", sizes->dilations, 2, 0, NULL},
                       {"group", NULL, 0, conv->groups, NULL}},
    };
}

/* The model computes the weights as the network does, of the parameters. */
void xt_export_conv_by(struct xt_exporter *exporter, const struct xt_op *op)
{
    const struct xt_conv_op *conv = (const struct xt_conv_op *)op;
    const struct xt_tensor *out = xt_op_out(op, 0);
    struct xt_params *params = exporter->graph->options.params;
    enum xt_dtype dtype = xt_export_dtype(out);
    struct sizes sizes;
    struct xt_onnx_node node =
        node_of(conv, xt_export_in(exporter, xt_op_in(op, 0), dtype), &sizes);
    const int64_t dims[] = {out->c, xt_op_in(op, 0)->c / conv->groups, conv->kernel[0],
                            conv->kernel[1]};
    const char *weights = xt_export_in(exporter, xt_op_in(op, 1), dtype);
    weights = xt_export_channels_last(exporter, op, weights);
    node.inputs[1] = xt_export_reshaped(exporter, op, weights, dims, 4);
    if (conv->bias >= 0) {
        const struct xt_param *bias = &params->items[conv->bias];
        const int64_t channels = out->c;
        node.inputs[2] = xt_export_constant(exporter, bias->name, dtype, 1, &channels,
                                            xt_params_value(params, bias));
    }
    xt_export_out(exporter, out, xt_export_node(exporter, op, &node), dtype);
}

void xt_export_conv(struct xt_exporter *exporter, const struct xt_op *op)
{
    const struct xt_conv_op *conv = (const struct xt_conv_op *)op;
    const struct xt_tensor *out = xt_op_out(op, 0);
    const struct xt_tensor *residual = conv->fold.residual;
    enum xt_dtype dtype = xt_export_dtype(out);
    struct numbers numbers;
    struct xt_err err;
    struct sizes sizes;
    struct xt_onnx_node node =
        node_of(conv, xt_export_held(exporter, xt_op_in(op, 0), dtype), &sizes);
    if (make_numbers(exporter, conv, &numbers, &err))
        xt_onnx_refuse(exporter->onnx, err.status, "%s", err.text);
    else
        name_numbers(exporter, op, &numbers, dtype, &node);
    free_numbers(&numbers);
    const char *y = xt_export_node(exporter, op, &node);
    if (residual)
        y = xt_export_node(
            exporter, op,
            &(struct xt_onnx_node){.type = "Add",
                                   .inputs = {y, xt_export_in(exporter, residual, dtype)}});
    if (conv->relu)
        y = xt_export_node(exporter, op, &(struct xt_onnx_node){.type = "Relu", .inputs = {y}});
    if (conv->fold.activation)
        y = xt_export_activation(exporter, op, conv->fold.activation, y, dtype);
    xt_export_out(exporter, out, y, dtype);
}
