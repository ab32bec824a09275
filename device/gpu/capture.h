/* Intel's OpenCL driver in capture mode: it emulates the presence of a GPU that is not in this
 * machine, compiles for it, and computes nothing. The mode is set by environment variables, which
 * the driver reads when it is loaded; the queries here read them too. Stateless.
 */
#ifndef XT_DEVICE_GPU_CAPTURE_H
#define XT_DEVICE_GPU_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* The GPUs that driver 22.43 is known to open in this mode. */
enum xt_capture_gpu {
    XT_CAPTURE_NONE,
    XT_CAPTURE_A770,
    XT_CAPTURE_A750,
    XT_CAPTURE_A580,
    XT_CAPTURE_A380,
    XT_CAPTURE_A310,
    XT_CAPTURE_FLEX170,
    XT_CAPTURE_FLEX140,
    XT_CAPTURE_MAX1550,
    XT_CAPTURE_MAX1100,
    XT_CAPTURE_DG1,
    XT_CAPTURE_TGL,
    XT_CAPTURE_ADLP,
    XT_CAPTURE_ADLS,
    XT_CAPTURE_COUNT,
};
/* "none", "a770", ...; NULL at the end. */
extern const char *const xt_capture_names[];

/* "Arc A770 (0x56a0)" */
struct xt_capture_title {
    char text[64];
};
struct xt_capture_title xt_capture_title(enum xt_capture_gpu gpu);

/* Sets the mode; before oneDNN or a driver is loaded. XT_ERR_DEVICE if Intel's OpenCL driver is not
 * installed, with the command that installs it. */
enum xt_status xt_capture_begin(enum xt_capture_gpu gpu, struct xt_err *err);

/* Whether the mode is set, by this or by the user's variables, and the PCI device id that is
 * emulated. */
bool xt_capture_device(uint32_t *device);

/* Whether the device of that id is the requested one; XT_ERR_DEVICE if not. */
enum xt_status xt_capture_check(enum xt_capture_gpu gpu, uint32_t device, struct xt_err *err);

#endif
