#include "ranks/launch.h"

#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

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

/* Without these Open MPI binds up to two processes to a core each, more to a socket or NUMA node.
 */
static bool is_bound_by_user(char *(*get)(const char *name))
{
    static const char *const options[] = {
        "OMPI_MCA_hwloc_base_binding_policy", "OMPI_MCA_hwloc_base_cpu_set",
        "OMPI_MCA_hwloc_base_cpu_list",       "OMPI_MCA_orte_rankfile",
        "OMPI_MCA_rmaps_base_mapping_policy",
    };
    for (size_t i = 0; i < sizeof options / sizeof *options; i++)
        if (get(options[i]))
            return true;
    return false;
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
    launch.unmet = strcmp(launch.who, "SLURM_STEP_NUM_TASKS") == 0 && !get("PMIX_RANK");
    launch.by_pmi = get("PMI_RANK") && !get("OMPI_COMM_WORLD_SIZE") && !get("PMIX_RANK");
    launch.binds = get("OMPI_MCA_orte_bound_at_launch") && !is_bound_by_user(get);
    /* With this option its SIGCONT follows a SIGSTOP. */
    launch.announces = get("OMPI_COMM_WORLD_SIZE") && !get("OMPI_MCA_orte_forward_job_control");
    return launch;
}
