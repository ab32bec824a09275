#include "base/number.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static uint16_t to_bf16(float value)
{
    return (uint16_t)(isnan(value) ? xt_float_bits(value) >> 16 | 0x40
                                   : xt_bf16_round(value) >> 16);
}

/* NaN becomes the lowest value. */
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
            ((uint16_t *)to)[i] = xt_fp16_from_float(from[i]);
        break;
    case XT_S8:
        for (size_t i = 0; i < count; i++)
            ((int8_t *)to)[i] = (int8_t)to_whole(from[i], INT8_MIN, INT8_MAX);
        break;
    case XT_U8:
        for (size_t i = 0; i < count; i++)
            ((uint8_t *)to)[i] = (uint8_t)to_whole(from[i], 0, UINT8_MAX);
        break;
    default:
        assert(false); /* not a compute type */
    }
}

/* Numbers in a file may be unaligned: each is copied. */
static uint16_t half_at(const void *from, size_t i)
{
    uint16_t half;
    memcpy(&half, (const char *)from + i * sizeof half, sizeof half);
    return half;
}

static double double_at(const void *from, size_t i)
{
    double value;
    memcpy(&value, (const char *)from + i * sizeof value, sizeof value);
    return value;
}

void xt_number_to_float(enum xt_dtype dtype, const void *from, size_t count, float *to)
{
    switch (dtype) {
    case XT_F32:
        if (count)
            memcpy(to, from, count * sizeof *to);
        break;
    case XT_F64:
        for (size_t i = 0; i < count; i++)
            to[i] = (float)double_at(from, i);
        break;
    case XT_BF16:
        for (size_t i = 0; i < count; i++)
            to[i] = xt_bf16_to_float(half_at(from, i));
        break;
    case XT_F16:
        for (size_t i = 0; i < count; i++)
            to[i] = xt_fp16_to_float(half_at(from, i));
        break;
    case XT_S8:
        for (size_t i = 0; i < count; i++)
            to[i] = ((const int8_t *)from)[i];
        break;
    case XT_U8:
        for (size_t i = 0; i < count; i++)
            to[i] = ((const uint8_t *)from)[i];
        break;
    default:
        assert(false); /* neither floating-point nor of 8 bits */
    }
}

int xt_number_compare(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}
