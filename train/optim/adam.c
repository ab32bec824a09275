/* Adam (Kingma & Ba 2015) and AdamW, whose weight decay is decoupled from the gradient (Loshchilov
 * & Hutter 2019); betas 0.9 and 0.999. */
#include <math.h>

#include "train/optim/steps.h"

static void correct(const struct xt_optim *optim, double lr, struct xt_optim_rule *rule)
{
    double step = (double)optim->step + 1;
    rule->lr = (float)(lr / (1 - pow(XT_ADAM_BETA1, step)));
    rule->root_scale = (float)(1 / sqrt(1 - pow(XT_ADAM_BETA2, step)));
}

static void describe(struct xt_optim_update *u)
{
    const struct xt_operand *mean = &u->state[0];
    const struct xt_operand *square = &u->state[1];
    bool keeps_less =
        u->decay && u->optim->weight_decay != 0 && xt_optim_class_of(u->optim->kind)->decoupled;
    struct xt_post_ops towards = {.count = 0};
    const struct xt_post_ops add_g = {.count = 1, .items = {xt_optim_then_add(&u->g)}};
    struct xt_post_ops quotient = {
        .count = 4,
        .items = {xt_then(dnnl_eltwise_sqrt, 0, 0), xt_then(dnnl_eltwise_linear, 1, XT_OPTIM_EPS),
                  xt_then(dnnl_eltwise_pow, 1, -1), xt_then_with(dnnl_binary_mul, *mean)}};
    xt_optim_then_step(u, &quotient, keeps_less);
    xt_optim_then_towards(&towards, mean, 1 - XT_ADAM_BETA1);
    xt_optim_of_gradient(u, mean, &towards);
    xt_optim_square(u, square, XT_ADAM_BETA2);
    xt_optim_times(u, square, XT_OPTIM_ROOT_SQUARE, keeps_less ? &u->g : &u->p, &quotient);
    if (keeps_less)
        xt_optim_times(u, &u->p, XT_OPTIM_KEEP, &u->p, &add_g);
}

const struct xt_optim_class xt_optim_adam = {
    .states = {"momentum", "square"},
    .correct = correct,
    .describe = describe,
};

const struct xt_optim_class xt_optim_adamw = {
    .states = {"momentum", "square"},
    .decoupled = true,
    .correct = correct,
    .describe = describe,
};
