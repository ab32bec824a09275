/* Dependencies between options: conflicts, and values that follow from others. */
#pragma once

#include "base/err.h"
#include "cli/options/values.h"

/* Makes the values consistent, or reports which conflict. */
enum xt_status xt_options_settle(struct xt_options *options, struct xt_err *err);
