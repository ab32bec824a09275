/* A strip of 32 channels as a pair of vectors of float32. In bf16, where it is one vector, the even
 * channels are the bf16s shifted up, the odd ones are masked, one instruction each. `type` is a
 * constant. For the files of this folder that are built for AVX-512.
 */
#pragma once

#ifdef __AVX512BW__
#include <immintrin.h>

#include "engine/loops/element.h"

enum { STRIP = 32, HALF = 16 };

/* A strip's channels: of bf16 0, 2, ..., 30 and 1, 3, ..., 31; of float32 the first and the last
 * 16. */
struct pair {
    __m512 even, odd;
};

XT_INLINE struct pair widen_line(__m512i v)
{
    __m512i odd = _mm512_and_si512(v, _mm512_set1_epi32((int)0xFFFF0000u));
    return (struct pair){_mm512_castsi512_ps(_mm512_slli_epi32(v, 16)), _mm512_castsi512_ps(odd)};
}

#ifdef __AVX512BF16__
XT_INLINE __m512i narrow(struct pair v)
{
    const __m512i order = _mm512_add_epi32(
        _mm512_mullo_epi32(_mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15),
                           _mm512_set1_epi32(0x10001)),
        _mm512_set1_epi32(HALF << 16));
    return _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(v.odd, v.even));
}
#else
XT_INLINE __m512i round_half(__m512 v)
{
    __m512i bits = _mm512_castps_si512(v);
    __m512i last = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    return _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), last);
}

XT_INLINE __m512i narrow(struct pair v)
{
    return _mm512_mask_blend_epi16(0xAAAAAAAAu, _mm512_srli_epi32(round_half(v.even), 16),
                                   round_half(v.odd));
}
#endif

XT_INLINE struct pair load_pair(const float *from)
{
    return (struct pair){_mm512_loadu_ps(from), _mm512_loadu_ps(from + HALF)};
}

/* 32 numbers in the order of their channels. */
XT_INLINE struct pair load_ordered(const float *from, enum xt_dtype type)
{
    if (type == XT_F32)
        return load_pair(from);
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(1));
    __m512 low = _mm512_loadu_ps(from);
    __m512 high = _mm512_loadu_ps(from + HALF);
    return (struct pair){_mm512_permutex2var_ps(low, even, high),
                         _mm512_permutex2var_ps(low, odd, high)};
}

XT_INLINE struct pair in_order(struct pair v, enum xt_dtype type)
{
    if (type == XT_F32)
        return v;
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_add_epi32(low, _mm512_set1_epi32(8));
    return (struct pair){_mm512_permutex2var_ps(v.even, low, v.odd),
                         _mm512_permutex2var_ps(v.even, high, v.odd)};
}

XT_INLINE void store_pair(float *to, struct pair v)
{
    _mm512_storeu_ps(to, v.even);
    _mm512_storeu_ps(to + HALF, v.odd);
}

XT_INLINE struct pair add(struct pair a, struct pair b)
{
    return (struct pair){_mm512_add_ps(a.even, b.even), _mm512_add_ps(a.odd, b.odd)};
}

XT_INLINE struct pair sub(struct pair a, struct pair b)
{
    return (struct pair){_mm512_sub_ps(a.even, b.even), _mm512_sub_ps(a.odd, b.odd)};
}

XT_INLINE struct pair mul_add(struct pair a, struct pair b, struct pair c)
{
    return (struct pair){_mm512_fmadd_ps(a.even, b.even, c.even),
                         _mm512_fmadd_ps(a.odd, b.odd, c.odd)};
}

XT_INLINE struct pair all(float value)
{
    return (struct pair){_mm512_set1_ps(value), _mm512_set1_ps(value)};
}

XT_INLINE struct pair load_strip(const void *from, size_t i, enum xt_dtype type)
{
    return type == XT_F32 ? load_pair((const float *)from + i)
                          : widen_line(_mm512_loadu_si512((const uint16_t *)from + i));
}

XT_INLINE void store_strip(void *to, size_t i, struct pair v, enum xt_dtype type)
{
    if (type == XT_F32)
        store_pair((float *)to + i, v);
    else
        _mm512_storeu_si512((uint16_t *)to + i, narrow(v));
}

/* Past the caches. */
XT_INLINE void stream_strip(void *to, size_t i, struct pair v, enum xt_dtype type)
{
    if (type == XT_F32) {
        _mm512_stream_ps((float *)to + i, v.even);
        _mm512_stream_ps((float *)to + i + HALF, v.odd);
    } else {
        _mm512_stream_si512((void *)((uint16_t *)to + i), narrow(v));
    }
}

/* Adds 32 numbers to doubles in the order of their channels. */
XT_INLINE void add_to_doubles(double *to, struct pair v, enum xt_dtype type)
{
    struct pair ordered = in_order(v, type);
    __m512 half[2] = {ordered.even, ordered.odd};
    for (int i = 0; i < 2; i++) {
        __m256 low = _mm512_castps512_ps256(half[i]);
        __m256 high = _mm512_extractf32x8_ps(half[i], 1);
        double *at = to + i * HALF;
        _mm512_storeu_pd(at, _mm512_add_pd(_mm512_loadu_pd(at), _mm512_cvtps_pd(low)));
        _mm512_storeu_pd(at + 8, _mm512_add_pd(_mm512_loadu_pd(at + 8), _mm512_cvtps_pd(high)));
    }
}

#endif
