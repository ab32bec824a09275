/* The primitives that optimizers are made of, on one stretch of the arenas: what a kind's
 * `describe` calls. Failures stay in the program (program.h). */
#ifndef XT_TRAIN_OPTIM_STEPS_H
#define XT_TRAIN_OPTIM_STEPS_H

#include "models/graph/program.h"
#include "train/optim/optim.h"

/* What changes from update to update, as numbers on the device. */
enum xt_optim_scalar {
    XT_OPTIM_GRAD_SCALE,
    XT_OPTIM_DECAY,
    XT_OPTIM_LR,
    XT_OPTIM_KEEP,
    XT_OPTIM_ROOT_SQUARE, /* of root_scale */
    XT_OPTIM_MOMENTUM,
    XT_OPTIM_SCALARS,
};

/* An update while it is described: values, gradients (which it may overwrite), state, scalars. */
struct xt_optim_update {
    struct xt_program *program;
    const struct xt_optim *optim;
    bool decay; /* of the stretch */
    struct xt_operand p, g, state[2], scalars[XT_OPTIM_SCALARS];
};

/* to = a alg b, and to = a * the scalar; then what the posts say. */
void xt_optim_binary(struct xt_optim_update *update, dnnl_alg_kind_t alg,
                     const struct xt_operand *a, const struct xt_operand *b,
                     const struct xt_operand *to, const struct xt_posts *posts);
void xt_optim_times(struct xt_optim_update *update, const struct xt_operand *a,
                    enum xt_optim_scalar scalar, const struct xt_operand *to,
                    const struct xt_posts *posts);
/* to = factor * from */
void xt_optim_scale(struct xt_optim_update *update, double factor, const struct xt_operand *from,
                    const struct xt_operand *to);
struct xt_posts xt_optim_then_add(const struct xt_operand *operand);

/* g = grad_scale * g + decay * p, where decay is part of the gradient */
void xt_optim_gradient(struct xt_optim_update *update);
/* velocity = momentum * velocity + g */
void xt_optim_velocity(struct xt_optim_update *update, const struct xt_operand *velocity);
/* square = old * square + (1 - old) * g * g */
void xt_optim_square(struct xt_optim_update *update, const struct xt_operand *square, double old);
/* p = p - lr * g */
void xt_optim_step(struct xt_optim_update *update);

#endif
