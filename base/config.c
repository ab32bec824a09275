#include "base/config.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/str.h"
#include "base/yaml.h"

struct reader {
    struct xt_yaml yaml;
    xt_config_take *take;
    void *context;
    struct xt_str key;
    struct xt_str text;
};

static enum xt_status read_key(struct reader *reader, struct xt_err *err)
{
    const yaml_event_t *event = &reader->yaml.event;
    if (event->type != YAML_SCALAR_EVENT)
        return xt_yaml_refuse(&reader->yaml, "a key must be the name of an option", err);
    reader->key.length = 0;
    if (memchr(event->data.scalar.value, 0, event->data.scalar.length))
        return xt_yaml_refuse(&reader->yaml, "a key must be the name of an option", err);
    return xt_str_append(&reader->key, (const char *)event->data.scalar.value,
                         event->data.scalar.length, err);
}

static enum xt_status read_scalar(struct reader *reader, enum xt_config_form *form,
                                  struct xt_err *err)
{
    bool plain = reader->yaml.event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    *form = plain ? XT_CONFIG_PLAIN : XT_CONFIG_QUOTED;
    return xt_yaml_append(&reader->yaml, &reader->text, err);
}

/* Items, a line each. */
static enum xt_status read_sequence(struct reader *reader, bool *quoted, struct xt_err *err)
{
    enum xt_status status = xt_yaml_next(&reader->yaml, err);
    for (bool first = true; !status && reader->yaml.event.type != YAML_SEQUENCE_END_EVENT;
         first = false) {
        enum xt_config_form form = XT_CONFIG_PLAIN;
        if (reader->yaml.event.type != YAML_SCALAR_EVENT)
            return xt_yaml_refuse(&reader->yaml,
                                  "a list here holds single values, no lists or mappings", err);
        if (!first)
            xt_str_append(&reader->text, "\n", 1, NULL);
        size_t before = reader->text.length;
        status = read_scalar(reader, &form, err);
        if (!status &&
            (reader->text.length == before ||
             memchr(xt_str_get(&reader->text) + before, '\n', reader->text.length - before)))
            return xt_yaml_refuse(&reader->yaml, "an item of this list is empty or has line breaks",
                                  err);
        *quoted |= form == XT_CONFIG_QUOTED;
        if (!status)
            status = xt_yaml_next(&reader->yaml, err);
    }
    return status;
}

static enum xt_status read_entry(struct reader *reader, struct xt_err *err)
{
    struct xt_config_entry entry = {.line = xt_yaml_line(&reader->yaml)};
    enum xt_status status = read_key(reader, err);
    if (!status)
        status = xt_yaml_next(&reader->yaml, err);
    if (status)
        return status;
    reader->text.length = 0;
    switch (reader->yaml.event.type) {
    case YAML_SCALAR_EVENT:
        status = read_scalar(reader, &entry.form, err);
        break;
    case YAML_SEQUENCE_START_EVENT:
        entry.form = XT_CONFIG_SEQUENCE;
        status = read_sequence(reader, &entry.quoted, err);
        break;
    default:
        return xt_yaml_refuse(
            &reader->yaml, "the settings are one flat list of `key: value`, without nesting", err);
    }
    if (!status)
        status = xt_str_append(&reader->text, "", 0, err);
    if (status)
        return status;
    entry.key = xt_str_get(&reader->key);
    entry.text = xt_str_get(&reader->text);
    return reader->take(reader->context, &entry, err);
}

static enum xt_status read_mapping(struct reader *reader, struct xt_err *err)
{
    enum xt_status status = xt_yaml_next(&reader->yaml, err);
    while (!status && reader->yaml.event.type != YAML_MAPPING_END_EVENT) {
        status = read_entry(reader, err);
        if (!status)
            status = xt_yaml_next(&reader->yaml, err);
    }
    return status;
}

static enum xt_status read_document(struct reader *reader, struct xt_err *err)
{
    bool nothing = true;
    enum xt_status status = xt_yaml_enter(&reader->yaml, &nothing, err);
    if (status || nothing)
        return status;
    if (reader->yaml.event.type != YAML_MAPPING_START_EVENT)
        return xt_yaml_refuse(&reader->yaml, "a config file is a list of `key: value` lines", err);
    status = read_mapping(reader, err);
    return status ? status : xt_yaml_leave(&reader->yaml, err);
}

void xt_config_join(char *text)
{
    while ((text = strchr(text, '\n')))
        *text = ',';
}

enum xt_status xt_config_parse(const char *name, const uint8_t *bytes, size_t size,
                               xt_config_take *take, void *context, struct xt_err *err)
{
    struct reader reader = {.take = take, .context = context};
    enum xt_status status = xt_yaml_begin(&reader.yaml, name, bytes, size, err);
    if (!status)
        status = read_document(&reader, err);
    xt_yaml_end(&reader.yaml);
    xt_str_clear(&reader.key);
    xt_str_clear(&reader.text);
    return status;
}

enum xt_status xt_config_read(const char *path, xt_config_take *take, void *context,
                              struct xt_err *err)
{
    struct xt_bytes bytes = {0};
    enum xt_status status = xt_file_load(path, XT_CONFIG_LIMIT, &bytes, err);
    if (status == XT_ERR_DATA) {
        status = XT_ERR_USAGE;
        if (err)
            err->status = XT_ERR_USAGE;
        xt_err_prefix(err, "--config: ");
    }
    if (!status)
        status = xt_config_parse(path, bytes.data, bytes.size, take, context, err);
    free(bytes.data);
    return status;
}
