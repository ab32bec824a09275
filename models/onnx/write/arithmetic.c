/* Sums and products of tensors, matrix products, softmax, layer norm. */

#include "models/onnx/write/exporter.h"

static const char *two(struct xt_exporter *exporter, const struct xt_op *op, const char *type,
                       const char *a, const char *b)
{
    return xt_export_node(exporter, op, &(struct xt_onnx_node){.type = type, .inputs = {a, b}});
}

/* ONNX broadcasts axes of length 1 as we do. */
void xt_export_binary(struct xt_exporter *exporter, const struct xt_op *op)
{
    const struct xt_tensor *out = xt_op_out(op, 0);
    enum xt_dtype dtype = xt_export_dtype(out);
    const char *a = xt_export_in(exporter, xt_op_in(op, 0), dtype);
    const char *b = xt_export_in(exporter, xt_op_in(op, 1), dtype);
    const char *type = op->kind == &xt_kind_mul ? "Mul" : "Add";
    xt_export_out(exporter, out, two(exporter, op, type, a, b), dtype);
}

void xt_export_matmul(struct xt_exporter *exporter, const struct xt_op *op)
{
    const struct xt_matmul_op *matmul = (const struct xt_matmul_op *)op;
    const struct xt_tensor *out = xt_op_out(op, 0);
    enum xt_dtype dtype = xt_export_dtype(out);
    const char *a = xt_export_in(exporter, xt_op_in(op, 0), dtype);
    const char *b = xt_export_in(exporter, xt_op_in(op, 1), dtype);
    a = xt_export_channels_last(exporter, op, a);
    b = matmul->transpose ? xt_export_transposed(exporter, op, b, (const int64_t[]){0, 2, 1, 3}, 4)
                          : xt_export_channels_last(exporter, op, b);
    const char *y = two(exporter, op, "MatMul", a, b);
    if (matmul->scale != 1)
        y = xt_export_with_number(exporter, op, "Mul", y, dtype, matmul->scale);
    xt_export_out(exporter, out, xt_export_channels_first(exporter, op, y), dtype);
}

void xt_export_softmax(struct xt_exporter *exporter, const struct xt_op *op)
{
    const struct xt_tensor *out = xt_op_out(op, 0);
    enum xt_dtype dtype = xt_export_dtype(out);
    const char *x = xt_export_in(exporter, xt_op_in(op, 0), dtype);
    x = xt_export_node(exporter, op,
                       &(struct xt_onnx_node){.type = "Softmax",
                                              .inputs = {x},
                                              .attributes = {{"axis", .number = 1}}});
    xt_export_out(exporter, out, x, dtype);
}

static const char *mean(struct xt_exporter *exporter, const struct xt_op *op, const char *x)
{
    static const int64_t channels[] = {1};
    return xt_export_node(exporter, op,
                          &(struct xt_onnx_node){.type = "ReduceMean",
                                                 .inputs = {x},
                                                 .attributes = {{"axes", channels, 1, 0, NULL}}});
}

void xt_export_channel_mean(struct xt_exporter *exporter, const struct xt_op *op)
{
    const struct xt_tensor *out = xt_op_out(op, 0);
    enum xt_dtype dtype = xt_export_dtype(out);
    const char *x = xt_export_in(exporter, xt_op_in(op, 0), dtype);
    xt_export_out(exporter, out, mean(exporter, op, x), dtype);
}

static const char *param(struct xt_exporter *exporter, const struct xt_op *op, int which)
{
    struct xt_params *params = exporter->graph->options.params;
    const struct xt_param *item = &params->items[op->params[which]];
    const int64_t dims[] = {1, item->dims[0], 1, 1};
    return xt_export_constant(exporter, item->name, XT_F32, 4, dims, xt_params_value(params, item));
}

/* ONNX has it as one op from opset 17 on. In float32, since squares overflow fp16. */
void xt_export_layer_norm(struct xt_exporter *exporter, const struct xt_op *op)
{
    const struct xt_layer_norm_op *norm = (const struct xt_layer_norm_op *)op;
    const struct xt_tensor *out = xt_op_out(op, 0);
    const char *x = xt_export_in(exporter, xt_op_in(op, 0), XT_F32);
    const char *z = two(exporter, op, "Sub", x, mean(exporter, op, x));
    const char *square = mean(exporter, op, two(exporter, op, "Mul", z, z));
    square = xt_export_with_number(exporter, op, "Add", square, XT_F32, norm->eps);
    const char *deviation =
        xt_export_node(exporter, op, &(struct xt_onnx_node){.type = "Sqrt", .inputs = {square}});
    z = two(exporter, op, "Div", z, deviation);
    if (op->param_count) {
        z = two(exporter, op, "Mul", z, param(exporter, op, 0));
        z = two(exporter, op, "Add", z, param(exporter, op, 1));
    }
    xt_export_out(exporter, out, z, XT_F32);
}
