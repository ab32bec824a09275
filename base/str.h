/* Text: a growing string, UTF-8, and the edit distance for "did you mean". Stateless.
 */
#pragma once

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* A growing string. A zeroed struct is empty; `data` is NUL-terminated once anything was appended
 * (NULL before). Out of memory is sticky: every append after it fails, so that of several appends
 * the last one, or xt_str_check, tells whether all are there. */
struct xt_str {
    char *data;
    size_t length;
    size_t capacity;
    bool failed;
};

void xt_str_clear(struct xt_str *str);
enum xt_status xt_str_append(struct xt_str *str, const char *bytes, size_t count,
                             struct xt_err *err);
enum xt_status xt_str_printf(struct xt_str *str, struct xt_err *err, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
enum xt_status xt_str_vprintf(struct xt_str *str, struct xt_err *err, const char *format,
                              va_list args) __attribute__((format(printf, 3, 0)));
/* Whether all that was appended is there. */
enum xt_status xt_str_check(const struct xt_str *str, struct xt_err *err);
/* The text, "" when nothing was appended. */
const char *xt_str_get(const struct xt_str *str);

/* Decodes the code point at `text` (`left` bytes available). Returns its length in bytes, or 0 if
 * the bytes are not UTF-8 (RFC 3629: no overlong forms, no surrogates, at most U+10FFFF) or left is
 * 0. */
size_t xt_utf8_decode(const char *text, size_t left, uint32_t *code);

/* Untrusted text, escaped for printing on one line: control characters (C0, DEL, C1), line and
 * paragraph separators, marks that turn the direction of text, and bytes that are not UTF-8 become
 * \xNN, byte by byte. Writes as many whole characters as fit, NUL-terminated; returns the number of
 * bytes of the text that were consumed. Four times the text's length plus one byte always
 * suffice. */
size_t xt_str_escape(const char *text, char *out, size_t size);
/* Escapes only bytes that are not UTF-8: for JSON, which has its own escapes for control
 * characters. */
size_t xt_str_escape_bytes(const char *text, char *out, size_t size);

/* A number of things in words: "1 image", "24 images", "2 batches". */
struct xt_counted {
    char text[40];
};
struct xt_counted xt_count(long long count, const char *thing);

/* The text's width in terminal columns (CJK: two). An invalid byte counts one. */
int xt_utf8_columns(const char *text);

/* Levenshtein distance; a transposition of neighbours counts one. */
int xt_str_distance(const char *a, const char *b);

/* Whether the names are the same but for case, - and _ ("ResNet-50" is resnet50). */
bool xt_str_same_name(const char *a, const char *b);

/* Whether the list, which ends with NULL, holds the word. */
bool xt_str_is_in(const char *word, const char *const *list);

/* The candidate nearest to `word`, or NULL if all are too far. */
const char *xt_str_nearest(const char *word, const char *const *candidates, size_t count);

/* Whether the code point is a control character (C0, DEL, C1) or a byte order mark. */
bool xt_utf8_is_control(uint32_t code);

/* Bytes for printing: truncated, with a question mark for each control character and each byte that
 * is not UTF-8. */
struct xt_quoted {
    char text[128];
};
struct xt_quoted xt_str_quote(const char *bytes, size_t size);

/* Whether JSON holds the escape \u0000, at which cJSON would silently truncate a string. */
bool xt_str_has_json_nul(const char *json);

/* Appends the text escaped by xt_str_escape: a cell of a table. */
enum xt_status xt_str_append_escaped(struct xt_str *str, const char *text, struct xt_err *err);
/* Appends the text quoted as one shell word. */
enum xt_status xt_str_append_word(struct xt_str *str, const char *text, struct xt_err *err);

bool xt_str_starts(const char *text, const char *prefix);
bool xt_str_ends(const char *text, const char *suffix);

/* Appends to the text in a buffer of `size` bytes, truncating. */
void xt_str_append_to(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Likewise, UTF-8 as a JSON string without its quotes; control characters become blanks.
 * Async-signal-safe. */
void xt_str_append_json(char *text, size_t size, const char *more);
