/* Times inference: whole passes (bytes in memory to logits) and, in turns with them, the same
 * network's convolutions alone, which are the floor of a pass.
 *
 * Every pass reads one batch of random bytes; no label, no decoding of images or answers. The
 * weights are random unless the settings name some: the time does not depend on them. int8's ranges
 * come from the random bytes. One thread; opens a device of its own.
 */
#ifndef XT_CLI_BENCH_INFER_H
#define XT_CLI_BENCH_INFER_H

#include "base/err.h"
#include "cli/bench/step.h"
#include "infer/network/network.h"
#include "cli/settings.h"

/* What one op took in a pass. */
struct xt_bench_infer_op {
    char name[64];
    char kind[32];
    enum xt_dtype dtype;
    double seconds;
};

struct xt_bench_infer_run {
    /* what to time */
    enum xt_amp amp;
    bool fuse;
    int batch;
    /* what came of it */
    double pass_s; /* medians */
    double conv_s;
    double others; /* part of the machine's CPU time that others took meanwhile; -1: not known */
    struct xt_bench_infer_op *ops; /* means over all timed passes */
    int op_count;
};

struct xt_bench_infer {
    char device[128];
    int threads;
    int classes;
    int width, height;
    struct xt_bench_infer_run *runs; /* the caller's array; what to time filled in */
    int count;
};

/* Times each run by `samples` (at least 1) samples of at least 20 ms each. Clear the result also
 * after a failure. XT_INTERRUPTED or XT_STOPPED where a signal asked to stop. */
enum xt_status xt_bench_infer(struct xt_bench_infer *bench,
                              const struct xt_infer_settings *settings, int samples,
                              const struct xt_bench_observer *observer, struct xt_err *err);
void xt_bench_infer_clear(struct xt_bench_infer *bench);

/* Of the rate that the convolutions alone would allow. */
double xt_bench_infer_share(const struct xt_bench_infer_run *run);

#endif
