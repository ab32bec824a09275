#include "cli/options/values.h"

#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "cli/options/suggest.h"

static void *field_of(struct xt_options *options, const struct xt_option *option)
{
    return (char *)&options->values + option->offset;
}

const char *xt_options_model(const struct xt_option_models *models, const char *name)
{
    for (size_t i = 0; models && models->names[i]; i++)
        if (xt_str_same_name(models->names[i], name))
            return models->names[i];
    return NULL;
}

enum xt_status xt_options_parse_value(const struct xt_option *option, enum xt_command_id command,
                                      const char *subject, const char *text, void *value,
                                      struct xt_err *err)
{
    struct xt_option_taken own;
    const struct xt_option *taken = xt_option_taken(option, command, &own);
    enum xt_status status = option->type->parse(option, subject, text, value, err);
    return status && taken != option ? option->type->parse(taken, subject, text, value, err)
                                     : status;
}

enum xt_status xt_options_set(struct xt_options *options, const struct xt_option *option,
                              const char *subject, const char *text, struct xt_origin origin,
                              struct xt_err *err)
{
    union {
        int64_t number;
        double real;
        const char *text;
        struct xt_reject_rule rule;
    } value = {0};
    enum xt_status status =
        xt_options_parse_value(option, options->command, subject, text, &value, err);
    struct xt_origin *before = &options->origins[xt_option_index(option)];
    if (status || before->source > origin.source)
        return status;
    memcpy(field_of(options, option), &value, option->type->size);
    *before = origin;
    return XT_OK;
}

enum xt_status xt_options_keep(struct xt_options *options, const char *text, const char **stored,
                               struct xt_err *err)
{
    enum xt_status status = xt_mem_add(&options->strings, options->string_count,
                                       sizeof *options->strings, "settings", err);
    char *copy = NULL;
    if (!status)
        status = xt_mem_strdup(&copy, text, err);
    if (status)
        return status;
    options->strings[options->string_count++] = copy;
    *stored = copy;
    return XT_OK;
}

const void *xt_options_value(const struct xt_options *options, const struct xt_option *option)
{
    return (const char *)&options->values + option->offset;
}

/* How an error names the option, by its source. */
void xt_options_subject(char out[XT_OPTION_SUBJECT], const struct xt_options *options,
                        const char *name)
{
    const struct xt_origin *origin = &options->origins[xt_option_index(xt_option_find(name))];
    bool in_file = origin->source == XT_SOURCE_CONFIG;
    char spelt[XT_OPTION_SPELT];
    xt_option_spell(spelt, name, in_file);
    if (in_file)
        snprintf(out, XT_OPTION_SUBJECT, "%s:%d: %s", options->values.request.config, origin->line,
                 spelt);
    else
        snprintf(out, XT_OPTION_SUBJECT, "%s", spelt);
}

int xt_options_count(const struct xt_options *options, const char *name)
{
    int count = options->origins[xt_option_index(xt_option_find(name))].count;
    return count ? count : 1;
}

enum xt_status xt_options_pick(const struct xt_options *options, const char *name, int index,
                               struct xt_settings *settings, struct xt_err *err)
{
    const struct xt_option *option = xt_option_find(name);
    const struct xt_origin *origin = &options->origins[xt_option_index(option)];
    void *value = (char *)settings + option->offset;
    if (origin->count)
        return option->type->parse(option, name, options->strings[origin->first + (size_t)index],
                                   value, err);
    memcpy(value, xt_options_value(options, option), option->type->size);
    return XT_OK;
}

enum xt_value_source xt_options_source(const struct xt_options *options, const char *name)
{
    return options->origins[xt_option_index(xt_option_find(name))].source;
}
