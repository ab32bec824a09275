/* The input: normalised float32 numbers, or bytes that the model normalises. */

#include "models/onnx/write/exporter.h"

/* (v - mean) * scale of bytes [n][h][w][c]. */
static const char *normalised(struct xt_exporter *exporter, const struct xt_op *op,
                              const struct xt_tensor *out)
{
    static const int64_t to_channels_first[] = {0, 3, 1, 2};
    const int64_t channels[] = {1, out->c, 1, 1};
    const struct xt_normalise *by = &((const struct xt_input_op *)op)->normalise;
    xt_onnx_input(exporter->onnx, "images",
                  &(struct xt_onnx_shape){XT_U8, 4, {exporter->batch, out->h, out->w, out->c}});
    const char *x = xt_export_node(
        exporter, op,
        &(struct xt_onnx_node){.type = "Transpose",
                               .inputs = {"images"},
                               .attributes = {{"perm", to_channels_first, 4, 0, NULL}}});
    x = xt_export_node(exporter, op,
                       &(struct xt_onnx_node){.type = "Cast",
                                              .inputs = {x},
                                              .attributes = {{"to", .number = 1 /* float32 */}}});
    const char *mean = xt_export_constant(exporter, "input/mean", XT_F32, 4, channels, by->mean);
    x = xt_export_node(exporter, op, &(struct xt_onnx_node){.type = "Sub", .inputs = {x, mean}});
    const char *scale =
        xt_export_constant(exporter, "input/factor", XT_F32, 4, channels, by->scale);
    return xt_export_node(exporter, op,
                          &(struct xt_onnx_node){.type = "Mul", .inputs = {x, scale}});
}

void xt_export_input(struct xt_exporter *exporter, const struct xt_op *op)
{
    const struct xt_tensor *out = xt_op_out(op, 0);
    const char *x = "input";
    if (exporter->with_preprocess)
        x = normalised(exporter, op, out);
    else
        xt_onnx_input(
            exporter->onnx, "input",
            &(struct xt_onnx_shape){XT_F32, 4, {exporter->batch, out->c, out->h, out->w}});
    xt_export_out(exporter, out, x, XT_F32);
}
