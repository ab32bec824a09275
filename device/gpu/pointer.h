/* What kind of memory a pointer leads to, asked of the GPU's driver (Level Zero's
 * zeMemGetAllocProperties, OpenCL's cl_intel_unified_shared_memory): whether a batch slot is pinned
 * is not a matter of belief. Stateless.
 */
#ifndef XT_DEVICE_GPU_POINTER_H
#define XT_DEVICE_GPU_POINTER_H

#include "device/dnnl.h"

enum xt_pointer_kind {
    XT_POINTER_NOT_KNOWN, /* the driver cannot be asked */
    XT_POINTER_PAGEABLE,  /* the driver does not know it: memory of the process alone */
    XT_POINTER_PINNED,    /* the host's, and the GPU reads it itself */
    XT_POINTER_DEVICE,
    XT_POINTER_SHARED, /* moves between host and GPU */
};

/* For a GPU engine. */
enum xt_pointer_kind xt_pointer_ask(dnnl_engine_t engine, const void *pointer);

/* "pinned", "pageable", ... */
const char *xt_pointer_kind_name(enum xt_pointer_kind kind);

#endif
