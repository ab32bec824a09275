/* Whether mpirun or srun started this process as one of several, from the launcher's environment
 * variables. */
#pragma once

#include <stdbool.h>

struct xt_launch {
    int tasks;       /* 1: alone */
    int task;        /* from 0 */
    const char *who; /* the variable it was read from; NULL: none */
    bool binds;      /* the launcher binds to CPUs by its own default */
    bool by_pmi;     /* started as MPICH and Intel MPI are: by Hydra, or srun's PMI-2 */
    bool unmet;      /* srun gave the tasks nothing by which MPI's processes meet */
    bool announces;  /* a SIGCONT by the launcher says that it is about to end its processes */
};

/* `get` is getenv except in tests. A batch script that is not itself a task counts as alone. */
struct xt_launch xt_launch_read(char *(*get)(const char *name));
