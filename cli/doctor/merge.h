/* Compares the output of xtrain doctor --json from several machines. */
#pragma once

#include "base/err.h"
#include "cli/options/options.h"

/* The files are the arguments. XT_ERR_DATA if one is not doctor's output; XT_ERR_RUN if nodes
 * differ; XT_ERR_DEVICE if they are equal and --xpu works on none. */
enum xt_status xt_doctor_merge(const struct xt_options *options, struct xt_err *err);
