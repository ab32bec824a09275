/* The weight gradient of a convolution: by matrix tiles of bf16 (AMX), of float32 also by AVX-512
 * or AVX2.
 *
 * By tiles dW[tap][o][i] is a product over pixels, of the output's gradient and of the input moved
 * by the tap. One of the two is the left matrix, transposed so that a row is a channel's pixels;
 * the other is the right matrix, pairs of pixels side by side. With several taps that is the input,
 * with pairs that begin at even and at odd pixels, so that every tap's offset is whole pairs and
 * tiles begin at cache lines. The output's pixels are counted in rows of `pitch`, the image's width
 * plus the kernel's overhang, so that a tap is an offset in pixels. Of few channels a row of taps
 * lies side by side in a pixel of the input (`fold`), which fills the tiles. In float32 both are
 * sums of three matrices of bf16, and of their nine products the six largest are formed
 * (summands.h).
 *
 * Work is divided into parts, one per thread: groups of samples (of pixels, for 1x1) with separate
 * sums, which are added in order; and with many weights, shares of the channels. So the result
 * depends only on the number of parts.
 *
 * The gradient has the format OIhw16i16o, or OIhw8i8o with an edge of 8; in bf16 where `turned`
 * OIhw16o16i, to which float32's tiles are turned back (its format must not depend on the CPU, as
 * ranks of a job exchange it). Channels that are padding get zeros.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/loops/summands.h"

/* Work is counted in blocks of pixels; float32 processes up to XT_F32_BLOCKS at a time, or one
 * row. */
enum { XT_TILE_CHANNELS = 16, XT_TILE_PIXELS = 32, XT_F32_BLOCKS = 3 };

/* Packed float32: a chunk's pixels, floats of a channel in its panel, more than pixels so that
 * panels do not map to the same cache sets, tiles of the input packed at a time. */
enum { XT_PACKED_PIXELS = 128, XT_PACKED_CHANNEL = XT_PACKED_PIXELS + 1, XT_PACKED_TILES = 32 };

struct xt_weight_grad {
    /* The convolution: no groups, no dilation; tensors are dense N, H, W, C. */
    int n, h, w, in_c;
    int out_h, out_w, out_c;
    int kernel_h, kernel_w;
    int stride_h, stride_w;
    int pad_h, pad_w;

    bool f32;    /* the tensors; else bf16 */
    bool tiles;  /* by matrix tiles */
    bool packed; /* float32 for many channels */
    int edge;    /* channels of a tile: XT_TILE_CHANNELS, or 8 in float32 by AVX2 */

    /* One worker per call (slices.h): n samples are a slice, a worker is a group with consecutive
     * slices, and a call processes all units. */
    bool sliced;
    bool adds; /* to the sums of the worker's previous slice */
    bool more; /* the worker has further slices */

    /* Set by xt_weight_grad_plan. */
    bool turned; /* the output's gradient is the left matrix; else the input is */
    bool flat;   /* xt_weight_grad_is_flat: one row of all pixels */
    int left_tiles, right_tiles;
    int taps, planes; /* a plane: the input's pixels of one phase of the stride */
    int fold;         /* taps side by side in a pixel of the input; 1: none */
    int pairings;     /* of a plane in the right matrix: from even pixels on, from odd ones too */
    int pitch;
    int unit_rows, unit_blocks; /* a unit: rows of one image, in blocks of XT_TILE_PIXELS */
    int unit_pixels;            /* of the right matrix, with the taps' overhang */
    int pass_blocks;            /* of a unit, multiplied at a time */
    int image_units;            /* units of an image */
    int units;                  /* in all */
    int chunk_units;            /* processed at a time */
    int left_stride;            /* elements from one channel of the left matrix to the next */
    int groups, shares;         /* parts are groups times shares */
    bool shares_left;           /* whether the left matrix's tiles are divided */
    size_t weights;             /* floats of the gradient */
    size_t sums;                /* floats of a group's sums */
    size_t row;                 /* elements of a row of the input with its padding, if folded */
    size_t part_bytes;          /* scratch of a part */
    /* In it; the left matrix is at 0. */
    size_t right_at, pointers_at, columns_at, rows_at, zeros_at, bias_at, square_at;
    size_t left_size, right_size; /* elements of a summand of the matrices */

    /* A run's memory. */
    const void *in;       /* [n][h][w][in_c] */
    const void *out_grad; /* [n][out_h][out_w][out_c] */
    float *grad;          /* [weights], aligned to 64 */
    bool near[2];         /* of the gradient and of the input: in L2 already */
    float *bias_grad;     /* [out_c]; NULL: not needed */
    void *scratch;        /* xt_weight_grad_scratch bytes, aligned to 64 */
};

/* Weights of a tile of the gradient. */
static inline size_t xt_weight_grad_tile(const struct xt_weight_grad *job)
{
    return (size_t)job->edge * (size_t)job->edge;
}

/* One part's work. */
typedef void xt_weight_grad_loop(const struct xt_weight_grad *job, int part);

/* Whether it is 1x1 without stride or padding. */
bool xt_weight_grad_is_flat(const struct xt_weight_grad *job);

/* Whether the gradient's format is OIhw16o16i. */
bool xt_weight_grad_is_turned(const struct xt_weight_grad *job);

/* Divides the work among at most `threads` parts. */
void xt_weight_grad_plan(struct xt_weight_grad *job, int threads);
/* For `workers` workers that run slices of n samples. */
void xt_weight_grad_plan_workers(struct xt_weight_grad *job, int workers);
int xt_weight_grad_parts(const struct xt_weight_grad *job);
/* The units of a part: from *first up to the returned end. */
int xt_weight_grad_units(const struct xt_weight_grad *job, int part, int *first);
size_t xt_weight_grad_scratch(const struct xt_weight_grad *job);

/* Whether the only group's sums are the gradient itself: writing past the caches what is in them is
 * slow. A group's sums. */
bool xt_weight_grad_is_in_place(const struct xt_weight_grad *job);
float *xt_weight_grad_sums(const struct xt_weight_grad *job, int group);
/* A part's sums of the bias, [out_c]. */
float *xt_weight_grad_bias(const struct xt_weight_grad *job, int part);
/* Whether the parts write the gradient itself: matrix tiles of one group, in the gradient's order.
 * The sum of the squares of what a part has written. */
bool xt_weight_grad_writes(const struct xt_weight_grad *job);
double *xt_weight_grad_square(const struct xt_weight_grad *job, int part);
/* The number of tiles of the left (else right) matrix in a share, from *first on. */
int xt_weight_grad_share(const struct xt_weight_grad *job, int share, bool left, int *first);

/* The taps of the product along one row of the kernel, and the phases of their stride. */
static inline int xt_weight_grad_taps_w(const struct xt_weight_grad *job)
{
    return job->kernel_w / job->fold;
}
static inline int xt_weight_grad_planes_w(const struct xt_weight_grad *job)
{
    int taps = xt_weight_grad_taps_w(job);
    return taps < job->stride_w ? taps : job->stride_w;
}

/* The first pixel of a unit, of the output or of the input (packed: of the output alone); their
 * number for the unit after the last. */
size_t xt_weight_grad_pixel(const struct xt_weight_grad *job, bool out, int unit);

/* Where the gradient that is not turned has a tap's weight of input channel i and output channel
 * o. */
static inline size_t xt_weight_grad_place(const struct xt_weight_grad *job, int tap, int i, int o)
{
    size_t tile = (size_t)(o / job->edge) * (size_t)job->left_tiles + (size_t)(i / job->edge);
    tile = tile * (size_t)job->taps + (size_t)tap;
    return tile * (size_t)(job->edge * job->edge) +
           (size_t)(i % job->edge * job->edge + o % job->edge);
}

/* After all parts: sums weights [first, end), which are whole tiles, and, with the first of them,
 * the bias; returns its share of the sum of all weights' squares. */
typedef double xt_weight_grad_sum_loop(const struct xt_weight_grad *job, size_t first, size_t end);
