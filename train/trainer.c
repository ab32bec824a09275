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
#include "data/sources/part.h"
#include "data/sources/registry.h"
#include "train/network/auto_batch.h"
#include "train/network/network_build.h"
#include "train/feed.h"
#include "train/ranks/place.h"
#include "train/ranks/state.h"

/* ---- opening ---- */

/* --batch auto takes no more than there are. */
static enum xt_status check_enough(const struct xt_trainer *trainer, const char *data,
                                   struct xt_err *err)
{
    const struct xt_settings *s = trainer->settings;
    size_t images = trainer->source->count;
    int batches = xt_step_batches(s);
    if (images / (size_t)batches >= (size_t)(s->batch ? s->batch : 1))
        return XT_OK;
    if (batches == 1)
        return xt_err_set(err, XT_ERR_USAGE,
                          "%s--data %s has %s, fewer than one batch; give a smaller --batch "
                          "than %d",
                          s->overfit ? "what --overfit takes of " : "", data,
                          xt_count((long long)images, "image").text, s->batch);
    return xt_err_set(err, XT_ERR_USAGE,
                      "--data %s has %s, fewer than --accumulate %d batches of %d, which "
                      "make one step; give less of either",
                      data, xt_count((long long)images, "image").text, batches,
                      s->batch ? s->batch : 1);
}

/* --overfit: some of the images, which are trained and evaluated on. */
static enum xt_status take_part(struct xt_trainer *trainer, const char *data, struct xt_err *err)
{
    size_t wanted = (size_t)trainer->settings->overfit;
    struct xt_source *whole = trainer->source;
    if (whole->count < wanted)
        return xt_err_set(err, XT_ERR_USAGE, "--overfit %zu: --data %s has %s", wanted, data,
                          xt_count((long long)whole->count, "image").text);
    enum xt_status status = xt_source_part(&trainer->source, whole, true, wanted, err);
    return status ? status : xt_source_part(&trainer->val, trainer->source, false, wanted, err);
}

static enum xt_status open_source(struct xt_trainer *trainer, struct xt_err *err)
{
    const struct xt_settings *s = trainer->settings;
    struct xt_source_options options = xt_network_source_options(&trainer->network);
    const char *data = s->data ? s->data : trainer->network.model->default_data;
    enum xt_status status = xt_source_open(&trainer->source, data, &options, err);
    if (!status && s->overfit)
        status = take_part(trainer, data, err);
    return status ? status : check_enough(trainer, data, err);
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
    if (!val || s->overfit)
        return XT_OK;
    enum xt_status status = xt_network_open_source(&trainer->network, val, &trainer->val, err);
    return status ? status : warn_of_shared(trainer, val, err);
}

/* What cannot be watched as was asked. */
static enum xt_status check_watch(const struct xt_trainer *trainer, struct xt_err *err)
{
    const struct xt_settings *s = trainer->settings;
    if (s->patience && !trainer->val)
        return xt_err_set(err, XT_ERR_USAGE,
                          "--patience %d counts evaluations, and there is nothing to evaluate on; "
                          "give --val",
                          s->patience);
    if (s->patience && !s->eval_every)
        return xt_err_set(err, XT_ERR_USAGE,
                          "--patience %d counts evaluations, and with --eval-every 0 the only one "
                          "is at the end",
                          s->patience);
    if (s->on_nan == XT_ON_NAN_SKIP && trainer->network.device.own_memory)
        return xt_err_set(err, XT_ERR_USAGE,
                          "--on-nan skip is for the CPU: an XPU has moved its running statistics "
                          "before it is known that a step is to be left out; use rollback or stop");
    return XT_OK;
}

/* What several ranks do not do together yet. */
static enum xt_status check_ranks(const struct xt_settings *s, struct xt_err *err)
{
    const struct {
        bool asked;
        const char *option;
    } alone[] = {
        {s->accumulate > 1, "--accumulate"},
        {s->ema > 0, "--ema"},
        {s->overfit > 0, "--overfit"},
        {s->on_nan != XT_ON_NAN_STOP, "--on-nan skip and rollback"},
        {s->on_device_loss != XT_LOSS_STOP, "--on-device-loss resume"},
    };
    for (size_t i = 0; i < sizeof alone / sizeof *alone && s->ranks; i++)
        if (alone[i].asked)
            return xt_err_set(err, XT_ERR_USAGE,
                              "%s: for one process alone, and these are %d; leave it out, or start "
                              "one",
                              alone[i].option, s->ranks->size);
    return XT_OK;
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
    trainer->epoch_steps =
        (int64_t)xt_loader_epoch_steps(&trainer->loader_config) / xt_step_batches(s);
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
    return xt_auto_batch_take(&trainer->network, s, true,
                              trainer->source->count / (size_t)xt_step_batches(s), batch, err);
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
    if (!status)
        status = xt_step_open(trainer, err);
    if (!status && trainer->settings->ranks)
        status = join_ranks(trainer, err);
    trainer->prepare_span = xt_span_since(&start);
    return status;
}

enum xt_status xt_trainer_init(struct xt_trainer *trainer, const struct xt_settings *settings,
                               struct xt_err *err)
{
    *trainer = (struct xt_trainer){.settings = settings,
                                   .init_time = xt_thread_seconds(),
                                   .folder = {.lock = -1},
                                   .log = {.fd = -1},
                                   .report = {.events = {.fd = -1}},
                                   .best_step = -1,
                                   .lr_factor = 1,
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
        status = check_watch(trainer, err);
    if (!status)
        status = check_ranks(settings, err);
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
        .averages = trainer->ema != NULL,
        .sums = trainer->sum != NULL,
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
    xt_step_close(trainer);
    xt_team_destroy(trainer->team);
    xt_xpu_optim_destroy(trainer->xpu_optim);
    for (int i = 0; i < 2; i++)
        free(trainer->optim.state[i]);
    xt_evaluation_clear(&trainer->last_evaluation);
    xt_evaluation_clear(&trainer->average_evaluation);
    xt_bad_images_clear(&trainer->bad);
    xt_proof_close(&trainer->proof);
    xt_log_writer_close(&trainer->log);
    xt_run_report_close(&trainer->report);
    xt_resume_clear(&trainer->resume);
    xt_run_folder_clear(&trainer->folder);
    xt_network_clear(&trainer->network);
    *trainer = (struct xt_trainer){
        .folder = {.lock = -1}, .log = {.fd = -1}, .report = {.events = {.fd = -1}}};
}

/* ---- the run's folder ---- */

/* An evaluation that is not in the checkpoint is made again, a mean that is not ended goes on. */
static enum xt_status open_log(struct xt_trainer *trainer, struct xt_err *err)
{
    char *path = NULL;
    const struct xt_log_keep keep = {.training = trainer->step - trainer->loss_steps,
                                     .evaluations = trainer->evaluated_step};
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
    enum xt_status status = open_log(trainer, err);
    if (!status)
        status = xt_run_folder_file(&trainer->folder, "bad_images.txt", &bad, err);
    if (!status)
        status = xt_bad_images_open(&trainer->bad, bad, err);
    free(bad);
    const struct xt_proof_start start = {
        .device = &trainer->network.device,
        .type = xt_amp_dtype(trainer->settings->amp),
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

static void take_state(struct xt_trainer *trainer, const struct xt_checkpoint *state)
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

/* The moving average as the checkpoint has it; else it begins with the weights. */
static enum xt_status begin_average(struct xt_trainer *trainer,
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
    if (!status)
        status = begin_average(trainer, &trainer->resume.from, err);
    xt_resume_clear(&trainer->resume);
    return status;
}

static enum xt_status open_feed(struct xt_trainer *trainer, struct xt_err *err)
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
    return status ? status : open_feed(trainer, err);
}

double xt_trainer_seconds(const struct xt_trainer *trainer)
{
    return trainer->earlier_seconds + xt_thread_seconds() - trainer->start_time;
}

/* The power of an XPU is read at intervals, the CPU packages count their energy. */
struct xt_run_costs xt_trainer_costs(const struct xt_trainer *trainer)
{
    const struct xt_reading *power = &trainer->device_figures.power;
    double here = xt_thread_seconds() - trainer->start_time;
    struct xt_run_costs costs = trainer->costs;
    if (trainer->monitor)
        costs.energy += power->known ? power->value * here : NAN;
    else
        costs.energy += trainer->energy.count ? trainer->energy.joules : NAN;
    return costs;
}

/* On an XPU it is only now that their statistics come to the host. */
static enum xt_status check_weights(struct xt_trainer *trainer, struct xt_err *err)
{
    enum xt_status status = xt_params_pull(&trainer->network.params, err);
    if (status || !xt_step_check_statistics(trainer, err))
        return status;
    trainer->diverged = true;
    return err->status;
}

static enum xt_status save_weights(struct xt_trainer *trainer, const char *name, struct xt_err *err)
{
    char *path = NULL;
    enum xt_status status = xt_run_folder_file(&trainer->folder, name, &path, err);
    if (!status)
        status = check_weights(trainer, err);
    if (!status)
        status = xt_proof_before(&trainer->proof, name, err);
    if (!status)
        status = xt_network_save(&trainer->network, path, err);
    if (!status)
        status = xt_proof_after(&trainer->proof, name, trainer->step, err);
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

/* The moving average under a name of its own. */
static enum xt_status save_average(struct xt_trainer *trainer, const char *name, struct xt_err *err)
{
    struct xt_err own;
    enum xt_status status = xt_ema_exchange(trainer->ema, err);
    if (!status)
        status = save_weights(trainer, name, err);
    enum xt_status back = xt_ema_exchange(trainer->ema, status ? &own : err);
    return status ? status : back;
}

static enum xt_status save_checkpoint(struct xt_trainer *trainer,
                                      const struct xt_checkpoint *checkpoint, struct xt_err *err)
{
    struct xt_params_view average = {NULL, NULL};
    struct xt_err own;
    enum xt_status status = trainer->ema ? xt_ema_map(trainer->ema, &average, err) : XT_OK;
    if (!status)
        status =
            xt_checkpoint_save(checkpoint, trainer->settings, &trainer->network, &trainer->optim,
                               &average, trainer->folder.path, trainer->settings->keep, err);
    if (average.values) {
        enum xt_status unmapped = xt_ema_unmap(trainer->ema, status ? &own : err);
        status = status ? status : unmapped;
    }
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
        .best_is_average = trainer->best_is_average,
        .patience = trainer->patience,
        .spikes = trainer->spikes,
        .lr_factor = trainer->lr_factor,
        .left_out = trainer->left_out,
        .ema_updates = trainer->ema ? xt_ema_updates(trainer->ema) : -1,
        .evaluated_step = trainer->evaluated_step,
        .loss_sum = trainer->loss_sum,
        .loss_steps = trainer->loss_steps,
        .scaler = trainer->scaler,
        .seconds = xt_trainer_seconds(trainer),
        .costs = xt_trainer_costs(trainer),
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
    if (!status && trainer->ema)
        status = save_average(trainer, "ema.safetensors", err);
    if (!status && trainer->xpu_optim)
        status = xt_xpu_optim_pull(trainer->xpu_optim, err);
    if (!status)
        status = save_checkpoint(trainer, &checkpoint, err);
    if (status)
        return status;
    trainer->saved_step = trainer->step;
    trainer->rollbacks = 0;
    return XT_OK;
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
        .lr = xt_step_lr(trainer, trainer->step ? trainer->step - 1 : 0),
        .images_per_s = since > 0 ? (double)steps * xt_step_images(trainer) / since : NAN,
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

/* Of the CPU the memory of the process, and the part of its threads' time that it computed. */
static void log_host(struct xt_trainer *trainer)
{
    struct xt_span span = xt_span_since(&trainer->report_span);
    double busy = span.cpu / (span.wall * trainer->network.device.threads);
    double memory = (double)xt_thread_memory_used();
    xt_log_writer_number(&trainer->log, "device_memory_bytes", memory > 0 ? memory : NAN);
    xt_log_writer_number(&trainer->log, "device_busy", busy < 1 ? busy : 1);
}

/* Ends a line of the record, whose figures TensorBoard gets too. */
static enum xt_status end_line(struct xt_trainer *trainer, struct xt_err *err)
{
    enum xt_status status = xt_log_writer_end(&trainer->log, err);
    if (!status)
        xt_events_line(&trainer->report.events, trainer->log.line, trainer->log.length);
    return status;
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
    if (trainer->settings->on_nan == XT_ON_NAN_SKIP)
        xt_log_writer_integer(log, "left_out_steps", trainer->left_out);
    if (trainer->spikes.count > trainer->spikes.told)
        xt_log_writer_integer(log, "spikes", trainer->spikes.count - trainer->spikes.told);
    if (p->device)
        log_device(log, p->device);
    else
        log_host(trainer);
    return end_line(trainer, err);
}

static void log_average(struct xt_log_writer *log, const struct xt_evaluation *evaluation)
{
    char key[64];
    xt_log_writer_integer(log, "ema_correct", (int64_t)evaluation->correct);
    for (int i = 0; i < evaluation->metric_count; i++) {
        snprintf(key, sizeof key, "ema_%s", evaluation->metrics[i].key);
        xt_log_writer_number(log, key, evaluation->metrics[i].value);
    }
    xt_log_writer_number(log, "ema_val_loss", evaluation->loss);
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
    if (trainer->ema)
        log_average(log, &trainer->average_evaluation);
    return end_line(trainer, err);
}

/* Rates are taken from one report or evaluation to the next; the mean loss from one line of the
 * record to the next, over however many starts, so that a resumed run writes the same. */
static void begin_rates(struct xt_trainer *trainer)
{
    trainer->wait_sum = 0;
    trainer->report_time = xt_thread_seconds();
    trainer->report_step = trainer->step;
    trainer->report_span = xt_span_now();
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
    xt_energy_read(&trainer->energy);
    enum xt_status status = log_step(trainer, &progress, err);
    trainer->loss_sum = 0;
    trainer->loss_steps = 0;
    trainer->spikes.told = trainer->spikes.count;
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

static void write_report(struct xt_trainer *trainer, const char *state, bool last)
{
    if (!xt_ranks_is_first(trainer->settings->ranks))
        return;
    const struct xt_run_facts facts = {
        .network = &trainer->network,
        .data = trainer->source->description,
        .val = trainer->val ? trainer->val->description : NULL,
        .step = trainer->step,
        .steps = trainer->steps,
        .epoch_steps = trainer->epoch_steps,
        .images = xt_step_images(trainer),
        .seconds = xt_trainer_seconds(trainer),
        .costs = xt_trainer_costs(trainer),
        .best_step = trainer->best_step,
        .best = trainer->best,
        .profiled = trainer->profiled,
        .state = state,
    };
    xt_run_report_write(&trainer->report, &facts, last);
}

static void take_answer(void *errors, const struct xt_answer *answer)
{
    xt_errors_add(errors, answer);
}

/* `errors`, where not NULL, takes the answers. */
static enum xt_status evaluate_weights(struct xt_trainer *trainer, struct xt_errors *errors,
                                       struct xt_evaluation *evaluation, struct xt_err *err)
{
    const struct xt_evaluate_observer observer = {.context = errors,
                                                  .answer = errors ? take_answer : NULL};
    xt_evaluation_clear(evaluation);
    return xt_evaluate(&trainer->network, trainer->objective, trainer->val, trainer->settings,
                       &observer, evaluation, err);
}

static enum xt_status evaluate_average(struct xt_trainer *trainer, struct xt_err *err)
{
    struct xt_err own;
    if (!trainer->ema)
        return XT_OK;
    enum xt_status status = xt_ema_exchange(trainer->ema, err);
    if (!status)
        status = evaluate_weights(trainer, NULL, &trainer->average_evaluation, err);
    enum xt_status back = xt_ema_exchange(trainer->ema, status ? &own : err);
    return status ? status : back;
}

/* Whether these are the best so far, which they become. */
static bool become_best(struct xt_trainer *trainer, const struct xt_merit *merit, bool average)
{
    if (trainer->best_step >= 0 && !xt_merit_is_better(merit, &trainer->best))
        return false;
    trainer->best_step = trainer->step;
    trainer->best = *merit;
    trainer->best_is_average = average;
    return true;
}

/* The better one of the weights and their moving average is saved where it is the best. best[0]:
 * the weights were better than all before, best[1]: so was their average. */
static enum xt_status judge(struct xt_trainer *trainer, bool best[2], struct xt_err *err)
{
    const struct xt_merit merit =
        xt_evaluation_merit(trainer->objective, &trainer->last_evaluation);
    struct xt_merit better = merit;
    best[0] = become_best(trainer, &merit, false);
    best[1] = false;
    if (trainer->ema) {
        const struct xt_merit average =
            xt_evaluation_merit(trainer->objective, &trainer->average_evaluation);
        best[1] = become_best(trainer, &average, true);
        if (xt_merit_is_better(&average, &merit))
            better = average;
    }
    xt_patience_see(&trainer->patience, &better, trainer->settings->min_delta);
    if (!xt_ranks_is_first(trainer->settings->ranks))
        return XT_OK;
    if (best[1])
        return save_average(trainer, "best.safetensors", err);
    return best[0] ? save_weights(trainer, "best.safetensors", err) : XT_OK;
}

static void tell_evaluations(const struct xt_trainer *trainer, struct xt_train_progress *progress,
                             const bool best[2])
{
    const struct xt_train_observer *observer = &trainer->observer;
    if (!observer->evaluated)
        return;
    observer->evaluated(observer->context, progress, &trainer->last_evaluation, best[0]);
    progress->of_average = true;
    if (trainer->ema)
        observer->evaluated(observer->context, progress, &trainer->average_evaluation, best[1]);
}

static enum xt_status evaluate_with(struct xt_trainer *trainer, struct xt_errors *errors,
                                    struct xt_err *err)
{
    struct xt_train_progress progress = progress_now(trainer);
    enum xt_status status = check_weights(trainer, err);
    if (status)
        return status;
    status = evaluate_weights(trainer, errors, &trainer->last_evaluation, err);
    status = list_bad_of_val(trainer, status, err);
    if (!status)
        status = evaluate_average(trainer, err);
    if (status)
        return status;
    trainer->evaluated_step = trainer->step;
    trainer->saved_step = -1;
    bool best[2];
    status = judge(trainer, best, err);
    if (!status)
        status = log_evaluation(trainer, &progress, &trainer->last_evaluation, err);
    tell_evaluations(trainer, &progress, best);
    if (!status && errors)
        xt_run_report_take(&trainer->report, errors, &trainer->last_evaluation, trainer->val,
                           trainer->step);
    return status;
}

static enum xt_status evaluate(struct xt_trainer *trainer, struct xt_err *err)
{
    if (!trainer->val || trainer->evaluated_step == trainer->step)
        return XT_OK;
    struct xt_errors errors;
    double start = xt_thread_seconds();
    /* Of several ranks each has seen a part of the answers. */
    bool alone = !trainer->settings->ranks;
    enum xt_status status = xt_errors_init(&errors, trainer->objective, XT_RUN_ERRORS, err);
    if (!status)
        status = evaluate_with(trainer, alone ? &errors : NULL, err);
    xt_errors_clear(&errors);
    trainer->costs.evaluation += xt_thread_seconds() - start;
    /* At the end the page is written anyway. */
    if (!status && trainer->step < trainer->steps)
        write_report(trainer, "running", false);
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
    if (status || trainer->step % every != 0 || trainer->step >= trainer->steps)
        return status;
    status = save(trainer, err);
    /* With evaluations it comes after those. */
    if (!status && !trainer->val)
        write_report(trainer, "running", false);
    return status;
}

/* Some of a process's first steps, when they have come to their speed, have their ops timed for the
 * report. */
static void profile_some(struct xt_trainer *trainer)
{
    enum { FROM = 4, STEPS = 4 };
    int64_t own = trainer->step - trainer->start_step;
    trainer->network.graph->profile = own >= FROM && own < FROM + STEPS;
    trainer->profiled += trainer->network.graph->profile;
}

/* A loss far above those before is told: something may be about to go wrong. */
static void watch_loss(struct xt_trainer *trainer, double loss)
{
    double level = trainer->spikes.level;
    if (!xt_spikes_see(&trainer->spikes, loss))
        return;
    xt_log_note("step %" PRId64 ": the loss is %.4g, far above the %.4g of the steps before (a "
                "spike, number %" PRId64 " of this run)",
                trainer->step, loss, level, trainer->spikes.count);
}

static enum xt_status next_batch(struct xt_trainer *trainer, struct xt_feed_batch *batch,
                                 struct xt_err *err)
{
    bool end = false;
    double waited = 0;
    enum xt_status status = xt_feed_next(trainer->feed, batch, &end, &waited, err);
    trainer->wait_sum += waited;
    trainer->costs.loading += waited;
    if (status) {
        struct xt_err own;
        if (!trainer->team)
            list_bad_images(trainer, &own);
    }
    return status;
}

/* The first batch is there before the step begins. */
static enum xt_status run_batches(struct xt_trainer *trainer, double *loss, struct xt_err *err)
{
    struct xt_feed_batch batch;
    enum xt_status status = next_batch(trainer, &batch, err);
    struct xt_span start = xt_span_now();
    if (!status)
        xt_step_begin(trainer);
    for (int i = 0; !status; i++) {
        status = xt_step_add(trainer, &batch, err);
        xt_feed_release(trainer->feed, &batch);
        if (status || i + 1 == xt_step_batches(trainer->settings))
            break;
        status = next_batch(trainer, &batch, err);
    }
    if (!status)
        status = xt_step_end(trainer, loss, err);
    if (trainer->first_step.wall == 0)
        trainer->first_step = xt_span_since(&start);
    return status;
}

static enum xt_status run_step(struct xt_trainer *trainer, struct xt_err *err)
{
    double loss = 0;
    struct xt_crossed before;
    xt_crossed_read(&trainer->network.device, &before);
    profile_some(trainer);
    enum xt_status status = run_batches(trainer, &loss, err);
    trainer->network.graph->profile = false;
    if (status)
        return status;
    const struct xt_step_seconds *took = &trainer->step_seconds;
    xt_watchdog_step(trainer->watchdog, took->forward + took->loss + took->backward + took->update);
    xt_crossed_add_since(&trainer->network.device, &before, &trainer->crossed);
    if (isnan(loss))
        return XT_OK;
    watch_loss(trainer, loss);
    trainer->loss_sum += loss;
    trainer->loss_steps++;
    return XT_OK;
}

/* ---- back to the last checkpoint ---- */

enum { ROLLBACKS_MOST = 3 };

/* What was trained since then is gone, but for best weights that were found: they are the best. */
static enum xt_status take_checkpoint(struct xt_trainer *trainer,
                                      const struct xt_checkpoint_file *from, struct xt_err *err)
{
    int64_t best_step = trainer->best_step;
    struct xt_merit best = trainer->best;
    bool best_is_average = trainer->best_is_average;
    double seconds = trainer->earlier_seconds;
    enum xt_status status =
        xt_checkpoint_load(from, trainer->settings, &trainer->network, &trainer->optim, err);
    if (!status)
        status = begin_average(trainer, from, err);
    if (status)
        return status;
    if (trainer->xpu_optim)
        xt_xpu_optim_reload(trainer->xpu_optim);
    take_state(trainer, &from->state);
    trainer->earlier_seconds = seconds;
    trainer->best_step = best_step;
    trainer->best = best;
    trainer->best_is_average = best_is_average;
    trainer->lr_factor = from->state.lr_factor * pow(0.5, trainer->rollbacks);
    return XT_OK;
}

/* For whoever reads the record: a line of the step that failed. */
static enum xt_status log_rollback(struct xt_trainer *trainer, int64_t failed, struct xt_err *err)
{
    struct xt_log_writer *log = &trainer->log;
    xt_log_writer_begin(log);
    xt_log_writer_integer(log, "step", failed);
    xt_log_writer_number(log, "time", round(1000 * xt_trainer_seconds(trainer)) / 1000);
    xt_log_writer_integer(log, "rolled_back_to", trainer->step);
    xt_log_writer_number(log, "lr_factor", trainer->lr_factor);
    return end_line(trainer, err);
}

static enum xt_status reopen(struct xt_trainer *trainer, int64_t failed, struct xt_err *err)
{
    enum xt_status status = list_bad_images(trainer, err);
    xt_feed_destroy(trainer->feed);
    trainer->feed = NULL;
    xt_log_writer_close(&trainer->log);
    xt_run_report_close(&trainer->report);
    if (!status)
        status = open_log(trainer, err);
    if (!status)
        status = log_rollback(trainer, failed, err);
    if (!status)
        status = open_feed(trainer, err);
    begin_rates(trainer);
    return status;
}

/* After numbers that are none, as err says: from the newest checkpoint, at half the rate. */
static enum xt_status roll_back(struct xt_trainer *trainer, struct xt_err *err)
{
    struct xt_err why = *err;
    int64_t failed = trainer->step + 1;
    struct xt_checkpoint_file from;
    trainer->diverged = false;
    if (trainer->rollbacks == ROLLBACKS_MOST)
        return xt_err_set(err, why.status,
                          "%s; %d times it went back to the checkpoint before (--on-nan rollback), "
                          "the last time at %g of the rate, and it came to the same",
                          why.text, ROLLBACKS_MOST, trainer->lr_factor);
    enum xt_status status = xt_checkpoint_open_newest(&from, trainer->folder.path, err);
    if (!status && !from.path)
        status =
            xt_err_set(err, why.status, "%s; there is no whole checkpoint to go back to", why.text);
    trainer->rollbacks++;
    if (!status)
        status = take_checkpoint(trainer, &from, err);
    xt_checkpoint_close(&from);
    if (!status)
        xt_log_warn("%s; going back to step %" PRId64 ", on at %g of the rate (--on-nan rollback, "
                    "%d of %d)",
                    why.text, trainer->step, trainer->lr_factor, trainer->rollbacks,
                    ROLLBACKS_MOST);
    return status ? status : reopen(trainer, failed, err);
}

static enum xt_status train_step(struct xt_trainer *trainer, struct xt_err *err)
{
    enum xt_status status = run_step(trainer, err);
    if (!status)
        status = after_step(trainer, err);
    if (status && trainer->diverged && trainer->settings->on_nan == XT_ON_NAN_ROLLBACK)
        return roll_back(trainer, err);
    return status;
}

/* Primitives are made for a number of threads: for another one the run has to begin again. */
static void watch_cpus(struct xt_trainer *trainer)
{
    const struct xt_settings *s = trainer->settings;
    const struct xt_device *device = &trainer->network.device;
    double every = s->threads || s->ranks || device->own_memory ? 0 : s->watch_cpus;
    xt_others_begin(&trainer->others, device->threads, xt_thread_available(NULL), every);
}

bool xt_trainer_has_learnt(const struct xt_trainer *trainer)
{
    return trainer->best_step > 0 && trainer->best.accuracy == 1;
}

/* Why training ends before its last step, XT_OK while it goes on. *done: by what is a proper end.
 */
static enum xt_status why_stop(struct xt_trainer *trainer, bool *done)
{
    const struct xt_settings *s = trainer->settings;
    double here = xt_thread_seconds() - trainer->start_time;
    enum xt_status asked = xt_stop_status();
    if (asked)
        return asked;
    if (s->stop_after > 0 && here >= s->stop_after)
        return XT_STOPPED;
    if (s->max_time > 0 && xt_trainer_seconds(trainer) >= s->max_time)
        trainer->end = XT_END_TIME;
    else if (xt_patience_is_over(&trainer->patience, s->patience))
        trainer->end = XT_END_PATIENCE;
    else if (s->overfit && xt_trainer_has_learnt(trainer))
        trainer->end = XT_END_LEARNT;
    *done = trainer->end != XT_END_STEPS;
    trainer->threads_again = *done ? 0 : xt_others_look(&trainer->others, xt_thread_seconds());
    return trainer->threads_again ? XT_STOPPED : XT_OK;
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

/* A run that goes on takes the number of threads from its checkpoint. */
static enum xt_status save_for_threads(struct xt_trainer *trainer, struct xt_err *err)
{
    int threads = trainer->network.device.threads;
    trainer->network.device.threads = trainer->threads_again;
    trainer->saved_step = -1;
    enum xt_status status = save(trainer, err);
    trainer->network.device.threads = threads;
    if (status)
        return status;
    return xt_err_set(err, XT_STOPPED,
                      "other processes %s the CPUs: going on from step %" PRId64
                      " with %s, which is faster then; sums differ in their last digits "
                      "(--threads %d holds to its number)",
                      trainer->threads_again < threads ? "hold" : "have left", trainer->step,
                      xt_count(trainer->threads_again, "thread").text, threads);
}

static enum xt_status stop(struct xt_trainer *trainer, enum xt_status why, struct xt_err *err)
{
    if (trainer->threads_again)
        return save_for_threads(trainer, err);
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
    /* There is a checkpoint to go back to from the first step on. */
    if (!status && trainer->saved_step < 0 && trainer->settings->on_nan == XT_ON_NAN_ROLLBACK)
        status = save(trainer, err);
    while (!status && trainer->step < trainer->steps) {
        status = trainer->team ? trainer->vote.stop : why_stop(trainer, &done);
        done = done || trainer->vote.done;
        if (status || done)
            break;
        status = train_step(trainer, err);
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
    /* As the run's page says them: what begins with "done" came to its end. */
    static const char *const ends[] = {
        [XT_END_STEPS] = "done",
        [XT_END_TIME] = "done: the time of --max-time is spent",
        [XT_END_PATIENCE] = "done: nothing was gained any more (--patience)",
        [XT_END_LEARNT] = "done: learnt by heart",
    };
    trainer->observer = *observer;
    trainer->start_time = xt_thread_seconds();
    /* Not the process' age: a run that starts itself again keeps its process. */
    trainer->costs.start += trainer->start_time - trainer->init_time;
    xt_energy_open(&trainer->energy, NULL);
    begin_rates(trainer);
    watch_cpus(trainer);
    trainer->agree = trainer->team ? vote : NULL;
    enum xt_status status =
        xt_monitor_start(&trainer->monitor, &trainer->network.device, XT_MONITOR_INTERVAL, err);
    if (!status)
        status = xt_watchdog_start(&trainer->watchdog, &trainer->network.device,
                                   trainer->settings->device_timeout, err);
    /* So that whoever looks before the first evaluation sees that it goes on, and later that it was
     * killed. */
    if (!status)
        write_report(trainer, "running", false);
    if (!status)
        status = train(trainer, err);
    xt_watchdog_stop(trainer->watchdog);
    trainer->watchdog = NULL;
    xt_monitor_stop(trainer->monitor);
    xt_monitor_read(trainer->monitor, &trainer->device_figures);
    note_unreadable(trainer);
    xt_energy_read(&trainer->energy);
    if (status == XT_STOPPED || status == XT_INTERRUPTED)
        status = stop(trainer, status, err);
    else if (!status)
        status = save(trainer, err);
    write_report(trainer, status ? err->text : ends[trainer->end], true);
    return status;
}
