#include "runs/report/json.h"

#include <math.h>
#include <stdio.h>
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

double xt_json_read_number(const char *conversion, va_list *args)
{
    if (conversion[0] == 'd')
        return va_arg(*args, int);
    if (conversion[0] == 'z')
        return (double)va_arg(*args, size_t);
    if (conversion[0] == 'l' && conversion[1] == 'l')
        return (double)va_arg(*args, long long);
    if (conversion[0] == 'l')
        return (double)va_arg(*args, long);
    return va_arg(*args, double);
}

bool xt_json_next(const char **format, va_list *args, struct xt_json_value *out)
{
    const char *at = *format + strspn(*format, " ");
    const char *percent = strchr(at, '%');
    if (!percent)
        return false;
    const char *conversion = percent + 1;
    *out = (struct xt_json_value){.is_text = *conversion == 's'};
    snprintf(out->key, sizeof out->key, "%.*s", (int)strcspn(at, "="), at);
    if (out->is_text)
        out->text = va_arg(*args, const char *);
    else
        out->number = xt_json_read_number(conversion, args);
    *format = conversion + strcspn(conversion, " ");
    return true;
}

void xt_json_put(struct xt_json *json, cJSON *at, const char *format, ...)
{
    struct xt_json_value value;
    va_list args;
    va_start(args, format);
    while (xt_json_next(&format, &args, &value))
        if (value.is_text)
            xt_json_text(json, at, value.key, value.text);
        else
            xt_json_number(json, at, value.key, value.number);
    va_end(args);
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
