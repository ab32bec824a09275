/* Synthetic pictures of Chinese licence plates, rendered at the size that the plate network reads.
 *
 * A plate is composed in its own plane, 2 mm a pixel (from GA 36-2018: 440 x 140 mm, new-energy 480
 * x 140 mm), viewed through four displaced corners, blurred, coloured, shaded, and given noise and
 * JPEG artefacts. Everything is integer arithmetic on numbers from the caller's generator, so a
 * picture is the same on every machine.
 *
 * A painter holds the constant part (glyphs and frames at the plane's resolution). It is immutable
 * once created, so safe to share between threads; painting allocates nothing.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "base/rng.h"

enum {
    XT_PLATE_WIDTH = 94,
    XT_PLATE_HEIGHT = 24,
    XT_PLATE_SYMBOLS_MAX = 8,
    XT_PLATE_HARD_MAX = 10,
};

enum xt_plate_style {
    XT_PLATE_BLUE,
    XT_PLATE_GREEN,
    XT_PLATE_YELLOW,
    XT_PLATE_WHITE,
    XT_PLATE_STYLES,
};

/* The number of symbols on a plate of the style: 8 on green ones, 7 on others. */
int xt_plate_length(enum xt_plate_style style);

struct xt_plate_painter;
enum xt_status xt_plate_painter_create(struct xt_plate_painter **out, struct xt_err *err);
void xt_plate_painter_destroy(struct xt_plate_painter *painter);

/* Paints xt_plate_length(style) glyphs (data/drawing/glyphs.h) as RGB pixels, [24][94][3]. `hard`
 * scales every distortion: 0 paints a clean plate, 10 plates that people misread too. */
enum xt_status xt_plate_paint(const struct xt_plate_painter *painter, enum xt_plate_style style,
                              const int *glyphs, int hard, struct xt_rng *rng, uint8_t *pixels,
                              struct xt_err *err);
