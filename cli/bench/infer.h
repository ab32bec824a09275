/* Times inference: whole passes (bytes in memory to logits) and, alternating with them, the same
 * network's convolutions, the lower bound of a pass.
 *
 * Every pass reads one batch of random bytes; labels, image decoding and decoding of predictions
 * are not included. The weights are random unless the settings name a file: the time does not
 * depend on them. int8's ranges come from the random bytes. One thread; opens its own device.
 */
#pragma once

#include "base/err.h"
#include "cli/bench/step.h"

/* Time of one op in a pass. */
struct xt_bench_infer_op {
    char name[64];
    char kind[32];
    enum xt_dtype dtype;
    double seconds;
};

struct xt_bench_infer_run {
    /* input */
    enum xt_amp amp;
    bool fuse;
    int batch;
    /* results */
    double pass_s; /* medians */
    double conv_s;
    double others; /* share of the machine's CPU time that others used meanwhile; -1: unknown */
    struct xt_bench_infer_op *ops; /* means over all timed passes */
    int op_count;
};

struct xt_bench_infer {
    char device[128];
    int threads;
    int classes;
    int width, height;
    struct xt_bench_infer_run *runs; /* the caller's array, with the inputs set */
    int count;
};

/* Times each run with `samples` (at least 1) samples of at least 20 ms each. Clear the result also
 * after a failure. XT_INTERRUPTED or XT_STOPPED if a signal requested a stop. */
enum xt_status xt_bench_infer(struct xt_bench_infer *bench,
                              const struct xt_infer_settings *settings, int samples,
                              const struct xt_bench_observer *observer, struct xt_err *err);
