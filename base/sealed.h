/* Sealed files: what this program keeps for a later start (pixels, lists of files, compiled
 * kernels), in one form that shows whether a file is what was written. A header of XT_SEALED_HEAD
 * bytes, numbers little-endian, then a key, which says what the body is of, then the body:
 *
 *   byte  0, 8 bytes   the kind of file: text, filled up with zeros
 *   byte  8, 4 bytes   the version of that kind
 *   byte 12, 4 bytes   the key's length
 *   byte 16, 8 bytes   the body's length; the body ends the file
 *   byte 24, 32 bytes  SHA-256 of the 24 bytes before, of the key and of the body
 *
 * Nothing of a file is handed out before all of this holds; a file of another version is no file,
 * and is made again. A file that is written at random (pixels) seals an empty body, and what stands
 * behind it has sums of its own. Thread-safe.
 */
#ifndef XT_BASE_SEALED_H
#define XT_BASE_SEALED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { XT_SEALED_HEAD = 56 };

struct xt_sealed_kind {
    char magic[8];
    uint32_t version;
    uint64_t most; /* bytes of a whole file */
};

/* Borrowed: of a file that was read, these point into its bytes. */
struct xt_sealed {
    const void *key;
    size_t key_size;
    const void *body;
    size_t body_size;
};

/* The header of that content, its key shorter than 4 GB. */
void xt_sealed_head(const struct xt_sealed_kind *kind, const struct xt_sealed *content,
                    uint8_t head[XT_SEALED_HEAD]);

/* Whether the bytes are a whole file of that kind; *content is then what it holds. */
bool xt_sealed_check(const struct xt_sealed_kind *kind, const void *bytes, size_t size,
                     struct xt_sealed *content);
bool xt_sealed_is_of(const struct xt_sealed *content, const void *key, size_t key_size);

/* Writes the file under a temporary name, syncs and renames it; others can neither read nor write
 * it. XT_ERR_RUN where it cannot be written or would be larger than its kind may be. */
enum xt_status xt_sealed_write(const struct xt_sealed_kind *kind, const char *path,
                               const struct xt_sealed *content, struct xt_err *err);

/* Reads a whole file into *bytes (free), of which *content is then a part. XT_ERR_DATA where there
 * is none, it is not whole, or somebody else than this user or root can have written it: *bytes is
 * NULL then. */
enum xt_status xt_sealed_read(const struct xt_sealed_kind *kind, const char *path, uint8_t **bytes,
                              struct xt_sealed *content, struct xt_err *err);

#endif
