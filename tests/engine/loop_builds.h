/* Every instruction set's build of the loops, for tests that compare all of them with reference
 * loops.
 */
#pragma once

#include "engine/loops/loops.h"

extern const struct xt_loops xt_loops_table_base;
#ifdef __x86_64__
extern const struct xt_loops xt_loops_table_avx2;
extern const struct xt_loops xt_loops_table_avx512;
extern const struct xt_loops xt_loops_table_avx512bf16;
extern const struct xt_loops xt_loops_table_amx;
#endif

/* The builds that this CPU can run. */
enum { BUILDS_MAX = 5 };
static inline int builds(const struct xt_loops *out[BUILDS_MAX])
{
    int count = 0;
    out[count++] = &xt_loops_table_base;
#ifdef __x86_64__
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        out[count++] = &xt_loops_table_avx2;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        out[count++] = &xt_loops_table_avx512;
    if (__builtin_cpu_supports("avx512bf16"))
        out[count++] = &xt_loops_table_avx512bf16;
    if (xt_loops_get() == &xt_loops_table_amx)
        out[count++] = &xt_loops_table_amx;
#endif
    return count;
}
