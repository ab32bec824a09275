/* Tensors that a network's code writes into in parts, x[:, :4] = y: elements of zeros where others
 * are written, plus those in their places. Exporters write such a part as its indices, arithmetic
 * on shapes that is computed here alone: it counts the samples too. */
#include <string.h>

#include "models/onnx/read/ops.h"

/* Of one axis: its indices, or all of them; and which axis of the indices' tensor, counted from the
 * last one, they lie along (-1: a single one). */
struct part {
    const double *at;
    size_t count;
    bool is_whole;
    int along;
};

int xt_read_begin_write(struct xt_read_node *node)
{
    if (xt_read_is(node, "ScatterElements"))
        return 1;
    if (!xt_read_is(node, "ScatterND"))
        return -1;
    const struct xt_read_value *update = xt_read_input(node, 2);
    if (update && xt_read_is(update->producer, "Reshape"))
        node->inputs[2] = xt_read_input(update->producer, 0);
    return 1;
}

/* Computes what the value is computed of, where that is known; each node once. */
static struct xt_read_constant *fold_back(struct xt_reader *reader, struct xt_read_value *value,
                                          int depth)
{
    enum { DEPTH_MAX = 64 };
    struct xt_read_constant *known = value ? xt_read_constant_of(reader, value) : NULL;
    struct xt_read_node *node = value ? value->producer : NULL;
    if (known || !node || node->live || node->tried || depth == DEPTH_MAX)
        return known;
    node->tried = true;
    for (int i = 0; i < node->input_count; i++)
        fold_back(reader, xt_read_input(node, i), depth + 1);
    return !xt_reader_fails(reader) && xt_read_fold(reader, node)
               ? xt_read_constant_of(reader, value)
               : NULL;
}

/* What the value was before it was repeated or its type changed. */
static struct xt_read_value *unrepeated(struct xt_reader *reader, struct xt_read_value *value)
{
    static const char *const ops[] = {"Expand", "Cast", "Identity"};
    for (;;) {
        bool passes = false;
        for (size_t i = 0; value && i < sizeof ops / sizeof *ops; i++)
            passes = passes || xt_read_is(value->producer, ops[i]);
        if (!passes || fold_back(reader, xt_read_input(value->producer, 0), 0))
            return passes ? xt_read_input(value->producer, 0) : value;
        value = xt_read_input(value->producer, 0);
    }
}

/* A vector's place among axes of length 1, counted from the last; -2: it is no vector. */
static int place_of(const int64_t *dims, int ndims)
{
    int place = -1;
    for (int i = 0; i < ndims; i++) {
        if (dims[i] == 1)
            continue;
        if (place >= 0)
            return -2;
        place = ndims - 1 - i;
    }
    return place;
}

/* Every index of an axis, which may be the batch: Range(0, length), or as a column. */
static bool is_range(struct xt_reader *reader, struct xt_read_value *value, int64_t length,
                     struct part *out)
{
    int64_t dims[XT_READ_DIMS_MAX];
    int count = 1;
    dims[0] = -1;
    if (value && xt_read_is(value->producer, "Reshape")) {
        fold_back(reader, xt_read_input(value->producer, 1), 0);
        count = xt_read_ints(reader, value->producer, "shape", 1, dims);
        value = xt_read_input(value->producer, 0);
    }
    if (!value || !xt_read_is(value->producer, "Range") || count < 1)
        return false;
    double limits[3] = {0};
    for (int i = 0; i < 3; i++) {
        struct xt_read_constant *limit = fold_back(reader, xt_read_input(value->producer, i), 0);
        const double *number = limit && limit->count == 1 ? xt_read_numbers(reader, limit) : NULL;
        if (!number)
            return false;
        limits[i] = *number;
    }
    *out = (struct part){.is_whole = true, .along = place_of(dims, count)};
    return limits[0] == 0 && limits[1] == (double)length && limits[2] == 1;
}

static bool read_part(struct xt_reader *reader, struct xt_read_value *value, int64_t length,
                      struct part *out)
{
    value = unrepeated(reader, value);
    struct xt_read_constant *constant = fold_back(reader, value, 0);
    if (!constant)
        return is_range(reader, value, length, out);
    *out = (struct part){.at = xt_read_numbers(reader, constant),
                         .count = constant->count,
                         .along = place_of(constant->dims, constant->ndims)};
    return out->at && out->count && out->along > -2;
}

/* Indices of the first axes side by side: each lies along an axis of its own, in their order. */
static int read_parts(struct xt_reader *reader, struct xt_read_node *node,
                      const struct xt_read_view *view, struct part parts[XT_READ_DIMS_MAX])
{
    struct xt_read_value *indices = xt_read_input(node, 1);
    struct xt_read_constant *constant = fold_back(reader, indices, 0);
    if (constant && constant->ndims == 2 && constant->dims[1] == 1) {
        parts[0] = (struct part){xt_read_numbers(reader, constant), constant->count, false, 0};
        return parts[0].at ? 1 : 0;
    }
    const struct xt_read_node *joined = indices ? indices->producer : NULL;
    bool is_joined = xt_read_is(joined, "Concat");
    int last = XT_READ_DIMS_MAX;
    if (!joined || (!is_joined && !xt_read_is(joined, "Unsqueeze")))
        return 0;
    int count = is_joined ? joined->input_count : 1;
    if (count > view->ndims)
        return 0;
    for (int i = 0; i < count; i++) {
        struct xt_read_value *each = is_joined ? xt_read_input(joined, i) : indices;
        if (!each || !xt_read_is(each->producer, "Unsqueeze") ||
            !read_part(reader, xt_read_input(each->producer, 0), xt_read_dim(view, i), &parts[i]))
            return 0;
        if (parts[i].along >= last)
            return 0;
        last = parts[i].along < 0 ? last : parts[i].along;
    }
    return count;
}

/* The indices counted from the front; false: one is not there, or twice. */
static bool count_from_front(struct xt_reader *reader, const struct xt_read_node *node,
                             const struct part *part, int64_t length, double out[])
{
    bool *has = xt_reader_take(reader, (size_t)length, sizeof *has);
    for (size_t k = 0; has && k < part->count; k++) {
        out[k] = part->at[k] + (part->at[k] < 0 ? (double)length : 0);
        bool fits = out[k] >= 0 && out[k] < (double)length;
        if (!fits || has[(int64_t)out[k]])
            return xt_reader_refuse(reader, node, "writes twice, or outside of the tensor");
        has[(int64_t)out[k]] = true;
    }
    return has != NULL;
}

/* Elements in these places of an axis, one after the other or, by a matrix of ones, elsewhere; the
 * others are zeros. */
static struct xt_read_view *put(struct xt_reader *reader, struct xt_read_node *node,
                                struct xt_read_view *view, int axis, const double at[],
                                size_t count, int64_t length)
{
    bool in_turn = true;
    for (size_t k = 0; k < count; k++)
        in_turn = in_turn && at[k] == at[0] + (double)k;
    if (in_turn) {
        const struct xt_axis_map around = {.kind = XT_MAP_CONSTANT,
                                           .before = (int)at[0],
                                           .behind = (int)(length - (int64_t)count) - (int)at[0]};
        return xt_read_map(reader, node, view, axis, &around);
    }
    if ((size_t)length > XT_READ_NUMBERS_MAX / count)
        return xt_reader_refuse(reader, node, "writes into too many places");
    float *ones = xt_reader_take(reader, (size_t)length * count, sizeof *ones);
    for (size_t k = 0; ones && k < count; k++)
        ones[(size_t)at[k] * count + k] = 1;
    struct xt_read_view *weight = xt_read_matrix(reader, (int)length, (int)count, ones);
    return weight ? xt_read_contract(reader, node, view, axis, 1, weight) : NULL;
}

/* x less its own elements in these places, plus the others there. */
static bool write_parts(struct xt_reader *reader, struct xt_read_node *node,
                        struct xt_read_view *view, struct xt_read_view *update,
                        const struct part parts[], int count)
{
    struct xt_read_view *own = xt_read_copy(reader, view);
    for (int i = 0; i < count && own && update; i++) {
        int64_t length = xt_read_dim(view, i);
        if (parts[i].is_whole)
            continue;
        if (length >= XT_READ_BATCH)
            return xt_reader_refuse(reader, node, "writes into single samples");
        double *at = xt_reader_take(reader, parts[i].count, sizeof *at);
        if (!at || !count_from_front(reader, node, &parts[i], length, at))
            return false;
        own = xt_read_pick(reader, node, own, i, at, parts[i].count);
        own = own ? put(reader, node, own, i, at, parts[i].count, length) : NULL;
        update = put(reader, node, update, i, at, parts[i].count, length);
    }
    if (!own || !update)
        return false;
    view = xt_read_combine(reader, node, view, xt_read_times(reader, own, -1), false);
    return view && xt_read_give(node, xt_read_combine(reader, node, view, update, false));
}

static bool refuse(struct xt_reader *reader, const struct xt_read_node *node)
{
    return xt_reader_refuse(reader, node,
                            "writes into a tensor in a way that is not understood: slices of it, "
                            "x[:, :4] = y, can be written; torch.cat and torch.where make it anew");
}

bool xt_read_scatter(struct xt_reader *reader, struct xt_read_node *node)
{
    struct part parts[XT_READ_DIMS_MAX];
    int64_t dims[XT_READ_DIMS_MAX];
    const struct xt_read_text reduction = xt_read_string(node, "reduction");
    fold_back(reader, xt_read_input(node, 1), 0);
    if (xt_read_fold(reader, node))
        return true;
    struct xt_read_view *view = xt_read_data(reader, node, 0);
    struct xt_read_view *update = view ? xt_read_data(reader, node, 2) : NULL;
    int count = update ? read_parts(reader, node, view, parts) : 0;
    if (!count || (*reduction.text && strcmp(reduction.text, "none") != 0))
        return !xt_reader_fails(reader) && refuse(reader, node);
    for (int i = 0; i < view->ndims; i++)
        dims[i] = i < count && !parts[i].is_whole ? (int64_t)parts[i].count : xt_read_dim(view, i);
    update = xt_read_reshape(reader, node, update, view->ndims, dims);
    return update && write_parts(reader, node, view, update, parts, count);
}

/* One index along an axis, the same everywhere. */
bool xt_read_scatter_elements(struct xt_reader *reader, struct xt_read_node *node)
{
    struct part parts[XT_READ_DIMS_MAX] = {0};
    const struct xt_read_text reduction = xt_read_string(node, "reduction");
    struct xt_read_view *view = xt_read_data(reader, node, 0);
    struct xt_read_view *update = view ? xt_read_data(reader, node, 2) : NULL;
    if (!update)
        return false;
    int axis = xt_read_axis_of(reader, node, xt_read_int(node, "axis", 0), view->ndims);
    struct xt_read_value *index = unrepeated(reader, xt_read_input(node, 1));
    struct xt_read_constant *constant = fold_back(reader, index, 0);
    double number = 0;
    if (axis < 0)
        return false;
    if (!constant || !xt_read_all_equal(reader, constant, &number) ||
        update->ndims != view->ndims || xt_read_dim(update, axis) != 1 ||
        (*reduction.text && strcmp(reduction.text, "none") != 0))
        return refuse(reader, node);
    for (int i = 0; i < view->ndims; i++)
        parts[i].is_whole = i != axis;
    parts[axis] = (struct part){.at = &number, .count = 1};
    return write_parts(reader, node, view, update, parts, view->ndims);
}
