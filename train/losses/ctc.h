/* Connectionist temporal classification (Graves et al. 2006): loss and exact gradient with respect
 * to the logits, in float32 and log space, threads over samples. The softmax over classes is part
 * of it.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"

/* Scratch for batches of up to n_max samples of t steps. One thread at a time calls xt_ctc_loss. */
struct xt_ctc;
enum xt_status xt_ctc_create(struct xt_ctc **out, int n_max, int t, int classes, int label_max,
                             struct xt_err *err);
void xt_ctc_destroy(struct xt_ctc *ctc);

/* logits: [n][t][classes]; labels: [n][label_stride], of label_lengths[i] symbols each (at most
 * label_max, or too many for t), none of them `blank`. losses: [n], -ln P(label), not divided by
 * length; infinite where the label cannot be aligned. grad (may be NULL): [n][t][classes],
 * d(mean)/d(logits); zero for samples whose label cannot be aligned or has length 0. Returns the
 * mean over the batch of losses[i] / label_lengths[i] (PyTorch's reduction='mean'); samples of
 * length 0 are not counted, and infinite losses make it infinite. XT_LABEL_NEGATIVE, -1, is the
 * length of an empty label, all of whose steps are blank: its loss is divided by t. NaN logits give
 * NaN losses. The result does not depend on the number of threads.
 */
double xt_ctc_loss(struct xt_ctc *ctc, const float *logits, const int *labels, size_t label_stride,
                   const int *label_lengths, int n, int blank, float *losses, float *grad);

/* Its parts that need no logits: each sample's weight in the mean (0: not counted), and the mean of
 * the losses. */
void xt_ctc_weights(const int *label_lengths, int n, int t, float *weights);
double xt_ctc_mean(const float *losses, const int *label_lengths, int n, int t);
