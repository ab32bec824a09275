/* A convolution by tiles and the batch norm behind it as one, by slices of bf16, without the tensor
 * between them. With z = W x all that both need of it follows from sums over pixels, of x and x x'
 * forward and of da x' backward, and from matrices (loops/norm_product_job.h). z itself exists for
 * one sample of each worker, or some of its rows, where the norm writes its output; its gradient
 * does not at all.
 *
 * It pays where x has few channels: of a 1x1 convolution, or of the network's first one, whose
 * kernel covers few numbers. Its patches (loops/patches_job.h) are x then.
 */
#pragma once

#include "engine/cpu/cpu.h"
#include "engine/slices.h"

enum { XT_CONV_NORM_LANES = 16, XT_CONV_NORM_OUT_MAX = 1024 /* channels of z */ };
/* The matrices by which tiles are multiplied. */
enum { XT_CONV_NORM_OUTPUT, XT_CONV_NORM_INPUT_GRAD, XT_CONV_NORM_THROUGH, XT_CONV_NORM_MATRICES };

struct xt_cpu_conv_norm {
    const struct xt_conv_op *conv; /* NULL: each runs by itself */
    const struct xt_op *norm;
    /* Another one of the same input, planned before, which has the sums of x; NULL: none. */
    const struct xt_cpu_conv_norm *beside;
    /* The one of both that runs first backward, whose share of x in the input's gradient the other
     * adds; NULL: none. */
    const struct xt_cpu_conv_norm *before;
    bool is_followed;          /* it is that of another */
    struct xt_patches patches; /* of width 0: none */
    int in_c, out_c;
    int rows;        /* of z at a time; 0: it is stored, and only the backward pass is joined */
    size_t room;     /* floats of a sample's gradient that the norm makes; 0: it is in memory */
    bool with_input; /* x lies beside it there, and both are multiplied at once */
    struct xt_weight_grad products, squares;
    struct xt_tile_conv output, input_grad, through;
    struct xt_weight_copy copies[XT_CONV_NORM_MATRICES]; /* `out` 0: it has none of its own */
    struct xt_buffer *matrices[XT_CONV_NORM_MATRICES];
    /* What is kept from the forward pass on; each worker's sums of x and x x'; of the backward
     * pass. */
    struct xt_buffer *kept, *sums, *numbers;
    struct xt_buffer *scratch[2]; /* of the products and the squares */
};

/* ---- planning, before the convolution is described ---- */

/* The norm to join; NULL: none, or it does not pay. by_tiles: of a 1x1 convolution; NULL: by
 * patches. */
const struct xt_op *xt_cpu_conv_norm_find(const struct xt_conv_op *conv, struct xt_graph *graph,
                                          const struct xt_cpu_tile_conv *by_tiles);
void xt_cpu_conv_norm_describe(struct xt_cpu_conv_norm *own, struct xt_conv_op *conv,
                               const struct xt_op *norm, const struct xt_graph *graph,
                               const struct xt_cpu_tile_conv *by_tiles);
/* is_before: own runs before the other backward, which then adds both shares of x. */
void xt_cpu_conv_norm_join(struct xt_cpu_conv_norm *own, struct xt_cpu_conv_norm *beside,
                           bool is_before);
void xt_cpu_conv_norm_plan(struct xt_cpu_conv_norm *own, struct xt_graph *graph);
/* The convolution's, of this norm; NULL: it has none. */
const struct xt_cpu_conv_norm *xt_cpu_conv_joined(const struct xt_op *conv,
                                                  const struct xt_op *norm);

/* ---- forward, in this order ---- */

/* Before the convolution's first slice; its slices, each in its thread; behind the last. */
void xt_cpu_conv_norm_begin_forward(const struct xt_cpu_conv_norm *own,
                                    const struct xt_graph *graph);
void xt_cpu_conv_norm_add_input(const struct xt_cpu_conv_norm *own, const struct xt_graph *graph,
                                const struct xt_slice *slice);
void xt_cpu_conv_norm_end_forward(const struct xt_cpu_conv_norm *own, const struct xt_graph *graph);
/* [2][out_c]: the sums of z, less the mean, and of its squares. */
void xt_cpu_conv_norm_statistics(const struct xt_cpu_conv_norm *own, const struct xt_graph *graph,
                                 const float *mean, double *totals);
/* Some of z's `rows`, from `row` on, of a sample; returns where they are. */
const void *xt_cpu_conv_norm_output(const struct xt_cpu_conv_norm *own,
                                    const struct xt_graph *graph, int n, int row, int rows);

/* The norm's output of a sample, where it has neither pools nor a residual, in one: of the norm's
 * scale, shift, ReLU, y and held. */
void xt_cpu_conv_norm_write(const struct xt_cpu_conv_norm *own, const struct xt_graph *graph, int n,
                            const struct xt_norm_sample *sample);
/* Whether it can do so again before the backward pass. */
bool xt_cpu_conv_norm_can_recompute(const struct xt_cpu_conv_norm *own);

/* ---- backward, in this order ---- */

/* Each sample, a worker's in their order, in its thread. */
void xt_cpu_conv_norm_add_gradient(const struct xt_cpu_conv_norm *own, const struct xt_graph *graph,
                                   int n);
/* [2][out_c]: the sums of da and of da (z - mean). */
void xt_cpu_conv_norm_total(const struct xt_cpu_conv_norm *own, const struct xt_graph *graph,
                            const float *mean, double *totals);
/* By the norm's factors ([3][out_c]: dz = a da + b z + d) the weights' and the bias's gradient
 * (NULL: it has none); returns the sum of the former's squares. */
double xt_cpu_conv_norm_finish(const struct xt_cpu_conv_norm *own, const struct xt_graph *graph,
                               const float *factors, float *weight_grad, float *bias_grad);
/* The input's gradient. */
void xt_cpu_conv_norm_slice(const struct xt_cpu_conv_norm *own, const struct xt_graph *graph,
                            const struct xt_slice *slice);

/* ---- of the norm ---- */

/* Whether its gradient is made or masked before it is needed; before it is prepared. */
bool xt_cpu_norm_can_join(const struct xt_op *op, struct xt_graph *graph);
/* Whether it only scales and shifts, of one reader, which may do that itself: it needs the whole
 * input then. */
bool xt_cpu_norm_is_plain(const struct xt_op *op);
/* A sample's gradient behind it and before its ReLU: in memory, or made of pools' in `room`, by the
 * first xt_cpu_norm_scratch floats of the thread's scratch; there `pixel` numbers lie from a pixel
 * to the next. */
size_t xt_cpu_norm_scratch(const struct xt_op *op);
const void *xt_cpu_norm_gradient_behind(const struct xt_op *op, const struct xt_graph *graph, int n,
                                        void *room, int pixel);
const float *xt_cpu_norm_factors(const struct xt_op *op);

/* ---- shared by both directions ---- */

/* Floats of `numbers`. */
size_t xt_cpu_conv_norm_numbers(const struct xt_cpu_conv_norm *own);

static inline bool xt_cpu_conv_norm_has_patches(const struct xt_cpu_conv_norm *own)
{
    return own->patches.width > 0;
}

/* Matrices [out_c / 16][in_c][16]: the weights, rounded as the convolution has them; S, the sum of
 * x x', [in_c / 16][in_c][16]; the sum of x. */
struct xt_conv_norm_kept {
    float *weights, *squares, *sum_of_x;
};
struct xt_conv_norm_kept xt_cpu_conv_norm_kept(const struct xt_cpu_conv_norm *own);
/* Where one of in_c columns has row o, of column 0. */
static inline size_t xt_cpu_conv_norm_row(const struct xt_cpu_conv_norm *own, size_t o)
{
    return o / XT_CONV_NORM_LANES * XT_CONV_NORM_LANES * (size_t)own->in_c + o % XT_CONV_NORM_LANES;
}
/* Where the convolution's parameter has the weight of channel o and place k of a patch; places that
 * a patch has, and floats of the parameter. */
size_t xt_cpu_conv_norm_place(const struct xt_cpu_conv_norm *own, size_t o, size_t k);
size_t xt_cpu_conv_norm_places(const struct xt_cpu_conv_norm *own);
size_t xt_cpu_conv_norm_weights(const struct xt_cpu_conv_norm *own);
/* NULL: the convolution has none. */
const float *xt_cpu_conv_norm_bias(const struct xt_cpu_conv_norm *own,
                                   const struct xt_graph *graph);
/* Floats of the thread's scratch that the loops use; behind them are a sample's gradient, if the
 * norm makes it, then a sample's patches or the product of a slice's x. */
size_t xt_cpu_conv_norm_scratch(const struct xt_cpu_conv_norm *own);
/* The latter. */
float *xt_cpu_conv_norm_room(const struct xt_cpu_conv_norm *own, const struct xt_graph *graph);
/* A sample of x; patches are made there. */
const void *xt_cpu_conv_norm_input(const struct xt_cpu_conv_norm *own, const struct xt_graph *graph,
                                   int n);
/* A matrix for the loops of tiles. */
void xt_cpu_conv_norm_copy(const struct xt_cpu_conv_norm *own, const struct xt_graph *graph,
                           int which, const float *from);
