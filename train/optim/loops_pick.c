/* Selects the build of the loops: that of the engine's loops. */
#include "engine/loops/loops.h"
#include "train/optim/loops/update.h"

extern const struct xt_update_loops xt_loops_update_base, xt_loops_update_avx2,
    xt_loops_update_avx512;

const struct xt_update_loops *xt_update_loops_get(void)
{
    int lanes = xt_loops_get()->lanes;
    return lanes > 8   ? &xt_loops_update_avx512
           : lanes > 0 ? &xt_loops_update_avx2
                       : &xt_loops_update_base;
}
