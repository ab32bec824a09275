/* A linear map of one axis with constant coefficients, y[j] = sum over i of M[j][i] x[i], plus a
 * number where padding has one: how an image is resized, padded, flipped, pooled to a size, and
 * elements are picked. Its words are those of ONNX.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum xt_axis_map_kind {
    XT_MAP_PICK, /* elements by their indices */
    XT_MAP_REVERSE,
    XT_MAP_CONSTANT, /* padded by a number, */
    XT_MAP_EDGE,     /* by the outermost element, */
    XT_MAP_REFLECT,  /* by the elements inside of that, mirrored, */
    XT_MAP_WRAP,     /* by those of the other end */
    XT_MAP_MEAN,     /* pooled to `count`: means from floor(j in / out) to ceil((j + 1) in / out) */
    XT_MAP_NEAREST,  /* resized: the nearest element, */
    XT_MAP_LINEAR,   /* between two, or more where a shorter axis is to have no aliasing, */
    XT_MAP_CUBIC,    /* of four, or more (Keys 1981) */
    XT_MAP_KINDS
};

/* Where the output's element j lies in the input, by the scale s = out / in. */
enum xt_resize_place {
    XT_PLACE_HALF_PIXEL,         /* (j + 0.5) / s - 0.5 */
    XT_PLACE_PYTORCH_HALF_PIXEL, /* the same, 0 for a single element */
    XT_PLACE_ASYMMETRIC,         /* j / s */
    XT_PLACE_ALIGN_CORNERS,      /* j * (in - 1) / (out - 1) */
    XT_PLACE_TF_HALF_PIXEL,      /* (j + 0.5) / s */
    XT_PLACES
};

enum xt_resize_rounding {
    XT_ROUND_PREFER_FLOOR, /* to the nearest, a half down or up */
    XT_ROUND_PREFER_CEIL,
    XT_ROUND_FLOOR,
    XT_ROUND_CEIL,
    XT_ROUNDINGS
};

struct xt_axis_map {
    enum xt_axis_map_kind kind;
    int before, behind; /* padding */
    float fill;
    int count;   /* of a resized or pooled axis; 0: floor(in * scale) */
    float scale; /* 0: count / in */
    enum xt_resize_place place;
    enum xt_resize_rounding rounding; /* of the nearest */
    float cubic;                      /* the coefficient a; PyTorch's is -0.75 */
    bool excludes_outside;            /* elements beyond the edge do not count, else as the edge */
    bool antialias;                   /* what makes an axis shorter is as wide in the output */
    const int *picked;                /* [picked_count], not owned */
    int picked_count;
};

extern const char *const xt_axis_map_kinds[XT_MAP_KINDS];
extern const char *const xt_resize_places[XT_PLACES];
extern const char *const xt_resize_roundings[XT_ROUNDINGS];

/* Elements that an axis of `in` becomes. */
int64_t xt_axis_map_length(const struct xt_axis_map *map, int in);
/* Why it cannot be applied to an axis of `in`, as the end of a sentence; NULL: it can. */
const char *xt_axis_map_refusal(const struct xt_axis_map *map, int in);

/* The terms of one output element: there may be none, and the same input twice. */
enum { XT_AXIS_MAP_TERMS = 64 };
struct xt_axis_map_row {
    int count;
    int at[XT_AXIS_MAP_TERMS];
    double weight[XT_AXIS_MAP_TERMS];
    double add;
};
/* What a pool to `out` elements takes the mean of for its element j. */
struct xt_axis_window {
    int first, count;
};
struct xt_axis_window xt_axis_map_window(int in, int out, int j);
struct xt_axis_map_row xt_axis_map_row(const struct xt_axis_map *map, int in, int out, int j);
