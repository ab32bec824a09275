/* Results of `bench step` as text and JSON.
 *
 * One run is one JSON object; several are {"runs": [...], "fastest": its index}. Measures nothing.
 * Not thread-safe.
 */
#pragma once

#include <stdbool.h>

#include "cli/bench/step.h"
#include "cli/report.h"

/* One configuration. */
struct xt_bench_run {
    const char *model;
    const char *device; /* as requested */
    int beside;         /* processes that kept CPUs busy meanwhile */
    struct xt_bench_step result;
    double old_rate; /* images/s of the same configuration in --against; 0: not compared */
};

/* One row per run; several are compared with the first, and the fastest is named. With `profile`
 * also time, arithmetic and traffic of each op, each kind of op, and the step's other parts; with
 * `why` what makes it slow. */
struct xt_bench_show {
    bool profile;
    bool why;
    bool beside; /* show the column: not all runs were alone */
};
void xt_bench_describe(struct xt_report *report, const struct xt_bench_run *runs, int count,
                       struct xt_bench_show show);
