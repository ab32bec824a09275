/* The primitives that optimizers are built from, on one range of the arenas, called by a kind's
 * `describe`. Errors are recorded in the program (program.h). */
#pragma once

#include "engine/program.h"
#include "train/optim/optim.h"

/* Scalars on the device that change from update to update. */
enum xt_optim_scalar {
    XT_OPTIM_GRAD_SCALE,
    XT_OPTIM_DECAY,
    XT_OPTIM_BY_DECAY, /* 1 / decay */
    XT_OPTIM_STEP,     /* -lr */
    XT_OPTIM_KEEP,
    XT_OPTIM_ROOT_SQUARE, /* of root_scale */
    XT_OPTIM_MOMENTUM,
    XT_OPTIM_BY_MOMENTUM, /* 1 / momentum */
    XT_OPTIM_SCALARS,
};

/* An update while it is described: values, gradients (which it may overwrite), state, scalars. */
struct xt_optim_update {
    struct xt_program *program;
    const struct xt_optim *optim;
    bool decay;  /* of the range */
    bool guards; /* values stay unchanged if the scalar at `fine` is 0 and not 1 */
    struct xt_operand p, g, state[2], scalars[XT_OPTIM_SCALARS], fine;
};

/* Post-ops, applied in order, each to the result of the one before. */
struct xt_post xt_optim_then_add(const struct xt_operand *operand);
/* x becomes p - lr * x; `apart`: -lr * x. */
void xt_optim_then_step(const struct xt_optim_update *update, struct xt_post_ops *post_ops,
                        bool apart);
/* x becomes towards + part * (x - towards): a moving average. */
void xt_optim_then_towards(struct xt_post_ops *post_ops, const struct xt_operand *towards,
                           double part);

/* to = a * the scalar, then the post-ops. One kernel, as is each of these. */
void xt_optim_times(struct xt_optim_update *update, const struct xt_operand *a,
                    enum xt_optim_scalar scalar, const struct xt_operand *to,
                    const struct xt_post_ops *post_ops);
/* The same of the gradient, grad_scale * g + decay * p where decay is part of it. */
void xt_optim_of_gradient(struct xt_optim_update *update, const struct xt_operand *to,
                          const struct xt_post_ops *post_ops);
/* velocity = momentum * velocity + the gradient */
void xt_optim_velocity(struct xt_optim_update *update, const struct xt_operand *velocity);
/* square = old * square + (1 - old) * the gradient's square */
void xt_optim_square(struct xt_optim_update *update, const struct xt_operand *square, double old);
/* p = p - lr * by */
void xt_optim_step(struct xt_optim_update *update, const struct xt_operand *by);
