#include "data/drawing/glyphs.h"

static const uint32_t codes[XT_GLYPH_COUNT + 1] =
    U"京沪津渝冀晋蒙辽吉黑苏浙皖闽赣鲁豫鄂湘粤桂琼川贵云藏陕甘青宁新0123456789"
    U"ABCDEFGHJKLMNPQRSTUVWXYZ";

static const char atlas[XT_GLYPH_COUNT][XT_GLYPH_WIDTH * XT_GLYPH_HEIGHT + 1] = {
#include "data/drawing/glyphs_atlas.inc"
};

uint32_t xt_glyph_code(int glyph)
{
    return codes[glyph];
}

int xt_glyph_coverage(int glyph, int x, int y)
{
    char digit = atlas[glyph][y * XT_GLYPH_WIDTH + x];
    return digit <= '9' ? digit - '0' : digit - 'a' + 10;
}
