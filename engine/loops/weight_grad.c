/* One part of a convolution's weight gradient by AMX, of bf16 or float32; weight_grad_job.h says
 * how it is divided. */
#include "engine/loops/table.h"

#ifdef __AMX_BF16__
#include <stdalign.h>
#include <string.h>

#include "engine/loops/ahead.h"
#include "engine/loops/tiles.h"
#include "engine/loops/weight_grad_pixels.h"

enum {
    TILE = PIXELS * CHANNELS, /* elements of a tile of either matrix */
    TURNS_F32 = 2             /* of fetching ahead, with a block's six products */
};

/* A part in progress. */
struct part {
    const struct xt_weight_grad *job;
    int share;
    int left_first, left_tiles;
    int right_first, right_tiles;
    bool narrow; /* tiles of the left matrix have fewer rows than 16 */
    uint16_t *left, *right;
    const uint16_t **pointers; /* to pixels; of float32 too */
    const uint16_t **columns;  /* where the right matrix begins for them */
    uint16_t *rows;            /* folded: of the input, with their padding */
    const uint16_t *zeros;
    float *bias; /* NULL: another part computes the sums, or they are not needed */
    float *sums;
    struct xt_ahead ahead;
    bool first;                             /* nothing has been added to the sums yet */
    int unit, units;                        /* of this chunk */
    int end;                                /* of the part's */
    alignas(LINE) double squares[CHANNELS]; /* of the gradient, if the part writes it */
};

/* ---- pixel addresses, in numbers of 16 bits ---- */

static int pixel_size(const struct xt_weight_grad *job, bool out)
{
    return (out ? job->out_c : job->in_c) * (job->f32 ? 2 : 1);
}

/* `count` pixels of a row, every `step`-th from column `first` on; `row` NULL: outside the
 * image. */
static void point_row(const struct part *part, const uint16_t *row, int w, int c, int first,
                      int step, int count, const uint16_t **to)
{
    int before = first < 0 ? (-first + step - 1) / step : 0;
    int end = w > first ? (w - first + step - 1) / step : 0;
    end = row && end < count ? end : row ? count : 0;
    for (int i = 0; i < before && i < count; i++)
        to[i] = part->zeros;
    for (int i = before; i < end; i++)
        to[i] = row + (ptrdiff_t)(first + i * step) * c;
    for (int i = end > before ? end : before; i < count; i++)
        to[i] = part->zeros;
}

static void point_flat(const struct part *part, bool out, int unit)
{
    const struct xt_weight_grad *job = part->job;
    const uint16_t *from = out ? job->out_grad : job->in;
    size_t c = (size_t)pixel_size(job, out);
    size_t first = (size_t)unit * PIXELS;
    size_t left = (size_t)job->n * (size_t)job->h * (size_t)job->w - first;
    for (size_t i = 0; i < PIXELS; i++)
        part->pointers[i] = i < left ? from + (first + i) * c : part->zeros;
}

/* The pixels of a row of the input that is folded: the taps of a row of the kernel. */
static void point_folded(const struct part *part, const uint16_t *row, int count, uint16_t *copy,
                         const uint16_t **to)
{
    const struct xt_weight_grad *job = part->job;
    size_t c = (size_t)job->in_c;
    size_t before = (size_t)job->pad_w * c;
    size_t within = (size_t)job->w * c;
    if (!row) {
        for (int i = 0; i < count; i++)
            to[i] = part->zeros;
        return;
    }
    before = before < job->row ? before : job->row;
    within = within < job->row - before ? within : job->row - before;
    memset(copy, 0, before * sizeof *copy);
    memcpy(copy + before, row, within * sizeof *copy);
    memset(copy + before + within, 0, (job->row - before - within) * sizeof *copy);
    for (int i = 0; i < count; i++)
        to[i] = copy + (size_t)(i * job->stride_w) * c;
}

/* A unit's pixels in rows of `pitch`; of the input those of a plane. */
static void point(const struct part *part, bool out, int plane, int unit, int count)
{
    const struct xt_weight_grad *job = part->job;
    int planes_w = xt_weight_grad_planes_w(job);
    int first = unit % job->image_units * job->unit_rows;
    int h = out ? job->out_h : job->h;
    int w = out ? job->out_w : job->w;
    int c = pixel_size(job, out);
    int step = out ? 1 : job->stride_w;
    int column = out ? 0 : plane % planes_w - job->pad_w;
    const uint16_t *image = out ? job->out_grad : job->in;
    image += (size_t)(unit / job->image_units) * (size_t)h * (size_t)w * (size_t)c;
    for (int i = 0, row = first; i < count; row++, i += job->pitch) {
        int y = out ? row : row * job->stride_h + plane / planes_w - job->pad_h;
        bool within = y >= 0 && y < h && (!out || row < first + job->unit_rows);
        const uint16_t *from = within ? image + (size_t)y * (size_t)w * (size_t)c : NULL;
        int pixels = count - i < job->pitch ? count - i : job->pitch;
        if (!out && job->fold > 1)
            point_folded(part, from, pixels, part->rows + (size_t)(row - first) * job->row,
                         part->pointers + i);
        else
            point_row(part, from, w, c, column, step, pixels, part->pointers + i);
    }
}

/* A unit's pixels of a matrix, and those of its last pairs. */
static void point_unit(const struct part *part, bool left, int plane, int unit)
{
    const struct xt_weight_grad *job = part->job;
    bool out = job->turned == left;
    if (job->flat)
        point_flat(part, out, unit);
    else
        point(part, out, plane, unit,
              left ? job->unit_blocks * PIXELS : job->unit_pixels + job->pairings - 1);
}

/* Channels of a pixel of a matrix. */
static int channels_of(const struct part *part, bool left)
{
    const struct xt_weight_grad *job = part->job;
    return job->turned == left ? job->out_c : job->in_c * job->fold;
}

/* ---- the two matrices ---- */

/* 32 pixels of the left matrix's tiles. */
static void turn_tiles(struct part *part, const uint16_t *const *pixels, int c, uint16_t *to,
                       float *bias)
{
    size_t stride = (size_t)part->job->left_stride;
    int first = part->left_first * CHANNELS;
    int end = first + part->left_tiles * CHANNELS;
    for (int k = first; k < end; k += 8) {
        float *sums = bias ? bias + 4 * k : NULL;
        if (k + 8 <= c)
            turn(pixels, (size_t)k, 0xFF, true, to, stride, sums);
        else
            turn(pixels, (size_t)k, mask_8(c - k), false, to, stride, sums);
        to += 8 * stride;
        fetch(&part->ahead);
    }
}

static size_t column_size(const struct xt_weight_grad *job)
{
    return (size_t)job->chunk_units * (size_t)job->unit_pixels * CHANNELS;
}

/* 32 pixels of the right matrix's tiles; two at a time where both are whole. */
static void pair_tiles(struct part *part, const uint16_t *const *pixels, int c, uint16_t *to,
                       uint16_t *odd, float *bias)
{
    size_t column = column_size(part->job);
    for (int t = 0, some = 1; t < part->right_tiles; t += some) {
        size_t k = (size_t)((part->right_first + t) * CHANNELS);
        uint16_t *at = to + (size_t)t * column;
        uint16_t *odd_at = odd ? odd + (size_t)t * column : NULL;
        float *sums = bias ? bias + k : NULL;
        int left = c - (int)k;
        some = left >= 2 * CHANNELS && t + 1 < part->right_tiles && !(bias && odd) ? 2 : 1;
        if (some > 1 && odd)
            pair_two_tiles(pixels, k, at, odd_at, column, NULL);
        else if (some > 1 && bias)
            pair_two_tiles(pixels, k, at, NULL, column, sums);
        else if (some > 1)
            pair_two_tiles(pixels, k, at, NULL, column, NULL);
        else if (left < CHANNELS)
            pair_tile(pixels, k, tile_mask(left), false, at, odd_at, sums);
        else if (odd)
            pair_tile(pixels, k, tile_mask(left), true, at, odd_at, NULL);
        else
            pair_tile(pixels, k, tile_mask(left), true, at, NULL, sums);
        for (int i = 0; i < some; i++)
            fetch(&part->ahead);
    }
}

/* ---- of float32, each summand of theirs ---- */

static void turn_tiles_f32(struct part *part, const uint16_t *const *pixels, int c, uint16_t *to)
{
    const struct xt_weight_grad *job = part->job;
    int first = part->left_first * CHANNELS;
    int end = first + part->left_tiles * CHANNELS;
    for (int k = first; k < end; k += 4) {
        __mmask8 mask = mask_8(c - k) & 0xF;
        __m512 even[4];
        __m512 odd[4];
        turn_4(pixels, (size_t)k, mask, even);
        turn_4(pixels + 1, (size_t)k, mask, odd);
        for (int i = 0; i < 4; i++, to += job->left_stride) {
            __m512i lines[XT_SUMMANDS];
            split_pairs(even[i], odd[i], lines);
            for (size_t s = 0; s < XT_SUMMANDS; s++)
                _mm512_storeu_si512(to + s * job->left_size, lines[s]);
        }
        if (k % 8)
            fetch(&part->ahead);
    }
}

static void pair_tiles_f32(struct part *part, const uint16_t *const *pixels, int c, uint16_t *to,
                           uint16_t *odd)
{
    size_t summand = part->job->right_size;
    size_t column = column_size(part->job);
    for (int t = 0; t < part->right_tiles; t++, to += column, odd += odd ? column : 0) {
        int k = (part->right_first + t) * CHANNELS;
        if (odd)
            pair_tile_f32(pixels, (size_t)k, tile_mask(c - k), summand, to, odd);
        else
            pair_tile_f32(pixels, (size_t)k, tile_mask(c - k), summand, to, NULL);
        fetch(&part->ahead);
    }
}

/* Adds 32 pixels of `tiles` tiles of channels to the bias's sums. */
static void add_to_bias(const uint16_t *const *pixels, int c, int first, int tiles, float *bias)
{
    for (int k = first * CHANNELS; k < (first + tiles) * CHANNELS; k += CHANNELS) {
        __m512 sum = _mm512_setzero_ps();
        for (int i = 0; i < PIXELS; i++)
            sum =
                _mm512_add_ps(sum, _mm512_maskz_loadu_ps(tile_mask(c - k), floats(pixels, i) + k));
        _mm512_storeu_ps(bias + k, _mm512_add_ps(_mm512_loadu_ps(bias + k), sum));
    }
}

/* ---- a chunk's matrices ---- */

static void make_left(struct part *part)
{
    const struct xt_weight_grad *job = part->job;
    int c = channels_of(part, true);
    float *bias = job->turned ? part->bias : NULL;
    uint16_t *to = part->left;
    for (int u = 0; u < part->units; u++) {
        point_unit(part, true, 0, part->unit + u);
        for (int i = 0; i < job->unit_blocks; i++, to += PIXELS) {
            const uint16_t *const *pixels = part->pointers + i * PIXELS;
            if (job->f32)
                turn_tiles_f32(part, pixels, c, to);
            else
                turn_tiles(part, pixels, c, to, bias);
            if (job->f32 && bias)
                add_to_bias(pixels, c, part->left_first, part->left_tiles, bias);
        }
    }
}

/* The offset, in pixels, of a tap within its plane. */
static int offset_of(const struct xt_weight_grad *job, int y, int x)
{
    return y / job->stride_h * job->pitch + x / job->stride_w;
}

/* Whether a tap reads a plane's pairs from odd pixels on. */
static bool reads_odd(const struct xt_weight_grad *job, int plane)
{
    int planes_w = xt_weight_grad_planes_w(job);
    for (int y = plane / planes_w; y < job->kernel_h; y += job->stride_h)
        for (int x = plane % planes_w; x < xt_weight_grad_taps_w(job); x += job->stride_w)
            if (offset_of(job, y, x) % 2)
                return true;
    return false;
}

/* The pairs of a plane of the right matrix's first tile. */
static uint16_t *pairs_at(const struct part *part, int plane, int odd)
{
    int pairing = plane * part->job->pairings + odd;
    return part->right + (size_t)(pairing * part->right_tiles) * column_size(part->job);
}

static void make_right(struct part *part)
{
    const struct xt_weight_grad *job = part->job;
    int c = channels_of(part, false);
    float *bias = job->turned ? NULL : part->bias;
    for (int plane = 0; plane < job->planes; plane++)
        for (int u = 0; u < part->units; u++) {
            size_t at = (size_t)(u * job->unit_pixels) * CHANNELS;
            uint16_t *to = pairs_at(part, plane, 0) + at;
            uint16_t *odd = reads_odd(job, plane) ? pairs_at(part, plane, 1) + at : NULL;
            point_unit(part, false, plane, part->unit + u);
            for (int i = 0; i < job->unit_pixels; i += PIXELS) {
                const uint16_t *const *pixels = part->pointers + i;
                uint16_t *to_odd = odd ? odd + i * CHANNELS : NULL;
                if (job->f32)
                    pair_tiles_f32(part, pixels, c, to + i * CHANNELS, to_odd);
                else
                    pair_tiles(part, pixels, c, to + i * CHANNELS, to_odd, bias);
                if (job->f32 && bias)
                    add_to_bias(pixels, c, part->right_first, part->right_tiles, bias);
            }
        }
}

/* ---- their product ---- */

/* Taps of the product: those of a row are one if folded. */
static int taps_of(const struct xt_weight_grad *job)
{
    return job->taps / job->fold;
}

/* A column of the product's tiles is a tile of the right matrix at a tap. */
static void place_columns(const struct part *part)
{
    const struct xt_weight_grad *job = part->job;
    int planes_w = xt_weight_grad_planes_w(job);
    for (int tap = 0; tap < taps_of(job); tap++) {
        int y = tap / xt_weight_grad_taps_w(job);
        int x = tap % xt_weight_grad_taps_w(job);
        int offset = offset_of(job, y, x);
        int plane = y % job->stride_h * planes_w + x % job->stride_w;
        const uint16_t *at = pairs_at(part, plane, offset % 2) + offset / 2 * 2 * CHANNELS;
        for (int t = 0; t < part->right_tiles; t++)
            part->columns[t * taps_of(job) + tap] = at + (size_t)t * column_size(job);
    }
}

/* The product's tiles: floats from one to the next in a row, and to the next row. */
static size_t column_step(const struct xt_weight_grad *job)
{
    return job->turned ? SUMS : (size_t)job->left_tiles * SUMS;
}

static size_t row_step(const struct xt_weight_grad *job)
{
    return job->turned ? (size_t)(job->right_tiles * taps_of(job)) * SUMS : SUMS;
}

static float *sums_at(const struct part *part, int row, int column)
{
    const struct xt_weight_grad *job = part->job;
    return part->sums + (size_t)(part->left_first + row) * row_step(job) +
           (size_t)(part->right_first * taps_of(job) + column) * column_step(job);
}

/* A chunk's products in progress. */
struct walk {
    struct part *part;
    int first, blocks;  /* of each unit these blocks */
    bool zero;          /* the tiles begin with zeros */
    bool added;         /* and are added to the sums */
    bool last;          /* which then are the gradient, and written there */
    size_t row, column; /* floats from a tile of sums to the next row's, to the next one */
    size_t apart;   /* from two tiles of a block's sums, which follow each other, to the others */
    size_t lower;   /* elements from a tile of the left matrix to the one below */
    size_t skipped; /* of the right matrix behind a unit's pixels; several units are whole */
};

XT_INLINE void add_sums(float *to, const float *from)
{
    for (size_t i = 0; i < SUMS; i += 16)
        _mm512_storeu_ps(to + i, _mm512_add_ps(_mm512_loadu_ps(to + i), _mm512_load_ps(from + i)));
}

/* Writes tiles of the gradient past the caches: those of the last chunk, to which the sums are
 * added unless they were loaded before. */
static __attribute__((noinline)) void write_tiles(const struct walk *walk, const float *chunk,
                                                  const float *sums, int rows, int columns)
{
    struct part *part = walk->part;
    __m512d squares[2] = {_mm512_load_pd(part->squares), _mm512_load_pd(part->squares + 8)};
    for (int i = 0; i < rows; i++)
        for (int k = 0; k < columns; k++) {
            const float *from = chunk + (2 * i + k) * SUMS;
            const float *more = sums + (size_t)i * walk->row + (size_t)k * walk->column;
            float *to = part->job->grad + (more - part->sums);
            for (size_t x = 0; x < SUMS; x += 16) {
                __m512 sum = _mm512_load_ps(from + x);
                if (walk->added)
                    sum = _mm512_add_ps(_mm512_loadu_ps(more + x), sum);
                _mm512_stream_ps(to + x, sum);
                __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(sum));
                __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(sum, 1));
                squares[0] = _mm512_fmadd_pd(low, low, squares[0]);
                squares[1] = _mm512_fmadd_pd(high, high, squares[1]);
            }
        }
    _mm512_store_pd(part->squares, squares[0]);
    _mm512_store_pd(part->squares + 8, squares[1]);
}

/* Adds a chunk's products to up to two rows by two columns of tiles; of float32 they are summed by
 * themselves first, as one sum over all pixels is rounded four times as far away. The sums at
 * `next` are fetched into L1 if they are read or written. Few variables, as what the compiler
 * spills waits for the tiles that are being stored. */
XT_INLINE void add_block(struct walk *walk, const uint16_t *left, const uint16_t *right0,
                         const uint16_t *right1, float *sums, const float *next, int rows,
                         int columns, bool f32)
{
    enum { PART = 4 * 16 /* of a tile of sums */ };
    const float *end = walk->last && walk->zero && !walk->added ? next : next + 2 * SUMS;
    const struct xt_weight_grad *job = walk->part->job;
    size_t stride = (size_t)job->left_stride * sizeof(uint16_t);
    struct xt_ahead *ahead = &walk->part->ahead;
    const char *at = ahead->at[ahead->which];
    size_t due = ahead->due;
    alignas(LINE) float chunk[4 * SUMS];
    bool added = f32 && walk->added;
    bool aside = added || walk->last;
    float *to = aside ? chunk : sums;
    size_t row = aside ? 2 * SUMS : walk->row;
    size_t column = aside ? SUMS : walk->column;
    if (walk->zero) {
        zero_sums();
    } else {
        _tile_loadd(0, sums, 64);
        if (columns > 1)
            _tile_loadd(1, sums + walk->column, 64);
        if (rows > 1)
            _tile_loadd(2, sums + walk->row, 64);
        if (rows > 1 && columns > 1)
            _tile_loadd(3, sums + walk->row + walk->column, 64);
    }
    for (int u = walk->part->units; u > 0; u--) {
        for (int i = walk->blocks; i > 0; i--) {
            const struct products of = {.left = (const char *)left,
                                        .lower = walk->lower * sizeof *left,
                                        .row = stride,
                                        .left_summand = job->left_size * sizeof *left,
                                        .right = {(const char *)right0, (const char *)right1},
                                        .right_summand = job->right_size * sizeof *left};
            if (f32)
                add_products_f32(&of, rows, columns);
            else
                add_products_bf16(&of, rows, columns);
            left += PIXELS;
            right0 += TILE;
            right1 += TILE;
            if (next < end) {
                for (int line = 0; line < PART; line += 16) {
                    _mm_prefetch(next + line, _MM_HINT_T0);
                    _mm_prefetch(next + walk->apart + line, _MM_HINT_T0);
                }
                next += PART;
            }
            for (due += ahead->rate * (f32 ? TURNS_F32 : 1); due >= 256; due -= 256, at += 64)
                _mm_prefetch(at, _MM_HINT_T1);
        }
        right0 += walk->skipped;
        right1 += walk->skipped;
    }
    _tile_stored(0, to, 64);
    if (columns > 1)
        _tile_stored(1, to + column, 64);
    if (rows > 1)
        _tile_stored(2, to + row, 64);
    if (rows > 1 && columns > 1)
        _tile_stored(3, to + row + column, 64);
    if (walk->last)
        write_tiles(walk, chunk, sums, rows, columns);
    for (size_t i = 0; added && !walk->last && i < (size_t)rows; i++)
        for (size_t k = 0; k < (size_t)columns; k++)
            add_sums(sums + i * walk->row + k * walk->column, to + i * row + k * column);
    ahead->at[ahead->which] = at;
    ahead->due = due;
    if (at >= ahead->end[ahead->which])
        ahead->which = 1;
}

typedef void add_tiles(struct walk *walk, const uint16_t *left, const uint16_t *right0,
                       const uint16_t *right1, float *sums, const float *next);

static __attribute__((noinline)) void add_two_by_two(struct walk *walk, const uint16_t *left,
                                                     const uint16_t *right0, const uint16_t *right1,
                                                     float *sums, const float *next)
{
    add_block(walk, left, right0, right1, sums, next, 2, 2, false);
}

static __attribute__((noinline)) void add_two_by_one(struct walk *walk, const uint16_t *left,
                                                     const uint16_t *right0, const uint16_t *right1,
                                                     float *sums, const float *next)
{
    add_block(walk, left, right0, right1, sums, next, 2, 1, false);
}

static __attribute__((noinline)) void add_one_by_one(struct walk *walk, const uint16_t *left,
                                                     const uint16_t *right0, const uint16_t *right1,
                                                     float *sums, const float *next)
{
    add_block(walk, left, right0, right1, sums, next, 1, 1, false);
}

static __attribute__((noinline)) void add_two_by_two_f32(struct walk *walk, const uint16_t *left,
                                                         const uint16_t *right0,
                                                         const uint16_t *right1, float *sums,
                                                         const float *next)
{
    add_block(walk, left, right0, right1, sums, next, 2, 2, true);
}

static __attribute__((noinline)) void add_two_by_one_f32(struct walk *walk, const uint16_t *left,
                                                         const uint16_t *right0,
                                                         const uint16_t *right1, float *sums,
                                                         const float *next)
{
    add_block(walk, left, right0, right1, sums, next, 2, 1, true);
}

static __attribute__((noinline)) void add_one_by_one_f32(struct walk *walk, const uint16_t *left,
                                                         const uint16_t *right0,
                                                         const uint16_t *right1, float *sums,
                                                         const float *next)
{
    add_block(walk, left, right0, right1, sums, next, 1, 1, true);
}

/* All columns of up to two rows. */
static void add_rows(struct walk *walk, int row, int rows)
{
    const struct part *part = walk->part;
    bool f32 = part->job->f32;
    add_tiles *two_by_two = f32 ? add_two_by_two_f32 : add_two_by_two;
    add_tiles *two_by_one = f32 ? add_two_by_one_f32 : add_two_by_one;
    add_tiles *one_by_one = f32 ? add_one_by_one_f32 : add_one_by_one;
    int count = part->right_tiles * taps_of(part->job);
    int wide = 0;
    const uint16_t *left = part->left + (size_t)row * walk->lower + walk->first * PIXELS;
    for (int j = 0; j < count; j += wide) {
        wide = rows > 1 && count - j > 1 ? 2 : 1;
        const uint16_t *right0 = part->columns[j] + walk->first * TILE;
        const uint16_t *right1 = part->columns[j + wide - 1] + walk->first * TILE;
        float *sums = sums_at(part, row, j);
        const float *next =
            j + wide < count ? sums + (size_t)wide * walk->column : sums_at(part, row + rows, 0);
        (wide > 1   ? two_by_two
         : rows > 1 ? two_by_one
                    : one_by_one)(walk, left, right0, right1, sums, next);
    }
}

/* A pair of the left matrix's tiles stays in L1 meanwhile. */
static void multiply(struct part *part)
{
    const struct xt_weight_grad *job = part->job;
    struct walk walk = {.part = part,
                        .row = row_step(job),
                        .column = column_step(job),
                        .apart = job->turned ? row_step(job) : column_step(job),
                        .lower = (size_t)CHANNELS * (size_t)job->left_stride,
                        .skipped =
                            (size_t)(job->unit_pixels - job->pass_blocks * PIXELS) * CHANNELS};
    /* A compiler barrier: tile loads must not pass the stores before them. */
    __asm__ volatile("" ::: "memory");
    for (; walk.first < job->unit_blocks; walk.first += job->pass_blocks) {
        int left = job->unit_blocks - walk.first;
        walk.blocks = left < job->pass_blocks ? left : job->pass_blocks;
        bool first = part->first && walk.first == 0;
        walk.zero = !part->narrow && (first || job->f32);
        walk.added = walk.zero && !first;
        walk.last = xt_weight_grad_writes(job) && part->unit + part->units == part->end &&
                    left <= job->pass_blocks;
        for (int row = 0; row < part->left_tiles; row += 2)
            add_rows(&walk, row, part->left_tiles - row > 1 ? 2 : 1);
    }
    __asm__ volatile("" ::: "memory");
    part->first = false;
}

/* ---- a part ---- */

/* Rows of the left matrix's tiles. */
static int tile_rows(const struct part *part)
{
    return part->narrow ? channels_of(part, true) : CHANNELS;
}

/* Transposed tiles count twice, blocks of products once. */
static size_t turns_of(const struct part *part)
{
    const struct xt_weight_grad *job = part->job;
    int blocks = part->units * job->unit_blocks;
    int columns = part->right_tiles * taps_of(job);
    int products = (part->left_tiles + 1) / 2 * ((columns + 1) / 2);
    int turns = job->f32 ? TURNS_F32 * products : products;
    return (size_t)(blocks * (2 * part->left_tiles + part->right_tiles + turns));
}

/* Adds the four quarter sums of each channel, four channels at a time. */
static void finish_bias(const struct part *part)
{
    int first = part->left_first * CHANNELS;
    int end = first + part->left_tiles * CHANNELS;
    for (int k = first; k < end; k += 4) {
        float sum[4];
        for (int i = 0; i < 4; i++) {
            const float *quarters = part->bias + 4 * k + i;
            sum[i] = (quarters[0] + quarters[4]) + (quarters[8] + quarters[12]);
        }
        /* Later channels have not been overwritten yet. */
        memcpy(part->bias + k, sum, sizeof sum);
    }
}

/* Narrow tiles do not write all rows. */
static void clear_sums(const struct part *part)
{
    for (int i = 0; i < part->left_tiles; i++)
        for (int j = 0; j < part->right_tiles * taps_of(part->job); j++)
            memset(sums_at(part, i, j), 0, SUMS * sizeof(float));
}

void XT_LOOPS_NAME(weight_grad)(const struct xt_weight_grad *job, int number)
{
    char *scratch = (char *)job->scratch + (size_t)number * job->part_bytes;
    int group = number / job->shares;
    struct part part = {
        .job = job,
        .share = number % job->shares,
        .left = (uint16_t *)(void *)scratch,
        .right = (uint16_t *)(void *)(scratch + job->right_at),
        .pointers = (const uint16_t **)(void *)(scratch + job->pointers_at),
        .columns = (const uint16_t **)(void *)(scratch + job->columns_at),
        .rows = (uint16_t *)(void *)(scratch + job->rows_at),
        .zeros = (const uint16_t *)(const void *)(scratch + job->zeros_at),
        .bias = xt_weight_grad_bias(job, number),
        .sums = xt_weight_grad_sums(job, group),
        .first = !job->adds,
    };
    part.narrow = channels_of(&part, true) < CHANNELS;
    part.left_tiles = xt_weight_grad_share(job, part.share, true, &part.left_first);
    part.right_tiles = xt_weight_grad_share(job, part.share, false, &part.right_first);
    /* The zeros and the sums of the bias. */
    if (!job->adds)
        memset(scratch + job->zeros_at, 0, job->part_bytes - job->zeros_at);
    if (!job->bias_grad || (part.share > 0 && job->turned != job->shares_left))
        part.bias = NULL;
    if (part.narrow && !job->adds)
        clear_sums(&part);
    part.end = xt_weight_grad_units(job, number, &part.unit);
    place_columns(&part);
    configure_tiles(tile_rows(&part));
    for (; part.unit < part.end; part.unit += part.units) {
        int left = part.end - part.unit;
        part.units = left < job->chunk_units ? left : job->chunk_units;
        left -= part.units;
        int next = part.unit + part.units;
        look_ahead(&part.ahead, job, next,
                   left < job->chunk_units ? part.end : next + job->chunk_units, turns_of(&part));
        make_left(&part);
        make_right(&part);
        multiply(&part);
    }
    _tile_release();
    _mm_sfence();
    double *square = xt_weight_grad_square(job, number);
    *square = 0;
    for (int i = 0; i < CHANNELS; i++)
        *square += part.squares[i];
    if (part.bias && job->turned && !job->f32 && !job->more)
        finish_bias(&part);
}

#endif
