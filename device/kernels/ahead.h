/* Kernels compiled ahead of time, for a GPU that was not present (gpu/capture.h): when they are
 * first used on one, they are compared with what was recorded with them, and a message says why
 * some cannot be used. Stateless.
 */
#pragma once

#include "device/kernels/kernel_cache.h"

/* The lines of an index that only such kernels have: that they were compiled ahead of time, and
 * whether a GPU has run them. */
extern const char xt_ahead_mark[];
extern const char xt_ahead_never_run[];
extern const char xt_ahead_run[];

/* `about`: the lines of the opened device, as recorded with kernels. Kernels in this folder that
 * are for another device, driver or oneDNN are removed; those that no GPU has run yet are reported,
 * and require a new device check. XT_ERR_DEVICE if they cannot be removed. */
enum xt_status xt_ahead_check(struct xt_kernel_cache *cache, const char *about, struct xt_err *err);
