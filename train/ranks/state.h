/* What every rank has of a run, which is the same in all: weights, statistics, their moving
 * average, the optimizer's arrays; and what each met of its images, which rank 0 lists. Collective;
 * alone nothing is done.
 */
#ifndef XT_TRAIN_RANKS_STATE_H
#define XT_TRAIN_RANKS_STATE_H

#include "data/loader.h"
#include "engine/params.h"
#include "train/optim/ema.h"
#include "train/optim/optim.h"
#include "ranks/ranks.h"

struct xt_rank_state {
    struct xt_params *params;
    struct xt_optim *optim;
    struct xt_ema *ema; /* NULL: none */
};

/* All take rank 0's. XT_ERR_DEVICE where a rank's CPU or library lays weights out otherwise. */
enum xt_status xt_rank_state_share(struct xt_ranks *ranks, const struct xt_rank_state *state,
                                   struct xt_err *err);
/* Ranks whose CPUs or libraries differ may round differently, and so drift apart: then rank 0's
 * state counts, and that is said. On the host. */
enum xt_status xt_rank_state_check(struct xt_ranks *ranks, const struct xt_rank_state *state,
                                   struct xt_err *err);

/* The lists of all, one behind the other in the order of the ranks, each image once, in place of
 * this rank's own. Reasons are cut where they are long. Released with xt_loader_free_bad. */
enum xt_status xt_ranks_share_bad(struct xt_ranks *ranks, struct xt_bad_sample **bad, size_t *count,
                                  struct xt_err *err);

#endif
