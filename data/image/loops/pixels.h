/* Inner loops over 8-bit pixels: resizing, warping, blending, colours.
 *
 * The source in this folder is compiled once for each instruction set (base, AVX2, AVX-512);
 * xt_pixel_loops_get picks the widest that the CPU has. All arithmetic is in integers, so every
 * build gives the same bytes. Pixels are three bytes, rows have no padding. Thread-safe.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "data/image/image.h"

enum {
    XT_FILTER_FRACTION = 22, /* fractional bits of a filter's weights */
    XT_FILTER_SPLIT = 11,    /* fractional bits of a weight's lower half in a packed filter */
    XT_FILTER_PACK = 4,      /* output pixels per step of a packed filter */
    XT_FILTER_PAIRS = 3,     /* pairs of taps of a packed filter */
    XT_FILTER_PACKED_TAPS = 5,
    XT_WARP_SLACK = XT_IMAGE_SLACK, /* bytes that may be read behind the picture that is warped */
};

/* A filter along a row: output pixel i is the sum of count[i] inputs from first[i] on, times
 * weights[i * taps ...]; weights are positive and sum to one. */
struct xt_row_filter {
    int in; /* pixels */
    int out;
    int taps;
    const int *first;
    const int *count;
    const int32_t *weights;
    /* [out / 4 rounded up][pair][lower, upper half][4]: the weights of two neighbouring taps, 16
     * bits each, in vector order; NULL for more than 5 taps. */
    const uint32_t *packed;
};

/* A row of a warp: output pixel i is the input at (x + i * step_x, y + i * step_y), in 1 / 65536 of
 * a pixel, integers being pixel centres; outside the border is repeated, but for 1 / 64 of the
 * pixel before it. Then brightness and contrast: (v - 128) * contrast / 512 + 128 + brightness. */
struct xt_warp_row {
    /* [height][width][3], one row more if height or width is 1, and XT_WARP_SLACK bytes */
    const uint8_t *in;
    int width;
    int height;
    int64_t x;
    int64_t y;
    int64_t step_x;
    int64_t step_y;
    int contrast;   /* 0 to 2047 */
    int brightness; /* -128 to 128 */
    int count;      /* pixels of `out` */
    uint8_t *out;
};

/* Each channel becomes own * channel + grey * (the pixel's grey) + shift, in 1 / 256. */
struct xt_colour_change {
    int own;
    int grey;
    int shift;
};

struct xt_pixel_loops {
    const char *isa;
    void (*filter_row)(const struct xt_row_filter *filter, const uint8_t *in, uint8_t *out);
    /* out = the rows, times weights that sum to one. */
    void (*mix_rows)(const uint8_t *const *rows, const int32_t *weights, int row_count,
                     size_t bytes, uint8_t *out);
    /* sums += weight * row */
    void (*add_row)(int32_t *sums, const uint8_t *row, int32_t weight, size_t bytes);
    void (*warp_row)(const struct xt_warp_row *row);
    /* out = (before * side + now * (128 - 2 * side) + after * side) / 128; side is 1 to 63 */
    void (*blend)(const uint8_t *before, const uint8_t *now, const uint8_t *after, int side,
                  uint8_t *out, size_t bytes);
    /* The sum of the pixels' greys. `red` is the index of the red channel, 0 or 2. */
    uint64_t (*sum_grey)(const uint8_t *pixels, size_t count, int red);
    void (*change_colours)(uint8_t *pixels, size_t count, int red,
                           const struct xt_colour_change *change);
    /* Rotates the hue by turn / 65536 of the colour circle, turn from 0 to 65536. */
    void (*turn_hue)(uint8_t *pixels, size_t count, int red, int turn);
};

const struct xt_pixel_loops *xt_pixel_loops_get(void);
