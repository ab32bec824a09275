#include "data/sources/query.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

bool xt_query_piece_is(struct xt_query_piece piece, const char *word)
{
    return strlen(word) == piece.length && memcmp(piece.text, word, piece.length) == 0;
}

static enum xt_status read_number(const char *what, struct xt_query_setting *setting,
                                  struct xt_err *err)
{
    struct xt_query_piece value = setting->text;
    uint64_t number = 0;
    bool good = value.length > 0;
    for (size_t i = 0; i < value.length && good; i++) {
        unsigned digit = (unsigned)(value.text[i] - '0');
        good = digit <= 9 && !__builtin_mul_overflow(number, 10, &number) &&
               !__builtin_add_overflow(number, digit, &number);
    }
    if (!good || number < setting->low || number > setting->high)
        return xt_err_set(err, XT_ERR_USAGE,
                          "%s: %s is \"%.*s\", but must be a whole number from %" PRIu64
                          " to %" PRIu64,
                          what, setting->key, (int)(value.length < 100 ? value.length : 100),
                          value.text, setting->low, setting->high);
    setting->number = number;
    return XT_OK;
}

static enum xt_status unknown_key(const char *what, struct xt_query_piece key,
                                  const struct xt_query_setting *settings, size_t count,
                                  struct xt_err *err)
{
    const char *keys[XT_QUERY_SETTINGS_MAX];
    char all[128] = "";
    char word[32];
    snprintf(word, sizeof word, "%.*s", (int)(key.length < 30 ? key.length : 30), key.text);
    for (size_t i = 0; i < count; i++) {
        size_t used = strlen(all);
        keys[i] = settings[i].key;
        snprintf(all + used, sizeof all - used, "%s%s",
                 i == 0          ? ""
                 : i + 1 < count ? ", "
                                 : " and ",
                 keys[i]);
    }
    const char *nearest = xt_str_nearest(word, keys, count);
    return xt_err_set(err, XT_ERR_USAGE, "%s has no setting \"%s\"%s%s%s; the settings are %s",
                      what, word, nearest ? " (did you mean " : "", nearest ? nearest : "",
                      nearest ? "?)" : "", all);
}

/* One "key=value". */
static enum xt_status read_setting(const char *what, struct xt_query_piece piece,
                                   struct xt_query_setting *settings, size_t count,
                                   struct xt_err *err)
{
    const char *equals = memchr(piece.text, '=', piece.length);
    struct xt_query_piece key = {piece.text, equals ? (size_t)(equals - piece.text) : piece.length};
    struct xt_query_setting *setting = settings;
    while (setting < settings + count && !xt_query_piece_is(key, setting->key))
        setting++;
    if (setting == settings + count)
        return unknown_key(what, key, settings, count, err);
    if (!equals)
        return xt_err_set(err, XT_ERR_USAGE, "%s: %s has no value; write %s=...", what,
                          setting->key, setting->key);
    if (setting->given)
        return xt_err_set(err, XT_ERR_USAGE, "%s: %s is given twice; keep one", what, setting->key);
    setting->given = true;
    setting->text = (struct xt_query_piece){equals + 1, piece.length - key.length - 1};
    return setting->high ? read_number(what, setting, err) : XT_OK;
}

enum xt_status xt_query_read(const char *what, const char *query, struct xt_query_setting *settings,
                             size_t count, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (const char *at = *query ? query + 1 : NULL; at && !status;) {
        const char *end = strchrnul(at, '&');
        status = read_setting(what, (struct xt_query_piece){at, (size_t)(end - at)}, settings,
                              count, err);
        at = *end ? end + 1 : NULL;
    }
    return status;
}
