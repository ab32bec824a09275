/* Stochastic gradient descent, with momentum and Nesterov's step, in PyTorch's form (Sutskever et
 * al. 2013). */
#include "train/optim/steps.h"

static void sgd(const struct xt_optim_rule *rule, size_t count, float *restrict values,
                const float *restrict grads)
{
    const float scale = rule->grad_scale;
    const float decay = rule->decay;
    const float lr = rule->lr;
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        values[i] -= lr * (scale * grads[i] + decay * values[i]);
}

static void sgd_momentum(const struct xt_optim_rule *rule, size_t count, float *restrict values,
                         const float *restrict grads, float *restrict velocity)
{
    const float scale = rule->grad_scale;
    const float decay = rule->decay;
    const float lr = rule->lr;
    const float momentum = rule->momentum;
    /* Nesterov's step is g + momentum * v, the plain one v. */
    const float of_grad = rule->nesterov ? 1 : 0;
    const float of_velocity = rule->nesterov ? momentum : 1;
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float g = scale * grads[i] + decay * values[i];
        float v = momentum * velocity[i] + g;
        velocity[i] = v;
        values[i] -= lr * (of_grad * g + of_velocity * v);
    }
}

static void update(const struct xt_optim_rule *rule, size_t count, float *restrict values,
                   const float *restrict grads, float *restrict const state[2])
{
    if (state[0])
        sgd_momentum(rule, count, values, grads, state[0]);
    else
        sgd(rule, count, values, grads);
}

static void describe(struct xt_optim_update *u)
{
    const struct xt_operand *velocity = &u->state[0];
    struct xt_posts step = {.count = 2,
                            .items = {xt_optim_then_times(u, XT_OPTIM_STEP),
                                      xt_optim_then_add(&u->p)}};
    const struct xt_posts nesterov = {.count = 5,
                                      .items = {xt_optim_then_times(u, XT_OPTIM_BY_MOMENTUM),
                                                xt_optim_then_add(velocity),
                                                xt_optim_then_times(u, XT_OPTIM_MOMENTUM),
                                                step.items[0], step.items[1]}};
    if (u->optim->state[0])
        xt_optim_velocity(u, velocity);
    if (u->optim->state[0] && !u->optim->nesterov)
        xt_optim_step(u, velocity);
    else
        xt_optim_of_gradient(u, &u->p, u->optim->state[0] ? &nesterov : &step);
}

const struct xt_optim_class xt_optim_sgd = {
    .states = {"momentum"},
    .last_is_momentum = true,
    .update = update,
    .describe = describe,
};
