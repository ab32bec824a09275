/* The steps of a recurrent layer (net/recurrence.h) over some rows, forward and backward: the
 * product of the state with the weight, then each unit's gates. Rows do not depend on each other:
 * threads share no step. Tensors are dense [rows][steps][...], of float32 or bf16; a step's own
 * numbers are float32.
 */
#pragma once

#include "base/number.h"
#include "engine/net/recurrence.h"

struct xt_recurrence_job {
    enum xt_recurrence kind;
    enum xt_dtype dtype;
    int steps, hidden;
    bool backwards;
    bool with_cell;      /* [2 * hidden]: states and cells */
    const float *weight; /* packed: forward by its rows, backward by its columns */
    const float *bias;   /* [gates * hidden]; NULL: none */
    const void *gates;   /* [rows][steps][gates * hidden], by the input */
    void *out;           /* [rows][steps][hidden or 2 * hidden] */
    /* For the backward pass; forward NULL: there is none. An LSTM's and a GRU's gates behind their
     * functions, with a GRU's last one by the state: [rows][steps][4 * hidden]. An LSTM's cells. */
    void *activated;
    float *cells; /* [rows][steps][hidden] */
    /* backward */
    const void *dout;
    void *dgates;   /* like gates */
    void *dstate;   /* the same by the state: dgates but of a GRU */
    void *before;   /* [rows][steps][hidden]: the state before each step */
    float *scratch; /* this thread's, xt_recurrence_scratch numbers */
};

/* Rows that go through a step together. */
enum { XT_RECURRENCE_ROWS = 32 };

/* Numbers of a matrix [outputs][inputs] in the order of the loops. */
size_t xt_recurrence_packed(int outputs, int inputs);
size_t xt_recurrence_scratch(enum xt_recurrence kind, int hidden);

/* Rows [first, end). */
typedef void xt_recurrence_loop(const struct xt_recurrence_job *job, size_t first, size_t end);
/* Part `part` of `parts` of a matrix [outputs][inputs], element (o, i) at from[o * strides[0] + i *
 * strides[1]], rounded to the type. */
typedef void xt_recurrence_pack_loop(enum xt_dtype dtype, const float *from,
                                     const size_t strides[2], int outputs, int inputs, int part,
                                     int parts, float *to);
