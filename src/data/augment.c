#include "data/augment.h"

#include <stdbool.h>
#include <string.h>

/* Positions and the affine map are integers of 16 fractional bits. */
enum { ONE = 1 << 16, HALF = ONE / 2 };

/* Where an output pixel's middle lies in the input: x = xx * (x' - cx) + xy * (y' - cy) + cx + sx.
 */
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

/* How far a shift may go when turning and scaling have already used a part of `budget`. */
static int64_t shift_limit(int64_t wanted, int64_t budget, int64_t used)
{
    int64_t left = budget - used;
    int64_t least = wanted / 4;
    if (left < least)
        left = least;
    return left < wanted ? left : wanted;
}

/* Shift up to 3/94 of the width and 2/24 of the height, rotation up to 4 degrees, scale from 0.9 to
 * 1.1. Plates fill their crops: where rotation and scale move the corners far, the shift is small,
 * so that no character leaves the image. */
static struct map draw_map(struct xt_rng *rng, int width, int height)
{
    enum { ANGLE = 4575 /* 4 degrees in radians */, SCALE = ONE / 10 };
    int64_t w = (int64_t)width * ONE;
    int64_t h = (int64_t)height * ONE;
    int64_t angle = draw(rng, ANGLE);
    int64_t scale = draw(rng, SCALE);
    /* Two terms of the series: the next is under a thousandth of a pixel. */
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

/* value -> contrast * (value - 128) + 128 + brightness, as a table. */
static void draw_light(struct xt_rng *rng, uint8_t table[256])
{
    int32_t contrast = ONE + draw(rng, ONE * 3 / 10);
    int32_t brightness = draw(rng, 32);
    for (int v = 0; v < 256; v++) {
        int32_t light = (((v - 128) * contrast + HALF) >> 16) + 128 + brightness;
        table[v] = (uint8_t)(light < 0 ? 0 : light > 255 ? 255 : light);
    }
}

static int clamp(int value, int most)
{
    return value < 0 ? 0 : value > most ? most : value;
}

/* A bilinear sample at (x, y), whose integers are the pixels' middles; the border is repeated
 * outside. */
static void sample(const uint8_t *in, int width, int height, int64_t x, int64_t y,
                   const uint8_t table[256], uint8_t *out)
{
    int x0 = (int)(x >> 16);
    int y0 = (int)(y >> 16);
    int fx = (int)(x & (ONE - 1)) >> 8;
    int fy = (int)(y & (ONE - 1)) >> 8;
    size_t left = (size_t)clamp(x0, width - 1) * 3;
    size_t right = (size_t)clamp(x0 + 1, width - 1) * 3;
    const uint8_t *above = in + (size_t)clamp(y0, height - 1) * (size_t)width * 3;
    const uint8_t *below = in + (size_t)clamp(y0 + 1, height - 1) * (size_t)width * 3;
    for (int c = 0; c < 3; c++) {
        int top = above[left + (size_t)c] * (256 - fx) + above[right + (size_t)c] * fx;
        int bottom = below[left + (size_t)c] * (256 - fx) + below[right + (size_t)c] * fx;
        out[c] = table[(top * (256 - fy) + bottom * fy + HALF) >> 16];
    }
}

static void warp(const uint8_t *in, int width, int height, const struct map *map,
                 const uint8_t table[256], uint8_t *out)
{
    int64_t centre_x = (int64_t)(width - 1) * HALF;
    int64_t centre_y = (int64_t)(height - 1) * HALF;
    for (int row = 0; row < height; row++) {
        /* Twice the distance from the centre, so that it is whole. */
        int64_t dx = -(width - 1);
        int64_t dy = 2 * row - (height - 1);
        int64_t x = centre_x + map->shift_x + (map->xx * dx + map->xy * dy) / 2;
        int64_t y = centre_y + map->shift_y + (map->yx * dx + map->yy * dy) / 2;
        for (int column = 0; column < width; column++, out += 3) {
            sample(in, width, height, x, y, table, out);
            x += map->xx;
            y += map->yx;
        }
    }
}

/* `out` = three taps (side, 256 - 2 side, side) / 256 over before, now, after. */
static void blend(const uint8_t *before, const uint8_t *now, const uint8_t *after, int side,
                  uint8_t *out, size_t count)
{
    for (size_t i = 0; i < count; i++)
        out[i] = (uint8_t)(((before[i] + after[i]) * side + now[i] * (256 - 2 * side) + 128) >> 8);
}

static void blur_along_rows(const uint8_t *in, int width, int height, int side, uint8_t *out)
{
    size_t stride = (size_t)width * 3;
    for (int y = 0; y < height; y++, in += stride, out += stride) {
        if (width == 1) {
            memcpy(out, in, stride);
            continue;
        }
        blend(in, in, in + 3, side, out, 3);
        blend(in, in + 3, in + 6, side, out + 3, stride - 6);
        blend(in + stride - 6, in + stride - 3, in + stride - 3, side, out + stride - 3, 3);
    }
}

static void blur_along_columns(const uint8_t *in, int width, int height, int side, uint8_t *out)
{
    size_t stride = (size_t)width * 3;
    for (int y = 0; y < height; y++) {
        const uint8_t *now = in + (size_t)y * stride;
        const uint8_t *before = y > 0 ? now - stride : now;
        const uint8_t *after = y < height - 1 ? now + stride : now;
        blend(before, now, after, side, out + (size_t)y * stride, stride);
    }
}

enum xt_status xt_augment_plate(uint8_t *pixels, int width, int height, struct xt_rng *rng,
                                struct xt_image *scratch, struct xt_err *err)
{
    enum { BLURRED_OF_FOUR = 1, SIDE_LEAST = 16, SIDE_SPAN = 48 };
    if (height > XT_IMAGE_PIXELS_MAX / 2)
        return xt_err_set(err, XT_ERR_USAGE, "an image of %d rows cannot be augmented", height);
    /* Two images: the warped one, and the one between the blur's two passes. */
    enum xt_status status = xt_image_reserve(scratch, width, 2 * height, err);
    if (status)
        return status;
    size_t size = (size_t)width * (size_t)height * 3;
    struct map map = draw_map(rng, width, height);
    uint8_t table[256];
    draw_light(rng, table);
    bool blurred = xt_rng_below(rng, 4) < BLURRED_OF_FOUR;
    int side = SIDE_LEAST + (int)xt_rng_below(rng, SIDE_SPAN);
    warp(pixels, width, height, &map, table, scratch->pixels);
    if (!blurred) {
        memcpy(pixels, scratch->pixels, size);
        return XT_OK;
    }
    blur_along_rows(scratch->pixels, width, height, side, scratch->pixels + size);
    blur_along_columns(scratch->pixels + size, width, height, side, pixels);
    return XT_OK;
}
