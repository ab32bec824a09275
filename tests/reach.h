/* How far a network's numbers jump where a unit turns over, measured: what the tools share that
 * hold networks against a reference (golden.c, zoo.c).
 *
 * A ReLU whose input is within rounding of zero, or two nearly equal candidates of a max pool, may
 * fall either way, here and in the reference, and one such unit changes single elements of the
 * gradient, and what follows from it, by hundredths. How far that reaches is measured for each
 * element: in pairs of passes the input is moved a little and by the opposite, so that a unit which
 * rounding can turn over is turned over in one of the two, unless others move it back: eight passes
 * left out one of LPRNet's by AVX2. An element may be off by its tolerance and by REACH_FACTOR
 * times its range in those passes; several units may turn at once. What is continuous has to be
 * right on the input as it is.
 */
#pragma once

#include <math.h>
#include <stddef.h>
#include <stdlib.h>

#include "base/rng.h"

enum { MOVED_PASSES = 12, REACH_FACTOR = 2 };
/* Of a number: in float32 more than rounding adds up to in these networks, Winograd's convolutions
 * included, in bf16 its rounding. */
#define MOVED_BY 0x1p-17f
#define MOVED_BY_BF16 0x1p-9f

/* The range of each element that jumps, in the order in which a pass comes to them. */
struct reach {
    double *least, *most;
    size_t count, room;
    size_t at;
    int moved; /* the pass: 1 to MOVED_PASSES; 0: the last, on the input as it is */
};

static inline void note_range(struct reach *reach, double value)
{
    if (reach->count == reach->room) {
        reach->room = 2 * reach->room + 1024;
        reach->least = realloc(reach->least, reach->room * sizeof *reach->least);
        reach->most = realloc(reach->most, reach->room * sizeof *reach->most);
        if (!reach->least || !reach->most)
            abort();
    }
    if (reach->at == reach->count) {
        reach->least[reach->count] = reach->most[reach->count] = value;
        reach->count++;
    }
    reach->least[reach->at] = fmin(reach->least[reach->at], value);
    reach->most[reach->at] = fmax(reach->most[reach->at], value);
}

/* How far units that turn over explain that the next element, here `value`, is off. */
static inline double explained(struct reach *reach, double value)
{
    double range = 0;
    if (reach->moved)
        note_range(reach, value);
    else if (reach->at < reach->count)
        range = reach->most[reach->at] - reach->least[reach->at];
    reach->at++;
    return REACH_FACTOR * range;
}

static inline double beyond(double error, double explained)
{
    double rest = fabs(error) - explained;
    return rest <= 0 ? 0 : rest; /* NaN stays */
}

/* Moves the input of a pass: 1 and 2, 3 and 4 and so on are each other's opposite. */
static inline void move_by_pass(float *x, size_t count, int pass, float by)
{
    if (pass % 2 == 0)
        by = -by;
    for (size_t i = 0; i < count && pass; i++)
        x[i] *= 1 + (xt_rng_at((uint64_t)(pass + 1) / 2, 0, i) % 2 ? by : -by);
}
