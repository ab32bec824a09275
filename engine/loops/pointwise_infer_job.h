/* A 1x1 convolution of inference in int8 or bf16 by AVX-512's dot products of four bytes or two
 * bf16, or in float32 by AVX2: some pixels and channels of the output stay in registers over all
 * channels of the input, which is read where it is; then the bias, the residual, the activation and
 * rounding. Sums of int8 are exact; a result depends on its own pixel alone.
 *
 * Tensors are dense N, H, W, C without padding; channels of the output are multiples of 32, of
 * float32 of 16; those of the input fill 16 bytes.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/number.h"
#include "engine/net/activation.h"

enum {
    XT_POINTWISE_INFER_OUT = 32,
    XT_POINTWISE_INFER_ROWS = 8, /* pixels, in registers */
    XT_POINTWISE_INFER_BYTES = 16,
    XT_POINTWISE_INFER_WORD = 4
};

/* Which of 32 channels stands at a place of the weights, scales and biases: bf16's are in order,
 * int8's so that packing the sums to bytes brings them in order. */
static inline int xt_pointwise_infer_channel(bool int8, int place)
{
    return int8 ? place % 16 / 4 * 8 + place / 16 * 4 + place % 4 : place;
}

struct xt_pointwise_infer {
    /* Of the input: u8, with an output of 8 bits, or bf16 or float32 as the output. */
    enum xt_dtype dtype;
    int h, w; /* of the input */
    int out_h, out_w;
    int stride_h, stride_w;
    int in_c, out_c;
    int row; /* channels from one pixel of the output to the next: out_c, or more */
    const void *in;
    /* [out_c / 32][words of a pixel][32 places][4 bytes]; float32: [out_c / 16][in_c][16] */
    const void *weights;
    void *out;
    const float *bias; /* [out_c / 32][32 places]; int8: in the output's steps */
    bool adds;         /* to what `out` holds; int8: times `residual_scale` */
    /* bf16 and float32: the activation is clip, hard swish or SiLU; NULL: ReLU or none. */
    bool relu;
    const struct xt_activation *activation;
    /* int8: */
    bool out_signed;    /* int8_t instead, not with a residual; else it is rectified */
    const float *scale; /* [out_c / 32][32 places], from sums to steps of the output */
    bool residual_signed;
    float residual_scale; /* in the output's steps */
};

/* Pixels [first, end) of the output, of all samples. */
typedef void xt_pointwise_infer_loop(const struct xt_pointwise_infer *job, int first, int end);
