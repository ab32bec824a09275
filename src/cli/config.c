#include "cli/config.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"
#include "cli/option_types.h"

struct reader {
    yaml_parser_t yaml;
    yaml_event_t event; /* the latest; released before the next is asked for */
    const char *name;
    xt_config_take *take;
    void *context;
    struct xt_str key;
    struct xt_str text;
};

/* libyaml takes any Unicode encoding and lets some control characters through; here it is UTF-8
 * text, and the line is told. */
static enum xt_status check_text(const char *name, const uint8_t *bytes, size_t size,
                                 struct xt_err *err)
{
    int line = 1;
    bool indentation = true;
    for (size_t i = 0; i < size;) {
        uint32_t code = 0;
        size_t length = xt_utf8_decode((const char *)bytes + i, size - i, &code);
        if (!length)
            return xt_err_set(err, XT_ERR_USAGE,
                              "%s:%d: the byte 0x%02X is not UTF-8; save the file as UTF-8", name,
                              line, bytes[i]);
        if (code == '\t' && indentation)
            return xt_err_set(err, XT_ERR_USAGE,
                              "%s:%d: a tab in the indentation, which YAML forbids; use spaces",
                              name, line);
        if ((code < 0x20 && code != '\n' && code != '\r' && code != '\t') || code == 0x7F)
            return xt_err_set(err, XT_ERR_USAGE,
                              "%s:%d: the control character 0x%02X does not belong in a text file",
                              name, line, (unsigned)code);
        if (code == '\n') {
            line++;
            indentation = true;
        } else if (code != ' ') {
            indentation = false;
        }
        i += length;
    }
    return XT_OK;
}

static int line_of(const struct reader *reader)
{
    return (int)reader->event.start_mark.line + 1;
}

static enum xt_status refuse(const struct reader *reader, const char *why, struct xt_err *err)
{
    return xt_err_set(err, XT_ERR_USAGE, "%s:%d: %s", reader->name, line_of(reader), why);
}

static enum xt_status malformed(const struct reader *reader, struct xt_err *err)
{
    const yaml_parser_t *yaml = &reader->yaml;
    if (yaml->error == YAML_MEMORY_ERROR)
        return xt_err_no_memory(err, "reading the config file", 0);
    const char *problem = yaml->problem ? yaml->problem : "it cannot be read";
    return xt_err_set(err, XT_ERR_USAGE, "%s:%zu: this is not YAML (%s, column %zu)", reader->name,
                      yaml->problem_mark.line + 1, problem, yaml->problem_mark.column + 1);
}

static const yaml_char_t *anchor_of(const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return event->data.scalar.anchor;
    case YAML_SEQUENCE_START_EVENT:
        return event->data.sequence_start.anchor;
    case YAML_MAPPING_START_EVENT:
        return event->data.mapping_start.anchor;
    default:
        return NULL;
    }
}

static const yaml_char_t *tag_of(const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return event->data.scalar.tag;
    case YAML_SEQUENCE_START_EVENT:
        return event->data.sequence_start.tag;
    case YAML_MAPPING_START_EVENT:
        return event->data.mapping_start.tag;
    default:
        return NULL;
    }
}

/* The next event; what no config may hold is refused here. */
static enum xt_status next(struct reader *reader, struct xt_err *err)
{
    yaml_event_delete(&reader->event);
    if (!yaml_parser_parse(&reader->yaml, &reader->event))
        return malformed(reader, err);
    if (reader->event.type == YAML_ALIAS_EVENT || anchor_of(&reader->event))
        return refuse(reader, "anchors (&) and aliases (*) are not taken; write the value out",
                      err);
    if (tag_of(&reader->event))
        return refuse(reader, "tags (!) are not taken; write the bare value", err);
    return XT_OK;
}

static enum xt_status read_key(struct reader *reader, struct xt_err *err)
{
    const yaml_event_t *event = &reader->event;
    if (event->type != YAML_SCALAR_EVENT)
        return refuse(reader, "a key must be the name of an option", err);
    reader->key.length = 0;
    if (memchr(event->data.scalar.value, 0, event->data.scalar.length))
        return refuse(reader, "a key must be the name of an option", err);
    return xt_str_append(&reader->key, (const char *)event->data.scalar.value,
                         event->data.scalar.length, err);
}

static enum xt_status read_scalar(struct reader *reader, enum xt_config_form *form,
                                  struct xt_err *err)
{
    const yaml_event_t *event = &reader->event;
    yaml_scalar_style_t style = event->data.scalar.style;
    if (style == YAML_LITERAL_SCALAR_STYLE || style == YAML_FOLDED_SCALAR_STYLE)
        return refuse(reader,
                      "block text (| and >) is not taken; write the value on the key's line", err);
    if (memchr(event->data.scalar.value, 0, event->data.scalar.length))
        return refuse(reader, "a value cannot hold the character U+0000", err);
    *form = style == YAML_PLAIN_SCALAR_STYLE ? XT_CONFIG_PLAIN : XT_CONFIG_QUOTED;
    return xt_str_append(&reader->text, (const char *)event->data.scalar.value,
                         event->data.scalar.length, err);
}

/* Items joined by commas. */
static enum xt_status read_sequence(struct reader *reader, struct xt_err *err)
{
    enum xt_status status = next(reader, err);
    for (bool first = true; !status && reader->event.type != YAML_SEQUENCE_END_EVENT;
         first = false) {
        enum xt_config_form form = XT_CONFIG_PLAIN;
        if (reader->event.type != YAML_SCALAR_EVENT)
            return refuse(reader, "a list here holds plain numbers, no lists or mappings", err);
        if (!first)
            status = xt_str_append(&reader->text, ",", 1, err);
        size_t before = reader->text.length;
        if (!status)
            status = read_scalar(reader, &form, err);
        if (!status && (form == XT_CONFIG_QUOTED || reader->text.length == before))
            return refuse(reader, "a list here holds plain numbers, without quotes", err);
        if (!status)
            status = next(reader, err);
    }
    return status;
}

static enum xt_status read_entry(struct reader *reader, struct xt_err *err)
{
    struct xt_config_entry entry = {.line = line_of(reader)};
    enum xt_status status = read_key(reader, err);
    if (!status)
        status = next(reader, err);
    if (status)
        return status;
    reader->text.length = 0;
    switch (reader->event.type) {
    case YAML_SCALAR_EVENT:
        status = read_scalar(reader, &entry.form, err);
        break;
    case YAML_SEQUENCE_START_EVENT:
        entry.form = XT_CONFIG_SEQUENCE;
        status = read_sequence(reader, err);
        break;
    default:
        return refuse(reader, "the settings are one flat list of `key: value`, none inside another",
                      err);
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
    enum xt_status status = next(reader, err);
    while (!status && reader->event.type != YAML_MAPPING_END_EVENT) {
        status = read_entry(reader, err);
        if (!status)
            status = next(reader, err);
    }
    return status;
}

/* stream start, document start, mapping, document end, stream end; or nothing at all. */
static enum xt_status read_stream(struct reader *reader, struct xt_err *err)
{
    enum xt_status status = next(reader, err);
    if (!status)
        status = next(reader, err);
    if (status || reader->event.type == YAML_STREAM_END_EVENT)
        return status;
    status = next(reader, err);
    if (status)
        return status;
    bool nothing = reader->event.type == YAML_SCALAR_EVENT &&
                   reader->event.data.scalar.length == 0 &&
                   reader->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    if (!nothing && reader->event.type != YAML_MAPPING_START_EVENT)
        return refuse(reader, "a config file is a list of `key: value` lines", err);
    if (!nothing)
        status = read_mapping(reader, err);
    if (!status)
        status = next(reader, err);
    if (!status)
        status = next(reader, err);
    if (!status && reader->event.type != YAML_STREAM_END_EVENT)
        return refuse(reader, "a second document (---) begins; a config file holds one", err);
    return status;
}

enum xt_status xt_config_parse(const char *name, const uint8_t *bytes, size_t size,
                               xt_config_take *take, void *context, struct xt_err *err)
{
    enum xt_status status = check_text(name, bytes, size, err);
    if (status)
        return status;
    struct reader reader = {.name = name, .take = take, .context = context};
    if (!yaml_parser_initialize(&reader.yaml))
        return xt_err_no_memory(err, "reading the config file", 0);
    yaml_parser_set_input_string(&reader.yaml, bytes, size);
    status = read_stream(&reader, err);
    yaml_event_delete(&reader.event);
    yaml_parser_delete(&reader.yaml);
    xt_str_clear(&reader.key);
    xt_str_clear(&reader.text);
    return status;
}

enum xt_status xt_config_read(const char *path, xt_config_take *take, void *context,
                              struct xt_err *err)
{
    uint8_t *bytes = NULL;
    size_t capacity = 0;
    size_t size = 0;
    enum xt_status status = xt_file_read(path, XT_CONFIG_LIMIT, &bytes, &capacity, &size, err);
    if (status == XT_ERR_DATA) {
        status = XT_ERR_USAGE;
        if (err)
            err->status = XT_ERR_USAGE;
        xt_err_prefix(err, "--config: ");
    }
    if (!status)
        status = xt_config_parse(path, bytes, size, take, context, err);
    free(bytes);
    return status;
}
