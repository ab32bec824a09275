/* RMSprop (Tieleman & Hinton 2012) with momentum, in PyTorch's form; alpha 0.9. */
#include "train/optim/steps.h"

#define XT_RMSPROP_ALPHA 0.9

static void update(const struct xt_optim_rule *rule, size_t count, float *restrict values,
                   const float *restrict grads, float *restrict const state[2])
{
    float *restrict square = state[0];
    float *restrict velocity = state[1];
    const float scale = rule->grad_scale;
    const float decay = rule->decay;
    const float lr = rule->lr;
    const float momentum = rule->momentum;
    const float old_square = (float)XT_RMSPROP_ALPHA;
    const float new_square = (float)(1 - XT_RMSPROP_ALPHA);
    float roots[XT_OPTIM_BLOCK];
    float steps[XT_OPTIM_BLOCK];
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float g = scale * grads[i] + decay * values[i];
        steps[i] = g;
        roots[i] = square[i] = old_square * square[i] + new_square * g * g;
    }
    xt_optim_roots(roots, count);
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        steps[i] /= roots[i] + XT_OPTIM_EPS;
    if (velocity)
#pragma omp simd
        for (size_t i = 0; i < count; i++)
            steps[i] = velocity[i] = momentum * velocity[i] + steps[i];
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        values[i] -= lr * steps[i];
}

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
    .update = update,
    .describe = describe,
};
