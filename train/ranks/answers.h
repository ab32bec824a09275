/* What an evaluation got wrong, of which each rank has seen its part of the images. */
#ifndef XT_TRAIN_RANKS_ANSWERS_H
#define XT_TRAIN_RANKS_ANSWERS_H

#include "ranks/ranks.h"
#include "runs/report/errors.h"

/* What all ranks have collected, in place of this one's, before it is ended. Collective; alone
 * nothing is done. */
enum xt_status xt_ranks_share_errors(struct xt_ranks *ranks, struct xt_errors *errors,
                                     struct xt_err *err);

#endif
