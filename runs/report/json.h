/* Building JSON with cJSON, with a sticky out-of-memory error: an item that could not be created is
 * NULL, and adding to it does nothing. Texts become UTF-8 (xt_str_escape_bytes). Not thread-safe.
 */
#pragma once

#include <cjson/cJSON.h>
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

/* Appends it as text on one line; an error where building it has failed. */
enum xt_status xt_json_print(const struct xt_json *json, const cJSON *item, struct xt_str *out,
                             struct xt_err *err);

/* A number or a text of an object; `otherwise` where that key is missing. */
double xt_json_get(const cJSON *object, const char *key, double otherwise);
const char *xt_json_get_text(const cJSON *object, const char *key, const char *otherwise);
