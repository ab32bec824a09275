/* Holds each op of a network against plain loops in double precision (the ops' own, plain.h), one
 * op alone at a time, forward and backward, on the device and in the data type that a run would
 * use.
 *
 * An op reads random numbers of its own type, so a difference is the op's own; gradients are left
 * at 0 where rounding may decide (beside a ReLU's corner, between near equals of a max pool).
 * Where a convolution has more arithmetic than is worth while, evenly spread elements are looked
 * at. Errors are relative to the largest number of their tensor, bounds follow from the type's
 * rounding and the length of the sums. What int8 makes of the weights is part of the plain loops:
 * the bound is half a step of the output. Not thread-safe.
 */
#ifndef XT_ENGINE_SELFTEST_SELFTEST_H
#define XT_ENGINE_SELFTEST_SELFTEST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/graph.h"

enum { XT_SELFTEST_ROWS_MAX = 192 };

enum xt_selftest_pass { XT_SELFTEST_FORWARD, XT_SELFTEST_BACKWARD, XT_SELFTEST_INFERENCE };
const char *xt_selftest_pass_name(enum xt_selftest_pass pass);

/* The ops of one kind, type and pass, with the comparison that came nearest to its bound. */
struct xt_selftest_row {
    char kind[32];
    enum xt_dtype dtype;
    enum xt_selftest_pass pass;
    int ops;
    int wrong;    /* ops with a comparison beyond its bound */
    double error; /* of the tensor's largest number; infinite where something is not a number */
    double bound;
    char where[128]; /* "layer1.0.conv1: gradient of the weights" */
};

struct xt_selftest {
    struct xt_selftest_row rows[XT_SELFTEST_ROWS_MAX];
    int row_count;
    int wrong; /* ops, over all rows */
};

/* A network that is looked at: adds itself to a fresh graph. Returns its logits; NULL where that
 * failed, with the failure in the graph. */
struct xt_selftest_network {
    struct xt_tensor *(*describe)(struct xt_graph *graph, const void *context);
    const void *context;
};

struct xt_selftest_options {
    struct xt_device *device;
    struct xt_selftest_network network;
    int batch;
    const struct xt_backend *backend; /* NULL: the device's */
    enum xt_dtype dtype;
    bool int8;     /* the fused graph alone, with its convolutions in int8 */
    bool thorough; /* also frozen statistics, and inference without fusing */
    bool training_alone;
    /* Told before each op runs; NULL: nobody. */
    void (*before)(void *context, struct xt_graph *graph, const struct xt_op *op, bool backward);
    void *context;
};

/* A network of every kind of op and of each way to use it, at small, odd shapes (small.c); its
 * global context over each image or over the batch. */
extern const struct xt_selftest_network xt_selftest_small;
extern const struct xt_selftest_network xt_selftest_small_over_batch;

/* A smaller one, of the ops that training cannot do without, with channels as the networks have
 * them (known.c). */
enum { XT_SELFTEST_KNOWN_SIDE = 16 }; /* height and width of its images */
extern const struct xt_selftest_network xt_selftest_known;

/* That one in training, before a run begins on a device: XT_ERR_DEVICE where it computes wrongly,
 * or nothing. */
enum xt_status xt_selftest_device(struct xt_device *device, enum xt_dtype dtype,
                                  struct xt_err *err);
/* Makes that network's kernels and runs none. */
enum xt_status xt_selftest_prepare_device(struct xt_device *device, enum xt_dtype dtype,
                                          struct xt_err *err);
/* What one of its training passes, forward and backward, takes: *seconds. */
enum xt_status xt_selftest_time_device(struct xt_device *device, enum xt_dtype dtype,
                                       double *seconds, struct xt_err *err);

/* Adds what it finds to `out`, which starts as zeros. An op that is off is no failure, one that
 * cannot run is. XT_INTERRUPTED or XT_STOPPED where a signal asked to stop. */
enum xt_status xt_selftest_run(struct xt_selftest *out, const struct xt_selftest_options *options,
                               struct xt_err *err);

/* Builds options->network for training and times its passes: the mean of `passes` of them, in the
 * best of a few turns; with `passes` 0 it is built alone. */
enum xt_status xt_selftest_time(const struct xt_selftest_options *options, int passes,
                                double *seconds, struct xt_err *err);

/* XT_ERR_RUN where an op was off; the sentence names the first kind of them. `device` is for the
 * sentence. */
enum xt_status xt_selftest_verdict(const struct xt_selftest *result, const char *device,
                                   struct xt_err *err);

#endif
