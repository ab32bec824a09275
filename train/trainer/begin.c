/* A run's beginning: its folder and record, the checkpoint that it goes on from, its batches. */
#include "train/trainer.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "train/ranks/state.h"
#include "train/trainer/parts.h"

/* An evaluation that is not in the checkpoint is made again, a mean that is not ended goes on. */
enum xt_status xt_trainer_open_log(struct xt_trainer *trainer, struct xt_err *err)
{
    char *path = NULL;
    const struct xt_log_keep keep = {.training = trainer->step - trainer->loss_steps,
                                     .evaluations = trainer->evaluated_step,
                                     .checkpoint = trainer->step};
    enum xt_status status = xt_run_folder_file(&trainer->folder, "metrics.jsonl", &path, err);
    if (!status)
        status = xt_log_writer_open(&trainer->log, path, keep, err);
    if (!status)
        xt_run_report_open(&trainer->report, &trainer->folder, trainer->settings, keep);
    free(path);
    return status;
}

static enum xt_status open_record(struct xt_trainer *trainer, struct xt_err *err)
{
    char *bad = NULL;
    enum xt_status status = xt_trainer_open_log(trainer, err);
    if (!status)
        status = xt_run_folder_file(&trainer->folder, "bad_images.txt", &bad, err);
    if (!status)
        status = xt_bad_images_open(&trainer->bad, bad, err);
    free(bad);
    const struct xt_proof_start start = {
        .device = &trainer->network.device,
        .type = xt_amp_dtype(trainer->settings->network.amp),
        .checked = trainer->network.device_checked,
        .step = trainer->step,
    };
    return status ? status : xt_proof_open(&trainer->proof, &trainer->folder, &start, err);
}

static enum xt_status open_cache(struct xt_trainer *trainer, struct xt_err *err)
{
    char *path = NULL;
    struct xt_ranks *ranks = trainer->settings->ranks;
    enum xt_status status = xt_run_folder_file(&trainer->folder, "cache.bin", &path, err);
    /* Rank 0 makes the file that those of its host have too. */
    if (!status && !xt_ranks_is_first(ranks))
        status = xt_ranks_meet(ranks, "the cache", err);
    if (!status)
        status = xt_feed_open_cache(trainer->settings, path, trainer->source,
                                    &trainer->loader_config, &trainer->cache, err);
    if (!status && ranks && xt_ranks_is_first(ranks))
        status = xt_ranks_meet(ranks, "the cache", err);
    free(path);
    return status;
}

void xt_trainer_take_state(struct xt_trainer *trainer, const struct xt_checkpoint *state)
{
    trainer->step = trainer->saved_step = state->step;
    trainer->best_step = state->best_step;
    trainer->best = state->best;
    trainer->best_is_average = state->best_is_average;
    trainer->patience = state->patience;
    trainer->spikes = state->spikes;
    trainer->lr_factor = state->lr_factor;
    trainer->left_out = state->left_out;
    trainer->evaluated_step = state->evaluated_step;
    trainer->loss_sum = state->loss_sum;
    trainer->loss_steps = state->loss_steps;
    if (trainer->scaler.on && state->scaler.on)
        trainer->scaler = state->scaler;
    trainer->earlier_seconds = state->seconds;
    trainer->costs = state->costs;
}

enum xt_status xt_trainer_begin_average(struct xt_trainer *trainer,
                                        const struct xt_checkpoint_file *from, struct xt_err *err)
{
    struct xt_params_view view;
    if (!trainer->ema)
        return XT_OK;
    if (!from->path || from->state.ema_updates < 0)
        return xt_ema_begin(trainer->ema, err);
    enum xt_status status = xt_ema_map(trainer->ema, &view, err);
    if (status)
        return status;
    status = xt_checkpoint_load_average(from, &trainer->network, &view, err);
    enum xt_status unmapped = xt_ema_unmap(trainer->ema, err);
    xt_ema_set_updates(trainer->ema, from->state.ema_updates);
    return status ? status : unmapped;
}

enum xt_status xt_trainer_share_state(struct xt_trainer *trainer, struct xt_checkpoint *state,
                                      struct xt_err *err)
{
    struct xt_ranks *ranks = trainer->settings->ranks;
    const struct xt_rank_state all = {&trainer->network.params, &trainer->optim, trainer->ema};
    if (!ranks)
        return XT_OK;
    enum xt_status status = xt_ranks_copy(ranks, state, sizeof *state, 0, "the checkpoint", err);
    return status ? status : xt_rank_state_share(ranks, &all, err);
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

static enum xt_status go_on(struct xt_trainer *trainer, struct xt_err *err)
{
    const struct xt_resume_into into = {
        .settings = trainer->settings,
        .folder = &trainer->folder,
        .schedule = &trainer->schedule,
        .samples = trainer->source->count,
        .network = &trainer->network,
        .optim = &trainer->optim,
    };
    struct xt_checkpoint state = {.step = -1};
    enum xt_status status = xt_ranks_is_first(trainer->settings->ranks)
                                ? xt_resume_load(&trainer->resume, &into, err)
                                : XT_OK;
    if (!status && trainer->resume.from.path)
        state = trainer->resume.from.state;
    if (!status)
        status = xt_trainer_begin_average(trainer, &trainer->resume.from, err);
    if (!status)
        status = share_folder(trainer, err);
    if (!status)
        status = xt_trainer_share_state(trainer, &state, err);
    if (!status && state.step >= 0)
        xt_trainer_take_state(trainer, &state);
    xt_resume_clear(&trainer->resume);
    return status;
}

enum xt_status xt_trainer_open_feed(struct xt_trainer *trainer, struct xt_err *err)
{
    trainer->loader_config.start_step =
        (uint64_t)trainer->step * (uint64_t)xt_step_batches(trainer->settings);
    return xt_feed_create(&trainer->feed, &trainer->upload, &trainer->loader_config, false, err);
}

enum xt_status xt_trainer_open_run(struct xt_trainer *trainer, struct xt_err *err)
{
    bool first = xt_ranks_is_first(trainer->settings->ranks);
    enum xt_status status = XT_OK;
    if (first)
        status = xt_resume_open_folder(&trainer->folder, trainer->settings,
                                       trainer->network.model->name, err);
    if (!status)
        status = go_on(trainer, err);
    trainer->start_step = trainer->step;
    if (!status && first)
        status = open_record(trainer, err);
    if (!status)
        status = open_cache(trainer, err);
    return status ? status : xt_trainer_open_feed(trainer, err);
}
