/* What the kernel's driver counts for this process on a GPU (/proc/self/fdinfo, the kernel's
 * drm-usage-stats), which needs no privilege. Stateless, thread-safe.
 */
#ifndef XT_DEVICE_GPU_DRM_CLIENT_H
#define XT_DEVICE_GPU_DRM_CLIENT_H

#include <stdbool.h>

#include "device/gpu/level_zero.h"

/* Bytes of the GPU's own memory, of an integrated one of the host's, that this process has there
 * now; false where the kernel does not count them. `root` is put before the path ("" for the
 * machine itself). */
bool xt_drm_memory_used(const char *root, const struct xt_pci_address *pci, double *bytes);

#endif
