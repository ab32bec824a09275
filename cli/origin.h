/* Which run the weights are of that a command answers with, in its messages and JSON. */
#pragma once

#include "cli/report.h"
#include "infer/network/run_mark.h"

/* A note; nothing for weights of no run. */
void xt_origin_note(const struct xt_run_mark *mark);
/* JSON's "run": {name, step, record}, and with `line` a line of text; nothing for weights of no
 * run. */
void xt_origin_report(struct xt_report *to, const struct xt_run_mark *mark, bool line);
