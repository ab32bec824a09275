#include "infer/network/class_names.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/sources/source.h"

static enum xt_status allocate(struct xt_class_names *out, int count, struct xt_err *err)
{
    *out = (struct xt_class_names){0};
    enum xt_status status =
        xt_mem_calloc(&out->names, (size_t)count, sizeof *out->names, "the names of classes", err);
    if (!status)
        out->count = count;
    return status;
}

enum xt_status xt_class_names_copy(struct xt_class_names *out, char *const *names, int known,
                                   int count, struct xt_err *err)
{
    enum xt_status status = allocate(out, count, err);
    for (int i = 0; i < count && !status; i++) {
        char number[32];
        snprintf(number, sizeof number, "class %d", i);
        status = xt_mem_strdup(&out->names[i], i < known ? names[i] : number, err);
    }
    if (status)
        xt_class_names_clear(out);
    return status;
}

static enum xt_status take_names(struct xt_class_names *out, const cJSON *array, const char *where,
                                 struct xt_err *err)
{
    int count = cJSON_IsArray(array) ? cJSON_GetArraySize(array) : 0;
    if (count < 1 || count > XT_CLASSES_MAX)
        return xt_err_set(err, XT_ERR_DATA, "%s: class_names is not an array of 1 to %d names",
                          where, XT_CLASSES_MAX);
    enum xt_status status = allocate(out, count, err);
    int i = 0;
    const cJSON *item = NULL;
    cJSON_ArrayForEach(item, array)
    {
        if (status)
            break;
        const char *name = cJSON_GetStringValue(item);
        if (!name || !*name || strlen(name) > XT_CLASS_NAME_MAX)
            status = xt_err_set(err, XT_ERR_DATA,
                                "%s: entry %d of class_names is not a name of 1 to %d bytes", where,
                                i, XT_CLASS_NAME_MAX);
        else
            status = xt_mem_strdup(&out->names[i++], name, err);
    }
    return status;
}

enum xt_status xt_class_names_parse(struct xt_class_names *out, const char *text, const char *where,
                                    struct xt_err *err)
{
    *out = (struct xt_class_names){0};
    if (xt_str_has_json_nul(text))
        return xt_err_set(err, XT_ERR_DATA, "%s: a name in class_names holds a NUL character",
                          where);
    cJSON *array = cJSON_Parse(text);
    enum xt_status status = take_names(out, array, where, err);
    cJSON_Delete(array);
    if (status)
        xt_class_names_clear(out);
    return status;
}

enum xt_status xt_class_names_print(const struct xt_class_names *names, struct xt_str *out,
                                    struct xt_err *err)
{
    cJSON *array = cJSON_CreateArray();
    bool ok = array != NULL;
    for (int i = 0; i < names->count && ok; i++) {
        cJSON *item = cJSON_CreateString(names->names[i]);
        ok = item && cJSON_AddItemToArray(array, item);
    }
    char *text = ok ? cJSON_PrintUnformatted(array) : NULL;
    enum xt_status status = text ? xt_str_append(out, text, strlen(text), err)
                                 : xt_err_no_memory(err, "the names of classes", 0);
    cJSON_free(text);
    cJSON_Delete(array);
    return status;
}

bool xt_class_names_equal(const struct xt_class_names *a, const struct xt_class_names *b)
{
    if (a->count != b->count)
        return false;
    for (int i = 0; i < a->count; i++)
        if (strcmp(a->names[i], b->names[i]) != 0)
            return false;
    return true;
}

void xt_class_names_clear(struct xt_class_names *names)
{
    for (int i = 0; i < names->count; i++)
        free(names->names[i]);
    free(names->names);
    *names = (struct xt_class_names){0};
}
