#include "base/yaml.h"

#include <string.h>

/* libyaml accepts any Unicode encoding and some control characters; here only UTF-8 text is valid,
 * and errors name the line. */
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

int xt_yaml_line(const struct xt_yaml *yaml)
{
    return (int)yaml->event.start_mark.line + 1;
}

enum xt_status xt_yaml_refuse(const struct xt_yaml *yaml, const char *why, struct xt_err *err)
{
    return xt_err_set(err, XT_ERR_USAGE, "%s:%d: %s", yaml->name, xt_yaml_line(yaml), why);
}

static enum xt_status malformed(const struct xt_yaml *yaml, struct xt_err *err)
{
    const yaml_parser_t *parser = &yaml->parser;
    if (parser->error == YAML_MEMORY_ERROR)
        return xt_err_no_memory(err, "reading a YAML file", 0);
    const char *problem = parser->problem ? parser->problem : "it cannot be read";
    return xt_err_set(err, XT_ERR_USAGE, "%s:%zu: this is not YAML (%s, column %zu)", yaml->name,
                      parser->problem_mark.line + 1, problem, parser->problem_mark.column + 1);
}

/* What an event may carry beside its value. */
struct marks {
    const yaml_char_t *anchor, *tag;
};

static struct marks marks_of(const yaml_event_t *event)
{
    switch (event->type) {
    case YAML_SCALAR_EVENT:
        return (struct marks){event->data.scalar.anchor, event->data.scalar.tag};
    case YAML_SEQUENCE_START_EVENT:
        return (struct marks){event->data.sequence_start.anchor, event->data.sequence_start.tag};
    case YAML_MAPPING_START_EVENT:
        return (struct marks){event->data.mapping_start.anchor, event->data.mapping_start.tag};
    default:
        return (struct marks){NULL, NULL};
    }
}

enum xt_status xt_yaml_begin(struct xt_yaml *yaml, const char *name, const uint8_t *bytes,
                             size_t size, struct xt_err *err)
{
    *yaml = (struct xt_yaml){.name = name};
    enum xt_status status = check_text(name, bytes, size, err);
    if (status)
        return status;
    yaml->begun = yaml_parser_initialize(&yaml->parser);
    if (!yaml->begun)
        return xt_err_no_memory(err, "reading a YAML file", 0);
    yaml_parser_set_input_string(&yaml->parser, bytes, size);
    return XT_OK;
}

void xt_yaml_end(struct xt_yaml *yaml)
{
    if (!yaml->begun)
        return;
    yaml_event_delete(&yaml->event);
    yaml_parser_delete(&yaml->parser);
    *yaml = (struct xt_yaml){0};
}

enum xt_status xt_yaml_next(struct xt_yaml *yaml, struct xt_err *err)
{
    yaml_event_delete(&yaml->event);
    if (!yaml_parser_parse(&yaml->parser, &yaml->event))
        return malformed(yaml, err);
    const struct marks marks = marks_of(&yaml->event);
    if (yaml->event.type == YAML_ALIAS_EVENT || marks.anchor)
        return xt_yaml_refuse(
            yaml, "anchors (&) and aliases (*) are not supported; write the value out", err);
    if (marks.tag)
        return xt_yaml_refuse(yaml, "tags (!) are not supported; write the bare value", err);
    return XT_OK;
}

/* stream start, document start, ..., document end, stream end; no document in an empty file. */
enum xt_status xt_yaml_enter(struct xt_yaml *yaml, bool *nothing, struct xt_err *err)
{
    *nothing = true;
    enum xt_status status = xt_yaml_next(yaml, err);
    if (!status)
        status = xt_yaml_next(yaml, err);
    if (status || yaml->event.type == YAML_STREAM_END_EVENT)
        return status;
    status = xt_yaml_next(yaml, err);
    if (status)
        return status;
    *nothing = yaml->event.type == YAML_SCALAR_EVENT && yaml->event.data.scalar.length == 0 &&
               yaml->event.data.scalar.style == YAML_PLAIN_SCALAR_STYLE;
    return *nothing ? xt_yaml_leave(yaml, err) : XT_OK;
}

enum xt_status xt_yaml_leave(struct xt_yaml *yaml, struct xt_err *err)
{
    enum xt_status status = xt_yaml_next(yaml, err);
    if (!status)
        status = xt_yaml_next(yaml, err);
    if (!status && yaml->event.type != YAML_STREAM_END_EVENT)
        return xt_yaml_refuse(yaml, "a second document (---) begins; a file holds one", err);
    return status;
}

enum xt_status xt_yaml_append(const struct xt_yaml *yaml, struct xt_str *text, struct xt_err *err)
{
    const yaml_event_t *event = &yaml->event;
    yaml_scalar_style_t style = event->data.scalar.style;
    if (style == YAML_LITERAL_SCALAR_STYLE || style == YAML_FOLDED_SCALAR_STYLE)
        return xt_yaml_refuse(
            yaml, "block text (| and >) is not supported; write the value on the key's line", err);
    if (memchr(event->data.scalar.value, 0, event->data.scalar.length))
        return xt_yaml_refuse(yaml, "a value cannot hold the character U+0000", err);
    return xt_str_append(text, (const char *)event->data.scalar.value, event->data.scalar.length,
                         err);
}
