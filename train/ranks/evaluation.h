/* An evaluation by all ranks, each on its share of the images. */
#ifndef XT_TRAIN_RANKS_EVALUATION_H
#define XT_TRAIN_RANKS_EVALUATION_H

#include "infer/evaluate.h"
#include "ranks/ranks.h"
#include "runs/report/errors.h"

/* This rank's share; of NULL all images. */
struct xt_evaluate_share xt_ranks_evaluate_share(struct xt_ranks *ranks);

/* What all ranks have collected, in place of this one's, before it is ended. Collective; alone
 * nothing is done. */
enum xt_status xt_ranks_share_errors(struct xt_ranks *ranks, struct xt_errors *errors,
                                     struct xt_err *err);

#endif
