/* Compares `bench step` runs with an earlier `bench step --json`. Measures nothing. Not
 * thread-safe. */
#pragma once

#include "base/err.h"
#include "cli/bench/step_report.h"

/* A rate below this fraction of the old one fails the comparison. */
#define XT_BENCH_SLOWEST 0.9

/* The results of an earlier run. */
struct xt_bench_old;
enum xt_status xt_bench_old_read(struct xt_bench_old **out, const char *path, struct xt_err *err);
void xt_bench_old_destroy(struct xt_bench_old *old);
/* Stores the images/s of a configuration (model, device, type and batch) in *rate; XT_ERR_DATA if
 * the file has no matching run. `threads` 0: any. */
enum xt_status xt_bench_old_rate(const struct xt_bench_old *old, const struct xt_settings *settings,
                                 int threads, double *rate, struct xt_err *err);
/* XT_ERR_RUN names the first run that is too slow. */
enum xt_status xt_bench_compare(const struct xt_bench_run *runs, int count, const char *path,
                                struct xt_err *err);
