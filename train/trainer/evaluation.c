/* Evaluation of the weights and their moving average, and selection of the best. */
#include "train/trainer/trainer_internal.h"

#include <inttypes.h>
#include <math.h>

#include "base/system/thread.h"
#include "train/ranks/evaluation.h"
#include "train/trainer/parts.h"
#include "train/trainer/step.h"

/* Lists bad images even if the evaluation failed because of them; its error takes precedence. */
static enum xt_status list_bad_of_val(struct xt_trainer *trainer, enum xt_status status,
                                      struct xt_err *err)
{
    const struct xt_evaluation *e = &trainer->last_evaluation;
    struct xt_err own;
    if (!xt_ranks_is_first(trainer->settings->ranks))
        return status;
    enum xt_status listed =
        xt_trainer_add_bad(trainer, trainer->val, e->bad, e->bad_images, status ? &own : err);
    return status ? status : listed;
}

static void take_answer(void *errors, const struct xt_answer *answer)
{
    xt_errors_add(errors, answer);
}

/* `errors`, if not NULL, collects the predictions. */
static enum xt_status evaluate_weights(struct xt_trainer *trainer, struct xt_errors *errors,
                                       struct xt_evaluation *evaluation, struct xt_err *err)
{
    const struct xt_evaluate_config config = {
        .data = &trainer->settings->data,
        .source = trainer->val,
        .loss = xt_loss_of_evaluation(trainer->loss),
        .share = xt_ranks_evaluate_share(trainer->settings->ranks),
        .observer = {.context = errors, .answer = errors ? take_answer : NULL},
        .nan_is_loss = true,
    };
    xt_evaluation_clear(evaluation);
    return xt_evaluate(&trainer->network, trainer->predictor, &config, evaluation, err);
}

static enum xt_status evaluate_average(struct xt_trainer *trainer, struct xt_err *err)
{
    struct xt_err own;
    if (!trainer->ema)
        return XT_OK;
    enum xt_status status = xt_ema_exchange(trainer->ema, err);
    if (!status)
        status = evaluate_weights(trainer, NULL, &trainer->average_evaluation, err);
    enum xt_status back = xt_ema_exchange(trainer->ema, status ? &own : err);
    return status ? status : back;
}

static struct xt_selection_metric metric_of(const struct xt_evaluation *evaluation)
{
    return xt_selection_metric_of(evaluation->metrics, evaluation->metric_count, evaluation->loss);
}

/* Whether these are the best so far; if so records them. */
static bool become_best(struct xt_trainer *trainer, const struct xt_selection_metric *metric,
                        bool average)
{
    if (trainer->best_step >= 0 && !xt_selection_metric_is_better(metric, &trainer->best))
        return false;
    trainer->best_step = trainer->step;
    trainer->best = *metric;
    trainer->best_is_average = average;
    return true;
}

/* Saves the better of the weights and their moving average if it is the best so far. best[0]: the
 * weights were better than all before, best[1]: so was their average. */
static enum xt_status judge(struct xt_trainer *trainer, bool best[2], struct xt_err *err)
{
    const struct xt_selection_metric metric = metric_of(&trainer->last_evaluation);
    struct xt_selection_metric better = metric;
    best[0] = become_best(trainer, &metric, false);
    best[1] = false;
    if (trainer->ema) {
        const struct xt_selection_metric average = metric_of(&trainer->average_evaluation);
        best[1] = become_best(trainer, &average, true);
        if (xt_selection_metric_is_better(&average, &metric))
            better = average;
    }
    xt_patience_see(&trainer->patience, &better, trainer->settings->run.min_delta);
    if (!xt_ranks_is_first(trainer->settings->ranks))
        return XT_OK;
    if (best[1])
        return xt_trainer_save_average(trainer, "best.safetensors", err);
    return best[0] ? xt_trainer_save_weights(trainer, "best.safetensors", err) : XT_OK;
}

static void tell_evaluations(const struct xt_trainer *trainer, struct xt_train_progress *progress,
                             const bool best[2])
{
    const struct xt_train_observer *observer = &trainer->observer;
    if (!observer->evaluated)
        return;
    observer->evaluated(observer->context, progress, &trainer->last_evaluation, best[0]);
    progress->of_average = true;
    if (trainer->ema)
        observer->evaluated(observer->context, progress, &trainer->average_evaluation, best[1]);
}

static bool is_finite(const struct xt_evaluation *evaluation)
{
    return !evaluation->images || isfinite(evaluation->loss);
}

/* Finite weights too may lead to numbers that are not, as activations overflow. */
static enum xt_status check_losses(struct xt_trainer *trainer, struct xt_err *err)
{
    if (is_finite(&trainer->last_evaluation) &&
        (!trainer->ema || is_finite(&trainer->average_evaluation)))
        return XT_OK;
    trainer->diverged = true;
    trainer->diverged_step = trainer->step;
    return xt_err_set(err, XT_ERR_RUN,
                      "the loss of the evaluation at step %" PRId64
                      " is infinite or NaN: the run has diverged; a lower --lr, or --clip 5, may "
                      "help",
                      trainer->step);
}

static enum xt_status evaluate_with(struct xt_trainer *trainer, struct xt_errors *errors,
                                    struct xt_err *err)
{
    struct xt_train_progress progress = xt_trainer_progress(trainer);
    enum xt_status status = xt_trainer_check_weights(trainer, err);
    if (status)
        return status;
    status = evaluate_weights(trainer, errors, &trainer->last_evaluation, err);
    status = list_bad_of_val(trainer, status, err);
    if (!status)
        status = evaluate_average(trainer, err);
    if (!status)
        status = check_losses(trainer, err);
    if (status)
        return status;
    trainer->evaluated_step = trainer->step;
    trainer->saved_step = -1;
    bool best[2];
    status = judge(trainer, best, err);
    if (!status)
        status = xt_trainer_log_evaluation(trainer, &progress, &trainer->last_evaluation, err);
    tell_evaluations(trainer, &progress, best);
    if (!status)
        status = xt_ranks_share_errors(trainer->settings->ranks, errors, err);
    if (!status && xt_ranks_is_first(trainer->settings->ranks))
        xt_run_report_take(&trainer->report, errors, &trainer->last_evaluation, trainer->val,
                           trainer->step);
    return status;
}

enum xt_status xt_trainer_evaluate(struct xt_trainer *trainer, struct xt_err *err)
{
    struct xt_errors errors;
    double start = xt_thread_seconds();
    if (!trainer->val)
        return XT_OK;
    enum xt_status status = xt_train_step_judge(trainer, NULL, err);
    if (status || trainer->evaluated_step == trainer->step)
        return status;
    status = xt_errors_init(&errors, trainer->predictor, XT_RUN_ERRORS, err);
    if (!status)
        status = evaluate_with(trainer, &errors, err);
    xt_errors_clear(&errors);
    trainer->costs.evaluation += xt_thread_seconds() - start;
    /* Before the checkpoint that follows: a run that is killed behind that does not evaluate
     * again. */
    if (!status)
        xt_trainer_write_page(trainer, "running", false);
    xt_trainer_begin_rates(trainer);
    return status;
}

/* Given weights are evaluated before the first step: they may stay the best, unless negatives are
 * what they are to learn. */
bool xt_trainer_evaluation_is_due(const struct xt_trainer *trainer)
{
    int64_t step = xt_train_step_count(trainer);
    if (step == 0)
        return trainer->settings->network.init && !trainer->negatives;
    int64_t epoch = step / trainer->epoch_steps;
    int every = trainer->settings->run.eval_every;
    return every && step % trainer->epoch_steps == 0 && epoch % every == 0 && step < trainer->steps;
}

/* ---- --overfit ---- */

bool xt_trainer_has_learnt(const struct xt_trainer *trainer)
{
    return trainer->best_step > 0 && trainer->best.accuracy == 1;
}

enum xt_status xt_trainer_list_wrong(struct xt_trainer *trainer, struct xt_errors *errors,
                                     struct xt_err *err)
{
    struct xt_evaluation evaluation = {.images = 0};
    enum xt_status status = evaluate_weights(trainer, errors, &evaluation, err);
    xt_evaluation_clear(&evaluation);
    return status ? status : xt_ranks_share_errors(trainer->settings->ranks, errors, err);
}

void xt_trainer_image_name(const struct xt_trainer *trainer, size_t index, char *out, size_t size)
{
    trainer->val->class->name(trainer->val, index, out, size);
}
