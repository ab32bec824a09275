/* Cache of indexes that take long to build and are needed at every start, as files in the folder
 * index/ under xt_file_cache_base.
 *
 * Each is a sealed file (base/sealed.h) with a key, a text that identifies its contents. A file
 * that is incomplete, has another key, or may have been written by anyone but this user or root
 * counts as missing, and is overwritten. The caller checks whether an entry is still valid. Nothing
 * here is an error of the run: an index that cannot be read or written is built anew. Thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum { XT_INDEX_BYTES_MAX = 1 << 29, XT_INDEX_FILES_MAX = 64 };

/* The entry of the key: the file into *file (release with free), `body` within it; *body is NULL if
 * there is none. Only XT_ERR_MEMORY is an error. */
enum xt_status xt_index_load(const char *key, uint8_t **file, const uint8_t **body, size_t *size,
                             struct xt_err *err);
/* Stores `body` under the key, if possible; beyond XT_INDEX_FILES_MAX files the oldest is
 * removed. */
void xt_index_save(const char *key, const struct xt_str *body);

/* Whether the bytes are a complete file of that key; *body and *body_size are its contents. */
bool xt_index_check(const uint8_t *bytes, size_t size, const char *key, const uint8_t **body,
                    size_t *body_size);

/* Numbers and texts of a body, in order. Reading past its end sets `bad`. */
struct xt_index_reader {
    const uint8_t *at;
    size_t left;
    bool bad;
};
uint32_t xt_index_u32(struct xt_index_reader *reader);
uint64_t xt_index_u64(struct xt_index_reader *reader);
/* A text without zero bytes, in the body, not zero-terminated. NULL if `bad`. */
const char *xt_index_text(struct xt_index_reader *reader, size_t *size);

/* Out of memory stays in `body`. */
void xt_index_put_u32(struct xt_str *body, size_t value);
void xt_index_put_u64(struct xt_str *body, uint64_t value);
void xt_index_put_text(struct xt_str *body, const char *text);
