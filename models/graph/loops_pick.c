/* Which build of the loops runs: the widest instruction set that the CPU has. */
#include "models/graph/loops/loops.h"

extern const struct xt_loops xt_loops_table_base;
extern const struct xt_loops xt_loops_table_avx2;
extern const struct xt_loops xt_loops_table_avx512;

const struct xt_loops *xt_loops_get(void)
{
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        return &xt_loops_table_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &xt_loops_table_avx2;
    return &xt_loops_table_base;
}

size_t xt_norm_scratch(const struct xt_norm_sample *sample)
{
    size_t c = (size_t)sample->c;
    size_t row = (size_t)sample->w * c;
    size_t ring = 3 * (size_t)sample->max.out_w * c;
    return 2 * row + 2 * ring + 2 * c;
}
