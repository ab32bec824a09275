/* Kernels that were made ahead of time, for a GPU that was not there (gpu/capture.h): when they are
 * first used on one, they are held against what was recorded with them, and where there are some
 * that cannot be used, it is said why. Stateless.
 */
#ifndef XT_DEVICE_KERNELS_AHEAD_H
#define XT_DEVICE_KERNELS_AHEAD_H

#include "device/kernels/kernel_cache.h"

/* The lines of an index that such kernels have, and no others: that they were made so, and whether
 * a GPU has run them. */
extern const char xt_ahead_made[];
extern const char xt_ahead_never_run[];
extern const char xt_ahead_run[];

/* They are made through OpenCL, where oneDNN would take Level Zero if it could: true where that is
 * to be left out for them, since nobody has chosen. Before oneDNN is loaded. */
bool xt_ahead_wants_opencl(const struct xt_kernel_cache *cache);

/* `about`: the lines of the device that was opened, as they are recorded with kernels. Kernels of
 * this folder that are for another device, driver or oneDNN are removed; those that no GPU has run
 * yet are spoken of, and whether the device computes right is to be asked anew. XT_ERR_DEVICE where
 * they cannot be removed. */
enum xt_status xt_ahead_check(struct xt_kernel_cache *cache, const char *about, struct xt_err *err);

#endif
