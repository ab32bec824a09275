/* The input's gradient of a convolution by matrix tiles of bf16 (AMX), where its kernel is one
 * column wide and the output a few rows high: LPRNet's 13x1.
 *
 * The left matrix has a row for each column of each sample, holding its output rows in reverse
 * order; the right one has the weights, tap by tap. So the gradient of input row y is one product:
 * of the left columns of the output rows that use it, and of their taps, which are in the same
 * order. Ranges are counted in pairs of channels and read in whole tiles; the excess is multiplied
 * by zeros after the left matrix's rows or the right one's.
 *
 * In float32 both matrices are sums of three of bf16, and of their nine products the six largest
 * are formed (summands.h). A sample's gradient depends only on this sample.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/loops/summands.h"

enum {
    XT_DATA_GRAD_WIDE = 16,  /* channels of the input in a tile: a copy's `wide` */
    XT_DATA_GRAD_SPARE = 15, /* rows of a copy that a whole tile may read past the end */
    XT_DATA_GRAD_ROWS = 72   /* of the left matrix at a time, or those of one sample */
};

/* No padding, stride, dilation or groups; tensors are dense N, H, W, C. */
struct xt_data_grad {
    bool f32;       /* the tensors' type; else bf16 */
    int h, w, in_c; /* in_c is a multiple of 32 */
    int out_h, out_c;
    int kernel_h;
    const uint32_t *weights; /* struct xt_weight_copy's, the input's channels being its wide axis;
                                aligned to 64 */
};

/* For `count` consecutive samples: out_grad [count][out_h][w][out_c], in_grad [count][h][w][in_c].
 * scratch is aligned to 64. */
typedef void xt_data_grad_loop(const struct xt_data_grad *job, int count, const void *out_grad,
                               void *in_grad, float *scratch);

/* Rows of the left matrix in scratch, with those of its last tiles; channels of one output row in
 * it; elements of one of its rows; floats of scratch. */
size_t xt_data_grad_rows(const struct xt_data_grad *job);
int xt_data_grad_channels(const struct xt_data_grad *job);
size_t xt_data_grad_row(const struct xt_data_grad *job);
size_t xt_data_grad_scratch(const struct xt_data_grad *job);
