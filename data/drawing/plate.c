#include "data/drawing/plate.h"

#include <endian.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/drawing/glyphs.h"
#include "data/drawing/jpeg_artefacts.h"

/* Lengths in the plate's plane are in cells of 2 mm. */
enum {
    PAD = 2, /* empty cells around the plate, so that sampling needs no bounds check */
    PLANE_HEIGHT = 70,
    PLANE_ROWS = PLANE_HEIGHT + 2 * PAD,
    PLANE_STRIDE = 256,
    GLYPH_CELLS_X = 22,
    GLYPH_CELLS_Y = 45,
    GLYPH_ROWS = GLYPH_CELLS_Y + 2, /* ink may reach one cell beyond the glyph */
    GLYPH_STRIDE = 32,
    GLYPH_TOP = 12,

    WIDTH = XT_PLATE_WIDTH,
    HEIGHT = XT_PLATE_HEIGHT,
    STRIDE = 96, /* of a row of samples: a multiple of the vector width */
    FULL = 128,  /* coverage of a sample that is all ink, or all plate */
    ONE = 1 << 16,
    CHANNELS = 3,
};

struct layout {
    int width;
    int left[XT_PLATE_SYMBOLS_MAX];
};

static const struct layout layouts[2] = {
    {.width = 220, .left = {8, 36, 76, 104, 133, 161, 190}},
    {.width = 240, .left = {8, 35, 81, 107, 133, 159, 185, 211}},
};

struct xt_plate_painter {
    uint8_t glyphs[XT_GLYPH_COUNT][GLYPH_ROWS][GLYPH_STRIDE];
    uint8_t frames[2][PLANE_ROWS][PLANE_STRIDE];
};

/* Coverage of ink and of plate at each pixel, with padding columns on the right. */
struct coverage {
    uint16_t ink[HEIGHT][STRIDE];
    uint16_t plate[HEIGHT][STRIDE];
};

struct colour {
    int channel[CHANNELS];
};

struct range {
    struct colour low;
    struct colour high;
};

/* The ranges of a style's colours at full distortion: background at the top and at the bottom, and
 * ink. Cameras in the rain turn blue into grey, and lamps make it cyan. */
struct palette {
    struct range top;
    struct range bottom;
    struct range ink;
    bool gradient; /* top and bottom are drawn independently */
};

static const struct palette palettes[XT_PLATE_STYLES] = {
    [XT_PLATE_BLUE] = {.top = {{{0, 15, 105}}, {{95, 165, 255}}},
                       .bottom = {{{0, 15, 105}}, {{95, 165, 255}}},
                       .ink = {{{185, 195, 205}}, {{255, 255, 255}}}},
    [XT_PLATE_GREEN] = {.top = {{{175, 205, 185}}, {{245, 255, 245}}},
                        .bottom = {{{25, 140, 70}}, {{115, 225, 160}}},
                        .ink = {{{5, 5, 5}}, {{55, 65, 65}}},
                        .gradient = true},
    [XT_PLATE_YELLOW] = {.top = {{{190, 130, 0}}, {{255, 215, 70}}},
                         .bottom = {{{190, 130, 0}}, {{255, 215, 70}}},
                         .ink = {{{5, 5, 5}}, {{60, 60, 60}}}},
    [XT_PLATE_WHITE] = {.top = {{{200, 200, 200}}, {{255, 255, 255}}},
                        .bottom = {{{200, 200, 200}}, {{255, 255, 255}}},
                        .ink = {{{5, 5, 10}}, {{60, 60, 75}}}},
};

int xt_plate_length(enum xt_plate_style style)
{
    return style == XT_PLATE_GREEN ? 8 : 7;
}

static int min_of(int a, int b)
{
    return a < b ? a : b;
}

static int clamp_to(int value, int low, int high)
{
    return value < low ? low : value > high ? high : value;
}

/* A uniform integer in [low, high]. */
static int draw_between(struct xt_rng *rng, int low, int high)
{
    return low + (int)xt_rng_below(rng, (uint64_t)((int64_t)high - low + 1));
}

/* A random integer in [-size, size], small magnitudes more often. */
static int draw_around(struct xt_rng *rng, int size)
{
    int first = draw_between(rng, -size, size);
    int second = draw_between(rng, -size, size);
    return (first + second) / 2;
}

static int scaled(int size, int hard)
{
    return size * hard / XT_PLATE_HARD_MAX;
}

/* --- glyphs and frames, rendered once -------------------------------------------------------- */

/* The overlap of texel [texel * size, + size) with the window [from, to). */
static int overlap(int texel, int size, int from, int to)
{
    int low = texel * size > from ? texel * size : from;
    int high = min_of((texel + 1) * size, to);
    return high > low ? high - low : 0;
}

/* A cell is the mean of the texels under it and slightly around it (a pixel of the picture covers
 * more than two cells each way, so this does not blur, but keeps thin strokes from flickering).
 * Texels and cells share a grid of GLYPH_CELLS_X * XT_GLYPH_WIDTH columns; likewise for rows. */
static int glyph_cell(int glyph, int cell_x, int cell_y)
{
    const int margin_x = XT_GLYPH_WIDTH * 2 / 3;
    const int margin_y = XT_GLYPH_HEIGHT * 9 / 10;
    int from_x = cell_x * XT_GLYPH_WIDTH - margin_x;
    int from_y = cell_y * XT_GLYPH_HEIGHT - margin_y;
    int to_x = (cell_x + 1) * XT_GLYPH_WIDTH + margin_x;
    int to_y = (cell_y + 1) * XT_GLYPH_HEIGHT + margin_y;
    int64_t sum = 0;
    int bottom = min_of(to_y / GLYPH_CELLS_Y + 1, XT_GLYPH_HEIGHT);
    int right = min_of(to_x / GLYPH_CELLS_X + 1, XT_GLYPH_WIDTH);
    for (int y = from_y > 0 ? from_y / GLYPH_CELLS_Y : 0; y < bottom; y++) {
        int rows = overlap(y, GLYPH_CELLS_Y, from_y, to_y);
        for (int x = from_x > 0 ? from_x / GLYPH_CELLS_X : 0; x < right; x++)
            sum += (int64_t)rows * overlap(x, GLYPH_CELLS_X, from_x, to_x) *
                   xt_glyph_coverage(glyph, x, y);
    }
    int64_t all = (int64_t)(to_x - from_x) * (to_y - from_y) * XT_GLYPH_LEVELS;
    return (int)((sum * 255 + all / 2) / all);
}

static void fill_box(uint8_t plane[PLANE_ROWS][PLANE_STRIDE], int left, int top, int right,
                     int bottom, uint8_t value)
{
    for (int y = top; y < bottom; y++)
        for (int x = left; x < right; x++)
            plane[PAD + y][PAD + x] = value;
}

/* The same filter width as for glyphs. */
static void soften(uint8_t plane[PLANE_ROWS][PLANE_STRIDE])
{
    uint8_t copy[PLANE_ROWS][PLANE_STRIDE];
    memcpy(copy, plane, sizeof copy);
    for (int y = 1; y < PLANE_ROWS - 1; y++)
        for (int x = 1; x < PLANE_STRIDE - 1; x++) {
            int sum = 0;
            for (int dy = -1; dy <= 1; dy++)
                for (int dx = -1; dx <= 1; dx++)
                    sum += copy[y + dy][x + dx];
            plane[y][x] = (uint8_t)((sum + 4) / 9);
        }
}

/* The border line, and the mark between letter and number: a dot, or the new-energy symbol. */
static void draw_frame(uint8_t plane[PLANE_ROWS][PLANE_STRIDE], bool green)
{
    const struct layout *layout = &layouts[green];
    const uint8_t line = green ? 90 : 215;
    int right = layout->width - 3;
    int bottom = PLANE_HEIGHT - 3;
    fill_box(plane, 4, 3, right - 1, 4, line);
    fill_box(plane, 4, bottom - 1, right - 1, bottom, line);
    fill_box(plane, 3, 4, 4, bottom - 1, line);
    fill_box(plane, right - 1, 4, right, bottom - 1, line);
    int middle = (layout->left[1] + GLYPH_CELLS_X + layout->left[2]) / 2;
    if (green) {
        fill_box(plane, middle - 6, 30, middle + 6, 40, 60);
        fill_box(plane, middle - 3, 33, middle + 3, 37, 20);
    } else {
        fill_box(plane, middle - 2, 32, middle + 3, 37, 255);
    }
    soften(plane);
}

enum xt_status xt_plate_painter_create(struct xt_plate_painter **out, struct xt_err *err)
{
    enum xt_status status = xt_mem_aligned(out, 1, sizeof **out, "the plates' glyphs", err);
    if (status)
        return status;
    struct xt_plate_painter *painter = *out;
    for (int glyph = 0; glyph < XT_GLYPH_COUNT; glyph++)
        for (int y = 0; y < GLYPH_ROWS; y++)
            for (int x = 0; x < GLYPH_CELLS_X + 2; x++)
                painter->glyphs[glyph][y][x] = (uint8_t)glyph_cell(glyph, x - 1, y - 1);
    draw_frame(painter->frames[0], false);
    draw_frame(painter->frames[1], true);
    return XT_OK;
}

void xt_plate_painter_destroy(struct xt_plate_painter *painter)
{
    free(painter);
}

/* --- the plate in its plane ------------------------------------------------------------------- */

static void stamp(uint8_t plane[PLANE_ROWS][PLANE_STRIDE], const uint8_t glyph[][GLYPH_STRIDE],
                  int left, int top)
{
    for (int y = 0; y < GLYPH_ROWS; y++) {
        uint8_t *row = &plane[PAD + top - 1 + y][PAD + left - 1];
        for (int x = 0; x < GLYPH_STRIDE; x++)
            row[x] = row[x] > glyph[y][x] ? row[x] : glyph[y][x];
    }
}

/* Four screws or a dirt spot at one of the holes: grey on any background. */
static void stamp_screws(uint8_t plane[PLANE_ROWS][PLANE_STRIDE], int width, struct xt_rng *rng)
{
    for (int screw = 0; screw < 4; screw++) {
        int strength = draw_between(rng, -120, 140);
        if (strength <= 0)
            continue;
        int x = (screw & 1 ? width * 3 / 4 : width / 4) + draw_around(rng, 4);
        int y = screw & 2 ? PLANE_HEIGHT - 9 : 4;
        fill_box(plane, x, y, x + 4, y + 5, (uint8_t)strength);
    }
}

static void compose(const struct xt_plate_painter *painter, bool green, const int *glyphs,
                    int length, int hard, struct xt_rng *rng,
                    uint8_t plane[PLANE_ROWS][PLANE_STRIDE])
{
    memcpy(plane, painter->frames[green], sizeof painter->frames[green]);
    if (hard > 0)
        stamp_screws(plane, layouts[green].width, rng);
    int reach = hard > 0 ? 1 : 0;
    int row = GLYPH_TOP + draw_between(rng, -reach, reach);
    for (int i = 0; i < length; i++) {
        int left = layouts[green].left[i] + draw_between(rng, -reach, reach);
        stamp(plane, painter->glyphs[glyphs[i]], left, row);
    }
}

/* --- the camera's view ------------------------------------------------------------------------ */

/* A corner of the picture in the plate's plane, in 1/65536 cells. */
struct point {
    int64_t u;
    int64_t v;
};

/* Corners: top left, top right, bottom left, bottom right. Rotating the plate makes its bounding
 * box higher, and pictures are cropped to about that box. */
static void place_corners(int width, int hard, struct xt_rng *rng, struct point corners[4])
{
    const int half_width = width * ONE / 2;
    const int half_height = PLANE_HEIGHT * ONE / 2;
    int turn = draw_around(rng, scaled(26 * ONE, hard));
    int slant = draw_around(rng, scaled(26 * ONE, hard));
    int room_x = draw_between(rng, -scaled(5 * ONE, hard), scaled(12 * ONE, hard));
    int room_y = draw_between(rng, -scaled(7 * ONE, hard), scaled(12 * ONE, hard));
    int shift_x = draw_around(rng, scaled(9 * ONE, hard));
    int shift_y = draw_around(rng, scaled(8 * ONE, hard));
    int grow_x = half_width + room_x + abs(slant) / 2;
    int grow_y = half_height + room_y + abs(turn) * 3 / 4;
    for (int i = 0; i < 4; i++) {
        int x = i & 1 ? 1 : -1;
        int y = i & 2 ? 1 : -1;
        corners[i].u = half_width + shift_x + x * grow_x + y * slant +
                       draw_around(rng, scaled(10 * ONE, hard));
        corners[i].v =
            half_height + shift_y + y * grow_y + x * turn + draw_around(rng, scaled(8 * ONE, hard));
    }
}

/* The point at fraction `place` / `of` between a and b. */
static struct point between(struct point a, struct point b, int place, int of)
{
    return (struct point){a.u + (b.u - a.u) * place / of, a.v + (b.v - a.v) * place / of};
}

/* Ink at a point of the plane, 0 to 255, interpolated between its four neighbours. */
static int sample(const uint8_t plane[PLANE_ROWS][PLANE_STRIDE], int u, int v)
{
    const uint8_t *at = &plane[v >> 16][u >> 16];
    int right = (u >> 8) & 255;
    int down = (v >> 8) & 255;
    int top = at[0] * (256 - right) + at[1] * right;
    int bottom = at[PLANE_STRIDE] * (256 - right) + at[PLANE_STRIDE + 1] * right;
    return (top * (256 - down) + bottom * down) >> 16;
}

/* Coverage of a pixel by the plate, 0 to FULL: the distance to the nearest edge, in pixels of about
 * 2.5 cells. */
static int inside(int u, int v, int width)
{
    int x = min_of(u, width * ONE - u);
    int y = min_of(v, PLANE_HEIGHT * ONE - v);
    return clamp_to(FULL / 2 + (min_of(x, y) >> 8) * FULL / 640, 0, FULL);
}

/* `bold` thickens strokes (overexposure) or thins them; 256 is neutral. */
static void view(const uint8_t plane[PLANE_ROWS][PLANE_STRIDE], int width,
                 const struct point corners[4], int bold, struct coverage *coverage)
{
    const int u_most = (width + 2 * PAD - 1) * ONE - 1;
    const int v_most = (PLANE_ROWS - 1) * ONE - 1;
    const int to_plane = PAD * ONE - ONE / 2; /* of cell centres */
    for (int y = 0; y < HEIGHT; y++) {
        struct point from = between(corners[0], corners[2], 2 * y + 1, 2 * HEIGHT);
        struct point to = between(corners[1], corners[3], 2 * y + 1, 2 * HEIGHT);
        int step_u = (int)((to.u - from.u) / WIDTH);
        int step_v = (int)((to.v - from.v) / WIDTH);
        int u = (int)from.u + step_u / 2;
        int v = (int)from.v + step_v / 2;
        for (int x = 0; x < STRIDE; x++) {
            int ink =
                sample(plane, clamp_to(u + to_plane, 0, u_most), clamp_to(v + to_plane, 0, v_most));
            coverage->ink[y][x] = (uint16_t)min_of((ink * bold + 255) >> 9, FULL);
            coverage->plate[y][x] = (uint16_t)inside(u, v, width);
            u += step_u;
            v += step_v;
        }
    }
}

/* --- blur --------------------------------------------------------------------------------------
 */

/* Five taps that sum to 256, mirrored. */
struct taps {
    uint16_t middle;
    uint16_t near;
    uint16_t far;
};

/* Strength 0 is sharp, 256 the binomial filter, 512 the mean of five. */
static struct taps taps_of(int strength)
{
    int past = strength > 256 ? strength - 256 : 0;
    int up_to = strength - past;
    int near = up_to * 64 / 256 - past * 13 / 256;
    int far = up_to * 16 / 256 + past * 35 / 256;
    return (struct taps){(uint16_t)(256 - 2 * near - 2 * far), (uint16_t)near, (uint16_t)far};
}

static void blur_columns(uint16_t plane[HEIGHT][STRIDE], struct taps taps)
{
    uint16_t copy[HEIGHT + 4][STRIDE];
    memcpy(copy[2], plane, sizeof copy[0] * HEIGHT);
    for (int i = 0; i < 2; i++) {
        memcpy(copy[i], plane[0], sizeof copy[i]);
        memcpy(copy[HEIGHT + 2 + i], plane[HEIGHT - 1], sizeof copy[i]);
    }
    for (int y = 0; y < HEIGHT; y++)
        for (int x = 0; x < STRIDE; x++)
            plane[y][x] = (uint16_t)((copy[y + 2][x] * taps.middle +
                                      (copy[y + 1][x] + copy[y + 3][x]) * taps.near +
                                      (copy[y][x] + copy[y + 4][x]) * taps.far + 128) >>
                                     8);
}

static void blur_rows(uint16_t plane[HEIGHT][STRIDE], struct taps taps)
{
    for (int y = 0; y < HEIGHT; y++) {
        uint16_t copy[STRIDE + 4];
        memcpy(copy + 2, plane[y], sizeof plane[y]);
        copy[0] = copy[1] = plane[y][0];
        copy[STRIDE + 2] = copy[STRIDE + 3] = plane[y][STRIDE - 1];
        for (int x = 0; x < STRIDE; x++)
            plane[y][x] =
                (uint16_t)((copy[x + 2] * taps.middle + (copy[x + 1] + copy[x + 3]) * taps.near +
                            (copy[x] + copy[x + 4]) * taps.far + 128) >>
                           8);
    }
}

/* Most pictures are a little out of focus; some have motion blur along or across. */
static void blur(struct coverage *coverage, int hard, struct xt_rng *rng)
{
    int across = draw_between(rng, 0, scaled(480, hard));
    int down = across;
    int motion = draw_between(rng, 0, scaled(500, hard));
    switch (xt_rng_below(rng, 6)) {
    case 0:
        across = motion;
        down /= 2;
        break;
    case 1:
        down = motion * 3 / 4;
        across /= 2;
        break;
    default:
        break;
    }
    if (across) {
        blur_rows(coverage->ink, taps_of(across));
        blur_rows(coverage->plate, taps_of(across));
    }
    if (down) {
        blur_columns(coverage->ink, taps_of(down));
        blur_columns(coverage->plate, taps_of(down));
    }
}

/* --- colour, light, noise ----------------------------------------------------------------------
 */

/* Drawn around the middle of the range; at full distortion from all of it. One common draw moves
 * all channels, a draw per channel separates them. */
static struct colour draw_colour(const struct range *range, int hard, struct xt_rng *rng)
{
    struct colour colour;
    int common = draw_around(rng, scaled(256, hard));
    for (int c = 0; c < CHANNELS; c++) {
        int low = range->low.channel[c];
        int high = range->high.channel[c];
        int place = (common + draw_between(rng, -scaled(256, hard), scaled(256, hard))) / 2;
        colour.channel[c] = (low + high) / 2 + (high - low) * place / 512;
    }
    return colour;
}

struct light {
    struct colour top;    /* background at the first row */
    struct colour bottom; /* and at the last */
    struct colour ink;
    struct colour above; /* surroundings of the plate, at the first row */
    struct colour below;
    struct colour tint; /* gain of a channel; 128 is neutral */
    int haze;           /* added to every channel */
    int shade;          /* brightness in the middle, 128 is full; at most 255 anywhere */
    int shade_x;        /* its gradient from left to right, and from top to bottom */
    int shade_y;
    int noise_grey; /* amplitudes in 1/128 of a level */
    int noise_colour;
};

static void draw_light(const struct palette *palette, int hard, struct xt_rng *rng,
                       struct light *light)
{
    static const struct range around = {{{0, 0, 0}}, {{235, 225, 225}}};
    light->top = draw_colour(&palette->top, hard, rng);
    light->bottom = palette->gradient ? draw_colour(&palette->bottom, hard, rng) : light->top;
    light->ink = draw_colour(&palette->ink, hard, rng);
    light->above = draw_colour(&around, XT_PLATE_HARD_MAX, rng);
    light->below = draw_colour(&around, XT_PLATE_HARD_MAX, rng);
    for (int c = 0; c < CHANNELS; c++)
        light->tint.channel[c] = 128 + draw_around(rng, scaled(48, hard));
    light->haze = draw_between(rng, -scaled(40, hard), scaled(70, hard));
    light->shade = 120 + draw_around(rng, scaled(100, hard));
    light->shade_x = draw_around(rng, scaled(90, hard));
    light->shade_y = draw_around(rng, scaled(90, hard));
    light->noise_grey = draw_between(rng, 0, scaled(22, hard));
    light->noise_colour = draw_between(rng, 0, scaled(14, hard));
}

/* A row of noise: 96 bytes, uniformly distributed. */
static void draw_noise(struct xt_rng *rng, uint8_t noise[STRIDE])
{
    for (int i = 0; i < STRIDE; i += 8) {
        uint64_t word = htole64(xt_rng_next(rng));
        memcpy(noise + i, &word, sizeof word);
    }
}

/* The brightness of each pixel of row y, 128 is full. */
static void shade_row(const struct light *light, int y, uint16_t shade[STRIDE])
{
    int middle = light->shade + light->shade_y * (2 * y + 1 - HEIGHT) / (2 * HEIGHT);
    int step = light->shade_x * 256 / WIDTH;
    int at = middle * 256 - step * WIDTH / 2;
    for (int x = 0; x < STRIDE; x++)
        shade[x] = (uint16_t)clamp_to((at + step * x) >> 8, 20, 255);
}

static int blend_rows(int top, int bottom, int y)
{
    return top + (bottom - top) * y / (HEIGHT - 1);
}

/* One channel of a row. Coverage has 7 bits, so that products fit in 16 bits and vectorise well. */
static void colour_row(const uint16_t ink_row[STRIDE], const uint16_t plate_row[STRIDE],
                       const uint16_t shade[STRIDE], const int16_t noise[STRIDE], int16_t around,
                       int16_t ground, int16_t ink, int16_t haze, int16_t out[STRIDE])
{
    for (int x = 0; x < STRIDE; x++) {
        int16_t level = (int16_t)(around + (int16_t)((ground - around) * plate_row[x]) / FULL);
        level = (int16_t)(level + (int16_t)((ink - level) * ink_row[x]) / FULL);
        uint16_t lit = (uint16_t)((uint16_t)level * shade[x]);
        level = (int16_t)((lit >> 7) + haze + noise[x]);
        out[x] = level < 0 ? 0 : level > 255 ? 255 : level;
    }
}

static void colour(const struct coverage *coverage, const struct light *light, struct xt_rng *rng,
                   uint8_t *pixels)
{
    for (int y = 0; y < HEIGHT; y++) {
        uint16_t shade[STRIDE];
        uint8_t grey[STRIDE];
        int16_t levels[CHANNELS][STRIDE];
        shade_row(light, y, shade);
        draw_noise(rng, grey);
        for (int c = 0; c < CHANNELS; c++) {
            uint8_t own[STRIDE];
            int16_t noise[STRIDE];
            draw_noise(rng, own);
            for (int x = 0; x < STRIDE; x++)
                noise[x] = (int16_t)(((int16_t)((grey[x] - 128) * light->noise_grey) +
                                      (int16_t)((own[x] - 128) * light->noise_colour) + 64) >>
                                     7);
            int tint = light->tint.channel[c];
            int around = blend_rows(light->above.channel[c], light->below.channel[c], y);
            int ground = blend_rows(light->top.channel[c], light->bottom.channel[c], y);
            colour_row(coverage->ink[y], coverage->plate[y], shade, noise,
                       (int16_t)min_of(around * tint / 128, 255),
                       (int16_t)min_of(ground * tint / 128, 255),
                       (int16_t)min_of(light->ink.channel[c] * tint / 128, 255),
                       (int16_t)light->haze, levels[c]);
        }
        for (int x = 0; x < WIDTH; x++)
            for (int c = 0; c < CHANNELS; c++)
                *pixels++ = (uint8_t)levels[c][x];
    }
}

enum xt_status xt_plate_paint(const struct xt_plate_painter *painter, enum xt_plate_style style,
                              const int *glyphs, int hard, struct xt_rng *rng, uint8_t *pixels,
                              struct xt_err *err)
{
    uint8_t plane[PLANE_ROWS][PLANE_STRIDE];
    struct coverage coverage;
    struct point corners[4];
    struct light light;
    bool green = style == XT_PLATE_GREEN;
    int width = layouts[green].width;
    compose(painter, green, glyphs, xt_plate_length(style), hard, rng, plane);
    place_corners(width, hard, rng, corners);
    int bold = 270 + draw_between(rng, -scaled(60, hard), scaled(200, hard));
    view(plane, width, corners, bold, &coverage);
    blur(&coverage, hard, rng);
    draw_light(&palettes[style], hard, rng, &light);
    colour(&coverage, &light, rng, pixels);
    bool jpeg = xt_rng_below(rng, 10) < 3;
    int quality = draw_between(rng, 40, 90);
    return jpeg && hard > 0 ? xt_synth_jpeg(pixels, WIDTH, HEIGHT, quality, err) : XT_OK;
}
