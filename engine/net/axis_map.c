#include "engine/net/axis_map.h"

#include <math.h>
#include <stddef.h>

const char *const xt_axis_map_kinds[XT_MAP_KINDS] = {
    [XT_MAP_PICK] = "pick",   [XT_MAP_REVERSE] = "reverse", [XT_MAP_CONSTANT] = "constant",
    [XT_MAP_EDGE] = "edge",   [XT_MAP_REFLECT] = "reflect", [XT_MAP_WRAP] = "wrap",
    [XT_MAP_MEAN] = "mean",   [XT_MAP_NEAREST] = "nearest", [XT_MAP_LINEAR] = "linear",
    [XT_MAP_CUBIC] = "cubic",
};

const char *const xt_resize_places[XT_PLACES] = {
    [XT_PLACE_HALF_PIXEL] = "half_pixel",
    [XT_PLACE_PYTORCH_HALF_PIXEL] = "pytorch_half_pixel",
    [XT_PLACE_ASYMMETRIC] = "asymmetric",
    [XT_PLACE_ALIGN_CORNERS] = "align_corners",
    [XT_PLACE_TF_HALF_PIXEL] = "tf_half_pixel_for_nn",
};

const char *const xt_resize_roundings[XT_ROUNDINGS] = {
    [XT_ROUND_PREFER_FLOOR] = "round_prefer_floor",
    [XT_ROUND_PREFER_CEIL] = "round_prefer_ceil",
    [XT_ROUND_FLOOR] = "floor",
    [XT_ROUND_CEIL] = "ceil",
};

/* ---- sizes ---- */

enum { LENGTH_MOST = 1 << 24 };

static bool resizes(const struct xt_axis_map *map)
{
    return map->kind >= XT_MAP_NEAREST;
}

int64_t xt_axis_map_length(const struct xt_axis_map *map, int in)
{
    if (map->kind == XT_MAP_PICK)
        return map->picked_count;
    if (map->kind == XT_MAP_MEAN)
        return map->count;
    if (!resizes(map))
        return (int64_t)map->before + in + map->behind;
    float length = floorf((float)in * map->scale);
    return map->count ? map->count : length <= LENGTH_MOST ? (int64_t)length : LENGTH_MOST + 1;
}

static const char *pads_refusal(const struct xt_axis_map *map, int in)
{
    int most = map->before > map->behind ? map->before : map->behind;
    if (map->before < 0 || map->behind < 0)
        return "is padded by less than nothing";
    if (map->kind == XT_MAP_REVERSE && most)
        return "is reversed and padded at once";
    if (map->kind == XT_MAP_REFLECT && most >= in)
        return "is padded by reflection with as much as it has, or more: at most one less can be";
    if (map->kind == XT_MAP_WRAP && most > in)
        return "is padded by its other end with more than it has";
    return map->kind == XT_MAP_CONSTANT && !isfinite(map->fill) ? "is padded by infinity" : NULL;
}

static const char *pick_refusal(const struct xt_axis_map *map, int in)
{
    for (int i = 0; i < map->picked_count; i++)
        if (map->picked[i] < 0 || map->picked[i] >= in)
            return "has elements picked that it does not have";
    return NULL;
}

/* Windows are at most one element longer than this, rounded up. */
static const char *mean_refusal(const struct xt_axis_map *map, int in)
{
    return map->count < 1 ? "is pooled to no size"
           : in / map->count + 2 > XT_AXIS_MAP_TERMS
               ? "is pooled by windows of more than 62 elements"
               : NULL;
}

/* By how much the weights are stretched. */
static double stretch(const struct xt_axis_map *map, int in, int out)
{
    double by = map->scale > 0 ? 1 / (double)map->scale : (double)in / out;
    return map->antialias && by > 1 ? by : 1;
}

/* Elements on each side that have weights. */
static double reach(const struct xt_axis_map *map, int in, int out)
{
    return ceil(stretch(map, in, out) * (map->kind == XT_MAP_CUBIC ? 2 : 1));
}

const char *xt_axis_map_refusal(const struct xt_axis_map *map, int in)
{
    const char *why = map->kind == XT_MAP_PICK   ? pick_refusal(map, in)
                      : map->kind == XT_MAP_MEAN ? mean_refusal(map, in)
                      : !resizes(map)            ? pads_refusal(map, in)
                                                 : NULL;
    if (why)
        return why;
    if (resizes(map) && (map->count < 0 || !(map->scale >= 0) || !isfinite(map->scale) ||
                         (map->count == 0) == (map->scale == 0) || !isfinite(map->cubic)))
        return "is resized to no size";
    int64_t length = xt_axis_map_length(map, in);
    return length < 1             ? "would have no elements"
           : length > LENGTH_MOST ? "would have more elements than an axis can"
           : resizes(map) && 2 * reach(map, in, (int)length) > XT_AXIS_MAP_TERMS
               ? "would become shorter by means of more than 64 elements"
               : NULL;
}

/* ---- coefficients ---- */

/* x / s: exact by a size; by a scale in float32 where a rounding follows, as other runtimes do. */
static double divided(const struct xt_axis_map *map, int in, int out, double x)
{
    if (map->scale == 0)
        return x * in / out;
    return map->kind == XT_MAP_NEAREST ? (double)((float)x / map->scale) : x / (double)map->scale;
}

static double place_of(const struct xt_axis_map *map, int in, int out, int j)
{
    switch (map->place) {
    case XT_PLACE_ASYMMETRIC:
        return divided(map, in, out, j);
    case XT_PLACE_ALIGN_CORNERS:
        return out == 1 ? 0 : (double)j * (in - 1) / (out - 1);
    case XT_PLACE_TF_HALF_PIXEL:
        return divided(map, in, out, j + 0.5);
    default:
        return map->place == XT_PLACE_PYTORCH_HALF_PIXEL && out == 1
                   ? 0
                   : divided(map, in, out, j + 0.5) - 0.5;
    }
}

static double rounded(enum xt_resize_rounding rounding, double x)
{
    switch (rounding) {
    case XT_ROUND_FLOOR:
        return floor(x);
    case XT_ROUND_CEIL:
        return ceil(x);
    case XT_ROUND_PREFER_CEIL:
        return floor(x + 0.5);
    default:
        return ceil(x - 0.5);
    }
}

static int clamp(int at, int in)
{
    return at < 0 ? 0 : at >= in ? in - 1 : at;
}

/* The weight of an element at this distance. */
static double cubic(double a, double x)
{
    return x < 1   ? ((a + 2) * x - (a + 3)) * x * x + 1
           : x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a
                   : 0;
}

static struct xt_axis_map_row between(const struct xt_axis_map *map, int in, int out, double x)
{
    double by = stretch(map, in, out);
    int side = (int)reach(map, in, out);
    struct xt_axis_map_row row = {.count = 2 * side};
    int first = (int)floor(x) - (side - 1);
    double sum = 0;
    for (int k = 0; k < row.count; k++) {
        double away = fabs(x - (first + k)) / by;
        bool is_outside = first + k < 0 || first + k >= in;
        row.at[k] = clamp(first + k, in);
        row.weight[k] = map->excludes_outside && is_outside ? 0
                        : map->kind == XT_MAP_CUBIC         ? cubic((double)map->cubic, away)
                                                            : fmax(0, 1 - away);
        sum += row.weight[k];
    }
    for (int k = 0; k < row.count && (map->excludes_outside || by > 1) && sum != 0; k++)
        row.weight[k] /= sum;
    return row;
}

struct xt_axis_window xt_axis_map_window(int in, int out, int j)
{
    int first = (int)((int64_t)j * in / out);
    int end = (int)((((int64_t)j + 1) * in + out - 1) / out);
    return (struct xt_axis_window){first, end - first};
}

static struct xt_axis_map_row mean(int in, int out, int j)
{
    struct xt_axis_window window = xt_axis_map_window(in, out, j);
    struct xt_axis_map_row row = {.count = window.count};
    for (int k = 0; k < row.count; k++) {
        row.at[k] = window.first + k;
        row.weight[k] = 1.0 / row.count;
    }
    return row;
}

static struct xt_axis_map_row one(int at)
{
    return (struct xt_axis_map_row){.count = 1, .at = {at}, .weight = {1}};
}

struct xt_axis_map_row xt_axis_map_row(const struct xt_axis_map *map, int in, int out, int j)
{
    int at = j - map->before;
    if (resizes(map)) {
        double x = place_of(map, in, out, j);
        x = x < -1 ? -1 : x > in ? in : x;
        return map->kind == XT_MAP_NEAREST ? one(clamp((int)rounded(map->rounding, x), in))
                                           : between(map, in, out, x);
    }
    switch (map->kind) {
    case XT_MAP_PICK:
        return one(map->picked[j]);
    case XT_MAP_MEAN:
        return mean(in, out, j);
    case XT_MAP_REVERSE:
        return one(in - 1 - j);
    case XT_MAP_REFLECT:
        return one(at < 0 ? -at : at >= in ? 2 * (in - 1) - at : at);
    case XT_MAP_WRAP:
        return one((at + in) % in);
    default:
        if (map->kind == XT_MAP_CONSTANT && (at < 0 || at >= in))
            return (struct xt_axis_map_row){.add = (double)map->fill};
        return one(clamp(at, in));
    }
}
