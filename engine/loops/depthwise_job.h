/* A depthwise convolution: each channel has a kernel of its own. Tensors are dense N, H, W, C, of
 * float32 or bf16; a call takes one sample. Weights and their gradient are float32, tap by tap:
 * [kernel_h][kernel_w][c].
 *
 * In inference the output alone may be of int8, s8 or u8 both what is read and what is written:
 * whole weights, whose sums float32 holds exactly, are scaled to the output's steps.
 *
 * The input's gradient is a convolution of the output's, whose taps are those of the kernel
 * backwards; with a stride along w they are sorted by the columns that they reach
 * (xt_depthwise_backward_tap).
 */
#pragma once

#include <stdbool.h>

#include "base/number.h"
#include "engine/net/activation.h"

enum {
    XT_DEPTHWISE_KERNEL_MOST = 16, /* rows of a kernel */
    XT_DEPTHWISE_INFER_LEAST = 16, /* channels in inference */
    XT_DEPTHWISE_INT8_TAPS = 128,  /* most of a kernel of int8, whose sums stay below 2^24 */
};

/* What becomes of a sum: scale, bias, activation, clip, in this order. */
struct xt_depthwise_ending {
    const float *bias;                      /* [c]; NULL: none */
    const struct xt_activation *activation; /* hard swish or SiLU; NULL: none */
    float least, most; /* infinite: not clipped; int8: the type's at the widest */
    /* int8 alone; all above is in the output's steps, but with an activation what is before it: */
    const float *scale; /* [c] */
    float steps;        /* in 1: a factor behind the activation */
};

struct xt_depthwise {
    enum xt_dtype dtype;
    int h, w, c;
    int out_h, out_w;
    int first_row, end_row; /* of the output, that are written */
    int kernel_h, kernel_w;
    int stride_h, stride_w;
    int dilation_h, dilation_w; /* at least 1; of the input's gradient 1 where the stride is not */
    int pad_h, pad_w;           /* above and to the left */
    const float *weights;       /* for the input's gradient in the order of backward taps */
    struct xt_depthwise_ending ending;
};

typedef void xt_depthwise_loop(const struct xt_depthwise *job, const void *from, void *to);
/* Writes sums [kernel_h * kernel_w][c] of the sample and, behind them, the bias's [c]. */
typedef void xt_depthwise_sums_loop(const struct xt_depthwise *job, const void *in,
                                    const void *out_grad, float *sums);

/* Taps of a row that reach the input's columns x where (x + pad_w) % stride_w is `phase`. */
static inline int xt_depthwise_taps(const struct xt_depthwise *job, int phase)
{
    return phase < job->kernel_w ? (job->kernel_w - 1 - phase) / job->stride_w + 1 : 0;
}

/* Where the tap kx of a row stands among the row's backward taps. */
static inline int xt_depthwise_backward_tap(const struct xt_depthwise *job, int kx)
{
    int phase = kx % job->stride_w;
    int before = 0;
    for (int i = 0; i < phase; i++)
        before += xt_depthwise_taps(job, i);
    return before + xt_depthwise_taps(job, phase) - 1 - kx / job->stride_w;
}
