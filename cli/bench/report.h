/* What `bench step` found, as a table and as JSON, and compared with an earlier run's JSON.
 *
 * One run is one JSON object; several are {"runs": [...], "fastest": its index}. Nothing here
 * measures. Not thread-safe.
 */
#ifndef XT_CLI_BENCH_REPORT_H
#define XT_CLI_BENCH_REPORT_H

#include <stdbool.h>
#include <stdio.h>

#include "base/err.h"
#include "base/str.h"
#include "cli/bench/step.h"

/* Slower than this part of the old rate fails the comparison. */
#define XT_BENCH_SLOWEST 0.9

/* One configuration. */
struct xt_bench_run {
    const char *model;
    const char *device; /* as it was asked for */
    struct xt_bench_step result;
    double old_rate; /* images/s of the same configuration in --against; 0: not compared */
};

/* A line a run; more than one are compared with the first, and the fastest is named. */
void xt_bench_print_table(const struct xt_bench_run *runs, int count, FILE *out);
/* Time, arithmetic and traffic of each op, of each kind of op, and of the step's other parts. */
void xt_bench_print_profile(const struct xt_bench_profile *profile, FILE *out);

enum xt_status xt_bench_to_json(const struct xt_bench_run *runs, int count, bool profile,
                                struct xt_str *out, struct xt_err *err);

/* The results of an earlier run. */
struct xt_bench_old;
enum xt_status xt_bench_old_read(struct xt_bench_old **out, const char *path, struct xt_err *err);
void xt_bench_old_destroy(struct xt_bench_old *old);
/* Images/s of a configuration (model, device, type and batch) into *rate; XT_ERR_DATA where the
 * file has none that is the same. `threads` 0: any. */
enum xt_status xt_bench_old_rate(const struct xt_bench_old *old, const struct xt_settings *settings,
                                 int threads, double *rate, struct xt_err *err);
/* XT_ERR_RUN names the first run that is too slow. */
enum xt_status xt_bench_compare(const struct xt_bench_run *runs, int count, const char *path,
                                struct xt_err *err);

#endif
