/* What a run takes of memory, by kind, against what the process may use (the cgroup's limit, or the
 * machine's memory): beyond a cgroup's limit the kernel kills without a word. The activations, by
 * far the largest part, are planned before they are allocated. Figures in bytes; owns nothing.
 */
#ifndef XT_TRAIN_MEMORY_PLAN_H
#define XT_TRAIN_MEMORY_PLAN_H

#include <stddef.h>

#include "base/err.h"
#include "models/graph.h"

struct xt_trainer;

struct xt_memory_plan {
    double parameters; /* running statistics too */
    double gradients;  /* of the parameters */
    double optimizer;
    double working; /* copies of the weights in the formats of the kernels */
    double arena;   /* activations and their gradients */
    double slots;   /* batches, and the loader's order of the images */
    double scratch; /* of the loops */
    double saving;  /* copies of parameters and optimizer state while a checkpoint is written */
    double program; /* what program, libraries and generated kernels take beside the arrays */
    double all;
    double limit; /* what the process may use; 0: not known */
};

/* Of an initialised trainer. What the program takes is measured. */
struct xt_memory_plan xt_memory_plan(const struct xt_trainer *trainer);

/* What is left for the activations of a described graph once all else has its place. 0 where the
 * limit is not known; at least 1 else. */
size_t xt_memory_plan_room(const struct xt_graph *graph, size_t slot_bytes);

/* XT_ERR_MEMORY for a graph whose activations are more than `room`: what it needs, what there is,
 * and the largest batch that fits. */
enum xt_status xt_memory_plan_refuse(const struct xt_graph *graph, size_t room, struct xt_err *err);

#endif
