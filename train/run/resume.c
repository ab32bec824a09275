#include "train/run/resume.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "train/run/checkpoint.h"

static bool is_auto(const struct xt_settings *s)
{
    return strcmp(s->resume, "auto") == 0;
}

/* The folder that --resume PATH is, or lies in. */
static enum xt_status folder_of(const char *path, char **out, struct xt_err *err)
{
    enum xt_status status = xt_mem_strdup(out, path, err);
    if (status || xt_file_is_folder(path))
        return status;
    char *slash = strrchr(*out, '/');
    if (slash == *out)
        slash++;
    if (slash) {
        *slash = '\0';
        return XT_OK;
    }
    free(*out);
    return xt_mem_strdup(out, ".", err);
}

/* The folder may hold a run already where the checkpoint lies in it. */
enum xt_status xt_resume_open_folder(struct xt_trainer *trainer, struct xt_err *err)
{
    const struct xt_settings *s = trainer->settings;
    const char *model = trainer->network.model->name;
    if (!s->resume)
        return xt_run_folder_open(&trainer->folder, s->out, model, false, err);
    if (is_auto(s) && !s->out)
        return xt_err_set(err, XT_ERR_USAGE,
                          "--resume auto needs --out DIR: the run's folder to look in");
    if (is_auto(s))
        return xt_run_folder_open(&trainer->folder, s->out, model, true, err);
    if (!xt_file_exists(s->resume))
        return xt_err_set(err, XT_ERR_DATA, "--resume %s: there is no such file or folder",
                          s->resume);
    char *folder = NULL;
    enum xt_status status = folder_of(s->resume, &folder, err);
    bool own = !s->out || (!status && xt_file_is_same(s->out, folder));
    if (!status)
        status = xt_run_folder_open(&trainer->folder, s->out ? s->out : folder, model, own, err);
    free(folder);
    return status;
}

static enum xt_status check_same_run(const struct xt_trainer *trainer,
                                     const struct xt_checkpoint *checkpoint, const char *path,
                                     struct xt_err *err)
{
    const struct xt_settings *s = trainer->settings;
    if (checkpoint->seed != s->seed || checkpoint->batch != trainer->network.batch)
        return xt_err_set(err, XT_ERR_USAGE,
                          "%s was made with --seed %" PRIu64
                          " --batch %d; give the same, since the "
                          "order of the images depends on them",
                          path, checkpoint->seed, checkpoint->batch);
    if (checkpoint->step > trainer->steps)
        return xt_err_set(err, XT_ERR_USAGE,
                          "%s is of step %" PRId64 ", after the end of a run of %" PRId64
                          " steps; give more --steps or --epochs",
                          path, checkpoint->step, trainer->steps);
    if (checkpoint->samples != trainer->source->count)
        xt_log_warn("%s was made on %zu images, --data now has %zu: the run goes on, in another "
                    "order of the images",
                    path, checkpoint->samples, trainer->source->count);
    return XT_OK;
}

/* What another length of the run does to the learning rate. */
static void note_length(const struct xt_trainer *trainer, const struct xt_checkpoint *checkpoint,
                        const char *path)
{
    if (checkpoint->steps == trainer->steps)
        return;
    struct xt_schedule then = trainer->schedule;
    then.steps = checkpoint->steps;
    xt_log_note("%s is of a run of %" PRId64 " steps, now there are %" PRId64
                "; --sched %s follows the new length: the rate of the next step is %.3g, where it "
                "would have been %.3g",
                path, checkpoint->steps, trainer->steps, xt_schedule_name(trainer->schedule.kind),
                xt_schedule_lr(&trainer->schedule, checkpoint->step),
                xt_schedule_lr(&then, checkpoint->step));
}

/* A checkpoint's file: --resume PATH itself, or the newest in a folder. NULL: start fresh. */
static enum xt_status find_checkpoint(const struct xt_settings *s, const char *run_folder,
                                      char **path, struct xt_err *err)
{
    if (is_auto(s))
        return xt_checkpoint_newest(run_folder, path, err);
    if (!xt_file_is_folder(s->resume))
        return xt_mem_strdup(path, s->resume, err);
    enum xt_status status = xt_checkpoint_newest(s->resume, path, err);
    if (!status && !*path)
        status = xt_err_set(err, XT_ERR_DATA, "--resume %s: the folder holds no whole checkpoint",
                            s->resume);
    return status;
}

enum xt_status xt_resume_batch(const struct xt_settings *settings, int *batch, struct xt_err *err)
{
    char *path = NULL;
    *batch = 0;
    /* What is wrong with the folder is for whoever opens it to say. */
    const char *folder = settings->out ? settings->out : "";
    if (!settings->resume || (is_auto(settings) && !xt_file_is_folder(folder)) ||
        (!is_auto(settings) && !xt_file_exists(settings->resume)))
        return XT_OK;
    enum xt_status status = find_checkpoint(settings, folder, &path, err);
    if (!status && path)
        status = xt_checkpoint_batch(path, batch, err);
    if (*batch)
        xt_log_note("--batch auto takes %d, with which the run of %s was begun", *batch, path);
    free(path);
    return status;
}

static enum xt_status start_fresh(struct xt_trainer *trainer, struct xt_err *err)
{
    xt_log_note("no checkpoint in %s: starting from the beginning", trainer->folder.path);
    enum xt_status status = xt_run_folder_set_aside(&trainer->folder, "last.safetensors", err);
    if (!status)
        status = xt_run_folder_set_aside(&trainer->folder, "best.safetensors", err);
    return status;
}

static void take(struct xt_trainer *trainer, const struct xt_checkpoint *checkpoint)
{
    trainer->step = trainer->saved_step = checkpoint->step;
    trainer->best_step = checkpoint->best_step;
    trainer->best_accuracy = checkpoint->best_accuracy;
    trainer->evaluated_step = checkpoint->evaluated_step;
    trainer->loss_sum = checkpoint->loss_sum;
    trainer->loss_steps = checkpoint->loss_steps;
    if (trainer->scaler.on && checkpoint->scaler.on)
        trainer->scaler = checkpoint->scaler;
    trainer->earlier_seconds = checkpoint->seconds;
}

enum xt_status xt_resume_load(struct xt_trainer *trainer, struct xt_err *err)
{
    if (!trainer->settings->resume)
        return XT_OK;
    char *path = NULL;
    struct xt_checkpoint checkpoint = {0};
    enum xt_status status = find_checkpoint(trainer->settings, trainer->folder.path, &path, err);
    if (!status && path)
        status = xt_checkpoint_load(&checkpoint, trainer->settings, &trainer->network,
                                    &trainer->optim, path, err);
    if (!status && path)
        status = check_same_run(trainer, &checkpoint, path, err);
    if (!status)
        status = xt_checkpoint_set_aside(trainer->folder.path, path ? checkpoint.step : -1, err);
    if (!status && !path)
        status = start_fresh(trainer, err);
    if (!status && path) {
        take(trainer, &checkpoint);
        note_length(trainer, &checkpoint, path);
        xt_log_note("going on from %s, step %" PRId64 " of %" PRId64, path, trainer->step,
                    trainer->steps);
    }
    free(path);
    return status;
}
