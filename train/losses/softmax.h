/* Softmax cross entropy: loss and exact gradient with respect to the logits, threads over samples.
 * Labels may be smoothed (Szegedy et al. 2016, arXiv:1512.00567) and be a mixture of two classes
 * (mixup, Zhang et al. 2018, arXiv:1710.09412). Stateless, thread-safe.
 */
#pragma once

#include <stddef.h>

/* In place of a class: every class alike. */
enum { XT_SOFTMAX_UNIFORM = -2 };

/* The targets: (1 - smoothing) of the label and smoothing / classes of every class.
 */
struct xt_softmax_targets {
    const int *labels;  /* sample i's class is labels[i * stride]; -1: it does not count */
    size_t stride;      /* 1 for a contiguous array */
    const int *seconds; /* [n] mixup's other class; NULL: none */
    const float *share; /* [n] of the first class, the other has the rest; with seconds */
    double smoothing;   /* in [0, 1) */
};

/* logits: [n][classes]. losses: [n], minus the expected log probability; 0 where the sample does
 * not count. grad (may be NULL): [n][classes], d(mean)/d(logits). Returns the mean over the samples
 * that count, 0 where none does. NaN logits give NaN losses. The result does not depend on the
 * number of threads. */
double xt_softmax_loss(const float *logits, int n, int classes,
                       const struct xt_softmax_targets *targets, float *losses, float *grad);

/* Its parts that need no logits. The target of a sample that counts: the weights of two classes,
 * and that of each class. */
struct xt_softmax_target {
    int first, second;
    double first_weight, second_weight, every;
};
struct xt_softmax_target xt_softmax_target(const struct xt_softmax_targets *targets, int sample,
                                           int classes);
/* A sample's weight in the mean, 0 where none counts; and the mean. */
double xt_softmax_weight(const struct xt_softmax_targets *targets, int n);
double xt_softmax_mean(const float *losses, int n, double weight);
