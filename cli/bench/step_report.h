/* What `bench step` found, for text and JSON.
 *
 * One run is one JSON object; several are {"runs": [...], "fastest": its index}. Nothing here
 * measures. Not thread-safe.
 */
#ifndef XT_CLI_BENCH_STEP_REPORT_H
#define XT_CLI_BENCH_STEP_REPORT_H

#include <stdbool.h>

#include "cli/bench/step.h"
#include "cli/report.h"

/* One configuration. */
struct xt_bench_run {
    const char *model;
    const char *device; /* as it was asked for */
    int beside;         /* processes that kept CPUs busy meanwhile */
    struct xt_bench_step result;
    double old_rate; /* images/s of the same configuration in --against; 0: not compared */
};

/* A row a run; more than one are compared with the first, and the fastest is named. With `profile`
 * also time, arithmetic and traffic of each op, of each kind of op, and of the step's other parts;
 * with `why` what makes it slow. */
struct xt_bench_show {
    bool profile;
    bool why;
    bool beside; /* the column, where not all runs are alone */
};
void xt_bench_describe(struct xt_report *report, const struct xt_bench_run *runs, int count,
                       struct xt_bench_show show);

#endif
