/* Whether a device computes right, asked before a run begins on it: a few ops of each kind against
 * plain loops (engine/selftest), in the run's type. What passed is kept beside the kernels, by
 * oneDNN, device and driver, and is asked again a day later. */
#ifndef XT_INFER_DEVICE_CHECK_H
#define XT_INFER_DEVICE_CHECK_H

#include <stdint.h>

#include "base/dtype.h"
#include "base/err.h"
#include "device/device.h"

/* XT_ERR_DEVICE where it does not; *when gets the time that it was seen to, in seconds since 1970.
 * Nothing on the CPU, whose kernels the tests look at: 0. */
enum xt_status xt_device_check(struct xt_device *device, enum xt_dtype dtype, int64_t *when,
                               struct xt_err *err);

/* Whether a device works: opens what `spec` names and checks it there and then in float32, in a
 * process of its own, which may crash or hang. Call it before threads start. */
struct xt_device_try {
    enum xt_status status;
    char why[1024]; /* it does not work */
    char name[128];
    char backend[24]; /* as of struct xt_xpu */
    bool there;       /* oneDNN lists a GPU */
    double open_s;    /* seconds until the device was open, and for the check */
    double check_s;
    double pass_s; /* a training pass of the network that is checked; 0: not timed */
};
/* `selector`: ONEAPI_DEVICE_SELECTOR of that process, whose passes are timed; NULL: as it is here.
 * Fails only where no process can be started. */
enum xt_status xt_device_try(const char *spec, const char *selector, struct xt_device_try *out,
                             struct xt_err *err);

#endif
