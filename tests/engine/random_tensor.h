/* Random tensors for the tests of loops, and the memory that they and their results lie in. */
#pragma once

#include "support.h"

#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "base/rng.h"

/* Of its exact size, so that the address sanitizer sees what is read beyond; NaN until written. */
static inline void *aligned_memory(size_t bytes)
{
    void *memory = NULL;
    assert_int_equal(posix_memalign(&memory, 64, bytes), 0);
    memset(memory, 0xFF, bytes);
    return memory;
}

/* In [-1, 1), as `dtype` holds it: *to is that element, the result its value. */
static inline double random_number(struct xt_rng *rng, enum xt_dtype dtype, void *to)
{
    float value = 2 * xt_rng_uniform(rng) - 1;
    xt_number_from_float(dtype, &value, 1, to);
    xt_number_to_float(dtype, to, 1, &value);
    return (double)value;
}

/* `count` such elements from `to` on; the result, which the caller frees, holds their values. */
static inline double *random_numbers(struct xt_rng *rng, enum xt_dtype dtype, size_t count,
                                     void *to)
{
    double *values = malloc(count * sizeof *values);
    assert_true(values && to);
    for (size_t i = 0; i < count; i++)
        values[i] = random_number(rng, dtype, (char *)to + i * xt_dtype_size(dtype));
    return values;
}
