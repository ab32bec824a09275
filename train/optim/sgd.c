/* Stochastic gradient descent, with momentum and Nesterov's step, in PyTorch's form (Sutskever et
 * al. 2013). */
#include "train/optim/steps.h"

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
    .describe = describe,
};
