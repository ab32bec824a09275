/* The training loss: mean over a batch, and its gradient with respect to the logits. CTC for
 * licence plates, softmax cross entropy for classes. One thread at a time; the losses use threads
 * of their own.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "data/loader.h"
#include "infer/evaluate.h"
#include "infer/network/network.h"

struct xt_loss;

/* Chosen by the network's task, for its batch size; borrows nothing of it. smoothing: label
 * smoothing of classes, in training only. */
enum xt_status xt_loss_create(struct xt_loss **out, const struct xt_network *network,
                              double smoothing, struct xt_err *err);
void xt_loss_destroy(struct xt_loss *loss);

/* The mean over the samples that are not bad. The target of a negative is the empty label, or all
 * classes alike (outlier exposure, Hendrycks et al. 2019, arXiv:1812.04606). grad: as logits; NULL
 * in evaluation, which does not smooth labels. */
double xt_loss_mean(struct xt_loss *loss, const struct xt_batch *batch, const float *logits,
                    float *grad);

/* In training, computed by the device of this graph, which outlives the loss: by kernels of the
 * program's own, where it has them; else, and for xt_loss_mean, the host still computes it. */
enum xt_status xt_loss_place(struct xt_loss *loss, struct xt_graph *graph, struct xt_err *err);
bool xt_loss_is_on_device(const struct xt_loss *loss); /* NULL is allowed */
/* Starts it behind a forward pass that keeps its logits; their gradient is written times `scale`.
 * Then, for the same batch, waits for the mean: not for what was launched in between. */
enum xt_status xt_loss_begin(struct xt_loss *loss, const struct xt_batch *batch, float scale,
                             struct xt_err *err);
enum xt_status xt_loss_wait(struct xt_loss *loss, const struct xt_batch *batch, double *mean,
                            struct xt_err *err);

/* For an evaluation that reports the loss too. */
struct xt_evaluate_loss xt_loss_of_evaluation(struct xt_loss *loss);
