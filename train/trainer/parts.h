/* Interfaces between the parts of the trainer (trainer.h); each file of this folder is one. All of
 * them run on the trainer's thread. Every rank calls them all: files and lines of the record are
 * written by rank 0 only.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "infer/evaluate.h"

struct xt_trainer;
struct xt_train_progress;

/* ---- begin.c ---- */

/* Opens the record at the trainer's step: later lines are dropped. `repeated`: a rollback whose
 * line follows; NULL: none does. */
struct xt_log_rollback;
enum xt_status xt_trainer_open_log(struct xt_trainer *trainer,
                                   const struct xt_log_rollback *repeated, struct xt_err *err);
/* Starts batches at that step. */
enum xt_status xt_trainer_open_feed(struct xt_trainer *trainer, struct xt_err *err);

/* ---- save.c ---- */

/* XT_ERR_RUN, and trainer->diverged, if weights or statistics are not finite. On an XPU this call
 * transfers them to the host. */
enum xt_status xt_trainer_check_weights(struct xt_trainer *trainer, struct xt_err *err);
/* In the run's folder; the second saves their moving average. */
enum xt_status xt_trainer_save_weights(struct xt_trainer *trainer, const char *name,
                                       struct xt_err *err);
enum xt_status xt_trainer_save_average(struct xt_trainer *trainer, const char *name,
                                       struct xt_err *err);
/* Adds these images of the source to the run's list. */
enum xt_status xt_trainer_add_bad(struct xt_trainer *trainer, const struct xt_source *source,
                                  const struct xt_bad_sample *bad, size_t count,
                                  struct xt_err *err);
/* Adds the unusable images of all ranks to the run's list. */
enum xt_status xt_trainer_list_bad(struct xt_trainer *trainer, struct xt_err *err);
/* Saves weights and checkpoint of this step, unless already saved. */
enum xt_status xt_trainer_save(struct xt_trainer *trainer, struct xt_err *err);

/* ---- record.c ---- */

struct xt_train_progress xt_trainer_progress(const struct xt_trainer *trainer);
/* Rates are measured from one report or evaluation to the next; the mean loss from one line of the
 * record to the next, across restarts, so that a resumed run writes the same. */
void xt_trainer_begin_rates(struct xt_trainer *trainer);
/* After a step: notifies the observer, and writes a line if one is due. */
enum xt_status xt_trainer_report(struct xt_trainer *trainer, struct xt_err *err);
/* Writes a line for the steps since the last one when the run stops. A resumed run drops that line
 * and completes the mean. */
enum xt_status xt_trainer_log_rest(struct xt_trainer *trainer, struct xt_err *err);
enum xt_status xt_trainer_log_evaluation(struct xt_trainer *trainer,
                                         const struct xt_train_progress *p,
                                         const struct xt_evaluation *evaluation,
                                         struct xt_err *err);
/* Completes a line of the record; its figures go to TensorBoard too. */
enum xt_status xt_trainer_end_line(struct xt_trainer *trainer, struct xt_err *err);
/* Notes once which device figures cannot be read. */
void xt_trainer_note_unreadable(struct xt_trainer *trainer);
/* The run's page. */
void xt_trainer_write_page(struct xt_trainer *trainer, const char *state, bool last);

/* ---- evaluation.c ---- */

/* Whether all predictions were correct. */
bool xt_trainer_has_learnt(const struct xt_trainer *trainer);
bool xt_trainer_evaluation_is_due(const struct xt_trainer *trainer);
/* Evaluates once per step, if there are images for it; saves the best weights. */
enum xt_status xt_trainer_evaluate(struct xt_trainer *trainer, struct xt_err *err);

/* ---- calibrate.c ---- */

/* At the end of a run: rank 0 calibrates the confidence of its best weights on the images that it
 * was evaluated on, chooses the threshold of --reject, and stores both in best.safetensors, whose
 * weights are in memory from then on. */
enum xt_status xt_trainer_calibrate(struct xt_trainer *trainer, struct xt_err *err);

/* ---- rollback.c ---- */

/* `status` is what a step, an evaluation or the end of the run came to. With --on-nan rollback
 * non-finite numbers, which err describes, make the run continue from the newest checkpoint at half
 * the rate: XT_OK; it fails after several rollbacks without progress. */
enum xt_status xt_trainer_recover(struct xt_trainer *trainer, enum xt_status status,
                                  struct xt_err *err);

/* ---- balance.c ---- */

/* With --balance: even shares, and the most images that this rank has memory for. */
enum xt_status xt_trainer_open_balance(struct xt_trainer *trainer, struct xt_err *err);
/* The shares as "2,6" with `between` as the comma; nothing without --balance. */
enum xt_status xt_trainer_print_shares(const struct xt_trainer *trainer, const char *between,
                                       struct xt_str *out, struct xt_err *err);
/* Takes those of a checkpoint, as printed, on rank 0 (NULL: none) where they are of this batch and
 * as many ranks. */
enum xt_status xt_trainer_resume_shares(struct xt_trainer *trainer, const char *text,
                                        struct xt_err *err);
/* After a step, in which this rank waited so many seconds for others. */
void xt_trainer_measure_share(struct xt_trainer *trainer, double waited);
/* Between steps: after enough of them cuts the shares anew, if that gains something. */
enum xt_status xt_trainer_balance(struct xt_trainer *trainer, struct xt_err *err);

/* ---- setup.c ---- */

/* What depends on this process's share of a batch, beside the graph: batch slots, loss, reduction
 * of the gradients. Closed with the feed. */
enum xt_status xt_trainer_open_share(struct xt_trainer *trainer, struct xt_err *err);
void xt_trainer_close_share(struct xt_trainer *trainer);

/* ---- agreement.c ---- */

/* Why training stops before its last step, XT_OK while it continues. *done: it is complete.
 */
enum xt_status xt_trainer_why_stop(struct xt_trainer *trainer, bool *done);
/* What the ranks agree on: the loss of all, whether it is finite, whether they stop, whether too
 * many images are bad. */
enum xt_status xt_trainer_agree(struct xt_trainer *trainer, double *loss, struct xt_err *err);
