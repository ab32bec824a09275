/* Option names as typed, and suggestions for unknown names: another program's word, or a
 * misspelling. Stateless, thread-safe. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "cli/commands.h"

enum { XT_OPTION_NAME = 40, XT_OPTION_SPELT = XT_OPTION_NAME + 4 };

/* Whether the name is one of a list's, which are separated by spaces. */
bool xt_option_is_among(const char *names, const char *name);
/* Lower case, dashes for underscores; cut where it is longer than any name. */
void xt_option_to_dashes(char out[XT_OPTION_NAME], const char *name);
/* The option as the user would write it: --weight-decay, or weight_decay in a file. */
void xt_option_spell(char out[XT_OPTION_SPELT], const char *name, bool in_file);
/* "; use --lr" after an unknown name, into `hint`. */
void xt_option_suggest(char *hint, size_t size, const char *given, bool in_file,
                       enum xt_command_id command);
