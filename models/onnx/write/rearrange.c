/* Slices, channel shuffles, transpositions, reshapes and casts. */
#include <stdio.h>

#include "models/onnx/write/exporter.h"

static const char *input_of(struct xt_exporter *exporter, const struct xt_op *op)
{
    return xt_export_in(exporter, xt_op_in(op, 0), xt_export_dtype(xt_op_out(op, 0)));
}

/* An integer as an input of a node. */
static const char *number(struct xt_exporter *exporter, const struct xt_op *op, const char *what,
                          int64_t value)
{
    char name[96];
    snprintf(name, sizeof name, "%s/%s", op->name, what);
    return xt_export_axes(exporter, name, &value, 1);
}

void xt_export_slice(struct xt_exporter *exporter, const struct xt_op *op)
{
    const struct xt_rearrange_op *slice = (const struct xt_rearrange_op *)op;
    const struct xt_tensor *out = xt_op_out(op, 0);
    const int counts[XT_AXES] = {out->h, out->w, out->c};
    int64_t end = slice->start + (int64_t)(counts[slice->axis] - 1) * slice->step + 1;
    struct xt_onnx_node node = {
        .type = "Slice",
        .inputs = {input_of(exporter, op), number(exporter, op, "start", slice->start),
                   number(exporter, op, "end", end),
                   number(exporter, op, "axis", xt_export_axis(slice->axis)),
                   number(exporter, op, "step", slice->step)}};
    xt_export_moved(exporter, op, xt_export_node(exporter, op, &node));
}

void xt_export_shuffle(struct xt_exporter *exporter, const struct xt_op *op)
{
    const struct xt_tensor *t = xt_op_out(op, 0);
    int groups = ((const struct xt_rearrange_op *)op)->groups;
    const int64_t split[] = {0, groups, t->c / groups, t->h, t->w};
    const int64_t whole[] = {0, t->c, t->h, t->w};
    const char *x = xt_export_reshaped(exporter, op, input_of(exporter, op), split, 5);
    x = xt_export_transposed(exporter, op, x, (const int64_t[]){0, 2, 1, 3, 4}, 5);
    xt_export_moved(exporter, op, xt_export_reshaped(exporter, op, x, whole, 4));
}

void xt_export_transpose(struct xt_exporter *exporter, const struct xt_op *op)
{
    const struct xt_rearrange_op *transpose = (const struct xt_rearrange_op *)op;
    int64_t from[4] = {0};
    for (int i = 0; i < XT_AXES; i++)
        from[xt_export_axis((enum xt_axis)i)] = xt_export_axis(transpose->from[i]);
    xt_export_moved(exporter, op,
                    xt_export_transposed(exporter, op, input_of(exporter, op), from, 4));
}

/* In NHWC order of the elements. */
void xt_export_reshape(struct xt_exporter *exporter, const struct xt_op *op)
{
    const struct xt_tensor *out = xt_op_out(op, 0);
    const char *x = xt_export_channels_last(exporter, op, input_of(exporter, op));
    x = xt_export_reshaped(exporter, op, x, (const int64_t[]){0, out->h, out->w, out->c}, 4);
    xt_export_moved(exporter, op, xt_export_channels_first(exporter, op, x));
}

void xt_export_cast(struct xt_exporter *exporter, const struct xt_op *op)
{
    xt_export_moved(exporter, op, input_of(exporter, op));
}
