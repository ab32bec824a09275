/* 3x3 convolutions of float32 with stride 1 and padding 1 by Winograd's F(4x4, 3x3) or F(2x2, 3x3)
 * (Lavin & Gray 2015, arXiv:1509.09308): a tile of 4x4 outputs takes 36 products instead of 144,
 * one of 2x2 16 instead of 36.
 *
 * A tile's input, 6x6 or 4x4 pixels, is transformed to as many places; so are the weights of a pair
 * of channels; each place is a matrix product, [tiles][in_c] by [in_c][out_c]; the output transform
 * of all places gives the tile's outputs. The data gradient is the same with the weights rotated.
 * The weight gradient multiplies the transformed inputs and gradients, summed over tiles. A result
 * depends only on its own tile, a weight's gradient also on the number of groups.
 *
 * Tensors are dense N, H, W, C; channels are multiples of 32, pointers aligned to 64 bytes.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum {
    XT_WINOGRAD_SMALL = 2, /* outputs along a tile's side: in inference, where weights are stored */
    XT_WINOGRAD_LARGE = 4, /* in training */
    XT_WINOGRAD_WIDE = 32, /* output channels side by side */
    XT_WINOGRAD_PANELS = 64, /* output channels at a time */
    XT_WINOGRAD_SPARE = 16   /* floats behind each of their rows of channels */
};

/* Of one tile. */
static inline int xt_winograd_places(int tile)
{
    return (tile + 2) * (tile + 2);
}

/* Tiles at a time. */
static inline int xt_winograd_chunk(int tile)
{
    return tile == XT_WINOGRAD_LARGE ? 64 : 48;
}

struct xt_winograd {
    int tile;
    int n, h, w; /* of both tensors */
    int in_c, out_c;
    int groups, shares;   /* of tiles; of output channels: parts are groups times shares */
    const float *in;      /* [n][h][w][in_c] */
    const float *weights; /* small tiles: [out_c / 32][places][in_c][32]; large: OIhw16i16o */
    bool turned;          /* large tiles: the weights are those of the opposite direction */
    float *out;           /* [n][h][w][out_c] */
    const float *bias;    /* [out_c]; NULL: none */
    bool adds;            /* the residual that `out` holds */
    bool relu;
};

/* By large tiles. */
struct xt_winograd_grad {
    int n, h, w;
    int in_c, out_c;
    int groups, shares;
    const float *in;
    const float *out_grad;
    float *grads; /* [groups][out / 16][in / 16][3 x 3][16 in][16 out], to be added up */
};

/* Small tiles' weights, from OIhw16i16o: [out / 16][in / 16][3 x 3][16 in][16 out]. */
struct xt_winograd_weights {
    const float *from;
    int out, in;
    float *to; /* [out / 32][places][in][32] */
};

/* One part's work; the sums of one part. */
typedef void xt_winograd_loop(const struct xt_winograd *job, int part, float *scratch);
typedef void xt_winograd_grad_loop(const struct xt_winograd_grad *job, int part, float *scratch);
/* The weights of one block, 16 output by 16 input channels. */
typedef void xt_winograd_weights_loop(const struct xt_winograd_weights *weights, int block);

int xt_winograd_tiles(int tile, int n, int h, int w);
int xt_winograd_blocks(int in_c, int out_c);
/* Floats of scratch for either loop. */
size_t xt_winograd_scratch(int tile, int in_c);
/* Divide the work among at most `threads`. */
void xt_winograd_plan(struct xt_winograd *job, int threads);
void xt_winograd_grad_plan(struct xt_winograd_grad *job, int threads);
/* Part `part` of `parts` of `count`: from *first up to the returned end. */
int xt_winograd_part(int count, int part, int parts, int *first);
