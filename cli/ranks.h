/* What users see of several ranks (ranks/ranks.h): set-up, the table of ranks, warnings, waiting
 * times. */
#pragma once

#include <stdio.h>

#include "base/err.h"
#include "cli/options/options.h"
#include "cli/report.h"
#include "train/trainer.h"

/* Detects whether this process is one of several ranks, lets only rank 0 print, and gives each rank
 * its own XPU. options->values.ranks is NULL for a single process and for commands that describe
 * each host; commands that must not run in several processes return XT_ERR_USAGE, as do ranks whose
 * settings differ. */
/* Whether this process prints a result, if it is one of several. */
bool xt_cli_ranks_speaks(enum xt_command_id command);
enum xt_status xt_cli_ranks_open(struct xt_options *options, struct xt_err *err);

/* Prints the table of ranks; nothing for a single process. */
void xt_cli_ranks_print(const struct xt_run_summary *run, FILE *out);
/* Warns about ranks whose CPUs have other instructions. */
void xt_cli_ranks_compare(const struct xt_ranks *ranks);

/* Time that the ranks waited, out of `seconds`; nothing for a single process. */
void xt_cli_ranks_describe_time(const struct xt_run_summary *run, struct xt_report *report);
