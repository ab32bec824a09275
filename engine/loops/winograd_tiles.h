/* How Winograd's loops (winograd_job.h) divide images into tiles and lay out the tiles' transformed
 * numbers. For the files of this folder that hold such loops.
 */
#pragma once

#include <stddef.h>

#include "engine/loops/element.h"
#include "engine/loops/winograd_job.h"

enum {
    LARGE = 4,        /* outputs along the side of a large tile, and at most */
    SIDE = LARGE + 2, /* of a tile's input, at most */
    PLACES = SIDE * SIDE,
    WIDE = XT_WINOGRAD_WIDE,
    TILES = XT_WINOGRAD_TILES,
    CELL = TILES * WIDE,
    PANELS = XT_WINOGRAD_PANELS, /* output channels at a time */
    AT_ONCE = PANELS / WIDE
};

/* Zeros for pixels outside. */
XT_INLINE size_t zeros_of(int in_c)
{
    return (size_t)(in_c > PANELS ? in_c : PANELS);
}

/* Transformed inputs and gradients and their products are [blocks of TILES][places][channels /
 * WIDE][CELL]; paired channels of bf16 count as one. A place is a cache line longer than its cells:
 * a tile's places are in different L1 sets. */
XT_INLINE size_t place_of(int channels)
{
    return (size_t)(channels * TILES) + XT_WINOGRAD_SPARE;
}

/* Where a tile's block is. */
XT_INLINE size_t block_of(int tile, int channels, int places)
{
    return (size_t)tile / TILES * (size_t)places * place_of(channels);
}

/* Where a tile's numbers of the first place begin. */
XT_INLINE size_t tile_of(int tile, int channels, int places)
{
    return block_of(tile, channels, places) + (size_t)tile % TILES * WIDE;
}

/* From a tile's numbers [k, k + count) to the next ones. */
XT_INLINE size_t step_of(int k, int count)
{
    return (size_t)((k + count) % WIDE ? count : CELL - WIDE + count);
}

/* Images of h by w pixels. */
struct images {
    int h, w, c;
    enum xt_dtype dtype;
    const void *pixels;
};

/* Tiles [first, first + count) of images with h by w outputs. */
struct chunk {
    int h, w;
    int first, count;
};

/* A tile's first output pixel. */
struct corner {
    int n, y, x;
};

XT_INLINE struct corner corner_of(const struct chunk *chunk, int i, enum xt_winograd_form form)
{
    const struct xt_winograd_sides *sides = &xt_winograd_forms[form];
    int wide = (chunk->w + sides->tile_w - 1) / sides->tile_w;
    int high = (chunk->h + sides->tile_h - 1) / sides->tile_h;
    int at = chunk->first + i;
    return (struct corner){at / wide / high, sides->tile_h * (at / wide % high),
                           sides->tile_w * (at % wide)};
}

/* The next tile's, without corner_of's divisions. */
XT_INLINE struct corner corner_after(const struct chunk *chunk, struct corner at,
                                     enum xt_winograd_form form)
{
    at.x += xt_winograd_forms[form].tile_w;
    if (at.x < chunk->w)
        return at;
    at.x = 0;
    at.y += xt_winograd_forms[form].tile_h;
    if (at.y < chunk->h)
        return at;
    return (struct corner){.n = at.n + 1};
}

XT_INLINE size_t pixel_of(const struct chunk *chunk, struct corner at)
{
    return ((size_t)at.n * (size_t)chunk->h + (size_t)at.y) * (size_t)chunk->w + (size_t)at.x;
}

/* A pixel's channels, or `outside`. */
XT_INLINE const void *pixel(const struct images *images, int n, int y, int x, const void *outside)
{
    if (y < 0 || y >= images->h || x < 0 || x >= images->w)
        return outside;
    return at(images->pixels,
              (((size_t)n * (size_t)images->h + (size_t)y) * (size_t)images->w + (size_t)x) *
                  (size_t)images->c,
              images->dtype);
}

/* Where the pixels of a rectangle are. Not inlined: pointers in memory are faster than in vectors.
 */
static __attribute__((noinline)) void find_pixels(const struct images *images, struct corner at,
                                                  int high, int wide, const void *outside,
                                                  const void *found[PLACES])
{
    size_t step = (size_t)images->c * xt_dtype_size(images->dtype);
    if (at.y >= 0 && at.x >= 0 && at.y + high <= images->h && at.x + wide <= images->w) {
        const char *next = pixel(images, at.n, at.y, at.x, outside);
        for (int y = 0; y < high; y++, next += (size_t)(images->w - wide) * step)
            for (int x = 0; x < wide; x++, next += step)
                found[wide * y + x] = next;
        return;
    }
    for (int y = 0; y < high; y++)
        for (int x = 0; x < wide; x++)
            found[wide * y + x] = pixel(images, at.n, at.y + y, at.x + x, outside);
}

/* A chunk's tiles, one after the other: where the pixels of a rectangle of each are. */
struct walk {
    const struct chunk *chunk;
    const struct images *images;
    enum xt_winograd_form form;
    int down, right; /* from a tile's first output pixel to the rectangle */
    int high, wide;
    const void *outside;
    struct corner next;
    const void *found[2][PLACES]; /* of tile i at i % 2 */
};

/* Of tile i, called for one tile after the other. After the last one that one's again: there is
 * always a next tile to fetch. */
XT_INLINE void find_tile(struct walk *walk, int i)
{
    struct corner at = {walk->next.n, walk->next.y + walk->down, walk->next.x + walk->right};
    find_pixels(walk->images, at, walk->high, walk->wide, walk->outside, walk->found[i % 2]);
    if (i + 1 < walk->chunk->count)
        walk->next = corner_after(walk->chunk, walk->next, walk->form);
}

/* What a part computes: tiles [first, end) and panels [panel, last). */
struct share {
    int first, end;
    int panel, last;
};

XT_INLINE struct share share_of(const struct xt_winograd *job, int part, const struct chunk *chunk,
                                enum xt_winograd_form form)
{
    struct share share;
    int tiles = xt_winograd_tiles(form, job->n, chunk->h, chunk->w);
    int block = tiles < job->groups * TILES ? 1 : TILES;
    share.end = block * xt_winograd_part((tiles + block - 1) / block, part / job->shares,
                                         job->groups, &share.first);
    share.first *= block;
    share.end = share.end < tiles ? share.end : tiles;
    share.last = xt_winograd_part(job->out_c / WIDE, part % job->shares, job->shares, &share.panel);
    return share;
}
