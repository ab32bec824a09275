/* A run's time and energy, over all its starts; stored in checkpoints. */
#pragma once

struct xt_run_costs {
    double start;   /* seconds from the process's start to its training, not counted as trained */
    double loading; /* seconds that steps waited for images */
    double evaluation;         /* seconds, with saving the best weights */
    double energy;             /* joules of CPU packages, or of the XPU; NAN: not measured */
    const char *energy_source; /* its counter, a constant: "rapl", "hwmon", "sysman"; not stored */
};
