/* Compares two models on the same labelled images: accuracy of each, and where their predictions
 * differ. */
#pragma once

#include "base/err.h"
#include "cli/options/options.h"
#include "cli/report.h"

/* Evaluates both weight files on --data, describes the results, and writes --differences if given.
 */
enum xt_status xt_diff_answers(struct xt_options *options, const char *const files[2],
                               struct xt_report *report, struct xt_err *err);
