/* Convolutions with stride 1 by Winograd's minimal filters F(outputs, taps) (Lavin &
 * Gray 2015, arXiv:1509.09308), along both sides or along one: with F(4x4, 3x3) a tile of 4x4
 * outputs takes 36 products instead of 144, with F(4, 3) of a 3x1 four outputs take 6 instead
 * of 12.
 *
 * A tile's input is transformed to as many places as it has pixels; so are the weights of a pair of
 * channels; each place is a matrix product, [tiles][in_c] by [in_c][out_c]; the output transform of
 * all places gives the tile's outputs. The data gradient is the same with the weights rotated.
 * The weight gradient multiplies the transformed inputs and gradients, summed over tiles. A result
 * depends only on its own tile, a weight's gradient also on the number of groups.
 *
 * Tensors are dense N, H, W, C of float32, with F(4x4, 3x3) and F(2x2, 3x3) also of bf16; the
 * arithmetic and the weights are float32. Only F(2x2, 3x3) of bf16, by stored weights alone, rounds
 * transformed inputs and weights to bf16 and multiplies pairs of them: fast where an instruction
 * does. Channels are multiples of 32, paired inputs' of 64, pointers aligned to 64 bytes.
 *
 * 3x3 convolutions of int8, in inference, go by loops of their own (winograd_int8.c), from u8 with
 * a multiple of 64 channels to u8 or s8. Their sums are exact: those of F(2x2, 3x3) with at most
 * XT_WINOGRAD_INT8_IN input channels, those of F(4x4, 3x3) if xt_winograd_int8_is_exact.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/number.h"

enum {
    XT_WINOGRAD_WIDE = 32,   /* channels side by side */
    XT_WINOGRAD_PANELS = 64, /* output channels at a time */
    XT_WINOGRAD_TILES = 12,  /* whose numbers of a place lie side by side */
    XT_WINOGRAD_SPARE = 16,  /* floats behind those */
    /* Tiles at a time that fit in L2, where reading the weights for each chunk takes little. */
    XT_WINOGRAD_FEW = 3 * XT_WINOGRAD_TILES,
    XT_WINOGRAD_INT8_IN = 1024,
    XT_WINOGRAD_INT8_OUT = 16 /* output channels whose weights lie side by side */
};

enum xt_winograd_form {
    XT_WINOGRAD_SMALL, /* F(2x2, 3x3) */
    XT_WINOGRAD_LARGE, /* F(4x4, 3x3) */
    XT_WINOGRAD_3X1,   /* F(4, 3) */
    XT_WINOGRAD_1X3,
    XT_WINOGRAD_1X4, /* F(3, 4) */
    XT_WINOGRAD_FORMS
};

/* Outputs of a tile, and taps. */
struct xt_winograd_sides {
    int tile_h, tile_w;
    int taps_h, taps_w;
};
static const struct xt_winograd_sides xt_winograd_forms[XT_WINOGRAD_FORMS] = {
    {2, 2, 3, 3}, {4, 4, 3, 3}, {4, 1, 3, 1}, {1, 4, 1, 3}, {1, 3, 1, 4}};

/* A tile's input. */
static inline int xt_winograd_high(enum xt_winograd_form form)
{
    return xt_winograd_forms[form].tile_h + xt_winograd_forms[form].taps_h - 1;
}

static inline int xt_winograd_wide(enum xt_winograd_form form)
{
    return xt_winograd_forms[form].tile_w + xt_winograd_forms[form].taps_w - 1;
}

static inline int xt_winograd_places(enum xt_winograd_form form)
{
    return xt_winograd_high(form) * xt_winograd_wide(form);
}

static inline int xt_winograd_taps(enum xt_winograd_form form)
{
    return xt_winograd_forms[form].taps_h * xt_winograd_forms[form].taps_w;
}

static inline bool xt_winograd_is_paired(enum xt_winograd_form form, enum xt_dtype dtype)
{
    return form == XT_WINOGRAD_SMALL && dtype == XT_BF16;
}

/* The outputs of images with h by w pixels. */
static inline int xt_winograd_out_h(enum xt_winograd_form form, int h, const int pads[2])
{
    return h + 2 * pads[0] - xt_winograd_forms[form].taps_h + 1;
}

static inline int xt_winograd_out_w(enum xt_winograd_form form, int w, const int pads[2])
{
    return w + 2 * pads[1] - xt_winograd_forms[form].taps_w + 1;
}

/* Tiles at a time: enough that a transform of their weights pays; of many channels fewer, so that
 * the scratch does not grow. */
static inline int xt_winograd_chunk(enum xt_winograd_form form, int in_c)
{
    enum { LEAST = 5, MOST = 11, NUMBERS = 3072 };
    int blocks = NUMBERS / in_c;
    if (form != XT_WINOGRAD_LARGE || blocks < LEAST)
        blocks = LEAST;
    return (blocks < MOST ? blocks : MOST) * XT_WINOGRAD_TILES;
}

struct xt_winograd {
    enum xt_winograd_form form;
    enum xt_dtype dtype; /* of `in` and `out` */
    int n, h, w;         /* of the input */
    int in_c, out_c;
    int pads[2];        /* above and to the left, and as many on the other sides */
    int groups, shares; /* of tiles; of output channels: parts are groups times shares */
    const void *in;     /* [n][h][w][in_c] */
    bool stored;        /* the weights are transformed; else only F(4x4, 3x3) */
    bool turned;        /* else: they are those of the opposite direction */
    /* Stored: of the same build's loops; else OIhw16i16o. */
    const void *weights;
    void *out;         /* [n][h][w][out_c] */
    const float *bias; /* [out_c]; NULL: none */
    bool adds;         /* the residual that `out` holds */
    bool relu;
    /* int8: an input of u8; weights [out / 16][in / 2][taps][16][2]; the bias is in the output's
     * steps; the output is rectified, or signed without a residual. */
    const float *scale; /* [out_c], from sums to steps of the output */
    bool out_signed, residual_signed;
    float residual_scale; /* in the output's steps */
};

/* All forms but F(2x2, 3x3). */
struct xt_winograd_grad {
    enum xt_winograd_form form;
    enum xt_dtype dtype; /* of `in` and `out_grad` */
    int n, h, w;         /* of the input */
    int in_c, out_c;
    int pads[2];
    int groups, shares;
    bool adds; /* to the sums of a previous slice */
    const void *in;
    const void *out_grad;
    float *grads;      /* [groups][out / 16][in / 16][taps][16 in][16 out], to be added up */
    float *bias_grads; /* [groups][out_c], to be added up; NULL: not needed */
};

/* Stored weights, from OIhw16i16o: [out / 16][in / 16][taps][16 in][16 out]. */
struct xt_winograd_weights {
    enum xt_winograd_form form;
    bool turned; /* for the data gradient: rotated, inputs and outputs exchanged */
    const float *from;
    int out, in;
    /* [out / 32][places][32 / P][in][P], P being the numbers of two vectors, turned [in / 32]
     * [places][32 / P][out][P]; paired, which are not turned, [out / 32][places][32 / P][in / 2]
     * [P][2] of bf16. */
    bool paired;
    void *to;
};

/* One part's work; the sums of one part. */
typedef void xt_winograd_loop(const struct xt_winograd *job, int part, float *scratch);
typedef void xt_winograd_grad_loop(const struct xt_winograd_grad *job, int part, float *scratch);
/* The weights of one block, 16 output by 16 input channels. */
typedef void xt_winograd_weights_loop(const struct xt_winograd_weights *weights, int block);

/* Of n images with h by w outputs. */
int xt_winograd_tiles(enum xt_winograd_form form, int n, int h, int w);
int xt_winograd_blocks(int in_c, int out_c);
/* Floats of scratch. */
size_t xt_winograd_scratch(enum xt_winograd_form form, int in_c);
size_t xt_winograd_grad_scratch(enum xt_winograd_form form, int in_c);
size_t xt_winograd_int8_scratch(int in_c);
/* Whether F(4x4, 3x3) is exact for an output channel's `count` weights, which are whole numbers. */
bool xt_winograd_int8_is_exact(const float *weights, size_t count);
/* Divide the work among at most `threads`. */
void xt_winograd_plan(struct xt_winograd *job, int threads);
/* Twice as many groups, if each still has a few whole blocks of tiles and so takes little longer.
 */
void xt_winograd_halve_groups(struct xt_winograd *job);
void xt_winograd_grad_plan(struct xt_winograd_grad *job, int threads);
/* Part `part` of `parts` of `count`: from *first up to the returned end. */
int xt_winograd_part(int count, int part, int parts, int *first);
