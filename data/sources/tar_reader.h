/* Finds the files in an uncompressed tar, by libarchive, so that each can be read at its position.
 * Names are bytes, whatever the locale.
 *
 * A reader goes from header to header and skips the contents. Sizes and positions are checked
 * against the file's. One thread per reader.
 */
#pragma once

#include <archive_entry.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct xt_tar_reader {
    /* Set by the caller: the file, or its bytes in memory if `bytes` is not NULL. */
    const char *path; /* in messages */
    int fd;
    const uint8_t *bytes;
    uint64_t size;
    /* The current regular file; also one that is truncated. */
    const char *name;
    uint64_t member_at;
    uint64_t member_size;

    uint64_t at; /* how far it has come; 0: the file does not begin as a tar */
    struct archive *archive;
};

/* Whether a file's name has the suffix of a tar, compressed or not; whether that of a compressed
 * one. */
bool xt_tar_is_name(const char *name);
bool xt_tar_is_compressed(const char *name);

/* Advances to the next regular file, or *end. XT_ERR_DATA if the tar is truncated or damaged; it
 * cannot be read further then. */
enum xt_status xt_tar_next(struct xt_tar_reader *reader, bool *end, struct xt_err *err);
/* False if the bytes are not all there. */
bool xt_tar_read(const struct xt_tar_reader *reader, uint64_t at, void *out, size_t count);
void xt_tar_clear(struct xt_tar_reader *reader);
