/* RMSprop (Tieleman & Hinton 2012) with momentum, in PyTorch's form; alpha 0.9. */
#include "train/optim/steps.h"

static void describe(struct xt_optim_update *u)
{
    const struct xt_operand *square = &u->state[0];
    const struct xt_operand *velocity = &u->state[1];
    const struct xt_post_ops moved = {.count = 1, .items = {xt_optim_then_add(&u->g)}};
    /* The root is written over g, so g is multiplied by the inverse as it is read. */
    const struct xt_post_ops quotient = {
        .count = 4,
        .items = {xt_then(dnnl_eltwise_sqrt, 0, 0), xt_then(dnnl_eltwise_linear, 1, XT_OPTIM_EPS),
                  xt_then(dnnl_eltwise_pow, 1, -1), xt_then_with(dnnl_binary_mul, u->g)}};
    xt_optim_square(u, square, XT_RMSPROP_ALPHA);
    xt_optim_of_gradient(u, &u->g, NULL);
    xt_optim_times(u, square, XT_OPTIM_ROOT_SQUARE, &u->g, &quotient);
    if (u->optim->state[1])
        xt_optim_times(u, velocity, XT_OPTIM_MOMENTUM, velocity, &moved);
    xt_optim_step(u, u->optim->state[1] ? velocity : &u->g);
}

const struct xt_optim_class xt_optim_rmsprop = {
    .states = {"square", "momentum"},
    .last_is_momentum = true,
    .describe = describe,
};
