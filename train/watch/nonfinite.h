/* Where the first number that is infinite or NaN appears in a step: the weights that it began
 * with, the layer whose output or running statistic has it forward, the loss, or the layer whose
 * gradient has it backward. Not thread-safe.
 */
#pragma once

#include <stddef.h>

#include "infer/network/network.h"
#include "train/losses/loss.h"
#include "train/optim/scaler.h"

/* Repeats the graph's pass op by op: forward, loss, scaler, backward. `text` gets "the output of
 * backbone.4.block.0 (convolution), 12 of 1040 numbers"; "" if nothing is found. The running
 * statistics move on. */
void xt_nonfinite_find(struct xt_network *network, struct xt_loss *trained_for,
                       const struct xt_batch *batch, const struct xt_scaler *scaler, char *text,
                       size_t size);
