/* Vectors of float32 as wide as the instruction set has them; C's own operators add and multiply
 * them. Reads and writes convert from and to the tensor's type, of a part of a vector too.
 */
#pragma once

#include <string.h>
#ifdef __SSE2__
#include <immintrin.h>
#endif

#include "engine/loops/element.h"

#ifdef __AVX512F__
enum { WIDTH = 16 };
#elif defined __AVX2__
enum { WIDTH = 8 };
#else
enum { WIDTH = 4 };
#endif

typedef float vec __attribute__((vector_size(WIDTH * 4)));
typedef uint32_t bits __attribute__((vector_size(WIDTH * 4)));
typedef uint16_t halves __attribute__((vector_size(WIDTH * 2)));

XT_INLINE vec vec_of(float value)
{
    return value - (vec){0};
}

/* gcc 12 widens a builtin's vector of 16 by halves, in five instructions. */
XT_INLINE vec vec_of_halves(halves h)
{
#ifdef __AVX512F__
    return (vec)_mm512_slli_epi32(_mm512_cvtepu16_epi32((__m256i)h), 16);
#else
    return (vec)(__builtin_convertvector(h, bits) << 16);
#endif
}

/* As xt_bf16_round. */
XT_INLINE bits rounded(vec v)
{
    return (bits)v + 0x7FFF + (((bits)v >> 16) & 1);
}

/* With instructions for it, numbers below 2^-126 become 0. */
XT_INLINE halves halves_of_vec(vec v)
{
#ifdef __AVX512BF16__
    return (halves)_mm512_cvtneps_pbh((__m512)v);
#else
    return __builtin_convertvector(rounded(v) >> 16, halves);
#endif
}

#ifdef __AVX512F__
typedef uint16_t line_of_halves __attribute__((vector_size(64)));

/* Two vectors as 32 numbers of bf16. */
XT_INLINE __m512i line_of_two(vec low, vec high)
{
#ifdef __AVX512BF16__
    return (__m512i)_mm512_cvtne2ps_pbh((__m512)high, (__m512)low);
#else
    return (__m512i)__builtin_shufflevector(
        (line_of_halves)rounded(low), (line_of_halves)rounded(high), 1, 3, 5, 7, 9, 11, 13, 15, 17,
        19, 21, 23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43, 45, 47, 49, 51, 53, 55, 57, 59, 61, 63);
#endif
}
#endif

XT_INLINE vec vec_of_bytes(const void *bytes, bool is_signed)
{
#ifdef __AVX512F__
    __m128i b = _mm_loadu_si128(bytes);
    return (vec)_mm512_cvtepi32_ps(is_signed ? _mm512_cvtepi8_epi32(b) : _mm512_cvtepu8_epi32(b));
#elif defined __AVX2__
    __m128i b = _mm_loadl_epi64(bytes);
    return (vec)_mm256_cvtepi32_ps(is_signed ? _mm256_cvtepi8_epi32(b) : _mm256_cvtepu8_epi32(b));
#else
    vec v;
    for (int i = 0; i < WIDTH; i++)
        v[i] = is_signed ? ((const int8_t *)bytes)[i] : ((const uint8_t *)bytes)[i];
    return v;
#endif
}

/* Rounds numbers that the type can have, signed or not. */
XT_INLINE void store_bytes(void *bytes, vec v)
{
#ifdef __AVX512F__
    _mm_storeu_si128(bytes, _mm512_cvtepi32_epi8(_mm512_cvtps_epi32((__m512)v)));
#elif defined __AVX2__
    __m256i whole = _mm256_and_si256(_mm256_cvtps_epi32((__m256)v), _mm256_set1_epi32(UINT8_MAX));
    __m128i h = _mm_packus_epi32(_mm256_castsi256_si128(whole), _mm256_extracti128_si256(whole, 1));
    _mm_storel_epi64(bytes, _mm_packus_epi16(h, h));
#else
    for (int i = 0; i < WIDTH; i++)
        ((uint8_t *)bytes)[i] = (uint8_t)(int)rintf(v[i]);
#endif
}

XT_INLINE vec load_vec(const void *data, size_t i, enum xt_dtype dtype)
{
    vec v;
    halves h;
    if (xt_dtype_is_int8(dtype))
        return vec_of_bytes((const uint8_t *)data + i, dtype == XT_S8);
    if (dtype == XT_F32) {
        memcpy(&v, (const float *)data + i, sizeof v);
        return v;
    }
    memcpy(&h, (const uint16_t *)data + i, sizeof h);
    return vec_of_halves(h);
}

XT_INLINE void store_vec(void *data, size_t i, vec v, enum xt_dtype dtype)
{
    if (xt_dtype_is_int8(dtype)) {
        store_bytes((uint8_t *)data + i, v);
        return;
    }
    if (dtype == XT_F32) {
        memcpy((float *)data + i, &v, sizeof v);
        return;
    }
    halves h = halves_of_vec(v);
    memcpy((uint16_t *)data + i, &h, sizeof h);
}

/* The first `count` numbers, at most WIDTH; the others read as 0 and are not written. */
XT_INLINE vec load_part(const void *data, size_t i, size_t count, enum xt_dtype dtype)
{
#ifdef __AVX512BW__
    __mmask16 mask = (__mmask16)((1u << count) - 1);
    if (dtype == XT_F32)
        return (vec)_mm512_maskz_loadu_ps(mask, (const float *)data + i);
    return vec_of_halves((halves)_mm256_maskz_loadu_epi16(mask, (const uint16_t *)data + i));
#else
    vec v = {0};
    halves h = {0};
    if (dtype == XT_F32) {
        memcpy(&v, (const float *)data + i, count * sizeof(float));
        return v;
    }
    memcpy(&h, (const uint16_t *)data + i, count * sizeof(uint16_t));
    return vec_of_halves(h);
#endif
}

XT_INLINE void store_part(void *data, size_t i, size_t count, vec v, enum xt_dtype dtype)
{
#ifdef __AVX512BW__
    __mmask16 mask = (__mmask16)((1u << count) - 1);
    if (dtype == XT_F32)
        _mm512_mask_storeu_ps((float *)data + i, mask, (__m512)v);
    else
        _mm256_mask_storeu_epi16((uint16_t *)data + i, mask, (__m256i)halves_of_vec(v));
#else
    halves h = halves_of_vec(v);
    if (dtype == XT_F32)
        memcpy((float *)data + i, &v, count * sizeof(float));
    else
        memcpy((uint16_t *)data + i, &h, count * sizeof(uint16_t));
#endif
}

/* The smaller and the larger of a limit and a number; NaN stays NaN. */
XT_INLINE vec vec_least(vec limit, vec v)
{
#ifdef __AVX512F__
    return (vec)_mm512_min_ps((__m512)limit, (__m512)v);
#elif defined __AVX2__
    return (vec)_mm256_min_ps((__m256)limit, (__m256)v);
#else
    bits over = (bits)(v > limit);
    return (vec)(((bits)limit & over) | ((bits)v & ~over));
#endif
}

XT_INLINE vec vec_most(vec limit, vec v)
{
#ifdef __AVX512F__
    return (vec)_mm512_max_ps((__m512)limit, (__m512)v);
#elif defined __AVX2__
    return (vec)_mm256_max_ps((__m256)limit, (__m256)v);
#else
    bits under = (bits)(v < limit);
    return (vec)(((bits)limit & under) | ((bits)v & ~under));
#endif
}

/* a > b ? yes : no */
XT_INLINE vec where_above(vec a, vec b, vec yes, vec no)
{
#ifdef __AVX512F__
    __mmask16 above = _mm512_cmp_ps_mask((__m512)a, (__m512)b, _CMP_GT_OQ);
    return (vec)_mm512_mask_blend_ps(above, (__m512)no, (__m512)yes);
#else
    bits above = (bits)(a > b);
    return (vec)(((bits)yes & above) | ((bits)no & ~above));
#endif
}

/* 1 / v for v from 1 to 2^126, with a relative error of 2^-14 or, if precise, of 2^-23. */
XT_INLINE vec vec_reciprocal(vec v, bool precise)
{
#ifdef __AVX512F__
    vec guess = (vec)_mm512_rcp14_ps((__m512)v);
    return precise ? guess + guess * (1 - v * guess) : guess;
#else
    (void)precise;
    return 1 / v;
#endif
}
