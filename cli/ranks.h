/* What the person who starts several processes sees of them (ranks/ranks.h). */
#ifndef XT_CLI_RANKS_H
#define XT_CLI_RANKS_H

#include <stdio.h>

#include "base/err.h"
#include "cli/options/options.h"
#include "cli/report.h"
#include "train/trainer.h"

/* Finds out whether this process is one of several, and sees to it that rank 0 alone speaks and
 * that each has an XPU of its own. options->values.ranks is NULL where it is alone, and for
 * commands that say something of the host that each is on; those that several would do over and
 * over are XT_ERR_USAGE. */
enum xt_status xt_cli_ranks_open(struct xt_options *options, struct xt_err *err);

/* The table of the ranks; nothing where there are none. */
void xt_cli_ranks_print(const struct xt_run_summary *run, FILE *out);
/* Warns of ranks that are not alike. */
void xt_cli_ranks_compare(const struct xt_ranks *ranks);

/* What the ranks waited for in so many seconds; nothing where there are none. */
void xt_cli_ranks_describe_time(const struct xt_run_summary *run, struct xt_report *report);

#endif
