/* Compares each op of a network with reference loops in double precision (ops/reference.h), one op
 * at a time, forward and backward, on the device and in the data type of a run.
 *
 * An op reads random numbers of its own type, so a difference is the op's own; gradients are left
 * at 0 where rounding may decide (beside a ReLU's corner, between near equals of a max pool). Of
 * convolutions a sample of the elements is compared, and sums over the channels in which each is a
 * term, where there is no ReLU. Each op runs once before with other numbers, so that a result of
 * the run before is seen; then a NaN has to pass through convolutions and batch norms. Errors are
 * relative to the largest number of their tensor, bounds follow from the type's rounding and the
 * length of the sums. The reference loops quantise the weights as int8 does: the bound is half a
 * step of the output.
 *
 * Where a run's passes go by slices of the samples one whole pass is compared with the same op by
 * op (whole.h). Not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "engine/graph.h"

enum { XT_SELFTEST_ROWS_MAX = 256 };

enum xt_selftest_pass { XT_SELFTEST_FORWARD, XT_SELFTEST_BACKWARD, XT_SELFTEST_INFERENCE };
const char *xt_selftest_pass_name(enum xt_selftest_pass pass);

/* The ops of one kind, type and pass, with the comparison that came nearest to its bound. */
struct xt_selftest_row {
    char kind[32];
    enum xt_dtype dtype;
    enum xt_selftest_pass pass;
    int ops;
    int wrong;    /* ops with a comparison beyond its bound */
    double error; /* of the tensor's largest number; infinite if a value is NaN */
    double bound;
    char where[128]; /* "layer1.0.conv1: gradient of the weights" */
};

struct xt_selftest {
    struct xt_selftest_row rows[XT_SELFTEST_ROWS_MAX];
    int row_count;
    int wrong; /* ops, over all rows */
};

/* The row of that kind, type and pass, a new one where there is none; NULL with the error where
 * there is no room. For the parts of the self-test. */
struct xt_selftest_row *xt_selftest_row(struct xt_selftest *out, const char *kind,
                                        enum xt_dtype dtype, enum xt_selftest_pass pass,
                                        struct xt_err *err);

/* A network to check: adds itself to a fresh graph. Returns its logits; NULL on failure, with the
 * error in the graph. */
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
    bool int8;     /* only the fused graph, with its convolutions in int8 */
    bool thorough; /* also frozen statistics, and inference without fusing */
    bool training_alone;
    /* Called before each op runs; may be NULL. */
    void (*before)(void *context, struct xt_graph *graph, const struct xt_op *op, bool backward);
    void *context;
};

/* A network of every kind of op and of each way to use it, at small, odd shapes (small.c); its
 * global context over each image or over the batch. */
extern const struct xt_selftest_network xt_selftest_small;
extern const struct xt_selftest_network xt_selftest_small_over_batch;

/* A smaller one, of the ops that training needs, with realistic channels (known.c). */
enum { XT_SELFTEST_KNOWN_SIDE = 16 }; /* height and width of its images */
extern const struct xt_selftest_network xt_selftest_known;

/* Checks that one in training, before a run begins on a device: XT_ERR_DEVICE if it computes wrong
 * results, or none. */
enum xt_status xt_selftest_device(struct xt_device *device, enum xt_dtype dtype,
                                  struct xt_err *err);
/* Times one of its training passes, forward and backward. */
enum xt_status xt_selftest_time_device(struct xt_device *device, enum xt_dtype dtype,
                                       double *seconds, struct xt_err *err);

/* Adds the findings to `out`, which is zeroed initially. A wrong op is not an error, one that
 * cannot run is. XT_INTERRUPTED or XT_STOPPED where a signal asked to stop. */
enum xt_status xt_selftest_run(struct xt_selftest *out, const struct xt_selftest_options *options,
                               struct xt_err *err);

/* The same for a graph that is built: a run's own kernels, shapes and types. Its pass, weights and
 * statistics are afterwards as before; gradients are overwritten. */
enum xt_status xt_selftest_graph(struct xt_selftest *out, struct xt_graph *graph,
                                 struct xt_err *err);

/* Builds options->network for training and times its passes: the mean of `passes` of them, the best
 * of a few repetitions. */
enum xt_status xt_selftest_time(const struct xt_selftest_options *options, int passes,
                                double *seconds, struct xt_err *err);

/* XT_ERR_RUN if an op was wrong; the sentence names the first kind of them. `device` is for the
 * sentence. */
enum xt_status xt_selftest_verdict(const struct xt_selftest *result, const char *device,
                                   struct xt_err *err);
/* The same as XT_ERR_DEVICE, since the device is not to be used; `check` is the command that says
 * more. */
enum xt_status xt_selftest_refuse(const struct xt_selftest *result, const char *device,
                                  const char *check, struct xt_err *err);
