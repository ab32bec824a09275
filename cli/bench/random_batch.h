/* A batch of random pixels and labels for a trainer's network, in its first slot and already
 * transferred if the device needs that: for benches, whose steps must do the same work each time
 * without a loader. */
#pragma once

#include "base/err.h"
#include "train/trainer.h"

struct xt_random_batch {
    struct xt_feed_batch batch;
    int *labels;
    int *label_lengths;
};

/* Deterministic for a network and batch. Clear it also after a failure. */
enum xt_status xt_random_batch_init(struct xt_random_batch *random, struct xt_trainer *trainer,
                                    struct xt_err *err);
void xt_random_batch_clear(struct xt_random_batch *random);
