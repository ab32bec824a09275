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
    /* Nesterov's step is g + momentum * v, the standard one v. */
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

/* Nesterov's step needs the gradient separately. */
static void describe_nesterov(struct xt_optim_update *u, const struct xt_operand *velocity)
{
    struct xt_post_ops add = {.count = 1, .items = {xt_optim_then_add(&u->g)}};
    xt_optim_of_gradient(u, &u->g, NULL);
    xt_optim_times(u, velocity, XT_OPTIM_MOMENTUM, velocity, &add);
    xt_optim_then_step(u, &add, false);
    xt_optim_times(u, velocity, XT_OPTIM_MOMENTUM, &u->p, &add);
}

static void describe(struct xt_optim_update *u)
{
    const struct xt_operand *velocity = &u->state[0];
    struct xt_post_ops step = {.count = 0};
    xt_optim_then_step(u, &step, false);
    if (!u->optim->state[0]) {
        xt_optim_of_gradient(u, &u->p, &step);
    } else if (u->optim->nesterov) {
        describe_nesterov(u, velocity);
    } else {
        xt_optim_velocity(u, velocity);
        xt_optim_step(u, velocity);
    }
}

const struct xt_optim_class xt_optim_sgd = {
    .states = {"momentum"},
    .last_is_momentum = true,
    .update = update,
    .describe = describe,
};
