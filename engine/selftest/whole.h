/* A whole pass by slices of the batch's samples, as runs compute it, beside the same pass op by op:
 * each op of the one is in the other, their order and memory are not. Where a network's passes are
 * not by slices there is nothing to compare. Not thread-safe. */
#pragma once

#include "engine/selftest/selftest.h"

/* Adds to `out` what becomes of the logits in training and inference, and of the parameters'
 * gradients; nothing of int8. */
enum xt_status xt_selftest_whole(struct xt_selftest *out, const struct xt_selftest_options *options,
                                 struct xt_err *err);
