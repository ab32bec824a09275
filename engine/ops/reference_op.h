/* The reference of an op: computed in double precision from its definition, for comparison with a
 * device's results in the self-test.
 *
 * Arrays are dense N, H, W, C for tensors and row-major for parameters, of this part of the
 * network, owned by the struct. Slow by design. Not thread-safe but for `element`.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "engine/graph.h"

enum xt_part { XT_PART_OUTPUT, XT_PART_INPUT_GRAD, XT_PART_PARAM_GRAD, XT_PART_STATISTIC };

struct xt_reference_op_array {
    struct xt_reference_op_array *next;
    double values[];
};

struct xt_reference_op {
    const struct xt_op *op;
    const struct xt_graph *graph; /* its options and its pass */
    struct xt_err *err;
    /* Inputs, rounded to their types; a kind's forward may modify them. */
    double *in[XT_OP_INPUTS_MAX];
    double *param[XT_OP_PARAMS_MAX];
    /* Outputs; statistics after the pass (NULL: unchanged). */
    double *out[XT_OP_OUTPUTS_MAX];
    double *statistic[XT_OP_PARAMS_MAX];
    /* Backward: the device's output, and the sum of its readers' gradients. */
    const double *came[XT_OP_OUTPUTS_MAX];
    double *out_grad[XT_OP_OUTPUTS_MAX];
    double *in_grad[XT_OP_INPUTS_MAX];
    double *param_grad[XT_OP_PARAMS_MAX];
    void *work; /* a kind's own between its functions: one of the arrays */
    struct xt_reference_op_array *arrays;
};

/* The error bound of a result: `relative` times the tensor's largest magnitude or, if larger,
 * `scale` (terms that may cancel), plus `absolute`. */
struct xt_bound {
    double relative, scale, absolute;
};

/* Sums over the channels of a part that is linear: each element is a term of one of them, so that
 * none can be wrong unseen. Arrays of the reference. */
struct xt_reference_sums {
    double *got, *wanted;
    size_t count; /* 0: the part has none */
    double terms; /* of one sum */
};

/* All of a kind's functions but the first two may be NULL. */
struct xt_reference_op_kind {
    /* Fills out and statistic from in and param. */
    enum xt_status (*forward)(struct xt_reference_op *reference);
    /* Fills in_grad and param_grad from out_grad. */
    enum xt_status (*backward)(struct xt_reference_op *reference);
    /* For ops too costly to compute whole: one element of a part, on any thread; the two above then
     * only prepare it. */
    double (*element)(const struct xt_reference_op *reference, enum xt_part part, int which,
                      size_t index);
    /* For these, the sums of a part's elements, which cost less than the elements. */
    enum xt_status (*sums)(struct xt_reference_op *reference, enum xt_part part, int which,
                           const double *got, struct xt_reference_sums *out);
    /* Products summed for one element. NULL: 1. */
    double (*terms)(const struct xt_reference_op *reference, enum xt_part part, int which);
    /* NULL: that of `roundings` and `terms_summed` in the op's type. */
    struct xt_bound (*bound)(const struct xt_reference_op *reference, enum xt_part part, int which);
    int roundings, terms_summed;
    /* Sets keep[i] to 0 if rounding may decide where the gradient of output element i goes: the
     * self-test then uses a zero gradient there. NULL: never. */
    void (*certain)(struct xt_reference_op *reference, int output, double *keep);
    /* Whether NaNs in a sample of the first input have to arrive in the output. NULL: not. */
    bool (*passes_nan)(const struct xt_op *op);
    bool grads_pass_nan; /* as those of the output's gradient do where it passes */
    /* The least number that its inputs may be. NULL: any. */
    double (*least)(const struct xt_op *op);
    const char *outputs[XT_OP_OUTPUTS_MAX]; /* their names; NULL: "output" */
    const char *inputs[XT_OP_INPUTS_MAX];   /* NULL: "input" */
};

/* Zeros; NULL with err set on failure. */
double *xt_reference_op_take(struct xt_reference_op *reference, size_t count);
void xt_reference_op_clear(struct xt_reference_op *reference);

size_t xt_reference_op_param_count(const struct xt_reference_op *reference, int which);
double xt_reference_op_largest(const double *values, size_t count); /* magnitude */

/* Rounds the numbers to the type. */
void xt_reference_op_round(enum xt_dtype dtype, double *values, size_t count);

/* Half a unit in the last place at 1. int8 values are exact, and computed with as float32. */
double xt_reference_op_rounding(enum xt_dtype dtype);
/* The bound for a number of roundings to the type and a float32 sum of `terms`. */
double xt_reference_op_relative(enum xt_dtype dtype, double roundings, double terms);
