/* Transposed convolutions: ONNX has the weights and the bias in the same order. */
#include "models/onnx/write/exporter.h"

static const char *param(struct xt_exporter *exporter, int index, enum xt_dtype dtype)
{
    struct xt_params *params = exporter->graph->options.params;
    const struct xt_param *item = &params->items[index];
    int64_t dims[4];
    for (int i = 0; i < item->ndims; i++)
        dims[i] = item->dims[i];
    return xt_export_constant(exporter, item->name, dtype, item->ndims, dims,
                              xt_params_value(params, item));
}

void xt_export_conv_transpose(struct xt_exporter *exporter, const struct xt_op *op)
{
    const struct xt_conv_transpose_op *conv = (const struct xt_conv_transpose_op *)op;
    const struct xt_tensor *in = xt_op_in(op, 0);
    const struct xt_tensor *out = xt_op_out(op, 0);
    enum xt_dtype dtype = xt_export_dtype(out);
    const int64_t pads[] = {conv->pads[0], conv->pads[1], conv->pads_after[0], conv->pads_after[1]};
    const int64_t dilations[] = {conv->dilates[0] + 1, conv->dilates[1] + 1};
    int64_t more[2] = {out->h, out->w};
    for (int i = 0; i < 2; i++)
        more[i] -= ((i ? in->w : in->h) - 1) * conv->strides[i] +
                   (conv->kernel[i] - 1) * dilations[i] + 1 - pads[i] - pads[i + 2];
    struct xt_onnx_node node = {
        .type = "ConvTranspose",
        .inputs = {xt_export_in(exporter, in, dtype), param(exporter, conv->weight, dtype),
                   conv->bias >= 0 ? param(exporter, conv->bias, dtype) : NULL},
        .attributes = {{"kernel_shape", conv->kernel, 2, 0, NULL},
                       {"strides", conv->strides, 2, 0, NULL},
                       {"pads", pads, 4, 0, NULL},
                       {"dilations", dilations, 2, 0, NULL},
                       {"output_padding", more, 2, 0, NULL},
                       {"group", .number = conv->groups}},
    };
    xt_export_out(exporter, out, xt_export_node(exporter, op, &node), dtype);
}
