/* Building a network: its graph and kernels, after a check that memory suffices, and its weights.
 * Not thread-safe.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "infer/device_check.h"
#include "infer/network/network.h"
#include "infer/settings.h"

/* Builds the graph for `batch` and fills it from --init or from `seed`. For inference it takes the
 * weights' ranges for int8, where they have some. */
enum xt_status xt_network_build(struct xt_network *network,
                                const struct xt_network_settings *settings, int batch,
                                bool training, struct xt_err *err);
/* Builds an additional graph over the same parameters; *out is the caller's to destroy, also after
 * a failure, before the network is cleared. */
enum xt_status xt_network_build_beside(struct xt_network *network,
                                       const struct xt_network_settings *settings, int batch,
                                       bool training, struct xt_graph **out, struct xt_err *err);
/* By --check-device, checks that the device computes the built graphs correctly (device_check.h),
 * or graphs of a smaller batch where the host has not the memory for their references. `afresh`:
 * whatever the cache says. `more`: of the graph for training, after its ops; NULL: nothing. */
enum xt_status xt_network_check_device(struct xt_network *network,
                                       const struct xt_network_settings *settings,
                                       const struct xt_device_settings *device,
                                       const struct xt_device_checker *more, bool afresh,
                                       struct xt_err *err);
/* Replaces the graph by another of the same purpose, over the same parameters and with
 * settings->amp as its type: int8 where the network's ranges are known, float32 until then. On an
 * XPU for inference only. */
enum xt_status xt_network_rebuild(struct xt_network *network,
                                  const struct xt_network_settings *settings, int batch,
                                  struct xt_err *err);
/* Where memory ran out in a pass, despite the plan: adds to the error what the batch takes by the
 * plan, and half of it. Returns the error's status. */
enum xt_status xt_network_advise_batch(struct xt_network *network,
                                       const struct xt_network_settings *settings, bool training,
                                       struct xt_err *err);
/* Open and build. */
enum xt_status xt_network_init(struct xt_network *network,
                               const struct xt_network_settings *settings,
                               const struct xt_device_settings *device, int batch, bool training,
                               struct xt_err *err);
