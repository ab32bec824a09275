/* Batch normalisation that is not folded into a convolution, with the residual, the ReLU and the
 * pools. */

#include <stdlib.h>

#include "base/mem.h"
#include "models/onnx/write/exporter.h"

/* A channel vector of the norm. */
static const char *vector(struct xt_exporter *exporter, int param, enum xt_dtype dtype)
{
    struct xt_params *params = exporter->graph->options.params;
    const struct xt_param *item = &params->items[param];
    return xt_export_constant(exporter, item->name, dtype, 1, (const int64_t[]){item->dims[0]},
                              xt_params_value(params, item));
}

/* What stands for a scale or shift that the norm does not have. */
static const char *filled(struct xt_exporter *exporter, const struct xt_op *op, const char *name,
                          float number, enum xt_dtype dtype)
{
    int64_t channels = xt_op_in(op, 0)->c;
    struct xt_err err = {0};
    float *numbers = NULL;
    if (xt_mem_calloc(&numbers, (size_t)channels, sizeof *numbers, op->name, &err)) {
        xt_onnx_refuse(exporter->onnx, err.status, "%s", err.text);
        return "";
    }
    for (int64_t i = 0; i < channels; i++)
        numbers[i] = number;
    const char *out = xt_export_constant(exporter, xt_export_name(op->name, name).text, dtype, 1,
                                         &channels, numbers);
    free(numbers);
    return out;
}

void xt_export_norm(struct xt_exporter *exporter, const struct xt_op *op)
{
    const struct xt_norm_op *norm = (const struct xt_norm_op *)op;
    const struct xt_tensor *in = xt_op_in(op, 0);
    enum xt_dtype dtype = xt_export_dtype(in);
    const float eps = (float)norm->spec.eps;
    struct xt_onnx_node node = {.type = "BatchNormalization",
                                .attributes = {{"epsilon", .real = &eps}}};
    node.inputs[0] = xt_export_in(exporter, in, dtype);
    bool scaled = norm->param.scale >= 0;
    node.inputs[1] = scaled ? vector(exporter, norm->param.scale, dtype)
                            : filled(exporter, op, "/scale", 1, dtype);
    node.inputs[2] = scaled ? vector(exporter, norm->param.shift, dtype)
                            : filled(exporter, op, "/shift", 0, dtype);
    node.inputs[3] = vector(exporter, norm->param.mean, dtype);
    node.inputs[4] = vector(exporter, norm->param.var, dtype);
    const char *y = xt_export_node(exporter, op, &node);
    if (norm->spec.residual)
        y = xt_export_node(
            exporter, op,
            &(struct xt_onnx_node){
                .type = "Add", .inputs = {y, xt_export_in(exporter, norm->spec.residual, dtype)}});
    if (norm->spec.relu)
        y = xt_export_node(exporter, op, &(struct xt_onnx_node){.type = "Relu", .inputs = {y}});
    if (norm->spec.activation)
        y = xt_export_activation(exporter, op, norm->spec.activation, y, dtype);
    const struct xt_tensor *full = xt_op_out(op, XT_NORM_FULL);
    const struct xt_tensor *max = xt_op_out(op, XT_NORM_MAX);
    const struct xt_tensor *average = xt_op_out(op, XT_NORM_AVERAGE);
    if (full)
        xt_export_out(exporter, full, y, dtype);
    if (max)
        xt_export_out(exporter, max, xt_export_pool(exporter, op, y, &norm->spec.max, false),
                      dtype);
    if (average)
        xt_export_out(exporter, average, xt_export_pool(exporter, op, y, &norm->spec.average, true),
                      dtype);
}
