/* Memory of the host that a GPU reaches, had from SYCL itself: what oneDNN maps to has as much of
 * the device's memory behind it. By the names that the C++ ABI gives SYCL's functions, as oneDNN's
 * C interface has none; other runtimes of oneDNN have none here. Thread-safe.
 */
#ifndef XT_DEVICE_PINNED_H
#define XT_DEVICE_PINNED_H

#include <stdbool.h>
#include <stddef.h>

#include "device/handle.h"

/* Whether the loaded oneDNN runs GPUs with a SYCL that has it. */
bool xt_pinned_is_there(void);

/* `bytes` of it, at a multiple of 64, contents undefined; NULL where there is none, or too little.
 * Released with xt_pinned_free, before its device is closed; not by a driver that is lost. */
void *xt_pinned_alloc(const struct xt_device *device, size_t bytes);
void xt_pinned_free(const struct xt_device *device, void *memory);

#endif
