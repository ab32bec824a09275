/* A 1x1 convolution of inference in int8 by AVX-512's dot products of four bytes: some pixels and
 * channels of the output stay in registers over all channels of the input, which is read where it
 * is; then the bias, the residual and rounding. Sums are exact; a result depends on its own pixel
 * alone.
 *
 * Tensors are dense N, H, W, C without padding; channels of the output are multiples of 32, those
 * of the input of 16.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { XT_POINTWISE_INT8_OUT = 32, XT_POINTWISE_INT8_IN = 16, XT_POINTWISE_INT8_WORD = 4 };

/* Which of 32 channels stands at a place of the weights, scales and biases, so that packing the
 * sums to bytes brings them in order. */
static inline int xt_pointwise_int8_channel(int place)
{
    return place % 16 / 4 * 8 + place / 16 * 4 + place % 4;
}

struct xt_pointwise_int8 {
    int h, w; /* of the input */
    int out_h, out_w;
    int stride_h, stride_w;
    int in_c, out_c;
    int row; /* channels from one pixel of the output to the next: out_c, or more */
    const uint8_t *in;
    const int8_t *weights; /* [out_c / 32][in_c / 4][32 places][4] */
    uint8_t *out;
    bool out_signed;    /* int8_t instead, not with a residual; else it is rectified */
    const float *scale; /* [out_c / 32][32 places], from sums to steps of the output */
    const float *bias;  /* the same, in the output's steps */
    bool adds;          /* to what `out` holds, times `residual_scale` */
    bool residual_signed;
    float residual_scale; /* in the output's steps */
};

/* Pixels [first, end) of the output, of all samples. */
typedef void xt_pointwise_int8_loop(const struct xt_pointwise_int8 *job, int first, int end);
