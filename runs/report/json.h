/* Building JSON with cJSON, with a sticky out-of-memory error: an item that could not be created is
 * NULL, and adding to it does nothing. Texts become UTF-8 (xt_str_escape_bytes). Not thread-safe.
 */
#pragma once

#include <cjson/cJSON.h>
#include <stdarg.h>
#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"

struct xt_json {
    bool failed; /* something is missing: out of memory */
};

/* `at` is an object, or with `key` NULL an array. `add` takes ownership of the item, which belongs
 * to `at` or is freed. */
void xt_json_add(struct xt_json *json, cJSON *at, const char *key, cJSON *item);
cJSON *xt_json_object(struct xt_json *json, cJSON *at, const char *key);
cJSON *xt_json_array(struct xt_json *json, cJSON *at, const char *key);
void xt_json_text(struct xt_json *json, cJSON *at, const char *key, const char *text);
/* A non-finite value becomes null. */
void xt_json_number(struct xt_json *json, cJSON *at, const char *key, double value);

/* Several of them: "label=%s count=%zu loss=%f" are keys and the conversions of their values (%s,
 * %d, %ld, %lld, %zu, %f). */
void xt_json_put(struct xt_json *json, cJSON *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Reads such a format: the next key and its value, a text or a number; false at the end. */
struct xt_json_value {
    char key[40];
    bool is_text;
    const char *text;
    double number;
};
bool xt_json_next(const char **format, va_list *args, struct xt_json_value *out);
/* The value of a conversion, without its %, of a number. */
double xt_json_read_number(const char *conversion, va_list *args);

/* Appends it as text on one line; an error where building it has failed. */
enum xt_status xt_json_print(const struct xt_json *json, const cJSON *item, struct xt_str *out,
                             struct xt_err *err);

/* A number or a text of an object; `otherwise` where that key is missing. */
double xt_json_get(const cJSON *object, const char *key, double otherwise);
const char *xt_json_get_text(const cJSON *object, const char *key, const char *otherwise);
