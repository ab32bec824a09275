/* How far libarchive is trusted with a data file.
 *
 * Thread-safe.
 */
#ifndef XT_DATA_SOURCES_ARCHIVE_H
#define XT_DATA_SOURCES_ARCHIVE_H

#include <archive.h>
#include <stdint.h>

/* Lets the archive undo gzip, bzip2, xz, zstd and lz4, as far as the library does so itself: for
 * others, and for those that it was built without, it would start a program found on PATH. */
void xt_archive_allow_filters(struct archive *archive);

/* The bytes that a compressed file of so many may hold once it is unpacked into memory: images do
 * not become 32 times smaller, and half of the memory is left alone. */
uint64_t xt_archive_unpacked_most(uint64_t packed);

#endif
