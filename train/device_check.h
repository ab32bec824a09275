/* Whether a device computes right, asked before a run begins on it: a few ops of each kind against
 * plain loops (models/selftest), in the run's type. What passed is kept beside the kernels, by
 * oneDNN, device and driver, and is asked again a day later. */
#ifndef XT_TRAIN_DEVICE_CHECK_H
#define XT_TRAIN_DEVICE_CHECK_H

#include <stdint.h>

#include "base/dtype.h"
#include "base/err.h"
#include "device/device.h"

/* XT_ERR_DEVICE where it does not; *when gets the time that it was seen to, in seconds since 1970.
 * Nothing on the CPU, whose kernels the tests look at: 0. */
enum xt_status xt_device_check(struct xt_device *device, enum xt_dtype dtype, int64_t *when,
                               struct xt_err *err);

#endif
