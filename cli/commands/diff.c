/* xtrain diff: compares two weight files tensor by tensor; with --data their predictions. */

#include "cli/commands.h"
#include "cli/diff/answers.h"
#include "cli/diff/weights.h"
#include "cli/options/options.h"
#include "cli/json/result.h"
#include "cli/report.h"

/* The files of A and B, which may be runs' folders. */
static enum xt_status find_files(struct xt_options *options, const char *files[2],
                                 struct xt_err *err)
{
    enum xt_status status = XT_OK;
    if (options->argument_count > 2)
        return xt_err_set(err, XT_ERR_USAGE, "diff compares two weight files; %s is a third",
                          options->arguments[2]);
    for (int i = 0; i < 2 && !status; i++) {
        options->values.network.init = options->arguments[i];
        status = xt_options_find_weights(options, err);
        files[i] = options->values.network.init;
    }
    options->values.network.init = NULL;
    return status;
}

enum xt_status xt_cmd_diff(struct xt_options *options, struct xt_err *err)
{
    const char *files[2] = {NULL, NULL};
    bool on_data = xt_options_source(options, "data") == XT_SOURCE_COMMAND_LINE;
    enum xt_status status = find_files(options, files, err);
    if (!status && options->values.differences && !on_data)
        status = xt_err_set(err, XT_ERR_USAGE,
                            "--differences lists images: give --data DIR with labelled ones");
    if (status)
        return status;
    struct xt_report *report = xt_report_create();
    xt_report_add(report, "path_a", "A", "%s", files[0]);
    xt_report_add(report, "path_b", "B", "%s", files[1]);
    status = on_data ? xt_diff_answers(options, files, report, err)
                     : xt_diff_weights(files, report, err);
    return xt_result_put_unless(status, report, err);
}
