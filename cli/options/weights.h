/* What weights stand for on a command line: a run's folder, or a file in it, for the images that
 * the run evaluated on and how it read them; weights for their network. */
#pragma once

#include "base/err.h"
#include "cli/options/values.h"

/* Called after the command line and the config file are read: takes the command's WEIGHTS argument
 * as --init, and sets what the person did not, with the source XT_SOURCE_RUN. */
enum xt_status xt_options_take_weights(struct xt_options *options, struct xt_err *err);
