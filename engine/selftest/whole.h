/* A whole training pass by slices of the batch's samples, as a run computes it, beside the same
 * pass op by op: each op of the one is in the other, and their order and memory are not. Back ends
 * without slices have nothing to compare. */
#pragma once

#include "engine/selftest/selftest.h"

/* Adds to `out` what becomes of the logits in training and inference, and of the parameters'
 * gradients; nothing of int8. */
enum xt_status xt_selftest_whole(struct xt_selftest *out, const struct xt_selftest_options *options,
                                 struct xt_err *err);
