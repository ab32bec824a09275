/* Selects the build of the loops: the widest instruction set that the CPU has. */
#include "data/image/loops/pixels.h"

extern const struct xt_pixel_loops xt_pixel_loops_base;

#ifdef __x86_64__
extern const struct xt_pixel_loops xt_pixel_loops_avx2;
extern const struct xt_pixel_loops xt_pixel_loops_avx512;

const struct xt_pixel_loops *xt_pixel_loops_get(void)
{
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq"))
        return &xt_pixel_loops_avx512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return &xt_pixel_loops_avx2;
    return &xt_pixel_loops_base;
}
#else
const struct xt_pixel_loops *xt_pixel_loops_get(void)
{
    return &xt_pixel_loops_base;
}
#endif
