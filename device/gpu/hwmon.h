/* What the kernel's driver measures of a card, under its hwmon folder (i915, xe): energy, power
 * limit, temperature, which everybody may read. Where it measures nothing there is a reason. A
 * value the caller owns; one thread.
 */
#ifndef XT_DEVICE_GPU_HWMON_H
#define XT_DEVICE_GPU_HWMON_H

#include <stdbool.h>

#include "base/system/energy.h"
#include "device/gpu/level_zero.h"

struct xt_hwmon {
    char folder[160]; /* ".../hwmon/hwmon3"; "": there is none */
    char name[16];    /* "i915", "xe" */
    struct xt_energy energy;
    double when;    /* seconds, of the last reading; 0: none yet */
    double counted; /* joules, then */
};

/* `root` is put before the path ("" for the machine itself). */
void xt_hwmon_open(struct xt_hwmon *hwmon, const char *root, const struct xt_pci_address *pci);

/* Sets energy (joules since it was opened), power, power_limit and temperature where they are
 * known, and leaves the others of them as they are. Power needs a second reading. */
void xt_hwmon_read(struct xt_hwmon *hwmon, struct xt_telemetry *out);

#endif
