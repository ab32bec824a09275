/* An earlier `bench step --json`, and runs held against it. Nothing here measures. Not thread-safe.
 */
#ifndef XT_CLI_BENCH_AGAINST_H
#define XT_CLI_BENCH_AGAINST_H

#include "base/err.h"
#include "cli/bench/step_report.h"

/* Slower than this part of the old rate fails the comparison. */
#define XT_BENCH_SLOWEST 0.9

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
