/* Reading and writing an element of a tensor as float32. `dtype` is a constant wherever these are
 * used, so that each loop is compiled once a type without a test inside.
 */
#ifndef XT_MODELS_LOOPS_ELEMENT_H
#define XT_MODELS_LOOPS_ELEMENT_H

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

XT_INLINE float load(const void *data, size_t i, enum xt_dtype dtype)
{
    if (dtype == XT_F32)
        return ((const float *)data)[i];
    return as_float((uint32_t)((const uint16_t *)data)[i] << 16);
}

XT_INLINE void store(void *data, size_t i, float value, enum xt_dtype dtype)
{
    if (dtype == XT_F32)
        ((float *)data)[i] = value;
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
