/* One part of a 1x1 convolution's weight gradient in bf16 by AVX-512's dot products; the strides
 * are 1, there is no padding (`flat`). weight_grad_job.h says how it is divided.
 *
 * Both matrices become pairs of pixels, channel by channel; a tile of the gradient, some channels
 * of the left matrix by some sixteens of the right one's, stays in registers over a chunk's pairs.
 */
#include "engine/loops/table.h"

#ifdef __AVX512BF16__
#include <string.h>

#include "engine/loops/ahead.h"
#include "engine/loops/weight_grad_tile.h"

enum {
    ROWS = 8, /* of a tile in registers */
    WIDE = 3  /* at most; its sixteens */
};

/* One of the two matrices: sixteens [first, first + tiles) of a pixel's c channels. */
struct matrix {
    const uint16_t *from;
    size_t c;
    int first, tiles;
    uint32_t *pairs; /* by some sixteens at a time, [pairs][sixteens][16] */
    float *bias;     /* sums of the channels; NULL: not of this matrix */
};

struct part {
    const struct xt_weight_grad *job;
    struct matrix left, right;
    float *sums;
    size_t pixels; /* of this chunk, and their pairs, of which the last may have one pixel */
    size_t pairs;
    struct xt_ahead ahead;
};

/* How many of the sixteens that are left are taken at a time. */
static int some_of(int left)
{
    return left == 4 ? 2 : left < WIDE ? left : WIDE;
}

/* One sixteen of channels; of the last one those of `mask`. */
XT_INLINE void pair_tile(struct part *part, const struct matrix *m, const uint16_t *from,
                         uint32_t *to, size_t step, __mmask16 mask, float *bias)
{
    const __m512bh ones = (__m512bh)_mm512_set1_epi16(0x3F80);
    __m512 sum = _mm512_setzero_ps();
    for (size_t i = 0; i < part->pixels; i += 2) {
        __m256i second = i + 1 < part->pixels ? _mm256_maskz_loadu_epi16(mask, from + m->c)
                                              : _mm256_setzero_si256();
        __m512i low = _mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask, from));
        __m512i high = _mm512_slli_epi32(_mm512_cvtepu16_epi32(second), 16);
        __m512i both = _mm512_or_si512(low, high);
        _mm512_storeu_si512(to, both);
        if (bias)
            sum = _mm512_dpbf16_ps(sum, (__m512bh)both, ones);
        from += 2 * m->c;
        to += step;
        fetch(&part->ahead);
    }
    if (bias)
        _mm512_storeu_ps(bias, _mm512_add_ps(_mm512_loadu_ps(bias), sum));
}

/* `wide` sixteens at a time at most. */
static void pair_up(struct part *part, const struct matrix *m, size_t pixel, int wide)
{
    for (int t = 0, some = 0; t < m->tiles; t += some) {
        some = some_of(m->tiles - t) < wide ? some_of(m->tiles - t) : wide;
        uint32_t *to = m->pairs + (size_t)(t * CHANNELS) * part->pairs;
        for (int v = 0; v < some; v++) {
            size_t k = (size_t)(m->first + t + v) * CHANNELS;
            pair_tile(part, m, m->from + pixel * m->c + k, to + v * CHANNELS,
                      (size_t)(some * CHANNELS), tile_mask((int)(m->c - k)),
                      m->bias ? m->bias + k : NULL);
        }
    }
}

/* Adds ROWS channels of the left matrix by `wide` sixteens of the right one to `to`. */
XT_INLINE void add_tile(size_t pairs, const uint32_t *left, const uint32_t *right,
                        float *const to[WIDE], int wide)
{
    __m512 sums[ROWS][WIDE];
    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < wide; v++)
            sums[r][v] = _mm512_setzero_ps();
    for (size_t i = 0; i < pairs; i++) {
        __m512bh g[WIDE];
        for (int v = 0; v < wide; v++)
            g[v] = (__m512bh)_mm512_loadu_si512(right + v * CHANNELS);
#pragma GCC unroll 8
        for (int r = 0; r < ROWS; r++) {
            __m512bh one = (__m512bh)_mm512_set1_epi32((int)left[r]);
            for (int v = 0; v < wide; v++)
                sums[r][v] = _mm512_dpbf16_ps(sums[r][v], one, g[v]);
        }
        left += CHANNELS;
        right += wide * CHANNELS;
    }
    for (int r = 0; r < ROWS; r++)
        for (int v = 0; v < wide; v++) {
            float *at = to[v] + r * CHANNELS;
            _mm512_storeu_ps(at, _mm512_add_ps(_mm512_loadu_ps(at), sums[r][v]));
        }
}

/* A tile of the gradient's 16 by 16. */
static float *sums_at(const struct part *part, int left, int right)
{
    const struct xt_weight_grad *job = part->job;
    size_t l = (size_t)(part->left.first + left);
    size_t r = (size_t)(part->right.first + right);
    size_t tile = job->turned ? l * (size_t)job->right_tiles + r : r * (size_t)job->left_tiles + l;
    return part->sums + tile * SUMS;
}

/* All of the left matrix's channels by `wide` sixteens of the right one. */
XT_INLINE void multiply(const struct part *part, int tile, int wide)
{
    const struct matrix *left = &part->left;
    const uint32_t *right = part->right.pairs + (size_t)(tile * CHANNELS) * part->pairs;
    size_t channels = left->c - (size_t)(left->first * CHANNELS);
    for (int row = 0; row < left->tiles * CHANNELS && (size_t)row < channels; row += ROWS) {
        int place = row % CHANNELS;
        float *to[WIDE];
        for (int v = 0; v < wide; v++)
            to[v] = sums_at(part, row / CHANNELS, tile + v) + place * CHANNELS;
        add_tile(part->pairs, left->pairs + (size_t)(row - place) * part->pairs + place, right, to,
                 wide);
    }
}

static void add_chunk(struct part *part, size_t first, size_t end)
{
    part->pixels = end - first;
    part->pairs = (part->pixels + 1) / 2;
    pair_up(part, &part->left, first, 1);
    pair_up(part, &part->right, first, WIDE);
    for (int t = 0, some = 0; t < part->right.tiles; t += some) {
        some = some_of(part->right.tiles - t);
        if (some == 3)
            multiply(part, t, 3);
        else if (some == 2)
            multiply(part, t, 2);
        else
            multiply(part, t, 1);
    }
}

static void clear_sums(const struct part *part)
{
    for (int l = 0; l < part->left.tiles; l++)
        for (int r = 0; r < part->right.tiles; r++)
            memset(sums_at(part, l, r), 0, SUMS * sizeof(float));
}

static struct matrix matrix_of(const struct xt_weight_grad *job, int share, bool is_left,
                               void *pairs)
{
    bool out = job->turned == is_left;
    struct matrix m = {.from = out ? job->out_grad : job->in,
                       .c = (size_t)(out ? job->out_c : job->in_c),
                       .pairs = pairs};
    m.tiles = xt_weight_grad_share(job, share, is_left, &m.first);
    return m;
}

void XT_LOOPS_NAME(weight_grad_bf16)(const struct xt_weight_grad *job, int number)
{
    char *scratch = (char *)job->scratch + (size_t)number * job->part_bytes;
    int share = number % job->shares;
    struct part part = {.job = job,
                        .left = matrix_of(job, share, true, scratch),
                        .right = matrix_of(job, share, false, scratch + job->right_at),
                        .sums = xt_weight_grad_sums(job, number / job->shares)};
    if (!job->adds) {
        memset(scratch + job->bias_at, 0, job->part_bytes - job->bias_at);
        clear_sums(&part);
    }
    if (job->bias_grad && (share == 0 || job->turned == job->shares_left))
        *(job->turned ? &part.left.bias : &part.right.bias) = xt_weight_grad_bias(job, number);
    int unit = 0;
    int end = xt_weight_grad_units(job, number, &unit);
    for (int next = 0; unit < end; unit = next) {
        next = end - unit < job->chunk_units ? end : unit + job->chunk_units;
        size_t turns = (size_t)((next - unit) * XT_TILE_PIXELS / 2);
        turns *= (size_t)(part.left.tiles + part.right.tiles);
        look_ahead(&part.ahead, job, next,
                   end - next < job->chunk_units ? end : next + job->chunk_units, turns);
        add_chunk(&part, xt_weight_grad_pixel(job, false, unit),
                  xt_weight_grad_pixel(job, false, next));
    }
}

#endif
