/* An op in double precision, from what it is and not from how it is computed: what the self-test
 * holds the op against that a device runs.
 *
 * Arrays are dense N, H, W, C for tensors and row-major for parameters, of this part of the
 * network; the plain owns them. Slow by design. One thread at a time but for `element`.
 */
#ifndef XT_ENGINE_OPS_REFERENCE_OP_H
#define XT_ENGINE_OPS_REFERENCE_OP_H

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
    /* What it reads, as its types hold it; a kind's forward may make of them what the arithmetic
     * takes. */
    double *in[XT_OP_INPUTS_MAX];
    double *param[XT_OP_PARAMS_MAX];
    /* What comes out; statistics as the pass leaves them (NULL: not moved). */
    double *out[XT_OP_OUTPUTS_MAX];
    double *statistic[XT_OP_PARAMS_MAX];
    /* Backward: what the device put out, and the sum of what its readers hand back. */
    const double *came[XT_OP_OUTPUTS_MAX];
    double *out_grad[XT_OP_OUTPUTS_MAX];
    double *in_grad[XT_OP_INPUTS_MAX];
    double *param_grad[XT_OP_PARAMS_MAX];
    void *work; /* a kind's own, from one function to the next: one of the arrays */
    struct xt_reference_op_array *arrays;
};

/* How far a result may be off: relative to the largest number of its tensor, which counts as
 * `floor` at least (where terms that are larger may cancel), and by `absolute` besides. */
struct xt_bound {
    double relative, lower_bound, absolute;
};

/* All of a kind's functions but the first two may be NULL. */
struct xt_reference_op_kind {
    /* Fills out and statistic from in and param. */
    enum xt_status (*forward)(struct xt_reference_op *reference);
    /* Fills in_grad and param_grad from out_grad. */
    enum xt_status (*backward)(struct xt_reference_op *reference);
    /* Where an op has more arithmetic than is worth while: one element of a part, on any thread;
     * the two above then only make ready what it needs. */
    double (*element)(const struct xt_reference_op *reference, enum xt_part part, int which,
                      size_t index);
    /* Products that are summed up for one element. NULL: 1. */
    double (*terms)(const struct xt_reference_op *reference, enum xt_part part, int which);
    struct xt_bound (*bound)(const struct xt_reference_op *reference, enum xt_part part, int which);
    /* keep[i] becomes 0 where rounding may decide what becomes of the gradient of an output's
     * element: the self-test hands back none there. NULL: nowhere. */
    void (*certain)(struct xt_reference_op *reference, int output, double *keep);
    bool takes_above_0;                     /* it stands behind a ReLU and relies on that */
    const char *outputs[XT_OP_OUTPUTS_MAX]; /* their names; NULL: "output" */
    const char *inputs[XT_OP_INPUTS_MAX];   /* NULL: "input" */
};

/* Zeros; NULL with err set on failure. */
double *xt_reference_op_take(struct xt_reference_op *reference, size_t count);
void xt_reference_op_clear(struct xt_reference_op *reference);

size_t xt_reference_op_param_count(const struct xt_reference_op *reference, int which);
double xt_reference_op_largest(const double *values, size_t count); /* magnitude */

/* The numbers as the type holds them. */
void xt_reference_op_round(enum xt_dtype dtype, double *values, size_t count);

/* Half a unit in the last place, of a number at 1. What int8 holds is exact, and computed with as
 * float32. */
double xt_reference_op_rounding(enum xt_dtype dtype);
/* So many roundings to the type, and a float32 sum of `terms`. */
double xt_reference_op_relative(enum xt_dtype dtype, double roundings, double terms);

#endif
