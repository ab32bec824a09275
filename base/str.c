#include "base/str.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

void xt_str_clear(struct xt_str *str)
{
    free(str->data);
    *str = (struct xt_str){0};
}

enum xt_status xt_str_append(struct xt_str *str, const char *bytes, size_t count,
                             struct xt_err *err)
{
    if (str->failed)
        return xt_str_check(str, err);
    enum xt_status status =
        xt_mem_grow(&str->data, &str->capacity, str->length + count + 1, 1, "text", err);
    str->failed = status != XT_OK;
    if (status)
        return status;
    memcpy(str->data + str->length, bytes, count);
    str->length += count;
    str->data[str->length] = '\0';
    return XT_OK;
}

enum xt_status xt_str_printf(struct xt_str *str, struct xt_err *err, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    enum xt_status status = xt_str_vprintf(str, err, format, args);
    va_end(args);
    return status;
}

enum xt_status xt_str_vprintf(struct xt_str *str, struct xt_err *err, const char *format,
                              va_list args)
{
    char *text = NULL;
    int length = vasprintf(&text, format, args);
    str->failed |= length < 0;
    enum xt_status status = xt_str_append(str, text, (size_t)length, err);
    if (length >= 0)
        free(text);
    return status;
}

enum xt_status xt_str_check(const struct xt_str *str, struct xt_err *err)
{
    return str->failed ? xt_err_no_memory(err, "text", 0) : XT_OK;
}

const char *xt_str_get(const struct xt_str *str)
{
    return str->data ? str->data : "";
}

size_t xt_utf8_decode(const char *text, size_t left, uint32_t *code)
{
    const unsigned char *s = (const unsigned char *)text;
    if (left == 0)
        return 0;
    if (s[0] < 0x80) {
        *code = s[0];
        return 1;
    }
    size_t length = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    if (s[0] < 0xC2 || s[0] > 0xF4 || left < length)
        return 0;
    uint32_t value = s[0] & (0x7Fu >> length);
    for (size_t i = 1; i < length; i++) {
        if ((s[i] & 0xC0) != 0x80)
            return 0;
        value = value << 6 | (s[i] & 0x3Fu);
    }
    if (value < least[length] || value > 0x10FFFF || (value >= 0xD800 && value <= 0xDFFF))
        return 0;
    *code = value;
    return length;
}

static bool turns_or_ends_lines(uint32_t code)
{
    return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x061C ||
           (code >= 0x200E && code <= 0x200F) || (code >= 0x2028 && code <= 0x202E) ||
           (code >= 0x2066 && code <= 0x2069);
}

static size_t escape(const char *text, char *out, size_t size, bool controls)
{
    const char *at = text;
    size_t used = 0;
    size_t left = strlen(text);
    while (left) {
        uint32_t code = 0;
        size_t length = xt_utf8_decode(at, left, &code);
        bool stays = length && !(controls && turns_or_ends_lines(code));
        size_t taken = length ? length : 1;
        if (used + (stays ? taken : 4 * taken) >= size)
            break;
        if (stays)
            memcpy(out + used, at, taken);
        for (size_t i = 0; i < taken && !stays; i++)
            snprintf(out + used + 4 * i, 5, "\\x%02X", (unsigned char)at[i]);
        used += stays ? taken : 4 * taken;
        at += taken;
        left -= taken;
    }
    if (size)
        out[used] = '\0';
    return (size_t)(at - text);
}

size_t xt_str_escape(const char *text, char *out, size_t size)
{
    return escape(text, out, size, true);
}

enum xt_status xt_str_append_escaped(struct xt_str *str, const char *text, struct xt_err *err)
{
    char *escaped = NULL;
    size_t room = 4 * strlen(text) + 1;
    enum xt_status status = xt_mem_calloc(&escaped, room, 1, "text", err);
    str->failed |= status != XT_OK;
    if (status)
        return status;
    xt_str_escape(text, escaped, room);
    status = xt_str_append(str, escaped, strlen(escaped), err);
    free(escaped);
    return status;
}

bool xt_str_is_in(const char *word, const char *const *list)
{
    while (*list && strcmp(*list, word) != 0)
        list++;
    return *list;
}

size_t xt_str_escape_bytes(const char *text, char *out, size_t size)
{
    return escape(text, out, size, false);
}

struct xt_counted xt_count(long long count, const char *thing)
{
    struct xt_counted counted;
    bool hisses = xt_str_ends(thing, "ch") || xt_str_ends(thing, "s");
    snprintf(counted.text, sizeof counted.text, "%lld %s%s", count, thing,
             count == 1 ? ""
             : hisses   ? "es"
                        : "s");
    return counted;
}

int xt_utf8_columns(const char *text)
{
    int columns = 0;
    size_t left = strlen(text);
    while (left) {
        uint32_t code = 0;
        size_t used = xt_utf8_decode(text, left, &code);
        bool wide =
            used && ((code >= 0x1100 && code <= 0x115F) || (code >= 0x2E80 && code <= 0xA4CF) ||
                     (code >= 0xAC00 && code <= 0xD7A3) || (code >= 0xF900 && code <= 0xFAFF) ||
                     (code >= 0xFE30 && code <= 0xFE6F) || (code >= 0xFF00 && code <= 0xFF60) ||
                     (code >= 0x20000 && code <= 0x3FFFD));
        columns += wide ? 2 : 1;
        text += used ? used : 1;
        left -= used ? used : 1;
    }
    return columns;
}

static int least(int a, int b)
{
    return a < b ? a : b;
}

int xt_str_distance(const char *a, const char *b)
{
    enum { LONGEST = 64 };
    int la = (int)strnlen(a, LONGEST);
    int lb = (int)strnlen(b, LONGEST);
    int row[3][LONGEST + 1];
    for (int j = 0; j <= lb; j++)
        row[0][j] = j;
    for (int i = 1; i <= la; i++) {
        int *now = row[i % 3];
        const int *before = row[(i + 2) % 3];
        const int *twice = row[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= lb; j++) {
            now[j] =
                least(least(before[j] + 1, now[j - 1] + 1), before[j - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                now[j] = least(now[j], twice[j - 2] + 1);
        }
    }
    return row[la % 3][lb];
}

bool xt_str_same_name(const char *a, const char *b)
{
    for (;; a++, b++) {
        a += strspn(a, "-_");
        b += strspn(b, "-_");
        if (tolower((unsigned char)*a) != tolower((unsigned char)*b))
            return false;
        if (!*a)
            return true;
    }
}

const char *xt_str_nearest(const char *word, const char *const *candidates, size_t count)
{
    const char *nearest = NULL;
    int best = (int)strlen(word) / 3 + 1;
    for (size_t i = 0; i < count; i++) {
        int distance = xt_str_distance(word, candidates[i]);
        if (distance < best || (!nearest && distance == best)) {
            best = distance;
            nearest = candidates[i];
        }
    }
    return nearest;
}

bool xt_utf8_is_control(uint32_t code)
{
    return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0xFEFF;
}

struct xt_quoted xt_str_quote(const char *bytes, size_t size)
{
    struct xt_quoted quoted = {{0}};
    size_t length = 0;
    uint32_t code = 0;
    for (size_t at = 0; at < size;) {
        size_t used = xt_utf8_decode(bytes + at, size - at, &code);
        bool printable = used && !xt_utf8_is_control(code);
        size_t wanted = printable ? used : 1;
        if (length + wanted + sizeof "..." > sizeof quoted.text) {
            memcpy(quoted.text + length, "...", sizeof "...");
            break;
        }
        memcpy(quoted.text + length, printable ? bytes + at : "?", wanted);
        length += wanted;
        at += used ? used : 1;
    }
    return quoted;
}

bool xt_str_has_json_nul(const char *json)
{
    /* The character after a backslash is escaped, also a backslash. */
    for (const char *at = strchr(json, '\\'); at && at[1]; at = strchr(at + 2, '\\'))
        if (strncmp(at, "\\u0000", 6) == 0)
            return true;
    return false;
}

enum xt_status xt_str_append_word(struct xt_str *str, const char *text, struct xt_err *err)
{
    static const char safe[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,+@%";
    if (*text && !text[strspn(text, safe)])
        return xt_str_append(str, text, strlen(text), err);
    xt_str_append(str, "'", 1, NULL);
    for (; *text; text++)
        *text == '\'' ? xt_str_append(str, "'\\''", 4, NULL) : xt_str_append(str, text, 1, NULL);
    return xt_str_append(str, "'", 1, err);
}

bool xt_str_starts(const char *text, const char *prefix)
{
    return strncmp(text, prefix, strlen(prefix)) == 0;
}

bool xt_str_ends(const char *text, const char *suffix)
{
    size_t lt = strlen(text);
    size_t ls = strlen(suffix);
    return lt >= ls && strcmp(text + lt - ls, suffix) == 0;
}

void xt_str_append_to(char *text, size_t size, const char *format, ...)
{
    size_t used = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + used, size - used, format, args);
    va_end(args);
}

void xt_str_append_json(char *text, size_t size, const char *more)
{
    size_t at = strlen(text);
    for (; *more && at + 3 < size; more++) {
        if (*more == '"' || *more == '\\')
            text[at++] = '\\';
        text[at++] = (unsigned char)*more < ' ' ? ' ' : *more;
    }
    text[at] = '\0';
}
