/* What goes with what: options that contradict each other, and values that follow from others. */
#ifndef XT_CLI_OPTIONS_SETTLE_H
#define XT_CLI_OPTIONS_SETTLE_H

#include "base/err.h"
#include "cli/options/values.h"

/* Makes the values agree, or says which cannot be meant together. */
enum xt_status xt_options_settle(struct xt_options *options, struct xt_err *err);

#endif
