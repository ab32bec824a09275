/* What the parts of the trainer (trainer.h) have of each other; each file of this folder is one.
 * All of them run on the trainer's thread. Of several ranks each calls them all: what only rank 0
 * does, files and lines of the record, they leave out elsewhere.
 */
#ifndef XT_TRAIN_TRAINER_PARTS_H
#define XT_TRAIN_TRAINER_PARTS_H

#include <stdbool.h>

#include "base/err.h"
#include "infer/evaluate.h"

struct xt_trainer;
struct xt_train_progress;

/* ---- begin.c ---- */

/* The record, from the step on at which the trainer is: later lines are dropped. */
enum xt_status xt_trainer_open_log(struct xt_trainer *trainer, struct xt_err *err);
/* Batches, from that step on. */
enum xt_status xt_trainer_open_feed(struct xt_trainer *trainer, struct xt_err *err);

/* ---- save.c ---- */

/* XT_ERR_RUN, and trainer->diverged, where statistics are no numbers. On an XPU it is only now that
 * they come to the host. */
enum xt_status xt_trainer_check_weights(struct xt_trainer *trainer, struct xt_err *err);
/* In the run's folder; the second saves their moving average. */
enum xt_status xt_trainer_save_weights(struct xt_trainer *trainer, const char *name,
                                       struct xt_err *err);
enum xt_status xt_trainer_save_average(struct xt_trainer *trainer, const char *name,
                                       struct xt_err *err);
/* These images of the source, into the run's list. */
enum xt_status xt_trainer_add_bad(struct xt_trainer *trainer, const struct xt_source *source,
                                  const struct xt_bad_sample *bad, size_t count,
                                  struct xt_err *err);
/* Images that could not be used, of all ranks, into the run's list. */
enum xt_status xt_trainer_list_bad(struct xt_trainer *trainer, struct xt_err *err);
/* Weights and checkpoint of this step, where that is not done. */
enum xt_status xt_trainer_save(struct xt_trainer *trainer, struct xt_err *err);

/* ---- record.c ---- */

struct xt_train_progress xt_trainer_progress(const struct xt_trainer *trainer);
/* Rates are taken from one report or evaluation to the next; the mean loss from one line of the
 * record to the next, over however many starts, so that a resumed run writes the same. */
void xt_trainer_begin_rates(struct xt_trainer *trainer);
/* After a step: tells the observer, and writes a line where one is due. */
enum xt_status xt_trainer_report(struct xt_trainer *trainer, struct xt_err *err);
/* The steps since the last line, where the run ends among them. A run that goes on drops that line
 * and ends the mean. */
enum xt_status xt_trainer_log_rest(struct xt_trainer *trainer, struct xt_err *err);
enum xt_status xt_trainer_log_evaluation(struct xt_trainer *trainer,
                                         const struct xt_train_progress *p,
                                         const struct xt_evaluation *evaluation,
                                         struct xt_err *err);
/* Ends a line of the record, whose figures TensorBoard gets too. */
enum xt_status xt_trainer_end_line(struct xt_trainer *trainer, struct xt_err *err);
/* What cannot be read of the device, once. */
void xt_trainer_note_unreadable(struct xt_trainer *trainer);
/* The run's page. */
void xt_trainer_write_page(struct xt_trainer *trainer, const char *state, bool last);

/* ---- evaluation.c ---- */

/* Whether all images were answered right. */
bool xt_trainer_has_learnt(const struct xt_trainer *trainer);
bool xt_trainer_evaluation_is_due(const struct xt_trainer *trainer);
/* Once for a step, where there are images for it; the best weights are saved. */
enum xt_status xt_trainer_evaluate(struct xt_trainer *trainer, struct xt_err *err);

/* ---- rollback.c ---- */

/* After numbers that are none, as err says: from the newest checkpoint, at half the rate. Fails
 * where that has been of no use some times. */
enum xt_status xt_trainer_roll_back(struct xt_trainer *trainer, struct xt_err *err);

/* ---- agreement.c ---- */

/* Why training ends before its last step, XT_OK while it goes on. *done: by what is a proper end.
 */
enum xt_status xt_trainer_why_stop(struct xt_trainer *trainer, bool *done);
/* What the ranks have to decide together: the loss of all, whether it is a number, whether they
 * stop, whether too many images are bad. */
enum xt_status xt_trainer_agree(struct xt_trainer *trainer, double *loss, struct xt_err *err);

#endif
