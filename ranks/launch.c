#include "ranks/launch.h"

#include <limits.h>
#include <stddef.h>
#include <stdlib.h>

/* Open MPI; MPICH, Intel MPI and srun's PMI-2; srun with PMIx or without MPI. Not SLURM_NTASKS,
 * which a batch script has too. */
static const struct {
    const char *tasks, *task;
} launchers[] = {
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
    {"PMI_SIZE", "PMI_RANK"},
    {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},
};

static int number(const char *text, int fallback)
{
    char *end = NULL;
    long value = text ? strtol(text, &end, 10) : 0;
    return text && end != text && !*end && value >= 0 && value < INT_MAX ? (int)value : fallback;
}

struct xt_launch xt_launch_read(char *(*get)(const char *name))
{
    struct xt_launch launch = {.tasks = 1};
    for (size_t i = 0; i < sizeof launchers / sizeof *launchers && launch.tasks < 2; i++) {
        launch.tasks = number(get(launchers[i].tasks), 1);
        launch.task = number(get(launchers[i].task), 0);
        launch.who = launchers[i].tasks;
    }
    if (launch.tasks < 2)
        return (struct xt_launch){.tasks = 1};
    /* Without --bind-to Open MPI binds up to two processes to a core each, more to a socket or
     * node. */
    launch.unbound = get("OMPI_COMM_WORLD_SIZE") && !get("OMPI_MCA_hwloc_base_binding_policy");
    /* With this option its SIGCONT follows a SIGSTOP. */
    launch.announces = get("OMPI_COMM_WORLD_SIZE") && !get("OMPI_MCA_orte_forward_job_control");
    return launch;
}
