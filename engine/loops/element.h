/* Reading and writing an element of a tensor as float32. `dtype` is a constant wherever these are
 * used, so that each loop is compiled once per type without branches on it.
 */
#pragma once

#include <math.h>
#include <stdint.h>

#include "base/number.h"

#define XT_INLINE static inline __attribute__((always_inline))

/* loops/NAME.c defines functions called xt_loops_NAME_ISA: XT_LOOPS_NAME(NAME) spells it. */
#ifndef XT_LOOPS_ISA
#define XT_LOOPS_ISA base
#endif
#define XT_LOOPS_PASTE(name, isa) xt_loops_##name##_##isa
#define XT_LOOPS_EXPAND(name, isa) XT_LOOPS_PASTE(name, isa)
#define XT_LOOPS_NAME(name) XT_LOOPS_EXPAND(name, XT_LOOPS_ISA)

XT_INLINE float load(const void *data, size_t i, enum xt_dtype dtype)
{
    if (dtype == XT_F32)
        return ((const float *)data)[i];
    if (dtype == XT_F16)
        return xt_fp16_to_float(((const uint16_t *)data)[i]);
    return xt_bf16_to_float(((const uint16_t *)data)[i]);
}

XT_INLINE void store(void *data, size_t i, float value, enum xt_dtype dtype)
{
    if (dtype == XT_F32)
        ((float *)data)[i] = value;
    else if (dtype == XT_F16)
        ((uint16_t *)data)[i] = xt_fp16_from_float(value);
    else if (dtype == XT_S8)
        ((int8_t *)data)[i] = (int8_t)rintf(value);
    else
        ((uint16_t *)data)[i] = (uint16_t)(xt_bf16_round(value) >> 16);
}

XT_INLINE const void *at(const void *data, size_t i, enum xt_dtype dtype)
{
    return (const char *)data + i * xt_dtype_size(dtype);
}

XT_INLINE void *at_out(void *data, size_t i, enum xt_dtype dtype)
{
    return (char *)data + i * xt_dtype_size(dtype);
}
