#include "train/optim/schedule.h"

#include <limits.h>
#include <math.h>
#include <stdbool.h>

const char *const xt_schedule_names[] = {
    [XT_SCHED_CONSTANT] = "constant",   [XT_SCHED_STEP] = "step",
    [XT_SCHED_MULTISTEP] = "multistep", [XT_SCHED_COSINE] = "cosine",
    [XT_SCHED_ONECYCLE] = "onecycle",   NULL,
};

/* Reads digits at *text, up to INT_MAX; 0 if there are none, or too many. */
static int read_epoch(const char **text)
{
    long long value = 0;
    const char *at = *text;
    for (; *at >= '0' && *at <= '9'; at++) {
        value = value * 10 + (*at - '0');
        if (value > INT_MAX)
            return 0;
    }
    *text = at;
    return (int)value;
}

static enum xt_status refuse(const struct xt_recipe_settings *settings, const char *why,
                             struct xt_err *err)
{
    return xt_err_set(err, XT_ERR_USAGE, "--milestones '%s' %s", settings->milestones, why);
}

static enum xt_status read_milestones(struct xt_schedule *schedule,
                                      const struct xt_recipe_settings *settings, struct xt_err *err)
{
    if (!settings->milestones)
        return xt_err_set(err, XT_ERR_USAGE, "--sched %s needs --milestones: %s",
                          xt_schedule_names[schedule->kind],
                          schedule->kind == XT_SCHED_STEP
                              ? "after how many epochs the rate falls, each time (30, say)"
                              : "the epochs at which the rate falls (30,60,80, say)");
    const char *at = settings->milestones;
    for (bool more = true; more;) {
        int epoch = read_epoch(&at);
        if (epoch == 0 || (*at != ',' && *at != '\0'))
            return refuse(settings,
                          "is not a list of epochs: write whole numbers from 1 on with "
                          "commas between, as in 30,60,80",
                          err);
        int count = schedule->milestone_count;
        if (count == XT_MILESTONES_MAX)
            return xt_err_set(err, XT_ERR_USAGE,
                              "--milestones '%s' has too many epochs: at most %d can be given",
                              settings->milestones, XT_MILESTONES_MAX);
        if (count > 0 && epoch <= schedule->milestones[count - 1])
            return refuse(settings,
                          "is not in order: each epoch must be larger than the one before it", err);
        schedule->milestones[schedule->milestone_count++] = epoch;
        more = *at++ == ',';
    }
    if (schedule->kind == XT_SCHED_STEP && schedule->milestone_count != 1)
        return refuse(settings,
                      "is a list, but --sched step takes one number, its period in "
                      "epochs: write one, or --sched multistep",
                      err);
    return XT_OK;
}

enum xt_status xt_schedule_init(struct xt_schedule *schedule,
                                const struct xt_recipe_settings *settings, int64_t steps,
                                int64_t epoch_steps, struct xt_err *err)
{
    *schedule = (struct xt_schedule){
        .kind = settings->sched,
        .lr = settings->lr,
        .gamma = settings->gamma,
        .least = settings->min_lr,
        .warmup = settings->warmup,
        .steps = steps < 1 ? 1 : steps,
        .epoch_steps = epoch_steps < 1 ? 1 : epoch_steps,
    };
    if (settings->min_lr > settings->lr)
        return xt_err_set(err, XT_ERR_USAGE, "--min-lr %g is above --lr %g, the highest rate",
                          settings->min_lr, settings->lr);
    if (!(settings->warmup >= 0 && settings->warmup <= 1))
        return xt_err_set(err, XT_ERR_USAGE,
                          "--warmup %g is not a part of the run: give a number from 0 to 1",
                          settings->warmup);
    if (schedule->kind == XT_SCHED_STEP || schedule->kind == XT_SCHED_MULTISTEP)
        return read_milestones(schedule, settings, err);
    return XT_OK;
}

/* Half a cosine wave from `from` (part 0) to `to` (part 1). */
static double anneal(double from, double to, double part)
{
    return to + (from - to) / 2 * (1 + cos(M_PI * part));
}

static double onecycle(const struct xt_schedule *schedule, int64_t step)
{
    const double first = schedule->lr / 25;
    const double last = fmax(first / 1e4, schedule->least);
    double warmup = schedule->warmup > 0 ? schedule->warmup : 0.3;
    double top = warmup * (double)schedule->steps - 1;
    double end = (double)schedule->steps - 1;
    double at = (double)step;
    if (top > 0 && at <= top)
        return anneal(first, schedule->lr, at / top);
    return at < end ? anneal(schedule->lr, last, (at - top) / (end - top)) : last;
}

static int64_t milestones_passed(const struct xt_schedule *schedule, int64_t epoch)
{
    if (schedule->kind == XT_SCHED_STEP)
        return epoch / schedule->milestones[0];
    int passed = 0;
    while (passed < schedule->milestone_count && schedule->milestones[passed] <= epoch)
        passed++;
    return passed;
}

double xt_schedule_lr(const struct xt_schedule *schedule, int64_t step)
{
    if (schedule->kind == XT_SCHED_ONECYCLE)
        return onecycle(schedule, step);
    int64_t warm = (int64_t)llround(schedule->warmup * (double)schedule->steps);
    double lr = schedule->lr;
    if (step < warm)
        lr *= (double)(step + 1) / (double)warm;
    switch (schedule->kind) {
    case XT_SCHED_STEP:
    case XT_SCHED_MULTISTEP:
        lr *=
            pow(schedule->gamma, (double)milestones_passed(schedule, step / schedule->epoch_steps));
        return step < warm ? lr : fmax(lr, schedule->least);
    case XT_SCHED_COSINE:
        if (step < warm)
            return lr;
        return step < schedule->steps
                   ? anneal(lr, schedule->least,
                            (double)(step - warm) / (double)(schedule->steps - warm))
                   : schedule->least;
    case XT_SCHED_CONSTANT:
    case XT_SCHED_ONECYCLE:
        break;
    }
    return lr;
}
