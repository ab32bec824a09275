/* Why a run stops before its last step, and what its ranks agree on in each step. */
#include "train/trainer/trainer_internal.h"

#include "base/system/stop.h"
#include "base/system/thread.h"
#include "train/ranks/state.h"
#include "train/trainer/parts.h"
#include "train/trainer/step.h"

enum xt_status xt_trainer_why_stop(struct xt_trainer *trainer, bool *done)
{
    const struct xt_train_settings *s = trainer->settings;
    double here = xt_thread_seconds() - trainer->start_time;
    enum xt_status asked = xt_stop_status();
    if (asked)
        return asked;
    if (s->run.stop_after > 0 && here >= s->run.stop_after)
        return XT_STOPPED;
    if (s->run.stop_at && xt_train_step_count(trainer) >= s->run.stop_at)
        return XT_STOPPED;
    if (s->run.max_time > 0 && xt_trainer_seconds(trainer) >= s->run.max_time)
        trainer->end = XT_END_TIME;
    else if (xt_patience_is_over(&trainer->patience, s->run.patience))
        trainer->end = XT_END_PATIENCE;
    else if (s->run.overfit && xt_trainer_has_learnt(trainer))
        trainer->end = XT_END_LEARNT;
    *done = trainer->end != XT_END_STEPS;
    return XT_OK;
}

/* Whether the bad images of all ranks are too many; an image that several ranks read counts
 * once. */
static enum xt_status judge_bad(struct xt_trainer *trainer, struct xt_err *err)
{
    struct xt_bad_sample *bad = NULL;
    size_t count = 0;
    size_t images = trainer->source->count;
    size_t met = trainer->agreement.bad;
    if (met == trainer->bad_judged || !xt_loader_is_too_bad(met, images))
        return XT_OK;
    trainer->bad_judged = met;
    enum xt_status status = xt_loader_bad(xt_feed_loader(trainer->feed), &bad, &count, err);
    if (!status)
        status = xt_ranks_share_bad(trainer->settings->ranks, &bad, &count, err);
    bool is_too_bad = !status && xt_loader_is_too_bad(count, images);
    struct xt_err own;
    if (is_too_bad && xt_ranks_is_first(trainer->settings->ranks))
        xt_trainer_add_bad(trainer, trainer->source, bad, count, &own);
    if (is_too_bad)
        status = xt_err_set(err, XT_ERR_DATA,
                            "at least %zu of %zu samples are bad, more than the 1 %% that is let "
                            "pass; the first: %s",
                            count, images, bad[0].reason);
    xt_loader_free_bad(bad, count);
    return status;
}

enum xt_status xt_trainer_agree(struct xt_trainer *trainer, double *loss, struct xt_err *err)
{
    struct xt_step_agreement *agreed = &trainer->agreement;
    *agreed = (struct xt_step_agreement){.loss = *loss};
    struct xt_err own;
    agreed->sick = xt_train_step_check_statistics(trainer, trainer->step + 1, &own) != XT_OK;
    agreed->stop = xt_trainer_why_stop(trainer, &agreed->done);
    if (trainer->feed)
        agreed->bad = xt_loader_bad_count(xt_feed_loader(trainer->feed));
    enum xt_status status = xt_ranks_allreduce_step(
        trainer->settings->ranks, xt_gradient_reduction_weight(trainer->reduction), agreed, err);
    *loss = agreed->loss;
    return status ? status : judge_bad(trainer, err);
}
