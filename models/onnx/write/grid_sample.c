/* Samples at a grid's points: ONNX has them from opset 16 on. In float32, since fp16 would move the
 * points. */
#include "models/onnx/write/exporter.h"

void xt_export_grid_sample(struct xt_exporter *exporter, const struct xt_op *op)
{
    const struct xt_grid_sample_op *sample = (const struct xt_grid_sample_op *)op;
    const char *image = xt_export_in(exporter, xt_op_in(op, 0), XT_F32);
    const char *grid = xt_export_in(exporter, xt_op_in(op, 1), XT_F32);
    const struct xt_onnx_node node = {
        .type = "GridSample",
        .inputs = {image, xt_export_channels_last(exporter, op, grid)},
        .attributes = {{"mode", .text = "bilinear"},
                       {"padding_mode", .text = sample->spec.border ? "border" : "zeros"},
                       {"align_corners", .number = sample->spec.align_corners}}};
    xt_onnx_want(exporter->onnx, (struct xt_onnx_version){.opset = 16, .ir = 8});
    xt_export_out(exporter, xt_op_out(op, 0), xt_export_node(exporter, op, &node), XT_F32);
}
