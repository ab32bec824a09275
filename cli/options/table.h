/* The options: one table that drives the command line, the config file, --help, --print-config, the
 * manual page and shell completion. Constant, thread-safe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "cli/commands.h"
#include "cli/options/types.h"

enum { XT_OPTIONS_MAX = 160 };

/* In the order of help. */
extern const struct xt_option xt_option_table[];
extern const size_t xt_option_count;
const char *xt_option_group_title(enum xt_option_group group);
/* The option called `name` (without "--", dashes), or NULL. */
const struct xt_option *xt_option_find(const char *name);
/* The option that the command calls `name`, which may be its other spelling; else as above. */
const struct xt_option *xt_option_find_for(const char *name, enum xt_command_id command);
/* The name that help and messages use. */
const char *xt_option_spelling(const struct xt_option *option);
/* Its index in the table. */
size_t xt_option_index(const struct xt_option *option);
bool xt_option_is_for(const struct xt_option *option, enum xt_command_id command);
/* Whether help, manual and completion name it there. */
bool xt_option_is_listed(const struct xt_option *option, enum xt_command_id command);
/* The option with the choices that the command takes, in *own where these are fewer. */
enum { XT_CHOICES_MAX = 7 };
struct xt_option_taken {
    struct xt_option option;
    const char *choices[XT_CHOICES_MAX + 1];
};
const struct xt_option *xt_option_taken(const struct xt_option *option, enum xt_command_id command,
                                        struct xt_option_taken *own);
/* Whether all ranks need the same value: weights depend on it, or it is marked as shared. */
bool xt_option_binds_ranks(const struct xt_option *option);
/* True for flags with a --no- form. Requests (--help, --print-config) have none. */
bool xt_option_has_negation(const struct xt_option *option);
