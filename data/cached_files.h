/* The bytes of small files, kept from when they are read for the first time: to open, read and
 * close a file again takes as long as a fifth of a plate's decoding, and on a disk of the network
 * much longer than all of it.
 *
 * All functions but create and destroy may be called from several threads at once, also for the
 * same file.
 */
#ifndef XT_DATA_CACHED_FILES_H
#define XT_DATA_CACHED_FILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Decoding a larger file takes so long that reading it no longer counts. */
enum { XT_CACHED_FILE_MAX = 32 * 1024 };

struct xt_cached_files;

/* For `count` files, of which at most `limit` bytes are kept. */
enum xt_status xt_cached_files_create(struct xt_cached_files **out, size_t count, uint64_t limit,
                                      struct xt_err *err);
void xt_cached_files_destroy(struct xt_cached_files *kept);

/* The bytes of file `index`, valid until the end of `kept`; false where they are not there. */
bool xt_cached_files_get(const struct xt_cached_files *kept, size_t index, const uint8_t **bytes,
                         size_t *size);
/* Keeps a copy where the file is small and there is room. */
void xt_cached_files_put(struct xt_cached_files *kept, size_t index, const uint8_t *bytes,
                         size_t size);

#endif
