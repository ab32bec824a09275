/* A 1x1 convolution of float32 as a matrix product, forward and for the input's gradient: some
 * pixels and channels of the output stay in registers over all channels of the input, which is read
 * where it is. A result depends on its own pixel alone.
 *
 * Tensors are dense N, H, W, C without padding; channels are multiples of 32.
 */
#pragma once

#include "engine/loops/norm_sums.h"

enum {
    XT_POINTWISE_CHANNELS = 32,
    XT_POINTWISE_BLOCK = 16,
    XT_POINTWISE_CHUNK = 48 /* pixels at a time */
};

struct xt_pointwise {
    int h, w; /* of the input */
    int out_h, out_w;
    int stride_h, stride_w;
    int in_c, out_c;
    const float *in;
    const float *weights; /* [out_c / 16][in_c][16] */
    float *out;
    struct xt_norm_sums norm; /* of the output; of float32 */
    bool adds;                /* with norm.y: to what the output's memory holds */
    /* Of inference (pointwise_infer_job.h): bias, residual and activation; NULL: none. */
    const struct xt_pointwise_infer *ending;
};

/* Pixels [first, end) of the output. */
typedef void xt_pointwise_loop(const struct xt_pointwise *job, int first, int end);
/* [rows / 16][columns][16] of the transposed matrix [columns / 16][rows][16], of which row
 * `block`. */
typedef void xt_pointwise_turn_loop(const float *from, int rows, int columns, int block, float *to);
