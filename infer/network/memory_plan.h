/* The memory that a run needs, by part, and the memory available, of the host (beyond a cgroup's
 * limit the kernel kills the process) and of an XPU. Computed from a graph's plan, before anything
 * is allocated. Figures in bytes; owns nothing.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "engine/executor.h"

enum xt_memory_part {
    XT_MEMORY_PARAMETERS, /* and running statistics */
    XT_MEMORY_GRADIENTS,  /* of the parameters, and their sum over several batches */
    XT_MEMORY_OPTIMIZER,
    XT_MEMORY_AVERAGE,     /* moving average of the weights */
    XT_MEMORY_WORKING,     /* copies of the weights in the kernels' formats */
    XT_MEMORY_ACTIVATIONS, /* and their gradients */
    XT_MEMORY_EVALUATION,  /* activations of an XPU's separate evaluation graph while it trains */
    XT_MEMORY_SLOTS,       /* batches, and the loader's order of the images */
    XT_MEMORY_CACHE,       /* limit of --image-cache */
    XT_MEMORY_PINNED,      /* what the runtime allocates on an XPU for pinned host memory */
    XT_MEMORY_SCRATCH,     /* scratch of the loops */
    XT_MEMORY_FILES,       /* copies while a checkpoint is written, or weights are read */
    XT_MEMORY_PROGRAM,     /* program, libraries and generated kernels */
    XT_MEMORY_PARTS,
};
const char *xt_memory_part_name(enum xt_memory_part part); /* "batch slots, the loader" */

struct xt_memory_side {
    double parts[XT_MEMORY_PARTS];
    double all;
    double limit;     /* what this process may use; 0: unknown */
    double free;      /* what it has not used yet; on an XPU what no process uses */
    double available; /* what can be allocated now, at most what is free */
    double own;   /* what this process uses of an XPU where other processes' use cannot be read */
    char why[96]; /* why it cannot be read, and counts as 0; "": it can */
};

struct xt_memory_plan {
    struct xt_memory_side host;
    struct xt_memory_side device; /* zeroed on the CPU */
    bool shared;                  /* an integrated GPU's memory is the host's */
};

/* Memory used beside the graphs. */
struct xt_memory_use {
    int states;   /* arrays of the optimizer, each as large as the parameters */
    int averages; /* moving averages of parameters and statistics */
    int sums;     /* accumulated gradients */
    size_t slot_bytes;
    int slots;            /* of training, or of evaluation alone */
    int evaluation_slots; /* while training; 0: nothing is evaluated */
    bool pinned;
    size_t samples; /* in the sources */
    double cache;   /* bytes of --image-cache on the host */
    int processes;  /* that share the host's memory; 0: only this one */
    double held;    /* of a resumed run's checkpoint, allocated already */
};

/* For planned graphs, which are not allocated yet; `evaluation` is NULL where it is the graph
 * itself or there is none. Memory that the process uses already counts as the program's. */
struct xt_memory_plan xt_memory_plan_ahead(const struct xt_graph *graph,
                                           const struct xt_graph *evaluation,
                                           const struct xt_memory_use *use);
/* For built graphs, with `now` allocated already and `use` in the end. The program's part is
 * measured. */
struct xt_memory_plan xt_memory_plan_built(const struct xt_graph *graph,
                                           const struct xt_graph *evaluation,
                                           const struct xt_memory_use *now,
                                           const struct xt_memory_use *use);

/* What a side must still allocate. */
double xt_memory_need(const struct xt_memory_side *side);
/* Whether it fits at all; true where that is unknown. */
bool xt_memory_plan_fits(const struct xt_memory_plan *plan);
/* Whether it leaves a tenth of what is available now for what is not planned: kernels, the runtime,
 * other processes; a fifth of an XPU where the use of these is unknown. */
bool xt_memory_plan_fits_well(const struct xt_memory_plan *plan);

/* XT_ERR_MEMORY for a plan that does not fit: what it needs, what there is, the largest tensors,
 * and what to do. */
enum xt_status xt_memory_plan_refuse(const struct xt_memory_plan *plan,
                                     const struct xt_graph *graph, const char *advice,
                                     struct xt_err *err);
