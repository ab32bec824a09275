#include "train/losses/loss.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "infer/answer/ctc_recursion.h"
#include "train/losses/ctc.h"
#include "train/losses/softmax.h"
#include "train/losses/xpu_loss.h"

struct xt_loss {
    int classes;
    float *losses; /* [batch] */
    /* plates */
    struct xt_ctc *ctc; /* NULL: classes */
    int blank, time_steps;
    struct xt_xpu_loss *device; /* NULL: the host computes it */
    int rows;                   /* of the device's batch */
    /* classes */
    double smoothing;
    int *labels;  /* [batch]; -1 where a sample does not count, XT_SOFTMAX_UNIFORM of negatives */
    int *seconds; /* [batch] mixup's other label */
    float *share; /* [batch] of the first */
};

/* Targets in mixup's proportions. In training every row has a label. */
static void mix_labels(struct xt_loss *loss, const struct xt_batch *batch,
                       struct xt_softmax_targets *targets)
{
    for (int i = 0; i < batch->count; i++) {
        struct xt_mix mix = xt_mixup_row(&batch->mixup, i);
        loss->seconds[i] = loss->labels[mix.other];
        loss->share[i] = (float)mix.own / XT_MIXUP_ONE;
    }
    targets->seconds = loss->seconds;
    targets->share = loss->share;
}

static struct xt_softmax_targets targets_of(struct xt_loss *loss, const struct xt_batch *batch,
                                            bool training)
{
    for (int i = 0; i < batch->count; i++)
        loss->labels[i] = batch->label_lengths[i] > 0 ? batch->labels[(size_t)i * XT_LABEL_MAX]
                          : batch->label_lengths[i]   ? XT_SOFTMAX_UNIFORM
                                                      : -1;
    struct xt_softmax_targets targets = {
        .labels = loss->labels, .stride = 1, .smoothing = training ? loss->smoothing : 0};
    if (batch->mixup.alpha > 0)
        mix_labels(loss, batch, &targets);
    return targets;
}

static double classes_mean(struct xt_loss *loss, const struct xt_batch *batch, const float *logits,
                           float *grad)
{
    const struct xt_softmax_targets targets = targets_of(loss, batch, grad != NULL);
    return xt_softmax_loss(logits, batch->count, loss->classes, &targets, loss->losses, grad);
}

double xt_loss_mean(struct xt_loss *loss, const struct xt_batch *batch, const float *logits,
                    float *grad)
{
    if (!loss->ctc)
        return classes_mean(loss, batch, logits, grad);
    return xt_ctc_loss(loss->ctc, logits, batch->labels, XT_LABEL_MAX, batch->label_lengths,
                       batch->count, loss->blank, loss->losses, grad);
}

/* ---- on the device ---- */

enum xt_status xt_loss_place(struct xt_loss *loss, struct xt_graph *graph, struct xt_err *err)
{
    const struct xt_xpu_loss_config config = {
        .steps = loss->ctc ? loss->time_steps : 0,
        .blank = loss->blank,
        .labels = loss->time_steps < XT_LABEL_MAX ? loss->time_steps : XT_LABEL_MAX,
    };
    loss->rows = graph->options.batch;
    return xt_xpu_loss_create(&loss->device, graph, &config, err);
}

bool xt_loss_is_on_device(const struct xt_loss *loss)
{
    return loss && loss->device;
}

static int32_t bits_of(double number)
{
    return (int32_t)xt_float_bits((float)number);
}

static void tell_plates(struct xt_loss *loss, const struct xt_batch *batch, float scale)
{
    xt_ctc_weights(batch->label_lengths, batch->count, loss->time_steps, loss->losses);
    for (int i = 0; i < batch->count; i++) {
        int32_t *words = xt_xpu_loss_words(loss->device, i);
        const int *label = batch->labels + (size_t)i * XT_LABEL_MAX;
        int length = batch->label_lengths[i] > 0 ? batch->label_lengths[i] : 0;
        words[XT_CTC_LENGTH] = length;
        words[XT_CTC_WEIGHT] = bits_of((double)loss->losses[i] * (double)scale);
        if (!batch->label_lengths[i])
            words[XT_CTC_LENGTH] = XT_CTC_NOT_COUNTED;
        else if (!xt_ctc_can_align(label, length, loss->time_steps))
            words[XT_CTC_LENGTH] = XT_CTC_IMPOSSIBLE;
        else
            memcpy(words + XT_CTC_SYMBOLS, label, (size_t)length * sizeof *label);
    }
}

static void tell_classes(struct xt_loss *loss, const struct xt_batch *batch, float scale)
{
    const struct xt_softmax_targets targets = targets_of(loss, batch, true);
    double weight = xt_softmax_weight(&targets, batch->count) * (double)scale;
    for (int i = 0; i < batch->count; i++) {
        int32_t *words = xt_xpu_loss_words(loss->device, i);
        words[XT_SOFTMAX_FIRST] = -1;
        if (loss->labels[i] == -1)
            continue;
        struct xt_softmax_target target = xt_softmax_target(&targets, i, loss->classes);
        words[XT_SOFTMAX_FIRST] = target.first;
        words[XT_SOFTMAX_SECOND] = target.second;
        words[XT_SOFTMAX_FIRST_WEIGHT] = bits_of(target.first_weight);
        words[XT_SOFTMAX_SECOND_WEIGHT] = bits_of(target.second_weight);
        words[XT_SOFTMAX_EVERY] = bits_of(target.every);
        words[XT_SOFTMAX_WEIGHT] = bits_of(weight);
    }
}

enum xt_status xt_loss_begin(struct xt_loss *loss, const struct xt_batch *batch, float scale,
                             struct xt_err *err)
{
    if (loss->ctc)
        tell_plates(loss, batch, scale);
    else
        tell_classes(loss, batch, scale);
    /* The first word of both losses says that a sample does not count. */
    for (int i = batch->count; i < loss->rows; i++)
        *xt_xpu_loss_words(loss->device, i) = XT_CTC_NOT_COUNTED;
    return xt_xpu_loss_begin(loss->device, err);
}

enum xt_status xt_loss_wait(struct xt_loss *loss, const struct xt_batch *batch, double *mean,
                            struct xt_err *err)
{
    const float *losses = NULL;
    enum xt_status status = xt_xpu_loss_wait(loss->device, &losses, err);
    if (status)
        return status;
    if (loss->ctc) {
        *mean = xt_ctc_mean(losses, batch->label_lengths, batch->count, loss->time_steps);
        return XT_OK;
    }
    const struct xt_softmax_targets targets = {.labels = loss->labels, .stride = 1};
    *mean = xt_softmax_mean(losses, batch->count, xt_softmax_weight(&targets, batch->count));
    return XT_OK;
}

/* ---- an evaluation ---- */

static double evaluation_mean(void *context, const struct xt_batch *batch, const float *logits)
{
    return xt_loss_mean(context, batch, logits, NULL);
}

struct xt_evaluate_loss xt_loss_of_evaluation(struct xt_loss *loss)
{
    return (struct xt_evaluate_loss){.context = loss, .mean = evaluation_mean};
}

static enum xt_status open_classes(struct xt_loss *loss, size_t batch, struct xt_err *err)
{
    enum xt_status status = xt_mem_calloc(&loss->labels, batch, sizeof(int), "the labels", err);
    if (!status)
        status = xt_mem_calloc(&loss->seconds, batch, sizeof(int), "the labels", err);
    return status ? status : xt_mem_calloc(&loss->share, batch, sizeof(float), "the labels", err);
}

enum xt_status xt_loss_create(struct xt_loss **out, const struct xt_network *network,
                              double smoothing, struct xt_err *err)
{
    struct xt_loss *loss = NULL;
    size_t batch = (size_t)network->batch;
    *out = NULL;
    enum xt_status status = xt_mem_calloc(&loss, 1, sizeof *loss, "the loss", err);
    if (status)
        return status;
    loss->classes = network->classes;
    loss->smoothing = smoothing;
    status = xt_mem_calloc(&loss->losses, batch, sizeof(float), "the losses", err);
    if (!status && network->task == XT_TASK_CLASSES) {
        status = open_classes(loss, batch, err);
    } else if (!status) {
        loss->blank = xt_alphabet_blank(network->alphabet);
        loss->time_steps = network->model->time_steps;
        status = xt_ctc_create(&loss->ctc, network->batch, loss->time_steps, network->classes,
                               XT_LABEL_MAX, err);
    }
    if (status)
        xt_loss_destroy(loss);
    else
        *out = loss;
    return status;
}

void xt_loss_destroy(struct xt_loss *loss)
{
    if (!loss)
        return;
    xt_ctc_destroy(loss->ctc);
    xt_xpu_loss_destroy(loss->device);
    free(loss->losses);
    free(loss->labels);
    free(loss->seconds);
    free(loss->share);
    free(loss);
}
