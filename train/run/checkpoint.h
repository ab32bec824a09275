/* A run's whole state in one file, state-STEP.safetensors: weights, statistics, optimizer arrays,
 * and in the metadata the step, the best result so far, what the sequence of samples depends on,
 * and where it was made. One file, so that weights and state can never be of different steps.
 * Random numbers, order and augmentation are functions of seed and step: the step is their state.
 */
#ifndef XT_TRAIN_RUN_CHECKPOINT_H
#define XT_TRAIN_RUN_CHECKPOINT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "train/network.h"
#include "train/optim/optim.h"
#include "train/optim/scaler.h"
#include "train/settings.h"

enum { XT_CHECKPOINT_FORMAT = 1 };

struct xt_checkpoint {
    int64_t step;  /* batches trained on */
    int64_t steps; /* of the whole run */
    uint64_t seed;
    int batch;
    size_t samples; /* in the training source */
    bool bn_frozen;
    int64_t best_step; /* -1: none yet */
    double best_accuracy;
    int64_t evaluated_step; /* the last evaluation, -1: none */
    double loss_sum;        /* over the steps since the last line of metrics.jsonl */
    int64_t loss_steps;
    struct xt_scaler scaler; /* off: none is kept */
    double seconds;          /* trained so far, over all starts */
};

/* Writes folder/state-STEP.safetensors and removes all but the newest `keep`. */
enum xt_status xt_checkpoint_save(const struct xt_checkpoint *checkpoint,
                                  const struct xt_settings *settings, struct xt_network *network,
                                  const struct xt_optim *optim, const char *folder, int keep,
                                  struct xt_err *err);

/* Reads a checkpoint into network and optimizer. Where CPU, library or thread count have changed,
 * it says which, since the losses will then differ in their last bits; where an option of the
 * recipe has changed, it says that the run goes on with the new one. A damaged file is XT_ERR_DATA,
 * and the sentence offers the checkpoint before it. */
enum xt_status xt_checkpoint_load(struct xt_checkpoint *checkpoint,
                                  const struct xt_settings *settings, struct xt_network *network,
                                  struct xt_optim *optim, const char *path, struct xt_err *err);

/* The batch that the run in the file was begun with. */
enum xt_status xt_checkpoint_batch(const char *path, int *batch, struct xt_err *err);

/* Renames the checkpoints of steps after `step` to NAME.aside, each with a note: a run that goes on
 * from before them makes its own. */
enum xt_status xt_checkpoint_set_aside(const char *folder, int64_t step, struct xt_err *err);

/* The newest checkpoint in the folder that can be read whole; *out NULL where there is none.
 * Damaged ones are named on the way. Release *out with free. */
enum xt_status xt_checkpoint_newest(const char *folder, char **out, struct xt_err *err);

#endif
