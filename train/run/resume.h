/* Going on with a run: which folder, which checkpoint, and whether it is the same run.
 *
 * --resume auto takes the newest whole checkpoint of --out, or starts fresh where there is none;
 * --resume PATH takes that file, or the newest of that folder. Seed, batch, optimizer, alphabet and
 * context norm must be the same; what else has changed is said. Not thread-safe.
 */
#ifndef XT_TRAIN_RUN_RESUME_H
#define XT_TRAIN_RUN_RESUME_H

#include "base/err.h"
#include "train/trainer.h"

/* Opens the run's folder: --out, the folder that --resume names, or a new one. */
enum xt_status xt_resume_open_folder(struct xt_trainer *trainer, struct xt_err *err);

/* The batch of the checkpoint that --resume names, for --batch auto; 0 where there is none. */
enum xt_status xt_resume_batch(const struct xt_settings *settings, int *batch, struct xt_err *err);

/* Takes the state of the checkpoint that --resume names; does nothing without --resume. */
enum xt_status xt_resume_load(struct xt_trainer *trainer, struct xt_err *err);

#endif
