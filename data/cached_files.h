/* Cache of the bytes of small files, filled when they are first read: opening, reading and closing
 * a file costs up to a fifth of a plate's decoding, and on a network file system far more than
 * decoding.
 *
 * All functions but create and destroy may be called from several threads at once, also for the
 * same file.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Larger files are not cached: decoding them takes much longer than reading. */
enum { XT_CACHED_FILE_MAX = 32 * 1024 };

struct xt_cached_files;

/* For `count` files, of which at most `limit` bytes are cached. */
enum xt_status xt_cached_files_create(struct xt_cached_files **out, size_t count, uint64_t limit,
                                      struct xt_err *err);
void xt_cached_files_destroy(struct xt_cached_files *cache);

/* The bytes of file `index`, valid for the lifetime of the cache; false if it is not cached. */
bool xt_cached_files_get(const struct xt_cached_files *cache, size_t index, const uint8_t **bytes,
                         size_t *size);
/* Stores a copy if the file is small and there is room. */
void xt_cached_files_put(struct xt_cached_files *cache, size_t index, const uint8_t *bytes,
                         size_t size);
