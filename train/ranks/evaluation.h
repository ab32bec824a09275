/* An evaluation by all ranks, each on its share of the images. */
#pragma once

#include "infer/evaluate.h"
#include "ranks/ranks.h"
#include "runs/report/errors.h"

/* This rank's share of the images; all of them if `ranks` is NULL. */
struct xt_evaluate_share xt_ranks_evaluate_share(struct xt_ranks *ranks);

/* Replaces this rank's errors by those of all ranks, before they are finalized. Collective; a no-op
 * for a single process. */
enum xt_status xt_ranks_share_errors(struct xt_ranks *ranks, struct xt_errors *errors,
                                     struct xt_err *err);
