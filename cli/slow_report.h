/* What makes a run slow, in a report. */
#pragma once

#include "cli/report.h"
#include "train/watch/slow.h"

/* The list "slow" of {cause, because, remedy}; as text one line each, unless it was printed before.
 */
void xt_slow_report(struct xt_report *to, const struct xt_slow *slow, bool said);

/* Also with the parts of a step, what was examined, and what could not be. */
void xt_slow_report_why(struct xt_report *to, const struct xt_slow *slow,
                        const struct xt_slow_facts *facts);
