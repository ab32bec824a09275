/* What a network is trained for: the mean loss of a batch on its logits, and the gradient of it.
 * CTC for licence plates, softmax cross entropy for classes. One thread at a time; the losses use
 * threads of their own.
 */
#ifndef XT_TRAIN_LOSSES_LOSS_H
#define XT_TRAIN_LOSSES_LOSS_H

#include "base/err.h"
#include "data/loader.h"
#include "infer/evaluate.h"
#include "infer/network/network.h"

struct xt_loss;

/* By the network's task, for its batch; borrows nothing of it. smoothing: of the labels of classes,
 * in training alone. */
enum xt_status xt_loss_create(struct xt_loss **out, const struct xt_network *network,
                              double smoothing, struct xt_err *err);
void xt_loss_destroy(struct xt_loss *loss);

/* The mean over the samples whose label is not empty. grad: as logits; NULL in evaluation, where
 * labels are taken as they are, without smoothing. */
double xt_loss_mean(struct xt_loss *loss, const struct xt_batch *batch, const float *logits,
                    float *grad);

/* For an evaluation that tells the loss too. */
struct xt_evaluate_loss xt_loss_of_evaluation(struct xt_loss *loss);

#endif
