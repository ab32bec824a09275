/* Parameters and constants as tensors, and concatenations, in which they are broadcast over the
 * samples. */
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "models/onnx/write/exporter.h"

/* Numbers [h][w][c] as [c][h][w]. */
static void write_numbers(struct xt_exporter *exporter, const struct xt_op *op, const float *from)
{
    const struct xt_tensor *out = xt_op_out(op, 0);
    struct xt_err err = {0};
    float *numbers = NULL;
    if (xt_mem_aligned(&numbers, xt_tensor_count(out), sizeof *numbers, op->name, &err)) {
        xt_onnx_refuse(exporter->onnx, err.status, "%s", err.text);
        return;
    }
    for (int y = 0; y < out->h; y++)
        for (int x = 0; x < out->w; x++)
            for (int k = 0; k < out->c; k++)
                numbers[(k * out->h + y) * out->w + x] = from[(y * out->w + x) * out->c + k];
    enum xt_dtype dtype = xt_export_dtype(out);
    const int64_t dims[] = {1, out->c, out->h, out->w};
    xt_export_out(exporter, out, xt_export_constant(exporter, op->name, dtype, 4, dims, numbers),
                  dtype);
    free(numbers);
}

void xt_export_parameter(struct xt_exporter *exporter, const struct xt_op *op)
{
    struct xt_params *params = exporter->graph->options.params;
    write_numbers(exporter, op, xt_params_value(params, &params->items[op->params[0]]));
}

void xt_export_numbers(struct xt_exporter *exporter, const struct xt_op *op)
{
    write_numbers(exporter, op, ((const struct xt_constant_op *)op)->numbers);
}

/* Whether the tensor is the same for all samples, however many the graph was described for: a
 * parameter, a constant, or computed from these alone. */
static bool is_of_one_sample(const struct xt_exporter *exporter, const struct xt_tensor *tensor)
{
    const struct xt_op *from = xt_graph_writer(exporter->graph, tensor);
    if (!from || from->kind == &xt_kind_input)
        return false;
    for (int i = 0; i < from->input_count; i++)
        if (!is_of_one_sample(exporter, xt_op_in(from, i)))
            return false;
    return true;
}

/* [1][c][h][w] as [n][c][h][w], with n of the value `like`. */
static const char *expand(struct xt_exporter *exporter, const struct xt_op *op, const char *value,
                          const char *like)
{
    const char *shape =
        xt_export_node(exporter, op, &(struct xt_onnx_node){.type = "Shape", .inputs = {like}});
    const char *first =
        xt_export_axes(exporter, xt_export_name(op->name, "/first").text, (const int64_t[]){0}, 1);
    const char *n = xt_export_node(
        exporter, op, &(struct xt_onnx_node){.type = "Gather", .inputs = {shape, first}});
    const char *ones = xt_export_axes(exporter, xt_export_name(op->name, "/ones").text,
                                      (const int64_t[]){1, 1, 1}, 3);
    const char *wanted = xt_export_node(
        exporter, op,
        &(struct xt_onnx_node){
            .type = "Concat", .inputs = {n, ones}, .attributes = {{"axis", .number = 0}}});
    return xt_export_node(exporter, op,
                          &(struct xt_onnx_node){.type = "Expand", .inputs = {value, wanted}});
}

void xt_export_concat(struct xt_exporter *exporter, const struct xt_op *op)
{
    const struct xt_tensor *out = xt_op_out(op, 0);
    enum xt_dtype dtype = xt_export_dtype(out);
    struct xt_onnx_node node = {
        .type = "Concat",
        .attributes = {
            {"axis", .number = xt_export_axis(((const struct xt_concat_op *)op)->axis)}}};
    const char *like = NULL;
    for (int i = 0; i < op->input_count; i++) {
        node.inputs[i] = xt_export_in(exporter, xt_op_in(op, i), dtype);
        like = is_of_one_sample(exporter, xt_op_in(op, i)) ? like : node.inputs[i];
    }
    for (int i = 0; i < op->input_count && like; i++)
        if (is_of_one_sample(exporter, xt_op_in(op, i)))
            node.inputs[i] = expand(exporter, op, node.inputs[i], like);
    xt_export_out(exporter, out, xt_export_node(exporter, op, &node), dtype);
}
