#include "device/number.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

static uint32_t as_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float as_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint16_t to_bf16(float value)
{
    uint32_t bits = as_bits(value);
    if (isnan(value))
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/* fp16 has 10 bits of fraction, exponents -14 to 15, and below them steps of 2^-24. */
static uint16_t to_fp16(float value)
{
    uint16_t sign = (uint16_t)(as_bits(value) >> 16 & 0x8000);
    float size = fabsf(value);
    if (isnan(value))
        return sign | 0x7E00;
    if (size >= 65520)
        return sign | 0x7C00;
    if (size < 0x1p-14f)
        return (uint16_t)(sign | (uint16_t)lrintf(size * 0x1p24f));
    uint32_t bits = as_bits(size) - (112u << 23);
    return (uint16_t)(sign | (uint16_t)((bits + 0xFFF + (bits >> 13 & 1)) >> 13));
}

static float from_fp16(uint16_t half)
{
    uint32_t sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t exponent = half >> 10 & 0x1F;
    uint32_t fraction = half & 0x3FF;
    if (exponent == 0x1F)
        return as_float(sign | 0x7F800000 | fraction << 13);
    if (exponent == 0)
        return sign ? -(float)fraction * 0x1p-24f : (float)fraction * 0x1p-24f;
    return as_float(sign | (exponent + 112) << 23 | fraction << 13);
}

void xt_number_from_float(enum xt_dtype dtype, const float *from, size_t count, void *to)
{
    uint16_t *halves = to;
    if (dtype == XT_F32)
        memcpy(to, from, count * sizeof *from);
    for (size_t i = 0; i < count && dtype != XT_F32; i++)
        halves[i] = dtype == XT_BF16 ? to_bf16(from[i]) : to_fp16(from[i]);
}

void xt_number_to_float(enum xt_dtype dtype, const void *from, size_t count, float *to)
{
    const uint16_t *halves = from;
    if (dtype == XT_F32)
        memcpy(to, from, count * sizeof *to);
    for (size_t i = 0; i < count && dtype != XT_F32; i++)
        to[i] = dtype == XT_BF16 ? as_float((uint32_t)halves[i] << 16) : from_fp16(halves[i]);
}
