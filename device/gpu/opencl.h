/* A GPU's description by OpenCL: for oneDNN devices that run through OpenCL, which cannot be
 * matched by Level Zero's handles. The OpenCL loader is loaded at run time. Stateless.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "device/gpu/level_zero.h"

/* A function of the OpenCL loader; NULL if it is not here. */
void *xt_opencl_symbol(const char *name);

/* Describes the cl_device_id that another library got from the same loader. `version` (64 bytes)
 * gets the OpenCL version that the device supports. */
enum xt_status xt_opencl_describe(uint64_t handle, struct xt_gpu_facts *facts, char *version,
                                  struct xt_err *err);

/* Whether that device has unified shared memory (cl_intel_unified_shared_memory): host and device
 * memory with addresses. */
bool xt_opencl_has_shared_memory(uint64_t handle);

/* The number of GPUs that the OpenCL drivers offer, and the name and driver version of the first
 * into `name` and `driver` (64 bytes each). XT_ERR_DEVICE if there is no loader. */
enum xt_status xt_opencl_gpus(int *count, char *name, char *driver, struct xt_err *err);

/* The number of those with unified shared memory; 0 without a loader. */
int xt_opencl_shared_count(void);

/* Visits each GPU that the OpenCL drivers offer with its cl_device_id and a cl_context of its own,
 * which is released after the visit. */
void xt_opencl_visit_gpus(void (*visit)(void *argument, void *device, void *context),
                          void *argument);

/* The kind of unified shared memory (cl_intel_unified_shared_memory) that a pointer refers to, in
 * the cl_context of another library that uses the same loader. */
enum xt_opencl_allocation {
    XT_OPENCL_ALLOCATION_NOT_TOLD, /* the driver does not have the extension */
    XT_OPENCL_ALLOCATION_NONE = 0x4196,
    XT_OPENCL_ALLOCATION_HOST = 0x4197,
    XT_OPENCL_ALLOCATION_DEVICE = 0x4198,
    XT_OPENCL_ALLOCATION_SHARED = 0x4199,
};
enum xt_opencl_allocation xt_opencl_allocation(uint64_t context, const void *pointer);
