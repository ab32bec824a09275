/* An answer of the network as predict and serve print it: a line with tabs, or a JSON object. */
#ifndef XT_CLI_SERVE_ANSWER_H
#define XT_CLI_SERVE_ANSWER_H

#include "base/err.h"
#include "cli/options/options.h"
#include "cli/report.h"
#include "infer/session/xtrain.h"
#include "cli/settings.h"

/* Refuses options of answers that this network does not give. */
enum xt_status xt_answer_check(const struct xtrain *network, const struct xt_options *options,
                               struct xt_err *err);
/* Describes an answer that is there. `path` is what was read; NULL: nobody has to be told. */
void xt_answer_describe(struct xt_report *line, const struct xtrain *network,
                        const struct xt_answer_settings *settings, const char *path,
                        const struct xtrain_answer *answer);
/* Of what could not be read, where every picture gets its line. */
void xt_answer_describe_error(struct xt_report *line, const char *path, const char *sentence);

#endif
