/* Compares two weight files, tensor by tensor, and their metadata. */
#ifndef XT_CLI_DIFF_WEIGHTS_H
#define XT_CLI_DIFF_WEIGHTS_H

#include "base/err.h"
#include "cli/report.h"

/* Reads both and describes the differences. */
enum xt_status xt_diff_weights(const char *const paths[2], struct xt_report *report,
                               struct xt_err *err);

#endif
