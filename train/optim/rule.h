/* An optimizer's interface: each kind has a loop for host memory (loops/update.c), a file (sgd.c,
 * adam.c, rmsprop.c) with its update as oneDNN primitives for device memory, and an entry in
 * optim.c's table. All constant.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "train/settings.h"

/* Added to a divisor to keep the quotient finite. */
#define XT_OPTIM_EPS 1e-8f

#define XT_ADAM_BETA1 0.9
#define XT_ADAM_BETA2 0.999
#define XT_RMSPROP_ALPHA 0.9

/* Values that one thread updates at a time. */
enum { XT_OPTIM_CHUNK = 16384 };

struct xt_optim {
    enum xt_optim_kind kind;
    double momentum;
    bool nesterov;
    double weight_decay;
    int64_t step;    /* updates done so far (Adam's bias correction, sgd's first momentum) */
    float *state[2]; /* [count] each, the caller's, zeroed at the start; NULL: absent */
    /* Called with values [offset, offset + count) of one range by the thread that has updated them,
     * offset a multiple of XT_OPTIM_CHUNK from the range's; NULL: nobody. */
    void (*updated)(void *context, size_t offset, size_t count);
    void *context;
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
    /* The update of a range of any size. */
    void (*describe)(struct xt_optim_update *update);
};

extern const struct xt_optim_class xt_optim_sgd, xt_optim_adam, xt_optim_adamw, xt_optim_rmsprop;
