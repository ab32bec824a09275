/* 3x3 convolutions of float32 with stride 1 and padding 1 by Winograd's F(2x2, 3x3) (Lavin & Gray
 * 2015, arXiv:1509.09308): a tile of 2x2 outputs takes 16 products instead of 36.
 *
 * A tile's input, 4x4 pixels, is transformed to 16 places; so are the weights of a pair of
 * channels; each place is a matrix product, [tiles][in_c] by [in_c][out_c]; the output transform of
 * 16 places gives the tile's outputs. The data gradient is the same with the weights rotated. The
 * weight gradient multiplies the transformed inputs and gradients, summed over tiles. A result
 * depends only on its own tile, a weight's gradient also on the number of groups.
 *
 * Tensors are dense N, H, W, C; channels are multiples of 32, pointers aligned to 64 bytes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum {
    XT_WINOGRAD_PLACES = 16,
    XT_WINOGRAD_WIDE = 32,  /* output channels side by side */
    XT_WINOGRAD_CHUNK = 48, /* tiles at a time */
    XT_WINOGRAD_SPARE = 16  /* floats behind each of their rows of channels */
};

struct xt_winograd {
    int n, h, w; /* of both tensors */
    int in_c, out_c;
    int groups, shares;   /* of tiles; of output channels: parts are groups times shares */
    const float *in;      /* [n][h][w][in_c] */
    const float *weights; /* [out_c / 32][places][in_c][32] */
    float *out;           /* [n][h][w][out_c] */
    const float *bias;    /* [out_c]; NULL: none */
    bool adds;            /* the residual that `out` holds */
    bool relu;
};

struct xt_winograd_grad {
    int n, h, w;
    int in_c, out_c;
    int groups, shares;
    const float *in;
    const float *out_grad;
    float *sums; /* [groups][out_c / 32][places][in_c][32] */
    float *grad; /* as OIhw16i16o */
};

/* Weights for it. From OIhw16i16o, [out / 16][in / 16][3 x 3][16 in][16 out]. */
struct xt_winograd_weights {
    const float *from;
    int out, in;
    float *forward;  /* [out / 32][places][in][32]; NULL: not needed */
    float *backward; /* [in / 32][places][out][32], rotated; NULL: not needed */
};

/* One part's work; the sums of one part. */
typedef void xt_winograd_loop(const struct xt_winograd *job, int part, float *scratch);
typedef void xt_winograd_grad_loop(const struct xt_winograd_grad *job, int part, float *scratch);
/* After all parts: the gradients of one block of weights, 16 output by 16 input channels, in the
 * order of OIhw16i16o. */
typedef void xt_winograd_output_transform_loop(const struct xt_winograd_grad *job, int block);
/* The weights of one block. */
typedef void xt_winograd_weights_loop(const struct xt_winograd_weights *weights, int block);

int xt_winograd_tiles(int n, int h, int w);
int xt_winograd_blocks(int in_c, int out_c);
/* Floats of scratch for either loop. */
size_t xt_winograd_scratch(int in_c);
size_t xt_winograd_grad_sums(const struct xt_winograd_grad *job); /* floats */
/* Divide the work among at most `threads`. */
void xt_winograd_plan(struct xt_winograd *job, int threads);
void xt_winograd_grad_plan(struct xt_winograd_grad *job, int threads);
/* Part `part` of `parts` of `count`: from *first up to the returned end. */
int xt_winograd_part(int count, int part, int parts, int *first);
