#include "train/optim/ema.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "engine/program.h"

enum { KEEP, GAIN, RATES };

/* An averaged arena. */
struct part {
    const struct xt_device_memory *of; /* the parameters' own */
    float **host;                      /* the same on the host */
    size_t floats;
    struct xt_device_memory average;
};

enum { VALUES, STATISTICS, PARTS };

struct xt_ema {
    struct xt_device *device;
    struct xt_params *params;
    double decay;
    int64_t updates;
    struct part parts[PARTS];
    struct xt_device_memory host_rates, rates, scratchpad;
    size_t rate_at[RATES]; /* floats */
    struct xt_program update;
};

/* ---- creation ---- */

static enum xt_status create_floats(struct xt_ema *ema, size_t count, enum xt_place place,
                                    struct xt_device_memory *out, struct xt_err *err)
{
    return xt_device_memory_create_bytes(ema->device, count * sizeof(float), place,
                                         "the weights' moving average", out, err);
}

static enum xt_status create_memories(struct xt_ema *ema, struct xt_err *err)
{
    enum xt_status status = create_floats(ema, RATES, XT_ON_HOST, &ema->host_rates, err);
    if (!status)
        status = create_floats(ema, RATES, XT_ON_DEVICE, &ema->rates, err);
    for (int i = 0; i < PARTS && !status; i++)
        status =
            create_floats(ema, ema->parts[i].floats, XT_ON_DEVICE, &ema->parts[i].average, err);
    return status;
}

/* average = keep * average + gain * weights */
static void describe_part(struct xt_ema *ema, const struct part *part)
{
    struct xt_operand average =
        xt_operand_matrix(xt_in_memory(&part->average), dnnl_f32, 1, part->floats);
    struct xt_operand weights = average;
    weights.place = xt_in_memory(part->of);
    struct xt_operand keep = xt_operand_scalar(xt_in_arena(&ema->rates, &ema->rate_at[KEEP]), 2);
    struct xt_operand gain = xt_operand_scalar(xt_in_arena(&ema->rates, &ema->rate_at[GAIN]), 2);
    struct xt_post_ops add = {.count = 1, .items = {xt_then_with(dnnl_binary_add, average)}};
    xt_program_binary(&ema->update, XT_FORWARD, dnnl_binary_mul, &average, &keep, &average, NULL);
    xt_program_binary(&ema->update, XT_FORWARD, dnnl_binary_mul, &weights, &gain, &average, &add);
}

static void describe(struct xt_ema *ema)
{
    struct xt_operand from = xt_operand_matrix(xt_in_memory(&ema->host_rates), dnnl_f32, 1, RATES);
    struct xt_operand to = xt_operand_matrix(xt_in_memory(&ema->rates), dnnl_f32, 1, RATES);
    xt_program_reorder(&ema->update, XT_FORWARD, &from, &to);
    for (int i = 0; i < PARTS; i++)
        describe_part(ema, &ema->parts[i]);
}

enum xt_status xt_ema_create(struct xt_ema **out, struct xt_device *device,
                             struct xt_params *params, double decay, struct xt_err *err)
{
    struct xt_ema *ema = NULL;
    struct xt_err failure = {0};
    *out = NULL;
    enum xt_status status = xt_mem_calloc(&ema, 1, sizeof *ema, "the moving average", err);
    if (status)
        return status;
    *ema = (struct xt_ema){
        .device = device,
        .params = params,
        .decay = decay,
        .parts = {{&params->device.values, &params->values, params->value_floats, {0}},
                  {&params->device.stats, &params->stats, params->stat_floats, {0}}},
        .rate_at = {KEEP, GAIN}};
    xt_program_init(&ema->update, device, "the weights' moving average", &failure);
    status = create_memories(ema, err);
    if (!status)
        describe(ema);
    if (!status)
        status = xt_programs_bind(&ema->update, 1, "the moving average", &ema->scratchpad, err);
    if (status)
        xt_ema_destroy(ema);
    else
        *out = ema;
    return status;
}

void xt_ema_destroy(struct xt_ema *ema)
{
    if (!ema)
        return;
    xt_program_clear(&ema->update);
    for (int i = 0; i < PARTS; i++)
        xt_device_memory_destroy(&ema->parts[i].average);
    xt_device_memory_destroy(&ema->host_rates);
    xt_device_memory_destroy(&ema->rates);
    xt_device_memory_destroy(&ema->scratchpad);
    free(ema);
}

/* ---- running ---- */

enum xt_status xt_ema_begin(struct xt_ema *ema, struct xt_err *err)
{
    enum xt_status status = xt_params_pull(ema->params, err);
    for (int i = 0; i < PARTS && !status; i++) {
        struct part *part = &ema->parts[i];
        status = xt_device_memory_write(&part->average, *part->host, part->floats * sizeof(float),
                                        XT_CAUSE_WEIGHTS, err);
    }
    ema->updates = 0;
    return status;
}

enum xt_status xt_ema_update(struct xt_ema *ema, struct xt_err *err)
{
    double n = (double)ema->updates++;
    double keep = fmin(ema->decay, (1 + n) / (10 + n));
    float *rates = ema->host_rates.host;
    rates[KEEP] = (float)keep;
    rates[GAIN] = (float)(1 - keep);
    xt_traffic_add(ema->device, XT_CAUSE_SCALARS, true, ema->host_rates.bytes);
    return xt_program_run(&ema->update, XT_FORWARD, err);
}

static enum xt_status exchange(struct part *part, struct xt_err *err)
{
    void *data = NULL;
    enum xt_status status = xt_device_memory_map(&part->average, XT_CAUSE_WEIGHTS, &data, err);
    if (status)
        return status;
    float *average = data;
    float *weights = *part->host;
    for (size_t i = 0; i < part->floats; i++) {
        float weight = weights[i];
        weights[i] = average[i];
        average[i] = weight;
    }
    return xt_device_memory_unmap(&part->average, true, XT_CAUSE_WEIGHTS, err);
}

enum xt_status xt_ema_exchange(struct xt_ema *ema, struct xt_err *err)
{
    enum xt_status status = xt_params_pull(ema->params, err);
    for (int i = 0; i < PARTS && !status; i++)
        status = exchange(&ema->parts[i], err);
    ema->params->version++;
    return status;
}

enum xt_status xt_ema_map(struct xt_ema *ema, struct xt_params_view *view, struct xt_err *err)
{
    void *data[PARTS] = {NULL, NULL};
    enum xt_status status = XT_OK;
    for (int i = 0; i < PARTS && !status; i++)
        status = xt_device_memory_map(&ema->parts[i].average, XT_CAUSE_WEIGHTS, &data[i], err);
    *view = (struct xt_params_view){data[VALUES], data[STATISTICS]};
    return status;
}

enum xt_status xt_ema_unmap(struct xt_ema *ema, bool changed, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (int i = 0; i < PARTS && !status; i++)
        status = xt_device_memory_unmap(&ema->parts[i].average, changed, XT_CAUSE_WEIGHTS, err);
    return status;
}

int64_t xt_ema_updates(const struct xt_ema *ema)
{
    return ema->updates;
}

void xt_ema_set_updates(struct xt_ema *ema, int64_t updates)
{
    ema->updates = updates;
}
