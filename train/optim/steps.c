#include "train/optim/steps.h"

#include <assert.h>
#include <float.h>

struct xt_post xt_optim_then_add(const struct xt_operand *operand)
{
    return xt_then_with(dnnl_binary_add, *operand);
}

static struct xt_post then_times(const struct xt_optim_update *update, enum xt_optim_scalar scalar)
{
    return xt_then_with(dnnl_binary_mul, update->scalars[scalar]);
}

static void then(struct xt_post_ops *post_ops, struct xt_post post)
{
    assert(post_ops->count < XT_POSTS_MAX);
    post_ops->items[post_ops->count++] = post;
}

/* 0 times a non-finite number is NaN, so the value is clamped first. */
static void then_guard(const struct xt_optim_update *update, struct xt_post_ops *post_ops)
{
    if (!update->guards)
        return;
    then(post_ops, xt_then(dnnl_eltwise_clip, -FLT_MAX, FLT_MAX));
    then(post_ops, xt_then_with(dnnl_binary_mul, update->fine));
}

void xt_optim_then_step(const struct xt_optim_update *update, struct xt_post_ops *post_ops,
                        bool apart)
{
    then(post_ops, then_times(update, XT_OPTIM_STEP));
    then_guard(update, post_ops);
    if (!apart)
        then(post_ops, xt_optim_then_add(&update->p));
}

void xt_optim_then_towards(struct xt_post_ops *post_ops, const struct xt_operand *towards,
                           double part)
{
    then(post_ops, xt_then_with(dnnl_binary_sub, *towards));
    then(post_ops, xt_then(dnnl_eltwise_linear, (float)part, 0));
    then(post_ops, xt_optim_then_add(towards));
}

void xt_optim_times(struct xt_optim_update *update, const struct xt_operand *a,
                    enum xt_optim_scalar scalar, const struct xt_operand *to,
                    const struct xt_post_ops *post_ops)
{
    xt_program_binary(update->program, XT_FORWARD, dnnl_binary_mul, a, &update->scalars[scalar], to,
                      post_ops);
}

void xt_optim_of_gradient(struct xt_optim_update *update, const struct xt_operand *to,
                          const struct xt_post_ops *post_ops)
{
    bool decays = update->decay && update->optim->weight_decay != 0 &&
                  !xt_optim_class_of(update->optim->kind)->decoupled;
    struct xt_post_ops all = {.count = 0};
    if (decays) {
        then(&all, then_times(update, XT_OPTIM_BY_DECAY));
        then(&all, xt_optim_then_add(&update->p));
        then(&all, then_times(update, XT_OPTIM_DECAY));
    }
    for (int i = 0; post_ops && i < post_ops->count; i++)
        then(&all, post_ops->items[i]);
    xt_optim_times(update, &update->g, XT_OPTIM_GRAD_SCALE, to, &all);
}

void xt_optim_velocity(struct xt_optim_update *update, const struct xt_operand *velocity)
{
    const struct xt_post_ops post_ops = {.count = 3,
                                         .items = {then_times(update, XT_OPTIM_BY_MOMENTUM),
                                                   xt_optim_then_add(velocity),
                                                   then_times(update, XT_OPTIM_MOMENTUM)}};
    xt_optim_of_gradient(update, velocity, &post_ops);
}

void xt_optim_square(struct xt_optim_update *update, const struct xt_operand *square, double old)
{
    struct xt_post_ops post_ops = {.count = 1, .items = {xt_then(dnnl_eltwise_square, 0, 0)}};
    xt_optim_then_towards(&post_ops, square, 1 - old);
    xt_optim_of_gradient(update, square, &post_ops);
}

void xt_optim_step(struct xt_optim_update *update, const struct xt_operand *by)
{
    struct xt_post_ops post_ops = {.count = 0};
    then_guard(update, &post_ops);
    then(&post_ops, xt_optim_then_add(&update->p));
    xt_optim_times(update, by, XT_OPTIM_STEP, &update->p, &post_ops);
}
