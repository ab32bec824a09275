/* The learning rate as a function of the step. Stateless: step k of n always has the same rate.
 * Thread-safe. */
#pragma once

#include <stdint.h>

#include "base/err.h"
#include "train/settings.h"

enum { XT_MILESTONES_MAX = 32 };

struct xt_schedule {
    enum xt_sched_kind kind;
    double lr;
    double gamma;
    double least;  /* lower bound of all rates except those of warm-up */
    double warmup; /* fraction of all steps */
    int64_t steps; /* of the whole run */
    int64_t epoch_steps;
    int milestones[XT_MILESTONES_MAX]; /* epochs; for step: [0] is the period */
    int milestone_count;
};

/* Values of --sched, in the enum's order, NULL-terminated. */
extern const char *const xt_schedule_names[];

/* Reads "10,20,30" for step (one number) and multistep (each larger than the one before); errors
 * (XT_ERR_USAGE) name the option. `steps` and `epoch_steps` are at least 1. */
enum xt_status xt_schedule_init(struct xt_schedule *schedule,
                                const struct xt_recipe_settings *settings, int64_t steps,
                                int64_t epoch_steps, struct xt_err *err);

/* The rate of step `step` (0-based). constant, step, multistep, cosine: linear warm-up over the
 * first w = warmup * steps (rounded; step k has (k + 1) / w of the rate), then the law (cosine from
 * there to 0 at step `steps`; epochs of the milestones count from the run's start). onecycle (Smith
 * 2018, as PyTorch's OneCycleLR): from lr/25 by cosine to lr at warmup * steps (0.3 where warmup is
 * 0), then by cosine to lr/25e4. None falls below min-lr: cosines end there, the others are clamped
 * to it. */
double xt_schedule_lr(const struct xt_schedule *schedule, int64_t step);
