/* YAML files (libyaml), event by event, restricted to the subset that this program's files use.
 * Errors are XT_ERR_USAGE: "name:line: why".
 *
 * UTF-8 text of one document; no tabs in the indentation, no control characters, no anchors,
 * aliases or tags. A zeroed reader is empty; end it also after a failure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <yaml.h>

#include "base/err.h"
#include "base/str.h"

struct xt_yaml {
    yaml_parser_t parser;
    yaml_event_t event; /* the current event; released before the next is read */
    const char *name;   /* the file's, borrowed */
    bool begun;
};

/* `name` and `bytes` are borrowed until the end. */
enum xt_status xt_yaml_begin(struct xt_yaml *yaml, const char *name, const uint8_t *bytes,
                             size_t size, struct xt_err *err);
void xt_yaml_end(struct xt_yaml *yaml);

/* To the document's first event, or to the end of an empty file. */
enum xt_status xt_yaml_enter(struct xt_yaml *yaml, bool *nothing, struct xt_err *err);
/* From the document's last event to the end of the file; refuses another document. */
enum xt_status xt_yaml_leave(struct xt_yaml *yaml, struct xt_err *err);
enum xt_status xt_yaml_next(struct xt_yaml *yaml, struct xt_err *err);

/* Appends the current scalar; refuses block text and U+0000. */
enum xt_status xt_yaml_append(const struct xt_yaml *yaml, struct xt_str *text, struct xt_err *err);

/* The current event's line, from 1. */
int xt_yaml_line(const struct xt_yaml *yaml);
enum xt_status xt_yaml_refuse(const struct xt_yaml *yaml, const char *why, struct xt_err *err);
