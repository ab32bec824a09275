/* What an optimizer is: one file a kind (sgd.c, adam.c, rmsprop.c) with its update twice, as a loop
 * for the host's memory and as oneDNN primitives for a device's, and a line in optim.c's table. All
 * constant.
 */
#ifndef XT_TRAIN_OPTIM_RULE_H
#define XT_TRAIN_OPTIM_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "train/settings.h"

/* What keeps a quotient finite. */
#define XT_OPTIM_EPS 1e-8f

/* What one loop is given at most: its scratch stays in the first cache. */
enum { XT_OPTIM_BLOCK = 1024 };

struct xt_optim {
    enum xt_optim_kind kind;
    double momentum;
    bool nesterov;
    double weight_decay;
    int64_t step;    /* updates done so far (Adam's bias correction, sgd's first momentum) */
    float *state[2]; /* [count] each, the caller's, zeroed at the start; NULL where the kind keeps
                        fewer */
};

/* What an update multiplies by. */
struct xt_optim_rule {
    float grad_scale;
    float decay; /* times the value, added to the gradient */
    float keep;  /* times the value: decoupled decay */
    float lr;
    float momentum;
    bool nesterov;
    float root_scale; /* Adam: times the root of the mean square */
};
struct xt_optim_update; /* of which primitives are described: steps.h */

struct xt_optim_class {
    const char *states[2]; /* the arrays that it keeps, as checkpoints name them; NULL: none */
    bool last_is_momentum; /* the last of them is kept only where there is momentum */
    bool decoupled;        /* weight decay is no part of the gradient */
    /* What an update's scalars are beside the common ones; NULL: nothing. */
    void (*correct)(const struct xt_optim *optim, double lr, struct xt_optim_rule *rule);
    /* `count`, at most XT_OPTIM_BLOCK, values; state arrays that are not kept are NULL. */
    void (*update)(const struct xt_optim_rule *rule, size_t count, float *restrict values,
                   const float *restrict grads, float *restrict const state[2]);
    /* The same for a stretch of any size. */
    void (*describe)(struct xt_optim_update *update);
};

extern const struct xt_optim_class xt_optim_sgd, xt_optim_adam, xt_optim_adamw, xt_optim_rmsprop;

/* The roots of `count` numbers, in place, as vector code to the same bits: sqrtf may set errno, and
 * a loop that calls it does not become that. */
void xt_optim_roots(float *values, size_t count);

#endif
