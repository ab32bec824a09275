/* The CPU's own vectorised loops around oneDNN's convolutions: batch normalisation with ReLU and
 * the pools that read it, each in one pass over a sample in cache.
 *
 * Every source in this folder is compiled once for each instruction set (base, AVX2, AVX-512,
 * AVX-512 with bf16, AMX); xt_loops_get picks the widest that the CPU has. All tensors are dense N,
 * H, W, C; a function works on one sample or a part of it; callers parallelise over samples. Sums
 * are accumulated from float32 rows in double, in an order that does not depend on threads.
 * Thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/rng.h"
#include "device/device.h"
#include "engine/net/activation.h"
#include "engine/loops/data_grad_job.h"
#include "engine/loops/depthwise_job.h"
#include "engine/loops/norm_product_job.h"
#include "engine/loops/patches_job.h"
#include "engine/loops/pointwise_infer_job.h"
#include "engine/loops/pointwise_job.h"
#include "engine/loops/recurrence_job.h"
#include "engine/loops/tile_conv_job.h"
#include "engine/loops/weight_grad_job.h"
#include "engine/loops/winograd_job.h"

/* A pool's window. Padding is never a maximum, and counts as zero in an average. */
struct xt_window {
    int kernel_h, kernel_w;
    int stride_h, stride_w;
    int pad_h, pad_w;
    int out_h, out_w;
};

/* The nonzero elements of each row of a matrix: those of row j are first[j] .. first[j + 1]. */
struct xt_sparse_rows {
    int count;
    int *first, *at; /* at: their columns */
    float *weight;
};

/* A convolution's weights and their bf16 copy for a kernel of matrix tiles. From blocks of 16 by
 * 16, [out / 16][in / 16][taps][16][16], to [wide axis / wide][summands][taps][other axis / 2]
 * [wide][2], or by tiles to [wide axis / wide][summands][other axis / 32][taps][16][wide][2]. The
 * wide axis is a multiple of `wide`; the last blocks of 16, and by tiles of 32, are zero-padded.
 * Each summand is the rounded rest of those before it.
 */
struct xt_weight_copy {
    const float *from;
    uint32_t *to; /* pairs of bf16 */
    int out, in, taps;
    bool out_is_row; /* of a block of 16 by 16; else its column */
    bool out_is_wide;
    bool by_tiles;
    int summands;
    int wide;
    int spare; /* rows of pairs behind each summand, of zeros */
};

/* Rows of pairs of one tap; pairs of a summand, and from one block of the wide axis to the next
 * one. */
static inline size_t xt_weight_copy_pairs(const struct xt_weight_copy *copy)
{
    enum { TILE = 16 };
    size_t pairs = ((size_t)(copy->out_is_wide ? copy->in : copy->out) + 1) / 2;
    return copy->by_tiles ? (pairs + TILE - 1) / TILE * TILE : pairs;
}
static inline size_t xt_weight_copy_summand(const struct xt_weight_copy *copy)
{
    size_t pairs = (size_t)copy->taps * xt_weight_copy_pairs(copy);
    return (pairs + (size_t)copy->spare) * (size_t)copy->wide;
}
static inline size_t xt_weight_copy_panel(const struct xt_weight_copy *copy)
{
    return (size_t)copy->summands * xt_weight_copy_summand(copy);
}

static inline size_t xt_weight_copy_panels(const struct xt_weight_copy *copy)
{
    return (size_t)(((copy->out_is_wide ? copy->out : copy->in) + copy->wide - 1) / copy->wide);
}
static inline size_t xt_weight_copy_bytes(const struct xt_weight_copy *copy)
{
    return xt_weight_copy_panels(copy) * xt_weight_copy_panel(copy) * sizeof *copy->to;
}

/* Blocks of 16 by 16 of the weights. */
static inline size_t xt_weight_copy_blocks(const struct xt_weight_copy *copy)
{
    enum { BLOCK = 16 };
    size_t rows = ((size_t)copy->out + BLOCK - 1) / BLOCK;
    return rows * (((size_t)copy->in + BLOCK - 1) / BLOCK) * (size_t)copy->taps;
}

/* What a backward pass does with the gradient before ReLU: sums and stores it, only sums it,
 * computes the input's gradient from it, or only stores it: of pools alone, without the input. */
enum xt_norm_pass { XT_NORM_SUM_AND_KEEP, XT_NORM_SUM, XT_NORM_APPLY, XT_NORM_KEEP };

/* One sample of BN + ReLU + pools. NULL pointers are skipped. */
struct xt_norm_sample {
    enum xt_dtype dtype; /* of z, residual, y, pooled and their gradients */
    int h, w, c;
    bool relu;
    /* Instead of ReLU; without residual and max pool, an average is over the image: clip, hard
     * swish or SiLU. NULL: none. */
    const struct xt_activation *activation;
    const float *scale; /* [c] gamma / sqrt(var + eps) */
    const float *shift; /* [c] beta - mean * scale */
    const void *z;      /* [h][w][c] the convolution's output */
    const void *residual;
    const float *residual_scale; /* [c] forward, of y alone in bf16 by AVX-512, c a multiple of 32;
                                    NULL: 1 */
    void *y;                     /* [h][w][c] */
    struct xt_window max;        /* of y; used if pooled is given; needs relu */
    void *pooled;                /* [max.out_h][max.out_w][c] */
    uint8_t *argmax; /* same shape: bits kx and 3 + ky of the window's first maximum, in the loops'
                        own order; NULL in inference */
    struct xt_window average; /* of y; windows do not overlap in h; used if averaged is given */
    float *averaged;          /* [average.out_h][average.out_w][c] float32 */
    /* [h][w][c / 32] forward, with pools in bf16: a bit for each of y that is above 0, from which
     * XT_NORM_KEEP knows them. Of norm_wide.c alone; NULL: not needed. */
    uint32_t *above;

    /* backward */
    enum xt_norm_pass pass; /* all but the first: no residual */
    const void *dy[2];      /* gradients of y, from up to two readers */
    const void *dpooled[2]; /* gradients of pooled */
    const float *daveraged; /* gradient of averaged */
    void *da; /* [h][w][c] out: the gradient before ReLU, may be dy[0] or dz; with XT_NORM_APPLY dz,
                 which may be dy[0] */
    int da_pixel; /* XT_NORM_KEEP: numbers from a pixel of da to the next, a multiple of 32 */
    const float *a, *b, *d; /* [c] XT_NORM_APPLY: dz = a * da + b * z + d */
    const float *pivot;     /* [c] the sums below are of da and da * (z - pivot) */
    double *sum_da;         /* [c] */
    double *sum_da_z;       /* [c] */
    float *scratch;         /* xt_norm_scratch floats, this thread's */
    bool far;               /* y leaves the caches before it is read: use non-temporal stores */
    void *held; /* y, or pooled if that is given, goes there too, into the caches, and is written as
                   if far; NULL: it does not. Of norm_wide.c alone */
};

/* Floats of scratch that a sample needs. */
size_t xt_norm_scratch(const struct xt_norm_sample *sample);

/* Points of one sample's grid over an image [h][w][c]; see xt_grid_axis. */
struct xt_grid_points {
    const float *grid; /* [count][2]: x, y */
    size_t count;
    int w, h, c;
    float scale[2], offset[2]; /* from coordinates to pixels */
    bool border;               /* its nearest pixel lies outside, else zeros */
};

struct xt_loops {
    const char *isa;
    int lanes;            /* float32 numbers of a vector; 0 in builds without AVX2 */
    bool multiplies_bf16; /* by an instruction */
    /* sums[c] and squares[c] of (z - pivot) over `pixels` pixels of c channels. scratch: 2 * c
     * floats. */
    void (*statistics)(enum xt_dtype dtype, const void *z, size_t pixels, int c, const float *pivot,
                       double *sums, double *squares, float *scratch);
    void (*norm_forward)(const struct xt_norm_sample *sample);
    /* Writes da and its sums, or what `pass` selects. */
    void (*norm_backward)(const struct xt_norm_sample *sample);
    /* dz = a * da + b * z + d, channel by channel, of factors [3][c]: a, b, d. dz may be da. */
    void (*norm_backward_apply)(enum xt_dtype dtype, const void *da, const void *z, size_t pixels,
                                int c, const float *factors, void *dz, bool far);
    /* dy[i] becomes dy[i] + more[i] where y[i] is above 0, else 0; more may be NULL. */
    void (*relu_backward)(enum xt_dtype dtype, const void *y, void *dy, const void *more,
                          size_t count);
    /* GELU by the error function, and its gradient dx, which may be dy. */
    void (*gelu)(enum xt_dtype dtype, const void *in, size_t count, void *out);
    void (*gelu_backward)(enum xt_dtype dtype, const void *in, const void *dy, size_t count,
                          void *dx);
    /* A gate's gradients, of one sample: the sums over the pixels of dy * x; dy becomes dy * gate.
     */
    void (*gate_backward)(enum xt_dtype dtype, const void *x, const void *gate, void *dy,
                          size_t pixels, int c, float *sums);
    /* Dropout: out[i] = in[i] * factor if the hash of first + i retains it, else 0. */
    void (*dropout)(enum xt_dtype dtype, const void *in, void *out, size_t count, uint32_t key,
                    uint32_t first, uint32_t threshold, float factor);
    /* The same mask: 1 for a retained element, else 0. */
    void (*keep)(uint8_t *out, size_t count, uint32_t key, uint32_t first, uint32_t threshold);
    /* Rows [rows[0], rows[1]) of a 3x3 max pool over one sample [h][w][c] of non-negative numbers;
     * padding is at most 1. scratch: w * c floats. `out` is the address of row 0. */
    void (*max_pool)(enum xt_dtype dtype, const void *in, int h, int w, int c,
                     const struct xt_window *window, const int rows[2], float *scratch, void *out);
    /* Row `oy` of an average pool, times `factor`, in float32. scratch: w * c floats. */
    void (*average_pool_row)(enum xt_dtype dtype, const void *in, int w, int c,
                             const struct xt_window *window, int oy, float factor, float *scratch,
                             float *out);
    /* out[x * stride + k] = the sum over h of in[h][w][c]; returns the sum of all squares. */
    double (*sum_rows)(const float *in, int h, int w, int c, float *out, size_t stride);
    /* numbers[x * stride + k] *= factor, [w][c] of them. */
    void (*scale_rows)(float *numbers, int w, int c, size_t stride, float factor);
    /* Float32 to the tensor's type. */
    void (*convert)(enum xt_dtype dtype, const float *in, size_t count, void *out);
    /* Blocks [first, end) of 16 by 16. */
    void (*copy_weights)(const struct xt_weight_copy *copy, size_t first, size_t end);
    /* out = (in - mean) * scale from bytes of three interleaved channels; rounded for s8, whose
     * range it must not exceed. */
    void (*normalise)(enum xt_dtype dtype, const uint8_t *in, size_t count, const float mean[3],
                      const float scale[3], void *out);
    /* Rows [part[0], part[1]) of a sparse matrix times the rows of `inner` numbers at `from`, plus
     * fill[row] (NULL: nothing). */
    void (*sparse_product)(enum xt_dtype dtype, const struct xt_sparse_rows *rows,
                           const int part[2], const float *fill, const void *from, size_t inner,
                           void *to);
    /* One sample's pixels at a grid's points, and the gradients. */
    void (*grid_sample)(const struct xt_grid_points *points, enum xt_dtype dtype, const void *image,
                        void *out);
    void (*grid_sample_backward)(const struct xt_grid_points *points, enum xt_dtype dtype,
                                 const void *image, const void *dout, float *dimage, float *dgrid);
    /* Steps of recurrent layers, and the packing of their weight (recurrence_job.h). */
    xt_recurrence_loop *recurrence;
    xt_recurrence_loop *recurrence_backward;
    xt_recurrence_pack_loop *recurrence_pack;
    /* out = in - 128. */
    void (*centre)(const uint8_t *in, size_t count, int8_t *out);
    /* Zero-insertion: `pixels` of `bytes` each go to every stride-th row and column of a tensor of
     * size[0] by size[1], from row 0 and column 0 on; the others become 0. */
    void (*zero_insert)(const void *pixels, size_t bytes, const int size[2], const int strides[2],
                        void *to);
    /* Normal numbers `first` to first + count of the generator's sequence, times `scale`. */
    void (*normal)(struct xt_rng rng, size_t first, size_t count, float scale, float *out);
    /* The largest magnitude of `count` numbers; NaN if any is not finite. */
    float (*largest)(const float *in, size_t count);
    /* One sample of a depthwise convolution, of its input's gradient from the output's, and of the
     * weights' (depthwise_job.h). */
    xt_depthwise_loop *depthwise;
    xt_depthwise_loop *depthwise_data_grad;
    xt_depthwise_sums_loop *depthwise_weight_grad;
    /* One part of a convolution's weight gradient; NULL in builds without AMX. Requires
     * xt_device_cpu_has_tiles. */
    xt_weight_grad_loop *weight_grad;
    /* The same in float32; NULL in builds without AVX2. */
    xt_weight_grad_loop *weight_grad_f32;
    /* The same for many channels, where the job is packed. */
    xt_weight_grad_loop *weight_grad_packed;
    /* In bf16 without tiles, if the job is flat; NULL in builds without AVX-512's bf16. */
    xt_weight_grad_loop *weight_grad_bf16;
    /* What the parts of any of these add up to. */
    xt_weight_grad_sum_loop *weight_grad_sum;
    /* Of a norm behind a convolution, backward and forward. */
    xt_norm_product_loop *norm_product;
    xt_norm_statistics_loop *norm_statistics;
    /* NULL in builds without AMX. */
    xt_patches_loop *patches;
    /* The input's gradient of some convolutions in bf16 (data_grad_job.h); NULL in builds without
     * AMX. Requires xt_device_cpu_has_tiles. */
    xt_data_grad_loop *data_grad;
    /* Other convolutions in bf16 (tile_conv_job.h); the same. */
    xt_tile_conv_loop *tile_conv;
    /* 1x1 convolutions of float32 (pointwise_job.h, pointwise_infer_job.h); NULL in builds without
     * AVX2. */
    xt_pointwise_loop *pointwise;
    xt_pointwise_turn_loop *pointwise_turn;
    xt_pointwise_infer_loop *pointwise_f32;
    /* Of inference (pointwise_infer_job.h), int8 for CPUs with VNNI; NULL in builds without
     * AVX-512 or its bf16, and in that for AMX, which oneDNN's primitives use. */
    xt_pointwise_infer_loop *pointwise_int8;
    xt_pointwise_infer_loop *pointwise_bf16;
    /* Winograd's convolutions of float32 (winograd_job.h); NULL in builds without AVX2. */
    xt_winograd_loop *winograd;
    xt_winograd_grad_loop *winograd_grad;
    xt_winograd_weights_loop *winograd_weights;
    /* Of int8, for CPUs without VNNI; NULL in builds other than that for AVX2. */
    xt_winograd_loop *winograd_int8;
};

const struct xt_loops *xt_loops_get(void);
