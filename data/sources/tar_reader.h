/* Where the files of an uncompressed tar lie in it, so that each can be read by itself: POSIX ustar
 * and pax, GNU's long names. Names are bytes, whatever the locale.
 *
 * A reader goes from header to header; what is between is not read. Sizes and positions are checked
 * against the file's, headers by their checksum. One thread a reader.
 */
#ifndef XT_DATA_SOURCES_TAR_READER_H
#define XT_DATA_SOURCES_TAR_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum { XT_TAR_WINDOW = 4096 };

struct xt_tar_reader {
    /* What the caller sets: the file, or where `bytes` is not NULL its bytes in memory. */
    const char *path; /* in messages */
    int fd;
    const uint8_t *bytes;
    uint64_t size;
    /* The regular file that xt_tar_next came to; also the one that is cut short. */
    struct xt_str name;
    uint64_t member_at;
    uint64_t member_size;

    uint64_t at; /* of the next header */
    struct xt_str long_name;
    bool has_long_name;
    bool has_long_size;
    bool is_sparse;
    uint64_t long_size;
    uint8_t window[XT_TAR_WINDOW];
    uint64_t window_at;
    size_t window_size;
};

/* Whether a file's name ends as a tar's does, compressed or not; whether as a compressed one's. */
bool xt_tar_is_name(const char *name);
bool xt_tar_is_compressed(const char *name);

/* To the next regular file, or *end. XT_ERR_DATA where the tar is cut short or damaged; it cannot
 * be read further then. */
enum xt_status xt_tar_next(struct xt_tar_reader *reader, bool *end, struct xt_err *err);
/* False where the bytes are not all there. */
bool xt_tar_read(struct xt_tar_reader *reader, uint64_t at, void *out, size_t count);
void xt_tar_clear(struct xt_tar_reader *reader);

#endif
