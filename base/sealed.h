/* Sealed files: the format of cached files (pixels, file lists, compiled kernels), with a checksum.
 * A header of XT_SEALED_HEAD bytes, numbers little-endian, then a key that identifies the contents,
 * then the body:
 *
 *   byte  0, 8 bytes   the kind of file: text, filled up with zeros
 *   byte  8, 4 bytes   the version of that kind
 *   byte 12, 4 bytes   the key's length
 *   byte 16, 8 bytes   the body's length; the body ends the file
 *   byte 24, 32 bytes  SHA-256 of the 24 bytes before, of the key and of the body
 *
 * No contents are returned before all of this is verified; a file of another version counts as
 * missing and is rebuilt. A file with random writes (pixels) seals an empty body, followed by data
 * with checksums of their own. Thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { XT_SEALED_HEAD = 56 };

struct xt_sealed_kind {
    char magic[8];
    uint32_t version;
    uint64_t most; /* largest file, bytes */
};

/* Borrowed: these point into the bytes of the file that was read. */
struct xt_sealed {
    const void *key;
    size_t key_size;
    const void *body;
    size_t body_size;
};

/* The header for that content, whose key is shorter than 4 GB. */
void xt_sealed_head(const struct xt_sealed_kind *kind, const struct xt_sealed *content,
                    uint8_t head[XT_SEALED_HEAD]);

/* Whether the bytes are a valid file of that kind; fills *content then. */
bool xt_sealed_check(const struct xt_sealed_kind *kind, const void *bytes, size_t size,
                     struct xt_sealed *content);
bool xt_sealed_is_of(const struct xt_sealed *content, const void *key, size_t key_size);

/* Writes the file atomically, with mode 0600. XT_ERR_RUN if it cannot be written or would exceed
 * its kind's size limit. */
enum xt_status xt_sealed_write(const struct xt_sealed_kind *kind, const char *path,
                               const struct xt_sealed *content, struct xt_err *err);

/* Reads a file into *bytes (free); *content points into it. XT_ERR_DATA and *bytes NULL if the file
 * is missing or damaged, or if anybody but this user and root can have written it. */
enum xt_status xt_sealed_read(const struct xt_sealed_kind *kind, const char *path, uint8_t **bytes,
                              struct xt_sealed *content, struct xt_err *err);
