/* What a training run will take of the device's memory, before it runs: the arrays that trainer,
 * network and graph hold, by kind, in bytes. Figures alone; owns nothing.
 */
#ifndef XT_TRAIN_MEMORY_PLAN_H
#define XT_TRAIN_MEMORY_PLAN_H

#include "train/trainer.h"

struct xt_memory_plan {
    double parameters; /* running statistics too */
    double gradients;  /* of the parameters */
    double optimizer;
    double working; /* copies of the weights in the formats of the kernels */
    double arena;   /* activations and their gradients */
    double slots;   /* batches */
    double scratch; /* of the loops */
    double program; /* what program, libraries and generated kernels take beside the arrays */
    double all;
};

/* Of an initialised trainer. */
struct xt_memory_plan xt_memory_plan(const struct xt_trainer *trainer);

#endif
