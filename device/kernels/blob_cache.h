/* Blobs in the kernel cache: what oneDNN's OpenCL and Level Zero runtimes compiled a primitive to,
 * kept for the next start.
 *
 * A blob lies in the kernel cache's folder (kernel_cache.h), under its rules, as the sealed file
 * (base/sealed.h) HASH.blob_cache, HASH from its id, which is its key. The id is oneDNN's own: the
 * primitive, the device, the driver, oneDNN's version and commit. oneDNN looks at no bounds in a
 * blob, so what is not whole, or may be a stranger's, never reaches it. One thread.
 */
#ifndef XT_DEVICE_KERNELS_BLOB_CACHE_H
#define XT_DEVICE_KERNELS_BLOB_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/kernels/kernel_cache.h"

struct xt_blob_id {
    const uint8_t *bytes;
    size_t size;
};

/* The blob of that id into *blob (free); false where there is none, or none that may be used. */
bool xt_blob_read(const char *folder, const struct xt_blob_id *id, uint8_t **blob, size_t *size);

/* Writes it, under a temporary name first. A cache that is full or cannot be written is said once,
 * and then nothing more is kept in this run. */
void xt_blob_keep(struct xt_kernel_cache *cache, const struct xt_blob_id *id, const uint8_t *blob,
                  size_t size);

#endif
