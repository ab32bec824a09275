/* Maps of one axis: Gather where each element is one of the input's, Pad by a number, a product
 * with the matrix of means of many, else Resize. */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "models/onnx/write/exporter.h"

static const char *gathered(struct xt_exporter *exporter, const struct xt_axis_map_op *map,
                            const char *x)
{
    const struct xt_sparse_rows *rows = &map->rows[0];
    struct xt_err err = {0};
    int64_t *picked = NULL;
    if (xt_mem_calloc(&picked, (size_t)rows->count, sizeof *picked, map->op.name, &err)) {
        xt_onnx_refuse(exporter->onnx, err.status, "%s", err.text);
        return "";
    }
    for (int j = 0; j < rows->count; j++)
        picked[j] = rows->at[rows->first[j]];
    const char *at = xt_export_axes(exporter, xt_export_name(map->op.name, "/indices").text, picked,
                                    rows->count);
    free(picked);
    return xt_export_node(
        exporter, &map->op,
        &(struct xt_onnx_node){.type = "Gather",
                               .inputs = {x, at},
                               .attributes = {{"axis", .number = xt_export_axis(map->axis)}}});
}

static const char *padded(struct xt_exporter *exporter, const struct xt_axis_map_op *map,
                          const char *x, enum xt_dtype dtype)
{
    int64_t pads[8] = {0};
    pads[xt_export_axis(map->axis)] = map->map.before;
    pads[4 + xt_export_axis(map->axis)] = map->map.behind;
    const char *amounts =
        xt_export_axes(exporter, xt_export_name(map->op.name, "/pads").text, pads, 8);
    const char *fill = xt_export_constant(exporter, xt_export_name(map->op.name, "/fill").text,
                                          dtype, 0, NULL, &map->map.fill);
    return xt_export_node(exporter, &map->op,
                          &(struct xt_onnx_node){.type = "Pad", .inputs = {x, amounts, fill}});
}

/* The axis's scale, by which other programs compute the length in float32 and round it down. */
static float scale_of(const struct xt_axis_map_op *map)
{
    float in = (float)map->rows[1].count;
    float scale = map->map.scale;
    if (scale != 0)
        return scale;
    scale = (float)map->rows[0].count / in;
    while (floorf(in * scale) < (float)map->rows[0].count)
        scale = nextafterf(scale, INFINITY);
    return scale;
}

static const char *resized(struct xt_exporter *exporter, const struct xt_axis_map_op *map,
                           const char *x)
{
    static const int64_t four[] = {4};
    float scales[] = {1, 1, 1, 1};
    scales[xt_export_axis(map->axis)] = scale_of(map);
    const char *by = xt_export_constant(exporter, xt_export_name(map->op.name, "/scales").text,
                                        XT_F32, 1, four, scales);
    return xt_export_node(
        exporter, &map->op,
        &(struct xt_onnx_node){
            .type = "Resize",
            .inputs = {x, "", by},
            .attributes = {
                {"mode", .text = xt_axis_map_kinds[map->map.kind]},
                {"coordinate_transformation_mode", .text = xt_resize_places[map->map.place]},
                {"cubic_coeff_a", .real = &map->map.cubic},
                {"exclude_outside", .number = map->map.excludes_outside}}});
}

/* [out][in] before rows, [in][out] behind columns and channels. */
static const char *coefficients(struct xt_exporter *exporter, const struct xt_axis_map_op *map,
                                enum xt_dtype dtype)
{
    const struct xt_sparse_rows *rows = &map->rows[map->axis == XT_AXIS_H ? 0 : 1];
    size_t columns = (size_t)map->rows[map->axis == XT_AXIS_H ? 1 : 0].count;
    const int64_t dims[] = {rows->count, (int64_t)columns};
    struct xt_err err = {0};
    float *matrix = NULL;
    if (xt_mem_calloc(&matrix, (size_t)rows->count * columns, sizeof *matrix, map->op.name, &err)) {
        xt_onnx_refuse(exporter->onnx, err.status, "%s", err.text);
        return "";
    }
    for (int j = 0; j < rows->count; j++)
        for (int k = rows->first[j]; k < rows->first[j + 1]; k++)
            matrix[(size_t)j * columns + (size_t)rows->at[k]] = rows->weight[k];
    const char *out = xt_export_constant(
        exporter, xt_export_name(map->op.name, "/coefficients").text, dtype, 2, dims, matrix);
    free(matrix);
    return out;
}

static const char *multiplied(struct xt_exporter *exporter, const struct xt_axis_map_op *map,
                              const char *x, enum xt_dtype dtype)
{
    const struct xt_op *op = &map->op;
    const char *by = coefficients(exporter, map, dtype);
    x = map->axis == XT_AXIS_C ? xt_export_channels_last(exporter, op, x) : x;
    x = xt_export_node(exporter, op,
                       &(struct xt_onnx_node){.type = "MatMul",
                                              .inputs = {map->axis == XT_AXIS_H ? by : x,
                                                         map->axis == XT_AXIS_H ? x : by}});
    return map->axis == XT_AXIS_C ? xt_export_channels_first(exporter, op, x) : x;
}

void xt_export_axis_map(struct xt_exporter *exporter, const struct xt_op *op)
{
    const struct xt_axis_map_op *map = (const struct xt_axis_map_op *)op;
    const struct xt_tensor *out = xt_op_out(op, 0);
    enum xt_dtype dtype = xt_export_dtype(out);
    const char *x = xt_export_in(exporter, xt_op_in(op, 0), dtype);
    bool mixes = map->map.kind == XT_MAP_LINEAR || map->map.kind == XT_MAP_CUBIC;
    bool by_matrix = map->map.kind == XT_MAP_MEAN || map->map.antialias; /* Resize: opset 18 */
    x = by_matrix                          ? multiplied(exporter, map, x, dtype)
        : mixes                            ? resized(exporter, map, x)
        : map->map.kind == XT_MAP_CONSTANT ? padded(exporter, map, x, dtype)
                                           : gathered(exporter, map, x);
    xt_export_out(exporter, out, x, dtype);
}
