/* Dropout: whether an element stays is a hash of its place, so that the mask is not stored. */
#include "engine/loops/element.h"
#include "engine/loops/table.h"

#ifdef __AVX512BW__
#include "engine/loops/strip.h"
#endif

/* A 32-bit mixing function (two multiplications), good enough for a mask and cheap in vector
 * registers. */
static const uint32_t first_factor = 0x7FEB352Du;
static const uint32_t second_factor = 0x846CA68Bu;

XT_INLINE uint32_t hash(uint32_t key, uint32_t i)
{
    uint32_t h = (i ^ key) * first_factor;
    h = (h ^ (h >> 15)) * second_factor;
    return h ^ (h >> 16);
}

/* What keeps an element. */
struct mask {
    uint32_t key, first, threshold;
};

#ifdef __AVX512BW__
XT_INLINE __m512 drop_vector(__m512 v, __m512i places, const struct mask *mask, float factor)
{
    __m512i h = _mm512_xor_si512(places, _mm512_set1_epi32((int)mask->key));
    h = _mm512_mullo_epi32(h, _mm512_set1_epi32((int)first_factor));
    h = _mm512_xor_si512(h, _mm512_srli_epi32(h, 15));
    h = _mm512_mullo_epi32(h, _mm512_set1_epi32((int)second_factor));
    h = _mm512_xor_si512(h, _mm512_srli_epi32(h, 16));
    __mmask16 stays = _mm512_cmpge_epu32_mask(h, _mm512_set1_epi32((int)mask->threshold));
    return _mm512_maskz_mul_ps(stays, v, _mm512_set1_ps(factor));
}

/* Whole strips; returns their elements. */
XT_INLINE size_t drop_strips(const void *in, void *out, size_t count, const struct mask *mask,
                             float factor, enum xt_dtype dtype)
{
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    const __m512i first = _mm512_set1_epi32((int)mask->first);
    bool f32 = dtype == XT_F32;
    __m512i even = _mm512_add_epi32(first, f32 ? lanes : _mm512_slli_epi32(lanes, 1));
    size_t i = 0;
    for (; i + STRIP <= count; i += STRIP) {
        struct pair v = load_strip(in, i, dtype);
        __m512i odd = _mm512_add_epi32(even, _mm512_set1_epi32(f32 ? HALF : 1));
        v.even = drop_vector(v.even, even, mask, factor);
        v.odd = drop_vector(v.odd, odd, mask, factor);
        store_strip(out, i, v, dtype);
        even = _mm512_add_epi32(even, _mm512_set1_epi32(STRIP));
    }
    return i;
}
#else
XT_INLINE size_t drop_strips(const void *in, void *out, size_t count, const struct mask *mask,
                             float factor, enum xt_dtype dtype)
{
    (void)in, (void)out, (void)count, (void)mask, (void)factor, (void)dtype;
    return 0;
}
#endif

XT_INLINE void drop(const void *in, void *out, size_t count, const struct mask *mask, float factor,
                    enum xt_dtype dtype)
{
    size_t done = drop_strips(in, out, count, mask, factor, dtype);
#pragma omp simd
    for (size_t i = done; i < count; i++) {
        float v = load(in, i, dtype) * factor;
        bool stays = hash(mask->key, mask->first + (uint32_t)i) >= mask->threshold;
        store(out, i, stays ? v : 0, dtype);
    }
}

void XT_LOOPS_NAME(dropout)(enum xt_dtype dtype, const void *in, void *out, size_t count,
                            uint32_t key, uint32_t first, uint32_t threshold, float factor)
{
    const struct mask mask = {key, first, threshold};
    if (dtype == XT_F32)
        drop(in, out, count, &mask, factor, XT_F32);
    else
        drop(in, out, count, &mask, factor, XT_BF16);
}

void XT_LOOPS_NAME(keep)(uint8_t *out, size_t count, uint32_t key, uint32_t first,
                         uint32_t threshold)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        out[i] = hash(key, first + (uint32_t)i) >= threshold;
}
