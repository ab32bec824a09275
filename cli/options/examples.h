/* What the help of a command begins with: examples, and the options that are most used. */
#pragma once

#include "cli/commands.h"

enum { XT_HELP_EXAMPLES = 4, XT_HELP_USUAL = 10 };

struct xt_help_page {
    const char *examples[XT_HELP_EXAMPLES]; /* command lines; NULL: no more */
    const char *usual; /* at most XT_HELP_USUAL options, spaces between; NULL or "": all */
};

const struct xt_help_page *xt_help_page(enum xt_command_id command);
