/* Preparation of a trainer, before anything is written: the data, the network, the optimizer, the
 * ranks; and checks of its settings. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "models/loaded.h"
#include "base/mem.h"
#include "base/system/openmp.h"
#include "base/system/thread.h"
#include "data/overlap.h"
#include "data/sources/part.h"
#include "data/sources/registry.h"
#include "infer/network/auto_batch.h"
#include "infer/network/network_build.h"
#include "ranks/place.h"
#include "train/ranks/compare.h"
#include "train/ranks/state.h"
#include "train/trainer/parts.h"
#include "train/trainer/step.h"
#include "train/trainer/trainer_internal.h"

/* --batch auto does not exceed the number of images. */
static enum xt_status check_enough(const struct xt_trainer *trainer, const char *data,
                                   struct xt_err *err)
{
    const struct xt_train_settings *s = trainer->settings;
    size_t images = trainer->source->count;
    int batches = xt_train_step_batches(s);
    if (images / (size_t)batches >= (size_t)(s->network.batch ? s->network.batch : 1))
        return XT_OK;
    if (batches == 1)
        return xt_err_set(
            err, XT_ERR_USAGE,
            "%s--data %s has %s, fewer than one batch of %d; give --batch %zu or less",
            s->run.overfit ? "what --overfit takes of " : "", xt_source_specs_shown(data).text,
            xt_count((long long)images, "image").text, s->network.batch, images);
    return xt_err_set(err, XT_ERR_USAGE,
                      "--data %s has %s, fewer than --accumulate %d batches of %d, which "
                      "make one step; give less of either",
                      xt_source_specs_shown(data).text, xt_count((long long)images, "image").text,
                      batches, s->network.batch ? s->network.batch : 1);
}

/* --overfit: some of the images, which are trained and evaluated on. */
static enum xt_status take_part(struct xt_trainer *trainer, const char *data, struct xt_err *err)
{
    size_t wanted = (size_t)trainer->settings->run.overfit;
    struct xt_source *whole = trainer->source;
    if (whole->count < wanted)
        return xt_err_set(err, XT_ERR_USAGE, "--overfit %zu: --data %s has %s", wanted, data,
                          xt_count((long long)whole->count, "image").text);
    enum xt_status status = xt_source_part(&trainer->source, whole, true, wanted, err);
    return status ? status : xt_source_part(&trainer->val, trainer->source, false, wanted, err);
}

static enum xt_status open_source(struct xt_trainer *trainer, struct xt_err *err)
{
    const struct xt_train_settings *s = trainer->settings;
    struct xt_source_options options = xt_network_source_options(&trainer->network);
    const char *data = s->data.images ? s->data.images : trainer->network.model->default_data;
    enum xt_status status = xt_source_open(&trainer->source, data, &options, err);
    if (!status && s->run.overfit)
        status = take_part(trainer, data, err);
    else if (!status && s->data.val_part > 0)
        status = xt_source_hold_out(trainer->source, s->data.val_part, s->data.seed,
                                    &trainer->source, &trainer->val, err);
    return status ? status : check_enough(trainer, data, err);
}

/* An evaluation on training images does not measure generalization. */
static enum xt_status warn_of_shared(const struct xt_trainer *trainer, const char *val,
                                     struct xt_err *err)
{
    struct xt_overlap overlap;
    if (!trainer->val)
        return XT_OK;
    enum xt_status status = xt_overlap_find(&overlap, trainer->val, trainer->source, err);
    if (!status && overlap.count)
        xt_log_warn("%zu of the %s to evaluate on (%s) %s among the training images too, "
                    "so that results look better than they are; the first: %s",
                    overlap.count, xt_count((long long)trainer->val->count, "image").text,
                    xt_source_specs_shown(val).text, overlap.count == 1 ? "is" : "are",
                    overlap.first);
    return status;
}

/* The images to evaluate on: --val, else CIFAR's test batch beside the training batches, else the
 * model's own if the training images are. */
static enum xt_status open_val(struct xt_trainer *trainer, struct xt_err *err)
{
    const struct xt_train_settings *s = trainer->settings;
    const char *val = s->data.val                       ? s->data.val
                      : !s->data.images                 ? trainer->network.model->default_val
                      : trainer->source->has_other_part ? s->data.images
                                                        : NULL;
    if (!val || s->run.overfit || trainer->val)
        return XT_OK;
    enum xt_status status = xt_network_open_source(&trainer->network, val, &trainer->val, err);
    return status ? status : warn_of_shared(trainer, val, err);
}

static enum xt_status open_negatives(struct xt_trainer *trainer, struct xt_err *err)
{
    const double held = 0.2;
    const struct xt_data_settings *s = &trainer->settings->data;
    struct xt_source *whole = NULL;
    struct xt_source_options options = xt_network_source_options(&trainer->network);
    options.labels_optional = true;
    if (!s->negatives)
        return XT_OK;
    enum xt_status status = xt_source_open(&whole, s->negatives, &options, err);
    if (!status)
        status = xt_source_hold_out(whole, held, s->seed, &trainer->negatives,
                                    &trainer->negatives_held, err);
    if (status)
        return xt_err_prefix(err, "--negatives: ");
    return xt_ranks_compare_images(trainer->settings->ranks, trainer->negatives, "--negatives",
                                   s->seed, err);
}

/* Rejects watch settings that cannot be met. */
static enum xt_status check_watch(const struct xt_trainer *trainer, struct xt_err *err)
{
    const struct xt_train_settings *s = trainer->settings;
    if (s->run.patience && !trainer->val)
        return xt_err_set(err, XT_ERR_USAGE,
                          "--patience %d counts evaluations, and there is nothing to evaluate on; "
                          "give --val",
                          s->run.patience);
    if (s->run.patience && !s->run.eval_every)
        return xt_err_set(err, XT_ERR_USAGE,
                          "--patience %d counts evaluations, and with --eval-every 0 the only one "
                          "is at the end",
                          s->run.patience);
    if (s->run.on_nan == XT_ON_NAN_SKIP && trainer->network.device.own_memory)
        return xt_err_set(err, XT_ERR_USAGE,
                          "--on-nan skip is for the CPU: an XPU has moved its running statistics "
                          "before it is known that a step is to be skipped; use rollback or stop");
    return XT_OK;
}

/* Rejects settings that several ranks do not support. */
static enum xt_status check_ranks(const struct xt_train_settings *s, struct xt_err *err)
{
    if (s->ranks && s->run.on_device_loss == XT_LOSS_RESUME)
        return xt_err_set(
            err, XT_ERR_USAGE,
            "--on-device-loss resume: a process that restarts itself cannot rejoin the other %d of "
            "its MPI job; omit it, and restart all of them with --resume auto",
            s->ranks->size - 1);
    return XT_OK;
}

static enum xt_status compare_ranks(const struct xt_trainer *trainer, struct xt_err *err)
{
    const struct xt_train_settings *s = trainer->settings;
    enum xt_status status = xt_ranks_compare_network(s->ranks, &trainer->network, err);
    if (!status)
        status = xt_ranks_compare_images(s->ranks, trainer->source, "--data", s->data.seed, err);
    return status ? status
                  : xt_ranks_compare_images(s->ranks, trainer->val, "--val", s->data.seed, err);
}

static enum xt_status open_upload(struct xt_trainer *trainer, struct xt_err *err)
{
    const struct xt_train_settings *s = trainer->settings;
    const struct xt_network *network = &trainer->network;
    struct xt_feed_size size = {network->width, network->height, network->model->bgr};
    const struct xt_upload_config upload =
        xt_network_upload_config(&trainer->network, xt_feed_slots(&s->data));
    enum xt_status status = xt_upload_init(&trainer->upload, &upload, err);
    trainer->loader_config = xt_feed_config(&s->data, &size, true);
    trainer->loader_config.group = s->recipe.accumulate;
    trainer->loader_config.source = trainer->source;
    trainer->loader_config.cache = trainer->cache;
    trainer->loader_config.negatives = trainer->negatives;
    trainer->loader_config.negatives_part = s->data.negatives_part;
    trainer->loader_config.batch = trainer->batch;
    trainer->loader_config.rows = trainer->rows;
    trainer->epoch_steps =
        (int64_t)xt_loader_epoch_steps(&trainer->loader_config) / xt_train_step_batches(s);
    return status;
}

/* The factor of a parameter's learning rate; 0 freezes it. */
static float rate_of(const struct xt_trainer *trainer, const struct xt_param *param)
{
    const struct xt_model_info *model = trainer->network.model;
    if (param->frozen)
        return 0;
    return model->head && xt_is_of_head(model->class_layers, param->name)
               ? (float)trainer->settings->recipe.head_lr_factor
               : 1;
}

static enum xt_status open_optimizer(struct xt_trainer *trainer, struct xt_err *err)
{
    const struct xt_train_settings *s = trainer->settings;
    struct xt_params *params = &trainer->network.params;
    trainer->optim = (struct xt_optim){
        .kind = s->recipe.optim,
        .momentum = s->recipe.momentum,
        .nesterov = s->recipe.nesterov,
        .weight_decay = s->recipe.weight_decay,
    };
    enum xt_status status = XT_OK;
    for (int i = 0; i < xt_optim_states(s->recipe.optim, s->recipe.momentum) && !status; i++)
        status = xt_mem_aligned(&trainer->optim.state[i], params->value_floats, sizeof(float),
                                "the optimizer's state", err);
    for (int i = 0; i < params->count; i++) {
        const struct xt_param *param = &params->items[i];
        if (!xt_param_is_statistic(param))
            trainer->ranges[trainer->range_count++] = (struct xt_optim_range){
                .offset = param->offset,
                .count = param->floats,
                .decay = s->recipe.decay_all || xt_param_is_weight(param),
                .lr_factor = rate_of(trainer, param),
                .square = &params->grad_squares[i],
            };
    }
    /* The host reads the norm before the update if the update depends on it. */
    const struct xt_xpu_optim_norm norm = {
        .by_device = s->network.amp != XT_AMP_FP16 && xt_train_step_batches(s) == 1 && !s->ranks,
        .clip = s->recipe.clip,
    };
    if (!status && trainer->network.device.kind == XT_DEVICE_XPU)
        status = xt_xpu_optim_create(&trainer->xpu_optim, &trainer->network.device, &trainer->optim,
                                     params, trainer->ranges, trainer->range_count, norm, err);
    return status;
}

/* What a checkpoint says of a network that came from an ONNX file. */
struct carried {
    char *text, *alphabet, *normalize; /* NULL: nothing */
};

static void clear_carried(struct carried *carried)
{
    free(carried->text);
    free(carried->alphabet);
    free(carried->normalize);
}

/* Rank 0's text on every rank; NULL there: NULL. */
static enum xt_status share_text(struct xt_ranks *ranks, char **text, struct xt_err *err)
{
    size_t bytes = *text ? strlen(*text) + 1 : 0;
    enum xt_status status = xt_ranks_copy(ranks, &bytes, sizeof bytes, 0, "the checkpoint", err);
    if (!status && bytes && !*text)
        status = xt_mem_calloc(text, bytes, 1, "the network's text", err);
    return status ? status : xt_ranks_copy(ranks, *text, bytes, 0, "the checkpoint", err);
}

static enum xt_status copy_meta(const struct xt_weight_file *from, const char *key, char **out,
                                struct xt_err *err)
{
    const char *value = xt_weight_file_meta(from, key);
    return value ? xt_mem_strdup(out, value, err) : XT_OK;
}

static enum xt_status read_carried(struct carried *carried, const struct xt_checkpoint_file *from,
                                   struct xt_ranks *ranks, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    if (from->path && xt_weight_file_meta(&from->file, XT_NET_TEXT_KEY)) {
        status = copy_meta(&from->file, XT_NET_TEXT_KEY, &carried->text, err);
        if (!status)
            status = copy_meta(&from->file, "alphabet", &carried->alphabet, err);
        if (!status)
            status = copy_meta(&from->file, "normalize", &carried->normalize, err);
    }
    if (!status && ranks)
        status = share_text(ranks, &carried->text, err);
    if (!status && ranks)
        status = share_text(ranks, &carried->alphabet, err);
    if (!status && ranks)
        status = share_text(ranks, &carried->normalize, err);
    return status;
}

/* A resumed run has its checkpoint's network: the ONNX file may be gone, or another by now. */
static enum xt_status open_carried(struct xt_trainer *trainer, struct xt_network_settings *settings,
                                   const struct xt_device_settings *device, struct xt_err *err)
{
    struct carried carried = {0};
    bool has_normalize = settings->normalize && strcmp(settings->normalize, "auto") != 0;
    enum xt_status status =
        read_carried(&carried, &trainer->resume.from, trainer->settings->ranks, err);
    if (carried.text) {
        settings->text = carried.text;
        settings->text_alphabet = carried.alphabet;
        if (!has_normalize && carried.normalize)
            settings->normalize = carried.normalize;
    }
    xt_openmp_will_train();
    if (!status)
        status = xt_network_open(&trainer->network, settings, device, err);
    clear_carried(&carried);
    return status;
}

/* A resumed run retains its batch norm mode, unless --bn is given, and its number of threads, on
 * which its last bits depend, unless --threads is given. */
static enum xt_status open_network(struct xt_trainer *trainer, struct xt_err *err)
{
    struct xt_train_settings settings = *trainer->settings;
    struct xt_ranks *ranks = settings.ranks;
    int bn_and_threads[2] = {XT_BN_AUTO, 0};
    enum xt_status status =
        xt_ranks_is_first(ranks)
            ? xt_resume_read(&trainer->resume, &settings.record, settings.network.model, err)
            : XT_OK;
    const struct xt_checkpoint_file *from = &trainer->resume.from;
    if (!status && from->path) {
        bn_and_threads[0] = from->state.bn_frozen ? XT_BN_FROZEN : XT_BN_BATCH;
        bn_and_threads[1] = xt_checkpoint_threads(from);
    }
    if (!status && ranks)
        status =
            xt_ranks_copy(ranks, bn_and_threads, sizeof bn_and_threads, 0, "the checkpoint", err);
    if (!status && !settings.device.threads)
        settings.device.threads = bn_and_threads[1];
    if (!status)
        status = open_carried(trainer, &settings.network, &settings.device, err);
    /* That of --init is not of the weights that come of it. */
    trainer->network.confidence = (struct xt_confidence){0};
    if (!status && settings.data.mixup > 0 && trainer->network.task == XT_TASK_PLATES)
        status = xt_err_set(err, XT_ERR_USAGE,
                            "--mixup: %s reads plates, whose labels cannot be mixed; leave it out",
                            trainer->network.model->name);
    if (!status && ranks && settings.rank.sync_bn && trainer->network.device.own_memory)
        status = xt_err_set(err, XT_ERR_USAGE,
                            "batch norms over the images of several processes are not made for an "
                            "XPU; give --no-sync-bn");
    trainer->network.training = (struct xt_training_arrays){
        .states = xt_optim_states(settings.recipe.optim, settings.recipe.momentum),
        .averages = settings.recipe.ema > 0,
        .sums = (settings.recipe.accumulate > 1) + xt_train_step_has_residual(&settings),
        .slots = xt_feed_slots(&settings.data),
    };
    trainer->network.processes = settings.data.processes;
    trainer->network.ranks = ranks ? ranks->size : 0;
    trainer->network.seed = settings.data.seed;
    trainer->network.bn_before = (enum xt_bn_mode)bn_and_threads[0];
    if (status || !from->path)
        return status;
    for (size_t i = 0; i < from->file.count; i++)
        trainer->network.checkpoint_bytes += (double)from->file.tensors[i].bytes;
    return XT_OK;
}

/* Each rank takes as many images as the one that has memory for the least, of what there are. */
static enum xt_status agree_on_share(struct xt_ranks *ranks, size_t images, int share, int *batch,
                                     struct xt_err *err)
{
    int *shares = NULL;
    enum xt_status status = xt_ranks_gather(ranks, &share, sizeof share, &shares, "the batch", err);
    for (int i = 0; i < ranks->size && !status; i++)
        share = shares[i] < share ? shares[i] : share;
    free(shares);
    size_t all = (size_t)share * (size_t)ranks->size;
    *batch = (int)(all < images ? all : images);
    if (!status)
        xt_log_note("--batch auto takes %d together, at most %d on each of %d ranks", *batch, share,
                    ranks->size);
    return status;
}

/* The largest batch that fits. */
static enum xt_status find_batch(struct xt_trainer *trainer, int *batch, struct xt_err *err)
{
    const struct xt_train_settings *s = trainer->settings;
    size_t count = trainer->source->count / (size_t)xt_train_step_batches(s);
    size_t images = count < XT_BATCH_MAX ? count : XT_BATCH_MAX;
    size_t ranks = s->ranks ? (size_t)s->ranks->size : 1;
    char remark[160];
    snprintf(remark, sizeof remark,
             "%s; --lr %g stays, though what suits and what accuracy comes of it depend on the "
             "batch",
             s->ranks ? ", on this rank" : "", s->recipe.lr);
    enum xt_status status = xt_auto_batch_take(&trainer->network, &s->network, true,
                                               (images + ranks - 1) / ranks, remark, batch, err);
    return status || !s->ranks ? status : agree_on_share(s->ranks, images, *batch, batch, err);
}

/* --batch; auto (0): the original batch of a resumed run, which rank 0 knows, else what fits. */
static enum xt_status choose_batch(struct xt_trainer *trainer, int *batch, struct xt_err *err)
{
    const struct xt_train_settings *s = trainer->settings;
    const struct xt_checkpoint_file *from = &trainer->resume.from;
    enum xt_status status = XT_OK;
    *batch = s->network.batch;
    if (!*batch && from->path) {
        status = xt_checkpoint_batch(from, batch, err);
        if (!status)
            xt_log_note("--batch auto takes %d, as in the run of %s", *batch, from->path);
    }
    if (!status && s->ranks)
        status = xt_ranks_copy(s->ranks, batch, sizeof *batch, 0, "the checkpoint", err);
    if (!status && !*batch)
        status = find_batch(trainer, batch, err);
    if (!status && s->ranks && *batch < 2 * s->ranks->size)
        status = xt_err_set(err, XT_ERR_USAGE,
                            "--batch %d is too small for %d ranks, each of which needs two images "
                            "at least",
                            *batch, s->ranks->size);
    return status;
}

/* This rank's row in the table at the start. */
static enum xt_status introduce(const struct xt_trainer *trainer, struct xt_err *err)
{
    const struct xt_device *device = &trainer->network.device;
    struct xt_rank own = {.images = trainer->network.batch, .threads = device->threads};
    xt_place_describe(own.cpus, sizeof own.cpus);
    snprintf(own.device, sizeof own.device, "%s", device->name);
    snprintf(own.isa, sizeof own.isa, "%s", xt_device_cpu_isa());
    snprintf(own.library, sizeof own.library, "%s", xt_dnnl_version_text().text);
    return xt_ranks_introduce(trainer->settings->ranks, &own, err);
}

static enum xt_status join_ranks(struct xt_trainer *trainer, struct xt_err *err)
{
    const struct xt_train_settings *s = trainer->settings;
    const struct xt_gradient_reduction_config config = {
        .ranks = s->ranks,
        .graph = trainer->network.graph,
        .rows = trainer->rows,
        .sync_bn = s->rank.sync_bn,
        .bucket = (size_t)s->rank.bucket << 20,
        .bf16 = trainer->residual != NULL,
        .residual = trainer->residual,
        .at_once = trainer->sum != NULL,
    };
    enum xt_status status = xt_gradient_reduction_create(&trainer->reduction, &config, err);
    return status ? status : introduce(trainer, err);
}

enum xt_status xt_trainer_open_share(struct xt_trainer *trainer, struct xt_err *err)
{
    const struct xt_train_settings *s = trainer->settings;
    enum xt_status status = open_upload(trainer, err);
    if (!status)
        status = xt_loss_create(&trainer->loss, &trainer->network, s->recipe.label_smoothing, err);
    /* Several ranks reduce the loss between the passes. */
    if (!status && !s->ranks)
        status = xt_loss_place(trainer->loss, trainer->network.graph, err);
    return status || !s->ranks ? status : join_ranks(trainer, err);
}

void xt_trainer_close_share(struct xt_trainer *trainer)
{
    xt_feed_destroy(trainer->feed);
    trainer->feed = NULL;
    xt_upload_clear(&trainer->upload);
    xt_loss_destroy(trainer->loss);
    trainer->loss = NULL;
    xt_gradient_reduction_destroy(trainer->reduction);
    trainer->reduction = NULL;
}

/* Prepares what a step needs beside the network. */
static enum xt_status prepare(struct xt_trainer *trainer, struct xt_err *err)
{
    struct xt_span start = xt_span_now();
    enum xt_status status = open_optimizer(trainer, err);
    if (!status)
        status = xt_train_step_open(trainer, err);
    if (!status)
        status = xt_trainer_open_share(trainer, err);
    trainer->prepare_span = xt_span_since(&start);
    return status;
}

static struct xt_trainer empty(const struct xt_train_settings *settings)
{
    return (struct xt_trainer){.settings = settings,
                               .folder = {.locks = {-1, -1}},
                               .log = {.fd = -1},
                               .report = {.events = {.fd = -1}},
                               .best_step = -1,
                               .lr_factor = 1,
                               .evaluated_step = -1,
                               .saved_step = -1};
}

enum xt_status xt_trainer_init(struct xt_trainer *trainer, const struct xt_train_settings *settings,
                               struct xt_err *err)
{
    *trainer = empty(settings);
    return xt_trainer_prepare(trainer, err);
}

enum xt_status xt_trainer_prepare(struct xt_trainer *trainer, struct xt_err *err)
{
    const struct xt_train_settings *settings = trainer->settings;
    struct xt_network *network = &trainer->network;
    trainer->init_time = xt_thread_seconds();
    enum xt_status status = open_network(trainer, err);
    if (!status)
        status = open_source(trainer, err);
    if (!status)
        status = xt_network_take_classes(network, &settings->network, trainer->source, err);
    if (!status)
        status = open_val(trainer, err);
    if (!status)
        status = compare_ranks(trainer, err);
    if (!status)
        status = open_negatives(trainer, err);
    if (!status)
        status = check_watch(trainer, err);
    if (!status)
        status = check_ranks(settings, err);
    if (!status)
        status = choose_batch(trainer, &trainer->batch, err);
    /* A threshold is chosen at the end of the run. */
    struct xt_answer_settings answer = settings->answer;
    answer.reject.kind = XT_REJECT_NONE;
    if (!status && settings->ranks)
        trainer->rows = xt_rows_share(trainer->batch, settings->ranks->rank, settings->ranks->size,
                                      settings->data.mixup > 0);
    if (!status)
        status = xt_trainer_open_balance(trainer, err);
    if (!status)
        status =
            xt_network_build(network, &settings->network,
                             settings->ranks ? trainer->rows.count : trainer->batch, true, err);
    if (!status)
        status = xt_rank_state_check_initial(settings->ranks, &network->params, err);
    if (!status)
        status = prepare(trainer, err);
    if (!status)
        status = xt_predictor_create(&trainer->predictor, network, &answer, err);
    if (status)
        return status;
    xt_scaler_init(&trainer->scaler, settings->network.amp == XT_AMP_FP16);
    trainer->steps =
        settings->run.steps ? settings->run.steps : settings->run.epochs * trainer->epoch_steps;
    return xt_schedule_init(&trainer->schedule, &settings->recipe, trainer->steps,
                            trainer->epoch_steps, err);
}

struct xt_memory_plan xt_trainer_memory_plan(const struct xt_trainer *trainer)
{
    const struct xt_network *network = &trainer->network;
    const struct xt_graph *evaluation =
        network->inference == network->graph ? NULL : network->inference;
    /* Excludes checkpoint, evaluation and sample order, which do not exist yet. */
    const struct xt_memory_use now = {
        .states = xt_optim_states(trainer->optim.kind, trainer->optim.momentum),
        .averages = trainer->ema != NULL,
        .sums = (trainer->sum != NULL) + (trainer->residual != NULL),
        .slot_bytes = trainer->upload.bytes,
        .slots = trainer->upload.count,
        .pinned = !trainer->upload.pageable,
    };
    struct xt_memory_use use = now;
    use.samples = trainer->source->count;
    use.cache = xt_feed_cache_bytes(&trainer->settings->data, &trainer->loader_config);
    if (trainer->val) {
        use.evaluation_slots = XT_FEED_EVALUATION_SLOTS;
        use.samples += trainer->val->count;
    }
    return xt_memory_plan_built(network->graph, evaluation, &now, &use);
}

void xt_trainer_clear(struct xt_trainer *trainer)
{
    xt_monitor_destroy(trainer->monitor);
    xt_trainer_close_share(trainer);
    free(trainer->balance.shares);
    xt_cache_destroy(trainer->cache);
    xt_source_destroy(trainer->source);
    xt_source_destroy(trainer->val);
    xt_source_destroy(trainer->negatives_held);
    xt_source_destroy(trainer->negatives);
    xt_predictor_destroy(trainer->predictor);
    xt_train_step_close(trainer);
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
    *trainer = empty(trainer->settings);
}

enum xt_status xt_trainer_create(struct xt_trainer **out, const struct xt_train_settings *settings,
                                 struct xt_err *err)
{
    *out = NULL;
    enum xt_status status = xt_mem_calloc(out, 1, sizeof **out, "the trainer", err);
    if (!status)
        **out = empty(settings);
    return status;
}

void xt_trainer_destroy(struct xt_trainer *trainer)
{
    if (trainer)
        xt_trainer_clear(trainer);
    free(trainer);
}
