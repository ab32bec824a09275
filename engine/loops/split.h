/* Splits numbers of float32 into summands of bf16 (summands.h). For the files of this folder that
 * are built for AMX. */
#pragma once

#ifdef __AMX_BF16__
#include <immintrin.h>

#include "engine/loops/element.h"
#include "engine/loops/summands.h"

/* Of the words of two vectors the upper ones. */
static const _Alignas(64) uint16_t upper_halves[XT_SPLIT] = {
    1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31,
    33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63};

/* The nearest number of bf16, ties away from zero. */
XT_INLINE __m512 round_to_bf16(__m512 value)
{
    __m512i sum = _mm512_add_epi32((__m512i)value, _mm512_set1_epi32(0x8000));
    return (__m512)_mm512_and_si512(sum, _mm512_set1_epi32((int)0xFFFF0000));
}

/* What rounding left out, of which the last summand holds all; of an infinity nothing, so that its
 * products stay infinite. */
XT_INLINE __m512 rest_of(__m512 value, __m512 rounded)
{
    enum { INFINITIES = 0x18 };
    __mmask16 finite = (__mmask16)~_mm512_fpclass_ps_mask(rounded, INFINITIES);
    return _mm512_maskz_sub_ps(finite, value, rounded);
}

/* Those of the XT_SPLIT numbers of a block that there are. */
XT_INLINE __mmask32 lanes_of(int count)
{
    return count < XT_SPLIT ? ((__mmask32)1 << count) - 1 : (__mmask32)-1;
}

/* The summands of two vectors, pair by pair: from `first` on in the lower halves. */
XT_INLINE void split_pairs(__m512 first, __m512 second, __m512i pairs[XT_SUMMANDS])
{
    enum { FIRST_OR_UPPER_OF_SECOND = 0xF8 }; /* a | (b & c) */
    const __m512i upper = _mm512_set1_epi32((int)0xFFFF0000);
    for (int i = 0; i < XT_SUMMANDS; i++) {
        bool last = i + 1 == XT_SUMMANDS;
        __m512 low = last ? first : round_to_bf16(first);
        __m512 high = last ? second : round_to_bf16(second);
        pairs[i] = _mm512_ternarylogic_epi32(_mm512_srli_epi32((__m512i)low, 16), (__m512i)high,
                                             upper, FIRST_OR_UPPER_OF_SECOND);
        first = i ? _mm512_sub_ps(first, low) : rest_of(first, low);
        second = i ? _mm512_sub_ps(second, high) : rest_of(second, high);
    }
}

/* Up to XT_SPLIT numbers as sums of three of bf16, `summand` elements apart. */
XT_INLINE void split(const float *from, __mmask32 lanes, size_t summand, uint16_t *to)
{
    enum { HALF = XT_SPLIT / 2 };
    __m512i order = _mm512_load_si512(upper_halves);
    __m512 low = _mm512_maskz_loadu_ps((__mmask16)lanes, from);
    __m512 high = _mm512_maskz_loadu_ps((__mmask16)(lanes >> HALF), from + HALF);
    for (int i = 0; i < XT_SUMMANDS; i++, to += summand) {
        bool last = i + 1 == XT_SUMMANDS;
        __m512 rounded[] = {last ? low : round_to_bf16(low), last ? high : round_to_bf16(high)};
        _mm512_store_si512(
            to, _mm512_permutex2var_epi16((__m512i)rounded[0], order, (__m512i)rounded[1]));
        low = i ? _mm512_sub_ps(low, rounded[0]) : rest_of(low, rounded[0]);
        high = i ? _mm512_sub_ps(high, rounded[1]) : rest_of(high, rounded[1]);
    }
}

#endif
