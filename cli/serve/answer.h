/* A prediction as predict and serve print it: a line with tabs, or a JSON object. */
#pragma once

#include "base/err.h"
#include "cli/options/options.h"
#include "cli/report.h"
#include "infer/session/xtrain.h"

/* Refuses output options that this network does not support. */
enum xt_status xt_answer_check(const struct xtrain *network, const struct xt_options *options,
                               struct xt_err *err);
/* Describes a prediction. `path` is the image's; NULL: not shown. */
void xt_answer_describe(struct xt_report *line, const struct xtrain *network,
                        const struct xt_answer_settings *settings, const char *path,
                        const struct xtrain_answer *answer);
