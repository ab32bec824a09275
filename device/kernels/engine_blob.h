/* The engine's part of oneDNN's cache blobs: what its OpenCL runtime found out about a device, for
 * which it compiles a kernel at each start, kept like the blobs of primitives (blob_cache.h). Only
 * that runtime has it; for others both do nothing. Stateless.
 */
#ifndef XT_DEVICE_KERNELS_ENGINE_BLOB_H
#define XT_DEVICE_KERNELS_ENGINE_BLOB_H

#include "device/dnnl.h"
#include "device/kernels/kernel_cache.h"

/* Tells oneDNN what is known of each GPU, before its engines are made: they share it. */
void xt_engine_blob_recall(const struct xt_kernel_cache *cache);

/* Keeps what it found out for this engine, where that is new. */
void xt_engine_blob_keep(struct xt_kernel_cache *cache, dnnl_engine_t engine);

#endif
