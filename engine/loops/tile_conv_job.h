/* A convolution by matrix tiles of bf16 (AMX), forward or for the input's gradient: on a grid of
 * positions, the sums over taps of a source pixel's channels times the tap's weights. The input's
 * gradient is one job for each phase of the strides; a phase that no tap reaches gets zeros.
 *
 * Source pixels are copied to scratch with their padding, by blocks of channels, so that positions
 * are counted through and a tap is an offset; of bf16 a 1x1 kernel without strides reads them where
 * they are. A result depends on its own pixels alone, whatever the division of the work.
 *
 * In float32 both matrices are sums of three of bf16 (summands.h); of the nine products of two
 * numbers' summands the six largest are formed. A tile's are added before the sum is, so that
 * results are more exact than by float32's own products, one after the other.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine/loops/norm_sums.h"
#include "engine/loops/summands.h"

enum {
    XT_TILE_CONV_CHANNELS = 32, /* of the source in a tile */
    XT_TILE_CONV_WIDE = 16,     /* of the output in a tile: the weights' copy's `wide` */
    XT_TILE_CONV_TAPS_MAX = 49,
    XT_TILE_CONV_PHASES_MAX = 4, /* of the steps */
    XT_TILE_CONV_UNITS_MAX = 32  /* in scratch at a time */
};

/* Reads the source's pixel (row * step_h + y, column * step_w + x) for a position. */
struct xt_tile_conv_tap {
    int y, x;
    int weights; /* its place in the weights' copy */
};

/* The source's pixels of one phase of the steps, that some tap reads. */
struct xt_tile_conv_phase {
    int y, x;
};

/* Tensors are dense N, H, W, C, aligned to 64. */
struct xt_tile_conv {
    bool f32; /* the tensors' type; else bf16 */
    int n;
    int in_h, in_w, in_c;                     /* the source */
    int out_h, out_w, out_c;                  /* the destination */
    int rows, columns;                        /* the grid of results */
    int step_h, step_w;                       /* source pixels between neighbours of the grid */
    int out_y, out_x, out_step_h, out_step_w; /* the grid's places in the destination */
    int tap_count;
    struct xt_tile_conv_tap taps[XT_TILE_CONV_TAPS_MAX];
    int weight_taps; /* of the weights' copy */
    bool adds;       /* to what `added` holds, before ReLU */
    bool relu;
    bool far; /* the output has left the caches when it is read */

    /* Set by xt_tile_conv_plan. */
    int out_pixel; /* elements from a pixel of the destination to the next one: with fewer out_c
                      than that a job is a share of the channels */
    bool flat;     /* no copy: positions are all pixels in a row */
    int phase_count;
    struct xt_tile_conv_phase phases[XT_TILE_CONV_PHASES_MAX];
    int first_y, first_x; /* of the copy, in steps from a position */
    int more_rows;        /* of the copy than a unit's */
    int pitch, shared;    /* positions of a row; padding that its end shares with the next one */
    int unit_rows;        /* a unit: so many rows of one image; flat: a pixel */
    int image_units, units;
    int chunk_units;                    /* processed at a time */
    int offsets[XT_TILE_CONV_TAPS_MAX]; /* of a tap, in positions of a unit's copy */
    int block_positions;                /* of a block of channels of a unit's copy */

    /* A run's memory. */
    const void *in;
    const uint32_t *weights; /* struct xt_weight_copy's by tiles, the output's channels being its
                                wide axis; zeros for the rest of the last tiles; aligned to 64 */
    const float *scale;      /* [out_c] by which the sums are multiplied, not with a norm's sums;
                                NULL: 1 */
    const float *bias;       /* [out_c]; NULL: none */
    void *out;
    const void *added; /* of the output's shape; NULL: the output's memory */
    void *held;        /* if far: the output goes there too, into the caches; NULL: it does not */
    struct xt_norm_sums norm; /* of the output, of its type, whose channels are a multiple of
                                 XT_TILE_CONV_CHANNELS; none with several jobs for a tensor */
};

static inline size_t xt_tile_conv_element(const struct xt_tile_conv *job)
{
    return job->f32 ? sizeof(float) : sizeof(uint16_t);
}
/* Blocks of the source's channels. */
static inline int xt_tile_conv_blocks(const struct xt_tile_conv *job)
{
    return (job->in_c + XT_TILE_CONV_CHANNELS - 1) / XT_TILE_CONV_CHANNELS;
}
/* Whether pixels are multiplied where they are. */
static inline bool xt_tile_conv_is_in_place(const struct xt_tile_conv *job)
{
    return job->flat && !job->f32 && job->in_c % XT_TILE_CONV_CHANNELS == 0;
}
/* Numbers of a phase of a unit's copy, and of a summand; flat: of a chunk's. */
static inline size_t xt_tile_conv_plane(const struct xt_tile_conv *job)
{
    size_t channels = (size_t)xt_tile_conv_blocks(job) * XT_TILE_CONV_CHANNELS;
    return channels * (size_t)job->block_positions;
}
static inline size_t xt_tile_conv_summand(const struct xt_tile_conv *job)
{
    return xt_tile_conv_plane(job) * (size_t)(job->flat ? 1 : job->phase_count);
}
/* Weights of an output channel, with those of the last block that are zero. */
static inline size_t xt_tile_conv_weights(const struct xt_tile_conv *job)
{
    return (size_t)(job->weight_taps * xt_tile_conv_blocks(job)) * XT_TILE_CONV_CHANNELS;
}

/* With fewer samples than parts the rows of a sample are divided among them. */
void xt_tile_conv_plan(struct xt_tile_conv *job, int parts);
/* Floats of scratch for a call: two blocks' sums, where its products' tiles are, the copy. */
size_t xt_tile_conv_scratch(const struct xt_tile_conv *job);
/* Steps of a block's products of tiles, and floats of scratch for where their tiles are, and those
 * of the next block's first step. */
static inline size_t xt_tile_conv_steps(const struct xt_tile_conv *job)
{
    return (size_t)xt_tile_conv_blocks(job) * (size_t)job->tap_count;
}
static inline size_t xt_tile_conv_list(const struct xt_tile_conv *job)
{
    enum { STEP = 2, LINE = 16 };
    return ((xt_tile_conv_steps(job) + 1) * STEP + LINE - 1) / LINE * LINE;
}
/* Part `part` of `parts`: units from *first up to the returned end. */
int xt_tile_conv_part(const struct xt_tile_conv *job, int part, int parts, int *first);

/* The grid's rows of a unit that is not flat, from *first on. */
static inline int xt_tile_conv_rows(const struct xt_tile_conv *job, int unit, int *first)
{
    *first = unit % job->image_units * job->unit_rows;
    return job->rows - *first < job->unit_rows ? job->rows - *first : job->unit_rows;
}
/* Results of units [first, end), per channel. */
int xt_tile_conv_pixels(const struct xt_tile_conv *job, int first, int end);

/* Units [first, end). scratch is aligned to 64. */
typedef void xt_tile_conv_loop(const struct xt_tile_conv *job, int first, int end, float *scratch);
