#include "train/trainer/step.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/system/thread.h"
#include "train/trainer/trainer_internal.h"
#include "train/watch/nonfinite.h"

/* Steps skipped in a row at which the run fails. */
enum { SKIPPED_MOST = 10 };

int xt_train_step_batches(const struct xt_train_settings *settings)
{
    return settings->recipe.accumulate > 1 ? settings->recipe.accumulate : 1;
}

bool xt_train_step_has_residual(const struct xt_train_settings *settings)
{
    return settings->ranks && settings->rank.reduce_type == XT_REDUCE_BF16;
}

int xt_train_step_images(const struct xt_trainer *trainer)
{
    return trainer->batch * xt_train_step_batches(trainer->settings);
}

static bool skips(const struct xt_trainer *trainer)
{
    return trainer->settings->run.on_nan == XT_ON_NAN_SKIP;
}

enum xt_status xt_train_step_open(struct xt_trainer *trainer, struct xt_err *err)
{
    struct xt_network *network = &trainer->network;
    const struct xt_train_settings *s = trainer->settings;
    enum xt_status status = XT_OK;
    if (xt_train_step_batches(s) > 1)
        status = xt_gradient_sum_create(&trainer->sum, &network->device, &network->params, err);
    if (!status && s->recipe.ema > 0)
        status =
            xt_ema_create(&trainer->ema, &network->device, &network->params, s->recipe.ema, err);
    if (!status && xt_train_step_has_residual(s))
        status = xt_mem_aligned(&trainer->residual, network->params.value_floats, sizeof(float),
                                "the gradients' residual", err);
    if (!status && skips(trainer))
        status = xt_mem_aligned(&trainer->parts.stats, network->params.stat_floats, sizeof(float),
                                "running statistics", err);
    return status;
}

void xt_train_step_close(struct xt_trainer *trainer)
{
    xt_gradient_sum_destroy(trainer->sum);
    xt_ema_destroy(trainer->ema);
    free(trainer->residual);
    free(trainer->parts.stats);
    trainer->parts.stats = trainer->residual = NULL;
}

int64_t xt_train_step_count(const struct xt_trainer *trainer)
{
    return trainer->step + trainer->in_flight;
}

double xt_train_step_lr(const struct xt_trainer *trainer, int64_t step)
{
    return trainer->lr_factor * xt_schedule_lr(&trainer->schedule, step);
}

/* ---- non-finite numbers ---- */

/* In the step that is being done. */
static void set_diverged(struct xt_trainer *trainer)
{
    trainer->diverged = true;
    trainer->diverged_step = trainer->step + 1;
}

static const char *whole_checkpoint(const struct xt_trainer *trainer)
{
    return trainer->saved_step >= 0 ? "; the last checkpoint is whole" : "";
}

static bool is_finite(const float *values, size_t count)
{
    /* A sum of products by 0 is NaN where one of them is not finite. */
    float sum = 0;
    for (size_t i = 0; i < count; i++)
        sum += 0 * values[i];
    return sum == 0;
}

/* Trained parameters, or statistics. */
static enum xt_status check_finite(const struct xt_trainer *trainer, bool statistics,
                                   const float *values, int64_t step, struct xt_err *err)
{
    const struct xt_params *params = &trainer->network.params;
    for (int i = 0; i < params->count; i++) {
        const struct xt_param *param = &params->items[i];
        if (xt_param_is_statistic(param) == statistics && param->role != XT_PARAM_BN_COUNT &&
            !is_finite(values + param->offset, param->floats))
            return xt_err_set(err, XT_ERR_RUN,
                              "%s is infinite or NaN by step %" PRId64
                              ": the run has diverged; a lower --lr, or --clip 5, may help%s",
                              param->name, step, whole_checkpoint(trainer));
    }
    return XT_OK;
}

enum xt_status xt_train_step_check_statistics(const struct xt_trainer *trainer, int64_t step,
                                              struct xt_err *err)
{
    return check_finite(trainer, true, trainer->network.params.stats, step, err);
}

enum xt_status xt_train_step_check_values(const struct xt_trainer *trainer, int64_t step,
                                          struct xt_err *err)
{
    return check_finite(trainer, false, trainer->network.params.values, step, err);
}

/* Skips the step; too many in a row stop the run. `err` describes the cause. */
static enum xt_status skip_step(struct xt_trainer *trainer, struct xt_err *err)
{
    struct xt_err why = *err;
    trainer->parts.skipped = true;
    if (trainer->parts.in_a_row + 1 >= SKIPPED_MOST)
        return xt_err_set(err, why.status,
                          "%s; it is the last of %d steps in a row that --on-nan skip skipped, "
                          "which is no longer bad luck",
                          why.text, SKIPPED_MOST);
    xt_log_warn("%s; that step is skipped (--on-nan skip)", why.text);
    trainer->diverged = false;
    return XT_OK;
}

/* `what` of the step is not finite: reports where that begins. */
static enum xt_status diverge(struct xt_trainer *trainer, const struct xt_feed_batch *batch,
                              const char *what, struct xt_err *err)
{
    char where[192] = "";
    /* The passes that locate it would need all ranks, and the batch. */
    if (!trainer->reduction && batch)
        xt_nonfinite_find(&trainer->network, trainer->loss, &batch->host, &trainer->scaler, where,
                          sizeof where);
    set_diverged(trainer);
    xt_err_set(err, XT_ERR_RUN,
               "%s of step %" PRId64 " is not finite%s%s%s; a lower --lr, or --clip 5, may help%s",
               what, trainer->step + 1,
               trainer->scaler.on ? ", although the loss scale is already 1" : "",
               *where ? "; it begins in " : "", where, whole_checkpoint(trainer));
    return skips(trainer) ? skip_step(trainer, err) : XT_ERR_RUN;
}

/* ---- a batch ---- */

void xt_train_step_begin(struct xt_trainer *trainer)
{
    const struct xt_params *params = &trainer->network.params;
    struct xt_step_parts *parts = &trainer->parts;
    parts->done = 0;
    parts->loss_sum = parts->weight = parts->norm = 0;
    parts->overflows = parts->skipped = false;
    trainer->step_seconds = (struct xt_step_seconds){.forward = 0};
    if (parts->stats)
        memcpy(parts->stats, params->stats, params->stat_floats * sizeof(float));
}

/* Number of images that count in the loss. */
static int count_images(const struct xt_batch *batch)
{
    int count = 0;
    for (int i = 0; i < batch->count; i++)
        count += batch->label_lengths[i] != 0;
    return count;
}

static enum xt_status forward(struct xt_trainer *trainer, const struct xt_feed_batch *batch,
                              struct xt_err *err)
{
    struct xt_network *network = &trainer->network;
    network->graph->pass = (struct xt_graph_pass){
        .pixels = batch->host.pixels,
        .uploaded = batch->uploaded,
        .count = batch->host.count,
        .first = trainer->parts.done * trainer->batch,
        .rows = trainer->rows,
        .training = true,
        .keeps_logits = xt_loss_is_on_device(trainer->loss),
        .bn_frozen = network->bn_frozen,
        .dropout = trainer->settings->recipe.dropout,
        .seed = trainer->settings->data.seed,
        .step = (uint64_t)xt_train_step_count(trainer),
    };
    return xt_graph_forward(network->graph, err);
}

/* A mean over fewer images counts less in the sum. */
static float share_of(const struct xt_trainer *trainer, int images)
{
    return trainer->sum ? (float)images / (float)trainer->network.batch : 1;
}

static void weigh(const struct xt_trainer *trainer, int images)
{
    struct xt_graph *graph = trainer->network.graph;
    float *grad = xt_graph_logits_grad(graph);
    float share = share_of(trainer, images);
    for (size_t i = 0; share != 1 && i < xt_tensor_count(graph->logits); i++)
        grad[i] *= share;
}

/* Without sync_bn each rank has its own statistics until the end of the step. */
static enum xt_status check_all_statistics(const struct xt_trainer *trainer, struct xt_err *err)
{
    enum xt_status status = xt_train_step_check_statistics(trainer, trainer->step + 1, err);
    if (status || !trainer->reduction || !trainer->agreement.sick)
        return status;
    return xt_err_set(err, XT_ERR_RUN,
                      "a running statistic of another rank is infinite or NaN by step "
                      "%" PRId64 ": the run has diverged; a lower --lr, or --clip 5, may help%s",
                      trainer->step + 1, whole_checkpoint(trainer));
}

static enum xt_status take_loss(struct xt_trainer *trainer, const struct xt_feed_batch *batch,
                                double mean, struct xt_err *err)
{
    struct xt_graph *graph = trainer->network.graph;
    int images = count_images(&batch->host);
    if (!isfinite(mean))
        return diverge(trainer, batch, "the loss", err);
    double weight = trainer->sum ? images : 1;
    trainer->parts.loss_sum += weight * mean;
    trainer->parts.weight += weight;
    if (check_all_statistics(trainer, err)) {
        set_diverged(trainer);
        return skips(trainer) ? skip_step(trainer, err) : XT_ERR_RUN;
    }
    if (xt_loss_is_on_device(trainer->loss))
        return XT_OK;
    xt_scaler_apply(&trainer->scaler, xt_graph_logits_grad(graph), xt_tensor_count(graph->logits));
    weigh(trainer, images);
    if (trainer->reduction)
        xt_gradient_reduction_weigh(trainer->reduction, xt_graph_logits_grad(graph),
                                    xt_tensor_count(graph->logits));
    return XT_OK;
}

static bool norm_by_device(const struct xt_trainer *trainer)
{
    return trainer->xpu_optim && xt_xpu_optim_norm_is_by_device(trainer->xpu_optim);
}

static enum xt_status grad_norm(struct xt_trainer *trainer, double *norm, struct xt_err *err)
{
    if (trainer->xpu_optim)
        return xt_xpu_optim_grad_norm(trainer->xpu_optim, norm, err);
    *norm =
        xt_optim_grad_norm(trainer->network.params.grads, trainer->ranges, trainer->range_count);
    return XT_OK;
}

/* The sum of several batches' gradients is all-reduced and checked once per step. */
static bool sums_once(const struct xt_trainer *trainer)
{
    return trainer->reduction && trainer->sum;
}

/* Gradients are checked before use, so that non-finite weights never get into a checkpoint. If a
 * smaller loss scale may help, the scaler decides first. */
static enum xt_status take_gradients(struct xt_trainer *trainer, const struct xt_feed_batch *batch,
                                     struct xt_err *err)
{
    struct xt_step_parts *parts = &trainer->parts;
    if (sums_once(trainer))
        return xt_gradient_sum_add(trainer->sum, parts->done == 0, err);
    if (norm_by_device(trainer))
        return xt_xpu_optim_begin_norm(trainer->xpu_optim, err);
    if (grad_norm(trainer, &parts->norm, err))
        return err->status;
    if (!isfinite(parts->norm) && !xt_scaler_can_fall(&trainer->scaler))
        return diverge(trainer, batch, "a gradient", err);
    parts->overflows = parts->overflows || !isfinite(parts->norm);
    return trainer->sum ? xt_gradient_sum_add(trainer->sum, parts->done == 0, err) : XT_OK;
}

enum xt_status xt_train_step_judge(struct xt_trainer *trainer, const struct xt_feed_batch *batch,
                                   struct xt_err *err)
{
    if (!trainer->in_flight)
        return XT_OK;
    if (!batch && xt_dnnl_check(xt_dnnl.stream_wait(trainer->network.device.stream),
                                "the gradient norm", err))
        return err->status;
    trainer->in_flight = false;
    if (!xt_xpu_optim_judge(trainer->xpu_optim))
        return diverge(trainer, batch, "a gradient", err);
    trainer->step++;
    return XT_OK;
}

/* The loss on the device, and the passes around it: while the host waits for the loss, and after
 * it, the device has the whole backward pass to do. */
static enum xt_status run_passes(struct xt_trainer *trainer, const struct xt_feed_batch *batch,
                                 double *loss, struct xt_err *err)
{
    struct xt_step_seconds *seconds = &trainer->step_seconds;
    float scale = trainer->scaler.scale * share_of(trainer, count_images(&batch->host));
    double start = xt_thread_seconds();
    enum xt_status status = forward(trainer, batch, err);
    if (!status)
        status = xt_loss_begin(trainer->loss, &batch->host, scale, err);
    double after_forward = xt_thread_seconds();
    if (!status)
        status = xt_graph_backward(trainer->network.graph, err);
    double after_backward = xt_thread_seconds();
    if (!status)
        status = xt_loss_wait(trainer->loss, &batch->host, loss, err);
    if (!status)
        status = xt_train_step_judge(trainer, batch, err);
    seconds->backward += after_backward - after_forward;
    seconds->forward += (after_forward - start) + (xt_thread_seconds() - after_backward);
    return status;
}

enum xt_status xt_train_step_forward(struct xt_trainer *trainer, const struct xt_feed_batch *batch,
                                     double *loss, struct xt_err *err)
{
    struct xt_step_seconds *seconds = &trainer->step_seconds;
    struct xt_graph *graph = trainer->network.graph;
    *loss = NAN;
    if (trainer->parts.skipped)
        return XT_OK;
    if (xt_loss_is_on_device(trainer->loss))
        return run_passes(trainer, batch, loss, err);
    double start = xt_thread_seconds();
    enum xt_status status = forward(trainer, batch, err);
    if (!status)
        status = xt_train_step_judge(trainer, batch, err);
    double after_forward = xt_thread_seconds();
    if (!status)
        *loss = xt_loss_mean(trainer->loss, &batch->host, xt_graph_logits(graph),
                             xt_graph_logits_grad(graph));
    seconds->forward += after_forward - start;
    seconds->loss += xt_thread_seconds() - after_forward;
    return status;
}

enum xt_status xt_train_step_backward(struct xt_trainer *trainer, const struct xt_feed_batch *batch,
                                      double loss, struct xt_err *err)
{
    struct xt_step_seconds *seconds = &trainer->step_seconds;
    struct xt_step_parts *parts = &trainer->parts;
    if (parts->skipped)
        return XT_OK;
    double start = xt_thread_seconds();
    enum xt_status status = take_loss(trainer, batch, loss, err);
    double after_loss = xt_thread_seconds();
    if (!status && !parts->skipped && !xt_loss_is_on_device(trainer->loss))
        status = xt_graph_backward(trainer->network.graph, err);
    if (!status && !parts->skipped && trainer->reduction && !trainer->sum)
        status = xt_gradient_reduction_finish(trainer->reduction, err);
    double after_backward = xt_thread_seconds();
    if (!status && !parts->skipped)
        status = take_gradients(trainer, batch, err);
    xt_graph_count_batches(trainer->network.graph, 1);
    parts->done++;
    seconds->loss += after_loss - start;
    seconds->backward += after_backward - after_loss;
    seconds->update += xt_thread_seconds() - after_backward;
    return status;
}

/* ---- the update ---- */

/* What gradients are multiplied by: removes the loss scale, turns the sum into a mean over the
 * step's images, and clips. */
static float factor_of(const struct xt_trainer *trainer)
{
    const struct xt_step_parts *parts = &trainer->parts;
    double clip = trainer->settings->recipe.clip;
    double scale = (double)trainer->scaler.scale;
    if (trainer->sum)
        scale *= parts->weight / trainer->network.batch;
    double norm = parts->norm / scale;
    return (float)((clip > 0 && norm > clip ? clip / norm : 1) / scale);
}

static enum xt_status update(struct xt_trainer *trainer, float factor, struct xt_err *err)
{
    struct xt_params *params = &trainer->network.params;
    double lr = xt_train_step_lr(trainer, trainer->step);
    enum xt_status status = XT_OK;
    if (trainer->xpu_optim) {
        status = xt_xpu_optim_update(trainer->xpu_optim, lr, factor, err);
    } else {
        bool copies = xt_graph_can_copy_values(trainer->network.graph);
        trainer->optim.updated = copies ? xt_graph_copy_values : NULL;
        trainer->optim.context = trainer->network.graph;
        xt_optim_update(&trainer->optim, params->values, params->grads, trainer->ranges,
                        trainer->range_count, lr, factor);
        params->version++;
        if (copies)
            xt_graph_values_copied(trainer->network.graph);
    }
    return status || !trainer->ema ? status : xt_ema_update(trainer->ema, err);
}

/* The norm is that of the sum, which is what is clipped. */
static enum xt_status take_sum(struct xt_trainer *trainer, struct xt_err *err)
{
    if (!trainer->sum || trainer->parts.overflows)
        return XT_OK;
    enum xt_status status = xt_gradient_sum_take(trainer->sum, err);
    if (!status && sums_once(trainer))
        status = xt_gradient_reduction_finish(trainer->reduction, err);
    return status ? status : grad_norm(trainer, &trainer->parts.norm, err);
}

/* Restores the statistics, which non-finite numbers have changed. */
static void undo(struct xt_trainer *trainer)
{
    struct xt_params *params = &trainer->network.params;
    memcpy(params->stats, trainer->parts.stats, params->stat_floats * sizeof(float));
    xt_graph_count_batches(trainer->network.graph, -trainer->parts.done);
    trainer->parts.in_a_row++;
    trainer->nan_skips++;
}

/* What is left of gradients with one loss scale belongs to gradients with another. */
static void scale_residual(struct xt_trainer *trainer, float factor)
{
    size_t count = trainer->residual && factor != 1 ? trainer->network.params.value_floats : 0;
    for (size_t i = 0; i < count; i++)
        trainer->residual[i] *= factor;
}

/* A batch's gradient is reported with that batch; this reports the sum. */
static enum xt_status use_gradients(struct xt_trainer *trainer, struct xt_err *err)
{
    struct xt_step_parts *parts = &trainer->parts;
    if (norm_by_device(trainer))
        return update(trainer, 1, err);
    enum xt_status status = take_sum(trainer, err);
    if (status)
        return status;
    bool finite = !parts->overflows && isfinite(parts->norm);
    const float scale = trainer->scaler.scale;
    const float factor = factor_of(trainer);
    enum xt_scaler_verdict verdict = xt_scaler_judge(&trainer->scaler, finite);
    scale_residual(trainer, trainer->scaler.scale / scale);
    switch (verdict) {
    case XT_SCALER_USE:
        return update(trainer, factor, err);
    case XT_SCALER_SKIP:
        return XT_OK;
    case XT_SCALER_FAIL:
        break;
    }
    set_diverged(trainer);
    xt_err_set(err, XT_ERR_RUN,
               "the gradients of step %" PRId64 " are too large for float32; a lower --lr may "
               "help%s",
               trainer->step + 1, whole_checkpoint(trainer));
    return skips(trainer) ? skip_step(trainer, err) : XT_ERR_RUN;
}

enum xt_status xt_train_step_end(struct xt_trainer *trainer, double *mean, struct xt_err *err)
{
    struct xt_step_parts *parts = &trainer->parts;
    double start = xt_thread_seconds();
    enum xt_status status = parts->skipped ? XT_OK : use_gradients(trainer, err);
    if (status)
        return status;
    if (parts->skipped)
        undo(trainer);
    else
        parts->in_a_row = 0;
    *mean = parts->skipped ? NAN : parts->loss_sum / parts->weight;
    if (norm_by_device(trainer))
        trainer->in_flight = true;
    else
        trainer->step++;
    trainer->step_seconds.update += xt_thread_seconds() - start;
    return XT_OK;
}
