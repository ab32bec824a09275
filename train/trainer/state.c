#include "train/trainer/state.h"

#include <math.h>

#include "train/ranks/state.h"
#include "train/trainer/parts.h"
#include "train/trainer/trainer_internal.h"

/* Optional fields were added in later versions. */
static const struct xt_number_field fields[] = {
    {"optim_step", offsetof(struct xt_train_numbers, optim_step), XT_NUMBER_PAST, 0, true},
    {"ema_updates", offsetof(struct xt_train_numbers, ema_updates), XT_NUMBER_COUNT, -1, false},
    {"lr_factor", offsetof(struct xt_train_numbers, lr_factor), XT_NUMBER_REAL, 0, false},
    {"left_out_steps", offsetof(struct xt_train_numbers, nan_skips), XT_NUMBER_PAST, 0, false},
    {"loss_scale", offsetof(struct xt_train_numbers, loss_scale), XT_NUMBER_REAL, 0, false},
    {"loss_scale_fine_steps", offsetof(struct xt_train_numbers, loss_scale_fine), XT_NUMBER_COUNT,
     0, false},
    {"skipped_steps", offsetof(struct xt_train_numbers, skipped), XT_NUMBER_COUNT, 0, false},
    {"residual_ranks", offsetof(struct xt_train_numbers, residual_ranks), XT_NUMBER_COUNT, 0,
     false},
    {"patience_since", offsetof(struct xt_train_numbers, patience_since), XT_NUMBER_COUNT, -1,
     false},
    {"patience_accuracy", offsetof(struct xt_train_numbers, patience.accuracy), XT_NUMBER_REAL, 0,
     false},
    {"patience_second", offsetof(struct xt_train_numbers, patience.second), XT_NUMBER_REAL, 0,
     false},
    {"patience_loss", offsetof(struct xt_train_numbers, patience.loss), XT_NUMBER_REAL, 0, false},
    {"spike_level", offsetof(struct xt_train_numbers, spikes.level), XT_NUMBER_REAL, 0, false},
    {"spike_distance", offsetof(struct xt_train_numbers, spikes.distance), XT_NUMBER_REAL, 0,
     false},
    {"spike_seen", offsetof(struct xt_train_numbers, spikes.seen), XT_NUMBER_PAST, 0, false},
    {"spike_count", offsetof(struct xt_train_numbers, spikes.count), XT_NUMBER_PAST, 0, false},
    {"spike_told", offsetof(struct xt_train_numbers, spikes.told), XT_NUMBER_PAST, 0, false},
    {"spike_within", offsetof(struct xt_train_numbers, spikes.within), XT_NUMBER_FLAG, 0, false},
};
enum { FIELDS = sizeof fields / sizeof *fields };

struct xt_train_state xt_train_state_of(const struct xt_trainer *trainer)
{
    const struct xt_scaler *scaler = &trainer->scaler;
    return (struct xt_train_state){
        .run =
            {
                .step = trainer->step,
                .steps = trainer->steps,
                .samples = (int64_t)trainer->source->count,
                .bn_frozen = trainer->network.bn_frozen,
                .best_step = trainer->best_step,
                .best = trainer->best,
                .best_is_average = trainer->best_is_average,
                .evaluated_step = trainer->evaluated_step,
                .loss_sum = trainer->loss_sum,
                .loss_steps = trainer->loss_steps,
                .seconds = xt_trainer_seconds(trainer),
                .costs = xt_trainer_costs(trainer),
            },
        .own =
            {
                .optim_step = trainer->optim.step,
                .ema_updates = trainer->ema ? xt_ema_updates(trainer->ema) : -1,
                .lr_factor = trainer->lr_factor,
                .nan_skips = trainer->nan_skips,
                .loss_scale = scaler->on ? (double)scaler->scale : 0,
                .loss_scale_fine = scaler->fine,
                .skipped = scaler->skipped,
                .residual_ranks = trainer->residual ? trainer->settings->ranks->size : 0,
                .patience_since = trainer->patience.begun ? trainer->patience.since : -1,
                .patience = trainer->patience.last,
                .spikes = trainer->spikes,
            },
    };
}

void xt_train_state_take(struct xt_trainer *trainer, const struct xt_train_state *state)
{
    const struct xt_checkpoint *run = &state->run;
    const struct xt_train_numbers *own = &state->own;
    trainer->step = trainer->saved_step = run->step;
    trainer->best_step = run->best_step;
    trainer->best = run->best;
    trainer->best_is_average = run->best_is_average;
    trainer->evaluated_step = run->evaluated_step;
    trainer->loss_sum = run->loss_sum;
    trainer->loss_steps = run->loss_steps;
    trainer->earlier_seconds = run->seconds;
    trainer->costs = run->costs;
    trainer->lr_factor = own->lr_factor;
    trainer->nan_skips = own->nan_skips;
    trainer->spikes = own->spikes;
    trainer->patience = (struct xt_patience){.begun = own->patience_since >= 0};
    if (trainer->patience.begun) {
        trainer->patience.since = own->patience_since;
        trainer->patience.last = own->patience;
    }
    if (trainer->scaler.on && own->loss_scale > 0) {
        trainer->scaler.scale = (float)own->loss_scale;
        trainer->scaler.fine = (int)own->loss_scale_fine;
        trainer->scaler.skipped = own->skipped;
    }
}

int xt_train_state_arrays(const struct xt_trainer *trainer,
                          struct xt_checkpoint_array out[XT_CHECKPOINT_ARRAYS])
{
    const struct xt_optim *optim = &trainer->optim;
    int count = xt_optim_states(optim->kind, optim->momentum);
    for (int i = 0; i < count; i++)
        out[i] = (struct xt_checkpoint_array){
            .name = xt_optim_state_name(optim->kind, i),
            .view = {.values = optim->state[i]},
        };
    return count;
}

static const char average_name[] = "ema";
static const char residual_name[] = "gradient_residual";

static enum xt_status save_with_average(struct xt_trainer *trainer,
                                        const struct xt_train_state *state,
                                        struct xt_checkpoint_extra *extra, struct xt_err *err)
{
    struct xt_err own;
    struct xt_params_view view;
    enum xt_status status = trainer->ema ? xt_ema_map(trainer->ema, &view, err) : XT_OK;
    if (status)
        return status;
    if (trainer->ema)
        extra->arrays[extra->array_count++] =
            (struct xt_checkpoint_array){.name = average_name, .view = view};
    status = xt_checkpoint_save(&state->run, extra, &trainer->settings->lister, &trainer->network,
                                trainer->folder.path, trainer->settings->record.keep, err);
    enum xt_status unmapped =
        trainer->ema ? xt_ema_unmap(trainer->ema, false, status ? &own : err) : XT_OK;
    return status ? status : unmapped;
}

enum xt_status xt_train_state_save(struct xt_trainer *trainer, const struct xt_train_state *state,
                                   struct xt_err *err)
{
    struct xt_checkpoint_extra extra = {
        .fields = fields, .field_count = FIELDS, .numbers = &state->own};
    struct xt_str shares = {0};
    extra.array_count = xt_train_state_arrays(trainer, extra.arrays);
    if (trainer->residual)
        extra.arrays[extra.array_count++] = (struct xt_checkpoint_array){
            .name = residual_name, .view = {.values = trainer->residual}};
    enum xt_status status = xt_trainer_print_shares(trainer, ",", &shares, err);
    if (shares.length)
        extra.text = (struct xt_file_meta){XT_TRAIN_SHARES_KEY, xt_str_get(&shares)};
    if (!status)
        status = save_with_average(trainer, state, &extra, err);
    xt_str_clear(&shares);
    return status;
}

enum xt_status xt_train_state_read(const struct xt_checkpoint_file *from,
                                   struct xt_train_state *out, struct xt_err *err)
{
    *out = (struct xt_train_state){
        .run = from->state,
        .own = {.ema_updates = -1, .lr_factor = 1, .patience_since = -1, .patience.loss = NAN},
    };
    enum xt_status status =
        xt_numbers_read(fields, FIELDS, &out->own, from->state.step, &from->file, from->path, err);
    double scale = out->own.loss_scale;
    if (!status && scale != 0 && (scale < 1 || scale > 1e9))
        status = xt_err_set(err, XT_ERR_DATA, "%s holds a loss scale of %g, which cannot be",
                            from->path, scale);
    return status;
}

/* The ranks of today have together what those of the checkpoint had. */
static enum xt_status begin_residual(struct xt_trainer *trainer,
                                     const struct xt_checkpoint_file *from,
                                     const struct xt_train_state *state, struct xt_err *err)
{
    size_t count = trainer->residual ? trainer->network.params.value_floats : 0;
    const struct xt_checkpoint_array residual = {.name = residual_name,
                                                 .view = {.values = trainer->residual}};
    for (size_t i = 0; i < count; i++)
        trainer->residual[i] = 0;
    if (!count || !from->path || !state->own.residual_ranks)
        return XT_OK;
    enum xt_status status = xt_checkpoint_load_array(from, &trainer->network, &residual, err);
    float factor = (float)state->own.residual_ranks / (float)trainer->settings->ranks->size;
    for (size_t i = 0; i < count; i++)
        trainer->residual[i] *= factor;
    return status;
}

static enum xt_status begin_average(struct xt_trainer *trainer,
                                    const struct xt_checkpoint_file *from,
                                    const struct xt_train_state *state, struct xt_err *err)
{
    struct xt_checkpoint_array average = {.name = average_name};
    struct xt_err own;
    if (!trainer->ema)
        return XT_OK;
    if (!from->path || state->own.ema_updates < 0)
        return xt_ema_begin(trainer->ema, err);
    enum xt_status status = xt_ema_map(trainer->ema, &average.view, err);
    if (status)
        return status;
    status = xt_checkpoint_load_array(from, &trainer->network, &average, err);
    enum xt_status unmapped = xt_ema_unmap(trainer->ema, true, status ? &own : err);
    xt_ema_set_updates(trainer->ema, state->own.ema_updates);
    return status ? status : unmapped;
}

enum xt_status xt_train_state_begin_arrays(struct xt_trainer *trainer,
                                           const struct xt_checkpoint_file *from,
                                           const struct xt_train_state *state, struct xt_err *err)
{
    enum xt_status status = begin_average(trainer, from, state, err);
    return status ? status : begin_residual(trainer, from, state, err);
}

enum xt_status xt_train_state_share(struct xt_trainer *trainer, struct xt_train_state *state,
                                    struct xt_err *err)
{
    struct xt_ranks *ranks = trainer->settings->ranks;
    const struct xt_rank_state all = {&trainer->network.params, &trainer->optim, trainer->ema,
                                      trainer->residual};
    if (!ranks)
        return XT_OK;
    enum xt_status status = xt_ranks_copy(ranks, state, sizeof *state, 0, "the checkpoint", err);
    return status ? status : xt_rank_state_share(ranks, &all, err);
}
