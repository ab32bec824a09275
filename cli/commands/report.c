/* xtrain report: writes the report page of runs from their folders. */
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/mem.h"
#include "cli/commands.h"
#include "cli/json/result.h"
#include "cli/options/options.h"
#include "cli/past_runs.h"
#include "runs/report/page.h"

/* --page, else report.html: for one run in its folder. */
static enum xt_status find_path(const struct xt_options *options, char **out, struct xt_err *err)
{
    const char *name = options->values.page ? options->values.page : "report.html";
    if (!options->values.page && options->argument_count == 1)
        return xt_file_join(out, options->arguments[0], name, err);
    return xt_mem_strdup(out, name, err);
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
    char *path = NULL;
    enum xt_status status = xt_past_runs_read(&runs, options, err);
    if (!status)
        status = find_path(options, &path, err);
    if (!status)
        status =
            xt_page_write_runs(path, runs.items, runs.count, options->values.record.pictures, err);
    if (!status)
        status = tell(path, runs.count, err);
    free(path);
    xt_past_runs_clear(&runs);
    return status;
}
