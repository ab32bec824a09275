/* The form of every JSON object that the program prints: which names (cli/json/names.h) it may have
 * and which it must have, as JSON Schema and as a check. Stateless, thread-safe. */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stddef.h>

#include "cli/commands.h"

/* The version of all schemas. It rises when a name changes or goes; new names do not raise it. What
 * was printed without `schema` counts as version 1. */
enum { XT_SCHEMA_VERSION = 2 };

/* The lines of --jsonl; after the commands' own. */
enum xt_schema_id {
    XT_SCHEMA_ANY = XT_COMMAND_COUNT, /* no command was found */
    XT_SCHEMA_IMAGE,
    XT_SCHEMA_PROGRESS,
    XT_SCHEMA_EVALUATION,
    XT_SCHEMA_COUNT
};

/* "predict", "data-check". */
const char *xt_schema_name(int id);
/* The schema of this name, as above or as the command is written; XT_SCHEMA_COUNT: there is none.
 */
int xt_schema_find(const char *name);

/* {"name":"predict","version":2}; NULL: out of memory. */
cJSON *xt_schema_mark(int id);
/* The JSON Schema, draft 2020-12; NULL: out of memory. */
cJSON *xt_schema_create(int id);

/* Whether the object is as its schema says; otherwise `why` names what is not. */
bool xt_schema_check(int id, const cJSON *object, char *why, size_t size);
