/* How this process was started: alone, or by mpirun or srun as one of several, as the launcher says
 * in the environment. */
#ifndef XT_RANKS_LAUNCH_H
#define XT_RANKS_LAUNCH_H

#include <stdbool.h>

struct xt_launch {
    int tasks;       /* 1: alone */
    int task;        /* from 0 */
    const char *who; /* the variable that says so; NULL: none */
    bool unbound;    /* the launcher's binding to CPUs is nobody's wish */
};

/* `get` is getenv, but for tests. A batch script that is no task itself is alone. */
struct xt_launch xt_launch_read(char *(*get)(const char *name));

#endif
