/* The training loop: what is done before and after each step, and at the end. */
#include <inttypes.h>
#include <math.h>

#include "base/log.h"
#include "base/system/thread.h"
#include "device/faults/watchdog.h"
#include "infer/network/network_build.h"
#include "train/trainer/parts.h"
#include "train/trainer/step.h"
#include "train/trainer/trainer_internal.h"

static enum xt_status after_step(struct xt_trainer *trainer, struct xt_err *err)
{
    enum xt_status status = xt_trainer_report(trainer, err);
    if (!status && xt_trainer_evaluation_is_due(trainer))
        status = xt_trainer_evaluate(trainer, err);
    int64_t every = trainer->settings->record.save_every ? trainer->settings->record.save_every
                                                         : trainer->epoch_steps;
    /* After the last step the evaluation comes first. */
    int64_t step = xt_train_step_count(trainer);
    if (status || step % every != 0 || step >= trainer->steps)
        return status;
    status = xt_trainer_save(trainer, err);
    /* With evaluations it is done after those. */
    if (!status && !trainer->val)
        xt_trainer_write_page(trainer, "running", false);
    return status;
}

/* A few early steps, after warm-up, have their ops timed for the report; the steps after them are
 * examined for what slows them. */
enum { PROFILE_FROM = 4, PROFILE_TO = 8 };

static void profile_some(struct xt_trainer *trainer)
{
    int64_t own = xt_train_step_count(trainer) - trainer->built_step;
    trainer->network.graph->profile = own >= PROFILE_FROM && own < PROFILE_TO;
    trainer->profiled += trainer->network.graph->profile;
}

static void say_slow(struct xt_trainer *trainer)
{
    if (xt_ranks_is_first(trainer->settings->ranks))
        xt_slow_watch_say(&trainer->slow);
}

/* Warns of a loss far above the previous ones: the run may be about to diverge. */
static void watch_loss(struct xt_trainer *trainer, double loss)
{
    double level = trainer->spikes.level;
    if (!xt_spikes_see(&trainer->spikes, loss))
        return;
    xt_log_note("step %" PRId64 ": the loss is %.4g, far above the %.4g of the steps before (a "
                "spike, number %" PRId64 " of this run)",
                xt_train_step_count(trainer), loss, level, trainer->spikes.count);
}

static enum xt_status next_batch(struct xt_trainer *trainer, struct xt_feed_batch *batch,
                                 struct xt_err *err)
{
    bool end = false;
    double waited = 0;
    enum xt_status status = xt_feed_next(trainer->feed, batch, &end, &waited, err);
    trainer->wait_sum += waited;
    trainer->costs.loading += waited;
    if (status) {
        struct xt_err own;
        if (!trainer->reduction)
            xt_trainer_list_bad(trainer, &own);
    }
    return status;
}

/* With several ranks the loss is all-reduced between the passes. */
static enum xt_status add_batch(struct xt_trainer *trainer, const struct xt_feed_batch *batch,
                                struct xt_err *err)
{
    double loss = 0;
    enum xt_status status = xt_train_step_forward(trainer, batch, &loss, err);
    double start = xt_thread_seconds();
    if (!status && trainer->reduction && !trainer->parts.skipped)
        status = xt_trainer_agree(trainer, &loss, err);
    trainer->step_seconds.loss += xt_thread_seconds() - start;
    return status ? status : xt_train_step_backward(trainer, batch, loss, err);
}

static void end_first_step(struct xt_trainer *trainer, const struct xt_span *start)
{
    if (trainer->first_step.wall == 0)
        trainer->first_step = xt_span_since(start);
}

/* The first batch has been fetched before the step begins. */
static enum xt_status run_batches(struct xt_trainer *trainer, double *loss, struct xt_err *err)
{
    struct xt_feed_batch batch;
    enum xt_status status = next_batch(trainer, &batch, err);
    struct xt_span start = xt_span_now();
    if (!status)
        xt_train_step_begin(trainer);
    for (int i = 0; !status; i++) {
        status = add_batch(trainer, &batch, err);
        xt_feed_release(trainer->feed, &batch);
        if (status || i + 1 == xt_train_step_batches(trainer->settings))
            break;
        status = next_batch(trainer, &batch, err);
    }
    if (!status)
        status = xt_train_step_end(trainer, loss, err);
    end_first_step(trainer, &start);
    if (status == XT_ERR_MEMORY)
        xt_network_advise_batch(&trainer->network, &trainer->settings->network, true, err);
    return status;
}

enum xt_status xt_trainer_step(struct xt_trainer *trainer, const struct xt_feed_batch *batch,
                               double *mean, struct xt_err *err)
{
    struct xt_span start = xt_span_now();
    double loss = 0;
    xt_train_step_begin(trainer);
    enum xt_status status = xt_train_step_forward(trainer, batch, &loss, err);
    if (!status)
        status = xt_train_step_backward(trainer, batch, loss, err);
    if (!status)
        status = xt_train_step_end(trainer, mean, err);
    end_first_step(trainer, &start);
    return status;
}

static enum xt_status run_step(struct xt_trainer *trainer, struct xt_err *err)
{
    double loss = 0;
    struct xt_transfers before;
    xt_transfers_read(&trainer->network.device, &before);
    const struct xt_guard_counts asked_before = xt_guard_counts();
    profile_some(trainer);
    xt_slow_watch_step(&trainer->slow, trainer->costs.loading);
    const double waited = xt_ranks_waited(trainer->settings->ranks);
    enum xt_status status = run_batches(trainer, &loss, err);
    trainer->network.graph->profile = false;
    if (status)
        return status;
    xt_trainer_measure_share(trainer, xt_ranks_waited(trainer->settings->ranks) - waited);
    const struct xt_step_seconds *took = &trainer->step_seconds;
    if (xt_train_step_count(trainer) - trainer->built_step > PROFILE_TO)
        xt_slow_watch_end_step(&trainer->slow, trainer->costs.loading, took->loss,
                               &trainer->device_figures);
    if (xt_slow_watch_judge(&trainer->slow, false))
        say_slow(trainer);
    xt_watchdog_step(took->forward + took->loss + took->backward + took->update);
    xt_transfers_add_since(&trainer->network.device, &before, &trainer->transfers);
    const struct xt_guard_counts asked = xt_guard_counts();
    trainer->asked.primitives += asked.primitives - asked_before.primitives;
    trainer->asked.waits += asked.waits - asked_before.waits;
    if (isnan(loss))
        return XT_OK;
    watch_loss(trainer, loss);
    trainer->loss_sum += loss;
    trainer->loss_steps++;
    return XT_OK;
}

static enum xt_status train_step(struct xt_trainer *trainer, struct xt_err *err)
{
    enum xt_status status = run_step(trainer, err);
    if (!status)
        status = after_step(trainer, err);
    if (!status && xt_train_step_count(trainer) == trainer->steps)
        status = xt_train_step_judge(trainer, NULL, err);
    else if (!status)
        status = xt_trainer_balance(trainer, err);
    return xt_trainer_recover(trainer, status, err);
}

/* Steps up to the end of the run, or until it is stopped or complete. */
static enum xt_status train_steps(struct xt_trainer *trainer, bool *done, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    while (!status && !*done && xt_train_step_count(trainer) < trainer->steps) {
        status = trainer->reduction ? trainer->agreement.stop : xt_trainer_why_stop(trainer, done);
        *done = *done || trainer->agreement.done;
        if (!status && !*done)
            status = train_step(trainer, err);
    }
    return status;
}

/* After the last step. *again: it led to a rollback, so that there are steps to do. */
static enum xt_status finish(struct xt_trainer *trainer, bool *again, struct xt_err *err)
{
    enum xt_status status = xt_trainer_log_rest(trainer, err);
    if (!status)
        status = xt_trainer_evaluate(trainer, err);
    if (!status)
        status = xt_trainer_check_weights(trainer, err);
    *again = status != XT_OK;
    return xt_trainer_recover(trainer, status, err);
}

static enum xt_status stop(struct xt_trainer *trainer, enum xt_status why, struct xt_err *err)
{
    enum xt_status status = xt_trainer_save(trainer, err);
    if (status)
        return status;
    return xt_err_set(err, why, "%s at step %" PRId64 " of %" PRId64 "; all is saved",
                      why == XT_INTERRUPTED ? "interrupted" : "stopped", trainer->step,
                      trainer->steps);
}

/* Steps up to the end of the run or of --max-time; XT_STOPPED or XT_INTERRUPTED if the run is to be
 * saved and left. */
static enum xt_status train(struct xt_trainer *trainer, struct xt_err *err)
{
    bool done = false;
    bool again = true;
    struct xt_err own;
    /* Due if the run was stopped before or during that evaluation. */
    enum xt_status status =
        xt_trainer_evaluation_is_due(trainer) ? xt_trainer_evaluate(trainer, err) : XT_OK;
    status = xt_trainer_recover(trainer, status, err);
    /* So that a rollback has a checkpoint from the first step on. */
    if (!status && trainer->saved_step < 0 && trainer->settings->run.on_nan == XT_ON_NAN_ROLLBACK)
        status = xt_trainer_save(trainer, err);
    while (!status && again) {
        status = train_steps(trainer, &done, err);
        if (status)
            xt_trainer_log_rest(trainer, &own);
        else
            status = finish(trainer, &again, err);
    }
    xt_feed_note_waits(trainer->feed, &trainer->loader_config,
                       xt_thread_seconds() - trainer->start_time);
    if (xt_slow_watch_judge(&trainer->slow, true))
        say_slow(trainer);
    return status;
}

enum xt_status xt_trainer_run(struct xt_trainer *trainer, const struct xt_train_observer *observer,
                              struct xt_err *err)
{
    /* As the run's page states them: "done" means complete. */
    static const char *const ends[] = {
        [XT_END_STEPS] = "done",
        [XT_END_TIME] = "done: the time of --max-time is spent",
        [XT_END_PATIENCE] = "done: nothing was gained any more (--patience)",
        [XT_END_LEARNT] = "done: learnt by heart",
    };
    trainer->observer = *observer;
    trainer->start_time = xt_thread_seconds();
    /* Not the process' age: a run that was resumed after a lost device keeps its process. */
    trainer->costs.start += trainer->start_time - trainer->init_time;
    xt_energy_open(&trainer->energy, NULL);
    xt_trainer_begin_rates(trainer);
    xt_slow_watch_begin(&trainer->slow, &trainer->network);
    say_slow(trainer);
    enum xt_status status =
        xt_monitor_start(&trainer->monitor, &trainer->network.device, XT_MONITOR_INTERVAL, err);
    /* Written now, so that the page shows before the first evaluation that the run is in
     * progress. */
    if (!status)
        xt_trainer_write_page(trainer, "running", false);
    if (!status)
        status = train(trainer, err);
    xt_monitor_stop(trainer->monitor);
    xt_monitor_read(trainer->monitor, &trainer->device_figures);
    xt_trainer_note_unreadable(trainer);
    xt_energy_read(&trainer->energy);
    if (status == XT_STOPPED || status == XT_INTERRUPTED)
        status = stop(trainer, status, err);
    else if (!status)
        status = xt_trainer_save(trainer, err);
    if (!status)
        status = xt_trainer_calibrate(trainer, err);
    xt_trainer_write_page(trainer, status ? err->text : ends[trainer->end], true);
    return status;
}
