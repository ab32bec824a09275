/* The copy of a convolution's source for matrix tiles, in float32 as summands. For the files of
 * this folder that are built for AMX. */
#pragma once

#ifdef __AMX_BF16__
#include <immintrin.h>

#include "engine/loops/split.h"
#include "engine/loops/tile_conv_job.h"

enum { DEEP = XT_TILE_CONV_CHANNELS /* elements of a tile's row */ };

/* A pixel's channels; `from` NULL: zeros. In numbers, `block` is from a block of channels to the
 * next one, `summand` from a summand to the next one. */
XT_INLINE void copy_pixel(const void *from, int channels, uint16_t *to, size_t block,
                          size_t summand, bool f32)
{
    for (int k = 0; k < channels; k += DEEP, to += block) {
        __mmask32 lanes = lanes_of(channels - k);
        if (from && f32)
            split((const float *)from + k, lanes, summand, to);
        else if (from)
            _mm512_store_si512(to, _mm512_maskz_loadu_epi16(lanes, (const uint16_t *)from + k));
        for (int i = 0; i < xt_summands_of(f32) && !from; i++)
            _mm512_store_si512(to + (size_t)i * summand, _mm512_setzero_si512());
    }
}

XT_INLINE void copy_columns(const struct xt_tile_conv *job, const char *row, int width, int first,
                            int count, uint16_t *to, bool f32)
{
    int channels = job->in_c;
    int step = job->step_w;
    size_t block = (size_t)job->block_positions * DEEP;
    size_t summand = xt_tile_conv_summand(job);
    size_t pixel = (size_t)channels * (f32 ? sizeof(float) : sizeof(uint16_t));
    for (int i = 0; i < count; i++, to += DEEP) {
        int x = first + i * step;
        bool within = row && x >= 0 && x < width;
        copy_pixel(within ? row + (size_t)x * pixel : NULL, channels, to, block, summand, f32);
    }
}

/* `count` columns of a row of `width` pixels, every `step`-th from column `first` on, zeros outside
 * of it; `row` NULL: all are. */
static inline void copy_row(const struct xt_tile_conv *job, const char *row, int width, int first,
                            int count, uint16_t *to)
{
    if (job->f32)
        copy_columns(job, row, width, first, count, to, true);
    else
        copy_columns(job, row, width, first, count, to, false);
}

static inline void copy_unit(const struct xt_tile_conv *job, int unit, uint16_t *to)
{
    int first = 0;
    int rows = xt_tile_conv_rows(job, unit, &first);
    size_t row = (size_t)job->in_w * (size_t)job->in_c * xt_tile_conv_element(job);
    const char *image =
        (const char *)job->in + (size_t)(unit / job->image_units) * (size_t)job->in_h * row;
    size_t plane = xt_tile_conv_plane(job);
    for (int p = 0; p < job->phase_count; p++, to += plane)
        for (int i = 0; i < rows + job->more_rows; i++) {
            int y = (first + i + job->first_y) * job->step_h + job->phases[p].y;
            int x = job->first_x * job->step_w + job->phases[p].x;
            bool last = i + 1 == rows + job->more_rows;
            copy_row(job, y >= 0 && y < job->in_h ? image + (size_t)y * row : NULL, job->in_w, x,
                     job->pitch + (last ? job->shared : 0), to + (size_t)(i * job->pitch) * DEEP);
        }
}

#endif
