/* The backward pass of a 1x1 convolution and the batch norm behind it, without the tensor between
 * them. With z = W x and dz = a da + b z + d by channels, da being the gradient behind the norm and
 * before its ReLU, P the sum of da x' and S that of x x' over all pixels (' transposes):
 *
 *     the sum of da z    is that of each row of W and P, number by number
 *     dW                 a P + b W S + d (the sum of x)'
 *     dx                 (a W)' da + (W' b W) x + W' d
 *
 * So z is not read and dz not written, which have more channels than x.
 */
#pragma once

/* Most channels of x. */
enum { XT_NORM_PRODUCT_CHANNELS_MAX = 64 };

struct xt_norm_product {
    int in_c, out_c;       /* of x, and of z; multiples of 16 */
    const float *weights;  /* [out_c / 16][in_c][16], rounded as the convolution has them */
    const float *products; /* P, the same shape */
    const float *squares;  /* S, [in_c / 16][in_c][16] */
    const float *sums;     /* [in_c] of x */
    const float *factors;  /* [3][out_c]: a, b, d */
    float *weight_grad;    /* dW, like W */
    float *scaled;         /* a W, likewise */
    float *through;        /* W' b W, [in_c / 16][in_c][16] */
    float *shift;          /* W' d, [in_c] */
};

/* Each part writes 16 channels' share of the last four: the first (of out_c) that of dW and a W,
 * the others (of in_c) the rest. Returns its share of the sum of dW's squares. */
static inline int xt_norm_product_parts(const struct xt_norm_product *job)
{
    return (job->in_c + job->out_c) / 16;
}
typedef double xt_norm_product_loop(const struct xt_norm_product *job, int part);

/* Forward likewise: the sums of z = W x and of its square over all pixels. Each part is 16
 * channels. */
struct xt_norm_statistics {
    int in_c;
    const float *weights;  /* as above */
    const double *squares; /* S, as above */
    const double *sums;    /* [in_c] of x */
    double *totals[2];     /* [out_c] out */
};
typedef void xt_norm_statistics_loop(const struct xt_norm_statistics *job, int part);
