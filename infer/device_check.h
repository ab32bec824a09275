/* Whether a device computes correctly, checked before a run starts on it: a few ops of each kind
 * against reference loops (engine/selftest), in the run's type. A pass is recorded in the kernel
 * cache, by oneDNN, device and driver, and expires after a day. */
#ifndef XT_INFER_DEVICE_CHECK_H
#define XT_INFER_DEVICE_CHECK_H

#include <stdint.h>

#include "base/dtype.h"
#include "base/err.h"
#include "device/device.h"

/* XT_ERR_DEVICE where it does not; *when gets the time of the check, in seconds since 1970. The CPU
 * is not checked, since the tests cover its kernels: 0. */
enum xt_status xt_device_check(struct xt_device *device, enum xt_dtype dtype, int64_t *when,
                               struct xt_err *err);

/* Whether a device works: opens what `spec` names and checks it in float32, in a child process,
 * which may crash or hang. Call it before threads start. */
struct xt_device_try {
    enum xt_status status;
    char why[1024]; /* why it does not work; "": it does */
    char name[128];
    char backend[24]; /* as of struct xt_xpu */
    bool there;       /* oneDNN lists a GPU */
    double open_s;    /* seconds until the device was open, and for the check */
    double check_s;
    double pass_s; /* a training pass of the checked network; 0: not timed */
};
/* `selector`: ONEAPI_DEVICE_SELECTOR of that process, whose passes are timed; NULL: unchanged.
 * Fails only where no process can be started. */
enum xt_status xt_device_try(const char *spec, const char *selector, struct xt_device_try *out,
                             struct xt_err *err);

#endif
