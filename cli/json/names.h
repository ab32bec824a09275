/* The names of --json: each has one type and one meaning, whatever command prints it. Schemas, the
 * check of every printed object, and the table in docs/json.md come from here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum xt_json_type {
    XT_JSON_TEXT,
    XT_JSON_INTEGER,
    XT_JSON_NUMBER,
    XT_JSON_FLAG,
    XT_JSON_TEXTS,   /* a list */
    XT_JSON_NUMBERS, /* a list */
    XT_JSON_TABLE,   /* an object whose keys are data */
    XT_JSON_NESTED   /* an object or a list of objects, as the command's shape says */
};

struct xt_json_name {
    const char *name;
    enum xt_json_type type;
    const char *meaning; /* "; null: ..." where the value may be null */
};

bool xt_json_name_may_be_null(const struct xt_json_name *name);
/* NULL: there is no such name. */
const struct xt_json_name *xt_json_name_find(const char *name, size_t length);
