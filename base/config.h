/* The config file: one flat YAML mapping of options to values, parsed strictly, with libyaml.
 *
 * The reader passes each entry to a callback as text and knows no options. It refuses, with file
 * and line: more than 1 MB, bytes that are not UTF-8, control characters, tabs in the indentation,
 * anchors, aliases, tags, nested mappings, sequences within sequences, block scalars, and a second
 * document. An empty file is a config without entries. Errors are XT_ERR_USAGE. Stateless,
 * thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { XT_CONFIG_LIMIT = 1 << 20 };

enum xt_config_form {
    XT_CONFIG_PLAIN,    /* batch: 12 */
    XT_CONFIG_QUOTED,   /* data: "12" */
    XT_CONFIG_SEQUENCE, /* milestones: [10, 20]; the text is "10\n20" */
};

/* Items of a sequence with commas between them, as the command line has them, in place. */
void xt_config_join(char *text);

struct xt_config_entry {
    const char *key;
    const char *text;
    enum xt_config_form form;
    bool quoted; /* an item of a sequence */
    int line;    /* 1-based */
};

/* Called for each entry in the file's order; the entry is valid during the call. A failure stops
 * the parsing. */
typedef enum xt_status xt_config_take(void *context, const struct xt_config_entry *entry,
                                      struct xt_err *err);

/* `name` stands for the file in errors. */
enum xt_status xt_config_parse(const char *name, const uint8_t *bytes, size_t size,
                               xt_config_take *take, void *context, struct xt_err *err);
enum xt_status xt_config_read(const char *path, xt_config_take *take, void *context,
                              struct xt_err *err);
