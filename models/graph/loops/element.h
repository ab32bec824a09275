/* Reading and writing an element of a tensor as float32. `dtype` is a constant wherever these are
 * used, so that each loop is compiled once a type without a test inside.
 */
#ifndef XT_MODELS_GRAPH_LOOPS_ELEMENT_H
#define XT_MODELS_GRAPH_LOOPS_ELEMENT_H

#include <stdint.h>
#include <string.h>

#include "device/device.h"

#define XT_INLINE static inline __attribute__((always_inline))

/* loops/NAME.c defines functions called xt_loops_NAME_ISA: XT_LOOPS_NAME(NAME) spells it. */
#define XT_LOOPS_PASTE(name, isa) xt_loops_##name##_##isa
#define XT_LOOPS_EXPAND(name, isa) XT_LOOPS_PASTE(name, isa)
#define XT_LOOPS_NAME(name) XT_LOOPS_EXPAND(name, XT_LOOPS_ISA)

XT_INLINE float as_float(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

XT_INLINE uint32_t as_bits(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

/* The nearest bf16 in the upper half, ties to even; the lower half is not cleared. */
XT_INLINE uint32_t round_bits(float value)
{
    uint32_t bits = as_bits(value);
    return bits + 0x7FFF + ((bits >> 16) & 1);
}

/* fp16 by its bits, so that loops over it become vector code in every instruction set. What is
 * below its normal numbers (2^-14) counts as zero, as such numbers do in all of xtrain's
 * arithmetic; what is beyond it is infinite. */
XT_INLINE float half_to_float(uint16_t half)
{
    uint32_t size = half & 0x7FFFu;
    uint32_t bits = (size << 13) + (112u << 23);
    bits = size < 0x0400 ? 0 : size >= 0x7C00 ? bits + (112u << 23) : bits;
    return as_float(bits | (uint32_t)(half & 0x8000u) << 16);
}

XT_INLINE uint16_t float_to_half(float value)
{
    uint32_t bits = as_bits(value);
    uint32_t size = bits & 0x7FFFFFFFu;
    uint32_t rounded = (size + 0xFFFu + (size >> 13 & 1u) - (112u << 23)) >> 13;
    rounded = size < (113u << 23) ? 0 : size >= 0x477FF000u ? 0x7C00u : rounded;
    rounded = size > 0x7F800000u ? 0x7E00u : rounded;
    return (uint16_t)(rounded | (bits >> 16 & 0x8000u));
}

XT_INLINE float load(const void *data, size_t i, enum xt_dtype dtype)
{
    if (dtype == XT_F32)
        return ((const float *)data)[i];
    if (dtype == XT_F16)
        return half_to_float(((const uint16_t *)data)[i]);
    return as_float((uint32_t)((const uint16_t *)data)[i] << 16);
}

XT_INLINE void store(void *data, size_t i, float value, enum xt_dtype dtype)
{
    if (dtype == XT_F32)
        ((float *)data)[i] = value;
    else if (dtype == XT_F16)
        ((uint16_t *)data)[i] = float_to_half(value);
    else
        ((uint16_t *)data)[i] = (uint16_t)(round_bits(value) >> 16);
}

XT_INLINE const void *at(const void *data, size_t i, enum xt_dtype dtype)
{
    return (const char *)data + i * (dtype == XT_F32 ? 4 : 2);
}

XT_INLINE void *at_out(void *data, size_t i, enum xt_dtype dtype)
{
    return (char *)data + i * (dtype == XT_F32 ? 4 : 2);
}

#endif
