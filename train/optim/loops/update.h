/* Inner loops over a part of the parameters: each optimizer's update, and the gradient's norm.
 *
 * update.c is built once for each instruction set; its products and sums are not contracted, so
 * that every build computes the same bits.
 */
#pragma once

#include "train/optim/rule.h"

/* `count` values; absent state arrays are NULL. */
typedef void xt_update_loop(const struct xt_optim_rule *rule, size_t count, float *restrict values,
                            const float *restrict grads, float *restrict const state[2]);

struct xt_update_loops {
    xt_update_loop *update[XT_OPTIM_KINDS]; /* by enum xt_optim_kind */
    double (*square_sum)(const float *values, size_t count);
};

const struct xt_update_loops *xt_update_loops_get(void);
