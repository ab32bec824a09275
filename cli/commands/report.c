/* xtrain report: writes the report page of runs from their folders. */
#include <stdlib.h>

#include "base/file.h"
#include "cli/commands.h"
#include "cli/json/result.h"
#include "cli/past_runs.h"
#include "runs/report/page.h"

/* --page, else report.html: for one run in its folder. */
static struct xt_path find_path(const struct xt_options *options)
{
    const char *page = options->values.page;
    bool is_one = options->argument_count == 1;
    return xt_file_path(!page && is_one ? options->arguments[0] : "", page ? page : "report.html");
}

static enum xt_status tell(const char *path, size_t count, struct xt_err *err)
{
    struct xt_report *report = xt_report_create();
    xt_report_add(report, "path", "", "%s: ", path);
    xt_report_add(report, "run_count", NULL, "%zu", count);
    xt_report_add(report, NULL, "", "%s", xt_count((long long)count, "run").text);
    return xt_result_put(report, err);
}

enum xt_status xt_cmd_report(struct xt_options *options, struct xt_err *err)
{
    struct xt_past_runs runs;
    const struct xt_path path = find_path(options);
    enum xt_status status = xt_past_runs_read(&runs, options, err);
    if (!status)
        status = xt_page_write_runs(path.text, runs.items, runs.count,
                                    options->values.record.pictures, err);
    if (!status)
        status = tell(path.text, runs.count, err);
    xt_past_runs_clear(&runs);
    return status;
}
