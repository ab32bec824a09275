/* Early stopping (--patience, --min-delta).
 *
 * A gain is an accuracy that is higher by more than min-delta than at the last gain; with min-delta
 * 0 any better evaluation, as best.safetensors has it. As long as no prediction is correct, a
 * smaller loss is one too, or a higher secondary metric. Stored in checkpoints by value; zeroed:
 * nothing was evaluated yet.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "infer/answer/selection_metric.h"

struct xt_patience {
    bool begun;
    struct xt_selection_metric
        last;      /* at the last gain; while no prediction is correct the best of each */
    int64_t since; /* evaluations without gain since then */
};

void xt_patience_see(struct xt_patience *patience, const struct xt_selection_metric *metric,
                     double min_delta);
/* Whether `most` evaluations have passed without gain; 0: never. */
bool xt_patience_is_over(const struct xt_patience *patience, int most);
