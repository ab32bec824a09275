/* Compares two weight files, tensor by tensor, and their metadata. */
#pragma once

#include "base/err.h"
#include "cli/report.h"

/* Reads both and describes the differences. */
enum xt_status xt_diff_weights(const char *const paths[2], struct xt_report *report,
                               struct xt_err *err);
