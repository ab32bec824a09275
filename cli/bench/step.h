/* Times whole training steps (forward, loss, backward, update) and, between them, the network's
 * convolutions, the lower bound of a step; afterwards each convolution alone, in the formats that
 * oneDNN prefers.
 *
 * A few steps alternate with as many runs of the convolutions, so that other load on the machine
 * affects both alike. Data loading is not included: every step reads one slot of random bytes with
 * random labels, and the learning rate is 0, so that each step is the same work. With --why further
 * steps without per-op timing show what makes them slow. One thread; opens its own device.
 */
#pragma once

#include "base/err.h"
#include "cli/settings.h"
#include "train/watch/slow.h"

/* Seconds, arithmetic and bytes of one op in a step: forward, backward. */
struct xt_bench_op {
    char name[64];
    char kind[32];
    enum xt_dtype dtype;
    double seconds[2];
    double flops[2];
    double bytes[2]; /* of the values and gradients accessed, each counted once */
};

/* Time of a step by part: means over the middle half of the steps by time. */
struct xt_bench_profile {
    double step_s; /* the whole step */
    double refresh_s;
    double loss_s;
    double update_s; /* including clipping */
    double sum_s;    /* of all parts */
    int op_count;
    struct xt_bench_op *ops;
};

struct xt_bench_step {
    char device[128];
    int threads;
    int batch;
    enum xt_dtype dtype;
    int steps;
    double step_s;       /* median */
    double conv_s;       /* median */
    double free_conv_s;  /* in the formats that oneDNN prefers; NaN: not measured (an XPU) */
    double first_step_s; /* from the process's start to the end of the first step */
    double peak_rss_bytes;
    double planned_bytes; /* from the memory plan */
    double others;        /* share of the machine's CPU time that others used meanwhile, 0 to 1; -1:
                             unknown */
    struct xt_bench_profile profile;
    struct xt_slow_facts facts; /* with --why: what makes the steps slow, and the evidence */
    struct xt_slow slow;
};

/* Called after each step; `all` includes the warm-up. */
struct xt_bench_observer {
    void *context;
    void (*progress)(void *context, int done, int all);
};

/* Times `steps` steps (at least 1). Clear the result also after a failure. XT_INTERRUPTED or
 * XT_STOPPED if a signal requested a stop. */
enum xt_status xt_bench_step(struct xt_bench_step *out, const struct xt_train_settings *settings,
                             int steps, bool why, const struct xt_bench_observer *observer,
                             struct xt_err *err);
void xt_bench_step_clear(struct xt_bench_step *result);

double xt_bench_images_per_s(const struct xt_bench_step *result);

/* The median; sorts `values`. */
double xt_bench_median(double *values, int count);
