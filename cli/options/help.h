/* Everything that explains the command line: help texts, the manual page, completion scripts. All
 * of it is generated from the tables of commands and options, so it cannot differ from what the
 * parser accepts. Text is appended to `out`; `models` may be NULL. `model` is the network whose
 * defaults are shown; NULL: none is chosen. Stateless, thread-safe. */
#pragma once

#include "base/err.h"
#include "base/str.h"
#include "cli/options/options.h"

enum { XT_HELP_COLUMNS = 100 };

/* The overview, one screen: examples and commands. */
enum xt_status xt_help_overview(struct xt_str *out, struct xt_err *err);
/* One command: its usage, examples, and the options that are used, or with `all` every one. */
enum xt_status xt_help_command(enum xt_command_id command, const struct xt_option_models *models,
                               const char *model, bool all, struct xt_str *out, struct xt_err *err);
/* The commands whose first word is `group`. */
enum xt_status xt_help_group(const char *group, struct xt_str *out, struct xt_err *err);
/* The manual page, in man(7) macros. */
enum xt_status xt_help_man(const struct xt_option_models *models, struct xt_str *out,
                           struct xt_err *err);
/* `shell` is bash, zsh or fish; XT_ERR_USAGE for others. */
enum xt_status xt_help_completion(const char *shell, const struct xt_option_models *models,
                                  struct xt_str *out, struct xt_err *err);
