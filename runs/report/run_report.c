#include "runs/report/run_report.h"

#include <math.h>
#include <stdlib.h>
#include <time.h>

#include "base/file.h"
#include "base/log.h"
#include "base/system/thread.h"
#include "runs/report/page.h"
#include "runs/report/past_run.h"

enum { SLOWEST_OPS = 12 };

static void warn(struct xt_run_report *report, const char *why)
{
    if (!report->warned)
        xt_log_warn("the run's report: %s; the run continues without it", why);
    report->warned = true;
}

void xt_run_report_open(struct xt_run_report *report, const struct xt_run_folder *folder,
                        const struct xt_data_settings *data, bool pictures, struct xt_log_keep keep)
{
    struct xt_err err;
    struct xt_past_run before = {0};
    *report = (struct xt_run_report){
        .folder = folder, .data = data, .shows_pictures = pictures, .events = {.fd = -1}};
    xt_events_open(&report->events, xt_run_folder_file(folder, XT_EVENTS_FILE).text, keep);
    /* The last findings stay on the page until the next evaluation. */
    if (xt_past_run_read(&before, folder->path, &err) == XT_OK && before.facts)
        report->evaluation = cJSON_DetachItemFromObjectCaseSensitive(before.facts, "evaluation");
    if (xt_json_get(report->evaluation, "step", -1) > (double)keep.evaluations) {
        cJSON_Delete(report->evaluation);
        report->evaluation = NULL;
    }
    if (!pictures)
        xt_findings_drop_pictures(report->evaluation);
    xt_past_run_clear(&before);
}

void xt_run_report_close(struct xt_run_report *report)
{
    if (report->folder)
        xt_log_detail("the run's report took %.3f s of this start", report->spent);
    xt_events_close(&report->events);
    cJSON_Delete(report->evaluation);
    *report = (struct xt_run_report){.events = {.fd = -1}};
}

void xt_run_report_take(struct xt_run_report *report, struct xt_errors *errors,
                        const struct xt_evaluation *evaluation, const struct xt_source *source,
                        int64_t step)
{
    struct xt_err err;
    cJSON *found = NULL;
    double start = xt_thread_seconds();
    const struct xt_findings findings = {
        .errors = errors,
        .evaluation = evaluation,
        .source = source,
        .data = report->data,
        .step = step,
        .most = XT_RUN_ERRORS,
        .pictures = report->shows_pictures ? XT_RUN_ERRORS : 0,
        .events = &report->events,
    };
    enum xt_status status = xt_errors_end(errors, &err);
    if (!status)
        status = xt_findings_describe(&findings, &found, &err);
    if (status) {
        warn(report, err.text);
        return;
    }
    cJSON_Delete(report->evaluation);
    report->evaluation = found;
    report->unwritten = true;
    report->spent += xt_thread_seconds() - start;
}

/* ---- report.json ---- */

static double op_seconds(const struct xt_op *op)
{
    return op->seconds[0] + op->seconds[1];
}

/* The index of the slowest op that is faster than the one before, or as fast and behind it; -1:
 * there is none. */
static int next_slowest(const struct xt_graph *graph, int before)
{
    int found = -1;
    for (int i = 0; i < graph->op_count; i++) {
        double seconds = op_seconds(graph->ops[i]);
        double limit = before < 0 ? INFINITY : op_seconds(graph->ops[before]);
        if (seconds <= 0 || seconds > limit || (seconds == limit && i <= before))
            continue;
        if (found < 0 || seconds > op_seconds(graph->ops[found]))
            found = i;
    }
    return found;
}

static void put_ops(struct xt_json *json, cJSON *at, const struct xt_run_facts *facts)
{
    const struct xt_graph *graph = facts->network->graph;
    double all = 0;
    for (int i = 0; i < graph->op_count; i++)
        all += op_seconds(graph->ops[i]);
    if (!facts->profiled || all <= 0)
        return;
    double ms = 1e3 / facts->profiled;
    xt_json_number(json, at, "ops_ms", ms * all);
    cJSON *list = xt_json_array(json, at, "ops");
    int index = -1;
    for (int i = 0; i < SLOWEST_OPS && (index = next_slowest(graph, index)) >= 0; i++) {
        const struct xt_op *op = graph->ops[index];
        cJSON *to = xt_json_object(json, list, NULL);
        xt_json_put(json, to, "name=%s kind=%s forward_ms=%f backward_ms=%f", op->name,
                    xt_op_kind_name(op), ms * op->seconds[0], ms * op->seconds[1]);
    }
}

static void put_slow(struct xt_json *json, cJSON *at, const struct xt_run_facts *facts)
{
    cJSON *list = xt_json_array(json, at, "slow");
    for (int i = 0; i < facts->slow_count; i++) {
        cJSON *to = xt_json_object(json, list, NULL);
        xt_json_put(json, to, "cause=%s because=%s remedy=%s", facts->slow[i].cause,
                    facts->slow[i].because, facts->slow[i].remedy);
    }
}

/* The record loses them in a rollback to before their evaluation. */
static void put_best(struct xt_json *json, cJSON *at, const struct xt_run_facts *facts)
{
    if (facts->best_step < 0)
        return;
    cJSON *best = xt_json_object(json, at, "best");
    xt_json_put(json, best, "step=%f accuracy=%f second=%f loss=%f", (double)facts->best_step,
                facts->best.accuracy, facts->best.second, facts->best.loss);
}

static void put_reliability(struct xt_json *json, cJSON *at, const struct xt_run_facts *facts)
{
    const struct xt_reliability_report *from = facts->reliability;
    if (!from->after.images)
        return;
    cJSON *to = xt_json_object(json, at, "reliability");
    xt_json_put(json, to, "images=%f temperature=%f ece_before=%f ece=%f",
                (double)from->after.images, from->confidence.temperature, from->before.ece,
                from->after.ece);
    cJSON *bins = xt_json_array(json, to, "bins");
    for (int i = 0; i < XT_RELIABILITY_BINS; i++) {
        const struct xt_reliability_bin *bin = &from->after.bins[i];
        cJSON *row = xt_json_object(json, bins, NULL);
        xt_json_put(json, row, "from=%f images=%f right=%f confidence=%f",
                    (double)i / XT_RELIABILITY_BINS, (double)bin->images, (double)bin->right,
                    bin->confidence);
    }
    if (from->negatives) {
        xt_json_put(json, to, "negatives=%f negatives_accepted=%f negatives_at_keep=%f",
                    (double)from->negatives, (double)from->negatives_accepted,
                    (double)from->negatives_above);
    }
    if (!(from->confidence.threshold > 0))
        return;
    xt_json_put(json, to, "reject_below=%f rule=%s evidence=%s", from->confidence.threshold,
                from->confidence.rule, from->confidence.evidence);
}

static void put_facts(struct xt_json *json, cJSON *at, const struct xt_run_facts *facts)
{
    const struct xt_network *network = facts->network;
    xt_json_put(json, at, "state=%s written=%f model=%s device=%s type=%s data=%s", facts->state,
                (double)time(NULL), network->model->title, network->device.name,
                xt_dtype_name(network->graph->options.dtype), facts->data);
    if (facts->val)
        xt_json_text(json, at, "val", facts->val);
    xt_json_put(json, at,
                "batch=%d step=%f steps=%f epoch_steps=%f seconds=%f start_seconds=%f "
                "loading_seconds=%f evaluation_seconds=%f energy_joules=%f",
                facts->images, (double)facts->step, (double)facts->steps,
                (double)facts->epoch_steps, facts->seconds, facts->costs.start,
                facts->costs.loading, facts->costs.evaluation, facts->costs.energy);
    if (facts->costs.energy_source)
        xt_json_text(json, at, "energy_source", facts->costs.energy_source);
    put_best(json, at, facts);
    put_ops(json, at, facts);
    put_slow(json, at, facts);
    put_reliability(json, at, facts);
}

static enum xt_status write_json(const struct xt_run_report *report,
                                 const struct xt_run_facts *facts, struct xt_err *err)
{
    struct xt_json json = {0};
    struct xt_str text = {0};
    cJSON *all = cJSON_CreateObject();
    json.failed = !all;
    put_facts(&json, all, facts);
    if (report->evaluation &&
        !cJSON_AddItemReferenceToObject(all, "evaluation", report->evaluation))
        json.failed = true;
    enum xt_status status = xt_json_print(&json, all, &text, err);
    const struct xt_path path = xt_run_folder_file(report->folder, "report.json");
    if (!status)
        status = xt_file_save(path.text, text.data, text.length, err);
    cJSON_Delete(all);
    xt_str_clear(&text);
    return status;
}

static enum xt_status write_page(const struct xt_run_report *report, struct xt_err *err)
{
    struct xt_past_run run;
    enum xt_status status = xt_past_run_read(&run, report->folder->path, err);
    const struct xt_path path = xt_run_folder_file(report->folder, "report.html");
    if (!status)
        status = xt_page_write_runs(path.text, &run, 1, report->shows_pictures, err);
    xt_past_run_clear(&run);
    return status;
}

void xt_run_report_write(struct xt_run_report *report, const struct xt_run_facts *facts, bool last)
{
    const double part = 0.01;
    struct xt_err err;
    enum xt_status status = XT_OK;
    double start = xt_thread_seconds();
    bool deferred = !last && report->spent > 1 && report->spent > part * facts->seconds;
    if (!report->folder)
        return;
    if (!deferred || report->unwritten)
        status = write_json(report, facts, &err);
    report->unwritten = report->unwritten && status;
    if (!status && !deferred)
        status = write_page(report, &err);
    if (status)
        warn(report, err.text);
    report->spent += xt_thread_seconds() - start;
}
