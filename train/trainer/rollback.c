/* --on-nan rollback: back to the last checkpoint, at half the rate; after a step, an evaluation or
 * at the end. */
#include "train/trainer/trainer_internal.h"

#include <inttypes.h>
#include <math.h>

#include "base/log.h"
#include "train/trainer/parts.h"
#include "train/trainer/state.h"

enum { ROLLBACKS_MOST = 3 };

/* Rank 0 reads it. `why`: the error that requires it. */
static enum xt_status load_newest(struct xt_trainer *trainer, const struct xt_err *why,
                                  struct xt_train_state *state, struct xt_err *err)
{
    struct xt_checkpoint_file from;
    struct xt_checkpoint_array arrays[XT_CHECKPOINT_ARRAYS];
    int count = xt_train_state_arrays(trainer, arrays);
    enum xt_status status = xt_checkpoint_open_newest(&from, trainer->folder.path, err);
    if (!status && !from.path)
        status = xt_err_set(err, why->status, "%s; there is no whole checkpoint to go back to",
                            why->text);
    if (!status)
        status = xt_train_state_read(&from, state, err);
    if (!status)
        status = xt_checkpoint_load(&from, &trainer->settings->lister, &trainer->network, arrays,
                                    count, err);
    if (!status)
        status = xt_train_state_begin_arrays(trainer, &from, state, err);
    if (!status)
        trainer->optim.step = state->own.optim_step;
    xt_checkpoint_close(&from);
    return status;
}

/* Training since then is discarded, except for best weights found meanwhile, which remain the
 * best. */
static enum xt_status take_checkpoint(struct xt_trainer *trainer, const struct xt_err *why,
                                      struct xt_err *err)
{
    int64_t best_step = trainer->best_step;
    struct xt_selection_metric best = trainer->best;
    bool best_is_average = trainer->best_is_average;
    double seconds = trainer->earlier_seconds;
    struct xt_train_state state = {.run.step = -1};
    enum xt_status status = xt_ranks_is_first(trainer->settings->ranks)
                                ? load_newest(trainer, why, &state, err)
                                : XT_OK;
    if (!status)
        status = xt_train_state_share(trainer, &state, err);
    if (status)
        return status;
    if (trainer->xpu_optim)
        xt_xpu_optim_reload(trainer->xpu_optim);
    trainer->in_flight = false;
    xt_train_state_take(trainer, &state);
    trainer->earlier_seconds = seconds;
    trainer->best_step = best_step;
    trainer->best = best;
    trainer->best_is_average = best_is_average;
    trainer->lr_factor = state.own.lr_factor * pow(0.5, trainer->rollbacks);
    return XT_OK;
}

/* A line in the record for the step that failed. */
static enum xt_status log_rollback(struct xt_trainer *trainer,
                                   const struct xt_log_rollback *rollback, struct xt_err *err)
{
    struct xt_log_writer *log = &trainer->log;
    xt_log_writer_begin(log);
    xt_log_writer_integer(log, "step", rollback->step);
    xt_log_writer_number(log, "time", round(1000 * xt_trainer_seconds(trainer)) / 1000);
    xt_log_writer_integer(log, "rolled_back_to", rollback->to);
    xt_log_writer_number(log, "lr_factor", rollback->lr_factor);
    return xt_trainer_end_line(trainer, err);
}

static enum xt_status reopen(struct xt_trainer *trainer, int64_t failed, struct xt_err *err)
{
    const struct xt_log_rollback rollback = {failed, trainer->step, trainer->lr_factor};
    bool first = xt_ranks_is_first(trainer->settings->ranks);
    enum xt_status status = xt_trainer_list_bad(trainer, err);
    xt_feed_destroy(trainer->feed);
    trainer->feed = NULL;
    xt_log_writer_close(&trainer->log);
    xt_run_report_close(&trainer->report);
    if (!status && first)
        status = xt_trainer_open_log(trainer, &rollback, err);
    if (!status && first)
        status = log_rollback(trainer, &rollback, err);
    if (!status)
        status = xt_trainer_open_feed(trainer, err);
    xt_trainer_begin_rates(trainer);
    return status;
}

static enum xt_status roll_back(struct xt_trainer *trainer, struct xt_err *err)
{
    struct xt_err why = *err;
    int64_t failed = trainer->diverged_step;
    if (trainer->rollbacks == ROLLBACKS_MOST)
        return xt_err_set(err, why.status,
                          "%s; %d times it went back to the checkpoint before (--on-nan rollback), "
                          "the last time at %g of the rate, and it came to the same",
                          why.text, ROLLBACKS_MOST, trainer->lr_factor);
    trainer->rollbacks++;
    enum xt_status status = take_checkpoint(trainer, &why, err);
    trainer->diverged = status != XT_OK;
    if (!status)
        xt_log_warn("%s; going back to step %" PRId64 ", on at %g of the rate (--on-nan rollback, "
                    "%d of %d)",
                    why.text, trainer->step, trainer->lr_factor, trainer->rollbacks,
                    ROLLBACKS_MOST);
    return status ? status : reopen(trainer, failed, err);
}

enum xt_status xt_trainer_recover(struct xt_trainer *trainer, enum xt_status status,
                                  struct xt_err *err)
{
    if (status && trainer->diverged && trainer->settings->run.on_nan == XT_ON_NAN_ROLLBACK)
        return roll_back(trainer, err);
    return status;
}
