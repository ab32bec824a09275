/* What becomes maps of one axis at a time (engine/net/axis_map.h): images that are resized, padded
 * or pooled to a size, axes that are reversed, elements picked by their indices. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "models/onnx/read/ops.h"

/* ---- one axis ---- */

/* Whether the axis lies in a home that no other one is in. */
static bool is_alone(const struct xt_read_view *view, const int homes[], int axis)
{
    bool alone = homes[axis] < XT_AXES;
    for (int i = 0; i < view->ndims; i++)
        alone = alone && (i == axis || homes[i] != homes[axis]);
    return alone;
}

/* Where an axis of length 1 would lie in an image. */
static int free_home(const struct xt_read_view *view, int axis)
{
    int image[XT_READ_DIMS_MAX] = {0};
    return xt_read_image_homes(view, image) ? image[axis] : XT_READ_NONE;
}

static bool changes(const struct xt_axis_map *map, int in)
{
    bool changes = xt_axis_map_length(map, in) != in;
    for (int j = 0; j < in && !changes; j++) {
        struct xt_axis_map_row row = xt_axis_map_row(map, in, in, j);
        changes = row.count == 0;
        for (int k = 0; k < row.count; k++)
            changes = changes || row.weight[k] != (row.at[k] == j);
    }
    return changes;
}

struct xt_read_view *xt_read_map(struct xt_reader *reader, const struct xt_read_node *node,
                                 struct xt_read_view *view, int axis, const struct xt_axis_map *map)
{
    struct xt_read_view *in = xt_read_copy(reader, view);
    int homes[XT_READ_DIMS_MAX] = {0};
    int64_t dim = xt_read_dim(view, axis);
    if (!in)
        return NULL;
    if (dim >= XT_READ_BATCH)
        return xt_reader_refuse(reader, node, "resizes, pads or picks from the batch");
    const char *why = xt_axis_map_refusal(map, (int)dim);
    if (why)
        return xt_reader_refuse(reader, node, "cannot be: an axis of %lld %s", (long long)dim, why);
    if (!changes(map, (int)dim))
        return in;
    bool known = xt_read_homes(in, homes);
    if (known && homes[axis] == XT_READ_NONE)
        homes[axis] = free_home(in, axis);
    if (!known || !is_alone(in, homes, axis))
        for (int i = 0; i < in->ndims; i++)
            homes[i] = i < axis ? XT_AXIS_H : i == axis ? XT_AXIS_W : XT_AXIS_C;
    const struct xt_value *value = xt_read_lay_out(reader, node, in, homes);
    const struct xt_net_axis_map spec = {.axis = (enum xt_axis)homes[axis], .map = *map};
    if (!value)
        return NULL;
    return xt_read_after(reader, node, in, NULL, homes,
                         xt_net_axis_map(reader->net, in->value, &spec));
}

struct xt_read_view *xt_read_reverse(struct xt_reader *reader, const struct xt_read_node *node,
                                     struct xt_read_view *view, int axis)
{
    const struct xt_axis_map map = {.kind = XT_MAP_REVERSE};
    return view ? xt_read_map(reader, node, view, axis, &map) : NULL;
}

struct xt_read_view *xt_read_pick(struct xt_reader *reader, const struct xt_read_node *node,
                                  struct xt_read_view *view, int axis, const double *at,
                                  size_t count)
{
    int *picked = xt_reader_take(reader, count, sizeof *picked);
    double dim = (double)xt_read_dim(view, axis);
    for (size_t i = 0; picked && i < count; i++) {
        double own = at[i] < 0 ? at[i] + dim : at[i];
        picked[i] = own >= 0 && own < dim ? (int)own : -1;
    }
    const struct xt_axis_map map = {
        .kind = XT_MAP_PICK, .picked = picked, .picked_count = (int)count};
    return picked ? xt_read_map(reader, node, view, axis, &map) : NULL;
}

/* ---- padding ---- */

/* Whether no window of a pool would lie in padding alone, with the image's beside its own. */
static bool has_room(struct xt_reader *reader, struct xt_read_node *node,
                     const struct xt_read_view *view)
{
    int64_t kernel[XT_READ_DIMS_MAX];
    int64_t own[XT_READ_DIMS_MAX] = {0};
    if (xt_read_ints(reader, node, "kernel_shape", -1, kernel) != 2)
        return false;
    xt_read_ints(reader, node, "pads", -1, own);
    for (int i = 0; i < 4; i++)
        if (view->pad[i] && view->pad[i] + own[i] >= kernel[i % 2])
            return false;
    return true;
}

/* Whether the node takes an image's padding into its own. */
static bool takes_padding(struct xt_reader *reader, struct xt_read_node *node,
                          const struct xt_read_view *view)
{
    return (xt_read_is(node, "Conv") && !view->pads_least) ||
           (xt_read_is(node, view->pads_least ? "MaxPool" : "AveragePool") &&
            has_room(reader, node, view));
}

struct xt_read_view *xt_read_padded(struct xt_reader *reader, struct xt_read_node *node,
                                    struct xt_read_view *view)
{
    struct xt_read_view *out = view;
    if (takes_padding(reader, node, view))
        return view;
    for (int i = 1; i >= 0 && out; i--) {
        const struct xt_axis_map map = {.kind = XT_MAP_CONSTANT,
                                        .before = (int)out->pad[i],
                                        .behind = (int)out->pad[i + 2],
                                        .fill = out->pads_least ? -INFINITY : 0};
        struct xt_read_view *in = map.before || map.behind ? xt_read_copy(reader, out) : NULL;
        if (!in)
            continue;
        memset(in->pad, 0, sizeof in->pad);
        in->pads_least = false;
        struct xt_read_view *padded = xt_read_map(reader, node, in, 2 + i, &map);
        if (padded && i)
            padded->pad[0] = out->pad[0], padded->pad[2] = out->pad[2];
        out = padded;
    }
    return xt_reader_fails(reader) ? NULL : out;
}

/* What a Pad does with one axis. */
struct pads {
    int64_t before[XT_READ_DIMS_MAX], behind[XT_READ_DIMS_MAX];
};

/* As an attribute, or since opset 11 as an input; the count, -1: not known. */
static int list_of_pads(struct xt_reader *reader, struct xt_read_node *node,
                        int64_t out[2 * XT_READ_DIMS_MAX])
{
    const Onnx__AttributeProto *list = xt_read_attribute(node, "pads");
    struct xt_read_value *value = xt_read_input(node, 1);
    struct xt_read_constant *given = !list && value ? xt_read_constant_of(reader, value) : NULL;
    size_t count = list ? list->n_ints : given ? given->count : 0;
    const double *numbers =
        given && count <= 2 * XT_READ_DIMS_MAX ? xt_read_numbers(reader, given) : NULL;
    if (count > 2 * XT_READ_DIMS_MAX || (!list && !numbers))
        return -1;
    for (size_t i = 0; i < count; i++)
        out[i] = list ? list->ints[i] : xt_read_whole(numbers[i]);
    return (int)count;
}

static bool read_amounts(struct xt_reader *reader, struct xt_read_node *node, int ndims,
                         struct pads *out)
{
    int64_t amounts[2 * XT_READ_DIMS_MAX];
    int64_t axes[XT_READ_DIMS_MAX];
    int count = list_of_pads(reader, node, amounts);
    int named = xt_read_ints(reader, node, "axes", 3, axes);
    if (count < 0 || named < -1 || count != 2 * (named < 0 ? ndims : named))
        return xt_reader_refuse(reader, node, "pads by amounts that are not constant");
    for (int i = 0; i < count / 2; i++) {
        int axis = named < 0 ? i : xt_read_axis_of(reader, node, axes[i], ndims);
        if (axis < 0)
            return false;
        for (int k = 0; k < 2; k++)
            if (amounts[i + k * count / 2] < -INT16_MAX || amounts[i + k * count / 2] > INT16_MAX)
                return xt_reader_refuse(reader, node, "pads by %lld elements",
                                        (long long)amounts[i + k * count / 2]);
        out->before[axis] = amounts[i];
        out->behind[axis] = amounts[i + count / 2];
    }
    return true;
}

static bool read_fill(struct xt_reader *reader, struct xt_read_node *node, struct xt_axis_map *map)
{
    const struct xt_read_text mode = xt_read_string(node, "mode");
    double fill = xt_read_float(node, "value", 0);
    for (int kind = XT_MAP_CONSTANT; kind <= XT_MAP_WRAP; kind++)
        if (strcmp(mode.text, xt_axis_map_kinds[kind]) == 0)
            map->kind = (enum xt_axis_map_kind)kind;
    if (*mode.text && strcmp(mode.text, xt_axis_map_kinds[map->kind]) != 0)
        return xt_reader_refuse(reader, node, "pads in a mode that is not there: \"%s\"",
                                mode.text);
    struct xt_read_constant *given =
        xt_read_input(node, 2) ? xt_read_constant_of(reader, xt_read_input(node, 2)) : NULL;
    const double *number = given && given->count == 1 ? xt_read_numbers(reader, given) : NULL;
    if (xt_read_input(node, 2) && !number)
        return xt_reader_refuse(reader, node, "pads by a number that is not constant");
    map->fill = map->kind == XT_MAP_CONSTANT ? (float)(number ? *number : fill) : 0;
    return true;
}

/* Negative amounts take elements away. */
static struct xt_read_view *crop(struct xt_reader *reader, const struct xt_read_node *node,
                                 struct xt_read_view *view, int axis, int64_t before,
                                 int64_t behind)
{
    int64_t first = before < 0 ? -before : 0;
    int64_t count = xt_read_dim(view, axis) - first + (behind < 0 ? behind : 0);
    return first || behind < 0 ? xt_read_take(reader, node, view, axis, first, 1, count) : view;
}

/* Zeros around an image wait for the convolution or average pool that reads them, and what is less
 * than any number for a max pool. */
bool xt_read_pad(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_read_view *view = xt_read_data(reader, node, 0);
    struct pads pads = {0};
    struct xt_axis_map map = {.kind = XT_MAP_CONSTANT};
    if (!view || !read_amounts(reader, node, view->ndims, &pads) || !read_fill(reader, node, &map))
        return false;
    for (int axis = view->ndims - 1; axis >= 0 && view; axis--)
        view = crop(reader, node, view, axis, pads.before[axis], pads.behind[axis]);
    bool waits = map.kind == XT_MAP_CONSTANT && (map.fill == 0 || map.fill <= -FLT_MAX) && view &&
                 view->ndims == 4 && !pads.before[0] && !pads.behind[0] && !pads.before[1] &&
                 !pads.behind[1];
    for (int axis = view ? view->ndims - 1 : -1; axis >= 0 && view; axis--) {
        map.before = pads.before[axis] > 0 ? (int)pads.before[axis] : 0;
        map.behind = pads.behind[axis] > 0 ? (int)pads.behind[axis] : 0;
        if (waits && axis >= 2) {
            view->pad[axis - 2] = map.before;
            view->pad[axis] = map.behind;
            view->pads_least = map.fill < 0;
        } else if (map.before || map.behind) {
            view = xt_read_map(reader, node, view, axis, &map);
        }
    }
    return xt_read_give(node, view);
}

/* ---- resizing ---- */

enum { TIMES_MOST = 64 };

/* Each column `times` times: copies side by side as channels, which become columns. The sum of
 * lengths is checked by the concat, before the product is formed. */
static struct xt_value *repeat_columns(struct xt_net *net, struct xt_value *value, int times)
{
    struct xt_value *copies[TIMES_MOST];
    if (!value || times == 1)
        return value;
    for (int i = 0; i < times; i++)
        copies[i] = value;
    struct xt_value *wide = xt_net_concat(net, copies, times, XT_AXIS_C, NULL);
    if (!wide)
        return NULL;
    const struct xt_net_reshape wider = {value->h, value->w * times, value->c};
    return xt_net_reshape(net, wide, &wider, NULL);
}

/* The same of rows, each of which is one column of many channels meanwhile. */
static struct xt_value *repeat_rows(struct xt_net *net, struct xt_value *value, int times)
{
    if (!value || times == 1)
        return value;
    const struct xt_net_reshape flat = {value->h, 1, value->w * value->c};
    struct xt_value *high = repeat_columns(net, xt_net_reshape(net, value, &flat, NULL), times);
    if (!high)
        return NULL;
    const struct xt_net_reshape higher = {value->h * times, value->w, value->c};
    return xt_net_reshape(net, high, &higher, NULL);
}

/* Each axis's new length or scale. False: not known. */
static bool read_lengths(struct xt_reader *reader, struct xt_read_node *node,
                         const struct xt_read_view *view, struct xt_axis_map maps[])
{
    bool is_old = xt_read_is(node, "Upsample") || reader->opset < 11;
    int64_t axes[XT_READ_DIMS_MAX];
    int named = xt_read_ints(reader, node, "axes", -1, axes);
    size_t wanted = (size_t)(named < 0 ? view->ndims : named);
    for (int input = is_old ? 1 : 2; input <= (is_old ? 1 : 3); input++) {
        struct xt_read_value *value = xt_read_input(node, input);
        struct xt_read_constant *given = value ? xt_read_constant_of(reader, value) : NULL;
        const double *numbers =
            given && given->count == wanted ? xt_read_numbers(reader, given) : NULL;
        for (size_t i = 0; numbers && i < wanted; i++) {
            int axis = named < 0 ? (int)i : xt_read_axis_of(reader, node, axes[i], view->ndims);
            if (axis < 0 || !(numbers[i] > 0 && numbers[i] <= (double)XT_READ_BATCH))
                return false;
            bool is_batch = input == 3 && xt_read_dim(view, axis) == XT_READ_BATCH &&
                            numbers[i] == (double)reader->fixed_batch;
            maps[axis].scale = input == 3 ? 0 : (float)numbers[i];
            maps[axis].count = input == 3 && !is_batch ? (int)numbers[i] : 0;
        }
        if (numbers)
            return true;
    }
    const Onnx__AttributeProto *scales = is_old ? xt_read_attribute(node, "scales") : NULL;
    bool known = scales && scales->n_floats == wanted;
    for (size_t i = 0; known && i < wanted; i++) {
        maps[i].scale = scales->floats[i];
        known = scales->floats[i] > 0;
    }
    return known;
}

static int index_of(const char *word, const char *const words[], int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(word, words[i]) == 0)
            return i;
    return -1;
}

/* How an axis is resized, by the node's attributes; what is not known is refused. */
static bool read_manner(struct xt_reader *reader, struct xt_read_node *node,
                        struct xt_axis_map *out)
{
    const struct xt_read_text mode = xt_read_string(node, "mode");
    const struct xt_read_text place = xt_read_string(node, "coordinate_transformation_mode");
    const struct xt_read_text rounding = xt_read_string(node, "nearest_mode");
    const struct xt_read_text ratio = xt_read_string(node, "keep_aspect_ratio_policy");
    bool is_old = xt_read_is(node, "Upsample") || reader->opset < 11;
    int kind = *mode.text ? index_of(mode.text, xt_axis_map_kinds, XT_MAP_KINDS) : XT_MAP_NEAREST;
    int at = is_old        ? XT_PLACE_ASYMMETRIC
             : *place.text ? index_of(place.text, xt_resize_places, XT_PLACES)
                           : XT_PLACE_HALF_PIXEL;
    int to = is_old           ? XT_ROUND_FLOOR
             : *rounding.text ? index_of(rounding.text, xt_resize_roundings, XT_ROUNDINGS)
                              : XT_ROUND_PREFER_FLOOR;
    if (kind < XT_MAP_NEAREST || at < 0 || to < 0)
        return xt_reader_refuse(reader, node,
                                "resizes in a way that is not there (mode \"%s\", "
                                "coordinate_transformation_mode \"%s\", nearest_mode \"%s\")",
                                mode.text, place.text, rounding.text);
    if (*ratio.text && strcmp(ratio.text, "stretch") != 0)
        return xt_reader_refuse(reader, node, "resizes by a keep_aspect_ratio_policy");
    out->kind = (enum xt_axis_map_kind)kind;
    out->place = (enum xt_resize_place)at;
    out->rounding = (enum xt_resize_rounding)to;
    out->cubic = (float)xt_read_float(node, "cubic_coeff_a", -0.75);
    out->excludes_outside = xt_read_int(node, "exclude_outside", 0) != 0;
    out->antialias = kind != XT_MAP_NEAREST && xt_read_int(node, "antialias", 0) != 0;
    return true;
}

/* How many times as long the axis becomes; 0: not a whole number of times. */
static int times_of(const struct xt_axis_map *map, int64_t dim)
{
    double times = map->count ? map->count / (double)dim : (double)map->scale;
    return times == floor(times) && times <= TIMES_MOST ? (int)times : 0;
}

/* Whether output i is input i / times, as all of these roundings have it. */
static bool repeats(const struct xt_axis_map *manner)
{
    bool halves =
        manner->place == XT_PLACE_HALF_PIXEL || manner->place == XT_PLACE_PYTORCH_HALF_PIXEL;
    return manner->kind == XT_MAP_NEAREST &&
           (manner->place == XT_PLACE_ASYMMETRIC
                ? manner->rounding == XT_ROUND_FLOOR
                : halves && (manner->rounding == XT_ROUND_PREFER_FLOOR ||
                             manner->rounding == XT_ROUND_PREFER_CEIL));
}

static struct xt_read_view *repeat(struct xt_reader *reader, const struct xt_read_node *node,
                                   struct xt_read_view *view, int rows, int columns)
{
    int homes[XT_READ_DIMS_MAX] = {0};
    struct xt_value *value =
        xt_read_image_homes(view, homes) ? xt_read_lay_out(reader, node, view, homes) : NULL;
    value = value ? repeat_columns(reader->net, value, columns) : NULL;
    view = xt_read_after(reader, node, view, NULL, homes, value);
    value = view ? repeat_rows(reader->net, value, rows) : NULL;
    return xt_read_after(reader, node, view, NULL, homes, value);
}

bool xt_read_resize(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_axis_map maps[XT_READ_DIMS_MAX] = {0};
    struct xt_axis_map manner = {0};
    int times[XT_READ_DIMS_MAX] = {0};
    struct xt_read_view *view = xt_read_data(reader, node, 0);
    if (!view || !read_manner(reader, node, &manner))
        return false;
    if (!read_lengths(reader, node, view, maps))
        return xt_reader_refuse(reader, node, "resizes to a size that is not constant");
    bool whole = repeats(&manner) && view->ndims == 4;
    for (int i = 0; i < view->ndims; i++) {
        int64_t dim = xt_read_dim(view, i);
        bool given = maps[i].scale > 0 || maps[i].count > 0;
        maps[i].kind = manner.kind;
        times[i] = given ? times_of(&maps[i], dim) : 1;
        whole = whole && times[i] >= 1 && (i >= 2 || times[i] == 1);
    }
    if (whole)
        return xt_read_give(node, repeat(reader, node, view, times[2], times[3]));
    for (int i = view->ndims - 1; i >= 0 && view; i--) {
        manner.scale = maps[i].scale;
        manner.count = maps[i].count;
        if (times[i] != 1)
            view = xt_read_map(reader, node, view, i, &manner);
    }
    return xt_read_give(node, view);
}

/* ---- pools to a size ---- */

/* An image and [out h, out w, in h, in w]. */
bool xt_read_adaptive_pool(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_read_view *view = xt_read_data(reader, node, 0);
    const double *sizes = xt_read_numbers(reader, xt_read_constant_of(reader, node->inputs[1]));
    if (!view || !sizes)
        return false;
    for (int axis = 3; axis >= 2 && view; axis--) {
        const struct xt_axis_map pool = {.kind = XT_MAP_MEAN, .count = (int)sizes[axis - 2]};
        if (view->ndims != 4 || (double)xt_read_dim(view, axis) != sizes[axis])
            return xt_reader_refuse(reader, node, "pools an image of another size");
        view = xt_read_map(reader, node, view, axis, &pool);
    }
    return xt_read_give(node, view);
}

/* ---- running sums ---- */

/* The products with a triangle of ones. */
bool xt_read_running_sum(struct xt_reader *reader, struct xt_read_node *node)
{
    enum { LENGTH_MAX = 1024 };
    struct xt_read_view *view = xt_read_data(reader, node, 0);
    double given = 0;
    if (!view)
        return false;
    if (!xt_read_input(node, 1) || !xt_read_number(reader, xt_read_input(node, 1), &given))
        return xt_reader_refuse(reader, node, "sums along an axis that is not constant");
    int axis = xt_read_axis_of(reader, node, xt_read_whole(given), view->ndims);
    if (axis < 0)
        return false;
    int length = (int)xt_read_dim(view, axis);
    if (length > LENGTH_MAX)
        return xt_reader_refuse(reader, node, "sums up along an axis of more than %d elements",
                                LENGTH_MAX);
    bool turned = xt_read_int(node, "reverse", 0) != 0;
    int own = xt_read_int(node, "exclusive", 0) ? 0 : 1;
    float *ones = xt_reader_take(reader, (size_t)length * (size_t)length, sizeof *ones);
    for (int i = 0; ones && i < length; i++)
        for (int k = 0; k < length; k++)
            ones[i * length + k] = turned ? k > i - own : k < i + own;
    struct xt_read_view *weight = xt_read_matrix(reader, length, length, ones);
    return weight && xt_read_give(node, xt_read_contract(reader, node, view, axis, 1, weight));
}
