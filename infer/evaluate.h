/* Evaluation: a source through the network in evaluation mode, and the score. The last, smaller
 * batch is included. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "data/loader.h"
#include "data/sources/source.h"
#include "infer/answer/decode.h"
#include "infer/latency.h"
#include "infer/network/network.h"
#include "infer/answer/predictor.h"
#include "infer/settings.h"

struct xt_evaluation {
    struct xt_score score;
    size_t images;  /* evaluated */
    size_t correct; /* a whole plate, or the likeliest class */
    struct xt_metric metrics[XT_METRICS_MAX];
    int metric_count;
    double loss; /* the mean over the images; NAN without a loss function */
    double seconds;
    double images_per_s;
    struct xt_latency_summary latency;
    struct xt_bad_sample *bad; /* the images that could not be used, also after a failure */
    size_t bad_images;
};

void xt_evaluation_clear(struct xt_evaluation *evaluation);

/* One image and the network's prediction. */
struct xt_answer {
    size_t index; /* in the source */
    const int *label;
    int label_length;
    const struct xt_decoded *said;
    const float *logits; /* of this image */
    bool right;
};

/* Callbacks of an evaluation; each may be NULL. */
struct xt_evaluate_observer {
    void *context;
    /* After each batch: the images done so far. */
    void (*progress)(void *context, size_t done, size_t all);
    /* Each image, in order; the answer is valid during the call only. */
    void (*answer)(void *context, const struct xt_answer *answer);
};

/* The mean loss over a batch's images, set by the trainer (train/losses/loss.h). */
struct xt_evaluate_loss {
    void *context;
    double (*mean)(void *context, const struct xt_batch *batch, const float *logits);
};

/* For an evaluation by several processes, each on its share of the images; zeroed: one process. */
struct xt_evaluate_share {
    int index, count; /* of this process, of the processes */
    void *context;
    /* All-reduces `own`'s score and bad images and *loss_sum over the processes, which evaluated
     * `images` in all; `status`, XT_OK or this process's reason to stop, becomes that of all. */
    enum xt_status (*reduce)(void *context, size_t images, struct xt_evaluation *own,
                             double *loss_sum, enum xt_status status, struct xt_err *err);
};

/* What is evaluated, and how. */
struct xt_evaluate_config {
    const struct xt_data_settings *data; /* how images are read */
    const struct xt_source *source;
    struct xt_evaluate_loss loss; /* mean NULL: no loss */
    struct xt_evaluate_share share;
    struct xt_evaluate_observer observer;
    bool are_negatives; /* the observer sees them, with label_length XT_LABEL_NEGATIVE and none of
                           them right; they have no score */
    bool nan_is_loss;   /* outputs that are not finite count as wrong and make the loss NaN, instead
                           of failing */
};

/* The caller clears `out`, also after a failure. After a signal it returns XT_INTERRUPTED or
 * XT_STOPPED.
 */
enum xt_status xt_evaluate(struct xt_network *network, struct xt_predictor *predictor,
                           const struct xt_evaluate_config *config, struct xt_evaluation *out,
                           struct xt_err *err);
