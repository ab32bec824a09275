/* Makes a device's primitives: where oneDNN's runtime gives cache blobs and the kernel cache keeps
 * them, from the blob of an earlier start, else compiled. Several threads may make them at once.
 */
#ifndef XT_DEVICE_PRIMITIVE_H
#define XT_DEVICE_PRIMITIVE_H

#include "base/err.h"
#include "device/dnnl.h"
#include "device/handle.h"

/* Whoever makes it destroys it. `what` names it in errors. A cache that cannot be read or written
 * costs the time to compile and nothing else. */
enum xt_status xt_primitive_create(struct xt_device *device, const_dnnl_primitive_desc_t pd,
                                   const char *what, dnnl_primitive_t *out, struct xt_err *err);

#endif
