/* --batch auto: the largest batch whose memory plan fits what is free on the device and on the
 * host, with a margin. Each batch tried is planned as it would be built; nothing is allocated. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "infer/network/network.h"

enum { XT_BATCH_MAX = 65536 };

/* The largest batch up to `most` that fits with the margin; *batch 0: not even one image does.
 * Batches are `most` itself, or multiples of 32 (of 8 below 64), which suit the kernels. */
enum xt_status xt_auto_batch_find(struct xt_network *network,
                                  const struct xt_network_settings *settings, bool training,
                                  size_t most, int *batch, struct xt_err *err);

/* The batch for an opened network whose classes are known, and `images` in all; logs which and why,
 * followed by `remark` (NULL: of inference, no remark). An error where memory cannot be read, or
 * where nothing fits. */
enum xt_status xt_auto_batch_take(struct xt_network *network,
                                  const struct xt_network_settings *settings, bool training,
                                  size_t images, const char *remark, int *batch,
                                  struct xt_err *err);
