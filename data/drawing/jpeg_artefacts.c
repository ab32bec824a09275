#include "data/drawing/jpeg_artefacts.h"

enum {
    BLOCK = 8,
    MCU = 16,
    BASIS_BITS = 13, /* fraction bits of the cosines */
    EXTRA_BITS = 3,  /* fraction bits kept between two passes, and until quantisation */
};

struct quantiser {
    int step[BLOCK * BLOCK];
};

static const uint8_t luma_steps[BLOCK * BLOCK] = {
    16, 11, 10, 16, 24,  40,  51,  61,  12, 12, 14, 19, 26,  58,  60,  55,
    14, 13, 16, 24, 40,  57,  69,  56,  14, 17, 22, 29, 51,  87,  80,  62,
    18, 22, 37, 56, 68,  109, 103, 77,  24, 35, 55, 64, 81,  104, 113, 92,
    49, 64, 78, 87, 103, 121, 120, 101, 72, 92, 95, 98, 112, 100, 103, 99};

static const uint8_t chroma_steps[BLOCK * BLOCK] = {
    17, 18, 24, 47, 99, 99, 99, 99, 18, 21, 26, 66, 99, 99, 99, 99, 24, 26, 56, 99, 99, 99,
    99, 99, 47, 66, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99,
    99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99, 99};

/* The orthonormal 8-point cosines, split by symmetry: even[k][n] is row 2k, odd[k][n] row 2k + 1,
 * for the first four samples. */
static const int16_t even[4][4] = {{2896, 2896, 2896, 2896},
                                   {3784, 1567, -1567, -3784},
                                   {2896, -2896, -2896, 2896},
                                   {1567, -3784, 3784, -1567}};
static const int16_t odd[4][4] = {{4017, 3406, 2276, 799},
                                  {3406, -799, -4017, -2276},
                                  {2276, -4017, 799, 3406},
                                  {799, -2276, 3406, -4017}};

static void quantiser_init(struct quantiser *quantiser, const uint8_t *steps, int quality)
{
    int scale = quality < 50 ? 5000 / quality : 200 - 2 * quality;
    for (int i = 0; i < BLOCK * BLOCK; i++) {
        int step = (steps[i] * scale + 50) / 100;
        quantiser->step[i] = step < 1 ? 1 : step > 255 ? 255 : step;
    }
}

static int round_shift(int value, int bits)
{
    return (value + (1 << (bits - 1))) >> bits;
}

static void forward(int *values, int stride, int bits)
{
    int sum[4];
    int difference[4];
    for (int n = 0; n < 4; n++) {
        sum[n] = values[n * stride] + values[(7 - n) * stride];
        difference[n] = values[n * stride] - values[(7 - n) * stride];
    }
    for (int k = 0; k < 4; k++) {
        int e = 0;
        int o = 0;
        for (int n = 0; n < 4; n++) {
            e += sum[n] * even[k][n];
            o += difference[n] * odd[k][n];
        }
        values[2 * k * stride] = round_shift(e, bits);
        values[(2 * k + 1) * stride] = round_shift(o, bits);
    }
}

static void inverse(int *values, int stride, int bits)
{
    int e[4] = {0};
    int o[4] = {0};
    for (int k = 0; k < 4; k++)
        for (int n = 0; n < 4; n++) {
            e[n] += values[2 * k * stride] * even[k][n];
            o[n] += values[(2 * k + 1) * stride] * odd[k][n];
        }
    for (int n = 0; n < 4; n++) {
        values[n * stride] = round_shift(e[n] + o[n], bits);
        values[(7 - n) * stride] = round_shift(e[n] - o[n], bits);
    }
}

/* To the nearest multiple of the step, halves away from zero, as a coder does. */
static int quantise(int value, int step)
{
    int size = value < 0 ? -value : value;
    int fine = step << EXTRA_BITS;
    if (2 * size < fine)
        return 0;
    int level = (size + fine / 2) / fine * step;
    return value < 0 ? -level : level;
}

/* One block of samples around zero, there and back. */
static void lose(int *block, const struct quantiser *quantiser)
{
    for (int row = 0; row < BLOCK; row++)
        forward(block + row * BLOCK, 1, BASIS_BITS - EXTRA_BITS);
    for (int column = 0; column < BLOCK; column++)
        forward(block + column, BLOCK, BASIS_BITS);
    for (int i = 0; i < BLOCK * BLOCK; i++)
        block[i] = quantise(block[i], quantiser->step[i]);
    for (int column = 0; column < BLOCK; column++)
        inverse(block + column, BLOCK, BASIS_BITS - EXTRA_BITS);
    for (int row = 0; row < BLOCK; row++)
        inverse(block + row * BLOCK, 1, BASIS_BITS + EXTRA_BITS);
}

static int clamp_to(int value, int low, int high)
{
    return value < low ? low : value > high ? high : value;
}

/* A unit of 16 x 16 pixels: four blocks of luma, one each of blue and red difference. */
struct unit {
    int luma[4][BLOCK * BLOCK];
    int blue[BLOCK * BLOCK];
    int red[BLOCK * BLOCK];
};

static int *luma_at(struct unit *unit, int x, int y)
{
    int block = y / BLOCK * 2 + x / BLOCK;
    return &unit->luma[block][y % BLOCK * BLOCK + x % BLOCK];
}

/* Pixels beyond the image repeat its last ones; chroma there repeats its last pair of rows. */
static void load(struct unit *unit, const uint8_t *pixels, int width, int height, int left, int top)
{
    const int last_pair = (height - 1) / 2 * 2;
    for (int i = 0; i < BLOCK * BLOCK; i++)
        unit->blue[i] = unit->red[i] = 0;
    for (int y = 0; y < MCU; y++) {
        int pair = clamp_to(top + y, 0, last_pair + y % 2);
        const uint8_t *row = pixels + (long)clamp_to(top + y, 0, height - 1) * width * 3;
        const uint8_t *coarse = pixels + (long)clamp_to(pair, 0, height - 1) * width * 3;
        for (int x = 0; x < MCU; x++) {
            long column = clamp_to(left + x, 0, width - 1) * 3;
            const uint8_t *p = row + column;
            *luma_at(unit, x, y) = round_shift(19595 * p[0] + 38470 * p[1] + 7471 * p[2], 16) - 128;
            p = coarse + column;
            int half = y / 2 * BLOCK + x / 2;
            unit->blue[half] += -11059 * p[0] - 21709 * p[1] + 32768 * p[2];
            unit->red[half] += 32768 * p[0] - 27439 * p[1] - 5329 * p[2];
        }
    }
    for (int i = 0; i < BLOCK * BLOCK; i++) {
        unit->blue[i] = round_shift(unit->blue[i], 18);
        unit->red[i] = round_shift(unit->red[i], 18);
    }
}

static void store(struct unit *unit, uint8_t *pixels, int width, int height, int left, int top)
{
    for (int y = 0; y < MCU && top + y < height; y++)
        for (int x = 0; x < MCU && left + x < width; x++) {
            uint8_t *p = pixels + ((long)(top + y) * width + left + x) * 3;
            int luma = *luma_at(unit, x, y) + 128;
            int blue = unit->blue[y / 2 * BLOCK + x / 2];
            int red = unit->red[y / 2 * BLOCK + x / 2];
            p[0] = (uint8_t)clamp_to(luma + round_shift(91881 * red, 16), 0, 255);
            p[1] = (uint8_t)clamp_to(luma - round_shift(22554 * blue + 46802 * red, 16), 0, 255);
            p[2] = (uint8_t)clamp_to(luma + round_shift(116130 * blue, 16), 0, 255);
        }
}

void xt_synth_jpeg(uint8_t *pixels, int width, int height, int quality)
{
    struct quantiser luma;
    struct quantiser chroma;
    quantiser_init(&luma, luma_steps, quality);
    quantiser_init(&chroma, chroma_steps, quality);
    for (int top = 0; top < height; top += MCU)
        for (int left = 0; left < width; left += MCU) {
            struct unit unit;
            load(&unit, pixels, width, height, left, top);
            for (int block = 0; block < 4; block++)
                if (top + block / 2 * BLOCK < height && left + block % 2 * BLOCK < width)
                    lose(unit.luma[block], &luma);
            lose(unit.blue, &chroma);
            lose(unit.red, &chroma);
            store(&unit, pixels, width, height, left, top);
        }
}
