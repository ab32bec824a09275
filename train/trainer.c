#include "train/trainer.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/system/stop.h"
#include "base/system/thread.h"
#include "data/overlap.h"
#include "data/sources/registry.h"
#include "train/auto_batch.h"
#include "train/network_build.h"
#include "train/feed.h"
#include "train/ranks/place.h"
#include "train/ranks/state.h"

/* ---- opening ---- */

static enum xt_status open_source(struct xt_trainer *trainer, struct xt_err *err)
{
    const struct xt_settings *s = trainer->settings;
    struct xt_source_options options = xt_network_source_options(&trainer->network);
    const char *data = s->data ? s->data : trainer->network.model->default_data;
    enum xt_status status = xt_source_open(&trainer->source, data, &options, err);
    /* --batch auto takes no more than there are. */
    if (!status && trainer->source->count < (size_t)s->batch)
        status =
            xt_err_set(err, XT_ERR_USAGE,
                       "--data %s has %s, fewer than one batch; give a smaller --batch "
                       "than %d",
                       data, xt_count((long long)trainer->source->count, "image").text, s->batch);
    return status;
}

/* What is evaluated on images that were trained on says nothing. */
static enum xt_status warn_of_shared(const struct xt_trainer *trainer, const char *val,
                                     struct xt_err *err)
{
    struct xt_overlap overlap;
    enum xt_status status = xt_overlap_find(&overlap, trainer->val, trainer->source, err);
    if (!status && overlap.count)
        xt_log_warn("%zu of the %s to evaluate on (%s) %s among the training images too, "
                    "so that results look better than they are; the first: %s",
                    overlap.count, xt_count((long long)trainer->val->count, "image").text, val,
                    overlap.count == 1 ? "is" : "are", overlap.first);
    return status;
}

/* The images to evaluate on: --val, else those that stand beside the training images in CIFAR's
 * batches, else the model's own where the training images are. */
static enum xt_status open_val(struct xt_trainer *trainer, struct xt_err *err)
{
    const struct xt_settings *s = trainer->settings;
    const char *val = s->val                            ? s->val
                      : !s->data                        ? trainer->network.model->default_val
                      : trainer->source->has_other_part ? s->data
                                                        : NULL;
    if (!val)
        return XT_OK;
    enum xt_status status = xt_network_open_source(&trainer->network, val, &trainer->val, err);
    return status ? status : warn_of_shared(trainer, val, err);
}

static enum xt_status open_upload(struct xt_trainer *trainer, struct xt_err *err)
{
    const struct xt_settings *s = trainer->settings;
    const struct xt_network *network = &trainer->network;
    struct xt_feed_size size = {network->width, network->height, network->model->bgr};
    const struct xt_upload_config upload =
        xt_network_upload_config(&trainer->network, s, xt_feed_slots(s));
    enum xt_status status = xt_upload_init(&trainer->upload, &upload, err);
    trainer->loader_config = xt_feed_config(s, &size, true);
    trainer->loader_config.source = trainer->source;
    trainer->loader_config.batch = trainer->batch;
    trainer->loader_config.rows = trainer->rows;
    trainer->epoch_steps = (int64_t)xt_loader_epoch_steps(&trainer->loader_config);
    return status;
}

/* What the learning rate of a parameter is multiplied by: 0 freezes it. */
static float rate_of(const struct xt_trainer *trainer, const struct xt_param *param)
{
    const char *head = trainer->network.model->head;
    if (param->frozen)
        return 0;
    return head && xt_str_starts(param->name, head) ? (float)trainer->settings->head_lr_factor : 1;
}

static enum xt_status open_optimizer(struct xt_trainer *trainer, struct xt_err *err)
{
    const struct xt_settings *s = trainer->settings;
    struct xt_params *params = &trainer->network.params;
    trainer->optim = (struct xt_optim){
        .kind = s->optim,
        .momentum = s->momentum,
        .nesterov = s->nesterov,
        .weight_decay = s->weight_decay,
    };
    enum xt_status status = XT_OK;
    for (int i = 0; i < xt_optim_states(s->optim, s->momentum) && !status; i++)
        status = xt_mem_aligned(&trainer->optim.state[i], params->value_floats, sizeof(float),
                                "the optimizer's state", err);
    for (int i = 0; i < params->count; i++) {
        const struct xt_param *param = &params->items[i];
        if (!xt_param_is_statistic(param))
            trainer->ranges[trainer->range_count++] = (struct xt_optim_range){
                .offset = param->offset,
                .count = param->floats,
                .decay = s->decay_all || param->role == XT_PARAM_WEIGHT,
                .lr_factor = rate_of(trainer, param),
            };
    }
    if (!status && trainer->network.device.kind == XT_DEVICE_XPU)
        status = xt_xpu_optim_create(&trainer->xpu_optim, &trainer->network.device, &trainer->optim,
                                     params, trainer->ranges, trainer->range_count, err);
    return status;
}

/* A run that goes on keeps its batch norms as they were, unless --bn says otherwise, and the number
 * of its threads, which its last bits depend on, unless --threads does. */
static enum xt_status open_network(struct xt_trainer *trainer, struct xt_err *err)
{
    struct xt_settings settings = *trainer->settings;
    struct xt_ranks *ranks = settings.ranks;
    int bn_and_threads[2] = {XT_BN_AUTO, 0};
    enum xt_status status =
        xt_ranks_is_first(ranks) ? xt_resume_read(&trainer->resume, &settings, err) : XT_OK;
    const struct xt_checkpoint_file *from = &trainer->resume.from;
    if (!status && from->path) {
        bn_and_threads[0] = from->state.bn_frozen ? XT_BN_FROZEN : XT_BN_BATCH;
        bn_and_threads[1] = xt_checkpoint_threads(from);
    }
    if (!status && ranks)
        status =
            xt_ranks_copy(ranks, bn_and_threads, sizeof bn_and_threads, 0, "the checkpoint", err);
    if (!status && !settings.threads)
        settings.threads = bn_and_threads[1];
    if (!status)
        status = xt_network_open(&trainer->network, &settings, err);
    if (!status && ranks && settings.sync_bn && trainer->network.device.own_memory)
        status = xt_err_set(err, XT_ERR_USAGE,
                            "batch norms over the images of several processes are not made for an "
                            "XPU; give --no-sync-bn");
    trainer->network.bn_before = (enum xt_bn_mode)bn_and_threads[0];
    if (status || !from->path)
        return status;
    for (size_t i = 0; i < from->file.count; i++)
        trainer->network.checkpoint_bytes += (double)from->file.tensors[i].bytes;
    return XT_OK;
}

/* --batch; auto (0) is what the run was begun with where it goes on, else what fits. */
static enum xt_status choose_batch(struct xt_trainer *trainer, int *batch, struct xt_err *err)
{
    const struct xt_settings *s = trainer->settings;
    const struct xt_checkpoint_file *from = &trainer->resume.from;
    *batch = s->batch;
    if (s->ranks && !*batch)
        return xt_err_set(err, XT_ERR_USAGE,
                          "--batch auto is for one process; for %d ranks give the batch of all "
                          "together",
                          s->ranks->size);
    if (s->ranks && *batch < 2 * s->ranks->size)
        return xt_err_set(err, XT_ERR_USAGE,
                          "--batch %d is too small for %d ranks, each of which needs two images at "
                          "least",
                          *batch, s->ranks->size);
    if (*batch)
        return XT_OK;
    if (from->path) {
        enum xt_status status = xt_checkpoint_batch(from, batch, err);
        if (!status)
            xt_log_note("--batch auto takes %d, with which the run of %s was begun", *batch,
                        from->path);
        return status;
    }
    return xt_auto_batch_take(&trainer->network, s, true, trainer->source->count, batch, err);
}

/* This rank, as the table at the start shows it. */
static enum xt_status introduce(const struct xt_trainer *trainer, struct xt_err *err)
{
    const struct xt_device *device = &trainer->network.device;
    struct xt_rank own = {.images = trainer->network.batch, .threads = device->threads};
    xt_place_describe(own.cpus, sizeof own.cpus);
    snprintf(own.device, sizeof own.device, "%s", device->name);
    snprintf(own.isa, sizeof own.isa, "%s", xt_device_cpu_isa());
    snprintf(own.library, sizeof own.library, "%s", xt_dnnl_version_text().text);
    snprintf(own.program, sizeof own.program, "%s", XT_VERSION);
    return xt_ranks_introduce(trainer->settings->ranks, &own, err);
}

static enum xt_status join_ranks(struct xt_trainer *trainer, struct xt_err *err)
{
    const struct xt_settings *s = trainer->settings;
    const struct xt_team_config config = {
        .ranks = s->ranks,
        .graph = trainer->network.graph,
        .rows = trainer->rows,
        .sync_bn = s->sync_bn,
        .bucket = (size_t)s->bucket << 20,
        .bf16 = s->reduce_type == XT_REDUCE_BF16,
    };
    enum xt_status status = xt_team_create(&trainer->team, &config, err);
    return status ? status : introduce(trainer, err);
}

/* What a step needs beside the network. */
static enum xt_status prepare(struct xt_trainer *trainer, struct xt_err *err)
{
    struct xt_span start = xt_span_now();
    enum xt_status status = open_upload(trainer, err);
    if (!status)
        status = open_optimizer(trainer, err);
    if (!status && trainer->settings->ranks)
        status = join_ranks(trainer, err);
    trainer->prepare_span = xt_span_since(&start);
    return status;
}

enum xt_status xt_trainer_init(struct xt_trainer *trainer, const struct xt_settings *settings,
                               struct xt_err *err)
{
    *trainer = (struct xt_trainer){.settings = settings,
                                   .folder = {.lock = -1},
                                   .log = {.fd = -1},
                                   .best_step = -1,
                                   .evaluated_step = -1,
                                   .saved_step = -1};
    struct xt_network *network = &trainer->network;
    enum xt_status status = open_network(trainer, err);
    if (!status)
        status = open_source(trainer, err);
    if (!status)
        status = xt_network_take_classes(network, settings, trainer->source, err);
    if (!status)
        status = open_val(trainer, err);
    if (!status)
        status = choose_batch(trainer, &trainer->batch, err);
    if (!status && settings->ranks)
        trainer->rows = xt_rows_share(trainer->batch, settings->ranks->rank, settings->ranks->size);
    if (!status)
        status = xt_network_build(
            network, settings, settings->ranks ? trainer->rows.count : trainer->batch, true, err);
    if (!status)
        status = prepare(trainer, err);
    if (!status)
        status = xt_objective_create(&trainer->objective, network, settings, err);
    if (status)
        return status;
    xt_scaler_init(&trainer->scaler, settings->amp == XT_AMP_FP16);
    trainer->steps = settings->steps ? settings->steps : settings->epochs * trainer->epoch_steps;
    return xt_schedule_init(&trainer->schedule, settings, trainer->steps, trainer->epoch_steps,
                            err);
}

struct xt_memory_plan xt_trainer_memory_plan(const struct xt_trainer *trainer)
{
    const struct xt_network *network = &trainer->network;
    const struct xt_graph *evaluation =
        network->inference == network->graph ? NULL : network->inference;
    /* By now there is no checkpoint, no evaluation and no order of the samples. */
    const struct xt_memory_use now = {
        .states = xt_optim_states(trainer->optim.kind, trainer->optim.momentum),
        .slot_bytes = trainer->upload.bytes,
        .slots = trainer->upload.count,
        .pinned = !trainer->upload.pageable,
    };
    struct xt_memory_use use = now;
    use.samples = trainer->source->count;
    use.cache = xt_feed_cache_bytes(trainer->settings, &trainer->loader_config);
    if (trainer->val) {
        use.evaluation_slots = XT_FEED_EVALUATION_SLOTS;
        use.samples += trainer->val->count;
    }
    return xt_memory_plan_built(network->graph, evaluation, &now, &use);
}

void xt_trainer_clear(struct xt_trainer *trainer)
{
    xt_monitor_destroy(trainer->monitor);
    xt_feed_destroy(trainer->feed);
    xt_cache_destroy(trainer->cache);
    xt_upload_clear(&trainer->upload);
    xt_source_destroy(trainer->source);
    xt_source_destroy(trainer->val);
    xt_objective_destroy(trainer->objective);
    xt_team_destroy(trainer->team);
    xt_xpu_optim_destroy(trainer->xpu_optim);
    for (int i = 0; i < 2; i++)
        free(trainer->optim.state[i]);
    xt_evaluation_clear(&trainer->last_evaluation);
    xt_bad_images_clear(&trainer->bad);
    xt_log_writer_close(&trainer->log);
    xt_resume_clear(&trainer->resume);
    xt_run_folder_clear(&trainer->folder);
    xt_network_clear(&trainer->network);
    *trainer = (struct xt_trainer){.folder = {.lock = -1}, .log = {.fd = -1}};
}

/* ---- the run's folder ---- */

static enum xt_status open_record(struct xt_trainer *trainer, struct xt_err *err)
{
    char *log = NULL;
    char *bad = NULL;
    /* An evaluation that is not in the checkpoint is made again, a mean that is not ended goes on.
     */
    const struct xt_log_keep keep = {.training = trainer->step - trainer->loss_steps,
                                     .evaluations = trainer->evaluated_step};
    enum xt_status status = xt_run_folder_file(&trainer->folder, "metrics.jsonl", &log, err);
    if (!status)
        status = xt_log_writer_open(&trainer->log, log, keep, err);
    if (!status)
        status = xt_run_folder_file(&trainer->folder, "bad_images.txt", &bad, err);
    if (!status)
        status = xt_bad_images_open(&trainer->bad, bad, err);
    free(log);
    free(bad);
    return status;
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

static void take_state(struct xt_trainer *trainer, const struct xt_checkpoint *state)
{
    trainer->step = trainer->saved_step = state->step;
    trainer->best_step = state->best_step;
    trainer->best = state->best;
    trainer->evaluated_step = state->evaluated_step;
    trainer->loss_sum = state->loss_sum;
    trainer->loss_steps = state->loss_steps;
    if (trainer->scaler.on && state->scaler.on)
        trainer->scaler = state->scaler;
    trainer->earlier_seconds = state->seconds;
}

/* Rank 0 has read what the others take of it. */
static enum xt_status share_state(struct xt_trainer *trainer, struct xt_checkpoint *state,
                                  struct xt_err *err)
{
    struct xt_ranks *ranks = trainer->settings->ranks;
    const struct xt_rank_state all = {&trainer->network.params, &trainer->optim};
    char path[PATH_MAX] = "";
    if (!ranks)
        return XT_OK;
    if (xt_ranks_is_first(ranks))
        snprintf(path, sizeof path, "%s", trainer->folder.path);
    enum xt_status status = xt_ranks_copy(ranks, state, sizeof *state, 0, "the checkpoint", err);
    if (!status)
        status = xt_ranks_copy(ranks, path, sizeof path, 0, "the folder", err);
    if (!status && !xt_ranks_is_first(ranks))
        status = xt_mem_strdup(&trainer->folder.path, path, err);
    return status ? status : xt_rank_state_share(ranks, &all, err);
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
        status = share_state(trainer, &state, err);
    if (!status && state.step >= 0)
        take_state(trainer, &state);
    xt_resume_clear(&trainer->resume);
    return status;
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
    trainer->loader_config.start_step = (uint64_t)trainer->step;
    if (!status)
        status = open_cache(trainer, err);
    if (!status)
        status =
            xt_feed_create(&trainer->feed, &trainer->upload, &trainer->loader_config, false, err);
    return status;
}

double xt_trainer_seconds(const struct xt_trainer *trainer)
{
    return trainer->earlier_seconds + xt_thread_seconds() - trainer->start_time;
}

/* A diverging run may have a finite loss to its end: a batch's own statistics hide how large the
 * numbers are, and the running ones overflow. On an XPU they are those that came to the host last.
 */
static enum xt_status check_statistics(const struct xt_trainer *trainer, struct xt_err *err)
{
    const struct xt_params *params = &trainer->network.params;
    for (int i = 0; i < params->count; i++) {
        const struct xt_param *param = &params->items[i];
        if (param->role != XT_PARAM_BN_MEAN && param->role != XT_PARAM_BN_VAR)
            continue;
        for (size_t k = 0; k < (size_t)param->dims[0]; k++)
            if (!isfinite(params->stats[param->offset + k]))
                return xt_err_set(err, XT_ERR_RUN,
                                  "%s is infinite or not a number by step %" PRId64
                                  ": the run has diverged; a lower --lr, or --clip 5, may help%s",
                                  param->name, trainer->step + 1,
                                  trainer->saved_step >= 0 ? "; the last checkpoint is whole" : "");
    }
    return XT_OK;
}

static enum xt_status save_weights(struct xt_trainer *trainer, const char *name, struct xt_err *err)
{
    char *path = NULL;
    enum xt_status status = xt_run_folder_file(&trainer->folder, name, &path, err);
    if (!status)
        status = xt_params_pull(&trainer->network.params, err);
    if (!status)
        status = check_statistics(trainer, err);
    if (!status)
        status = xt_network_save(&trainer->network, path, err);
    free(path);
    return status;
}

static enum xt_status list_bad_images(struct xt_trainer *trainer, struct xt_err *err)
{
    struct xt_bad_sample *bad = NULL;
    size_t count = 0;
    struct xt_ranks *ranks = trainer->settings->ranks;
    enum xt_status status = xt_loader_bad(xt_feed_loader(trainer->feed), &bad, &count, err);
    if (!status)
        status = xt_ranks_share_bad(ranks, &bad, &count, err);
    if (!status && xt_ranks_is_first(ranks))
        status = xt_bad_images_add(&trainer->bad, trainer->source, bad, count, err);
    xt_loader_free_bad(bad, count);
    return status;
}

static enum xt_status save(struct xt_trainer *trainer, struct xt_err *err)
{
    if (trainer->saved_step == trainer->step)
        return XT_OK;
    struct xt_checkpoint checkpoint = {
        .step = trainer->step,
        .steps = trainer->steps,
        .optim_step = trainer->optim.step,
        .samples = trainer->source->count,
        .bn_frozen = trainer->network.bn_frozen,
        .best_step = trainer->best_step,
        .best = trainer->best,
        .evaluated_step = trainer->evaluated_step,
        .loss_sum = trainer->loss_sum,
        .loss_steps = trainer->loss_steps,
        .scaler = trainer->scaler,
        .seconds = xt_trainer_seconds(trainer),
    };
    struct xt_ranks *ranks = trainer->settings->ranks;
    const struct xt_rank_state all = {&trainer->network.params, &trainer->optim};
    enum xt_status status = list_bad_images(trainer, err);
    if (!status && !trainer->xpu_optim)
        status = xt_rank_state_check(ranks, &all, err);
    if (!status && !xt_ranks_is_first(ranks)) {
        trainer->saved_step = trainer->step;
        return XT_OK;
    }
    /* What the record says must not be younger than the checkpoint, also when the power fails. */
    if (!status)
        status = xt_log_writer_sync(&trainer->log, err);
    if (!status)
        status = save_weights(trainer, "last.safetensors", err);
    if (!status && trainer->xpu_optim)
        status = xt_xpu_optim_pull(trainer->xpu_optim, err);
    if (!status)
        status =
            xt_checkpoint_save(&checkpoint, trainer->settings, &trainer->network, &trainer->optim,
                               trainer->folder.path, trainer->settings->keep, err);
    if (!status)
        trainer->saved_step = trainer->step;
    return status;
}

/* ---- a step ---- */

static enum xt_status grad_norm(struct xt_trainer *trainer, double *norm, struct xt_err *err)
{
    if (trainer->xpu_optim)
        return xt_xpu_optim_grad_norm(trainer->xpu_optim, norm, err);
    *norm =
        xt_optim_grad_norm(trainer->network.params.grads, trainer->ranges, trainer->range_count);
    return XT_OK;
}

/* What gradients are multiplied by; 0: the step is to be skipped. They are looked at before they
 * are used, so that weights that are no numbers never get into a checkpoint. */
static enum xt_status update_factor(struct xt_trainer *trainer, float *factor, struct xt_err *err)
{
    double clip = trainer->settings->clip;
    double scale = (double)trainer->scaler.scale;
    double norm = 0;
    if (grad_norm(trainer, &norm, err))
        return err->status;
    norm /= scale;
    enum xt_scaler_verdict verdict = xt_scaler_judge(&trainer->scaler, isfinite(norm));
    if (verdict == XT_SCALER_FAIL)
        return xt_err_set(err, XT_ERR_RUN,
                          "a gradient of step %" PRId64 " is not a number%s; a lower --lr may help",
                          trainer->step + 1,
                          trainer->scaler.on ? ", although the loss is scaled by 1 alone" : "");
    if (verdict == XT_SCALER_SKIP)
        *factor = 0;
    else
        *factor = (float)((clip > 0 && norm > clip ? clip / norm : 1) / scale);
    return XT_OK;
}

static enum xt_status update(struct xt_trainer *trainer, float factor, struct xt_err *err)
{
    struct xt_params *params = &trainer->network.params;
    double lr = xt_schedule_lr(&trainer->schedule, trainer->step);
    if (trainer->xpu_optim)
        return xt_xpu_optim_update(trainer->xpu_optim, lr, factor, err);
    xt_optim_update(&trainer->optim, params->values, params->grads, trainer->ranges,
                    trainer->range_count, lr, factor);
    params->version++;
    return XT_OK;
}

/* Why training ends before its last step, XT_OK while it goes on. *done: --max-time, which is a
 * proper end. */
static enum xt_status why_stop(const struct xt_trainer *trainer, bool *done)
{
    const struct xt_settings *s = trainer->settings;
    double here = xt_thread_seconds() - trainer->start_time;
    enum xt_status asked = xt_stop_status();
    if (asked)
        return asked;
    if (s->stop_after > 0 && here >= s->stop_after)
        return XT_STOPPED;
    *done = s->max_time > 0 && xt_trainer_seconds(trainer) >= s->max_time;
    return XT_OK;
}

/* Whether the bad images of all ranks are too many; an image that several met is one. */
static enum xt_status judge_bad(struct xt_trainer *trainer, struct xt_err *err)
{
    struct xt_bad_sample *bad = NULL;
    size_t count = 0;
    size_t images = trainer->source->count;
    size_t met = trainer->vote.bad;
    if (met == trainer->bad_judged || !xt_loader_is_too_bad(met, images))
        return XT_OK;
    trainer->bad_judged = met;
    enum xt_status status = xt_loader_bad(xt_feed_loader(trainer->feed), &bad, &count, err);
    if (!status)
        status = xt_ranks_share_bad(trainer->settings->ranks, &bad, &count, err);
    bool is_too_bad = !status && xt_loader_is_too_bad(count, images);
    struct xt_err own;
    if (is_too_bad && xt_ranks_is_first(trainer->settings->ranks))
        xt_bad_images_add(&trainer->bad, trainer->source, bad, count, &own);
    if (is_too_bad)
        status = xt_err_set(
            err, XT_ERR_DATA,
            "at least %zu of %zu samples are bad, more than the 1 %% that is let pass; the "
            "first: %s",
            count, images, bad[0].reason);
    xt_loader_free_bad(bad, count);
    return status;
}

/* What the ranks have to decide together: the loss of all, whether it is a number, whether they
 * stop, whether too many images are bad. */
static enum xt_status vote(struct xt_trainer *trainer, double *loss, struct xt_err *err)
{
    struct xt_vote *vote = &trainer->vote;
    *vote = (struct xt_vote){.loss = *loss};
    vote->stop = why_stop(trainer, &vote->done);
    if (trainer->feed)
        vote->bad = xt_loader_bad_count(xt_feed_loader(trainer->feed));
    enum xt_status status =
        xt_ranks_vote(trainer->settings->ranks, xt_team_weight(trainer->team), vote, err);
    *loss = vote->loss;
    return status ? status : judge_bad(trainer, err);
}

static enum xt_status run_step(struct xt_trainer *trainer, const struct xt_feed_batch *batch,
                               double *loss, struct xt_err *err)
{
    struct xt_network *network = &trainer->network;
    struct xt_graph *graph = network->graph;
    graph->pass = (struct xt_graph_pass){
        .pixels = batch->host.pixels,
        .uploaded = batch->uploaded,
        .count = batch->host.count,
        .rows = trainer->rows,
        .training = true,
        .bn_frozen = network->bn_frozen,
        .dropout = trainer->settings->dropout,
        .seed = trainer->settings->seed,
        .step = (uint64_t)trainer->step,
    };
    double start = xt_thread_seconds();
    enum xt_status status = xt_graph_forward(graph, err);
    if (status)
        return status;
    double after_forward = xt_thread_seconds();
    struct xt_objective *objective = trainer->objective;
    *loss = objective->class->loss(objective, &batch->host, xt_graph_logits(graph),
                                   xt_graph_logits_grad(graph));
    if (trainer->team && vote(trainer, loss, err))
        return err->status;
    if (!isfinite(*loss))
        return xt_err_set(
            err, XT_ERR_RUN,
            "the loss of step %" PRId64 " is not a number; a lower --lr, or --clip 5, "
            "may help%s",
            trainer->step + 1, trainer->saved_step >= 0 ? "; the last checkpoint is whole" : "");
    status = check_statistics(trainer, err);
    if (status)
        return status;
    xt_scaler_apply(&trainer->scaler, xt_graph_logits_grad(graph), xt_tensor_count(graph->logits));
    if (trainer->team)
        xt_team_weigh(trainer->team, xt_graph_logits_grad(graph), xt_tensor_count(graph->logits));
    double after_loss = xt_thread_seconds();
    status = xt_graph_backward(graph, err);
    if (!status && trainer->team)
        status = xt_team_finish(trainer->team, err);
    if (status)
        return status;
    double after_backward = xt_thread_seconds();
    float factor = 1;
    status = update_factor(trainer, &factor, err);
    if (status)
        return status;
    if (factor > 0)
        status = update(trainer, factor, err);
    if (status)
        return status;
    network->params.batches_tracked += !network->bn_frozen;
    trainer->step++;
    trainer->step_seconds = (struct xt_step_seconds){
        .forward = after_forward - start,
        .loss = after_loss - after_forward,
        .backward = after_backward - after_loss,
        .update = xt_thread_seconds() - after_backward,
    };
    return XT_OK;
}

enum xt_status xt_trainer_step(struct xt_trainer *trainer, const struct xt_feed_batch *batch,
                               double *loss, struct xt_err *err)
{
    struct xt_span start = xt_span_now();
    enum xt_status status = run_step(trainer, batch, loss, err);
    if (trainer->first_step.wall == 0)
        trainer->first_step = xt_span_since(&start);
    return status;
}

/* ---- the run ---- */

static struct xt_train_progress progress_now(const struct xt_trainer *trainer)
{
    double now = xt_thread_seconds();
    double since = now - trainer->report_time;
    int64_t steps = trainer->step - trainer->report_step;
    double done = (double)(trainer->step - trainer->start_step);
    double elapsed = now - trainer->start_time;
    return (struct xt_train_progress){
        .step = trainer->step,
        .steps = trainer->steps,
        .epoch = trainer->step ? (int)((trainer->step - 1) / trainer->epoch_steps) + 1 : 0,
        .epochs = (int)((trainer->steps + trainer->epoch_steps - 1) / trainer->epoch_steps),
        .loss = trainer->loss_steps ? trainer->loss_sum / (double)trainer->loss_steps : NAN,
        .lr = xt_schedule_lr(&trainer->schedule, trainer->step ? trainer->step - 1 : 0),
        .images_per_s = since > 0 ? (double)steps * trainer->batch / since : NAN,
        .wait = since > 0 ? trainer->wait_sum / since : NAN,
        .loss_scale = trainer->scaler.on ? (double)trainer->scaler.scale : 0,
        .skipped = trainer->scaler.skipped,
        .device = trainer->monitor ? &trainer->device_figures : NULL,
        .seconds_left = done > 0 ? elapsed / done * (double)(trainer->steps - trainer->step) : NAN,
    };
}

/* What cannot be read is null. */
static void log_device(struct xt_log_writer *log, const struct xt_monitor_figures *figures)
{
    const struct {
        const char *key;
        const struct xt_reading *reading;
    } lines[] = {
        {"device_memory_bytes", &figures->now.memory_used},
        {"device_memory_peak_bytes", &figures->memory_peak},
        {"device_busy", &figures->now.busy},
        {"device_power_w", &figures->now.power},
        {"device_frequency_mhz", &figures->now.frequency},
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
        xt_log_writer_number(log, lines[i].key,
                             lines[i].reading->known ? lines[i].reading->value : NAN);
}

/* What each line begins with; the time in milliseconds, over all starts. */
static void begin_line(struct xt_trainer *trainer, const struct xt_train_progress *p)
{
    xt_log_writer_begin(&trainer->log);
    xt_log_writer_integer(&trainer->log, "step", p->step);
    xt_log_writer_integer(&trainer->log, "epoch", p->epoch);
    xt_log_writer_number(&trainer->log, "time", round(1000 * xt_trainer_seconds(trainer)) / 1000);
}

static enum xt_status log_step(struct xt_trainer *trainer, const struct xt_train_progress *p,
                               struct xt_err *err)
{
    struct xt_log_writer *log = &trainer->log;
    if (!xt_ranks_is_first(trainer->settings->ranks))
        return XT_OK;
    begin_line(trainer, p);
    xt_log_writer_number(log, "loss", p->loss);
    xt_log_writer_number(log, "lr", p->lr);
    xt_log_writer_number(log, "images_per_s", p->images_per_s);
    xt_log_writer_number(log, "wait", p->wait);
    if (p->loss_scale > 0) {
        xt_log_writer_number(log, "loss_scale", p->loss_scale);
        xt_log_writer_integer(log, "skipped_steps", p->skipped);
    }
    if (p->device)
        log_device(log, p->device);
    return xt_log_writer_end(log, err);
}

static enum xt_status log_evaluation(struct xt_trainer *trainer, const struct xt_train_progress *p,
                                     const struct xt_evaluation *evaluation, struct xt_err *err)
{
    struct xt_log_writer *log = &trainer->log;
    if (!xt_ranks_is_first(trainer->settings->ranks))
        return XT_OK;
    begin_line(trainer, p);
    xt_log_writer_integer(log, "images", (int64_t)evaluation->images);
    xt_log_writer_integer(log, "correct", (int64_t)evaluation->correct);
    for (int i = 0; i < evaluation->metric_count; i++)
        xt_log_writer_number(log, evaluation->metrics[i].key, evaluation->metrics[i].value);
    xt_log_writer_number(log, "val_loss", evaluation->loss);
    return xt_log_writer_end(log, err);
}

/* Rates are taken from one report or evaluation to the next; the mean loss from one line of the
 * record to the next, over however many starts, so that a resumed run writes the same. */
static void begin_rates(struct xt_trainer *trainer)
{
    trainer->wait_sum = 0;
    trainer->report_time = xt_thread_seconds();
    trainer->report_step = trainer->step;
}

/* Some figures are differences between two readings. */
static void note_unreadable(struct xt_trainer *trainer)
{
    if (trainer->device_figures.readings < 2 || trainer->said_unreadable)
        return;
    char text[512];
    xt_monitor_describe_unreadable(&trainer->device_figures, text, sizeof text);
    if (*text)
        xt_log_note("%s", text);
    trainer->said_unreadable = true;
}

static enum xt_status report(struct xt_trainer *trainer, struct xt_err *err)
{
    xt_monitor_read(trainer->monitor, &trainer->device_figures);
    bool due = trainer->step % trainer->settings->log_every == 0 || trainer->step == trainer->steps;
    struct xt_train_progress progress = progress_now(trainer);
    progress.log_step = due;
    if (trainer->observer.progress)
        trainer->observer.progress(trainer->observer.context, &progress);
    if (!due)
        return XT_OK;
    note_unreadable(trainer);
    enum xt_status status = log_step(trainer, &progress, err);
    trainer->loss_sum = 0;
    trainer->loss_steps = 0;
    begin_rates(trainer);
    return status;
}

/* The steps since the last line, where the run ends among them. A run that goes on drops that line
 * and ends the mean. */
static enum xt_status log_rest(struct xt_trainer *trainer, struct xt_err *err)
{
    if (!trainer->loss_steps)
        return XT_OK;
    struct xt_train_progress progress = progress_now(trainer);
    return log_step(trainer, &progress, err);
}

/* The list counts also where the evaluation failed of it; its error is the one to tell then. */
static enum xt_status list_bad_of_val(struct xt_trainer *trainer, enum xt_status status,
                                      struct xt_err *err)
{
    const struct xt_evaluation *e = &trainer->last_evaluation;
    struct xt_err own;
    if (!xt_ranks_is_first(trainer->settings->ranks))
        return status;
    enum xt_status listed =
        xt_bad_images_add(&trainer->bad, trainer->val, e->bad, e->bad_images, status ? &own : err);
    return status ? status : listed;
}

static enum xt_status evaluate(struct xt_trainer *trainer, struct xt_err *err)
{
    if (!trainer->val || trainer->evaluated_step == trainer->step)
        return XT_OK;
    struct xt_train_progress progress = progress_now(trainer);
    struct xt_evaluation *evaluation = &trainer->last_evaluation;
    xt_evaluation_clear(evaluation);
    enum xt_status status =
        xt_evaluate(&trainer->network, trainer->objective, trainer->val, trainer->settings,
                    &(struct xt_evaluate_observer){0}, evaluation, err);
    status = list_bad_of_val(trainer, status, err);
    if (status)
        return status;
    trainer->evaluated_step = trainer->step;
    trainer->saved_step = -1;
    const struct xt_merit merit = xt_evaluation_merit(trainer->objective, evaluation);
    bool best = trainer->best_step < 0 || xt_merit_is_better(&merit, &trainer->best);
    if (best) {
        trainer->best_step = trainer->step;
        trainer->best = merit;
        if (xt_ranks_is_first(trainer->settings->ranks))
            status = save_weights(trainer, "best.safetensors", err);
    }
    if (!status)
        status = log_evaluation(trainer, &progress, evaluation, err);
    if (trainer->observer.evaluated)
        trainer->observer.evaluated(trainer->observer.context, &progress, evaluation, best);
    begin_rates(trainer);
    return status;
}

/* Given weights are evaluated before the first step: they may be the best there are. */
static bool evaluation_is_due(const struct xt_trainer *trainer)
{
    if (trainer->step == 0)
        return trainer->settings->init;
    int64_t epoch = trainer->step / trainer->epoch_steps;
    int every = trainer->settings->eval_every;
    return every && trainer->step % trainer->epoch_steps == 0 && epoch % every == 0 &&
           trainer->step < trainer->steps;
}

static enum xt_status after_step(struct xt_trainer *trainer, struct xt_err *err)
{
    enum xt_status status = report(trainer, err);
    if (!status && evaluation_is_due(trainer))
        status = evaluate(trainer, err);
    int64_t every =
        trainer->settings->save_every ? trainer->settings->save_every : trainer->epoch_steps;
    /* After the last step there is an evaluation first. */
    if (!status && trainer->step % every == 0 && trainer->step < trainer->steps)
        status = save(trainer, err);
    return status;
}

static enum xt_status train_batch(struct xt_trainer *trainer, struct xt_err *err)
{
    struct xt_feed_batch batch;
    bool end = false;
    double waited = 0;
    double loss = 0;
    struct xt_crossed before;
    xt_crossed_read(&trainer->network.device, &before);
    enum xt_status status = xt_feed_next(trainer->feed, &batch, &end, &waited, err);
    if (status) {
        struct xt_err own;
        if (!trainer->team)
            list_bad_images(trainer, &own);
        return status;
    }
    status = xt_trainer_step(trainer, &batch, &loss, err);
    xt_feed_release(trainer->feed, &batch);
    if (status)
        return status;
    trainer->loss_sum += loss;
    trainer->loss_steps++;
    trainer->wait_sum += waited;
    xt_crossed_add_since(&trainer->network.device, &before, &trainer->crossed);
    return after_step(trainer, err);
}

static enum xt_status stop(struct xt_trainer *trainer, enum xt_status why, struct xt_err *err)
{
    enum xt_status status = save(trainer, err);
    if (status)
        return status;
    return xt_err_set(err, why, "%s at step %" PRId64 " of %" PRId64 "; all is saved",
                      why == XT_INTERRUPTED ? "interrupted" : "stopped", trainer->step,
                      trainer->steps);
}

/* Steps up to the end of the run or of --max-time; XT_STOPPED or XT_INTERRUPTED where it is to be
 * saved and left. */
static enum xt_status train(struct xt_trainer *trainer, struct xt_err *err)
{
    bool done = false;
    /* Due where the run was stopped before or during that evaluation. */
    enum xt_status status = evaluation_is_due(trainer) ? evaluate(trainer, err) : XT_OK;
    while (!status && trainer->step < trainer->steps) {
        status = trainer->team ? trainer->vote.stop : why_stop(trainer, &done);
        done = done || trainer->vote.done;
        if (status || done)
            break;
        status = train_batch(trainer, err);
    }
    xt_feed_note_waits(trainer->feed, &trainer->loader_config,
                       xt_thread_seconds() - trainer->start_time);
    struct xt_err own;
    enum xt_status logged = log_rest(trainer, status ? &own : err);
    status = status ? status : logged;
    return status ? status : evaluate(trainer, err);
}

enum xt_status xt_trainer_run(struct xt_trainer *trainer, const struct xt_train_observer *observer,
                              struct xt_err *err)
{
    trainer->observer = *observer;
    trainer->start_time = xt_thread_seconds();
    begin_rates(trainer);
    enum xt_status status =
        xt_monitor_start(&trainer->monitor, &trainer->network.device, XT_MONITOR_INTERVAL, err);
    if (!status)
        status = train(trainer, err);
    xt_monitor_stop(trainer->monitor);
    xt_monitor_read(trainer->monitor, &trainer->device_figures);
    note_unreadable(trainer);
    if (status == XT_STOPPED || status == XT_INTERRUPTED)
        return stop(trainer, status, err);
    return status ? status : save(trainer, err);
}
