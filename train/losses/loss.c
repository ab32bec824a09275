#include "train/losses/loss.h"

#include <stdlib.h>

#include "base/mem.h"
#include "train/losses/ctc.h"
#include "train/losses/softmax.h"

struct xt_loss {
    int classes;
    float *losses; /* [batch] */
    /* plates */
    struct xt_ctc *ctc; /* NULL: classes */
    int blank;
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

static double classes_mean(struct xt_loss *loss, const struct xt_batch *batch, const float *logits,
                           float *grad)
{
    for (int i = 0; i < batch->count; i++)
        loss->labels[i] = batch->label_lengths[i] > 0 ? batch->labels[(size_t)i * XT_LABEL_MAX]
                          : batch->label_lengths[i]   ? XT_SOFTMAX_UNIFORM
                                                      : -1;
    struct xt_softmax_targets targets = {
        .labels = loss->labels, .stride = 1, .smoothing = grad ? loss->smoothing : 0};
    if (batch->mixup.alpha > 0)
        mix_labels(loss, batch, &targets);
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
        status = xt_ctc_create(&loss->ctc, network->batch, network->model->time_steps,
                               network->classes, XT_LABEL_MAX, err);
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
    free(loss->losses);
    free(loss->labels);
    free(loss->seconds);
    free(loss->share);
    free(loss);
}
