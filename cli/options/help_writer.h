/* Output helpers shared by help, manual page and completion. */
#pragma once

#include <stdbool.h>

#include "base/str.h"
#include "cli/options/values.h"

/* `out` remembers a failure, so that writes need no check. */
struct xt_help_writer {
    const struct xt_option_models *models;
    const char *model; /* whose defaults are shown; NULL: none */
    struct xt_str *out;
    int more;            /* options that were not shown */
    const char *heading; /* the last one of man_own_option */
};

void xt_help_put(struct xt_help_writer *writer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

bool xt_option_is_model(const struct xt_option *option);
/* The values of an option, NULL-terminated; NULL if it is not a choice. */
const char *const *xt_help_words(const struct xt_help_writer *writer,
                                 const struct xt_option *option);

/* Calls `each` for the options of a command in the table's order, `heading` before each group. */
typedef void xt_help_option(struct xt_help_writer *writer, const struct xt_option *option,
                            enum xt_command_id command);
typedef void xt_help_heading(struct xt_help_writer *writer, const char *title);
void xt_help_for_options(struct xt_help_writer *writer, enum xt_command_id command,
                         xt_help_heading *heading, xt_help_option *each);
