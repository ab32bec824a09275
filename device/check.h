/* Whether a device works: opens what `spec` names and checks one convolution there, in a process of
 * its own. Call it before threads start. */
#ifndef XT_DEVICE_CHECK_H
#define XT_DEVICE_CHECK_H

#include "base/err.h"

struct xt_check {
    enum xt_status status;
    char why[1024];
    char name[128];
    double error;
    double open_s; /* seconds until the device was open, and for the convolution */
    double check_s;
};
/* Fails only where no process can be started; what went wrong in it is in out->status and why. */
enum xt_status xt_check_device(const char *spec, struct xt_check *out, struct xt_err *err);

#endif
