/* xtrain eval: evaluates trained weights on labelled images. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/system/process.h"
#include "base/system/thread.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "cli/origin.h"
#include "cli/progress.h"
#include "cli/json/result.h"
#include "cli/report.h"
#include "data/sources/part.h"
#include "data/sources/registry.h"
#include "infer/network/auto_batch.h"
#include "infer/calibrate.h"
#include "infer/answer/reliability.h"
#include "infer/evaluate.h"
#include "train/losses/loss.h"
#include "train/ranks/compare.h"
#include "train/ranks/evaluation.h"
#include "train/ranks/state.h"
#include "infer/network/network_build.h"
#include "runs/report/error_files.h"

struct view {
    struct xt_progress progress;
    double start;
    const struct xt_predictor *predictor;
    const struct xt_source *source;
    struct xt_report *answers; /* of --show with --json; NULL: printed immediately */
    struct xt_errors errors;   /* wrong predictions; not collected in a comparison */
    bool collects;
    struct xt_outcome *outcomes; /* [source->count]; NULL in a comparison and with ranks */
    size_t seen;
    struct xt_acceptance acceptance;
    size_t show;
};

/* A label or prediction as one word: quoted if it contains spaces or is empty. */
static struct xt_shown as_word(const char *text)
{
    struct xt_shown word;
    if (!*text || strpbrk(text, " \"\t\n"))
        return xt_show(text);
    snprintf(word.text, sizeof word.text, "%s", text);
    return word;
}

static void describe_answer(const struct view *view, const struct xt_answer *a, const char *wanted,
                            const char *got)
{
    if (!view->answers) {
        xt_log_result(stdout, "  %s  %s  read as  %s  confidence %.3f%s",
                      a->right ? "right" : "wrong", as_word(wanted).text, as_word(got).text,
                      a->said->probability,
                      xt_predictor_rejects(view->predictor, a->said) ? "  rejected" : "");
        return;
    }
    char name[4096];
    struct xt_report *to = xt_report_group(view->answers, NULL);
    view->source->class->name(view->source, a->index, name, sizeof name);
    xt_report_values(to, "path=%s label=%s prediction=%s confidence=%f", name, wanted, got,
                     a->said->probability);
    xt_report_flag(to, "right", NULL, a->right, "", "");
    xt_report_flag(to, "rejected", NULL, xt_predictor_rejects(view->predictor, a->said), "", "");
}

static void show_answer(const struct view *view, const struct xt_answer *a)
{
    const struct xt_predictor *predictor = view->predictor;
    struct xt_err err;
    struct xt_str wanted = {0};
    struct xt_str got = {0};
    if (!predictor->class->text(predictor, a->label, a->label_length, &wanted, &err) &&
        !predictor->class->text(predictor, a->said->symbols, a->said->length, &got, &err))
        describe_answer(view, a, xt_str_get(&wanted), xt_str_get(&got));
    xt_str_clear(&wanted);
    xt_str_clear(&got);
}

/* Whether it is rejected whatever its confidence. */
static bool refuses(const struct view *view, const struct xt_answer *answer)
{
    struct xt_decoded sure = *answer->said;
    sure.probability = 1;
    return xt_predictor_rejects(view->predictor, &sure);
}

static void see_answer(void *context, const struct xt_answer *answer)
{
    struct view *view = context;
    if (view->collects)
        xt_errors_add(&view->errors, answer);
    if (view->outcomes)
        view->outcomes[view->seen++] = (struct xt_outcome){
            .confidence = answer->said->probability,
            .right = answer->right,
            .odd = answer->said->length == 0 || refuses(view, answer) ? XT_OUTCOME_EMPTY : 0};
    if (answer->index >= view->show)
        return;
    xt_progress_clear(&view->progress);
    show_answer(view, answer);
}

static void show(void *context, size_t done, size_t all)
{
    struct view *view = context;
    double now = xt_thread_seconds();
    double elapsed = now - view->start;
    struct xt_progress_state state = {
        .step = (int64_t)done,
        .steps = (int64_t)all,
        .no_loss = true,
        .lr = NAN,
        .images_per_s = elapsed > 0 ? (double)done / elapsed : NAN,
        .seconds_left = elapsed / (double)done * (double)(all - done),
        .wait = NAN,
    };
    xt_progress_show(&view->progress, &state, now, false);
}

/* One type of a comparison on one device, or the only one. */
struct run {
    enum xt_amp amp;
    char device[16];
    char device_name[128];
    struct xt_evaluation result;
};

enum { DEVICES_MAX = 8 };

/* What the process of one of several devices sends. */
struct message {
    struct xt_err err;
    char title[512];
    char data[512];
    struct run runs[XT_AMP_COUNT];
    int count;
};

struct command {
    const struct xt_options *options;
    struct xt_network *network;
    struct xt_source *source;
    struct xt_source *whole; /* what `source` is held out of; NULL: nothing */
    struct xt_predictor *predictor;
    struct xt_loss *loss;
    const char *data;
    struct view view;
    struct xt_calibration calibration; /* images 0: not needed */
    bool calibrated_on_data;           /* no other images were available */
    struct run *runs;
    int count;
    struct message *message; /* where the results go, for another process to report; NULL: here */
};

static bool is_comparison(const struct command *command)
{
    return xt_options_source(command->options, "compare") == XT_SOURCE_COMMAND_LINE;
}

static int device_count(const struct command *command)
{
    return xt_options_count(command->options, "device");
}

static bool is_table(const struct command *command)
{
    return is_comparison(command) || device_count(command) > 1;
}

/* ---- reporting ---- */

static void describe_calibration(struct xt_report *report, const struct command *command)
{
    const struct xt_calibration *c = &command->calibration;
    if (!c->images)
        return;
    struct xt_report *to = xt_report_group(report, "calibration");
    xt_report_add(to, "source", NULL, "%s", c->source);
    xt_report_add(to, "images", "", "int8: ranges from %zu", c->images);
    xt_report_add(to, NULL, "", " of the %s", xt_count((long long)c->all, "image").text);
    xt_report_add(to, NULL, "", " of %s", c->source);
    if (command->calibrated_on_data)
        xt_report_add(to, NULL, "", ", the images evaluated on; %s uses others", "--calibrate");
}

static void describe_classes(struct xt_report *report, const struct view *view,
                             const struct xt_network *network)
{
    struct xt_report *table = xt_report_table(report, NULL);
    for (int i = 0; i < network->classes; i++) {
        size_t images = view->errors.seen[i];
        size_t right = view->errors.right[i];
        struct xt_report *row = xt_report_group(table, NULL);
        struct xt_str name = {0};
        if (xt_network_class_text(network, i, &name, NULL))
            xt_report_fail(report);
        xt_report_add(row, NULL, "class", "%-24s", xt_str_get(&name));
        xt_report_add(row, NULL, "images", "%8zu", images);
        xt_report_add(row, NULL, "right", "%8zu", right);
        xt_report_scaled(row, NULL, "top-1", 100, "%6.2f %%",
                         images ? (double)right / (double)images : NAN);
        xt_str_clear(&name);
    }
}

/* Percentiles may be for JSON only. */
static void describe_times(struct xt_report *to, const char *mean, bool percentiles,
                           const struct xt_latency_figures *f)
{
    xt_report_add(to, "mean", mean, "%9.3f", f->mean);
    xt_report_add(to, "p50", percentiles ? "p50" : NULL, "%8.3f", f->p50);
    xt_report_add(to, "p95", percentiles ? "p95" : NULL, "%8.3f", f->p95);
    xt_report_add(to, "p99", percentiles ? "p99" : NULL, "%8.3f", f->p99);
}

/* The first metric is compared with the first type's, in percentage points. */
static void describe_run(struct xt_report *to, const struct command *command, const struct run *run)
{
    const struct xt_evaluation *e = &run->result;
    const struct xt_evaluation *first = &command->runs[0].result;
    if (device_count(command) > 1) {
        xt_report_add(to, "device", "device", "%-6s", run->device);
        xt_report_add(to, "device_name", NULL, "%s", run->device_name);
    }
    xt_report_add(to, "type", "type", "%s", xt_amp_name(run->amp));
    xt_report_add(to, "images", "images", "%9zu", e->images);
    xt_report_add(to, "correct", "right", "%8zu", e->correct);
    for (int i = 0; i < e->metric_count; i++)
        xt_report_scaled(to, i ? e->metrics[i].key : "accuracy", e->metrics[i].key, 100,
                         "%12.2f %%", e->metrics[i].value);
    if (e != first)
        xt_report_add(to, NULL, "to first", "%+9.2f",
                      100 * (e->metrics[0].value - first->metrics[0].value));
    else if (is_table(command))
        xt_report_add(to, NULL, "to first", "%9s", "");
    if (e->latency.measured) {
        struct xt_report *latency = xt_report_group(to, "latency_ms");
        describe_times(xt_report_group(latency, "per_image"), "ms/image", true, &e->latency.image);
        describe_times(xt_report_group(latency, "per_batch"), "ms/batch", !is_table(command),
                       &e->latency.batch);
    } else {
        xt_report_null(to, "latency_ms");
    }
    xt_report_add(to, "images_per_s", "images/s", "%9.0f", e->images_per_s);
    xt_report_values(to, "seconds=%f bad_images=%zu", e->seconds, e->bad_images);
}

/* The rule that the command line gives, else that of the weights. */
static void describe_rule(const struct command *command, char *out, size_t size)
{
    const struct xt_reject_rule *rule = &command->options->values.answer.reject;
    const char *stored = command->network->confidence.rule;
    bool is_stored = rule->kind == XT_REJECT_STORED;
    snprintf(out, size, "%s%s", is_stored ? "of the weights: " : "",
             is_stored ? stored : xt_reject_spell(rule).text);
}

/* What is rejected, and how far the confidence can be relied on. */
static void describe_confidence(struct xt_report *report, const struct command *command)
{
    const struct view *view = &command->view;
    const struct xt_acceptance *a = &view->acceptance;
    char text[192];
    if (!view->outcomes)
        return;
    struct xt_reliability r = xt_reliability_of(view->outcomes, view->seen);
    xt_report_add(report, "ece", NULL, "%f", r.ece);
    xt_report_line(report, "confidence: off by %.2f %% on average (ECE), %s", 100 * r.ece,
                   command->network->confidence.temperature > 0
                       ? "calibrated by the temperature in the weights"
                       : "not calibrated");
    if (!(a->threshold > 0))
        return;
    xt_report_values(report, "reject_below=%f accepted=%zu accepted_correct=%zu", a->threshold,
                     a->accepted, a->right);
    describe_rule(command, text, sizeof text);
    xt_report_line(report, "rejected: %zu below a confidence of %.6g (%s)", a->images - a->accepted,
                   a->threshold, text);
    xt_acceptance_describe(a, &command->options->values.answer.reject, text, sizeof text);
    xt_report_line(report, "%s", text);
}

/* One type as lines, several as a table. */
static void describe_runs(struct xt_report *report, const struct command *command)
{
    const struct xt_evaluation *first = &command->runs[0].result;
    char score[128];
    if (is_table(command)) {
        struct xt_report *table = xt_report_table(report, "runs");
        for (int i = 0; i < command->count; i++)
            describe_run(xt_report_group(table, NULL), command, &command->runs[i]);
    } else {
        if (command->network->task == XT_TASK_CLASSES)
            describe_classes(report, &command->view, command->network);
        command->predictor->class->describe(&first->score, score, sizeof score);
        xt_report_line(report, "%s", score);
        describe_run(report, command, &command->runs[0]);
        describe_confidence(report, command);
    }
    if (!first->latency.measured)
        xt_report_line(report, "latency: not measured (needs at least %d batches)",
                       2 * XT_LATENCY_LEFT_OUT + 1);
    if (first->bad_images)
        xt_report_line(report, "%s could not be used and %s not count",
                       xt_count((long long)first->bad_images, "image").text,
                       first->bad_images == 1 ? "does" : "do");
}

/* Writes the files of --errors, and a line on each. */
static enum xt_status write_errors(struct command *command, struct xt_report *report,
                                   struct xt_err *err)
{
    enum { PAGE_MOST = 2000, PAGE_PICTURES = 300 };
    const struct xt_settings *s = &command->options->values;
    const struct xt_findings findings = {
        .errors = &command->view.errors,
        .evaluation = &command->runs[0].result,
        .source = command->source,
        .data = &s->data,
        .step = -1,
        .most = PAGE_MOST,
        .pictures = s->record.pictures ? PAGE_PICTURES : 0,
    };
    struct xt_file_list files = {0};
    enum xt_status status = xt_errors_end(&command->view.errors, err);
    if (status || !s->eval.errors)
        return status;
    status = xt_error_files_write(s->eval.errors, &findings, s->network.init, command->data, &files,
                                  err);
    if (!status) {
        struct xt_report *list = xt_report_list(report, "error_files");
        xt_report_line(report, "%s, worst first: %s",
                       xt_count((long long)command->view.errors.wrong_images, "wrong image").text,
                       files.paths[0]);
        for (size_t i = 0; i < files.count; i++)
            xt_report_add(list, NULL, NULL, "%s", files.paths[i]);
        if (files.count > 1)
            xt_report_line(report, "confusion matrix: %s", files.paths[1]);
        if (files.count > 2)
            xt_report_line(report, "how often each class was read as which: %s", files.paths[2]);
    }
    xt_file_list_clear(&files);
    return status;
}

/* Prints the report that evaluate_all began. */
static enum xt_status end_report(struct command *command, struct xt_report *report,
                                 struct xt_err *err)
{
    const struct xt_ranks *ranks = command->options->values.ranks;
    xt_report_line(report, "%s, batch %d", command->source->description, command->network->batch);
    xt_origin_report(report, &command->network->mark, true);
    if (ranks)
        xt_report_line(report,
                       "by %d ranks, each with its part of the images; latencies are rank 0's",
                       ranks->size);
    describe_calibration(report, command);
    describe_runs(report, command);
    enum xt_status status = write_errors(command, report, err);
    return xt_result_put_unless(status, report, err);
}

/* Warns about the first images that could not be used. */
static void warn_of_bad(const struct xt_source *source, const struct xt_evaluation *e)
{
    enum { NAMED = 5 };
    for (size_t i = 0; i < e->bad_images && i < NAMED; i++) {
        char name[1024];
        source->class->name(source, e->bad[i].index, name, sizeof name);
        xt_log_warn("%s is skipped: %s", name, e->bad[i].reason);
    }
    if (e->bad_images > NAMED)
        xt_log_warn("also skipped: %s", xt_count((long long)(e->bad_images - NAMED), "image").text);
}

/* Whether the images are those that the weights' run held out of its own (--val-part). */
static bool holds_out(const struct xt_options *options)
{
    const struct xt_settings *s = &options->values;
    return s->data.val_part > 0 && !s->data.images && !s->data.val &&
           xt_options_source(options, "calibrate") == XT_SOURCE_RUN;
}

/* --data from the command line, else --val: in a run's config file `data` is the training set. */
static const char *choose_data(const struct xt_options *options, const struct xt_network *network)
{
    const struct xt_settings *s = &options->values;
    if (s->data.images && xt_options_source(options, "data") == XT_SOURCE_COMMAND_LINE)
        return s->data.images;
    bool of_run = xt_options_source(options, "val") == XT_SOURCE_RUN;
    if (s->data.val && of_run && !s->data.images)
        xt_log_note("evaluating on `val` of %s: %s; --data DIR selects another set",
                    options->run_config, xt_source_specs_shown(s->data.val).text);
    if (s->data.val && !(of_run && s->data.images)) {
        if (s->data.images)
            xt_log_note("evaluating on `val` of %s; --data DIR selects another set",
                        s->request.config);
        return s->data.val;
    }
    if (s->data.images)
        return s->data.images;
    if (holds_out(options)) {
        xt_log_note("evaluating on what the run of %s held out of %s; --data DIR selects other "
                    "images",
                    options->run_config, xt_source_specs_shown(s->answer.calibrate).text);
        return s->answer.calibrate;
    }
    xt_log_note("no --data was given: evaluating on %s", network->model->default_val);
    return network->model->default_val;
}

/* Images for int8 calibration: --calibrate, NULL where the weights hold ranges, else the training
 * set, else the images that are evaluated. */
static const char *choose_calibration(struct command *command)
{
    const struct xt_settings *s = &command->options->values;
    if (s->answer.calibrate)
        return s->answer.calibrate;
    if (command->network->ranges.count)
        return NULL;
    if (s->data.images && xt_options_source(command->options, "data") == XT_SOURCE_CONFIG)
        return s->data.images;
    command->calibrated_on_data = true;
    return command->data;
}

/* Evaluates in one type; the network is already in the first run's. */
static enum xt_status evaluate(struct command *command, int index, struct xt_err *err)
{
    const struct xt_settings *s = &command->options->values;
    struct xt_infer_settings settings = xt_options_infer(s);
    struct run *run = &command->runs[index];
    struct view *view = &command->view;
    enum xt_status status = XT_OK;
    settings.network.amp = run->amp;
    const char *calibrate = run->amp == XT_AMP_INT8 ? choose_calibration(command) : NULL;
    if (calibrate)
        status = xt_calibrate_int8(command->network, &settings, calibrate, command->network->batch,
                                   &command->calibration, err);
    else if (index > 0)
        status =
            xt_network_rebuild(command->network, &settings.network, command->network->batch, err);
    if (!status && (index > 0 || run->amp == XT_AMP_INT8))
        status = xt_network_check_device(command->network, &settings.network, &s->device, NULL,
                                         false, err);
    if (status)
        return status;
    const struct xt_evaluate_config config = {
        .data = &settings.data,
        .source = command->source,
        .loss = xt_loss_of_evaluation(command->loss),
        .share = xt_ranks_evaluate_share(s->ranks),
        .observer = {.context = view, .progress = show, .answer = see_answer},
    };
    view->start = xt_thread_seconds();
    /* Standard output is for the result. */
    xt_progress_init(&view->progress, s->output.quiet, true);
    status = xt_evaluate(command->network, command->predictor, &config, &run->result, err);
    xt_progress_clear(&view->progress);
    if (index == 0 && run->result.bad_images)
        warn_of_bad(command->source, &run->result);
    return status;
}

/* Opens the network in the first run's type, and the images, whose number --batch auto needs. Among
 * several types float32 takes the most memory. */
static enum xt_status open_network(struct command *command, struct xt_err *err)
{
    struct xt_network *network = command->network;
    const struct xt_settings *s = &command->options->values;
    struct xt_network_settings settings = s->network;
    int batch = settings.batch;
    settings.amp = command->runs[0].amp;
    enum xt_status status = xt_network_open(network, &settings, &s->device, err);
    network->processes = s->data.processes;
    if (!status)
        status = xt_network_check_classes(network, err);
    if (status)
        return status;
    command->data = choose_data(command->options, network);
    if (s->eval.errors && xt_file_is_same(s->eval.errors, command->data))
        return xt_err_set(err, XT_ERR_USAGE,
                          "--errors %s would overwrite the evaluated data; name another file",
                          s->eval.errors);
    status = xt_network_open_source(network, command->data, &command->source, err);
    if (!status && holds_out(command->options)) {
        struct xt_source *whole = command->source;
        command->source = NULL;
        status = xt_source_hold_out(whole, s->data.val_part, s->data.seed, &command->whole,
                                    &command->source, err);
    }
    if (!status)
        status = xt_ranks_compare_network(s->ranks, network, err);
    if (!status)
        status = xt_ranks_compare_images(s->ranks, command->source, "--data", s->data.seed, err);
    struct xt_network_settings largest = settings;
    if (is_comparison(command))
        largest.amp = XT_AMP_OFF;
    if (!status && !batch)
        status =
            xt_auto_batch_take(network, &largest, false, command->source->count, NULL, &batch, err);
    if (!status)
        status = xt_network_build(network, &settings, batch, false, err);
    if (!status)
        status = xt_network_check_device(network, &settings, &s->device, NULL, false, err);
    return status ? status : xt_rank_state_check_initial(s->ranks, &network->params, err);
}

static enum xt_status open_view(struct command *command, struct xt_err *err)
{
    const struct xt_settings *s = &command->options->values;
    struct xt_network *network = command->network;
    struct xt_answer_settings settings = s->answer;
    bool chooses = settings.reject.kind >= XT_REJECT_AUTO;
    if (chooses)
        settings.reject.kind = XT_REJECT_NONE;
    enum xt_status status = xt_predictor_create(&command->predictor, network, &settings, err);
    if (!status && chooses && (is_comparison(command) || s->ranks))
        status = xt_err_set(err, XT_ERR_USAGE,
                            "--reject %s is chosen by one process, in one type; give one --amp and "
                            "no mpirun",
                            xt_reject_spell(&s->answer.reject).text);
    if (!status)
        status = xt_loss_create(&command->loss, network, 0, err);
    command->view.predictor = command->predictor;
    if (status || is_table(command))
        return status;
    command->view.show = (size_t)s->eval.show;
    command->view.collects = true;
    if (!s->ranks)
        status = xt_mem_calloc(&command->view.outcomes, command->source->count,
                               sizeof *command->view.outcomes, "the predictions", err);
    if (status)
        return status;
    /* Keep all errors, or none for the per-class table. */
    return xt_errors_init(&command->view.errors, command->predictor, s->eval.errors ? 0 : 1, err);
}

/* That of --reject auto and keep comes of the predictions. */
static void choose_threshold(struct command *command)
{
    struct view *view = &command->view;
    struct xt_reject_rule rule = command->options->values.answer.reject;
    if (rule.kind < XT_REJECT_AUTO)
        rule = (struct xt_reject_rule){XT_REJECT_BELOW, command->predictor->rejects.threshold};
    view->acceptance = xt_acceptance_choose(&rule, view->outcomes, view->seen);
}

static void fill_message(const struct command *command)
{
    struct message *message = command->message;
    const struct xt_device *device = &command->network->device;
    message->count = command->count;
    snprintf(message->title, sizeof message->title, "%s, batch %d", command->source->description,
             command->network->batch);
    snprintf(message->data, sizeof message->data, "%s", command->data);
    for (int i = 0; i < command->count; i++) {
        message->runs[i] = command->runs[i];
        message->runs[i].result.bad = NULL;
        snprintf(message->runs[i].device, sizeof message->runs[i].device, "%s", device->place);
        snprintf(message->runs[i].device_name, sizeof message->runs[i].device_name, "%s",
                 device->name);
    }
}

static enum xt_status evaluate_all(struct command *command, struct xt_err *err)
{
    struct xt_report *said = xt_report_create();
    xt_report_add(said, "data", NULL, "%s", command->data);
    command->view.source = command->source;
    if (xt_result_is_json() && command->options->values.eval.show && !is_comparison(command))
        command->view.answers = xt_report_list(said, "predictions");
    enum xt_status status = open_view(command, err);
    for (int i = 0; i < command->count && !status; i++)
        status = evaluate(command, i, err);
    if (!status && command->view.collects)
        status = xt_ranks_share_errors(command->options->values.ranks, &command->view.errors, err);
    if (!status && command->view.outcomes)
        choose_threshold(command);
    if (!status && command->message)
        fill_message(command);
    if (!status && !command->message && xt_ranks_is_first(command->options->values.ranks))
        status = end_report(command, said, err);
    else
        xt_report_destroy(said);
    for (int i = 0; i < command->count; i++)
        xt_evaluation_clear(&command->runs[i].result);
    xt_errors_clear(&command->view.errors);
    free(command->view.outcomes);
    xt_loss_destroy(command->loss);
    xt_predictor_destroy(command->predictor);
    return status;
}

static enum xt_status list_runs(struct command *command, struct xt_err *err)
{
    const struct xt_options *options = command->options;
    struct xt_settings settings = options->values;
    bool compared = is_comparison(command);
    command->count = compared ? xt_options_count(options, "compare") : 1;
    enum xt_status status = xt_mem_calloc(&command->runs, (size_t)command->count,
                                          sizeof *command->runs, "the runs", err);
    if (!status && settings.eval.errors && compared)
        status = xt_err_set(err, XT_ERR_USAGE,
                            "--errors lists the wrong predictions of one type: give it without "
                            "--compare, and with --amp for another type");
    else if (!status && settings.eval.errors && xt_ranks_is_first(settings.ranks))
        status = xt_error_files_check(settings.eval.errors, err);
    if (!status && settings.ranks && settings.eval.show)
        status = xt_err_set(err, XT_ERR_USAGE,
                            "--show is for one process, and these are %d ranks; --errors FILE "
                            "lists the wrong predictions of all of them",
                            settings.ranks->size);
    if (!status && compared && xt_options_source(options, "amp") == XT_SOURCE_COMMAND_LINE)
        status = xt_err_set(err, XT_ERR_USAGE,
                            "--compare names the types; omit --amp, or give only --amp");
    for (int i = 0; i < command->count && !status; i++) {
        command->runs[i].amp = settings.network.amp;
        if (compared)
            status = xt_options_pick(options, "compare", i, &settings, err);
        if (compared)
            command->runs[i].amp = settings.eval.compare;
        /* Calibrate before the types ahead of int8 take their time. */
        if (!status && command->runs[i].amp == XT_AMP_INT8)
            status = xt_calibrate_check(&settings.network, err);
    }
    return status;
}

static enum xt_status evaluate_here(struct command *command, struct xt_err *err)
{
    struct xt_network network = {0};
    command->network = &network;
    enum xt_status status = list_runs(command, err);
    if (!status)
        status = open_network(command, err);
    if (!status)
        status = evaluate_all(command, err);
    if (status == XT_ERR_MEMORY)
        xt_network_advise_batch(&network, &command->options->values.network, false, err);
    xt_source_destroy(command->source);
    xt_source_destroy(command->whole);
    free(command->runs);
    xt_network_clear(&network);
    return status;
}

/* ---- several devices, each in a process of its own: a process loads one oneDNN library ---- */

static void evaluate_there(const void *argument, void *result)
{
    struct message *message = result;
    struct command command = {.options = argument, .message = message};
    evaluate_here(&command, &message->err);
}

static enum xt_status evaluate_on(const struct xt_options *options, int index,
                                  struct message *message, struct xt_err *err)
{
    struct xt_options own = *options;
    struct xt_err why = {0};
    const struct xt_process process = {.work = evaluate_there, .argument = &own, .speaks = true};
    enum xt_status status = xt_options_pick(options, "device", index, &own.values, err);
    own.values.device.xpu = xt_str_starts(own.values.device.name, "xpu");
    if (status)
        return status;
    status = xt_process_run(&process, message, sizeof *message, NULL, &why);
    if (!status && message->err.status)
        why = message->err;
    if (status || message->err.status)
        return xt_err_set(err, why.status, "%.900s", why.text);
    return XT_OK;
}

static enum xt_status check_devices(const struct command *command, struct xt_err *err)
{
    const struct xt_settings *s = &command->options->values;
    const char *alone = s->eval.errors                            ? "--errors"
                        : s->eval.show                            ? "--show"
                        : s->ranks                                ? "mpirun"
                        : s->answer.reject.kind >= XT_REJECT_AUTO ? "--reject auto"
                                                                  : NULL;
    if (device_count(command) > DEVICES_MAX)
        return xt_err_set(err, XT_ERR_USAGE, "--device takes at most %d devices here", DEVICES_MAX);
    if (alone)
        return xt_err_set(err, XT_ERR_USAGE, "%s is for one device: give one --device, or omit %s",
                          alone, alone);
    return XT_OK;
}

static enum xt_status report_devices(struct command *command, const struct message *messages,
                                     struct xt_err *err)
{
    struct xt_report *report = xt_report_create();
    xt_report_add(report, "data", NULL, "%s", messages[0].data);
    xt_report_line(report, "%s", messages[0].title);
    for (int i = 0; i < device_count(command); i++)
        xt_report_line(report, "%s", messages[i].runs[0].device_name);
    describe_runs(report, command);
    return xt_result_put(report, err);
}

static enum xt_status evaluate_devices(struct command *command, struct xt_err *err)
{
    struct message *messages = NULL;
    const int devices = device_count(command);
    enum xt_status status = check_devices(command, err);
    if (!status)
        status = xt_mem_calloc(&messages, (size_t)devices, sizeof *messages, "the devices", err);
    if (!status)
        status = xt_mem_calloc(&command->runs, (size_t)devices * XT_AMP_COUNT,
                               sizeof *command->runs, "the runs", err);
    for (int i = 0; i < devices && !status; i++) {
        status = evaluate_on(command->options, i, &messages[i], err);
        for (int k = 0; k < messages[i].count && !status; k++)
            command->runs[command->count++] = messages[i].runs[k];
    }
    if (!status)
        status = report_devices(command, messages, err);
    free(command->runs);
    free(messages);
    return status;
}

enum xt_status xt_cmd_eval(struct xt_options *options, struct xt_err *err)
{
    struct command command = {.options = options};
    return device_count(&command) > 1 ? evaluate_devices(&command, err)
                                      : evaluate_here(&command, err);
}
