/* The trainer's state in a checkpoint: its numbers and the optimizer's arrays, and how every rank
 * restores them.
 */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "runs/checkpoint.h"
#include "train/watch/spikes.h"

struct xt_trainer;

/* Of the optimizer, the loss scaler and the watches. Copied byte by byte between ranks. */
struct xt_train_numbers {
    int64_t optim_step;
    int64_t ema_updates; /* of the moving average; -1: there is none */
    double lr_factor;    /* by rollbacks */
    int64_t nan_skips;   /* steps, by --on-nan skip */
    double loss_scale;   /* 0: none */
    int64_t loss_scale_fine;
    int64_t skipped;
    int64_t residual_ranks; /* the mean of whose residuals the checkpoint has; 0: it has none */
    int64_t patience_since; /* -1: nothing was evaluated yet */
    struct xt_selection_metric patience;
    struct xt_spikes spikes;
};

struct xt_train_state {
    struct xt_checkpoint run; /* step -1: there is none */
    struct xt_train_numbers own;
};

/* The checkpoint's text of --balance (xt_trainer_print_shares). */
#define XT_TRAIN_SHARES_KEY "rank_shares"

struct xt_train_state xt_train_state_of(const struct xt_trainer *trainer);
/* Writes the state, with the optimizer's arrays, to the run's folder. */
enum xt_status xt_train_state_save(struct xt_trainer *trainer, const struct xt_train_state *state,
                                   struct xt_err *err);

/* The optimizer's arrays in a checkpoint, which xt_checkpoint_load fills. */
int xt_train_state_arrays(const struct xt_trainer *trainer,
                          struct xt_checkpoint_array out[XT_CHECKPOINT_ARRAYS]);
enum xt_status xt_train_state_read(const struct xt_checkpoint_file *from,
                                   struct xt_train_state *out, struct xt_err *err);
/* Restores the moving average and the gradients' residual from the checkpoint; without one they
 * begin with the weights, and 0. */
enum xt_status xt_train_state_begin_arrays(struct xt_trainer *trainer,
                                           const struct xt_checkpoint_file *from,
                                           const struct xt_train_state *state, struct xt_err *err);
/* Broadcasts what rank 0 has read: *state, weights, their average, the optimizer. */
enum xt_status xt_train_state_share(struct xt_trainer *trainer, struct xt_train_state *state,
                                    struct xt_err *err);
/* Resumes from it. */
void xt_train_state_take(struct xt_trainer *trainer, const struct xt_train_state *state);
