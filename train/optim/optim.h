/* Optimizers on flat float32 arenas: parameters, gradients and state are each one array, so one
 * pass updates all.
 *
 * sgd (momentum, nesterov; PyTorch's form), adam and adamw (Kingma & Ba 2015; Loshchilov & Hutter
 * 2019; betas 0.9 and 0.999, eps 1e-8), rmsprop (alpha 0.9, eps 1e-8, momentum). Weight decay is L2
 * in the gradient but for adamw, where it is decoupled. The forms are PyTorch's (eps outside the
 * root, no damping), in float32 with scalars worked out in double.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "train/optim/rule.h"
#include "train/settings.h"

/* Values of --optim, in the enum's order, NULL-terminated. */
extern const char *const xt_optim_names[];
/* The implementation of a kind. */
const struct xt_optim_class *xt_optim_class_of(enum xt_optim_kind kind);

/* Number of state arrays of a kind (0 to 2), and their names in a checkpoint: sgd "momentum" (where
 * momentum is not 0); adam, adamw "momentum", "square"; rmsprop "square", "momentum" (where it is
 * not 0). */
int xt_optim_states(enum xt_optim_kind kind, double momentum);
const char *xt_optim_state_name(enum xt_optim_kind kind, int index);

/* A contiguous range of the arena, e.g. one parameter tensor. */
struct xt_optim_range {
    size_t offset;
    size_t count;
    bool decay;      /* weight decay applies */
    float lr_factor; /* multiplies the rate (usually 1; 0 freezes values and state) */
    /* The sum of its gradient's squares, or NaN where it is not known; NULL: it never is. */
    const double *square;
};

/* The scalars of the next update of one range. */
struct xt_optim_rule xt_optim_rule_of(const struct xt_optim *optim,
                                      const struct xt_optim_range *range, double lr,
                                      float grad_scale);

/* Updates `values` from `grads` (both arenas that the ranges point into), with gradients multiplied
 * by `grad_scale` first (clipping, loss scaling). Threads over ranges and within large ones; the
 * result does not depend on their number. */
void xt_optim_update(struct xt_optim *optim, float *values, const float *grads,
                     const struct xt_optim_range *ranges, size_t range_count, double lr,
                     float grad_scale);

/* The Euclidean norm of all gradients except the frozen ones, of those ranges whose squares are not
 * known summed in double in an order that does not depend on the number of threads. */
double xt_optim_grad_norm(const float *grads, const struct xt_optim_range *ranges,
                          size_t range_count);
