/* Where a run's time and energy went, over all its starts: kept in checkpoints. */
#ifndef XT_RUNS_RUN_COSTS_H
#define XT_RUNS_RUN_COSTS_H

struct xt_run_costs {
    double start;      /* seconds from a process's begin to its training, not among the trained */
    double loading;    /* seconds that steps waited for images */
    double evaluation; /* seconds, with saving the best weights */
    double energy;     /* joules of CPU packages, or of the XPU; NAN: not measured */
    const char *energy_source; /* who counts it, a constant: "rapl", "hwmon", "sysman"; not kept */
};

#endif
