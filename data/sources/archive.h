/* Which of libarchive's features are used on data files.
 *
 * Thread-safe.
 */
#pragma once

#include <archive.h>
#include <stdint.h>

/* Enables gzip, bzip2, xz, zstd and lz4 as far as the library decompresses them itself: for others,
 * and those it was built without, it would start a program found on PATH. */
void xt_archive_allow_filters(struct archive *archive);

/* The limit on the unpacked size of a compressed file of this size: images do not shrink by a
 * factor of 32, and half of the memory stays free. */
uint64_t xt_archive_unpacked_most(uint64_t packed);
