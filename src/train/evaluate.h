/* Evaluation: a source through the network in evaluation mode, and the score. The last, smaller
 * batch counts. */
#ifndef XT_TRAIN_EVALUATE_H
#define XT_TRAIN_EVALUATE_H

#include "base/err.h"
#include "data/loader.h"
#include "data/source.h"
#include "train/decode.h"
#include "train/metrics.h"
#include "train/network.h"
#include "train/settings.h"

struct xt_evaluation {
    struct xt_plate_score score;
    double loss; /* mean CTC loss a character; NAN where nothing was evaluated */
    double seconds;
    double images_per_s;
    struct xt_bad_sample *bad; /* the images that could not be used, also after a failure */
    size_t bad_images;
};

void xt_evaluation_clear(struct xt_evaluation *evaluation);

/* Who watches an evaluation; each function may be NULL. */
struct xt_evaluate_observer {
    void *context;
    /* After each batch: the images done so far. */
    void (*progress)(void *context, size_t done, size_t all);
    /* Each image, in order, with its label and answer. */
    void (*answer)(void *context, size_t index, const int *label, int label_length,
                   const struct xt_decoded *answer);
};

/* The caller clears `out`, also after a failure. A signal ends it with XT_INTERRUPTED or
 * XT_STOPPED.
 */
enum xt_status xt_evaluate(struct xt_network *network, const struct xt_source *source,
                           const struct xt_settings *settings,
                           const struct xt_evaluate_observer *observer, struct xt_evaluation *out,
                           struct xt_err *err);

/* One sample's answer from the logits of the pass that has just run. */
enum xt_status xt_evaluate_answer(const struct xt_network *network, int sample,
                                  enum xt_decode_kind kind, struct xt_decoded *out,
                                  struct xt_err *err);

/* Loader threads for the settings: --workers, else one for a CPU run. */
int xt_evaluate_workers(const struct xt_settings *settings);

#endif
