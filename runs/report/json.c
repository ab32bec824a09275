#include "runs/report/json.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void xt_json_add(struct xt_json *json, cJSON *at, const char *key, cJSON *item)
{
    bool fine =
        at && item && (key ? cJSON_AddItemToObject(at, key, item) : cJSON_AddItemToArray(at, item));
    if (fine)
        return;
    cJSON_Delete(item);
    json->failed = true;
}

/* Adds the item and returns it; NULL where that failed. */
static cJSON *place(struct xt_json *json, cJSON *at, const char *key, cJSON *item)
{
    bool before = json->failed;
    json->failed = false;
    xt_json_add(json, at, key, item);
    cJSON *placed = json->failed ? NULL : item;
    json->failed = json->failed || before;
    return placed;
}

cJSON *xt_json_object(struct xt_json *json, cJSON *at, const char *key)
{
    return place(json, at, key, cJSON_CreateObject());
}

cJSON *xt_json_array(struct xt_json *json, cJSON *at, const char *key)
{
    return place(json, at, key, cJSON_CreateArray());
}

void xt_json_text(struct xt_json *json, cJSON *at, const char *key, const char *text)
{
    size_t room = 4 * strlen(text) + 1;
    char *escaped = malloc(room);
    if (escaped)
        xt_str_escape_bytes(text, escaped, room);
    xt_json_add(json, at, key, escaped ? cJSON_CreateString(escaped) : NULL);
    free(escaped);
}

void xt_json_number(struct xt_json *json, cJSON *at, const char *key, double value)
{
    xt_json_add(json, at, key, isfinite(value) ? cJSON_CreateNumber(value) : cJSON_CreateNull());
}

enum xt_status xt_json_print(const struct xt_json *json, const cJSON *item, struct xt_str *out,
                             struct xt_err *err)
{
    char *text = json->failed ? NULL : cJSON_PrintUnformatted(item);
    enum xt_status status = text ? xt_str_append(out, text, strlen(text), err)
                                 : xt_err_no_memory(err, "a report's JSON", 0);
    cJSON_free(text);
    return status;
}

double xt_json_get(const cJSON *object, const char *key, double otherwise)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : otherwise;
}

const char *xt_json_get_text(const cJSON *object, const char *key, const char *otherwise)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    return text ? text : otherwise;
}
