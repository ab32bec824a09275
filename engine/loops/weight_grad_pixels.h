/* 32 pixels as parts of the two matrices of a weight gradient by tiles: on the left rows of a
 * channel each, on the right pairs of pixels side by side; of float32 each summand's (split.h).
 * `pixels` are where they are. For the files of this folder that are built for AMX. */
#pragma once

#ifdef __AMX_BF16__
#include <immintrin.h>

#include "engine/loops/split.h"
#include "engine/loops/weight_grad_tile.h"

enum { PIXELS = XT_TILE_PIXELS };

static inline __m512bh ones(void)
{
    return (__m512bh)_mm512_set1_epi16(0x3F80);
}

XT_INLINE __m128i load_8(const uint16_t *from, __mmask8 mask, bool whole)
{
    return whole ? _mm_loadu_si128((const __m128i *)(const void *)from)
                 : _mm_maskz_loadu_epi16(mask, from);
}

/* 8 channels of 32 pixels become 8 rows of 32 pixels: quarter q of a register has pixels 8q to
 * 8q + 7. */
XT_INLINE void turn(const uint16_t *const *pixels, size_t channel, __mmask8 mask, bool whole,
                    uint16_t *to, size_t stride, float *bias)
{
    __m512i x[8];
    __m512i y[8];
    for (int i = 0; i < 8; i++) {
        x[i] = _mm512_castsi128_si512(load_8(pixels[i] + channel, mask, whole));
        x[i] = _mm512_inserti32x4(x[i], load_8(pixels[8 + i] + channel, mask, whole), 1);
        x[i] = _mm512_inserti32x4(x[i], load_8(pixels[16 + i] + channel, mask, whole), 2);
        x[i] = _mm512_inserti32x4(x[i], load_8(pixels[24 + i] + channel, mask, whole), 3);
    }
    for (int i = 0; i < 8; i += 2) {
        y[i] = _mm512_unpacklo_epi16(x[i], x[i + 1]);
        y[i + 1] = _mm512_unpackhi_epi16(x[i], x[i + 1]);
    }
    if (bias) {
        __m512 low = _mm512_loadu_ps(bias);
        __m512 high = _mm512_loadu_ps(bias + 16);
        for (int i = 0; i < 8; i += 2) {
            low = _mm512_dpbf16_ps(low, (__m512bh)y[i], ones());
            high = _mm512_dpbf16_ps(high, (__m512bh)y[i + 1], ones());
        }
        _mm512_storeu_ps(bias, low);
        _mm512_storeu_ps(bias + 16, high);
    }
    for (int i = 0; i < 8; i += 4)
        for (int k = 0; k < 2; k++) {
            x[i + 2 * k] = _mm512_unpacklo_epi32(y[i + k], y[i + 2 + k]);
            x[i + 2 * k + 1] = _mm512_unpackhi_epi32(y[i + k], y[i + 2 + k]);
        }
    for (size_t i = 0; i < 4; i++) {
        _mm512_storeu_si512(to + 2 * i * stride, _mm512_unpacklo_epi64(x[i], x[i + 4]));
        _mm512_storeu_si512(to + (2 * i + 1) * stride, _mm512_unpackhi_epi64(x[i], x[i + 4]));
    }
}

static inline __mmask8 mask_8(int channels)
{
    return (__mmask8)(channels >= 8 ? 0xFF : channels <= 0 ? 0 : (1 << channels) - 1);
}

/* A pair of pixels side by side. */
XT_INLINE __m512i pair(const uint16_t *const *pixels, size_t channel, __mmask16 mask, bool whole)
{
    static const uint16_t places[PIXELS] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                            21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                            11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    const void *a = pixels[0] + channel;
    const void *b = pixels[1] + channel;
    __m256i low = whole ? _mm256_loadu_si256(a) : _mm256_maskz_loadu_epi16(mask, a);
    __m256i high = whole ? _mm256_loadu_si256(b) : _mm256_maskz_loadu_epi16(mask, b);
    __m512i both = _mm512_inserti64x4(_mm512_castsi256_si512(low), high, 1);
    return _mm512_permutexvar_epi16(_mm512_loadu_si512(places), both);
}

/* The second pixel of a pair and the first of the next one. */
XT_INLINE __m512i pair_between(__m512i before, __m512i behind)
{
    return _mm512_or_si512(_mm512_srli_epi32(before, 16), _mm512_slli_epi32(behind, 16));
}

/* Also the pairs from the second pixel on, to `odd`, unless it is NULL. */
XT_INLINE void pair_tile(const uint16_t *const *pixels, size_t channel, __mmask16 mask, bool whole,
                         uint16_t *to, uint16_t *odd, float *bias)
{
    __m512i last = _mm512_setzero_si512();
    __m512 sum = bias ? _mm512_loadu_ps(bias) : _mm512_setzero_ps();
    for (int i = 0; i < PIXELS; i += 2) {
        __m512i both = pair(pixels + i, channel, mask, whole);
        _mm512_storeu_si512(to + i * CHANNELS, both);
        if (bias)
            sum = _mm512_dpbf16_ps(sum, (__m512bh)both, ones());
        if (odd && i > 0)
            _mm512_storeu_si512(odd + (i - 2) * CHANNELS, pair_between(last, both));
        last = both;
    }
    if (odd) {
        __m256i next = _mm256_maskz_loadu_epi16(mask, pixels[PIXELS] + channel);
        last = pair_between(last, _mm512_cvtepu16_epi32(next));
        _mm512_storeu_si512(odd + (PIXELS - 2) * CHANNELS, last);
    }
    if (bias)
        _mm512_storeu_ps(bias, sum);
}

/* Rows of two tiles of pairs, from a line of two pixels. */
struct two_pairs {
    __m512i first, second;
};

XT_INLINE struct two_pairs pair_line(__m512i a, __m512i b)
{
    const __m512i first = _mm512_setr_epi64(0, 1, 8, 9, 2, 3, 10, 11);
    const __m512i second = _mm512_setr_epi64(4, 5, 12, 13, 6, 7, 14, 15);
    __m512i low = _mm512_unpacklo_epi16(a, b);
    __m512i high = _mm512_unpackhi_epi16(a, b);
    return (struct two_pairs){_mm512_permutex2var_epi64(low, first, high),
                              _mm512_permutex2var_epi64(low, second, high)};
}

/* Also the pairs from the second pixel on, to `odd`, unless it is NULL. */
XT_INLINE void pair_two_tiles(const uint16_t *const *pixels, size_t channel, uint16_t *to,
                              uint16_t *odd, size_t column, float *bias)
{
    __m512 sums[2] = {_mm512_setzero_ps(), _mm512_setzero_ps()};
    for (int i = 0; i < 2 && bias; i++)
        sums[i] = _mm512_loadu_ps(bias + i * CHANNELS);
    for (int i = 0; i < PIXELS; i += 2) {
        __m512i b = _mm512_loadu_si512(pixels[i + 1] + channel);
        struct two_pairs both = pair_line(_mm512_loadu_si512(pixels[i] + channel), b);
        _mm512_storeu_si512(to + i * CHANNELS, both.first);
        _mm512_storeu_si512(to + column + i * CHANNELS, both.second);
        if (bias) {
            sums[0] = _mm512_dpbf16_ps(sums[0], (__m512bh)both.first, ones());
            sums[1] = _mm512_dpbf16_ps(sums[1], (__m512bh)both.second, ones());
        }
        if (!odd)
            continue;
        both = pair_line(b, _mm512_loadu_si512(pixels[i + 2] + channel));
        _mm512_storeu_si512(odd + i * CHANNELS, both.first);
        _mm512_storeu_si512(odd + column + i * CHANNELS, both.second);
    }
    for (int i = 0; i < 2 && bias; i++)
        _mm512_storeu_ps(bias + i * CHANNELS, sums[i]);
}

XT_INLINE const float *floats(const uint16_t *const *pixels, int i)
{
    return (const float *)(const void *)pixels[i];
}

/* 4 channels of every other of 32 pixels: vector k has channel k's. */
XT_INLINE void turn_4(const uint16_t *const *pixels, size_t channel, __mmask8 mask, __m512 to[4])
{
    __m512 x[4];
    for (int i = 0; i < 4; i++) {
        x[i] = _mm512_castps128_ps512(_mm_maskz_loadu_ps(mask, floats(pixels, 2 * i) + channel));
        x[i] = _mm512_insertf32x4(x[i],
                                  _mm_maskz_loadu_ps(mask, floats(pixels, 8 + 2 * i) + channel), 1);
        x[i] = _mm512_insertf32x4(
            x[i], _mm_maskz_loadu_ps(mask, floats(pixels, 16 + 2 * i) + channel), 2);
        x[i] = _mm512_insertf32x4(
            x[i], _mm_maskz_loadu_ps(mask, floats(pixels, 24 + 2 * i) + channel), 3);
    }
    __m512d low[] = {(__m512d)_mm512_unpacklo_ps(x[0], x[1]),
                     (__m512d)_mm512_unpacklo_ps(x[2], x[3])};
    __m512d high[] = {(__m512d)_mm512_unpackhi_ps(x[0], x[1]),
                      (__m512d)_mm512_unpackhi_ps(x[2], x[3])};
    to[0] = (__m512)_mm512_unpacklo_pd(low[0], low[1]);
    to[1] = (__m512)_mm512_unpackhi_pd(low[0], low[1]);
    to[2] = (__m512)_mm512_unpacklo_pd(high[0], high[1]);
    to[3] = (__m512)_mm512_unpackhi_pd(high[0], high[1]);
}

/* Also the pairs from the second pixel on, to `odd`, unless it is NULL. */
XT_INLINE void pair_tile_f32(const uint16_t *const *pixels, size_t channel, __mmask16 mask,
                             size_t summand, uint16_t *to, uint16_t *odd)
{
    __m512i last[XT_SUMMANDS];
    __m512i both[XT_SUMMANDS];
    for (int i = 0; i < PIXELS; i += 2) {
        split_pairs(_mm512_maskz_loadu_ps(mask, floats(pixels, i) + channel),
                    _mm512_maskz_loadu_ps(mask, floats(pixels, i + 1) + channel), both);
        for (size_t s = 0; s < XT_SUMMANDS; s++) {
            _mm512_storeu_si512(to + s * summand + i * CHANNELS, both[s]);
            if (odd && i > 0)
                _mm512_storeu_si512(odd + s * summand + (i - 2) * CHANNELS,
                                    pair_between(last[s], both[s]));
            last[s] = both[s];
        }
    }
    if (!odd)
        return;
    split_pairs(_mm512_maskz_loadu_ps(mask, floats(pixels, PIXELS) + channel), _mm512_setzero_ps(),
                both);
    for (size_t s = 0; s < XT_SUMMANDS; s++)
        _mm512_storeu_si512(odd + s * summand + (PIXELS - 2) * CHANNELS,
                            pair_between(last[s], both[s]));
}

#endif
