/* GELU by the error function: ONNX has it as one op from opset 20 on alone. */
#include <math.h>

#include "models/onnx/exporter.h"

void xt_export_gelu(struct xt_exporter *exporter, const struct xt_op *op)
{
    const struct xt_tensor *out = xt_op_out(op, 0);
    enum xt_dtype dtype = xt_export_dtype(out);
    const char *x = xt_export_in(exporter, xt_op_in(op, 0), dtype);
    const char *y = xt_export_with_number(exporter, op, "Mul", x, dtype, (float)(1 / sqrt(2)));
    y = xt_export_node(exporter, op, &(struct xt_onnx_node){.type = "Erf", .inputs = {y}});
    y = xt_export_with_number(exporter, op, "Add", y, dtype, 1);
    y = xt_export_node(exporter, op, &(struct xt_onnx_node){.type = "Mul", .inputs = {x, y}});
    xt_export_out(exporter, out, xt_export_with_number(exporter, op, "Mul", y, dtype, 0.5F), dtype);
}
