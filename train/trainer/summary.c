/* The trainer's summary of a run (trainer.h), and its functions for benchmarks. */
#include <math.h>

#include "train/trainer/parts.h"
#include "train/trainer/step.h"
#include "train/trainer/trainer_internal.h"

double xt_trainer_seconds(const struct xt_trainer *trainer)
{
    return trainer->earlier_seconds + xt_thread_seconds() - trainer->start_time;
}

struct xt_run_costs xt_trainer_costs(const struct xt_trainer *trainer)
{
    const struct xt_reading *of_device = &trainer->device_figures.run.energy;
    struct xt_run_costs costs = trainer->costs;
    if (trainer->monitor)
        costs.energy += of_device->known ? of_device->value : NAN;
    else
        costs.energy += trainer->energy.count ? trainer->energy.joules : NAN;
    costs.energy_source = !isfinite(costs.energy) ? NULL
                          : trainer->monitor      ? of_device->source
                                                  : "rapl";
    return costs;
}

static struct xt_run_plan plan_of(const struct xt_trainer *trainer)
{
    return (struct xt_run_plan){
        .data = trainer->source ? trainer->source->description : NULL,
        .val = trainer->val ? trainer->val->description : NULL,
        .batch = trainer->batch,
        .step_images = xt_train_step_images(trainer),
        .epoch_steps = trainer->epoch_steps,
        .steps = trainer->steps,
    };
}

static struct xt_run_state state_of(const struct xt_trainer *trainer)
{
    return (struct xt_run_state){
        .step = xt_train_step_count(trainer),
        .start_step = trainer->start_step,
        .saved_step = trainer->saved_step,
        .evaluated_step = trainer->evaluated_step,
        .end = trainer->end,
        .diverged = trainer->diverged,
    };
}

static struct xt_run_times times_of(const struct xt_trainer *trainer)
{
    double all = xt_trainer_seconds(trainer);
    return (struct xt_run_times){
        .begun = trainer->start_time,
        .all = all,
        .here = all - trainer->earlier_seconds,
        .costs = xt_trainer_costs(trainer),
        .prepare = trainer->prepare_span,
        .first_step = trainer->first_step,
        .step = trainer->step_seconds,
    };
}

static struct xt_run_watch watch_of(const struct xt_trainer *trainer)
{
    return (struct xt_run_watch){
        .spikes = trainer->spikes.count,
        .skipped = trainer->scaler.skipped,
        .nan_skips = trainer->nan_skips,
        .without_gain = trainer->patience.since,
        .lr_factor = trainer->lr_factor,
        .loss_scale = trainer->scaler.on ? (double)trainer->scaler.scale : 0,
        .slow = &trainer->slow.slow,
    };
}

static struct xt_run_device device_of(const struct xt_trainer *trainer)
{
    return (struct xt_run_device){
        .is_watched = trainer->monitor != NULL,
        .figures = &trainer->device_figures,
        .no_energy =
            trainer->monitor ? trainer->device_figures.run.energy.why : trainer->energy.why,
        .transfers = trainer->transfers,
        .asked = trainer->asked,
    };
}

static struct xt_run_update update_of(const struct xt_trainer *trainer)
{
    const struct xt_optim *optim = &trainer->optim;
    return (struct xt_run_update){
        .optimizer = xt_optim_names[optim->kind],
        .states = xt_optim_states(optim->kind, optim->momentum),
        .on_device = trainer->xpu_optim != NULL,
        .averages = trainer->ema != NULL,
        .sums = trainer->sum != NULL,
        .upload_bytes = trainer->upload.bytes,
        .upload_is_copied = trainer->upload.pageable,
        .copy_queue = xt_upload_queue(&trainer->upload),
        .loss_on_device = xt_loss_is_on_device(trainer->loss),
        .reduction_bytes = trainer->reduction ? xt_gradient_reduction_bytes(trainer->reduction) : 0,
        .reduction_buckets =
            trainer->reduction ? xt_gradient_reduction_buckets(trainer->reduction) : 0,
    };
}

struct xt_run_summary xt_trainer_summary(const struct xt_trainer *trainer)
{
    return (struct xt_run_summary){
        .settings = trainer->settings,
        .network = &trainer->network,
        .predictor = trainer->predictor,
        .folder = &trainer->folder,
        .evaluation = &trainer->last_evaluation,
        .average = &trainer->average_evaluation,
        .plan = plan_of(trainer),
        .state = state_of(trainer),
        .best =
            {
                .step = trainer->best_step,
                .accuracy = trainer->best.accuracy,
                .is_average = trainer->best_is_average,
                .is_learnt = xt_trainer_has_learnt(trainer),
            },
        .times = times_of(trainer),
        .watch = watch_of(trainer),
        .device = device_of(trainer),
        .update = update_of(trainer),
        .reliability = &trainer->reliability,
    };
}

struct xt_network *xt_trainer_network(struct xt_trainer *trainer)
{
    return &trainer->network;
}

struct xt_upload *xt_trainer_upload(struct xt_trainer *trainer)
{
    return &trainer->upload;
}
