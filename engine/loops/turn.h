/* The transpose of a block of 16 by 16 numbers. For the files of this folder that are built for
 * vectors. */
#pragma once

#include <string.h>

#include "engine/loops/vector.h"

enum { XT_TURN_EDGE = 16 };

#ifdef __AVX512F__
/* Each round sorts by one more bit of the column. */
static inline void turn(const float *from, float *to)
{
    enum { ROUNDS = 4, HALF = XT_TURN_EDGE / 2 };
    xt_vector rows[XT_TURN_EDGE];
    xt_vector sorted[XT_TURN_EDGE];
    memcpy(rows, from, sizeof rows);
    for (int round = 0; round < ROUNDS; round++) {
        for (int i = 0; i < HALF; i++) {
            xt_vector a = rows[i];
            xt_vector b = rows[i + HALF];
            sorted[2 * i] = __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21,
                                                    6, 22, 7, 23);
            sorted[2 * i + 1] = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28,
                                                        13, 29, 14, 30, 15, 31);
        }
        memcpy(rows, sorted, sizeof rows);
    }
    memcpy(to, rows, sizeof rows);
}
#else
static inline void turn(const float *from, float *to)
{
    for (int i = 0; i < XT_TURN_EDGE * XT_TURN_EDGE; i++)
        to[i] = from[i % XT_TURN_EDGE * XT_TURN_EDGE + i / XT_TURN_EDGE];
}
#endif
