/* One step of training: one batch, or several whose gradients are added up, forward, loss and
 * backward each, then the update. The trainer's own; xt_trainer_step is what others call.
 */
#ifndef XT_TRAIN_TRAINER_STEP_H
#define XT_TRAIN_TRAINER_STEP_H

#include "train/trainer.h"

/* Batches of a step, and the images in them. */
int xt_step_batches(const struct xt_settings *settings);
int xt_step_images(const struct xt_trainer *trainer);

/* What steps need beside the network: the optimizer has been opened. */
enum xt_status xt_step_open(struct xt_trainer *trainer, struct xt_err *err);
void xt_step_close(struct xt_trainer *trainer);

/* begin, add for each batch, end. Where numbers appear that are none, add fails with what and where
 * they are and sets trainer->diverged; by --on-nan skip it says so, the step's other batches are
 * passed over, and end leaves weights and optimizer as they were. *loss is the mean over the step's
 * images; NAN where it was left out. */
enum xt_status xt_step_begin(struct xt_trainer *trainer, struct xt_err *err);
enum xt_status xt_step_add(struct xt_trainer *trainer, const struct xt_feed_batch *batch,
                           struct xt_err *err);
enum xt_status xt_step_end(struct xt_trainer *trainer, double *loss, struct xt_err *err);

/* The rate of step `step`: the schedule's, lowered by rollbacks. */
double xt_step_lr(const struct xt_trainer *trainer, int64_t step);

/* XT_ERR_RUN where a running statistic is no number. A diverging run may have a finite loss to its
 * end: a batch's own statistics hide how large the numbers are, and the running ones overflow. On
 * an XPU they are those that came to the host last. */
enum xt_status xt_step_check_statistics(const struct xt_trainer *trainer, struct xt_err *err);

#endif
