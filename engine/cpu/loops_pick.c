/* Which build of the loops runs: the widest instruction set that the CPU has and
 * ONEDNN_MAX_CPU_ISA allows. */
#include <cpuid.h>

#include "engine/loops/loops.h"

extern const struct xt_loops xt_loops_table_base;
extern const struct xt_loops xt_loops_table_avx2;
extern const struct xt_loops xt_loops_table_avx512;
extern const struct xt_loops xt_loops_table_avx512bf16;
extern const struct xt_loops xt_loops_table_amx;

/* gcc has no name for it before 13. */
static bool has_amx(void)
{
    enum { BF16 = 1 << 22, TILES = 1 << 24 };
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && d & BF16 && d & TILES;
}

/* Of a CPU with AVX-512. */
static const struct xt_loops *pick_avx512(void)
{
    if (!__builtin_cpu_supports("avx512bf16") || !xt_device_cpu_may(dnnl_cpu_isa_avx512_core_bf16))
        return &xt_loops_table_avx512;
    return has_amx() && xt_device_cpu_may(dnnl_cpu_isa_avx512_core_amx)
               ? &xt_loops_table_amx
               : &xt_loops_table_avx512bf16;
}

const struct xt_loops *xt_loops_get(void)
{
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
        xt_device_cpu_may(dnnl_cpu_isa_avx512_core))
        return pick_avx512();
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
        xt_device_cpu_may(dnnl_cpu_isa_avx2))
        return &xt_loops_table_avx2;
    return &xt_loops_table_base;
}

size_t xt_norm_scratch(const struct xt_norm_sample *sample)
{
    size_t c = (size_t)sample->c;
    size_t row = (size_t)sample->w * c;
    size_t ring = 3 * (size_t)sample->max.out_w * c;
    return 2 * row + 2 * ring + 9 * c;
}
