/* Maps libxtrain's options to the program's settings; a header of its own for the test. */
#pragma once

#include "base/err.h"
#include "infer/session/xtrain.h"
#include "infer/settings.h"

/* The settings of a run of predict with these options; strings are borrowed. XT_ERR_USAGE for
 * invalid values. */
enum xt_status xt_library_settings(const char *weights, const struct xtrain_options *options,
                                   struct xt_infer_settings *out, struct xt_err *err);
