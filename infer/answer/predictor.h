/* How a prediction is read from a network's logits, and the score over an evaluation.
 * There are two: licence plates (greedy or beam decoding) and classes (the likeliest ones); trainer
 * and evaluation depend on neither.
 *
 * xt_predictor_create chooses by the network; it borrows the network, which must outlive it. One
 * thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "base/str.h"
#include "infer/answer/decode.h"
#include "infer/answer/metrics.h"
#include "infer/answer/selection_metric.h"
#include "infer/network/network.h"
#include "infer/settings.h"

/* The score so far; a predictor fills its own member. Zeroed is empty. */
struct xt_score {
    struct xt_plate_score plates;
    struct xt_class_score classes;
    size_t accepted, accepted_right; /* predictions that are not rejected */
};

struct xt_predictor;

struct xt_predictor_class {
    /* The prediction of one sample's logits: a plate's symbols, or the likeliest classes, best
     * first, with the probability of the first. */
    enum xt_status (*answer)(const struct xt_predictor *predictor, const float *logits,
                             struct xt_decoded *out, struct xt_err *err);
    /* Replaces the confidences of a prediction by those that other logits give it. */
    enum xt_status (*confide)(const struct xt_predictor *predictor, const float *logits,
                              struct xt_decoded *answer, struct xt_err *err);
    void (*add)(struct xt_score *score, const int *label, int length,
                const struct xt_decoded *answer);
    /* The prediction of each time step of a sample, into `out` ([XT_DECODE_MAX]); *count gets their
     * number. NULL: there are no steps. */
    enum xt_status (*steps)(const struct xt_predictor *predictor, const float *logits,
                            struct xt_decode_step *out, int *count, struct xt_err *err);
    /* Where a prediction differs from the label, into `out` ([XT_MISTAKES_MAX]); returns the number
     * of differences: symbols of a plate, or the one wrong class. */
    int (*mistakes)(const int *label, int length, const struct xt_decoded *answer,
                    struct xt_mistake *out);
    /* Appends a label, or a prediction's first `length` symbols or classes, as text. */
    enum xt_status (*text)(const struct xt_predictor *predictor, const int *label, int length,
                           struct xt_str *out, struct xt_err *err);
    /* The counts and the metrics; returns the number of metrics. */
    int (*metrics)(const struct xt_score *score, size_t *images, size_t *correct,
                   struct xt_metric *out);
    /* "132 of 150 plates read right (88.00 %), 97.10 % of the characters". */
    void (*describe)(const struct xt_score *score, char *out, size_t size);
};

struct xt_predictor {
    const struct xt_predictor_class *class;
    const struct xt_network *network;
    size_t sample_logits;         /* of one sample */
    enum xt_decode_kind decode;   /* of plates */
    int answers;                  /* classes in a prediction */
    float *scaled;                /* [sample_logits] logits divided by a temperature; softmax */
    struct xt_confidence rejects; /* what is rejected */
};

/* XT_ERR_USAGE for a rule of --reject that chooses a threshold. */
enum xt_status xt_predictor_create(struct xt_predictor **out, const struct xt_network *network,
                                   const struct xt_answer_settings *settings, struct xt_err *err);
void xt_predictor_destroy(struct xt_predictor *predictor);

/* The logits of a sample of the latest pass, and the prediction from them, with the confidences
 * that the network's temperatures calibrate. */
const float *xt_predictor_logits(const struct xt_predictor *predictor, int sample);
enum xt_status xt_predictor_predict(const struct xt_predictor *predictor, int sample,
                                    struct xt_decoded *out, struct xt_err *err);
/* Sets the confidences of a prediction to those of logits divided by `temperature`. */
enum xt_status xt_predictor_confide(const struct xt_predictor *predictor, const float *logits,
                                    double temperature, struct xt_decoded *answer,
                                    struct xt_err *err);
/* Whether --reject, or the rule in the weights, rejects the prediction. */
bool xt_predictor_rejects(const struct xt_predictor *predictor, const struct xt_decoded *answer);
/* Whether the prediction matches the label. */
bool xt_predictor_is_right(const struct xt_predictor *predictor, const int *label, int length,
                           const struct xt_decoded *answer);

/* The kinds, each in its own file; xt_predictor_create chooses. */
extern const struct xt_predictor_class xt_predictor_plates, xt_predictor_classes;
