/* Reference arithmetic of every op by simple loops in double precision, written from the op's
 * definition, independent of the implementation: the self-test and the tests compare with it.
 *
 * Values are dense N, H, W, C; a convolution's weights are O, I, H, W. Buffers are the caller's.
 * Slow by design. Thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/loops/loops.h"

struct xt_reference_shape {
    int n, h, w, c;
};

static inline size_t xt_reference_count(const struct xt_reference_shape *s)
{
    return (size_t)s->n * (size_t)s->h * (size_t)s->w * (size_t)s->c;
}

static inline size_t xt_reference_at(const struct xt_reference_shape *s, int n, int y, int x, int k)
{
    return (((size_t)n * (size_t)s->h + (size_t)y) * (size_t)s->w + (size_t)x) * (size_t)s->c +
           (size_t)k;
}

struct xt_reference_conv {
    struct xt_reference_shape in, out;
    int kernel_h, kernel_w;
    int stride_h, stride_w;
    int dilation_h, dilation_w; /* 0 counts as 1 */
    int pad_h, pad_w;           /* above and to the left; zeros */
    int groups;                 /* 0 counts as 1; weights are O, I / groups, H, W */
};

/* One element, so that a caller may check a sample of many. `index` counts the elements of the
 * output (without bias and ReLU), the input's gradient and the weights' gradient. */
double xt_reference_conv_output(const struct xt_reference_conv *conv, const double *in,
                                const double *weight, size_t index);
double xt_reference_conv_input_grad(const struct xt_reference_conv *conv, const double *out_grad,
                                    const double *weight, size_t index);
double xt_reference_conv_weight_grad(const struct xt_reference_conv *conv, const double *in,
                                     const double *out_grad, size_t index);
/* Of one channel's bias, from the gradient of an output of that shape. */
double xt_reference_bias_grad(const struct xt_reference_shape *out, const double *out_grad,
                              size_t channel);

/* Sums over the channels of each group, with a sign for each of them: of `values` as
 * [outer][groups][channels][inner], sums[outer][groups][inner]. What is linear in them can be
 * compared by its sums, in which each element is a term. */
struct xt_reference_groups {
    size_t outer, groups, channels, inner;
};
void xt_reference_sum_channels(const struct xt_reference_groups *groups, const double *values,
                               double *sums);

/* Mean and biased variance of channel k over samples and pixels. */
void xt_reference_moments(const struct xt_reference_shape *shape, const double *z, int k,
                          double *mean, double *variance);

/* (z - mean) / sqrt(variance + eps) * gamma + beta, then the residual; without the ReLU. */
struct xt_reference_norm {
    struct xt_reference_shape shape;
    const double *mean, *variance, *gamma, *beta; /* [c] */
    double eps;
    bool of_batch; /* mean and variance are those of z itself, so gradients flow through them */
};
void xt_reference_norm(const struct xt_reference_norm *norm, const double *z,
                       const double *residual, double *out);
/* From the gradient of its output: of z, gamma and beta. */
void xt_reference_norm_grad(const struct xt_reference_norm *norm, const double *z,
                            const double *out_grad, double *z_grad, double *gamma_grad,
                            double *beta_grad);

/* Pools of `in` by a window whose out_h and out_w are set. `lead`, if not NULL: the margin of the
 * maximum over every other number of its window. The gradients are added to `in_grad`; a max's goes
 * to the first maximum. */
void xt_reference_max_pool(const struct xt_reference_shape *in, const struct xt_window *window,
                           const double *from, double *to, double *lead);
void xt_reference_max_pool_grad(const struct xt_reference_shape *in, const struct xt_window *window,
                                const double *from, const double *to_grad, double *in_grad);
void xt_reference_average_pool(const struct xt_reference_shape *in, const struct xt_window *window,
                               const double *from, double *to);
void xt_reference_average_pool_grad(const struct xt_reference_shape *in,
                                    const struct xt_window *window, const double *to_grad,
                                    double *in_grad);

/* Whether dropout retains element `index` of sample n: the mask is a function of seed, step, the
 * op's index, sample and element, the same on every device. */
bool xt_reference_dropout_keeps(uint64_t seed, uint64_t step, int op, int n, size_t index,
                                double probability);

/* A tensor of LPRNet's global context. */
struct xt_reference_tap {
    struct xt_reference_shape shape;
    int group; /* tensors of one group share the mean of squares */
    const double *value;
    double *grad; /* written by the gradient */
};
/* Each group divided by the mean of its squares over the sample (`batch` 0) or over the first
 * `batch` samples; averaged over h; concatenated into [n][1][w][sum of c]. */
void xt_reference_context(const struct xt_reference_tap *taps, int count, int batch, double *out);
void xt_reference_context_grad(const struct xt_reference_tap *taps, int count, int batch,
                               const double *out_grad);
