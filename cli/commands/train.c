/* xtrain train: a run from settings to trained weights, shown as it goes. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/system/stop.h"
#include "base/str.h"
#include "base/system/thread.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "cli/placement.h"
#include "cli/progress.h"
#include "cli/ranks.h"
#include "cli/report.h"
#include "cli/bench/start_report.h"
#include "train/trainer.h"

struct view {
    const struct xt_trainer *trainer;
    struct xt_progress progress;
    size_t bad_images;   /* as they were said last */
    bool silent;         /* --quiet, or standard output belongs to --json */
    double loss;         /* the mean of the last steps; NAN before the first */
    double images_per_s; /* of the last steps, the same */
};

/* Where the start took its time, if it took any. */
static void show_start(struct view *view)
{
    struct xt_start start;
    xt_start_read(view->trainer, &start);
    xt_progress_clear(&view->progress);
    xt_start_print(&start, view->trainer->settings->verbose ? -1 : 1, stdout);
    fflush(stdout);
}

static void show_progress(void *context, const struct xt_train_progress *p)
{
    struct view *view = context;
    view->loss = p->loss;
    view->images_per_s = p->images_per_s;
    if (p->step == view->trainer->start_step + 1 && !view->silent)
        show_start(view);
    struct xt_progress_state state = {
        .epoch = p->epoch,
        .epochs = p->epochs,
        .step = p->step,
        .steps = p->steps,
        .loss = p->loss,
        .lr = p->lr,
        .images_per_s = p->images_per_s,
        .seconds_left = p->seconds_left,
        .wait = p->wait,
        .skipped = p->skipped,
        .device = p->device,
    };
    xt_progress_show(&view->progress, &state, xt_thread_seconds(), p->step == p->steps);
}

static void show_evaluation(void *context, const struct xt_train_progress *p,
                            const struct xt_evaluation *evaluation, bool best)
{
    struct view *view = context;
    xt_progress_clear(&view->progress);
    if (view->silent)
        return;
    char score[128];
    view->trainer->objective->class->describe(&evaluation->score, score, sizeof score);
    if (p->step == 0)
        printf("the given weights: %s, loss %.4f\n", score, evaluation->loss);
    else
        printf("step %" PRId64 ": %s, loss %.4f%s\n", p->step, score, evaluation->loss,
               best ? "; the best so far" : "");
    if (evaluation->bad_images != view->bad_images)
        printf("%s could not be used and do%s not count\n",
               xt_count((long long)evaluation->bad_images, "image").text,
               evaluation->bad_images == 1 ? "es" : "");
    view->bad_images = evaluation->bad_images;
    fflush(stdout);
}

static enum xt_status describe_run(const struct xt_options *options,
                                   const struct xt_trainer *trainer, struct xt_err *err)
{
    struct xt_str recipe = {0};
    const struct xt_settings *s = trainer->settings;
    printf("training %s on %s%s\n", trainer->network.model->title, trainer->source->description,
           s->data ? "" : " (no --data was given)");
    if (trainer->val)
        printf("evaluating on %s\n", trainer->val->description);
    else
        printf("no --val was given: nothing is evaluated, and last.safetensors is the result\n");
    char from[64] = "random weights";
    if (trainer->saved_step >= 0)
        snprintf(from, sizeof from, "its weights of step %" PRId64, trainer->saved_step);
    printf("on %s, %s, from %s\n", trainer->network.device.name,
           xt_dtype_name(trainer->network.graph->options.dtype),
           s->init && trainer->saved_step < 0 ? s->init : from);
    printf("pixels normalised by %s (%s)\n", trainer->network.normalise_text,
           trainer->network.normalise_by);
    printf("%s of %s (%s an epoch), %zu parameters\n",
           xt_count((long long)trainer->steps, "step").text,
           xt_count((long long)trainer->batch, "image").text,
           xt_count((long long)trainer->epoch_steps, "step").text,
           xt_network_parameter_count(&trainer->network));
    xt_cli_ranks_print(trainer, stdout);
    enum xt_status status = xt_options_print_recipe(options, &recipe, err);
    printf("%ssaving to %s\n", xt_str_get(&recipe), trainer->folder.path);
    fflush(stdout);
    xt_str_clear(&recipe);
    return status;
}

/* The settings beside the results, as a file that --config takes and --resume reads. */
static enum xt_status save_settings(const struct xt_options *options,
                                    const struct xt_trainer *trainer, struct xt_err *err)
{
    struct xt_str text = {0};
    char *path = NULL;
    enum xt_status status = xt_options_print_run(options, &text, err);
    if (!status)
        status = xt_run_folder_file(&trainer->folder, "config.yaml", &path, err);
    if (!status)
        status = xt_file_save(path, text.data, text.length, err);
    free(path);
    xt_str_clear(&text);
    return status;
}

/* ---- the end ---- */

static void add_evaluation(struct xt_report *to, const struct xt_trainer *trainer)
{
    const struct xt_evaluation *e = &trainer->last_evaluation;
    if (!e->images)
        return;
    xt_report_add(to, "images", NULL, "%zu", e->images);
    xt_report_add(to, "correct", NULL, "%zu", e->correct);
    xt_report_add(to, "bad_images", NULL, "%zu", e->bad_images);
    for (int i = 0; i < e->metric_count; i++)
        xt_report_add(to, e->metrics[i].key, NULL, "%f", e->metrics[i].value);
    xt_report_add(to, "evaluated_step", NULL, "%lld", (long long)trainer->evaluated_step);
}

/* A file of the run, where it is there; `about` with one %s, the path, or NULL. */
static void add_file(struct xt_report *to, const struct xt_trainer *trainer, const char *key,
                     const char *name, const char *about)
{
    struct xt_err err;
    char *path = NULL;
    if (xt_run_folder_file(&trainer->folder, name, &path, &err)) {
        xt_report_fail(to);
    } else if (xt_file_exists(path)) {
        xt_report_add(to, key, NULL, "%s", path);
        if (about)
            xt_report_line(to, "  %s  %s", path, about);
    }
    free(path);
}

static void add_checkpoint(struct xt_report *to, const struct xt_trainer *trainer)
{
    struct xt_err err;
    char *path = NULL;
    if (trainer->saved_step < 0)
        return;
    if (xt_checkpoint_path(trainer->folder.path, trainer->saved_step, &path, &err))
        xt_report_fail(to);
    else
        xt_report_add(to, "checkpoint", NULL, "%s", path);
    free(path);
}

static void add_files(struct xt_report *report, const struct xt_trainer *trainer)
{
    struct xt_report *files = xt_report_group(report, "files");
    char best[96];
    if (trainer->best_step == 0)
        snprintf(best, sizeof best, "the best weights, as they were given: %.1f %%",
                 100 * trainer->best.accuracy);
    else
        snprintf(best, sizeof best, "the best weights: %.1f %% at step %" PRId64,
                 100 * trainer->best.accuracy, trainer->best_step);
    add_file(files, trainer, "best", "best.safetensors", best);
    add_file(files, trainer, "last", "last.safetensors", "the last weights");
    add_checkpoint(files, trainer);
    add_file(files, trainer, "metrics", "metrics.jsonl", "   losses and evaluations");
    add_file(files, trainer, "config", "config.yaml", NULL);
    add_file(files, trainer, "bad_images", "bad_images.txt", NULL);
}

static const char *why_ended(const struct xt_trainer *trainer, enum xt_status status,
                             const struct xt_err *err)
{
    if (status == XT_OK)
        return trainer->step < trainer->steps ? "max-time" : "done";
    if (status == XT_INTERRUPTED)
        return "interrupted";
    if (status == XT_STOPPED)
        return xt_stop_status() ? "signal" : "stop-after";
    return err->text;
}

static void add_device(struct xt_report *report, const struct xt_trainer *trainer)
{
    char device[160];
    xt_monitor_format_run(&trainer->device_figures, device, sizeof device);
    if (*device)
        xt_report_line(report, "device: %s", device);
    char crossed[256];
    xt_crossed_format(&trainer->crossed, trainer->step - trainer->start_step, crossed,
                      sizeof crossed);
    if (*crossed)
        xt_report_line(report, "crossed the bus in each step: %s", crossed);
}

static struct xt_report *describe_end(const struct view *view, enum xt_status status,
                                      const struct xt_err *err)
{
    const struct xt_trainer *trainer = view->trainer;
    struct xt_report *report = xt_report_create();
    double seconds = xt_trainer_seconds(trainer);
    char time[32];
    xt_progress_format_time(seconds, time, sizeof time);
    xt_report_add(report, "run", NULL, "%s", trainer->folder.path);
    xt_report_add(report, "step", NULL, "%lld", (long long)trainer->step);
    add_evaluation(report, trainer);
    if (trainer->best_step >= 0) {
        xt_report_add(report, "best_step", NULL, "%lld", (long long)trainer->best_step);
        xt_report_add(report, "best_accuracy", NULL, "%f", trainer->best.accuracy);
    }
    xt_report_add(report, "steps", NULL, "%lld", (long long)trainer->steps);
    xt_report_add(report, "loss", NULL, "%f", view->loss);
    xt_report_add(report, "images_per_s", NULL, "%f", view->images_per_s);
    xt_report_add(report, "seconds", NULL, "%f", seconds);
    xt_report_line(report, "done: %s in %s", xt_count((long long)trainer->step, "step").text, time);
    if (trainer->scaler.on) {
        xt_report_add(report, "skipped_steps", NULL, "%lld", (long long)trainer->scaler.skipped);
        xt_report_add(report, "loss_scale", NULL, "%f", (double)trainer->scaler.scale);
        xt_report_line(report,
                       "%" PRId64 " steps were skipped, their gradients beyond fp16; the loss "
                       "scale is %g",
                       trainer->scaler.skipped, (double)trainer->scaler.scale);
    }
    add_device(report, trainer);
    xt_cli_ranks_describe_time(trainer, seconds - trainer->earlier_seconds, report);
    if (trainer->best_step == 0)
        xt_report_line(report, "training did not improve on the given weights");
    add_files(report, trainer);
    xt_report_add(report, "exit_code", NULL, "%d", (int)status);
    xt_report_add(report, "exit_reason", NULL, "%s", why_ended(trainer, status, err));
    return report;
}

/* As text what the run came to; of one that did not come to its end the error says it all. */
static enum xt_status report_end(const struct view *view, enum xt_status status, struct xt_err *err)
{
    bool json = view->trainer->settings->json;
    if ((status && !json) || !xt_ranks_is_first(view->trainer->settings->ranks))
        return status;
    struct xt_err own;
    struct xt_report *report = describe_end(view, status, err);
    enum xt_status printed =
        xt_report_end(report, json ? XT_REPORT_JSON : XT_REPORT_TEXT, stdout, status ? &own : err);
    return status ? status : printed;
}

/* The command that goes on, as it can be pasted. */
static void add_command(const struct xt_trainer *trainer, struct xt_err *err)
{
    const char *path = trainer->folder.path;
    bool looks_else = *path == '-' || strcmp(path, "auto") == 0;
    struct xt_err stopped = *err;
    struct xt_str line = {0};
    struct xt_str folder = {0};
    const struct xt_ranks *ranks = trainer->settings->ranks;
    if (xt_str_printf(&folder, NULL, "%s%s", looks_else ? "./" : "", path) == XT_OK &&
        (!ranks || xt_str_printf(&line, NULL, "mpirun -n %d ", ranks->size) == XT_OK) &&
        xt_str_append_word(&line, program_invocation_name, NULL) == XT_OK &&
        xt_str_append(&line, " --resume ", 10, NULL) == XT_OK &&
        xt_str_append_word(&line, xt_str_get(&folder), NULL) == XT_OK)
        xt_err_set(err, stopped.status, "%s; this goes on: %s", stopped.text, xt_str_get(&line));
    xt_str_clear(&line);
    xt_str_clear(&folder);
}

static enum xt_status run(struct xt_options *options, struct xt_trainer *trainer,
                          struct xt_err *err)
{
    const struct xt_settings *s = &options->values;
    struct view view = {
        .trainer = trainer, .silent = s->quiet || s->json, .loss = NAN, .images_per_s = NAN};
    xt_progress_init(&view.progress, s->quiet, s->json);
    enum xt_status status = xt_trainer_open_run(trainer, err);
    bool first = xt_ranks_is_first(s->ranks);
    if (!status && first)
        status = save_settings(options, trainer, err);
    xt_cli_ranks_compare(trainer);
    if (!status && !view.silent)
        status = describe_run(options, trainer, err);
    if (status)
        return status;
    if (s->verbose) {
        xt_placement_print_threads(s, trainer->network.device.threads, stderr);
        xt_placement_print(trainer->network.graph, stderr);
    }
    struct xt_train_observer observer = {
        .context = &view, .progress = show_progress, .evaluated = show_evaluation};
    status = xt_trainer_run(trainer, &observer, err);
    xt_progress_clear(&view.progress);
    status = report_end(&view, status, err);
    if ((status == XT_STOPPED || status == XT_INTERRUPTED) && first)
        add_command(trainer, err);
    return status;
}

enum xt_status xt_cmd_train(struct xt_options *options, struct xt_err *err)
{
    struct xt_trainer trainer;
    enum xt_status status = xt_trainer_init(&trainer, &options->values, err);
    if (!status)
        xt_options_found_batch(options, trainer.batch);
    if (!status)
        status = options->values.dry_run ? xt_placement_dry_run(options, &trainer, err)
                                         : run(options, &trainer, err);
    xt_trainer_clear(&trainer);
    return status;
}
