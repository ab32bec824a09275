/* Creates a device's primitives: from the blob of an earlier start if oneDNN's runtime has cache
 * blobs and the kernel cache has this one, else by compiling. Several threads may create them
 * concurrently.
 */
#pragma once

#include "base/err.h"
#include "device/dnnl.h"
#include "device/handle.h"

/* The creator destroys it. `what` names it in errors. A cache that cannot be read or written only
 * costs the time to compile. */
enum xt_status xt_primitive_create(struct xt_device *device, const_dnnl_primitive_desc_t pd,
                                   const char *what, dnnl_primitive_t *out, struct xt_err *err);
