/* What xtrain doctor --json wrote on several machines, held beside each other. */
#ifndef XT_CLI_DOCTOR_MERGE_H
#define XT_CLI_DOCTOR_MERGE_H

#include "base/err.h"
#include "cli/options/options.h"

/* The files are the arguments. XT_ERR_DATA where one is not doctor's; XT_ERR_RUN where nodes
 * differ; XT_ERR_DEVICE where they are alike and --xpu works on none. */
enum xt_status xt_doctor_merge(const struct xt_options *options, struct xt_err *err);

#endif
