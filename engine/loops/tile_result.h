/* What becomes of a convolution's sums by matrix tiles: scale and bias, what is there, ReLU, a
 * norm's sums, and the tensor. For the files of this folder that are built for AMX. */
#pragma once

#ifdef __AMX_BF16__
#include <immintrin.h>

#include "engine/loops/split.h"
#include "engine/loops/strip.h"
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

/* A norm's sums of a block of channels, which is a strip; none of a ReLU behind a convolution. */
struct norm_sums {
    bool wanted;
    struct pair first, second, pivot;
};

XT_INLINE __m512 load_16(const void *from, bool f32)
{
    return f32 ? _mm512_load_ps(from) : widen(_mm256_load_si256(from));
}

XT_INLINE __m512 load_some(const void *from, __mmask16 lanes, bool f32)
{
    return f32 ? _mm512_maskz_loadu_ps(lanes, from) : widen(_mm256_maskz_loadu_epi16(lanes, from));
}

/* Of the rounded numbers, which are what is normalised. */
XT_INLINE void add_statistics(struct pair values, struct norm_sums *of)
{
    struct pair value = sub(values, of->pivot);
    of->first = add(of->first, value);
    of->second = mul_add(value, value, of->second);
}

XT_INLINE void add_gradient(struct pair grads, struct pair z, struct norm_sums *of)
{
    of->first = add(of->first, grads);
    of->second = mul_add(grads, sub(z, of->pivot), of->second);
}

/* What a norm has where a result is: its tensors lie as the output does. */
XT_INLINE const char *beside(const struct xt_tile_conv *job, const void *tensor, const char *to)
{
    return (const char *)tensor + (to - (const char *)job->out);
}

XT_INLINE struct pair mask_gradient_f32(const struct xt_tile_conv *job, const char *to,
                                        struct pair grads, struct norm_sums *of)
{
    const __m512 zero = _mm512_setzero_ps();
    struct pair y = load_strip(beside(job, job->norm.y, to), 0, XT_F32);
    grads.even = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(y.even, zero, _CMP_GT_OQ), grads.even);
    grads.odd = _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(y.odd, zero, _CMP_GT_OQ), grads.odd);
    if (of->wanted)
        add_gradient(grads, load_strip(beside(job, job->norm.z, to), 0, XT_F32), of);
    return grads;
}

/* A line of bf16. */
XT_INLINE __m512i mask_gradient(const struct xt_tile_conv *job, const char *to, __m512i line,
                                struct norm_sums *of)
{
    __m512i y = _mm512_load_si512(beside(job, job->norm.y, to));
    line = _mm512_maskz_mov_epi16(_mm512_cmpgt_epi16_mask(y, _mm512_setzero_si512()), line);
    if (of->wanted)
        add_gradient(widen_line(line), load_strip(beside(job, job->norm.z, to), 0, XT_BF16), of);
    return line;
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
    ptrdiff_t held;  /* from the output to what is held of it; 0: nothing is */
    ptrdiff_t added; /* from it to what is added */
    __m512 scale[2], bias[2], least;
    struct norm_sums of;
};

XT_INLINE void write_line(__m512i line, char *to, const struct block *block)
{
    if (!block->far) {
        _mm512_store_si512(to, line);
        return;
    }
    _mm512_stream_si512((void *)to, line);
    if (block->held)
        _mm512_store_si512(to + block->held, line);
}

XT_INLINE void begin_block(const struct xt_tile_conv *job, int channel, enum then then, bool f32,
                           struct block *block)
{
    block->adds = job->adds;
    block->far = job->far && !job->adds;
    block->held = job->held ? (const char *)job->held - (const char *)job->out : 0;
    block->added = job->added ? (const char *)job->added - (const char *)job->out : 0;
    block->lanes = then == UNEVEN ? lanes_of(job->out_c - channel) : (__mmask32)-1;
    block->least = _mm512_set1_ps(job->relu ? 0 : -INFINITY);
    for (int i = 0; i < 2; i++) {
        __mmask16 lanes = (__mmask16)(block->lanes >> i * WIDE);
        int first = channel + i * WIDE;
        block->scale[i] =
            job->scale ? _mm512_maskz_loadu_ps(lanes, job->scale + first) : _mm512_set1_ps(1);
        block->bias[i] =
            job->bias ? _mm512_maskz_loadu_ps(lanes, job->bias + first) : _mm512_setzero_ps();
    }
    if (then != STATISTICS && then != GRADIENT)
        return;
    block->of.wanted = job->norm.pivot != NULL;
    block->of.first = block->of.second = block->of.pivot = all(0);
    if (block->of.wanted)
        block->of.pivot = load_ordered(job->norm.pivot + channel, f32 ? XT_F32 : XT_BF16);
}

/* A line of bf16. */
XT_INLINE void write_rounded(const struct xt_tile_conv *job, const __m512 values[2], char *to,
                             enum then then, struct block *block)
{
    __m512i line = (__m512i)_mm512_cvtne2ps_pbh(values[1], values[0]);
    if (then == GRADIENT)
        line = mask_gradient(job, to, line, &block->of);
    if (then == STATISTICS)
        add_statistics(widen_line(line), &block->of);
    write_line(line, to, block);
}

XT_INLINE void write_result(const struct xt_tile_conv *job, const float *sums, char *to,
                            enum then then, bool f32, struct block *block)
{
    size_t half = WIDE * (f32 ? sizeof(float) : sizeof(uint16_t));
    const char *more = to + block->added;
    __m512 values[2];
    for (int k = 0; k < 2; k++) {
        __mmask16 lanes = (__mmask16)(block->lanes >> k * WIDE);
        values[k] =
            _mm512_fmadd_ps(_mm512_load_ps(sums + k * WIDE), block->scale[k], block->bias[k]);
        if (block->adds && then == UNEVEN)
            values[k] = _mm512_add_ps(values[k], load_some(more + (size_t)k * half, lanes, f32));
        else if (block->adds)
            values[k] = _mm512_add_ps(values[k], load_16(more + (size_t)k * half, f32));
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
    struct pair both = {values[0], values[1]};
    if (then == GRADIENT)
        both = mask_gradient_f32(job, to, both, &block->of);
    if (then == STATISTICS)
        add_statistics(both, &block->of);
    write_line((__m512i)both.even, to, block);
    write_line((__m512i)both.odd, to + LINE, block);
}

XT_INLINE void end_block(const struct xt_tile_conv *job, int channel, enum then then, bool f32,
                         const struct block *block)
{
    if ((then != STATISTICS && then != GRADIENT) || !block->of.wanted)
        return;
    enum xt_dtype type = f32 ? XT_F32 : XT_BF16;
    add_to_doubles(job->norm.sums[0] + channel, block->of.first, type);
    add_to_doubles(job->norm.sums[1] + channel, block->of.second, type);
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
