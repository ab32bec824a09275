/* Conversions between float32 and other data types on the host. Rounds to nearest, ties to even;
 * overflow is infinity in fp16 (IEEE 754) and saturates in 8-bit types. Thread-safe.
 *
 * Conversions of one number are branch-free bit arithmetic, so that loops over them vectorise in
 * every instruction set. fp16 denormals are exact even if the CPU flushes float32 denormals to
 * zero, since no float32 denormal occurs on the way.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/dtype.h"

static inline float xt_float_of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static inline uint32_t xt_float_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static inline float xt_bf16_to_float(uint16_t half)
{
    return xt_float_of_bits((uint32_t)half << 16);
}

/* The nearest bf16 in the upper half; the lower half is not cleared. A NaN from arithmetic stays a
 * NaN, one whose upper fraction bits are all set may not. */
static inline uint32_t xt_bf16_round(float value)
{
    uint32_t bits = xt_float_bits(value);
    return bits + 0x7FFF + ((bits >> 16) & 1);
}

/* Two of them, the first in the lower half. */
static inline uint32_t xt_bf16_pair(float first, float second)
{
    return xt_bf16_round(first) >> 16 | (xt_bf16_round(second) & 0xFFFF0000u);
}

/* What rounding to bf16 leaves out, exactly; of an infinity nothing. */
static inline float xt_bf16_rest(float value)
{
    float rest = value - xt_float_of_bits(xt_bf16_round(value) & 0xFFFF0000u);
    return rest - rest == 0 ? rest : 0;
}

/* As xt_bf16_pair; of each is left what rounding leaves out. */
static inline uint32_t xt_bf16_take_pair(float *first, float *second)
{
    uint32_t pair = xt_bf16_pair(*first, *second);
    *first = xt_bf16_rest(*first);
    *second = xt_bf16_rest(*second);
    return pair;
}

/* fp16 has 10 bits of fraction, exponents -14 to 15, and below them steps of 2^-24. */
static inline float xt_fp16_to_float(uint16_t half)
{
    const uint32_t hidden = 113u << 23; /* 2^-14 */
    uint32_t size = half & 0x7FFFu;
    uint32_t shifted = size << 13;
    uint32_t small = xt_float_bits(xt_float_of_bits(shifted + hidden) - 0x1p-14f);
    uint32_t bits = shifted + (112u << 23);
    bits = size < 0x0400 ? small : size >= 0x7C00 ? bits + (112u << 23) : bits;
    return xt_float_of_bits(bits | (uint32_t)(half & 0x8000u) << 16);
}

static inline uint16_t xt_fp16_from_float(float value)
{
    uint32_t bits = xt_float_bits(value);
    uint32_t size = bits & 0x7FFFFFFFu;
    /* float32 from 0.5 on has steps of 2^-24: the addition rounds to one. */
    uint32_t small = xt_float_bits(xt_float_of_bits(size) + 0.5f) - xt_float_bits(0.5f);
    uint32_t rounded = (size + 0xFFFu + (size >> 13 & 1u) - (112u << 23)) >> 13;
    rounded = size < (113u << 23) ? small : size >= 0x477FF000u ? 0x7C00u : rounded;
    rounded = size > 0x7F800000u ? 0x7E00u : rounded;
    return (uint16_t)(rounded | (bits >> 16 & 0x8000u));
}

/* Arrays of a compute type, for code outside the step. Every bf16 NaN stays a NaN. */
void xt_number_from_float(enum xt_dtype dtype, const float *from, size_t count, void *to);
/* Also from f64, rounded; `from` may be unaligned. An empty array may be NULL. */
void xt_number_to_float(enum xt_dtype dtype, const void *from, size_t count, float *to);

/* A big-endian number in a file; `at` may be unaligned. */
static inline uint32_t xt_number_be32(const uint8_t *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* Of doubles, for qsort: the smallest first. */
int xt_number_compare(const void *a, const void *b);
