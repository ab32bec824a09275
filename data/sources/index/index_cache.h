/* Lists that take long to make and are asked for at every start, kept in files under the folder of
 * xt_file_cache_base, index/.
 *
 * Each is a sealed file (base/sealed.h) with a key, a text that says what it is of. One that is not
 * whole, of another key, or that somebody else than this user or root can have written counts as
 * missing, and is written over. Whether what is kept still holds is the caller's to find out.
 * Nothing here ends a run: what cannot be read or written is made again. Thread-safe.
 */
#ifndef XT_DATA_SOURCES_INDEX_INDEX_CACHE_H
#define XT_DATA_SOURCES_INDEX_INDEX_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum { XT_INDEX_BYTES_MAX = 1 << 29, XT_INDEX_FILES_MAX = 64 };

/* What is kept under the key, into *file (release with free), where `body` then lies in it; *body
 * is NULL where there is nothing. XT_ERR_MEMORY alone is an error. */
enum xt_status xt_index_load(const char *key, uint8_t **file, const uint8_t **body, size_t *size,
                             struct xt_err *err);
/* Keeps `body` under the key, where it can be kept; of more than XT_INDEX_FILES_MAX files the
 * oldest goes. */
void xt_index_save(const char *key, const struct xt_str *body);

/* Whether the bytes are a whole file of that key; *body and *body_size are what was kept. */
bool xt_index_check(const uint8_t *bytes, size_t size, const char *key, const uint8_t **body,
                    size_t *body_size);

/* Numbers and texts of a body, in order. What is not there leaves `bad`. */
struct xt_index_reader {
    const uint8_t *at;
    size_t left;
    bool bad;
};
uint32_t xt_index_u32(struct xt_index_reader *reader);
uint64_t xt_index_u64(struct xt_index_reader *reader);
/* A text without zero bytes, in the body: not ended by one. NULL where it is bad. */
const char *xt_index_text(struct xt_index_reader *reader, size_t *size);

enum xt_status xt_index_put_u32(struct xt_str *body, size_t value, struct xt_err *err);
enum xt_status xt_index_put_u64(struct xt_str *body, uint64_t value, struct xt_err *err);
enum xt_status xt_index_put_text(struct xt_str *body, const char *text, size_t size,
                                 struct xt_err *err);

#endif
