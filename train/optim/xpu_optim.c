#include "train/optim/xpu_optim.h"

#include <assert.h>
#include <float.h>
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "engine/program.h"
#include "train/optim/steps.h"

/* Adjacent ranges of the arenas that are updated by one rule. */
struct group {
    struct xt_optim_range range;
    size_t scalar_at[XT_OPTIM_SCALARS]; /* in the scalars' memory, floats */
};

/* Results of the norm on the device: the gradients' factor, 1 if the norm is finite, else 0, and
 * the largest finite number. */
enum { FACTOR, FINE, MOST, VERDICTS };

enum { UPDATE, NORMS, PROGRAMS };

struct xt_xpu_optim {
    struct xt_device *device;
    struct xt_optim *optim;
    struct xt_params *params;
    struct group *groups;
    size_t count;
    struct xt_device_memory state[2];
    struct xt_device_memory host_scalars, scalars;
    struct xt_device_memory ones, partial, norm, host_norm;
    struct xt_xpu_optim_norm rule;
    struct xt_device_memory verdict; /* norm by the device: VERDICTS */
    size_t verdict_at[VERDICTS];
    struct xt_device_memory scratchpad;
    struct xt_program programs[PROGRAMS];
    bool pushed;
};

/* ---- groups ---- */

static bool continues(const struct group *group, const struct xt_optim_range *range)
{
    const struct xt_optim_range *own = &group->range;
    return own->offset + own->count == range->offset && own->decay == range->decay &&
           own->lr_factor == range->lr_factor;
}

static void merge(struct xt_xpu_optim *own, const struct xt_optim_range *range)
{
    assert(own->groups);
    struct group *last = own->count ? &own->groups[own->count - 1] : NULL;
    if (range->lr_factor == 0)
        return;
    if (last && continues(last, range))
        last->range.count += range->count;
    else
        own->groups[own->count++] = (struct group){.range = *range};
}

static int by_offset(const void *a, const void *b)
{
    const struct xt_optim_range *x = a;
    const struct xt_optim_range *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static enum xt_status collect_all(struct xt_xpu_optim *own, const struct xt_optim_range *ranges,
                                  size_t range_count, struct xt_err *err)
{
    struct xt_optim_range *sorted = NULL;
    enum xt_status status = xt_mem_calloc(&sorted, range_count, sizeof *sorted, "ranges", err);
    if (!status)
        status = xt_mem_calloc(&own->groups, range_count, sizeof *own->groups, "ranges", err);
    for (size_t i = 0; i < range_count && !status; i++)
        sorted[i] = ranges[i];
    if (!status)
        qsort(sorted, range_count, sizeof *sorted, by_offset);
    for (size_t i = 0; i < range_count && !status; i++)
        merge(own, &sorted[i]);
    free(sorted);
    for (size_t i = 0; i < own->count && !status; i++)
        for (size_t k = 0; k < XT_OPTIM_SCALARS; k++)
            own->groups[i].scalar_at[k] = i * XT_OPTIM_SCALARS + k;
    return status;
}

/* ---- memory ---- */

static enum xt_status create_floats(struct xt_device *device, size_t count, enum xt_place place,
                                    const char *what, struct xt_device_memory *out,
                                    struct xt_err *err)
{
    return xt_device_memory_create_bytes(device, count * sizeof(float), place, what, out, err);
}

static size_t chunks(const struct xt_xpu_optim *own)
{
    return own->params->value_floats / XT_PARAMS_CHUNK;
}

static enum xt_status write_ones(struct xt_xpu_optim *own, struct xt_err *err)
{
    float *ones = NULL;
    enum xt_status status = xt_mem_calloc(&ones, chunks(own), sizeof *ones, "ones", err);
    for (size_t i = 0; i < chunks(own) && !status; i++)
        ones[i] = 1;
    if (!status)
        status = xt_device_memory_write(&own->ones, ones, chunks(own) * sizeof *ones,
                                        XT_CAUSE_SCALARS, err);
    free(ones);
    return status;
}

static enum xt_status create_memories(struct xt_xpu_optim *own, struct xt_err *err)
{
    static const char what[] = "the optimizer's state";
    struct xt_device *device = own->device;
    size_t scalars = own->count * XT_OPTIM_SCALARS;
    enum xt_status status = XT_OK;
    for (int i = 0; i < 2 && !status; i++)
        if (own->optim->state[i])
            status = create_floats(device, own->params->value_floats, XT_ON_DEVICE, what,
                                   &own->state[i], err);
    const struct {
        struct xt_device_memory *memory;
        size_t count;
        enum xt_place place;
    } others[] = {
        {&own->host_scalars, scalars, XT_ON_HOST},
        {&own->scalars, scalars, XT_ON_DEVICE},
        {&own->ones, chunks(own), XT_ON_DEVICE},
        {&own->partial, chunks(own), XT_ON_DEVICE},
        {&own->norm, 1, XT_ON_DEVICE},
        {&own->host_norm, 1, XT_ON_HOST},
        {&own->verdict, VERDICTS, XT_ON_DEVICE},
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0] && !status; i++)
        status =
            create_floats(device, others[i].count, others[i].place, what, others[i].memory, err);
    if (!status)
        status = write_ones(own, err);
    const float verdict[VERDICTS] = {[FACTOR] = 1, [FINE] = 1, [MOST] = FLT_MAX};
    for (size_t i = 0; i < VERDICTS; i++)
        own->verdict_at[i] = i;
    return status ? status
                  : xt_device_memory_write(&own->verdict, verdict, sizeof verdict, XT_CAUSE_SCALARS,
                                           err);
}

/* ---- description ---- */

static struct xt_operand part_of(const struct xt_device_memory *memory, const struct group *group)
{
    return xt_operand_matrix(xt_in_arena(memory, &group->range.offset), dnnl_f32, 1,
                             group->range.count);
}

static struct xt_operand verdict_of(const struct xt_xpu_optim *own, int which)
{
    return xt_operand_scalar(xt_in_arena(&own->verdict, &own->verdict_at[which]), 2);
}

static void describe_group(struct xt_xpu_optim *own, const struct group *group)
{
    struct xt_optim_update update = {
        .program = &own->programs[UPDATE],
        .optim = own->optim,
        .decay = group->range.decay,
        .p = part_of(&own->params->device.values, group),
        .g = part_of(&own->params->device.grads, group),
        .state = {part_of(&own->state[0], group), part_of(&own->state[1], group)},
    };
    for (int i = 0; i < XT_OPTIM_SCALARS; i++)
        update.scalars[i] = xt_operand_scalar(xt_in_arena(&own->scalars, &group->scalar_at[i]), 2);
    update.guards = own->rule.by_device;
    update.fine = verdict_of(own, FINE);
    if (own->rule.by_device)
        update.scalars[XT_OPTIM_GRAD_SCALE] = verdict_of(own, FACTOR);
    xt_optim_class_of(own->optim->kind)->describe(&update);
}

/* From the norm's square: min(1, clip / norm), and whether it is finite. */
static void describe_verdict(struct xt_xpu_optim *own)
{
    struct xt_operand square = xt_operand_matrix(xt_in_memory(&own->norm), dnnl_f32, 1, 1);
    struct xt_operand one = xt_operand_scalar(xt_in_memory(&own->ones), 2);
    struct xt_operand factor = verdict_of(own, FACTOR);
    struct xt_operand fine = verdict_of(own, FINE);
    struct xt_operand most = verdict_of(own, MOST);
    const struct xt_post_ops clips = {
        .count = 2,
        .items = {xt_then(dnnl_eltwise_pow, (float)own->rule.clip, -0.5F),
                  xt_then(dnnl_eltwise_clip, 0, 1)}};
    xt_program_binary(&own->programs[NORMS], XT_FORWARD, dnnl_binary_le, &square, &most, &fine,
                      NULL);
    if (own->rule.clip > 0)
        xt_program_binary(&own->programs[NORMS], XT_FORWARD, dnnl_binary_mul, &square, &one,
                          &factor, &clips);
}

/* Sums of squares per chunk, then their sum. Padding and frozen gradients are 0. */
static void describe_norm(struct xt_xpu_optim *own)
{
    size_t count = chunks(own);
    struct xt_location grads = xt_in_memory(&own->params->device.grads);
    struct xt_operand rows = xt_operand_matrices(grads, dnnl_f32, count, 1, XT_PARAMS_CHUNK);
    struct xt_operand sides = xt_operand_transposed(rows);
    struct xt_location partial = xt_in_memory(&own->partial);
    struct xt_operand sums = xt_operand_matrices(partial, dnnl_f32, count, 1, 1);
    struct xt_operand row = xt_operand_matrix(partial, dnnl_f32, 1, count);
    struct xt_operand ones = xt_operand_matrix(xt_in_memory(&own->ones), dnnl_f32, count, 1);
    struct xt_operand norm = xt_operand_matrix(xt_in_memory(&own->norm), dnnl_f32, 1, 1);
    struct xt_operand host = norm;
    host.place = xt_in_memory(&own->host_norm);
    xt_program_matmul(&own->programs[NORMS], XT_FORWARD, &rows, &sides, &sums, NULL);
    xt_program_matmul(&own->programs[NORMS], XT_FORWARD, &row, &ones, &norm, NULL);
    xt_program_reorder(&own->programs[NORMS], XT_FORWARD, &norm, &host);
    if (own->rule.by_device)
        describe_verdict(own);
}

static void describe(struct xt_xpu_optim *own)
{
    size_t count = own->count * XT_OPTIM_SCALARS;
    struct xt_operand from =
        xt_operand_matrix(xt_in_memory(&own->host_scalars), dnnl_f32, 1, count);
    struct xt_operand to = xt_operand_matrix(xt_in_memory(&own->scalars), dnnl_f32, 1, count);
    xt_program_reorder(&own->programs[UPDATE], XT_FORWARD, &from, &to);
    for (size_t i = 0; i < own->count; i++)
        describe_group(own, &own->groups[i]);
    describe_norm(own);
}

enum xt_status xt_xpu_optim_create(struct xt_xpu_optim **out, struct xt_device *device,
                                   struct xt_optim *optim, struct xt_params *params,
                                   const struct xt_optim_range *ranges, size_t range_count,
                                   struct xt_xpu_optim_norm norm, struct xt_err *err)
{
    struct xt_xpu_optim *own = NULL;
    *out = NULL;
    enum xt_status status = xt_mem_calloc(&own, 1, sizeof *own, "the optimizer", err);
    if (status)
        return status;
    own->device = device;
    own->optim = optim;
    own->params = params;
    own->rule = norm;
    struct xt_err failure = {0};
    xt_program_init(&own->programs[UPDATE], device, "the optimizer", &failure);
    xt_program_init(&own->programs[NORMS], device, "the gradient norm", &failure);
    status = collect_all(own, ranges, range_count, err);
    if (!status)
        status = create_memories(own, err);
    if (!status)
        describe(own);
    if (!status)
        status = xt_programs_bind(own->programs, PROGRAMS, "the optimizer", &own->scratchpad, err);
    if (status)
        xt_xpu_optim_destroy(own);
    else
        *out = own;
    return status;
}

void xt_xpu_optim_destroy(struct xt_xpu_optim *own)
{
    if (!own)
        return;
    xt_program_clear(&own->programs[UPDATE]);
    xt_program_clear(&own->programs[NORMS]);
    struct xt_device_memory *all[] = {
        &own->state[0], &own->state[1], &own->host_scalars, &own->scalars, &own->ones,
        &own->partial,  &own->norm,     &own->host_norm,    &own->verdict, &own->scratchpad};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        xt_device_memory_destroy(all[i]);
    free(own->groups);
    free(own);
}

/* ---- running ---- */

bool xt_xpu_optim_norm_is_by_device(const struct xt_xpu_optim *own)
{
    return own->rule.by_device;
}

enum xt_status xt_xpu_optim_begin_norm(struct xt_xpu_optim *own, struct xt_err *err)
{
    xt_traffic_add(own->device, XT_CAUSE_SCALARS, false, own->host_norm.bytes);
    return xt_program_run(&own->programs[NORMS], XT_FORWARD, err);
}

double xt_xpu_optim_norm_of(const struct xt_xpu_optim *own)
{
    return sqrt((double)*(const float *)own->host_norm.host);
}

bool xt_xpu_optim_judge(struct xt_xpu_optim *own)
{
    bool applied = isfinite(xt_xpu_optim_norm_of(own));
    own->optim->step += applied;
    return applied;
}

enum xt_status xt_xpu_optim_grad_norm(struct xt_xpu_optim *own, double *norm, struct xt_err *err)
{
    enum xt_status status = xt_xpu_optim_begin_norm(own, err);
    if (!status)
        status = xt_dnnl_check(xt_dnnl.stream_wait(own->device->stream), "the gradient norm", err);
    *norm = xt_xpu_optim_norm_of(own);
    return status;
}

static void fill_scalars(struct xt_xpu_optim *own, double lr, float grad_scale)
{
    float *all = own->host_scalars.host;
    for (size_t i = 0; i < own->count; i++) {
        struct xt_optim_rule rule =
            xt_optim_rule_of(own->optim, &own->groups[i].range, lr, grad_scale);
        float *scalars = all + i * XT_OPTIM_SCALARS;
        scalars[XT_OPTIM_GRAD_SCALE] = rule.grad_scale;
        scalars[XT_OPTIM_DECAY] = rule.decay;
        scalars[XT_OPTIM_BY_DECAY] = rule.decay > 0 ? 1 / rule.decay : 0;
        scalars[XT_OPTIM_STEP] = -rule.lr;
        scalars[XT_OPTIM_KEEP] = rule.keep;
        scalars[XT_OPTIM_ROOT_SQUARE] = rule.root_scale > 0 ? rule.root_scale * rule.root_scale : 1;
        scalars[XT_OPTIM_MOMENTUM] = rule.momentum;
        scalars[XT_OPTIM_BY_MOMENTUM] = rule.momentum > 0 ? 1 / rule.momentum : 0;
    }
    xt_traffic_add(own->device, XT_CAUSE_SCALARS, true, own->host_scalars.bytes);
}

static enum xt_status push(struct xt_xpu_optim *own, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (int i = 0; i < 2 && !status && !own->pushed; i++)
        if (own->optim->state[i])
            status = xt_device_memory_write(&own->state[i], own->optim->state[i],
                                            own->state[i].bytes, XT_CAUSE_WEIGHTS, err);
    own->pushed = status == XT_OK;
    return status;
}

enum xt_status xt_xpu_optim_update(struct xt_xpu_optim *own, double lr, float grad_scale,
                                   struct xt_err *err)
{
    enum xt_status status = push(own, err);
    if (status)
        return status;
    fill_scalars(own, lr, grad_scale);
    status = xt_program_run(&own->programs[UPDATE], XT_FORWARD, err);
    own->optim->step += !own->rule.by_device;
    xt_params_changed_on_device(own->params);
    return status;
}

void xt_xpu_optim_reload(struct xt_xpu_optim *own)
{
    own->pushed = false;
}

enum xt_status xt_xpu_optim_pull(struct xt_xpu_optim *own, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (int i = 0; i < 2 && !status && own->pushed; i++)
        if (own->optim->state[i])
            status = xt_device_memory_read(&own->state[i], own->optim->state[i],
                                           own->state[i].bytes, XT_CAUSE_WEIGHTS, err);
    return status;
}
