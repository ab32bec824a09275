/* xtrain train: runs training from settings to trained weights and shows its progress. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/log.h"
#include "base/system/stop.h"
#include "base/str.h"
#include "base/system/thread.h"
#include "cli/commands.h"
#include "cli/device_loss.h"
#include "cli/options/options.h"
#include "cli/overfit.h"
#include "cli/placement.h"
#include "cli/progress.h"
#include "cli/ranks.h"
#include "cli/json/result.h"
#include "cli/json/schema.h"
#include "cli/report.h"
#include "cli/signature.h"
#include "cli/slow_report.h"
#include "cli/bench/start.h"
#include "device/faults/guard.h"
#include "infer/answer/reliability.h"
#include "models/loaded.h"
#include "ranks/ranks.h"
#include "runs/checkpoint.h"
#include "runs/proof.h"
#include "runs/report/events.h"
#include "train/trainer.h"

struct view {
    struct xt_trainer *trainer;
    const struct xt_settings *settings;
    const struct xt_predictor *predictor;
    struct xt_progress progress;
    size_t bad_images; /* as of the last warning */
    bool silent;       /* --quiet, or standard output is for --json */
    bool started;      /* the first step is done */
    double put;        /* time of the last progress line of --jsonl */
    double loss;       /* mean of the last steps; NAN before the first */
};

/* "accuracy" is the first metric of every network. */
static void add_metrics(struct xt_report *to, const char *prefix, const struct xt_evaluation *e)
{
    for (int i = 0; i < e->metric_count; i++) {
        char key[64];
        snprintf(key, sizeof key, "%s%s", prefix, i ? e->metrics[i].key : "accuracy");
        xt_report_add(to, key, NULL, "%f", e->metrics[i].value);
    }
}

/* Prints the slow phases of the start. */
static void show_start(struct view *view)
{
    struct xt_start start;
    const struct xt_run_summary run = xt_trainer_summary(view->trainer);
    xt_start_read(&run, &start);
    xt_progress_clear(&view->progress);
    xt_start_print(&start, view->settings->output.verbose ? -1 : 1, stdout);
}

/* A line of --jsonl, as often as a line of a log. */
static void put_progress(struct view *view, const struct xt_train_progress *p)
{
    struct xt_err err;
    struct xt_report *line = NULL;
    double now = xt_thread_seconds();
    if (p->step != p->steps && now - view->put < XT_PROGRESS_INTERVAL)
        return;
    view->put = now;
    line = xt_report_create();
    xt_report_values(line,
                     "step=%lld steps=%lld epoch=%d epochs=%d loss=%f lr=%f images_per_s=%f "
                     "seconds_left=%f wait=%f",
                     (long long)p->step, (long long)p->steps, p->epoch, p->epochs, p->loss, p->lr,
                     p->images_per_s, p->seconds_left, p->wait);
    if (xt_result_line(line, XT_SCHEMA_PROGRESS, &err))
        xt_log_warn("%s", err.text);
}

static void put_evaluation(const struct xt_train_progress *p, const struct xt_evaluation *e,
                           bool best)
{
    struct xt_err err;
    struct xt_report *line = xt_report_create();
    xt_report_values(line, "step=%lld images=%zu correct=%zu", (long long)p->step, e->images,
                     e->correct);
    add_metrics(line, "", e);
    xt_report_add(line, "val_loss", NULL, "%f", e->loss);
    xt_report_flag(line, "average", NULL, p->of_average, "", "");
    xt_report_flag(line, "best", NULL, best, "", "");
    if (xt_result_line(line, XT_SCHEMA_EVALUATION, &err))
        xt_log_warn("%s", err.text);
}

static void show_progress(void *context, const struct xt_train_progress *p)
{
    struct view *view = context;
    view->loss = p->loss;
    if (!view->started && !view->silent)
        show_start(view);
    view->started = true;
    struct xt_progress_state state = xt_progress_of(p);
    state.skipped = p->skipped;
    state.device = p->device;
    xt_progress_show(&view->progress, &state, xt_thread_seconds(), p->step == p->steps);
    if (view->settings->output.jsonl)
        put_progress(view, p);
}

static void show_evaluation(void *context, const struct xt_train_progress *p,
                            const struct xt_evaluation *evaluation, bool best)
{
    struct view *view = context;
    xt_progress_clear(&view->progress);
    if (view->settings->output.jsonl)
        put_evaluation(p, evaluation, best);
    if (view->silent)
        return;
    char score[128];
    view->predictor->class->describe(&evaluation->score, score, sizeof score);
    char what[64] = "the given weights";
    if (p->of_average)
        snprintf(what, sizeof what, "  their moving average");
    else if (p->step > 0)
        snprintf(what, sizeof what, "step %" PRId64, p->step);
    xt_log_result(stdout,
                  fabs(evaluation->loss) < 1000 ? "%s: %s, loss %.4f%s" : "%s: %s, loss %.4g%s",
                  what, score, evaluation->loss, best && p->step > 0 ? "; the best so far" : "");
    if (!p->of_average && evaluation->bad_images != view->bad_images)
        xt_log_result(stdout, "%s could not be used and do%s not count",
                      xt_count((long long)evaluation->bad_images, "image").text,
                      evaluation->bad_images == 1 ? "es" : "");
    if (!p->of_average)
        view->bad_images = evaluation->bad_images;
}

/* Where the weights come from. */
static void describe_start(const struct xt_run_summary *run, char *out, size_t size)
{
    const struct xt_network_settings *s = &run->settings->network;
    if (run->state.saved_step >= 0)
        snprintf(out, size, "its weights of step %" PRId64, run->state.saved_step);
    else if (s->init)
        snprintf(out, size, "%s", s->init);
    else if (xt_model_is_file(s->model) && !s->random_init)
        snprintf(out, size, "the weights in %s", s->model);
    else
        snprintf(out, size, "random weights");
}

/* Said where nobody chose the type; how much faster depends on the network and the batch. */
static void hint_at_bf16(const struct xt_options *options, const struct xt_run_summary *run,
                         FILE *out)
{
    const struct xt_device *device = &run->network->device;
    if (options->values.network.amp != XT_AMP_OFF || device->kind != XT_DEVICE_CPU ||
        xt_options_source(options, "amp") >= XT_SOURCE_CONFIG || !xt_device_cpu_has_tiles())
        return;
    xt_log_result(out,
                  "this CPU has matrix tiles (AMX), with which bf16 may be several times as fast "
                  "(--amp bf16); measure it with: xtrain bench step --model %s --batch %d --amp "
                  "f32,bf16",
                  options->values.network.model, run->network->batch);
}

static enum xt_status describe_run(const struct xt_options *options,
                                   const struct xt_run_summary *run, struct xt_err *err)
{
    struct xt_str recipe = {0};
    const struct xt_train_settings *s = run->settings;
    FILE *out = stdout;
    xt_log_result(out, "training %s on %s%s", run->network->model->title, run->plan.data,
                  s->data.images ? "" : " (no --data was given)");
    if (run->plan.val)
        xt_log_result(out, "evaluating on %s", run->plan.val);
    else
        xt_log_result(out, "no --val was given: nothing is evaluated, and last.safetensors is the "
                           "result");
    char from[512];
    describe_start(run, from, sizeof from);
    xt_log_result(out, "on %s, %s, from %s", run->network->device.name,
                  xt_dtype_name(run->network->graph->options.dtype), from);
    xt_log_result(out, "pixels normalised by %s (%s)", run->network->normalise_text,
                  run->network->normalise_by);
    char images[64];
    xt_placement_step_images(run, images, sizeof images);
    xt_log_result(out, "%s of %s (%s an epoch), %zu parameters",
                  xt_count(run->plan.steps, "step").text, images,
                  xt_count(run->plan.epoch_steps, "step").text,
                  xt_network_parameter_count(run->network));
    xt_cli_ranks_print(run, out);
    hint_at_bf16(options, run, out);
    enum xt_status status = xt_options_print_recipe(options, &recipe, err);
    xt_log_result_lines(out, xt_str_get(&recipe));
    xt_log_result(out, "saving to %s", run->folder->path);
    fflush(out);
    xt_str_clear(&recipe);
    return status;
}

/* ---- final report ---- */

static void add_evaluation(struct xt_report *to, const struct xt_run_summary *run)
{
    const struct xt_evaluation *e = run->evaluation;
    if (!e->images)
        return;
    xt_report_values(to, "images=%zu correct=%zu bad_images=%zu", e->images, e->correct,
                     e->bad_images);
    add_metrics(to, "", e);
    add_metrics(to, "ema_", run->average);
    xt_report_add(to, "evaluated_step", NULL, "%lld", (long long)run->state.evaluated_step);
}

/* Adds a file of the run if it exists; `about` has one %s, the path, or is NULL. */
static void add_file(struct xt_report *to, const struct xt_run_summary *run, const char *key,
                     const char *name, const char *about)
{
    const struct xt_path path = xt_run_folder_file(run->folder, name);
    if (!xt_file_exists(path.text))
        return;
    xt_report_add(to, key, NULL, "%s", path.text);
    if (about)
        xt_report_line(to, "  %s  %s", path.text, about);
}

static void add_files(struct xt_report *report, const struct xt_run_summary *run)
{
    struct xt_report *files = xt_report_group(report, "files");
    char best[96];
    if (run->best.step == 0)
        snprintf(best, sizeof best, "the best weights, which are the initial ones: %.1f %%",
                 100 * run->best.accuracy);
    else
        snprintf(best, sizeof best, "the best weights: %.1f %% at step %" PRId64 "%s",
                 100 * run->best.accuracy, run->best.step,
                 run->best.is_average ? ", their moving average" : "");
    add_file(files, run, "best_weights", "best.safetensors", best);
    add_file(files, run, "last_weights", "last.safetensors", "the last weights");
    add_file(files, run, "ema_weights", "ema.safetensors", " their moving average");
    if (run->state.saved_step >= 0)
        xt_report_add(files, "checkpoint", NULL, "%s",
                      xt_checkpoint_path(run->folder->path, run->state.saved_step).text);
    add_file(files, run, "metrics", "metrics.jsonl", "   losses and evaluations");
    add_file(files, run, "report", "report.html", "     the report page, for a browser");
    add_file(files, run, "events", XT_EVENTS_FILE, NULL);
    add_file(files, run, "config", "config.yaml", NULL);
    add_file(files, run, "bad_image_list", "bad_images.txt", NULL);
}

static const char *why_ended(const struct xt_run_summary *run, enum xt_status status,
                             const struct xt_err *err)
{
    static const char *const ends[] = {
        [XT_END_STEPS] = "done",
        [XT_END_TIME] = "max-time",
        [XT_END_PATIENCE] = "patience",
        [XT_END_LEARNT] = "learnt",
    };
    if (status == XT_OK)
        return ends[run->state.end];
    if (status == XT_INTERRUPTED)
        return "interrupted";
    if (status == XT_STOPPED)
        return xt_stop_status() ? "signal" : "stop-after";
    return err->text;
}

/* "2.4 s", "2:13": for starts and evaluations, which are short. */
static void format_seconds(double seconds, char *text, size_t size)
{
    if (seconds < 60)
        snprintf(text, size, "%.1f s", seconds);
    else
        xt_progress_format_time(seconds, text, size);
}

static void add_energy(struct xt_report *report, const struct xt_run_summary *run,
                       const struct xt_run_costs *costs)
{
    if (isfinite(costs->energy)) {
        xt_report_values(report, "energy_joules=%f energy_source=%s", costs->energy,
                         costs->energy_source);
        xt_report_line(
            report, "energy: %.2f Wh of the %s%s%s%s", costs->energy / 3600,
            run->device.is_watched ? "XPU" : "CPU packages", run->device.is_watched ? " (" : "",
            run->device.is_watched ? costs->energy_source : "", run->device.is_watched ? ")" : "");
        return;
    }
    const char *why = run->device.no_energy;
    xt_report_null(report, "energy_joules");
    xt_report_line(report, "energy: not measured (%s%s)",
                   run->device.is_watched && *why ? "the XPU's cannot be read: " : "",
                   *why ? why : "not in an earlier start of the run");
}

/* Time per epoch and image, and time not spent on training. */
static void add_times(struct xt_report *report, const struct xt_run_summary *run, double seconds)
{
    const struct xt_run_costs costs = run->times.costs;
    double epoch = seconds * (double)run->plan.epoch_steps / (double)run->state.step;
    double rate = (double)run->state.step * run->plan.step_images / (seconds - costs.evaluation);
    char texts[3][32];
    format_seconds(epoch, texts[0], sizeof texts[0]);
    if (run->state.step) {
        xt_report_values(report, "epoch_seconds=%f images_per_s=%f", epoch, rate);
        xt_report_line(report, "speed: %.0f images/s, %s an epoch", rate, texts[0]);
    }
    xt_report_values(report, "start_seconds=%f loading_seconds=%f evaluation_seconds=%f",
                     costs.start, costs.loading, costs.evaluation);
    format_seconds(costs.start, texts[0], sizeof texts[0]);
    format_seconds(costs.loading, texts[1], sizeof texts[1]);
    format_seconds(costs.evaluation, texts[2], sizeof texts[2]);
    xt_report_line(report, "lost to: start %s, loading %s (%.0f %%), evaluation %s (%.0f %%)",
                   texts[0], texts[1], 100 * costs.loading / seconds, texts[2],
                   100 * costs.evaluation / seconds);
    add_energy(report, run, &costs);
}

/* The most likely next command: resume a run whose time is up, else list its wrong images, else
 * predict your own. */
static void add_next(struct xt_report *report, const struct xt_run_summary *run)
{
    const struct xt_evaluation *e = run->evaluation;
    bool rest = run->state.step < run->plan.steps;
    bool wrong = !rest && e->correct < e->images;
    struct xt_str line = {0};
    const struct xt_ranks *ranks = run->settings->ranks;
    if (rest && ranks)
        xt_str_printf(&line, NULL, "mpirun -n %d ", ranks->size);
    xt_str_append_word(&line, program_invocation_name, NULL);
    xt_str_printf(&line, NULL, "%s", rest ? " --resume " : wrong ? " eval " : " predict ");
    xt_run_folder_append(run->folder, &line, "");
    if (rest)
        xt_str_printf(&line, NULL, " --max-time 0");
    else if (!wrong)
        xt_str_printf(&line, NULL, " IMAGE...");
    if (wrong) {
        xt_str_printf(&line, NULL, " --errors ");
        xt_run_folder_append(run->folder, &line, "/errors.html");
    }
    if (line.failed)
        xt_report_fail(report);
    xt_result_next(xt_str_get(&line));
    xt_report_line(report, "next, %s: %s",
                   rest    ? "the steps that are left"
                   : wrong ? "every wrong image"
                           : "images of your own",
                   xt_str_get(&line));
    xt_str_clear(&line);
}

static void add_device(struct xt_report *report, const struct xt_run_summary *run)
{
    char device[320];
    xt_monitor_format_run(run->device.figures, device, sizeof device);
    if (*device)
        xt_report_line(report, "device: %s", device);
    char transfers[256];
    int64_t steps = run->state.step - run->state.start_step;
    xt_transfers_format(&run->device.transfers, steps, transfers, sizeof transfers);
    if (!*transfers)
        return;
    const struct xt_guard_counts *asked = &run->device.asked;
    xt_report_line(report, "host-device transfers in each step: %s", transfers);
    xt_report_line(report,
                   "submitted to the device in each step: %.0f primitives, %.1f waits for it",
                   (double)asked->primitives / (double)steps, (double)asked->waits / (double)steps);
}

static void add_negatives(struct xt_report *report, struct xt_report *to,
                          const struct xt_reliability_report *c)
{
    if (!c->negatives)
        return;
    xt_report_values(to, "negatives=%zu negatives_accepted=%zu negatives_at_keep=%zu", c->negatives,
                     c->negatives_accepted, c->negatives_above);
    xt_report_line(report,
                   "negatives: of %zu that were not trained on %zu are answered, and %zu at the "
                   "threshold that keeps 98 %% of the validation images (--reject keep:0.98)",
                   c->negatives, c->negatives_accepted, c->negatives_above);
}

/* What the confidence of the best weights is worth, and what is rejected. */
static void add_reliability(struct xt_report *report, const struct xt_run_summary *run)
{
    const struct xt_reliability_report *c = run->reliability;
    if (!c->after.images)
        return;
    struct xt_report *to = xt_report_group(report, "reliability");
    xt_report_values(to, "images=%zu temperature=%f ece_before=%f ece=%f", c->after.images,
                     c->confidence.temperature, c->before.ece, c->after.ece);
    xt_report_line(
        report,
        "confidence of the best weights: off by %.2f %% on average (ECE), %.2f %% before "
        "temperature %.4g calibrated it",
        100 * c->after.ece, 100 * c->before.ece, c->confidence.temperature);
    add_negatives(report, to, c);
    if (!(c->confidence.threshold > 0))
        return;
    xt_report_values(to, "reject_below=%f accepted=%zu accepted_correct=%zu accepted_bound=%f",
                     c->acceptance.threshold, c->acceptance.accepted, c->acceptance.right,
                     c->acceptance.bound);
    xt_report_flag(to, "promised", NULL, c->acceptance.promised, "", "");
    xt_report_line(report, "rejected: what has less confidence than %.6g (%s); %s",
                   c->acceptance.threshold, c->confidence.rule, c->confidence.evidence);
}

/* Why the run stopped early, and what went wrong. */
static void add_watch(struct xt_report *report, const struct xt_run_summary *run,
                      enum xt_status status)
{
    const struct xt_train_settings *s = run->settings;
    if (!status && run->state.end == XT_END_PATIENCE)
        xt_report_line(report,
                       "ended before step %" PRId64
                       ": early stopping after %s without gain (--patience %d; raise it "
                       "and --resume to continue)",
                       run->plan.steps, xt_count(run->watch.without_gain, "evaluation").text,
                       s->run.patience);
    if (!status && run->state.end == XT_END_TIME)
        xt_report_line(report, "ended before step %" PRId64 ": the time of --max-time is up",
                       run->plan.steps);
    xt_report_add(report, "loss_spikes", NULL, "%lld", (long long)run->watch.spikes);
    if (run->watch.spikes)
        xt_report_line(report, "%s: losses far above those before, see `spikes` in metrics.jsonl",
                       xt_count(run->watch.spikes, "loss spike").text);
    if (s->run.on_nan == XT_ON_NAN_SKIP)
        xt_report_add(report, "nan_skipped_steps", NULL, "%lld", (long long)run->watch.nan_skips);
    if (run->watch.nan_skips)
        xt_report_line(report, "%s skipped by --on-nan skip",
                       xt_count(run->watch.nan_skips, "step").text);
    if (run->watch.lr_factor != 1) {
        xt_report_add(report, "lr_factor", NULL, "%f", run->watch.lr_factor);
        xt_report_line(report, "--on-nan rollback has lowered the rate: to %g of --lr",
                       run->watch.lr_factor);
    }
}

static struct xt_report *describe_end(const struct view *view, enum xt_status status,
                                      const struct xt_err *err)
{
    const struct xt_run_summary summary = xt_trainer_summary(view->trainer);
    const struct xt_run_summary *run = &summary;
    struct xt_report *report = xt_report_create();
    double seconds = run->times.all;
    char time[32];
    xt_progress_format_time(seconds, time, sizeof time);
    xt_report_values(report, "run=%s step=%lld", run->folder->path, (long long)run->state.step);
    add_evaluation(report, run);
    if (run->best.step >= 0) {
        xt_report_values(report, "best_step=%lld best_accuracy=%f", (long long)run->best.step,
                         run->best.accuracy);
        xt_report_flag(report, "best_is_average", NULL, run->best.is_average, "", "");
    }
    xt_report_values(report, "steps=%lld loss=%f seconds=%f", (long long)run->plan.steps,
                     view->loss, seconds);
    xt_report_line(report, "done: %s in %s", xt_count((long long)run->state.step, "step").text,
                   time);
    if (run->watch.loss_scale > 0) {
        xt_report_values(report, "skipped_steps=%lld loss_scale=%f", (long long)run->watch.skipped,
                         run->watch.loss_scale);
        xt_report_line(report,
                       "%" PRId64 " steps were skipped, since gradients overflowed fp16; the loss "
                       "scale is %g",
                       run->watch.skipped, run->watch.loss_scale);
    }
    add_times(report, run, seconds);
    add_reliability(report, run);
    add_watch(report, run, status);
    struct xt_err own;
    if (!status && run->settings->run.overfit &&
        xt_overfit_describe(run, view->trainer, view->loss, report, &own))
        xt_report_fail(report);
    add_device(report, run);
    xt_slow_report(report, run->watch.slow, true);
    xt_cli_ranks_describe_time(run, report);
    if (run->best.step == 0 && !run->settings->run.overfit)
        xt_report_line(report, "training did not improve on the given weights");
    add_files(report, run);
    if (status == XT_OK)
        add_next(report, run);
    xt_report_add(report, "exit_reason", NULL, "%s", why_ended(run, status, err));
    return report;
}

/* Prints the results as text; for an interrupted run the error says it all. All ranks collect, rank
 * 0 prints. */
static enum xt_status report_end(const struct view *view, enum xt_status status, struct xt_err *err)
{
    bool json = xt_result_is_json();
    if (status && !json)
        return status;
    struct xt_err own;
    struct xt_report *report = describe_end(view, status, err);
    if (!xt_ranks_is_first(view->settings->ranks)) {
        xt_report_destroy(report);
        return status;
    }
    enum xt_status printed = xt_result_put(report, status ? &own : err);
    return status ? status : printed;
}

/* Adds the command that resumes the run. */
static void add_command(const struct xt_run_summary *run, struct xt_err *err)
{
    char line[1024];
    struct xt_err stopped = *err;
    xt_resume_line(run, false, line, sizeof line);
    if (*line)
        xt_err_set(err, stopped.status, "%s; resume with: %s", stopped.text, line);
    xt_result_next(line);
}

/* For a run that diverged: the same again would diverge again. */
static void add_calmer(const struct xt_run_summary *run, char *line, size_t size)
{
    const struct xt_recipe_settings *recipe = &run->settings->recipe;
    double lr = fmin(recipe->lr / 10, 0.001);
    xt_str_append_to(line, size, " --lr %g%s", lr, recipe->min_lr > lr ? " --min-lr 0" : "");
    if (recipe->clip == 0 || recipe->clip > 5)
        xt_str_append_to(line, size, " --clip 5");
}

/* For a failed run (a full disk, say): adds the command that resumes from its last checkpoint; for
 * one that diverged before there was one, the command that begins again. */
static void add_way_on(const struct xt_run_summary *run, struct xt_err *err)
{
    char line[1024];
    char from[64] = "begin again";
    struct xt_err own;
    const struct xt_err failed = *err;
    int64_t step = -1;
    if (xt_checkpoint_newest_step(run->folder->path, &step, &own) ||
        (step < 0 && !run->state.diverged))
        return;
    if (step >= 0)
        snprintf(from, sizeof from, "resume from the checkpoint of step %" PRId64, step);
    xt_resume_line(run, step < 0, line, sizeof line);
    if (run->state.diverged)
        add_calmer(run, line, sizeof line);
    if (*line)
        xt_err_set(err, failed.status, "%s; %s with: %s", failed.text, from, line);
    xt_result_next(line);
}

/* Printed before the first step. */
static enum xt_status introduce(const struct xt_options *options, const struct xt_run_summary *run,
                                bool silent, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    if (!silent && !xt_run_is_restarted())
        status = describe_run(options, run, err);
    if (!status && options->values.output.verbose) {
        xt_placement_print_threads(run->settings, run->network->device.threads, stderr);
        xt_placement_print(run->network->graph, run, stderr);
    }
    return status;
}

/* Completes the error of a run that stopped early. */
static enum xt_status end(const struct xt_run_summary *run, enum xt_status status,
                          struct xt_err *err)
{
    bool first = xt_ranks_is_first(run->settings->ranks);
    if (status == XT_ERR_RUN && first)
        add_way_on(run, err);
    if (!status && run->settings->run.overfit)
        status = xt_overfit_judge(run, err);
    if ((status == XT_STOPPED || status == XT_INTERRUPTED) && first)
        add_command(run, err);
    return status;
}

/* --sign: the record, however the run ended. */
static enum xt_status sign(const char *key, const struct xt_run_summary *run, enum xt_status status,
                           struct xt_err *err)
{
    struct xt_err own;
    const struct xt_path path = xt_run_folder_file(run->folder, XT_PROOF_FILE);
    enum xt_status signing = xt_signature_make(path.text, key, &own);
    if (signing && !status)
        return xt_err_set(err, signing, "%s", own.text);
    if (signing)
        xt_log_warn("%s", own.text);
    return status;
}

static enum xt_status run(struct xt_options *options, struct xt_trainer *trainer,
                          struct xt_device_loss *loss, struct xt_err *err)
{
    const struct xt_settings *s = &options->values;
    struct xt_run_summary summary = xt_trainer_summary(trainer);
    struct view view = {
        .trainer = trainer,
        .settings = s,
        .predictor = summary.predictor,
        .silent = s->output.quiet || xt_result_is_json(),
        .loss = NAN,
    };
    xt_progress_init(&view.progress, s->output.quiet, xt_result_is_json());
    enum xt_status status = xt_trainer_check_device(trainer, false, err);
    if (!status)
        status = xt_trainer_open_run(trainer, err);
    summary = xt_trainer_summary(trainer);
    if (!status && xt_ranks_is_first(s->ranks))
        status = xt_options_save_run(options, trainer, err);
    if (!status)
        status = xt_device_loss_open_folder(loss, err);
    xt_cli_ranks_compare(s->ranks);
    if (!status)
        status = introduce(options, &summary, view.silent, err);
    if (status)
        return status;
    struct xt_train_observer observer = {
        .context = &view, .progress = show_progress, .evaluated = show_evaluation};
    status = xt_trainer_run(trainer, &observer, err);
    xt_progress_clear(&view.progress);
    if (xt_guard_is_lost())
        status = xt_device_loss_take(loss, err);
    summary = xt_trainer_summary(trainer);
    if (s->trust.sign && xt_ranks_is_first(s->ranks))
        status = sign(s->trust.sign, &summary, status, err);
    status = report_end(&view, status, err);
    return end(&summary, status, err);
}

enum xt_status xt_cmd_train(struct xt_options *options, struct xt_err *err)
{
    struct xt_trainer *trainer = NULL;
    struct xt_device_loss loss;
    const struct xt_train_settings settings = xt_options_train(&options->values);
    enum xt_status status = xt_trainer_create(&trainer, &settings, err);
    if (!status)
        status = xt_device_loss_begin(&loss, trainer, &options->values, err);
    if (status) {
        xt_trainer_destroy(trainer);
        return status;
    }
    status = xt_trainer_prepare(trainer, err);
    if (!status)
        xt_options_found_batch(options, xt_trainer_summary(trainer).plan.batch);
    if (!status)
        status = options->values.request.dry_run ? xt_placement_dry_run(options, trainer, err)
                                                 : run(options, trainer, &loss, err);
    if (status && xt_guard_is_lost())
        status = xt_device_loss_take(&loss, err);
    xt_device_loss_end(&loss);
    xt_trainer_destroy(trainer);
    return status;
}
