/* A run's start: its folder and record, the checkpoint that it resumes from, its batches. */
#include "train/trainer/trainer_internal.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/digest.h"
#include "train/trainer/parts.h"
#include "train/trainer/state.h"
#include "train/trainer/step.h"

/* An evaluation that is not in the checkpoint is repeated, an unfinished mean is continued. */
enum xt_status xt_trainer_open_log(struct xt_trainer *trainer,
                                   const struct xt_log_rollback *repeated, struct xt_err *err)
{
    static const struct xt_log_rollback none = {.step = -1};
    struct xt_chain_survey survey = {.has_head = false};
    struct xt_sha256_text head = {""};
    const struct xt_log_keep keep = {.training = trainer->step - trainer->loss_steps,
                                     .evaluations = trainer->evaluated_step,
                                     .repeated = repeated ? *repeated : none};
    const struct xt_path path = xt_run_folder_file(&trainer->folder, "metrics.jsonl");
    enum xt_status status =
        xt_chain_survey(&survey, path.text, keep, xt_proof_head(trainer->proof.all), err);
    /* Before lines are removed: a kill in between leaves a chain that holds. */
    if (!status)
        status = xt_proof_link(&trainer->proof, &survey, &head, err);
    xt_chain_survey_clear(&survey);
    if (!status)
        status = xt_log_writer_open(&trainer->log, path.text, keep, err);
    trainer->log.head = head;
    if (!status)
        xt_run_report_open(&trainer->report, &trainer->folder, &trainer->settings->data,
                           trainer->settings->record.pictures, keep);
    return status;
}

static enum xt_status hash_settings(const struct xt_trainer *trainer, struct xt_sha256_text *out,
                                    struct xt_err *err)
{
    struct xt_run_options options;
    struct xt_sha256 hash;
    xt_sha256_begin(&hash);
    enum xt_status status =
        xt_run_options_init(&options, &trainer->settings->lister, &trainer->network, err);
    for (size_t i = 0; i < options.count; i++) {
        const char *value = xt_str_get(&options.items[i].value);
        xt_sha256_add(&hash, options.items[i].key, strlen(options.items[i].key) + 1);
        xt_sha256_add(&hash, value, strlen(value) + 1);
    }
    xt_run_options_clear(&options);
    const struct xt_sha256_digest digest = xt_sha256_end(&hash);
    *out = xt_sha256_format(&digest);
    return status;
}

static enum xt_status open_proof(struct xt_trainer *trainer, struct xt_err *err)
{
    struct xt_machine machine;
    xt_machine_describe(&machine, &trainer->network.device,
                        xt_amp_dtype(trainer->settings->network.amp));
    struct xt_proof_start start = {
        .machine = &machine,
        .needs_check = trainer->network.device.own_memory,
        .checked = trainer->network.device_checked,
        .step = trainer->step,
        .ranks = trainer->settings->ranks ? trainer->settings->ranks->size : 1,
        .data = xt_source_digest(trainer->source),
        .begun_from = trainer->begun_from.text,
    };
    enum xt_status status = hash_settings(trainer, &start.settings, err);
    return status ? status : xt_proof_open(&trainer->proof, &trainer->folder, &start, err);
}

static enum xt_status open_record(struct xt_trainer *trainer, struct xt_err *err)
{
    enum xt_status status = open_proof(trainer, err);
    if (!status)
        status = xt_trainer_open_log(trainer, NULL, err);
    const struct xt_path bad = xt_run_folder_file(&trainer->folder, "bad_images.txt");
    if (!status)
        status = xt_bad_images_open(&trainer->bad, bad.text, err);
    return status;
}

static enum xt_status open_cache(struct xt_trainer *trainer, struct xt_err *err)
{
    const struct xt_path path = xt_run_folder_file(&trainer->folder, "cache.bin");
    struct xt_ranks *ranks = trainer->settings->ranks;
    enum xt_status status = XT_OK;
    /* Rank 0 creates the file that the ranks of its host share. */
    if (!xt_ranks_is_first(ranks))
        status = xt_ranks_meet(ranks, "the cache", err);
    if (!status)
        status = xt_feed_open_cache(&trainer->settings->data, path.text, trainer->source,
                                    &trainer->loader_config, &trainer->cache, err);
    if (!status && ranks && xt_ranks_is_first(ranks))
        status = xt_ranks_meet(ranks, "the cache", err);
    return status;
}

/* Rank 0 has opened it. */
static enum xt_status share_folder(struct xt_trainer *trainer, struct xt_err *err)
{
    struct xt_ranks *ranks = trainer->settings->ranks;
    char path[PATH_MAX] = "";
    if (!ranks)
        return XT_OK;
    if (xt_ranks_is_first(ranks))
        snprintf(path, sizeof path, "%s", trainer->folder.path);
    enum xt_status status = xt_ranks_copy(ranks, path, sizeof path, 0, "the folder", err);
    if (!status && !xt_ranks_is_first(ranks))
        status = xt_mem_strdup(&trainer->folder.path, path, err);
    return status;
}

/* Notes how another length of the run changes the learning rate. */
static void note_length(const struct xt_checkpoint_file *from, const struct xt_schedule *schedule)
{
    if (from->state.steps == schedule->steps)
        return;
    struct xt_schedule then = *schedule;
    then.steps = from->state.steps;
    char now[32];
    char before[32];
    char follows[192] = "";
    snprintf(now, sizeof now, "%.3g", xt_schedule_lr(schedule, from->state.step));
    snprintf(before, sizeof before, "%.3g", xt_schedule_lr(&then, from->state.step));
    if (schedule->kind != XT_SCHED_CONSTANT)
        snprintf(follows, sizeof follows, "; --sched %s follows the new length",
                 xt_schedule_names[schedule->kind]);
    if (from->state.step < schedule->steps && strcmp(now, before) != 0)
        xt_str_append_to(follows, sizeof follows,
                         "%s the rate of the next step is %s instead of %s", *follows ? ":" : ";",
                         now, before);
    xt_log_note("%s is of a run of %" PRId64 " steps, now there are %" PRId64 "%s", from->path,
                then.steps, schedule->steps, follows);
}

/* On rank 0; *state is that of the checkpoint, if there is one. */
static enum xt_status load(struct xt_trainer *trainer, struct xt_train_state *state,
                           struct xt_err *err)
{
    const struct xt_checkpoint_file *from = &trainer->resume.from;
    struct xt_checkpoint_array arrays[XT_CHECKPOINT_ARRAYS];
    const struct xt_resume_into into = {
        .record = &trainer->settings->record,
        .lister = &trainer->settings->lister,
        .folder = &trainer->folder,
        .steps = trainer->steps,
        .samples = (int64_t)trainer->source->count,
        .network = &trainer->network,
        .arrays = arrays,
        .array_count = xt_train_state_arrays(trainer, arrays),
    };
    enum xt_status status = XT_OK;
    if (from->path)
        status = xt_train_state_read(from, state, err);
    if (!status)
        status = xt_resume_load(&trainer->resume, &into, err);
    if (status || !from->path)
        return status;
    trainer->optim.step = state->own.optim_step;
    struct xt_run_mark mark;
    xt_run_mark_read(&mark, &from->file);
    trainer->begun_from = mark.head;
    note_length(from, &trainer->schedule);
    xt_log_note("resuming from %s, step %" PRId64 " of %" PRId64, from->path, state->run.step,
                trainer->steps);
    return XT_OK;
}

static enum xt_status go_on(struct xt_trainer *trainer, struct xt_err *err)
{
    struct xt_train_state state = {.run.step = -1};
    enum xt_status status =
        xt_ranks_is_first(trainer->settings->ranks) ? load(trainer, &state, err) : XT_OK;
    if (!status)
        status = xt_train_state_begin_arrays(trainer, &trainer->resume.from, &state, err);
    if (!status)
        status = share_folder(trainer, err);
    if (!status)
        status = xt_train_state_share(trainer, &state, err);
    if (!status && state.run.step >= 0)
        xt_train_state_take(trainer, &state);
    if (!status)
        status = xt_trainer_resume_shares(
            trainer, xt_weight_file_meta(&trainer->resume.from.file, XT_TRAIN_SHARES_KEY), err);
    xt_resume_clear(&trainer->resume);
    return status;
}

enum xt_status xt_trainer_open_feed(struct xt_trainer *trainer, struct xt_err *err)
{
    trainer->loader_config.start_step =
        (uint64_t)trainer->step * (uint64_t)xt_train_step_batches(trainer->settings);
    return xt_feed_create(&trainer->feed, &trainer->upload, &trainer->loader_config, false, err);
}

enum xt_status xt_trainer_open_run(struct xt_trainer *trainer, struct xt_err *err)
{
    bool first = xt_ranks_is_first(trainer->settings->ranks);
    enum xt_status status = XT_OK;
    if (first)
        status = xt_resume_open_folder(&trainer->folder, &trainer->settings->record,
                                       trainer->network.model->name, err);
    if (!status)
        status = go_on(trainer, err);
    trainer->start_step = trainer->built_step = trainer->step;
    if (!status && first)
        status = open_record(trainer, err);
    if (!status)
        status = open_cache(trainer, err);
    return status ? status : xt_trainer_open_feed(trainer, err);
}
