/* One step, of one batch or of several whose gradients are summed, in two phases: its gradients are
 * judged, then the update is applied and the step counts.
 *
 * The host judges before it applies. On an XPU that would need a wait in each step: there the
 * device applies the update only if the gradients are finite, and the step is in flight until the
 * host judges it, with the next batch's loss or in xt_train_step_judge. Only then does it count.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "infer/feed.h"
#include "train/settings.h"

struct xt_trainer;

/* Whether gradients are reduced in bf16, so that each rank has a residual. */
bool xt_train_step_has_residual(const struct xt_train_settings *settings);
/* Batches per step, and images in them. */
int xt_train_step_batches(const struct xt_train_settings *settings);
int xt_train_step_images(const struct xt_trainer *trainer);

/* What steps need beside the network: the optimizer has been opened. */
enum xt_status xt_train_step_open(struct xt_trainer *trainer, struct xt_err *err);
void xt_train_step_close(struct xt_trainer *trainer);

/* begin, forward and backward for each batch, end. Where the device computes the loss, forward
 * starts the backward pass too. *loss is the batch's mean, which several ranks
 * all-reduce before the backward pass. If numbers are not finite, forward or backward fails with
 * what and where they are and sets trainer->diverged; with --on-nan skip it warns, ignores the
 * step's other batches, and end leaves weights and optimizer unchanged. *mean is the mean over the
 * step's images; NAN if skipped. */
void xt_train_step_begin(struct xt_trainer *trainer);
enum xt_status xt_train_step_forward(struct xt_trainer *trainer, const struct xt_feed_batch *batch,
                                     double *loss, struct xt_err *err);
enum xt_status xt_train_step_backward(struct xt_trainer *trainer, const struct xt_feed_batch *batch,
                                      double loss, struct xt_err *err);
enum xt_status xt_train_step_end(struct xt_trainer *trainer, double *mean, struct xt_err *err);

/* Judges the step in flight, if any: it counts, or it diverged and was not applied. A batch is
 * passed after a wait for the device, and is searched for the cause. Before weights are saved or
 * evaluated. */
enum xt_status xt_train_step_judge(struct xt_trainer *trainer, const struct xt_feed_batch *batch,
                                   struct xt_err *err);
/* Steps that count, including the one in flight. */
int64_t xt_train_step_count(const struct xt_trainer *trainer);

/* The rate of step `step`: the schedule's, lowered by rollbacks. */
double xt_train_step_lr(const struct xt_trainer *trainer, int64_t step);

/* XT_ERR_RUN where a running statistic is not finite after `step`. A diverging run may have a
 * finite loss to its end: a batch's own statistics hide how large the numbers are, and the running
 * ones overflow. On an XPU: those last transferred to the host. */
enum xt_status xt_train_step_check_statistics(const struct xt_trainer *trainer, int64_t step,
                                              struct xt_err *err);
/* The same of the weights. */
enum xt_status xt_train_step_check_values(const struct xt_trainer *trainer, int64_t step,
                                          struct xt_err *err);
