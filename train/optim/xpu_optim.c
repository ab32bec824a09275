#include "train/optim/xpu_optim.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "models/graph/xpu_program.h"

/* What changes from update to update, as numbers on the device. */
enum scalar { GRAD_SCALE, DECAY, LR, KEEP, ROOT_SQUARE, MOMENTUM, SCALARS };

/* A stretch of the arenas that is updated by one rule. */
struct stretch {
    struct xt_optim_range range;
    size_t scalar_at[SCALARS]; /* in the scalars' memory, floats */
};

struct xt_xpu_optim {
    struct xt_device *device;
    struct xt_optim *optim;
    struct xt_params *params;
    struct stretch *stretches;
    size_t count;
    struct xt_device_memory state[2];
    struct xt_device_memory host_scalars, scalars;
    struct xt_device_memory ones, partial, norm, host_norm;
    struct xt_device_memory scratchpad;
    struct xt_xpu_program update;
    struct xt_xpu_program norms;
    bool pushed;
};

/* ---- stretches ---- */

static bool continues(const struct stretch *stretch, const struct xt_optim_range *range)
{
    const struct xt_optim_range *own = &stretch->range;
    return own->offset + own->count == range->offset && own->decay == range->decay &&
           own->lr_factor == range->lr_factor;
}

static void gather(struct xt_xpu_optim *own, const struct xt_optim_range *range)
{
    assert(own->stretches);
    struct stretch *last = own->count ? &own->stretches[own->count - 1] : NULL;
    if (range->lr_factor == 0)
        return;
    if (last && continues(last, range))
        last->range.count += range->count;
    else
        own->stretches[own->count++] = (struct stretch){.range = *range};
}

static int by_offset(const void *a, const void *b)
{
    const struct xt_optim_range *x = a;
    const struct xt_optim_range *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static enum xt_status gather_all(struct xt_xpu_optim *own, const struct xt_optim_range *ranges,
                                 size_t range_count, struct xt_err *err)
{
    struct xt_optim_range *sorted = NULL;
    enum xt_status status = xt_mem_calloc(&sorted, range_count, sizeof *sorted, "ranges", err);
    if (!status)
        status = xt_mem_calloc(&own->stretches, range_count, sizeof *own->stretches, "ranges", err);
    for (size_t i = 0; i < range_count && !status; i++)
        sorted[i] = ranges[i];
    if (!status)
        qsort(sorted, range_count, sizeof *sorted, by_offset);
    for (size_t i = 0; i < range_count && !status; i++)
        gather(own, &sorted[i]);
    free(sorted);
    for (size_t i = 0; i < own->count && !status; i++)
        for (size_t k = 0; k < SCALARS; k++)
            own->stretches[i].scalar_at[k] = i * SCALARS + k;
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

static enum xt_status create_memories(struct xt_xpu_optim *own, struct xt_err *err)
{
    static const char what[] = "the optimizer's state";
    struct xt_device *device = own->device;
    size_t scalars = own->count * SCALARS;
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
    };
    for (size_t i = 0; i < sizeof others / sizeof others[0] && !status; i++)
        status =
            create_floats(device, others[i].count, others[i].place, what, others[i].memory, err);
    void *data = NULL;
    if (!status)
        status = xt_device_memory_map(&own->ones, XT_CAUSE_SCALARS, &data, err);
    for (size_t i = 0; !status && i < chunks(own); i++)
        ((float *)data)[i] = 1;
    return status ? status : xt_device_memory_unmap(&own->ones, XT_CAUSE_SCALARS, err);
}

/* ---- describing ---- */

static struct xt_xpu_operand part_of(const struct xt_device_memory *memory,
                                     const struct stretch *stretch)
{
    return xt_xpu_matrix(xt_xpu_in_arena(memory, &stretch->range.offset), dnnl_f32, 1,
                         stretch->range.count);
}

static struct xt_xpu_operand scalar_of(const struct xt_xpu_optim *own,
                                       const struct stretch *stretch, enum scalar scalar)
{
    return xt_xpu_scalar(xt_xpu_in_arena(&own->scalars, &stretch->scalar_at[scalar]), 2);
}

/* The arrays of a stretch while its rule is described. */
struct rule {
    struct xt_xpu_optim *own;
    const struct stretch *stretch;
    struct xt_xpu_operand p, g, state[2];
    struct xt_err *err;
};

static enum xt_status binary(struct rule *rule, dnnl_alg_kind_t alg, const struct xt_xpu_operand *a,
                             const struct xt_xpu_operand *b, const struct xt_xpu_operand *to,
                             const struct xt_xpu_posts *posts)
{
    return xt_xpu_binary(&rule->own->update, XT_XPU_FORWARD, alg, a, b, to, posts, rule->err);
}

static enum xt_status times(struct rule *rule, const struct xt_xpu_operand *a, enum scalar scalar,
                            const struct xt_xpu_operand *to, const struct xt_xpu_posts *posts)
{
    struct xt_xpu_operand by = scalar_of(rule->own, rule->stretch, scalar);
    return binary(rule, dnnl_binary_mul, a, &by, to, posts);
}

static enum xt_status scale(struct rule *rule, double factor, const struct xt_xpu_operand *from,
                            const struct xt_xpu_operand *to)
{
    return xt_xpu_eltwise(&rule->own->update, XT_XPU_FORWARD, dnnl_eltwise_linear, (float)factor, 0,
                          from, to, rule->err);
}

/* g = grad_scale * g + decay * p */
static enum xt_status describe_gradient(struct rule *rule)
{
    const struct xt_optim *optim = rule->own->optim;
    enum xt_status status = times(rule, &rule->g, GRAD_SCALE, &rule->g, NULL);
    bool decays =
        rule->stretch->range.decay && optim->weight_decay != 0 && optim->kind != XT_OPTIM_ADAMW;
    struct xt_xpu_posts add = {.count = 1, .items = {xt_xpu_then_with(dnnl_binary_add, rule->g)}};
    return status || !decays ? status : times(rule, &rule->p, DECAY, &rule->g, &add);
}

/* p = p - lr * g */
static enum xt_status describe_step(struct rule *rule)
{
    enum xt_status status = times(rule, &rule->g, LR, &rule->g, NULL);
    return status ? status : binary(rule, dnnl_binary_sub, &rule->p, &rule->g, &rule->p, NULL);
}

/* v = momentum * v + g */
static enum xt_status describe_velocity(struct rule *rule, const struct xt_xpu_operand *velocity)
{
    struct xt_xpu_posts add = {.count = 1, .items = {xt_xpu_then_with(dnnl_binary_add, rule->g)}};
    return times(rule, velocity, MOMENTUM, velocity, &add);
}

static enum xt_status describe_sgd(struct rule *rule)
{
    struct xt_xpu_operand *v = &rule->state[0];
    enum xt_status status = describe_gradient(rule);
    if (status || !rule->own->optim->state[0])
        return status ? status : describe_step(rule);
    status = describe_velocity(rule, v);
    struct xt_xpu_posts add = {.count = 1, .items = {xt_xpu_then_with(dnnl_binary_add, rule->g)}};
    if (!status && rule->own->optim->nesterov)
        status = times(rule, v, MOMENTUM, &rule->g, &add);
    else if (!status)
        status = scale(rule, 1, v, &rule->g);
    return status ? status : describe_step(rule);
}

/* square = old * square + (1 - old) * g * g */
static enum xt_status describe_square(struct rule *rule, const struct xt_xpu_operand *square,
                                      double old)
{
    enum xt_status status = scale(rule, old, square, square);
    struct xt_xpu_posts posts = {.count = 2,
                                 .items = {xt_xpu_then(dnnl_eltwise_linear, (float)(1 - old), 0),
                                           xt_xpu_then_with(dnnl_binary_add, *square)}};
    return status ? status : binary(rule, dnnl_binary_mul, &rule->g, &rule->g, square, &posts);
}

static enum xt_status describe_adam(struct rule *rule)
{
    struct xt_xpu_operand *mean = &rule->state[0];
    struct xt_xpu_operand *square = &rule->state[1];
    enum xt_status status = describe_gradient(rule);
    struct xt_xpu_posts towards = {
        .count = 2,
        .items = {xt_xpu_then(dnnl_eltwise_linear, (float)(1 - XT_ADAM_BETA1), 0),
                  xt_xpu_then_with(dnnl_binary_add, *mean)}};
    if (!status)
        status = binary(rule, dnnl_binary_sub, &rule->g, mean, mean, &towards);
    if (!status)
        status = describe_square(rule, square, XT_ADAM_BETA2);
    struct xt_xpu_posts root = {.count = 2,
                                .items = {xt_xpu_then(dnnl_eltwise_sqrt, 0, 0),
                                          xt_xpu_then(dnnl_eltwise_linear, 1, XT_OPTIM_EPS)}};
    if (!status)
        status = times(rule, square, ROOT_SQUARE, &rule->g, &root);
    struct xt_xpu_operand lr = scalar_of(rule->own, rule->stretch, LR);
    struct xt_xpu_posts by_lr = {.count = 1, .items = {xt_xpu_then_with(dnnl_binary_mul, lr)}};
    if (!status)
        status = binary(rule, dnnl_binary_div, mean, &rule->g, &rule->g, &by_lr);
    struct xt_xpu_posts minus = {.count = 1, .items = {xt_xpu_then_with(dnnl_binary_sub, rule->g)}};
    return status ? status : times(rule, &rule->p, KEEP, &rule->p, &minus);
}

static enum xt_status describe_rmsprop(struct rule *rule)
{
    struct xt_xpu_operand *square = &rule->state[0];
    bool has_velocity = rule->own->optim->state[1] != NULL;
    enum xt_status status = describe_gradient(rule);
    if (!status)
        status = describe_square(rule, square, XT_RMSPROP_ALPHA);
    /* The root needs a place, and g has it: so g is multiplied by the inverse while it is read. */
    struct xt_xpu_posts quotient = {.count = 4,
                                    .items = {xt_xpu_then(dnnl_eltwise_sqrt, 0, 0),
                                              xt_xpu_then(dnnl_eltwise_linear, 1, XT_OPTIM_EPS),
                                              xt_xpu_then(dnnl_eltwise_pow, 1, -1),
                                              xt_xpu_then_with(dnnl_binary_mul, rule->g)}};
    if (!status)
        status = times(rule, square, ROOT_SQUARE, &rule->g, &quotient);
    if (!status && has_velocity)
        status = describe_velocity(rule, &rule->state[1]);
    if (!status && has_velocity)
        status = scale(rule, 1, &rule->state[1], &rule->g);
    return status ? status : describe_step(rule);
}

static enum xt_status describe_stretch(struct xt_xpu_optim *own, const struct stretch *stretch,
                                       struct xt_err *err)
{
    struct rule rule = {
        .own = own,
        .stretch = stretch,
        .p = part_of(&own->params->device.values, stretch),
        .g = part_of(&own->params->device.grads, stretch),
        .state = {part_of(&own->state[0], stretch), part_of(&own->state[1], stretch)},
        .err = err,
    };
    switch (own->optim->kind) {
    case XT_OPTIM_SGD:
        return describe_sgd(&rule);
    case XT_OPTIM_ADAM:
    case XT_OPTIM_ADAMW:
        return describe_adam(&rule);
    case XT_OPTIM_RMSPROP:
        return describe_rmsprop(&rule);
    }
    return XT_OK;
}

/* Sums of squares of a chunk each, then their sum. Padding and frozen gradients are 0. */
static enum xt_status describe_norm(struct xt_xpu_optim *own, struct xt_err *err)
{
    size_t count = chunks(own);
    struct xt_xpu_place grads = xt_xpu_in_memory(&own->params->device.grads);
    struct xt_xpu_operand rows = xt_xpu_matrices(grads, dnnl_f32, count, 1, XT_PARAMS_CHUNK);
    struct xt_xpu_operand sides = xt_xpu_transposed(rows);
    struct xt_xpu_place partial = xt_xpu_in_memory(&own->partial);
    struct xt_xpu_operand sums = xt_xpu_matrices(partial, dnnl_f32, count, 1, 1);
    enum xt_status status =
        xt_xpu_matmul(&own->norms, XT_XPU_FORWARD, &rows, &sides, &sums, NULL, err);
    struct xt_xpu_operand row = xt_xpu_matrix(partial, dnnl_f32, 1, count);
    struct xt_xpu_operand ones = xt_xpu_matrix(xt_xpu_in_memory(&own->ones), dnnl_f32, count, 1);
    struct xt_xpu_operand norm = xt_xpu_matrix(xt_xpu_in_memory(&own->norm), dnnl_f32, 1, 1);
    if (!status)
        status = xt_xpu_matmul(&own->norms, XT_XPU_FORWARD, &row, &ones, &norm, NULL, err);
    struct xt_xpu_operand host = norm;
    host.place = xt_xpu_in_memory(&own->host_norm);
    return status ? status : xt_xpu_reorder(&own->norms, XT_XPU_FORWARD, &norm, &host, err);
}

static enum xt_status describe(struct xt_xpu_optim *own, struct xt_err *err)
{
    size_t count = own->count * SCALARS;
    struct xt_xpu_operand from =
        xt_xpu_matrix(xt_xpu_in_memory(&own->host_scalars), dnnl_f32, 1, count);
    struct xt_xpu_operand to = xt_xpu_matrix(xt_xpu_in_memory(&own->scalars), dnnl_f32, 1, count);
    enum xt_status status = xt_xpu_reorder(&own->update, XT_XPU_FORWARD, &from, &to, err);
    for (size_t i = 0; i < own->count && !status; i++)
        status = describe_stretch(own, &own->stretches[i], err);
    return status ? status : describe_norm(own, err);
}

static enum xt_status bind(struct xt_xpu_optim *own, struct xt_err *err)
{
    size_t bytes = own->update.scratchpad_bytes;
    if (own->norms.scratchpad_bytes > bytes)
        bytes = own->norms.scratchpad_bytes;
    enum xt_status status = create_floats(own->device, bytes / sizeof(float) + 1, XT_ON_DEVICE,
                                          "the optimizer's scratchpad", &own->scratchpad, err);
    struct xt_xpu_place scratchpad = xt_xpu_in_memory(&own->scratchpad);
    if (!status)
        status = xt_xpu_program_bind(&own->update, scratchpad, NULL, err);
    return status ? status : xt_xpu_program_bind(&own->norms, scratchpad, NULL, err);
}

enum xt_status xt_xpu_optim_create(struct xt_xpu_optim **out, struct xt_device *device,
                                   struct xt_optim *optim, struct xt_params *params,
                                   const struct xt_optim_range *ranges, size_t range_count,
                                   struct xt_err *err)
{
    struct xt_xpu_optim *own = NULL;
    *out = NULL;
    enum xt_status status = xt_mem_calloc(&own, 1, sizeof *own, "the optimizer", err);
    if (status)
        return status;
    own->device = device;
    own->optim = optim;
    own->params = params;
    xt_xpu_program_init(&own->update, device, "the optimizer");
    xt_xpu_program_init(&own->norms, device, "the gradient norm");
    status = gather_all(own, ranges, range_count, err);
    if (!status)
        status = create_memories(own, err);
    if (!status && describe(own, err)) {
        xt_err_prefix(err, "the optimizer: ");
        status = err->status;
    }
    if (!status)
        status = bind(own, err);
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
    xt_xpu_program_clear(&own->update);
    xt_xpu_program_clear(&own->norms);
    struct xt_device_memory *all[] = {&own->state[0], &own->state[1],  &own->host_scalars,
                                      &own->scalars,  &own->ones,      &own->partial,
                                      &own->norm,     &own->host_norm, &own->scratchpad};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        xt_device_memory_destroy(all[i]);
    free(own->stretches);
    free(own);
}

/* ---- running ---- */

enum xt_status xt_xpu_optim_grad_norm(struct xt_xpu_optim *own, double *norm, struct xt_err *err)
{
    enum xt_status status = xt_xpu_program_run(&own->norms, XT_XPU_FORWARD, err);
    if (!status)
        status = xt_dnnl_check(xt_dnnl.stream_wait(own->device->stream), "the gradient norm", err);
    xt_traffic_add(own->device, XT_CAUSE_SCALARS, false, own->host_norm.bytes);
    *norm = sqrt((double)*(const float *)own->host_norm.host);
    return status;
}

static void fill_scalars(struct xt_xpu_optim *own, double lr, float grad_scale)
{
    float *all = own->host_scalars.host;
    for (size_t i = 0; i < own->count; i++) {
        struct xt_optim_rule rule =
            xt_optim_rule_of(own->optim, &own->stretches[i].range, lr, grad_scale);
        float *scalars = all + i * SCALARS;
        scalars[GRAD_SCALE] = rule.grad_scale;
        scalars[LR] = rule.lr;
        scalars[KEEP] = rule.keep;
        scalars[DECAY] = rule.decay;
        scalars[ROOT_SQUARE] = rule.root_scale > 0 ? rule.root_scale * rule.root_scale : 1;
        scalars[MOMENTUM] = rule.momentum;
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
    status = xt_xpu_program_run(&own->update, XT_XPU_FORWARD, err);
    own->optim->step++;
    xt_params_changed_on_device(own->params);
    return status;
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
