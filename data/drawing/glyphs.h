/* The glyphs of a Chinese licence plate, as coverage: 31 provinces, 10 digits and the 24 letters
 * that plates use (no I, no O).
 *
 * Constant data, compiled in; where the shapes come from is in assets/README.md.
 */
#pragma once

#include <stdint.h>

enum {
    XT_GLYPH_PROVINCE = 0, /* the first province, digit and letter */
    XT_GLYPH_DIGIT = 31,
    XT_GLYPH_LETTER = 41,
    XT_GLYPH_COUNT = 65,

    XT_GLYPH_WIDTH = 32, /* texels of the cell, which is one character of 45 x 90 mm */
    XT_GLYPH_HEIGHT = 64,
    XT_GLYPH_LEVELS = 15, /* coverage of a texel that is fully inked */
};

/* The code point of the glyph. */
uint32_t xt_glyph_code(int glyph);

/* 0 to XT_GLYPH_LEVELS. */
int xt_glyph_coverage(int glyph, int x, int y);
