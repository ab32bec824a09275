/* Times whole training steps (forward, loss, backward, update) and, between them, the network's
 * convolutions alone, which are the floor of a step.
 *
 * A few steps and as many runs of the convolutions take turns, so that whatever else the machine
 * does hits both alike. Data is no part of it: every step reads one slot of random bytes with
 * random labels, and the learning rate is 0, so that each step is the same work. With --why there
 * are more steps, whose ops are not timed, to see what makes them slow. One thread; opens a device
 * of its own.
 */
#ifndef XT_CLI_BENCH_STEP_H
#define XT_CLI_BENCH_STEP_H

#include "base/err.h"
#include "device/device.h"
#include "cli/settings.h"
#include "train/watch/slow.h"

/* Seconds, arithmetic and bytes of one step: forward, backward. */
struct xt_bench_op {
    char name[64];
    char kind[32];
    enum xt_dtype dtype;
    double seconds[2];
    double flops[2];
    double bytes[2]; /* of the values and gradients touched, each counted once */
};

/* Where a step's time goes: means over the middle half of the steps by time. */
struct xt_bench_profile {
    double step_s; /* the whole, measured around it */
    double refresh_s;
    double loss_s;
    double update_s; /* clipping too */
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
    double first_step_s; /* from the process's start to the end of the first step */
    double peak_rss_bytes;
    double planned_bytes; /* of the memory plan */
    double others;        /* part of the machine's CPU time that others took meanwhile, 0 to 1; -1:
                             not known */
    struct xt_bench_profile profile;
    struct xt_slow_facts
        facts; /* with --why: what makes the steps slow, and what it is judged by */
    struct xt_slow slow;
};

/* Told after each step; `all` counts the warm-up too. */
struct xt_bench_observer {
    void *context;
    void (*progress)(void *context, int done, int all);
};

/* Times `steps` steps (at least 1). Clear the result also after a failure. XT_INTERRUPTED
 * or XT_STOPPED where a signal asked to stop. */
enum xt_status xt_bench_step(struct xt_bench_step *out, const struct xt_train_settings *settings,
                             int steps, bool why, const struct xt_bench_observer *observer,
                             struct xt_err *err);
void xt_bench_step_clear(struct xt_bench_step *result);

double xt_bench_images_per_s(const struct xt_bench_step *result);
/* Of the rate that the convolutions alone would allow. */
double xt_bench_share(const struct xt_bench_step *result);

/* The median; orders `values`. */
double xt_bench_median(double *values, int count);

#endif
