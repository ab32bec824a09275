/* xtrain train: a run from settings to trained weights, shown as it goes. */
#include <cjson/cJSON.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/thread.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "cli/placement.h"
#include "cli/progress.h"
#include "cli/bench/start_report.h"
#include "train/trainer.h"

struct view {
    const struct xt_trainer *trainer;
    struct xt_progress progress;
    size_t bad_images; /* as they were said last */
    bool silent;       /* --quiet, or standard output belongs to --json */
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
        printf("%zu image%s could not be used and do%s not count\n", evaluation->bad_images,
               xt_str_plural(evaluation->bad_images), evaluation->bad_images == 1 ? "es" : "");
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
    printf("on %s, %s, from %s\n", trainer->network.device.name,
           xt_dtype_name(trainer->network.graph->options.dtype),
           s->init ? s->init : "random weights");
    printf("pixels normalised by %s (%s)\n", trainer->network.normalise_text,
           trainer->network.normalise_by);
    printf("%" PRId64 " step%s of %d image%s (%" PRId64 " step%s an epoch), %zu parameters\n",
           trainer->steps, xt_str_plural((uint64_t)trainer->steps), trainer->network.batch,
           xt_str_plural((uint64_t)trainer->network.batch), trainer->epoch_steps,
           xt_str_plural((uint64_t)trainer->epoch_steps),
           xt_network_parameter_count(&trainer->network));
    enum xt_status status = xt_options_print_recipe(options, &recipe, err);
    printf("%ssaving to %s\n", xt_str_get(&recipe), trainer->folder.path);
    fflush(stdout);
    xt_str_clear(&recipe);
    return status;
}

/* The settings of the first start beside the results, as a file that --config takes. */
static enum xt_status save_settings(const struct xt_options *options,
                                    const struct xt_trainer *trainer, struct xt_err *err)
{
    struct xt_str text = {0};
    char *path = NULL;
    enum xt_status status = xt_options_print(options, &text, err);
    if (!status)
        status = xt_run_folder_file(&trainer->folder, "config.yaml", &path, err);
    if (!status && !xt_file_exists(path))
        status = xt_file_save(path, text.data, text.length, err);
    free(path);
    xt_str_clear(&text);
    return status;
}

static bool add_result(cJSON *root, const struct xt_trainer *trainer)
{
    const struct xt_evaluation *e = &trainer->last_evaluation;
    bool ok = cJSON_AddNumberToObject(root, "images", (double)e->images) &&
              cJSON_AddNumberToObject(root, "correct", (double)e->correct) &&
              cJSON_AddNumberToObject(root, "bad_images", (double)e->bad_images);
    for (int i = 0; i < e->metric_count && ok; i++)
        ok = cJSON_AddNumberToObject(root, e->metrics[i].key, e->metrics[i].value);
    return ok;
}

static enum xt_status print_json(const struct xt_trainer *trainer, struct xt_err *err)
{
    cJSON *root = cJSON_CreateObject();
    bool ok = root && cJSON_AddStringToObject(root, "run", trainer->folder.path) &&
              cJSON_AddNumberToObject(root, "step", (double)trainer->step);
    if (ok && trainer->last_evaluation.images)
        ok = add_result(root, trainer);
    if (ok && trainer->best_step >= 0)
        ok = cJSON_AddNumberToObject(root, "best_step", (double)trainer->best_step) &&
             cJSON_AddNumberToObject(root, "best_accuracy", trainer->best.accuracy);
    char *text = ok ? cJSON_PrintUnformatted(root) : NULL;
    if (text)
        printf("%s\n", text);
    cJSON_free(text);
    cJSON_Delete(root);
    return text ? XT_OK : xt_err_no_memory(err, "the result as JSON", 0);
}

static void describe_end(const struct xt_trainer *trainer)
{
    char time[32];
    xt_progress_format_time(trainer->earlier_seconds + xt_thread_seconds() - trainer->start_time,
                            time, sizeof time);
    printf("done: %" PRId64 " steps in %s\n", trainer->step, time);
    if (trainer->scaler.on)
        printf("%" PRId64
               " steps were skipped, their gradients beyond fp16; the loss scale is %g\n",
               trainer->scaler.skipped, (double)trainer->scaler.scale);
    char device[160];
    xt_monitor_format_run(&trainer->device_figures, device, sizeof device);
    if (*device)
        printf("device: %s\n", device);
    char crossed[256];
    xt_crossed_format(&trainer->crossed, trainer->step - trainer->start_step, crossed,
                      sizeof crossed);
    if (*crossed)
        printf("crossed the bus in each step: %s\n", crossed);
    const char *path = trainer->folder.path;
    if (trainer->best_step == 0)
        printf("training did not improve on the given weights\n"
               "  %s/best.safetensors  the best weights, as they were given: %.1f %%\n",
               path, 100 * trainer->best.accuracy);
    else if (trainer->best_step > 0)
        printf("  %s/best.safetensors  the best weights: %.1f %% at step %" PRId64 "\n", path,
               100 * trainer->best.accuracy, trainer->best_step);
    printf("  %s/last.safetensors  the last weights\n", path);
    printf("  %s/metrics.jsonl     losses and evaluations\n", path);
}

static enum xt_status run(struct xt_options *options, struct xt_trainer *trainer,
                          struct xt_err *err)
{
    const struct xt_settings *s = &options->values;
    struct view view = {.trainer = trainer, .silent = s->quiet || s->json};
    xt_progress_init(&view.progress, s->quiet, s->json);
    enum xt_status status = xt_trainer_open_run(trainer, err);
    if (!status)
        status = save_settings(options, trainer, err);
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
    if (!status && s->json)
        return print_json(trainer, err);
    if (!status && !view.silent)
        describe_end(trainer);
    return status;
}

enum xt_status xt_cmd_train(struct xt_options *options, struct xt_err *err)
{
    struct xt_trainer trainer;
    enum xt_status status = xt_trainer_init(&trainer, &options->values, err);
    if (!status)
        xt_options_found_batch(options, trainer.network.batch);
    if (!status)
        status = options->values.dry_run ? xt_placement_dry_run(options, &trainer, err)
                                         : run(options, &trainer, err);
    xt_trainer_clear(&trainer);
    return status;
}
