/* The state of a run that is replicated on every rank: weights, statistics, their moving average,
 * the optimizer's arrays, the gradients' residual; and the bad images of each, which rank 0 lists.
 * Collective; a no-op for a single process.
 */
#pragma once

#include "data/loader.h"
#include "engine/params.h"
#include "train/optim/ema.h"
#include "train/optim/optim.h"
#include "ranks/ranks.h"

struct xt_rank_state {
    struct xt_params *params;
    struct xt_optim *optim;
    struct xt_ema *ema; /* NULL: none */
    float *residual;    /* of the gradients (gradients.h), levelled; NULL: none */
};

/* Broadcasts rank 0's state. XT_ERR_DEVICE if a rank's CPU or library uses another weight
 * layout. */
enum xt_status xt_rank_state_share(struct xt_ranks *ranks, const struct xt_rank_state *state,
                                   struct xt_err *err);
/* Ranks whose CPUs or libraries differ round differently: then rank 0's state is used, with a
 * warning. XT_ERR_RUN, with the first tensor, where they are further apart than rounding leads: one
 * of them computes or remembers wrongly. On the host. */
enum xt_status xt_rank_state_check(struct xt_ranks *ranks, const struct xt_rank_state *state,
                                   struct xt_err *err);
/* XT_ERR_USAGE where ranks begin with different weights; not compared where layouts differ. */
enum xt_status xt_rank_state_check_initial(struct xt_ranks *ranks, struct xt_params *params,
                                           struct xt_err *err);

/* Replaces this rank's list by those of all ranks, concatenated in rank order, each image once.
 * Long reasons are truncated. Released with xt_loader_free_bad. */
enum xt_status xt_ranks_share_bad(struct xt_ranks *ranks, struct xt_bad_sample **bad, size_t *count,
                                  struct xt_err *err);
