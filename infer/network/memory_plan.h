/* What a run takes of memory, by part, against what there is: of the host (beyond a cgroup's limit
 * the kernel kills without a word), and of an XPU. Computed from a graph's plan, so that it is
 * known before anything is allocated. Figures in bytes; owns nothing.
 */
#ifndef XT_INFER_NETWORK_MEMORY_PLAN_H
#define XT_INFER_NETWORK_MEMORY_PLAN_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "engine/executor.h"

enum xt_memory_part {
    XT_MEMORY_PARAMETERS, /* running statistics too */
    XT_MEMORY_GRADIENTS,  /* of the parameters, and their sum over several batches */
    XT_MEMORY_OPTIMIZER,
    XT_MEMORY_AVERAGE,     /* the moving one, of the weights */
    XT_MEMORY_WORKING,     /* copies of the weights in the formats of the kernels */
    XT_MEMORY_ACTIVATIONS, /* and their gradients */
    XT_MEMORY_EVALUATION,  /* activations of the graph that an XPU evaluates by while it trains */
    XT_MEMORY_SLOTS,       /* batches, and the loader's order of the images */
    XT_MEMORY_CACHE,       /* what --cache keeps, at most */
    XT_MEMORY_PINNED,      /* what the runtime keeps on an XPU for each pinned memory of the host */
    XT_MEMORY_SCRATCH,     /* of the loops */
    XT_MEMORY_FILES,       /* copies while a checkpoint is written, or weights are read */
    XT_MEMORY_PROGRAM, /* what program, libraries and generated kernels take beside the arrays */
    XT_MEMORY_PARTS,
};
const char *xt_memory_part_name(enum xt_memory_part part); /* "batch slots, the loader" */

struct xt_memory_side {
    double parts[XT_MEMORY_PARTS];
    double all;
    double limit;     /* what this process may have of it; 0: not known */
    double free;      /* what it has not taken yet; on an XPU what nobody has */
    double available; /* what can be had now, at most what is free */
    double own;       /* what this process has of an XPU, where what others have cannot be read */
    char why[96];     /* that cannot be read, and counts as nothing; "": it can */
};

struct xt_memory_plan {
    struct xt_memory_side host;
    struct xt_memory_side device; /* zeroed on the CPU */
    bool shared;                  /* an integrated GPU's memory is the host's */
};

/* What memory goes to beside the graphs. */
struct xt_memory_use {
    int states;   /* of the optimizer, each as large as the parameters */
    int averages; /* moving ones, of parameters and statistics */
    int sums;     /* of gradients */
    size_t slot_bytes;
    int slots;            /* of training, or of evaluation alone */
    int evaluation_slots; /* while training; 0: nothing is evaluated */
    bool pinned;
    size_t samples; /* in the sources */
    double cache;   /* that --cache takes of the host */
    double held;    /* of a checkpoint's copies, by now: the run goes on */
};

/* Of planned graphs, nothing of which is allocated yet; `evaluation` is NULL where it is the graph
 * itself or there is none. What the process has already counts as the program's. */
struct xt_memory_plan xt_memory_plan_ahead(const struct xt_graph *graph,
                                           const struct xt_graph *evaluation,
                                           const struct xt_memory_use *use);
/* Of built graphs, beside which there is `now` by now, and will be `use`. What the program takes is
 * measured. */
struct xt_memory_plan xt_memory_plan_built(const struct xt_graph *graph,
                                           const struct xt_graph *evaluation,
                                           const struct xt_memory_use *now,
                                           const struct xt_memory_use *use);

/* What a side has still to give. */
double xt_memory_need(const struct xt_memory_side *side);
/* Whether it can be had at all; where that is not known, it can. */
bool xt_memory_plan_fits(const struct xt_memory_plan *plan);
/* Whether it leaves a tenth of what is available now to all that is not planned: kernels, the
 * runtime, other processes. */
bool xt_memory_plan_fits_well(const struct xt_memory_plan *plan);

/* XT_ERR_MEMORY for a plan that does not fit: what it needs, what there is, the largest tensors,
 * and what to do. */
enum xt_status xt_memory_plan_refuse(const struct xt_memory_plan *plan,
                                     const struct xt_graph *graph, const char *advice,
                                     struct xt_err *err);

#endif
