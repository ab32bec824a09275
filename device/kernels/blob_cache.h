/* Blobs in the kernel cache: primitives compiled by oneDNN's OpenCL and Level Zero runtimes, stored
 * for the next start.
 *
 * A blob is in the kernel cache's folder (kernel_cache.h), under its rules, as the sealed file
 * (base/sealed.h) HASH.blob_cache, HASH from its id, which is its key. The id is oneDNN's own: the
 * primitive, the device, the driver, oneDNN's version and commit. oneDNN checks no bounds in a
 * blob, so one that is incomplete or untrusted is never passed to it. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/kernels/kernel_cache.h"

struct xt_blob_id {
    const uint8_t *bytes;
    size_t size;
};

/* The blob of that id into *blob (free); false if there is none, or none that may be used. */
bool xt_blob_read(const char *folder, const struct xt_blob_id *id, uint8_t **blob, size_t *size);

/* Writes it, under a temporary name first. A cache that is full or cannot be written is reported
 * once, and not written to again in this run. */
void xt_blob_store(struct xt_kernel_cache *cache, const struct xt_blob_id *id, const uint8_t *blob,
                   size_t size);
