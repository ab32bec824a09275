/* An optimizer's interface: each kind has a file (sgd.c, adam.c, rmsprop.c) with its update as a
 * loop for host memory and as oneDNN primitives for device memory, and an entry in optim.c's table.
 * All constant.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "train/settings.h"

/* Added to a divisor to keep the quotient finite. */
#define XT_OPTIM_EPS 1e-8f

/* Most values per call of a loop: its scratch stays in L1. */
enum { XT_OPTIM_BLOCK = 1024 };

struct xt_optim {
    enum xt_optim_kind kind;
    double momentum;
    bool nesterov;
    double weight_decay;
    int64_t step;    /* updates done so far (Adam's bias correction, sgd's first momentum) */
    float *state[2]; /* [count] each, the caller's, zeroed at the start; NULL: absent */
};

/* The factors of an update. */
struct xt_optim_rule {
    float grad_scale;
    float decay; /* times the value, added to the gradient */
    float keep;  /* times the value: decoupled decay */
    float lr;
    float momentum;
    bool nesterov;
    float root_scale; /* Adam: times the root of the mean square */
};
struct xt_optim_update; /* describes primitives: steps.h */

struct xt_optim_class {
    const char *states[2]; /* names of the state arrays in checkpoints; NULL: absent */
    bool last_is_momentum; /* the last of them exists only with momentum */
    bool decoupled;        /* weight decay is not part of the gradient */
    /* Sets the kind's own scalars of an update; NULL: it has none. */
    void (*correct)(const struct xt_optim *optim, double lr, struct xt_optim_rule *rule);
    /* `count`, at most XT_OPTIM_BLOCK, values; absent state arrays are NULL. */
    void (*update)(const struct xt_optim_rule *rule, size_t count, float *restrict values,
                   const float *restrict grads, float *restrict const state[2]);
    /* The same for a range of any size. */
    void (*describe)(struct xt_optim_update *update);
};

extern const struct xt_optim_class xt_optim_sgd, xt_optim_adam, xt_optim_adamw, xt_optim_rmsprop;

/* Square roots in place, vectorized, bit-identical to sqrtf, whose errno keeps the compiler from
 * vectorizing a loop. */
void xt_optim_roots(float *values, size_t count);
