/* Sums for a batch norm in double precision, beside those that a convolution's loop forms, for the
 * tests of such loops.
 */
#pragma once

#include "support.h"

#include <math.h>
#include <string.h>

#include "engine/loops/norm_sums.h"

/* One pixel and channel more in sums that are relative to a pivot; `size` is of their terms. */
struct sum {
    double first, second, size[2];
};

static inline void add_to_sum(struct sum *sum, double first, double second)
{
    sum->first += first;
    sum->second += second;
    sum->size[0] += fabs(first);
    sum->size[1] += fabs(second);
}

static inline void check_sum(const struct sum *sum, const struct xt_norm_sums *got, int channel,
                             double most)
{
    assert_true(fabs(got->sums[0][channel] - sum->first) <= most * sum->size[0]);
    assert_true(fabs(got->sums[1][channel] - sum->second) <= most * sum->size[1]);
}

/* sums: [2][channels]. */
static inline void begin_sums(struct xt_norm_sums *of, int channels, double *sums, float *pivot)
{
    memset(sums, 0, 2 * (size_t)channels * sizeof *sums);
    of->sums[0] = sums;
    of->sums[1] = sums + channels;
    of->pivot = pivot;
}
