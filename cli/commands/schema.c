/* xtrain schema: the JSON Schema of what a command prints with --json. */
#include <cjson/cJSON.h>
#include <stdio.h>

#include "base/str.h"
#include "cli/commands.h"
#include "cli/json/result.h"
#include "cli/json/schema.h"
#include "cli/options/options.h"

static enum xt_status find(const struct xt_options *options, int *id, struct xt_err *err)
{
    struct xt_str name = {0};
    enum xt_status status = XT_OK;
    for (int i = 0; i < options->argument_count && !status; i++)
        status = xt_str_printf(&name, err, "%s%s", i ? " " : "", options->arguments[i]);
    if (!status)
        *id = xt_schema_find(xt_str_get(&name));
    if (!status && *id == XT_SCHEMA_COUNT)
        status = xt_command_refuse(xt_str_get(&name), err);
    xt_str_clear(&name);
    return status;
}

enum xt_status xt_cmd_schema(struct xt_options *options, struct xt_err *err)
{
    int id = 0;
    enum xt_status status = find(options, &id, err);
    if (status)
        return status;
    cJSON *schema = xt_schema_create(id);
    if (xt_result_is_json())
        return xt_result_put_json("json_schema", schema, err);
    char *text = schema ? cJSON_Print(schema) : NULL;
    if (text)
        printf("%s\n", text);
    cJSON_free(text);
    cJSON_Delete(schema);
    return text ? XT_OK : xt_err_no_memory(err, "the schema", 0);
}
