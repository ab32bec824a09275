/* What an option means in a command where that is not what the table says, which is written for
 * training. Constant. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "cli/commands.h"
#include "cli/options/table.h"

/* The option's help in that command. */
const char *xt_option_meaning(const struct xt_option *option, enum xt_command_id command);
/* Each entry, for tests: the option's name, and a bit for each command; NULL behind the last. */
const char *xt_option_meaning_at(size_t index, unsigned *commands);
