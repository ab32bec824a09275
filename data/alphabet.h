/* The symbols that a plate network reads: index <-> UTF-8 character. The CTC blank is
 * the last symbol, or the first.
 *
 * Immutable once created, so safe to share between threads.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/str.h"

enum { XT_ALPHABET_MAX = 4096 };

struct xt_alphabet;

/* The 68 symbols of the published LPRNet: 31 provinces, digits, letters without I and O, then I, O
 * and the blank "-". */
extern const char xt_alphabet_default[];

/* Which symbol of a text is the blank. */
enum xt_blank {
    XT_BLANK_AUTO, /* the last; one that is a letter or digit is refused */
    XT_BLANK_FIRST,
    XT_BLANK_LAST,
    XT_BLANK_NONE, /* none of them: one is added at the end */
};

/* From UTF-8 text: each character is a symbol, in order; white space and line ends are skipped; the
 * last one is the blank. Errors (XT_ERR_DATA, with line): invalid UTF-8, a duplicate symbol, fewer
 * than two, more than the maximum. */
enum xt_status xt_alphabet_create(struct xt_alphabet **out, const char *text, size_t size,
                                  const char *name, struct xt_err *err);
/* The same with another blank. */
enum xt_status xt_alphabet_create_blank(struct xt_alphabet **out, const char *text, size_t size,
                                        enum xt_blank blank, const char *name, struct xt_err *err);
/* From a file; NULL for the default. */
enum xt_status xt_alphabet_load(struct xt_alphabet **out, const char *path, struct xt_err *err);
enum xt_status xt_alphabet_load_blank(struct xt_alphabet **out, const char *path,
                                      enum xt_blank blank, struct xt_err *err);
/* Of an alphabet in metadata, whose blank is named, or its index, where it is not the last; `text`
 * may be NULL. */
enum xt_blank xt_blank_of_meta(const char *text);
void xt_alphabet_destroy(struct xt_alphabet *alphabet);

int xt_alphabet_count(const struct xt_alphabet *alphabet); /* blank included */
int xt_alphabet_blank(const struct xt_alphabet *alphabet); /* 0 or count - 1 */
/* The symbol's UTF-8 text. */
const char *xt_alphabet_symbol(const struct xt_alphabet *alphabet, int index);
/* The index of a code point, or -1. */
int xt_alphabet_find(const struct xt_alphabet *alphabet, uint32_t code);
/* All symbols in order as one UTF-8 string, as stored in the metadata of weights. */
const char *xt_alphabet_text(const struct xt_alphabet *alphabet);

/* Converts a label of `size` bytes to at most `limit` indices. Errors name the symbol: one that is
 * not in the alphabet, or the blank; a label that is empty or too long, or invalid UTF-8. */
enum xt_status xt_alphabet_encode(const struct xt_alphabet *alphabet, const char *label,
                                  size_t size, int *symbols, int limit, int *length,
                                  struct xt_err *err);
/* Appends the symbols' text. */
enum xt_status xt_alphabet_decode(const struct xt_alphabet *alphabet, const int *symbols,
                                  int length, struct xt_str *out, struct xt_err *err);

/* The number of CTC time steps that a label needs: its length plus one blank between equal
 * neighbours. */
int xt_label_steps(const int *symbols, int length);
