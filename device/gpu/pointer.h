/* The kind of memory that a pointer refers to, queried from the GPU's driver (Level Zero's
 * zeMemGetAllocProperties, OpenCL's cl_intel_unified_shared_memory): so it is verified that a batch
 * slot is pinned. Stateless.
 */
#pragma once

#include "device/dnnl.h"

enum xt_pointer_kind {
    XT_POINTER_NOT_KNOWN, /* the driver cannot be queried */
    XT_POINTER_PAGEABLE,  /* unknown to the driver: memory of the process only */
    XT_POINTER_PINNED,    /* the host's, directly accessible by the GPU */
    XT_POINTER_DEVICE,
    XT_POINTER_SHARED, /* migrates between host and GPU */
};

/* For a GPU engine. */
enum xt_pointer_kind xt_pointer_ask(dnnl_engine_t engine, const void *pointer);

/* "pinned", "pageable", ... */
const char *xt_pointer_kind_name(enum xt_pointer_kind kind);
