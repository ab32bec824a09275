/* What becomes of a convolution's sums by matrix tiles: bias, what is there, ReLU, a norm's sums,
 * and the tensor. For the files of this folder that are built for AMX. */
#pragma once

#ifdef __AMX_BF16__
#include <immintrin.h>

#include "engine/loops/split.h"
#include "engine/loops/tile_conv_job.h"
#include "engine/loops/tiles.h"

enum { WIDE = XT_TILE_CONV_WIDE, PAIR = 2 * WIDE /* channels of the output in a block */ };

/* What becomes of the products beside being written. UNEVEN: nothing, and channels are no multiple
 * of PAIR. */
enum then { NOTHING, STATISTICS, GRADIENT, UNEVEN };

static inline enum then then_of(const struct xt_tile_conv *job)
{
    return job->out_c % PAIR ? UNEVEN
           : job->norm.y     ? GRADIENT
           : job->norm.pivot ? STATISTICS
                             : NOTHING;
}

XT_INLINE __m512 widen(__m256i values)
{
    return (__m512)_mm512_slli_epi32(_mm512_cvtepu16_epi32(values), 16);
}

/* A norm's sums of a block of 32 channels: of float32 of the first and the last 16, of bf16 of the
 * even and the odd ones, as a line is widened. */
struct norm_sums {
    __m512 first[2], second[2];
    __m512 pivot[2];
};

/* Channels of even and of odd places of a line. */
XT_INLINE void widen_line(__m512i line, __m512 halves[2])
{
    const __m512i odd = _mm512_set1_epi32((int)0xFFFF0000);
    halves[0] = (__m512)_mm512_slli_epi32(line, 16);
    halves[1] = (__m512)_mm512_and_si512(line, odd);
}

/* From places side by side to even and odd ones, and back. */
XT_INLINE void part_places(__m512 v[2])
{
    const __m512i even =
        _mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
    const __m512i odd =
        _mm512_setr_epi32(1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31);
    __m512 first = _mm512_permutex2var_ps(v[0], even, v[1]);
    v[1] = _mm512_permutex2var_ps(v[0], odd, v[1]);
    v[0] = first;
}

XT_INLINE void join_places(__m512 v[2])
{
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high =
        _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    __m512 first = _mm512_permutex2var_ps(v[0], low, v[1]);
    v[1] = _mm512_permutex2var_ps(v[0], high, v[1]);
    v[0] = first;
}

XT_INLINE __m512 load_16(const void *from, bool f32)
{
    return f32 ? _mm512_load_ps(from) : widen(_mm256_load_si256(from));
}

XT_INLINE __m512 load_some(const void *from, __mmask16 lanes, bool f32)
{
    return f32 ? _mm512_maskz_loadu_ps(lanes, from) : widen(_mm256_maskz_loadu_epi16(lanes, from));
}

/* Of the rounded numbers, which are what is normalised. */
XT_INLINE void add_statistics(const __m512 values[2], struct norm_sums *of)
{
    for (int i = 0; i < 2; i++) {
        __m512 value = _mm512_sub_ps(values[i], of->pivot[i]);
        of->first[i] = _mm512_add_ps(of->first[i], value);
        of->second[i] = _mm512_fmadd_ps(value, value, of->second[i]);
    }
}

XT_INLINE void add_gradient(const __m512 grads[2], const __m512 z[2], struct norm_sums *of)
{
    for (int i = 0; i < 2; i++) {
        of->first[i] = _mm512_add_ps(of->first[i], grads[i]);
        of->second[i] = _mm512_fmadd_ps(grads[i], _mm512_sub_ps(z[i], of->pivot[i]), of->second[i]);
    }
}

/* What a norm has where a result is: its tensors lie as the output does. */
XT_INLINE const char *beside(const struct xt_tile_conv *job, const void *tensor, const char *to)
{
    return (const char *)tensor + (to - (const char *)job->out);
}

XT_INLINE void mask_gradient_f32(const struct xt_tile_conv *job, const char *to, __m512 grads[2],
                                 struct norm_sums *of)
{
    const float *y = (const void *)beside(job, job->norm.y, to);
    const float *z = (const void *)beside(job, job->norm.z, to);
    const __m512 inputs[] = {_mm512_load_ps(z), _mm512_load_ps(z + WIDE)};
    for (int i = 0; i < 2; i++) {
        __mmask16 above =
            _mm512_cmp_ps_mask(_mm512_load_ps(y + i * WIDE), _mm512_setzero_ps(), _CMP_GT_OQ);
        grads[i] = _mm512_maskz_mov_ps(above, grads[i]);
    }
    add_gradient(grads, inputs, of);
}

/* A line of bf16. */
XT_INLINE __m512i mask_gradient(const struct xt_tile_conv *job, const char *to, __m512i line,
                                struct norm_sums *of)
{
    __m512i y = _mm512_load_si512(beside(job, job->norm.y, to));
    __m512i masked =
        _mm512_maskz_mov_epi16(_mm512_cmpgt_epi16_mask(y, _mm512_setzero_si512()), line);
    __m512 grads[2];
    __m512 z[2];
    widen_line(masked, grads);
    widen_line(_mm512_load_si512(beside(job, job->norm.z, to)), z);
    add_gradient(grads, z, of);
    return masked;
}

XT_INLINE void write_line(__m512i line, char *to, bool far)
{
    if (far)
        _mm512_stream_si512((void *)to, line);
    else
        _mm512_store_si512(to, line);
}

/* The channels that there are. */
XT_INLINE void write_some(const __m512 values[2], __mmask32 lanes, char *to, bool f32)
{
    if (f32) {
        _mm512_mask_storeu_ps(to, (__mmask16)lanes, values[0]);
        _mm512_mask_storeu_ps(to + LINE, (__mmask16)(lanes >> WIDE), values[1]);
    } else {
        _mm512_mask_storeu_epi16(to, lanes, (__m512i)_mm512_cvtne2ps_pbh(values[1], values[0]));
    }
}

/* What a block's results have in common. */
struct block {
    bool adds, far;
    __mmask32 lanes;
    __m512 bias[2], least;
    struct norm_sums of;
};

XT_INLINE void begin_block(const struct xt_tile_conv *job, int channel, enum then then, bool f32,
                           struct block *block)
{
    block->adds = job->adds;
    block->least = _mm512_set1_ps(job->relu ? 0 : -INFINITY);
    block->far = job->far && !job->adds;
    block->lanes = then == UNEVEN ? lanes_of(job->out_c - channel) : (__mmask32)-1;
    for (int i = 0; i < 2; i++) {
        __mmask16 lanes = (__mmask16)(block->lanes >> i * WIDE);
        int first = channel + i * WIDE;
        block->bias[i] =
            job->bias ? _mm512_maskz_loadu_ps(lanes, job->bias + first) : _mm512_setzero_ps();
        if (then != STATISTICS && then != GRADIENT)
            continue;
        block->of.first[i] = block->of.second[i] = _mm512_setzero_ps();
        block->of.pivot[i] = _mm512_loadu_ps(job->norm.pivot + first);
    }
    if (!f32 && (then == STATISTICS || then == GRADIENT))
        part_places(block->of.pivot);
}

/* A line of bf16. */
XT_INLINE void write_rounded(const struct xt_tile_conv *job, const __m512 values[2], char *to,
                             enum then then, struct block *block)
{
    __m512i line = (__m512i)_mm512_cvtne2ps_pbh(values[1], values[0]);
    if (then == GRADIENT)
        line = mask_gradient(job, to, line, &block->of);
    if (then == STATISTICS) {
        __m512 rounded[2];
        widen_line(line, rounded);
        add_statistics(rounded, &block->of);
    }
    write_line(line, to, block->far);
}

XT_INLINE void write_result(const struct xt_tile_conv *job, const float *sums, char *to,
                            enum then then, bool f32, struct block *block)
{
    size_t half = WIDE * (f32 ? sizeof(float) : sizeof(uint16_t));
    __m512 values[2];
    for (int k = 0; k < 2; k++) {
        __mmask16 lanes = (__mmask16)(block->lanes >> k * WIDE);
        values[k] = _mm512_add_ps(_mm512_load_ps(sums + k * WIDE), block->bias[k]);
        if (block->adds && then == UNEVEN)
            values[k] = _mm512_add_ps(values[k], load_some(to + (size_t)k * half, lanes, f32));
        else if (block->adds)
            values[k] = _mm512_add_ps(values[k], load_16(to + (size_t)k * half, f32));
        values[k] = _mm512_max_ps(block->least, values[k]);
    }
    if (then == UNEVEN) {
        write_some(values, block->lanes, to, f32);
        return;
    }
    if (!f32) {
        write_rounded(job, values, to, then, block);
        return;
    }
    if (then == GRADIENT)
        mask_gradient_f32(job, to, values, &block->of);
    if (then == STATISTICS)
        add_statistics(values, &block->of);
    for (int k = 0; k < 2; k++)
        write_line((__m512i)values[k], to + k * LINE, block->far);
}

/* Sums over pixels of 32 channels. */
XT_INLINE void add_to_doubles(const __m512 sums[2], double *to)
{
    for (int i = 0; i < 2; i++, to += WIDE) {
        __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(sums[i]));
        __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(sums[i], 1));
        _mm512_storeu_pd(to, _mm512_add_pd(_mm512_loadu_pd(to), low));
        _mm512_storeu_pd(to + WIDE / 2, _mm512_add_pd(_mm512_loadu_pd(to + WIDE / 2), high));
    }
}

XT_INLINE void end_block(const struct xt_tile_conv *job, int channel, enum then then, bool f32,
                         struct block *block)
{
    if (then != STATISTICS && then != GRADIENT)
        return;
    if (!f32) {
        join_places(block->of.first);
        join_places(block->of.second);
    }
    add_to_doubles(block->of.first, job->norm.sums[0] + channel);
    add_to_doubles(block->of.second, job->norm.sums[1] + channel);
}

/* The first results, rounded. */
static inline void set_pivot(const struct xt_tile_conv *job, const float *sums, int channel)
{
    for (int i = 0; i < 2; i++) {
        __m512 bias =
            job->bias ? _mm512_loadu_ps(job->bias + channel + i * WIDE) : _mm512_setzero_ps();
        __m512 value = _mm512_add_ps(_mm512_load_ps(sums + i * WIDE), bias);
        value = job->relu ? _mm512_max_ps(value, _mm512_setzero_ps()) : value;
        value = job->f32 ? value : widen((__m256i)_mm512_cvtneps_pbh(value));
        _mm512_storeu_ps(job->norm.pivot + channel + i * WIDE, value);
    }
}

#endif
