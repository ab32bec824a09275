/* Maps of one axis: Gather where each element is one of the input's, Pad by a number, else Resize.
 */
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

void xt_export_axis_map(struct xt_exporter *exporter, const struct xt_op *op)
{
    const struct xt_axis_map_op *map = (const struct xt_axis_map_op *)op;
    const struct xt_tensor *out = xt_op_out(op, 0);
    enum xt_dtype dtype = xt_export_dtype(out);
    const char *x = xt_export_in(exporter, xt_op_in(op, 0), dtype);
    bool mixes = map->map.kind == XT_MAP_LINEAR || map->map.kind == XT_MAP_CUBIC;
    x = mixes                              ? resized(exporter, map, x)
        : map->map.kind == XT_MAP_CONSTANT ? padded(exporter, map, x, dtype)
                                           : gathered(exporter, map, x);
    xt_export_out(exporter, out, x, dtype);
}
