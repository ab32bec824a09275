/* Two models on the same labelled images: how often each is right, and where they disagree.
 */
#ifndef XT_CLI_DIFF_ANSWERS_H
#define XT_CLI_DIFF_ANSWERS_H

#include "base/err.h"
#include "cli/options/options.h"
#include "cli/report.h"

/* Evaluates the weights of both files on --data, describes what came of it, and writes
 * --differences where that is given. */
enum xt_status xt_diff_answers(struct xt_options *options, const char *const files[2],
                               struct xt_report *report, struct xt_err *err);

#endif
