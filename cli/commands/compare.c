/* xtrain compare: several runs in one table. */
#include <math.h>
#include <stdlib.h>

#include "base/str.h"
#include "cli/commands.h"
#include "cli/past_runs.h"
#include "cli/progress.h"
#include "cli/json/result.h"
#include "cli/report.h"
#include "runs/report/json.h"

/* State of the run: "done", "stopped", and so on; "" if not recorded. */
static const char *state_of(const struct xt_past_run *run)
{
    const char *own = xt_json_get_text(run->facts, "state", NULL);
    if (run->running)
        return "running";
    if (run->killed)
        return "killed";
    return !own ? "" : xt_str_starts(own, "done") ? "done" : "stopped";
}

static void describe_evaluation(struct xt_report *row, const struct xt_past_evaluation *e,
                                const char *key, const char *label)
{
    bool there = e->step >= 0;
    struct xt_report *to = xt_report_group(row, there ? key : NULL);
    xt_report_scaled(to, there ? "accuracy" : NULL, label, 100, "%.2f %%",
                     there ? e->figures[0] : NAN);
    for (int i = 1; i < XT_PAST_FIGURES && there && *e->keys[i]; i++)
        xt_report_add(to, e->keys[i], NULL, "%f", e->figures[i]);
    xt_report_add(to, there ? "val_loss" : NULL, NULL, "%f", e->loss);
    xt_report_add(to, there ? "step" : NULL, "at step", "%.0f", there ? (double)e->step : NAN);
}

static void describe_run(struct xt_report *row, const struct xt_past_run *run)
{
    char time[32];
    xt_progress_format_time(run->time, time, sizeof time);
    xt_report_add(row, "run", "run", "%s", run->folder);
    xt_report_add(row, "state", "state", "%s", state_of(run));
    describe_evaluation(row, &run->best, "best_evaluation", "best");
    describe_evaluation(row, &run->last, "last_evaluation", "last");
    xt_report_add(row, "step", "steps", "%.0f", (double)run->step);
    xt_report_add(row, "epoch", "epochs", "%.0f", (double)run->epoch);
    xt_report_add(row, "loss", "loss", fabs(run->loss) < 1000 ? "%.4f" : "%.4g", run->loss);
    xt_report_add(row, "seconds", NULL, "%f", run->time);
    xt_report_add(row, NULL, "time", "%s", time);
    xt_report_add(row, "images_per_s", "images/s", "%.0f", run->images_per_s);
}

/* In JSON a list of values each; as text a table whose rows are its longer side. */
static void describe_settings(struct xt_report *report, const struct xt_past_runs *runs,
                              const char *const *keys, size_t count)
{
    struct xt_report *differ = xt_report_group(report, "settings");
    struct xt_report *text = xt_report_table(xt_report_group_in(report, NULL, NULL), NULL);
    bool by_run = runs->count > count;
    for (size_t k = 0; k < count; k++) {
        struct xt_report *list = xt_report_list(differ, keys[k]);
        for (size_t i = 0; i < runs->count; i++)
            xt_report_add(list, NULL, NULL, "%s", xt_past_run_setting(&runs->items[i], keys[k]));
    }
    for (size_t r = 0; count && r < (by_run ? runs->count : count); r++) {
        struct xt_report *row = xt_report_group(text, NULL);
        xt_report_add(row, NULL, by_run ? "run" : "setting", "%s",
                      by_run ? runs->items[r].folder : keys[r]);
        for (size_t c = 0; c < (by_run ? count : runs->count); c++) {
            const struct xt_past_run *run = &runs->items[by_run ? r : c];
            const char *key = keys[by_run ? c : r];
            const char *value = xt_past_run_setting(run, key);
            xt_report_add(row, NULL, by_run ? key : run->folder, "%s", value ? value : "-");
        }
    }
}

enum xt_status xt_cmd_compare(struct xt_options *options, struct xt_err *err)
{
    struct xt_past_runs runs;
    const char **keys = NULL;
    size_t count = 0;
    enum xt_status status = xt_past_runs_read(&runs, options, err);
    if (!status)
        status = xt_past_runs_differ(runs.items, runs.count, &keys, &count, err);
    if (!status) {
        struct xt_report *report = xt_report_create();
        struct xt_report *table = xt_report_table(report, "runs");
        for (size_t i = 0; i < runs.count; i++)
            describe_run(xt_report_group(table, NULL), &runs.items[i]);
        describe_settings(report, &runs, keys, count);
        status = xt_result_put(report, err);
    }
    free(keys);
    xt_past_runs_clear(&runs);
    return status;
}
