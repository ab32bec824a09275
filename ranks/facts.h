/* Facts that have to be the same on all ranks, such as options and versions: each is a name and a
 * value. They are compared before the ranks work together.
 */
#pragma once

#include "base/err.h"
#include "base/str.h"

struct xt_ranks;

/* Appends a fact. Names are unique, and in the same order on all ranks where all have them. Where
 * memory is short, the comparison fails. */
void xt_ranks_add_fact(struct xt_str *facts, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Collective. XT_ERR_USAGE on all ranks where facts differ: rank 0 has logged each with its values,
 * ranks and hosts. */
enum xt_status xt_ranks_compare(struct xt_ranks *ranks, const struct xt_str *facts,
                                struct xt_err *err);
