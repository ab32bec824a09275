/* How far the confidence of predictions can be relied on, by labelled images: the temperatures that
 * calibrate it, its reliability diagram, and the threshold of --reject. One thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "infer/answer/confidence.h"
#include "infer/answer/predictor.h"

/* Of more images, evenly spaced ones are used. Predictions of a length have a temperature of their
 * own from XT_RELIABILITY_OWN of them on. */
enum { XT_RELIABILITY_IMAGES = 5000, XT_RELIABILITY_OWN = 50, XT_RELIABILITY_BINS = 10 };

/* A prediction and whether it is right. */
struct xt_outcome {
    double confidence;
    bool right;
    int odd; /* symbols that it has more or fewer than all labels; XT_OUTCOME_EMPTY: nothing was
                read */
};
enum { XT_OUTCOME_EMPTY = XT_DECODE_MAX + 1 };

/* ---- figures of outcomes ---- */

struct xt_reliability_bin {
    size_t images, right;
    double confidence; /* the mean */
};
/* Bin i has the confidences from i / XT_RELIABILITY_BINS on. */
struct xt_reliability {
    size_t images, right;
    struct xt_reliability_bin bins[XT_RELIABILITY_BINS];
    double ece; /* expected calibration error: the mean distance of confidence and accuracy */
    double nll; /* the mean of -ln of the probability that was given to what happened */
};
struct xt_reliability xt_reliability_of(const struct xt_outcome *outcomes, size_t count);

/* The lower bound of a probability, with 95 % confidence, of which `right` of `count` trials came
 * true (Clopper and Pearson 1934, one-sided); 0 of no trials. */
double xt_binomial_bound(size_t right, size_t count);
/* How many trials, all of them right, show that a probability is at least `part`. */
size_t xt_binomial_needed(double part);

/* What a threshold does: of `images`, `accepted` are not rejected, of which `right` are right. */
struct xt_acceptance {
    double threshold;
    size_t images, accepted, right;
    int slack;     /* symbols more or fewer than all labels that are accepted */
    double bound;  /* of the accuracy of those accepted */
    bool promised; /* XT_REJECT_AUTO: the bound is as high as asked */
};
/* The threshold of a rule, and what it does with the outcomes; XT_REJECT_STORED and XT_REJECT_NONE
 * reject nothing. XT_REJECT_AUTO takes the lowest threshold whose bound is as high as asked, where
 * there is none the lowest whose accuracy is, else 1. XT_REJECT_KEEP takes the least slack that
 * leaves enough images, then the highest threshold. Reorders the outcomes. */
struct xt_acceptance xt_acceptance_choose(const struct xt_reject_rule *rule,
                                          struct xt_outcome *outcomes, size_t count);
/* "141 of 150 images are accepted, 141 of them right: at least 97.90 % with 95 % confidence", and
 * whether that is what the rule asks for. */
void xt_acceptance_describe(const struct xt_acceptance *a, const struct xt_reject_rule *rule,
                            char *out, size_t size);

/* What was measured at the end of a run; no images: nothing was. */
struct xt_reliability_report {
    struct xt_confidence confidence;
    struct xt_reliability before, after; /* without and with the temperatures */
    struct xt_reject_rule rule;
    struct xt_acceptance acceptance; /* by the rule */
    struct xt_acceptance keeps;      /* by keep:0.98 */
    struct xt_confidence labels;     /* without a threshold, with the lengths of the labels */
    size_t negatives;                /* held-out ones; 0: not measured */
    size_t negatives_accepted, negatives_above; /* by the rule; at the threshold of `keeps` */
};

/* ---- observed predictions ---- */

struct xt_observation {
    struct xt_decoded said;
    int label_length;
    bool right;
};

/* The predictions of an evaluation, with their logits. Zeroed is empty; clear it also after a
 * failure. */
struct xt_observations {
    const struct xt_predictor *predictor;
    size_t every; /* of so many images one is taken */
    size_t count, capacity;
    struct xt_observation *items;
    float *logits; /* [capacity][sample_logits] */
};
struct xt_answer;
enum xt_status xt_observations_init(struct xt_observations *out,
                                    const struct xt_predictor *predictor, size_t images,
                                    struct xt_err *err);
/* The observer of an evaluation (infer/evaluate.h). */
void xt_observations_add(void *observations, const struct xt_answer *answer);
void xt_observations_clear(struct xt_observations *observations);

/* Finds the temperatures, and for plates the lengths of the labels. */
enum xt_status xt_observations_calibrate(const struct xt_observations *observations,
                                         struct xt_confidence *out, struct xt_err *err);
/* The outcomes at these temperatures (NULL: 1), into [count]. */
enum xt_status xt_observations_outcomes(const struct xt_observations *observations,
                                        const struct xt_confidence *confidence,
                                        struct xt_outcome *out, struct xt_err *err);
