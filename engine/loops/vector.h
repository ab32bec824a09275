/* Vectors of float32: 16 numbers with AVX-512, 8 with AVX2; C's own operators add and multiply
 * them. For the files of this folder whose loops are written for both.
 */
#pragma once

#include "engine/loops/element.h"

#ifdef __AVX2__
#define XT_LOOPS_HAVE_VECTORS
#include <immintrin.h>

#ifdef __AVX512F__
enum { XT_LANES = 16 };
typedef __m512 xt_vector;

XT_INLINE xt_vector xt_vector_load(const float *from)
{
    return _mm512_loadu_ps(from);
}

/* The first `count` numbers, as many as there are lanes; the other lanes are 0. */
XT_INLINE xt_vector xt_vector_load_some(const float *from, int count)
{
    int lanes = count < 0 ? 0 : count < XT_LANES ? count : XT_LANES;
    return _mm512_maskz_loadu_ps((__mmask16)((1u << lanes) - 1), from);
}

XT_INLINE void xt_vector_store(float *to, xt_vector value)
{
    _mm512_storeu_ps(to, value);
}

XT_INLINE xt_vector xt_vector_of(float value)
{
    return _mm512_set1_ps(value);
}

XT_INLINE xt_vector xt_vector_add_product(xt_vector a, xt_vector b, xt_vector sum)
{
    return _mm512_fmadd_ps(a, b, sum);
}

XT_INLINE xt_vector xt_vector_above_0(xt_vector value)
{
    return _mm512_max_ps(value, _mm512_setzero_ps());
}

/* value > 0 ? then : 0 */
XT_INLINE xt_vector xt_vector_where_above_0(xt_vector value, xt_vector then)
{
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(value, _mm512_setzero_ps(), _CMP_GT_OQ), then);
}

#else
enum { XT_LANES = 8 };
typedef __m256 xt_vector;

XT_INLINE xt_vector xt_vector_load(const float *from)
{
    return _mm256_loadu_ps(from);
}

XT_INLINE xt_vector xt_vector_load_some(const float *from, int count)
{
    const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
    return _mm256_maskload_ps(from, _mm256_cmpgt_epi32(_mm256_set1_epi32(count), lane));
}

XT_INLINE void xt_vector_store(float *to, xt_vector value)
{
    _mm256_storeu_ps(to, value);
}

XT_INLINE xt_vector xt_vector_of(float value)
{
    return _mm256_set1_ps(value);
}

XT_INLINE xt_vector xt_vector_add_product(xt_vector a, xt_vector b, xt_vector sum)
{
    return _mm256_fmadd_ps(a, b, sum);
}

XT_INLINE xt_vector xt_vector_above_0(xt_vector value)
{
    return _mm256_max_ps(value, _mm256_setzero_ps());
}

/* value > 0 ? then : 0 */
XT_INLINE xt_vector xt_vector_where_above_0(xt_vector value, xt_vector then)
{
    return _mm256_and_ps(_mm256_cmp_ps(value, _mm256_setzero_ps(), _CMP_GT_OQ), then);
}

#endif

/* How many of `left` vectors are taken together, at most `most`: none is left alone at the end. */
XT_INLINE int xt_vectors_together(int left, int most)
{
    return left == most + 1 ? most - 1 : left < most ? left : most;
}

#endif
