/* Pinned host memory, allocated from SYCL itself: oneDNN's mapping would also use as much device
 * memory. Uses the mangled names of SYCL's functions, as oneDNN's C interface has none; not
 * available with other runtimes of oneDNN. Thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "device/handle.h"

/* Whether the loaded oneDNN runs GPUs with a SYCL that has these functions. */
bool xt_pinned_is_there(void);

/* `bytes` of it, aligned to 64, contents undefined; NULL if unavailable or out of memory. Released
 * with xt_pinned_free, before its device is closed; not if the driver is lost. */
void *xt_pinned_alloc(const struct xt_device *device, size_t bytes);
void xt_pinned_free(const struct xt_device *device, void *memory);
