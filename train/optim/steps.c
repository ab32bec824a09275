#include "train/optim/steps.h"

void xt_optim_binary(struct xt_optim_update *update, dnnl_alg_kind_t alg,
                     const struct xt_operand *a, const struct xt_operand *b,
                     const struct xt_operand *to, const struct xt_posts *posts)
{
    xt_program_binary(update->program, XT_FORWARD, alg, a, b, to, posts);
}

void xt_optim_times(struct xt_optim_update *update, const struct xt_operand *a,
                    enum xt_optim_scalar scalar, const struct xt_operand *to,
                    const struct xt_posts *posts)
{
    xt_optim_binary(update, dnnl_binary_mul, a, &update->scalars[scalar], to, posts);
}

void xt_optim_scale(struct xt_optim_update *update, double factor, const struct xt_operand *from,
                    const struct xt_operand *to)
{
    xt_program_eltwise(update->program, XT_FORWARD, dnnl_eltwise_linear, (float)factor, 0, from,
                       to);
}

struct xt_posts xt_optim_then_add(const struct xt_operand *operand)
{
    return (struct xt_posts){.count = 1, .items = {xt_then_with(dnnl_binary_add, *operand)}};
}

void xt_optim_gradient(struct xt_optim_update *update)
{
    bool decays = update->decay && update->optim->weight_decay != 0 &&
                  !xt_optim_class_of(update->optim->kind)->decoupled;
    struct xt_posts add = xt_optim_then_add(&update->g);
    xt_optim_times(update, &update->g, XT_OPTIM_GRAD_SCALE, &update->g, NULL);
    if (decays)
        xt_optim_times(update, &update->p, XT_OPTIM_DECAY, &update->g, &add);
}

void xt_optim_velocity(struct xt_optim_update *update, const struct xt_operand *velocity)
{
    struct xt_posts add = xt_optim_then_add(&update->g);
    xt_optim_times(update, velocity, XT_OPTIM_MOMENTUM, velocity, &add);
}

void xt_optim_square(struct xt_optim_update *update, const struct xt_operand *square, double old)
{
    struct xt_posts posts = {.count = 2,
                             .items = {xt_then(dnnl_eltwise_linear, (float)(1 - old), 0),
                                       xt_then_with(dnnl_binary_add, *square)}};
    xt_optim_scale(update, old, square, square);
    xt_optim_binary(update, dnnl_binary_mul, &update->g, &update->g, square, &posts);
}

void xt_optim_step(struct xt_optim_update *update)
{
    xt_optim_times(update, &update->g, XT_OPTIM_LR, &update->g, NULL);
    xt_optim_binary(update, dnnl_binary_sub, &update->p, &update->g, &update->p, NULL);
}
