/* The engine's part of oneDNN's cache blobs: device properties that its OpenCL runtime determines
 * by compiling a kernel at each start, stored like the blobs of primitives (blob_cache.h). Only
 * that runtime has it; for others both functions do nothing. Stateless.
 */
#pragma once

#include "device/dnnl.h"
#include "device/kernels/kernel_cache.h"

/* Passes the stored blob of each GPU to oneDNN, before its engines are created: they share it. */
void xt_engine_blob_recall(const struct xt_kernel_cache *cache);

/* Stores the blob of this engine, if it is new. */
void xt_engine_blob_store(struct xt_kernel_cache *cache, dnnl_engine_t engine);
