/* Winograd's 3x3 convolutions of int8 (winograd_job.h) by AVX2, in whole numbers: transformed
 * inputs and weights fit in 16 bits, pairs of them are multiplied and added in 32.
 *
 * The output transform has fractions, which scaled weights avoid: it gives the sum times 64 * 9, of
 * F(2x2, 3x3) times 4. It may exceed 32 bits and is right modulo 2^32 all the same; there a
 * multiplication by the inverse of 9 divides it by 9. A sum that then fits in 32 bits times 64 is
 * exact.
 */
#include "engine/loops/table.h"

#ifdef XT_LOOPS_HAVE_WINOGRAD_INT8
#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#include "engine/loops/winograd_tiles.h"

enum {
    SHORTS = 16,      /* of a vector */
    LANES = 8,        /* sums of a vector */
    PAIR = 2 * LANES, /* columns of a product, in registers */
    ROWS = 6,         /* of a product, in registers */
    FEW_ROWS = 4,     /* with fewer, sums wait for each other */
    TAPS_SIDE = 3,
    TAPS = TAPS_SIDE * TAPS_SIDE,
    LINE = 64,
    INVERSE_OF_9 = 0x38E38E39 /* modulo 2^32 */
};

typedef int16_t shorts __attribute__((vector_size(32)));
/* Unsigned: they wrap around. */
typedef uint32_t words __attribute__((vector_size(32)));

/* ---- inputs ---- */

/* The input transform along a side, by the points 0, +-1, of six also +-2, and infinity. */
XT_INLINE void transform_input(const shorts from[SIDE], shorts to[SIDE], int side)
{
    if (side != SIDE) {
        to[0] = from[0] - from[2];
        to[1] = from[1] + from[2];
        to[2] = from[2] - from[1];
        to[3] = from[3] - from[1];
        return;
    }
    shorts near = from[3] - 4 * from[1];
    shorts near_even = from[4] - 4 * from[2];
    shorts far = 2 * (from[3] - from[1]);
    shorts far_even = from[4] - from[2];
    to[0] = 4 * (from[0] - from[2]) + far_even;
    to[1] = near_even + near;
    to[2] = near_even - near;
    to[3] = far_even + far;
    to[4] = far_even - far;
    to[5] = from[5] - from[3] - 2 * far;
}

/* Channels [k, k + SHORTS) of a tile; meanwhile the next one's pixels are fetched. */
XT_INLINE void transform_tile(const void *const *pixels, const void *const *next, int k, int side,
                              size_t place, float *to)
{
    shorts columns[SIDE][SIDE];
    shorts line[SIDE];
    for (int x = 0; x < side; x++) {
        shorts column[SIDE];
        for (int y = 0; y < side; y++) {
            const uint8_t *from = (const uint8_t *)pixels[side * y + x] + k;
            column[y] = (shorts)_mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)from));
            if (k % LINE == 0)
                __builtin_prefetch((const uint8_t *)next[side * y + x] + k);
        }
        transform_input(column, line, side);
        for (int y = 0; y < side; y++)
            columns[y][x] = line[y];
    }
    for (int y = 0; y < side; y++) {
        transform_input(columns[y], line, side);
        for (int x = 0; x < side; x++)
            _mm256_store_si256((void *)(to + (size_t)(side * y + x) * place), (__m256i)line[x]);
    }
}

XT_INLINE void transform_inputs(const struct chunk *chunk, const struct images *in,
                                const int pads[2], const void *zeros, float *sums,
                                enum xt_winograd_form form)
{
    int side = xt_winograd_high(form);
    int pairs = in->c / 2;
    struct walk walk = {
        chunk, in, form, -pads[0], -pads[1], side, side, zeros, corner_of(chunk, 0, form)};
    find_tile(&walk, 0);
    for (int i = 0; i < chunk->count; i++) {
        find_tile(&walk, i + 1);
        float *to = sums + tile_of(i, pairs, side * side);
        for (int k = 0; k < in->c; to += step_of(k / 2, SHORTS / 2), k += SHORTS)
            transform_tile(walk.found[i % 2], walk.found[(i + 1) % 2], k, side, place_of(pairs),
                           to);
    }
}

/* ---- weights ---- */

/* Two rows of the weight transform along a side: 0 and the last, 1 and 2, 3 and 4. */
XT_INLINE void transform_taps(const shorts taps[TAPS_SIDE], int two, int side, shorts to[2])
{
    bool is_six = side == SIDE;
    shorts ends = taps[0] + taps[2];
    shorts far_ends = taps[0] + 4 * taps[2];
    if (two == 0) {
        to[0] = is_six ? 6 * taps[0] : 2 * taps[0];
        to[1] = is_six ? 8 * taps[2] : 2 * taps[2];
    } else if (two == 1) {
        to[0] = is_six ? -4 * (ends + taps[1]) : ends + taps[1];
        to[1] = is_six ? -4 * (ends - taps[1]) : ends - taps[1];
    } else {
        to[0] = far_ends + 2 * taps[1];
        to[1] = far_ends - 2 * taps[1];
    }
}

XT_INLINE int row_of(int two, int i, int side)
{
    return two ? 2 * two - 1 + i : i * (side - 1);
}

/* Places of the weights are [pairs][PAIR]; a line behind them keeps the places of a pair of
 * channels in different L1 sets. */
XT_INLINE size_t weights_of(int pairs)
{
    return (size_t)(pairs + 1) * PAIR;
}

/* Two rows of places, for PAIR output channels. */
XT_INLINE void transform_weights(const int8_t *taps, int pairs, int two, int side, float *to)
{
    for (int k = 0; k < 2 * pairs; k++, to += LANES) {
        const int8_t *from = taps + (size_t)(k / 2) * 2 * TAPS * PAIR + (size_t)(k % 2) * SHORTS;
        shorts rows[2][TAPS_SIDE];
        shorts both[2];
        for (int x = 0; x < TAPS_SIDE; x++) {
            shorts column[TAPS_SIDE];
            for (int y = 0; y < TAPS_SIDE; y++)
                column[y] = (shorts)_mm256_cvtepi8_epi16(
                    _mm_loadu_si128((const void *)(from + (size_t)(TAPS_SIDE * y + x) * 2 * PAIR)));
            transform_taps(column, two, side, both);
            rows[0][x] = both[0];
            rows[1][x] = both[1];
        }
        for (int i = 0; i < side; i++) {
            transform_taps(rows[i % 2], i / 2, side, both);
            for (int end = 0; end < 2; end++)
                _mm256_store_si256((void *)(to + (size_t)(i % 2 * side + row_of(i / 2, end, side)) *
                                                     weights_of(pairs)),
                                   (__m256i)both[end]);
        }
    }
}

/* ---- products ---- */

/* Rows of cells times PAIR columns of weights. Meanwhile the next place's rows are fetched. */
XT_INLINE void multiply(const float *rows, int pairs, const float *weights, float *to, int count)
{
    __m256i sums[ROWS][2];
    for (int r = 0; r < count; r++)
        sums[r][0] = sums[r][1] = _mm256_setzero_si256();
    for (int k = 0; k < pairs; k += WIDE, rows += CELL)
#pragma GCC unroll 2
        for (int i = 0; i < WIDE; i++, weights += PAIR) {
            __m256i left = _mm256_load_si256((const void *)weights);
            __m256i right = _mm256_load_si256((const void *)(weights + LANES));
            __builtin_prefetch(rows + place_of(pairs) + i * count);
            for (int r = 0; r < count; r++) {
                __m256i one = (__m256i)_mm256_broadcast_ss(rows + r * WIDE + i);
                sums[r][0] = _mm256_add_epi32(sums[r][0], _mm256_madd_epi16(one, left));
                sums[r][1] = _mm256_add_epi32(sums[r][1], _mm256_madd_epi16(one, right));
            }
        }
    for (int r = 0; r < count; r++) {
        _mm256_store_si256((void *)(to + r * WIDE), sums[r][0]);
        _mm256_store_si256((void *)(to + r * WIDE + LANES), sums[r][1]);
    }
}

/* Up to three rows after the last tile are multiplied too; their results are not read. */
static void multiply_place(const float *sums, int pairs, const float *weights, float *to, int count,
                           int places)
{
    for (int i = 0; i < count; i += TILES) {
        const float *rows = sums + block_of(i, pairs, places);
        float *products = to + block_of(i, PANELS, places);
        int tiles = count - i < TILES ? count - i : TILES;
        int r = 0;
        for (; r + ROWS <= tiles + 1; r += ROWS)
            multiply(rows + r * WIDE, pairs, weights, products + r * WIDE, ROWS);
        for (; r < tiles; r += FEW_ROWS)
            multiply(rows + r * WIDE, pairs, weights, products + r * WIDE, FEW_ROWS);
    }
}

/* The products of PAIR output channels. Their weights are transformed by two rows of places, which
 * fit in L2. */
XT_INLINE void multiply_column(const float *sums, int pairs, const int8_t *taps, float *products,
                               int count, int side, float *weights)
{
    for (int two = 0; two < side / 2; two++) {
        transform_weights(taps, pairs, two, side, weights);
        for (int i = 0; i < 2 * side; i++) {
            size_t place = (size_t)(side * row_of(two, i / side, side) + i % side);
            multiply_place(sums + place * place_of(pairs), pairs,
                           weights + (size_t)i * weights_of(pairs),
                           products + place * place_of(PANELS), count, side * side);
        }
    }
}

/* ---- outputs ---- */

/* The output transform along a side. */
XT_INLINE void transform_output(const words from[SIDE], words to[LARGE], int side)
{
    words sum = from[1] + from[2];
    words difference = from[1] - from[2];
    if (side != SIDE) {
        to[0] = from[0] + sum;
        to[1] = difference + from[3];
        return;
    }
    words far_sum = from[3] + from[4];
    words far_difference = 2 * (from[3] - from[4]);
    to[0] = from[0] + sum + far_sum;
    to[1] = difference + far_difference;
    to[2] = sum + 4 * far_sum;
    to[3] = difference + 4 * far_difference + 3 * from[5];
}

XT_INLINE __m256i sums_of(words transformed, int side)
{
    return side == SIDE ? _mm256_srai_epi32((__m256i)(transformed * INVERSE_OF_9), 6)
                        : _mm256_srai_epi32((__m256i)transformed, 2);
}

/* What turns sums of LANES channels into bytes. */
struct ending {
    __m256 scale, bias, residual_scale;
    bool adds, residual_signed, out_signed;
};

XT_INLINE void write_output(const struct ending *ending, __m256i sums, uint8_t *to)
{
    const __m256 most = _mm256_set1_ps(UINT8_MAX); /* what is far more would not convert */
    __m256 value = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sums), ending->scale, ending->bias);
    if (ending->adds) {
        __m128i bytes = _mm_loadl_epi64((const void *)to);
        __m256i before =
            ending->residual_signed ? _mm256_cvtepi8_epi32(bytes) : _mm256_cvtepu8_epi32(bytes);
        value = _mm256_fmadd_ps(_mm256_cvtepi32_ps(before), ending->residual_scale, value);
    }
    __m256i whole = _mm256_cvtps_epi32(_mm256_min_ps(value, most));
    __m128i halves =
        _mm_packs_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
    _mm_storel_epi64((void *)to, ending->out_signed ? _mm_packs_epi16(halves, halves)
                                                    : _mm_packus_epi16(halves, halves));
}

/* Channels [k, end) of the chunk's outputs. */
XT_INLINE void write_outputs(const struct xt_winograd *job, const struct chunk *chunk,
                             const float *products, int k, int end, enum xt_winograd_form form)
{
    size_t c = (size_t)job->out_c;
    int side = xt_winograd_high(form);
    int tile = xt_winograd_forms[form].tile_h;
    struct ending ending = {.residual_scale = _mm256_set1_ps(job->residual_scale),
                            .adds = job->adds,
                            .residual_signed = job->residual_signed,
                            .out_signed = job->out_signed};
    struct corner corner = corner_of(chunk, 0, form);
    for (int i = 0; i < chunk->count; i++, corner = corner_after(chunk, corner, form)) {
        uint8_t *to = (uint8_t *)job->out + pixel_of(chunk, corner) * c;
        const float *from = products + tile_of(i, PANELS, side * side);
        for (int channel = k; channel < end;
             from += step_of(channel - k, LANES), channel += LANES) {
            words columns[LARGE][SIDE];
            words line[LARGE];
            ending.scale = _mm256_loadu_ps(job->scale + channel);
            ending.bias = _mm256_loadu_ps(job->bias + channel);
            for (int x = 0; x < side; x++) {
                words places[SIDE];
                for (int y = 0; y < side; y++)
                    places[y] = (words)_mm256_load_si256(
                        (const void *)(from + (size_t)(side * y + x) * place_of(PANELS)));
                transform_output(places, line, side);
                for (int y = 0; y < tile; y++)
                    columns[y][x] = line[y];
            }
            for (int y = 0; y < tile && corner.y + y < chunk->h; y++) {
                transform_output(columns[y], line, side);
                for (int x = 0; x < tile && corner.x + x < chunk->w; x++)
                    write_output(&ending, sums_of(line[x], side),
                                 to + (size_t)(y * chunk->w + x) * c + channel);
            }
        }
    }
}

XT_INLINE void convolve(const struct xt_winograd *job, int part, float *scratch,
                        enum xt_winograd_form form)
{
    int side = xt_winograd_high(form);
    int pairs = job->in_c / 2;
    size_t taps = (size_t)job->in_c * TAPS;
    float *zeros = scratch;
    float *sums = zeros + zeros_of(job->in_c);
    float *products = sums + block_of(XT_WINOGRAD_FEW, pairs, side * side);
    float *weights = products + block_of(XT_WINOGRAD_FEW, PANELS, side * side);
    struct images in = {job->h, job->w, job->in_c, XT_U8, job->in};
    struct chunk chunk = {.h = xt_winograd_out_h(form, job->h, job->pads),
                          .w = xt_winograd_out_w(form, job->w, job->pads)};
    const struct share share = share_of(job, part, &chunk, form);
    memset(zeros, 0, zeros_of(job->in_c) * sizeof *zeros);
    for (chunk.first = share.first; chunk.first < share.end; chunk.first += XT_WINOGRAD_FEW) {
        int rest = share.end - chunk.first;
        chunk.count = rest < XT_WINOGRAD_FEW ? rest : XT_WINOGRAD_FEW;
        transform_inputs(&chunk, &in, job->pads, zeros, sums, form);
        for (int k = share.panel; k < share.last; k += AT_ONCE) {
            int to = k + AT_ONCE < share.last ? k + AT_ONCE : share.last;
            for (int column = k * WIDE; column < to * WIDE; column += PAIR) {
                int at = column - k * WIDE;
                multiply_column(sums, pairs, (const int8_t *)job->weights + (size_t)column * taps,
                                products + at / WIDE * CELL + at % WIDE, chunk.count, side,
                                weights);
            }
            write_outputs(job, &chunk, products, k * WIDE, to * WIDE, form);
        }
    }
}

void XT_LOOPS_NAME(winograd_int8)(const struct xt_winograd *job, int part, float *scratch)
{
    if (job->form == XT_WINOGRAD_LARGE)
        convolve(job, part, scratch, XT_WINOGRAD_LARGE);
    else
        convolve(job, part, scratch, XT_WINOGRAD_SMALL);
}

#endif
