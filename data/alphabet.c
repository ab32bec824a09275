#include "data/alphabet.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/mem.h"

const char xt_alphabet_default[] = "京沪津渝冀晋蒙辽吉黑苏浙皖闽赣鲁豫鄂湘粤桂琼川贵云藏陕甘青宁新"
                                   "0123456789ABCDEFGHJKLMNPQRSTUVWXYZIO-";

enum { SYMBOL_SIZE = 5, FILE_MAX = 1 << 20, BOM = 0xFEFF };

struct entry {
    uint32_t code;
    int index;
    int line;
};

struct xt_alphabet {
    int count;
    bool blank_first;
    char (*symbols)[SYMBOL_SIZE];
    struct entry *sorted; /* by code */
    struct xt_str text;
};

static bool is_space(uint32_t code)
{
    return code == ' ' || (code >= '\t' && code <= '\r') || code == 0xA0 || code == 0x3000;
}

static int compare_entries(const void *a, const void *b)
{
    const struct entry *x = a;
    const struct entry *y = b;
    if (x->code != y->code)
        return x->code < y->code ? -1 : 1;
    return x->index - y->index;
}

static enum xt_status add_symbol(struct xt_alphabet *alphabet, const char *bytes, size_t size,
                                 uint32_t code, int line, const char *name, struct xt_err *err)
{
    if (xt_utf8_is_control(code))
        return xt_err_set(err, XT_ERR_DATA,
                          "%s line %d: the control character U+%04X cannot be a symbol", name, line,
                          (unsigned)code);
    if (alphabet->count == XT_ALPHABET_MAX)
        return xt_err_set(err, XT_ERR_DATA, "%s line %d: more than %d symbols", name, line,
                          XT_ALPHABET_MAX);
    int index = alphabet->count++;
    memcpy(alphabet->symbols[index], bytes, size);
    alphabet->sorted[index] = (struct entry){.code = code, .index = index, .line = line};
    return xt_str_append(&alphabet->text, bytes, size, err);
}

static enum xt_status read_symbols(struct xt_alphabet *alphabet, const char *text, size_t size,
                                   const char *name, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    int line = 1;
    size_t used = 0;
    for (size_t at = 0; !status && at < size; at += used) {
        uint32_t code = 0;
        used = xt_utf8_decode(text + at, size - at, &code);
        if (!used)
            return xt_err_set(err, XT_ERR_DATA,
                              "%s line %d: not UTF-8 (the byte 0x%02X); save the alphabet as UTF-8",
                              name, line, (unsigned char)text[at]);
        if (code == '\n')
            line++;
        if (!is_space(code) && !(at == 0 && code == BOM))
            status = add_symbol(alphabet, text + at, used, code, line, name, err);
    }
    return status;
}

/* Sorts the symbols by code point and refuses duplicates. */
static enum xt_status sort_symbols(struct xt_alphabet *alphabet, const char *name,
                                   struct xt_err *err)
{
    struct entry *sorted = alphabet->sorted;
    qsort(sorted, (size_t)alphabet->count, sizeof *sorted, compare_entries);
    const struct entry *twice = NULL;
    for (int i = 1; i < alphabet->count; i++)
        if (sorted[i].code == sorted[i - 1].code && (!twice || sorted[i].index < twice->index))
            twice = sorted + i;
    if (!twice)
        return XT_OK;
    return xt_err_set(err, XT_ERR_DATA,
                      "%s line %d: the symbol %s appears a second time (first on line %d)", name,
                      twice->line, alphabet->symbols[twice->index], twice[-1].line);
}

static bool has_symbol(const struct xt_alphabet *alphabet, uint32_t code)
{
    for (int i = 0; i < alphabet->count; i++)
        if (alphabet->sorted[i].code == code)
            return true;
    return false;
}

/* Before the symbols are sorted. */
static enum xt_status add_blank(struct xt_alphabet *alphabet, const char *name, struct xt_err *err)
{
    static const char blanks[] = "-_~#*";
    const char *blank = blanks;
    while (*blank && has_symbol(alphabet, (uint32_t)*blank))
        blank++;
    if (!*blank)
        return xt_err_set(err, XT_ERR_DATA,
                          "%s has all of %s, one of which --blank none would add; add another "
                          "symbol at its end for the blank",
                          name, blanks);
    return add_symbol(alphabet, blank, 1, (uint32_t)*blank, 0, name, err);
}

/* ASCII letters and digits, and letters of other scripts: not punctuation, symbols or shapes. */
static bool is_letter(uint32_t code)
{
    bool ascii = (code >= '0' && code <= '9') || (code >= 'A' && code <= 'Z') ||
                 (code >= 'a' && code <= 'z');
    return ascii || (code >= 0xC0 && code < 0x2000) || (code > 0x303F && code < 0xE000);
}

static enum xt_status choose_blank(struct xt_alphabet *alphabet, enum xt_blank blank,
                                   const char *name, struct xt_err *err)
{
    int last = alphabet->count - 1;
    alphabet->blank_first = blank == XT_BLANK_FIRST;
    if (blank == XT_BLANK_NONE)
        return add_blank(alphabet, name, err);
    if (blank != XT_BLANK_AUTO || last < 1 || !is_letter(alphabet->sorted[last].code))
        return XT_OK;
    return xt_err_set(err, XT_ERR_DATA,
                      "%s ends in %s, and the last symbol is the blank, which no label has; "
                      "--blank none adds one, --blank last or first says that it is meant",
                      name, alphabet->symbols[last]);
}

enum xt_status xt_alphabet_create(struct xt_alphabet **out, const char *text, size_t size,
                                  const char *name, struct xt_err *err)
{
    return xt_alphabet_create_blank(out, text, size, XT_BLANK_LAST, name, err);
}

enum xt_status xt_alphabet_create_blank(struct xt_alphabet **out, const char *text, size_t size,
                                        enum xt_blank blank, const char *name, struct xt_err *err)
{
    *out = NULL;
    struct xt_alphabet *alphabet = NULL;
    size_t most = size < XT_ALPHABET_MAX ? size + 1 : XT_ALPHABET_MAX;
    enum xt_status status = xt_mem_calloc(&alphabet, 1, sizeof *alphabet, "an alphabet", err);
    if (status)
        return status;
    status = xt_mem_calloc(&alphabet->symbols, most, SYMBOL_SIZE, "an alphabet", err);
    if (!status)
        status =
            xt_mem_calloc(&alphabet->sorted, most, sizeof *alphabet->sorted, "an alphabet", err);
    if (!status)
        status = read_symbols(alphabet, text, size, name, err);
    if (!status)
        status = choose_blank(alphabet, blank, name, err);
    if (!status)
        status = sort_symbols(alphabet, name, err);
    if (!status && alphabet->count < 2)
        status = xt_err_set(err, XT_ERR_DATA,
                            "%s has %d symbols; at least one and the blank, which comes last, are "
                            "needed",
                            name, alphabet->count);
    if (status)
        xt_alphabet_destroy(alphabet);
    else
        *out = alphabet;
    return status;
}

enum xt_status xt_alphabet_load(struct xt_alphabet **out, const char *path, struct xt_err *err)
{
    return xt_alphabet_load_blank(out, path, XT_BLANK_AUTO, err);
}

enum xt_status xt_alphabet_load_blank(struct xt_alphabet **out, const char *path,
                                      enum xt_blank blank, struct xt_err *err)
{
    *out = NULL;
    if (!path)
        return xt_alphabet_create(out, xt_alphabet_default, strlen(xt_alphabet_default),
                                  "the default alphabet", err);
    struct xt_bytes bytes = {0};
    enum xt_status status = xt_file_load(path, FILE_MAX, &bytes, err);
    if (!status)
        status =
            xt_alphabet_create_blank(out, (const char *)bytes.data, bytes.size, blank, path, err);
    free(bytes.data);
    return status;
}

enum xt_blank xt_blank_of_meta(const char *text)
{
    return text && (strcmp(text, "first") == 0 || strcmp(text, "0") == 0) ? XT_BLANK_FIRST
                                                                          : XT_BLANK_LAST;
}

void xt_alphabet_destroy(struct xt_alphabet *alphabet)
{
    if (!alphabet)
        return;
    free(alphabet->symbols);
    free(alphabet->sorted);
    xt_str_clear(&alphabet->text);
    free(alphabet);
}

int xt_alphabet_count(const struct xt_alphabet *alphabet)
{
    return alphabet->count;
}

int xt_alphabet_blank(const struct xt_alphabet *alphabet)
{
    return alphabet->blank_first ? 0 : alphabet->count - 1;
}

const char *xt_alphabet_symbol(const struct xt_alphabet *alphabet, int index)
{
    return alphabet->symbols[index];
}

int xt_alphabet_find(const struct xt_alphabet *alphabet, uint32_t code)
{
    int low = 0;
    int high = alphabet->count;
    while (low < high) {
        int middle = low + (high - low) / 2;
        if (alphabet->sorted[middle].code < code)
            low = middle + 1;
        else
            high = middle;
    }
    bool found = low < alphabet->count && alphabet->sorted[low].code == code;
    return found ? alphabet->sorted[low].index : -1;
}

const char *xt_alphabet_text(const struct xt_alphabet *alphabet)
{
    return xt_str_get(&alphabet->text);
}

static enum xt_status unknown_symbol(const struct xt_alphabet *alphabet,
                                     const struct xt_quoted *label, const char *bytes, size_t size,
                                     uint32_t code, struct xt_err *err)
{
    if (xt_utf8_is_control(code) || is_space(code))
        return xt_err_set(err, XT_ERR_DATA, "the label \"%s\" has the character U+%04X",
                          label->text, (unsigned)code);
    bool small = code >= 'a' && code <= 'z' && xt_alphabet_find(alphabet, code - 'a' + 'A') >= 0;
    return xt_err_set(
        err, XT_ERR_DATA,
        "the label \"%s\" has the symbol %.*s, which is not one of the alphabet's %d%s",
        label->text, (int)size, bytes, alphabet->count, small ? " (the capital letter is)" : "");
}

static enum xt_status encode_symbol(const struct xt_alphabet *alphabet, const char *label,
                                    size_t size, size_t at, size_t *used, int *symbol,
                                    struct xt_err *err)
{
    uint32_t code = 0;
    *used = xt_utf8_decode(label + at, size - at, &code);
    *symbol = *used ? xt_alphabet_find(alphabet, code) : -1;
    if (*symbol >= 0 && *symbol != xt_alphabet_blank(alphabet))
        return XT_OK;
    struct xt_quoted quoted = xt_str_quote(label, size);
    if (!*used)
        return xt_err_set(err, XT_ERR_DATA, "the label \"%s\" is not UTF-8", quoted.text);
    if (*symbol < 0)
        return unknown_symbol(alphabet, &quoted, label + at, *used, code, err);
    return xt_err_set(
        err, XT_ERR_DATA,
        "the label \"%s\" holds %s, the alphabet's %s symbol, which stands for the CTC blank",
        quoted.text, alphabet->symbols[*symbol], alphabet->blank_first ? "first" : "last");
}

enum xt_status xt_alphabet_encode(const struct xt_alphabet *alphabet, const char *label,
                                  size_t size, int *symbols, int limit, int *length,
                                  struct xt_err *err)
{
    *length = 0;
    if (size == 0)
        return xt_err_set(err, XT_ERR_DATA, "the label is empty");
    int count = 0;
    size_t used = 0;
    for (size_t at = 0; at < size; at += used) {
        int symbol = -1;
        enum xt_status status = encode_symbol(alphabet, label, size, at, &used, &symbol, err);
        if (status)
            return status;
        if (count == limit)
            return xt_err_set(err, XT_ERR_DATA, "the label \"%s\" has more than %d symbols",
                              xt_str_quote(label, size).text, limit);
        symbols[count++] = symbol;
    }
    *length = count;
    return XT_OK;
}

enum xt_status xt_alphabet_decode(const struct xt_alphabet *alphabet, const int *symbols,
                                  int length, struct xt_str *out, struct xt_err *err)
{
    for (int i = 0; i < length; i++) {
        const char *symbol = alphabet->symbols[symbols[i]];
        xt_str_append(out, symbol, strlen(symbol), NULL);
    }
    return xt_str_check(out, err);
}

int xt_label_steps(const int *symbols, int length)
{
    int steps = length;
    for (int i = 1; i < length; i++)
        steps += symbols[i] == symbols[i - 1];
    return steps;
}
