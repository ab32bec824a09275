/* Losses far above those of the steps before: a run that may be about to diverge, or a bad batch.
 *
 * Tracks a running level of the loss and a running mean distance from it, both over about the last
 * 100 steps; a loss is clamped to three distances, so that outliers hardly move them. A loss is a
 * spike if it lies more than ten distances above the level, after the first 50 steps; as long as it
 * stays there it is the same spike. Stored in checkpoints by value; zeroed: no step yet.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

struct xt_spikes {
    double level, distance;
    int64_t seen;  /* steps */
    int64_t count; /* spikes so far */
    int64_t told;  /* of them, already in the record */
    bool within;   /* the last loss was a spike */
};

/* Whether a spike begins with this finite loss. */
bool xt_spikes_see(struct xt_spikes *spikes, double loss);
