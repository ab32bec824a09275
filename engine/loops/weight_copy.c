/* Reorders weights for AMX kernels, in blocks of 16 by 16 numbers, of which each row of pairs
 * becomes a cache line. Stores are non-temporal: a copy is read only after all others have been
 * written. */
#include <string.h>

#include "engine/loops/element.h"
#include "engine/loops/past.h"
#include "engine/loops/table.h"

enum { BLOCK = 16, PAIRS = BLOCK / 2, NUMBERS = BLOCK * BLOCK };

typedef uint32_t line __attribute__((vector_size(BLOCK * sizeof(uint32_t))));

/* Interleaves two rows to one of pairs, `count` times. */
static void pair_rows(const float *restrict from, uint32_t *restrict to, size_t stride,
                      size_t count)
{
    for (size_t j = 0; j < count; j++) {
        const float *row = from + 2 * j * BLOCK;
        line pairs;
#pragma omp simd
        for (size_t k = 0; k < BLOCK; k++)
            pairs[k] = xt_bf16_pair(row[k], row[BLOCK + k]);
        write_line_past(to + j * stride, &pairs);
    }
}

/* Interleaves columns: each round sorts by one more bit of the column. */
static void pair_columns(const float *restrict from, uint32_t *restrict to, size_t stride,
                         size_t count)
{
    enum { ROUNDS = 3 };
    line lines[PAIRS];
    line sorted[PAIRS];
    uint32_t pairs[NUMBERS / 2];
#pragma omp simd
    for (size_t i = 0; i < NUMBERS / 2; i++)
        pairs[i] = xt_bf16_pair(from[2 * i], from[2 * i + 1]);
    memcpy(lines, pairs, sizeof lines);
    for (int round = 0; round < ROUNDS; round++) {
        for (size_t i = 0; i < PAIRS / 2; i++) {
            line a = lines[2 * i];
            line b = lines[2 * i + 1];
            sorted[i] = __builtin_shufflevector(a, b, 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24,
                                                26, 28, 30);
            sorted[i + PAIRS / 2] = __builtin_shufflevector(a, b, 1, 3, 5, 7, 9, 11, 13, 15, 17, 19,
                                                            21, 23, 25, 27, 29, 31);
        }
        memcpy(lines, sorted, sizeof lines);
    }
    for (size_t j = 0; j < count; j++)
        write_line_past(to + j * stride, &lines[j]);
}

/* `count` rows of pairs of a block. */
static void copy_block(const struct xt_weight_copy *copy, const float *from, uint32_t *to,
                       size_t count)
{
    if (copy->out_is_row == copy->out_is_wide)
        pair_columns(from, to, (size_t)copy->wide, count);
    else
        pair_rows(from, to, (size_t)copy->wide, count);
}

static void copy_summands(const struct xt_weight_copy *copy, const float *from, uint32_t *to,
                          size_t count)
{
    size_t summand = xt_weight_copy_summand(copy);
    float rest[NUMBERS];
    memcpy(rest, from, sizeof rest);
    for (int i = 0; i < copy->summands; i++, to += summand) {
        copy_block(copy, rest, to, count);
#pragma omp simd
        for (size_t k = 0; k < NUMBERS; k++)
            rest[k] = xt_bf16_rest(rest[k]);
    }
}

/* The lower half of the last tile of each tap of a summand, for which there is no block. */
static void clear_half_tiles(const struct xt_weight_copy *copy, uint32_t *end)
{
    static const line zeros;
    size_t half = PAIRS * (size_t)copy->wide;
    for (int tap = 1; tap <= copy->taps; tap++)
        for (uint32_t *to = end - (size_t)(2 * tap - 1) * half;
             to < end - (size_t)(2 * tap - 2) * half; to += BLOCK)
            write_line_past(to, &zeros);
}

static void clear_spares(const struct xt_weight_copy *copy)
{
    static const line zeros;
    int paired = copy->out_is_wide ? copy->in : copy->out;
    size_t summand = xt_weight_copy_summand(copy);
    size_t spare = (size_t)copy->spare * (size_t)copy->wide;
    size_t all = xt_weight_copy_panels(copy) * xt_weight_copy_panel(copy);
    for (size_t end = summand; end <= all; end += summand) {
        for (size_t i = end - spare; i < end; i += BLOCK)
            write_line_past(copy->to + i, &zeros);
        if (copy->by_tiles && (paired + BLOCK - 1) / BLOCK % 2)
            clear_half_tiles(copy, copy->to + end);
    }
}

/* Where a block's first row of pairs goes in its panel, in rows. */
XT_INLINE size_t place_of(const struct xt_weight_copy *copy, size_t tap, size_t pair)
{
    enum { TILE = 16 };
    size_t taps = (size_t)copy->taps;
    return copy->by_tiles ? (pair / TILE * taps + tap) * TILE + pair % TILE
                          : tap * xt_weight_copy_pairs(copy) + pair;
}

void XT_LOOPS_NAME(copy_weights)(const struct xt_weight_copy *copy, size_t first, size_t end)
{
    enum { AHEAD = 4 * NUMBERS, LINE = 16 };
    size_t taps = (size_t)copy->taps;
    size_t row_blocks = ((size_t)copy->in + BLOCK - 1) / BLOCK * taps;
    size_t stride = (size_t)copy->wide;
    size_t pairs = xt_weight_copy_pairs(copy);
    size_t panel = xt_weight_copy_panel(copy);
    for (size_t i = first; i < end; i++) {
        const float *from = copy->from + i * NUMBERS;
        size_t row = i / row_blocks;
        size_t column = i % row_blocks / taps;
        size_t wide = (copy->out_is_wide ? row : column) * BLOCK;
        size_t pair = (copy->out_is_wide ? column : row) * PAIRS;
        size_t count = pairs - pair < PAIRS ? pairs - pair : PAIRS;
        uint32_t *to = copy->to + wide / stride * panel + place_of(copy, i % taps, pair) * stride +
                       wide % stride;
        for (size_t k = 0; k < NUMBERS; k += LINE)
            __builtin_prefetch(from + AHEAD + k);
        if (copy->summands > 1)
            copy_summands(copy, from, to, count);
        else
            copy_block(copy, from, to, count);
    }
    if (first == 0)
        clear_spares(copy);
    end_writing_past();
}
