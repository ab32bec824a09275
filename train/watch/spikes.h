/* Losses far above those of the steps before: a run that may be about to diverge, or a bad batch.
 *
 * Kept are a running level of the loss and a running mean distance from it, both over about the
 * last 100 steps; a loss counts in them as at most three distances away, so that single ones hardly
 * move them. A loss is a spike where it lies more than ten distances above the level, once 50
 * steps are seen; as long as it stays there it is the same spike. A plain value that checkpoints
 * hold; zeroed: no step yet.
 */
#ifndef XT_TRAIN_WATCH_SPIKES_H
#define XT_TRAIN_WATCH_SPIKES_H

#include <stdbool.h>
#include <stdint.h>

struct xt_spikes {
    double level, distance;
    int64_t seen;  /* steps */
    int64_t count; /* spikes so far */
    int64_t told;  /* of them, in the lines of the record */
    bool within;   /* the last loss was one */
};

/* Whether a spike begins with this loss, a finite number. */
bool xt_spikes_see(struct xt_spikes *spikes, double loss);

#endif
