/* Intel's OpenCL driver in capture mode: it emulates the presence of a GPU that is not in this
 * machine, compiles for it, and computes nothing. The mode is set by environment variables, which
 * the driver reads when it is loaded; the queries here read them too. Stateless but for the folder
 * of a driver that is not installed; one thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/* NULL-terminated: "none", "a770", ... */
extern const char *const xt_capture_names[];
/* The PCI device id of one of these names, or of "0xe20b" where its family is known; false if
 * neither. "none" is 0. */
bool xt_capture_find(const char *name, uint32_t *device);

/* "Arc A770 (0x56a0)", and the name of a GPU, or its id, as --for-gpu takes it. */
struct xt_capture_title {
    char text[64];
};
struct xt_capture_title xt_capture_title(uint32_t device);
struct xt_capture_title xt_capture_name(uint32_t device);

/* Sets the mode; before oneDNN or a driver is loaded. `driver`: a folder of unpacked packages whose
 * driver is used, for which this program restarts itself by their dynamic loader; NULL: the
 * installed one. XT_ERR_DEVICE if there is none, with the command that installs it. */
enum xt_status xt_capture_begin(uint32_t device, const char *driver, struct xt_err *err);

/* The folder that the driver was taken from; "": the system's. */
const char *xt_capture_driver_root(void);

/* Whether the mode is set, by this or by the user's variables, and the PCI device id that is
 * emulated. */
bool xt_capture_device(uint32_t *device);

/* XT_ERR_DEVICE if the driver (its version) opened another device than the requested one, or is
 * older than those that were found to compile for it. */
enum xt_status xt_capture_check(uint32_t device, uint32_t opened, const char *driver,
                                struct xt_err *err);
