#include "data/image/augment.h"

#include <stdbool.h>
#include <string.h>

#include "base/mem.h"
#include "data/image/loops/pixels.h"

/* Positions and the affine map are integers of 16 fractional bits. */
enum { ONE = 1 << 16, HALF = ONE / 2 };

/* The centre of an output pixel in the input: x = xx * (x' - cx) + xy * (y' - cy) + cx + sx. */
struct map {
    int32_t xx;
    int32_t xy;
    int32_t yx;
    int32_t yy;
    int64_t shift_x;
    int64_t shift_y;
};

/* An integer in [-most, most]. */
static int32_t draw(struct xt_rng *rng, int64_t most)
{
    return (int32_t)((int64_t)xt_rng_below(rng, (uint64_t)(2 * most + 1)) - most);
}

static int64_t magnitude(int64_t value)
{
    return value < 0 ? -value : value;
}

/* The largest shift when rotation and scaling have already used a part of `budget`. */
static int64_t shift_limit(int64_t wanted, int64_t budget, int64_t used)
{
    int64_t left = budget - used;
    int64_t least = wanted / 4;
    if (left < least)
        left = least;
    return left < wanted ? left : wanted;
}

/* Shift up to 3/94 of the width and 2/24 of the height, rotation up to 4 degrees, scale from 0.9 to
 * 1.1. Plates fill their crops: the further rotation and scale move the corners, the smaller the
 * shift, so that no character leaves the image. */
static struct map draw_map(struct xt_rng *rng, int width, int height)
{
    enum { ANGLE = 4575 /* 4 degrees in radians */, SCALE = ONE / 10 };
    int64_t w = (int64_t)width * ONE;
    int64_t h = (int64_t)height * ONE;
    int64_t angle = draw(rng, ANGLE);
    int64_t scale = draw(rng, SCALE);
    /* Two terms of the series: the third is below a thousandth of a pixel. */
    int64_t cosine = ONE - angle * angle / ((int64_t)2 * ONE);
    int64_t zoom = ONE + scale;
    int64_t used_y = magnitude(angle) * width / 2 + magnitude(scale) * height / 2;
    int64_t used_x = magnitude(angle) * height / 2 + magnitude(scale) * width / 2;
    return (struct map){
        .xx = (int32_t)(cosine * zoom / ONE),
        .xy = (int32_t)(-angle * zoom / ONE),
        .yx = (int32_t)(angle * zoom / ONE),
        .yy = (int32_t)(cosine * zoom / ONE),
        .shift_x = draw(rng, shift_limit(w * 3 / 94, w * 5 / 94, used_x)),
        .shift_y = draw(rng, shift_limit(h * 2 / 24, h * 7 / 48, used_y)),
    };
}

static void warp(const uint8_t *in, int width, int height, const struct map *map, int contrast,
                 int brightness, uint8_t *out)
{
    const struct xt_pixel_loops *loops = xt_pixel_loops_get();
    int64_t centre_x = (int64_t)(width - 1) * HALF;
    int64_t centre_y = (int64_t)(height - 1) * HALF;
    for (int row = 0; row < height; row++, out += (size_t)width * 3) {
        /* Twice the distance from the centre, so that it is an integer. */
        int64_t dx = -(width - 1);
        int64_t dy = 2 * row - (height - 1);
        struct xt_warp_row warped = {
            .in = in,
            .width = width,
            .height = height,
            .x = centre_x + map->shift_x + (map->xx * dx + map->xy * dy) / 2,
            .y = centre_y + map->shift_y + (map->yx * dx + map->yy * dy) / 2,
            .step_x = map->xx,
            .step_y = map->yx,
            .contrast = contrast,
            .brightness = brightness,
            .count = width,
        };
        warped.out = out;
        loops->warp_row(&warped);
    }
}

/* All rows in one pass, as if each continued in the next; then the row ends are corrected. */
static void blur_along_rows(const uint8_t *in, int width, int height, int side, uint8_t *out)
{
    const struct xt_pixel_loops *loops = xt_pixel_loops_get();
    size_t stride = (size_t)width * 3;
    size_t size = stride * (size_t)height;
    if (width == 1) {
        memcpy(out, in, size);
        return;
    }
    loops->blend(in, in + 3, in + 6, side, out + 3, size - 6);
    for (size_t row = 0; row < size; row += stride) {
        const uint8_t *last = in + row + stride - 3;
        loops->blend(in + row, in + row, in + row + 3, side, out + row, 3);
        loops->blend(last - 3, last, last, side, out + row + stride - 3, 3);
    }
}

static void blur_along_columns(const uint8_t *in, int width, int height, int side, uint8_t *out)
{
    const struct xt_pixel_loops *loops = xt_pixel_loops_get();
    size_t stride = (size_t)width * 3;
    size_t last = stride * (size_t)(height - 1);
    if (height == 1) {
        memcpy(out, in, stride);
        return;
    }
    loops->blend(in, in, in + stride, side, out, stride);
    loops->blend(in, in + stride, in + 2 * stride, side, out + stride, last - stride);
    loops->blend(in + last - stride, in + last, in + last, side, out + last, stride);
}

/* The input of the warp: the image itself, or a copy if it will be overwritten or is too thin. The
 * copy's last row is duplicated. */
static const uint8_t *input_of(const uint8_t *in, const uint8_t *out, int width, int height,
                               uint8_t *copy)
{
    size_t stride = (size_t)width * 3;
    size_t size = stride * (size_t)height;
    if (in != out && width > 1 && height > 1)
        return in;
    memcpy(copy, in, size);
    memcpy(copy + size, in + size - stride, stride);
    memset(copy + size + stride, 0, XT_WARP_SLACK);
    return copy;
}

enum xt_status xt_augment_plate(const uint8_t *in, int width, int height, struct xt_rng *rng,
                                struct xt_image *scratch, uint8_t *out, struct xt_err *err)
{
    enum { BLURRED_OF_FOUR = 1, SIDE_LEAST = 8, SIDE_SPAN = 24 };
    enum xt_status status = xt_image_check(width, height, err);
    size_t stride = (size_t)width * 3;
    size_t size = stride * (size_t)height;
    if (!status)
        status = xt_mem_grow(&scratch->pixels, &scratch->capacity, size + stride + XT_WARP_SLACK, 1,
                             "a plate to vary", err);
    if (status)
        return status;
    struct map map = draw_map(rng, width, height);
    /* value -> contrast * (value - 128) + 128 + brightness */
    int contrast = (ONE + draw(rng, ONE * 3 / 10)) / 128;
    int brightness = draw(rng, 32);
    bool blurred = xt_rng_below(rng, 4) < BLURRED_OF_FOUR;
    int side = SIDE_LEAST + (int)xt_rng_below(rng, SIDE_SPAN);
    warp(input_of(in, out, width, height, scratch->pixels), width, height, &map, contrast,
         brightness, out);
    if (!blurred)
        return XT_OK;
    blur_along_rows(out, width, height, side, scratch->pixels);
    blur_along_columns(scratch->pixels, width, height, side, out);
    return XT_OK;
}

/* A factor in [1 - most, 1 + most), in 1 / 256. */
static int draw_factor(struct xt_rng *rng, float most)
{
    return (int)(256 * (1 + most * (2 * xt_rng_uniform(rng) - 1)) + 0.5F);
}

void xt_augment_colours(uint8_t *pixels, size_t count, enum xt_pixel_order order, float most,
                        struct xt_rng *rng)
{
    int red = order == XT_PIXEL_RGB ? 0 : 2;
    const struct xt_pixel_loops *loops = xt_pixel_loops_get();
    int brightness = draw_factor(rng, most);
    int contrast = draw_factor(rng, most);
    int saturation = draw_factor(rng, most);
    int mean = (int)(loops->sum_grey(pixels, count, red) / count);
    /* Brightness, then contrast around the mean grey, then saturation around each pixel's grey: all
     * linear, so one pass does it. */
    int own = brightness * contrast / 256;
    struct xt_colour_change change = {
        .own = own * saturation / 256,
        .grey = own * (256 - saturation) / 256,
        .shift = mean * brightness / 256 * (256 - contrast),
    };
    loops->change_colours(pixels, count, red, &change);
}

void xt_augment_hue(uint8_t *pixels, size_t count, enum xt_pixel_order order, float most,
                    struct xt_rng *rng)
{
    int red = order == XT_PIXEL_RGB ? 0 : 2;
    int turn = (int)((float)ONE * most * (2 * xt_rng_uniform(rng) - 1));
    turn += turn < 0 ? ONE : 0;
    xt_pixel_loops_get()->turn_hue(pixels, count, red, turn);
}
