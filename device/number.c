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

/* What is no number becomes the lower end. */
static float to_whole(float value, float least, float most)
{
    return value > least ? rintf(value < most ? value : most) : least;
}

void xt_number_from_float(enum xt_dtype dtype, const float *from, size_t count, void *to)
{
    switch (dtype) {
    case XT_F32:
        memcpy(to, from, count * sizeof *from);
        break;
    case XT_BF16:
        for (size_t i = 0; i < count; i++)
            ((uint16_t *)to)[i] = to_bf16(from[i]);
        break;
    case XT_F16:
        for (size_t i = 0; i < count; i++)
            ((uint16_t *)to)[i] = to_fp16(from[i]);
        break;
    case XT_S8:
        for (size_t i = 0; i < count; i++)
            ((int8_t *)to)[i] = (int8_t)to_whole(from[i], INT8_MIN, INT8_MAX);
        break;
    case XT_U8:
        for (size_t i = 0; i < count; i++)
            ((uint8_t *)to)[i] = (uint8_t)to_whole(from[i], 0, UINT8_MAX);
        break;
    }
}

void xt_number_to_float(enum xt_dtype dtype, const void *from, size_t count, float *to)
{
    switch (dtype) {
    case XT_F32:
        memcpy(to, from, count * sizeof *to);
        break;
    case XT_BF16:
        for (size_t i = 0; i < count; i++)
            to[i] = as_float((uint32_t)((const uint16_t *)from)[i] << 16);
        break;
    case XT_F16:
        for (size_t i = 0; i < count; i++)
            to[i] = from_fp16(((const uint16_t *)from)[i]);
        break;
    case XT_S8:
        for (size_t i = 0; i < count; i++)
            to[i] = ((const int8_t *)from)[i];
        break;
    case XT_U8:
        for (size_t i = 0; i < count; i++)
            to[i] = ((const uint8_t *)from)[i];
        break;
    }
}
