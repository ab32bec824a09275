/* Convolutions by AMX; tile_conv_job.h defines them. */
#include "engine/loops/table.h"

#ifdef __AMX_BF16__
#include <immintrin.h>

#include "engine/loops/tile_result.h"
#include "engine/loops/tile_source.h"
#include "engine/loops/tiles.h"

enum {
    TILE_PAIRS = DEEP / 2 * WIDE, /* of a tile of weights */
    SUMS = 4 * WIDE * WIDE,       /* of a block: two by two tiles */
    ALL_SUMS = 2 * SUMS,          /* of two blocks */
    NEAR_BYTES = 768 << 10,
    STEPS_LEAST = 8 /* of a block that gains by staying in its tiles */
};

/* Positions that are counted through: of a unit's copy, or pixels of a flat job. */
struct span {
    const uint16_t *left; /* the first position's */
    char *out;            /* the first position's result */
    int count;
    int tile_rows, blocks;
};

/* A product of tiles: where they are, in bytes from the block's. */
struct step {
    uint32_t left, right;
};

/* A block of bf16. */
struct place {
    const struct span *span; /* NULL: none */
    int block, channel;
};

/* Sums that are being written while the next block's are formed. */
struct written {
    int left;           /* rows; 0: none */
    int upper;          /* of them of the upper tile */
    const float *sums;  /* of the next row */
    const float *lower; /* of the lower tile's first row */
    char *to;
    int x, channel;
};

/* A chunk in progress. */
struct chunk {
    const struct xt_tile_conv *job;
    enum then then;
    bool near;      /* all weights are in L2 */
    bool begins;    /* the pivot is still to be set */
    size_t row;     /* bytes from a position's channels to the next one's */
    size_t block;   /* elements from a block of channels to the next one */
    size_t panel;   /* bytes from the weights of WIDE channels to the next ones' */
    size_t summand; /* bytes from a summand's copy of the source to the next one's */
    int columns, pitch;
    size_t out_size;           /* of an element */
    size_t out_pixel, out_row; /* bytes from a result to the next one, to the next row's */
    float *sums, *other_sums;  /* the others are still to be written */
    bool two_at_once;          /* the sums of two blocks are written together */
    struct place in_tiles;     /* the block of bf16 that stays there until the next one begins */
    struct written written;    /* in float32 */
    int rows;                  /* of it beside a product of tiles */
    int span_count;
    struct span spans[XT_TILE_CONV_UNITS_MAX];
    int step_count;
    struct step *steps;
    /* What the next chunk reads of the source is fetched into L2 meanwhile. */
    const char *ahead;
    size_t rate, due; /* lines per step, times 256 */
    /* What is read with later results is fetched too: with so many per step, bytes from one to the
     * next. */
    int results;
    bool in_order; /* of memory: all channels of the next positions are */
    size_t fetch_step;
};

/* ---- products ---- */

/* Where a tile of a span's rows begins: the last one may reach back into the one before. */
static int tile_start(const struct span *span, int tile)
{
    int start = tile * span->tile_rows;
    return start + span->tile_rows > span->count ? span->count - span->tile_rows : start;
}

/* The first result of a tile that no tile before has. */
static char *result_at(const struct chunk *chunk, const struct span *span, int tile, int channel)
{
    int first = tile * span->tile_rows;
    return span->out + (size_t)(first / chunk->pitch) * chunk->out_row +
           (size_t)(first % chunk->pitch) * chunk->out_pixel + (size_t)channel * chunk->out_size;
}

/* Fetches what writing a result reads: what a norm has of it, and what is there. */
XT_INLINE void fetch_result(const struct xt_tile_conv *job, const char *to)
{
    const struct xt_norm_sums *norm = &job->norm;
    size_t size = PAIR * xt_tile_conv_element(job);
    for (const char *end = to + size; to < end; to += LINE) {
        size_t offset = (size_t)(to - (const char *)job->out);
        if (norm->y)
            _mm_prefetch((const char *)norm->y + offset, _MM_HINT_T1);
        if (norm->z)
            _mm_prefetch((const char *)norm->z + offset, _MM_HINT_T1);
        if (job->adds)
            _mm_prefetch(job->added ? (const char *)job->added + offset : to, _MM_HINT_T1);
    }
}

/* `panels` 2 or 1, of the right matrix. */
XT_INLINE void fetch_right(const char *right, size_t panel, int panels)
{
    for (int i = 0; i < WIDE; i++) {
        _mm_prefetch(right + (size_t)i * LINE, _MM_HINT_T0);
        if (panels > 1)
            _mm_prefetch(right + panel + (size_t)i * LINE, _MM_HINT_T0);
    }
}

/* The sums of a tile's positions that no tile before has, of one block of channels or two. */
XT_INLINE void write_tile(const struct chunk *chunk, const struct span *span, int tile, char *to,
                          const float *sums, const float *more, int count, enum then then,
                          struct block *block, struct block *second)
{
    int first = tile * span->tile_rows;
    int start = tile_start(span, tile);
    int x = first % chunk->pitch;
    size_t at = (size_t)(first - start) * PAIR;
    for (int i = first; i < start + span->tile_rows; i++, at += PAIR) {
        if (x < chunk->columns) {
            write_result(chunk->job, sums + at, to, then, false, block);
            if (count > 1)
                write_result(chunk->job, more + at, to + LINE, then, false, second);
        }
        to += chunk->out_pixel;
        if (++x == chunk->pitch) {
            x = 0;
            to += chunk->out_row - (size_t)chunk->pitch * chunk->out_pixel;
        }
    }
}

/* Blocks of bf16 from a channel on, whose sums have been formed; `more` are the second one's. */
XT_INLINE void write_blocks(const struct chunk *chunk, const struct span *span, int block,
                            int channel, const float *sums, const float *more, int count,
                            enum then then)
{
    const struct xt_tile_conv *job = chunk->job;
    struct block first;
    struct block second;
    int lower = span->tile_rows * PAIR;
    begin_block(job, channel, then, false, &first);
    if (count > 1)
        begin_block(job, channel + PAIR, then, false, &second);
    write_tile(chunk, span, 2 * block, result_at(chunk, span, 2 * block, channel), sums, more,
               count, then, &first, &second);
    write_tile(chunk, span, 2 * block + 1, result_at(chunk, span, 2 * block + 1, channel),
               sums + lower, more + lower, count, then, &first, &second);
    end_block(job, channel, then, false, &first);
    if (count > 1)
        end_block(job, channel + PAIR, then, false, &second);
}

/* Up to `count` results of float32. */
XT_INLINE void write_rows(const struct chunk *chunk, struct written *w, int count, enum then then,
                          struct block *block)
{
    for (; count > 0 && w->left > 0; count--, w->left--) {
        if (w->x < chunk->columns)
            write_result(chunk->job, w->sums, w->to, then, true, block);
        w->sums += PAIR;
        w->to += chunk->out_pixel;
        if (--w->upper == 0)
            w->sums = w->lower;
        if (++w->x == chunk->pitch) {
            w->x = 0;
            w->to += chunk->out_row - (size_t)chunk->pitch * chunk->out_pixel;
        }
    }
}

static void swap_sums(struct chunk *chunk)
{
    float *sums = chunk->sums;
    chunk->sums = chunk->other_sums;
    chunk->other_sums = sums;
}

/* Of a part's first block: of a norm's statistics. */
static void set_pivots(const struct chunk *chunk, const struct span *span, int block, int channel,
                       const float *sums)
{
    if (chunk->then == STATISTICS && chunk->begins && span == chunk->spans && block == 0)
        set_pivot(chunk->job, sums, channel);
}

/* ---- blocks of bf16 ---- */

/* Few variables, since what the compiler spills waits for the tiles that are being stored. */
XT_INLINE void multiply(struct chunk *chunk, const struct span *span, int block, int channel,
                        const char *next, int panels, bool reads, bool stays)
{
    const struct xt_tile_conv *job = chunk->job;
    size_t panel = chunk->panel;
    size_t row = chunk->row;
    const char *right = (const char *)job->weights + (size_t)(channel / WIDE) * panel;
    const char *left = (const char *)span->left + (size_t)tile_start(span, 2 * block) * row;
    size_t lower = (size_t)(tile_start(span, 2 * block + 1) - tile_start(span, 2 * block)) * row;
    const struct step *end = chunk->steps + chunk->step_count;
    const char *ahead = chunk->ahead;
    size_t due = chunk->due;
    if (!stays)
        zero_sums();
    for (const struct step *step = chunk->steps; step < end; step++) {
        const char *b = right + step->right;
        const struct products of = {
            .left = left + step->left, .lower = lower, .row = row, .right = {b, b + panel}};
        if (stays && step == chunk->steps)
            begin_products_bf16(&of, chunk->in_tiles.span ? chunk->sums : NULL, span->tile_rows);
        else
            add_products_bf16(&of, 2, panels);
        for (due += chunk->rate; due >= 256; due -= 256, ahead += LINE)
            _mm_prefetch(ahead, _MM_HINT_T1);
        for (int i = reads ? chunk->results : 0; i > 0; i--, next += chunk->fetch_step)
            fetch_result(job, next);
    }
    chunk->ahead = ahead;
    chunk->due = due;
    if (!stays)
        store_sums(chunk->sums, span->tile_rows);
}

static __attribute__((noinline)) void multiply_two(struct chunk *chunk, const struct span *span,
                                                   int block, int channel)
{
    multiply(chunk, span, block, channel, NULL, 2, false, false);
}

/* The last channels, if there are no more than WIDE. */
static __attribute__((noinline)) void multiply_one(struct chunk *chunk, const struct span *span,
                                                   int block, int channel)
{
    multiply(chunk, span, block, channel, NULL, 1, false, false);
}

/* Fetches what is read with the results from `next` on. */
static __attribute__((noinline)) void multiply_ahead(struct chunk *chunk, const struct span *span,
                                                     int block, int channel, const char *next)
{
    multiply(chunk, span, block, channel, next, 2, true, false);
}

/* Its sums stay in the tiles. */
static __attribute__((noinline)) void
multiply_and_stay(struct chunk *chunk, const struct span *span, int block, int channel)
{
    multiply(chunk, span, block, channel, NULL, 2, false, true);
}

static __attribute__((noinline)) void multiply_ahead_and_stay(struct chunk *chunk,
                                                              const struct span *span, int block,
                                                              int channel, const char *next)
{
    multiply(chunk, span, block, channel, next, 2, true, true);
}

/* Out of line, so that the loops for one block keep their registers. */
static __attribute__((noinline)) void write_two_plain(const struct chunk *chunk,
                                                      const struct span *span, int block,
                                                      int channel, const float *sums,
                                                      const float *more)
{
    write_blocks(chunk, span, block, channel, sums, more, 2, NOTHING);
}

static __attribute__((noinline)) void write_two_statistics(const struct chunk *chunk,
                                                           const struct span *span, int block,
                                                           int channel, const float *sums,
                                                           const float *more)
{
    write_blocks(chunk, span, block, channel, sums, more, 2, STATISTICS);
}

static __attribute__((noinline)) void write_two_gradient(const struct chunk *chunk,
                                                         const struct span *span, int block,
                                                         int channel, const float *sums,
                                                         const float *more)
{
    write_blocks(chunk, span, block, channel, sums, more, 2, GRADIENT);
}

/* The sums of two blocks of channels. */
XT_INLINE void finish_two(const struct chunk *chunk, const struct span *span, int block,
                          int channel)
{
    const float *sums = chunk->other_sums;
    const float *more = chunk->sums;
    set_pivots(chunk, span, block, channel, sums);
    set_pivots(chunk, span, block, channel + PAIR, more);
    if (chunk->then == GRADIENT)
        write_two_gradient(chunk, span, block, channel, sums, more);
    else if (chunk->then == STATISTICS)
        write_two_statistics(chunk, span, block, channel, sums, more);
    else
        write_two_plain(chunk, span, block, channel, sums, more);
}

XT_INLINE void finish_one(const struct chunk *chunk, const struct span *span, int block,
                          int channel)
{
    const float *sums = chunk->sums;
    set_pivots(chunk, span, block, channel, sums);
    if (chunk->then == UNEVEN)
        write_blocks(chunk, span, block, channel, sums, sums, 1, UNEVEN);
    else if (chunk->then == GRADIENT)
        write_blocks(chunk, span, block, channel, sums, sums, 1, GRADIENT);
    else if (chunk->then == STATISTICS)
        write_blocks(chunk, span, block, channel, sums, sums, 1, STATISTICS);
    else
        write_blocks(chunk, span, block, channel, sums, sums, 1, NOTHING);
}

/* Where fetching begins of what is read with the results of a later block, in float32 of this one,
 * which is written beside the next one's products; NULL: nothing is. In order it is a share of the
 * next positions' channels: by channels, a line of each pixel, that would take twice as long. */
static const char *next_result(const struct chunk *chunk, const struct span *span, int block,
                               int channel)
{
    if (!chunk->job->norm.y && !chunk->job->adds)
        return NULL;
    if (!chunk->in_order)
        return result_at(chunk, span, 2 * block + (chunk->job->f32 ? 0 : 2), channel);
    return result_at(chunk, span, 2 * block + 2, 0) + (size_t)channel * chunk->fetch_step;
}

XT_INLINE void write_bf16(struct chunk *chunk, const struct span *span, int block, int channel)
{
    bool second = chunk->two_at_once && channel / PAIR % 2;
    if (chunk->two_at_once && !second && channel + PAIR < chunk->job->out_c)
        swap_sums(chunk);
    else if (second)
        finish_two(chunk, span, block, channel - PAIR);
    else
        finish_one(chunk, span, block, channel);
}

/* Writes the block that has left the tiles. */
static __attribute__((noinline)) void write_before(struct chunk *chunk, const struct place *of)
{
    if (of->span)
        write_bf16(chunk, of->span, of->block, of->channel);
}

static void empty_tiles(struct chunk *chunk)
{
    if (chunk->in_tiles.span)
        store_sums(chunk->sums, chunk->in_tiles.span->tile_rows);
    __asm__ volatile("" ::: "memory");
    write_before(chunk, &chunk->in_tiles);
    chunk->in_tiles.span = NULL;
}

/* A block that stays in its tiles; what is written is the one before. */
static __attribute__((noinline)) void make_and_stay(struct chunk *chunk, const struct span *span,
                                                    int block, int channel, const char *next)
{
    struct place before = chunk->in_tiles;
    if (next)
        multiply_ahead_and_stay(chunk, span, block, channel, next);
    else
        multiply_and_stay(chunk, span, block, channel);
    __asm__ volatile("" ::: "memory");
    chunk->in_tiles = (struct place){span, block, channel};
    write_before(chunk, &before);
}

static void make_bf16(struct chunk *chunk, const struct span *span, int block, int channel)
{
    const char *next = next_result(chunk, span, block, channel);
    bool narrow = chunk->job->out_c - channel <= WIDE;
    if (chunk->step_count >= STEPS_LEAST && !narrow) {
        make_and_stay(chunk, span, block, channel, next);
        return;
    }
    if (narrow) {
        empty_tiles(chunk);
        multiply_one(chunk, span, block, channel);
    } else if (next) {
        multiply_ahead(chunk, span, block, channel, next);
    } else {
        multiply_two(chunk, span, block, channel);
    }
    __asm__ volatile("" ::: "memory");
    write_bf16(chunk, span, block, channel);
}

/* ---- blocks of float32: each is written between the next one's products ---- */

/* A block's sums, while those of the one before are written. */
XT_INLINE void multiply_f32(struct chunk *chunk, const struct span *span, int block, int channel,
                            int panels, enum then then)
{
    const struct xt_tile_conv *job = chunk->job;
    size_t panel = chunk->panel;
    const char *right = (const char *)job->weights + (size_t)(channel / WIDE) * panel;
    const char *left = (const char *)span->left + (size_t)tile_start(span, 2 * block) * LINE;
    size_t lower = (size_t)(tile_start(span, 2 * block + 1) - tile_start(span, 2 * block)) * LINE;
    const struct step *end = chunk->steps + chunk->step_count;
    const char *ahead = chunk->ahead;
    const char *next = next_result(chunk, span, block, channel);
    int results = next ? chunk->results : 0;
    size_t due = chunk->due;
    struct written w = chunk->written;
    struct block before;
    begin_block(job, w.channel, then, true, &before);
    zero_sums();
    for (const struct step *step = chunk->steps; step < end; step++) {
        const char *b = right + step->right;
        const struct products of = {.left = left + step->left,
                                    .lower = lower,
                                    .row = LINE,
                                    .left_summand = chunk->summand,
                                    .right = {b, b + panel},
                                    .right_summand = panel / XT_SUMMANDS};
#pragma GCC unroll 6
        for (size_t i = 0; i < XT_PRODUCTS_F32; i++) {
            add_product_f32(&of, i, 2, panels);
            if (i % 2)
                fetch_right(right + step[1].right + i / 2 * of.right_summand, panel, panels);
            write_rows(chunk, &w, chunk->rows, then, &before);
        }
        for (due += chunk->rate; due >= 256; due -= 256, ahead += LINE)
            _mm_prefetch(ahead, _MM_HINT_T1);
        for (int i = results; i > 0; i--, next += chunk->fetch_step)
            fetch_result(job, next);
    }
    chunk->ahead = ahead;
    chunk->due = due;
    store_sums(chunk->sums, span->tile_rows);
    write_rows(chunk, &w, w.left, then, &before);
    if (chunk->written.left)
        end_block(job, w.channel, then, true, &before);
}

static __attribute__((noinline)) void
multiply_f32_plain(struct chunk *chunk, const struct span *span, int block, int channel)
{
    multiply_f32(chunk, span, block, channel, 2, NOTHING);
}

static __attribute__((noinline)) void
multiply_f32_statistics(struct chunk *chunk, const struct span *span, int block, int channel)
{
    multiply_f32(chunk, span, block, channel, 2, STATISTICS);
}

static __attribute__((noinline)) void
multiply_f32_gradient(struct chunk *chunk, const struct span *span, int block, int channel)
{
    multiply_f32(chunk, span, block, channel, 2, GRADIENT);
}

static __attribute__((noinline)) void
multiply_f32_uneven(struct chunk *chunk, const struct span *span, int block, int channel)
{
    if (chunk->job->out_c - channel > WIDE)
        multiply_f32(chunk, span, block, channel, 2, UNEVEN);
    else
        multiply_f32(chunk, span, block, channel, 1, UNEVEN);
}

XT_INLINE void write_rest(struct chunk *chunk, enum then then)
{
    struct block block;
    begin_block(chunk->job, chunk->written.channel, then, true, &block);
    write_rows(chunk, &chunk->written, chunk->written.left, then, &block);
    end_block(chunk->job, chunk->written.channel, then, true, &block);
}

/* The chunk's last block is written after its products. */
static void finish_f32(struct chunk *chunk)
{
    switch (chunk->then) {
    case NOTHING:
        write_rest(chunk, NOTHING);
        break;
    case STATISTICS:
        write_rest(chunk, STATISTICS);
        break;
    case GRADIENT:
        write_rest(chunk, GRADIENT);
        break;
    case UNEVEN:
        write_rest(chunk, UNEVEN);
        break;
    }
}

/* What has been multiplied is written next: its positions follow each other, in each tile from the
 * first that no tile before has. */
static void turn_over(struct chunk *chunk, const struct span *span, int block, int channel)
{
    int tile_rows = span->tile_rows;
    int first = 2 * block * tile_rows;
    int start[] = {tile_start(span, 2 * block), tile_start(span, 2 * block + 1)};
    int upper = start[0] + tile_rows - first;
    chunk->written =
        (struct written){.left = start[1] + tile_rows - first,
                         .upper = upper,
                         .sums = chunk->sums + (first - start[0]) * PAIR,
                         .lower = chunk->sums + (tile_rows + first + upper - start[1]) * PAIR,
                         .to = result_at(chunk, span, 2 * block, channel),
                         .x = first % chunk->pitch,
                         .channel = channel};
    set_pivots(chunk, span, block, channel, chunk->sums);
    swap_sums(chunk);
}

static void make_f32(struct chunk *chunk, const struct span *span, int block, int channel)
{
    static void (*const multiply[])(struct chunk *, const struct span *, int,
                                    int) = {[NOTHING] = multiply_f32_plain,
                                            [STATISTICS] = multiply_f32_statistics,
                                            [GRADIENT] = multiply_f32_gradient,
                                            [UNEVEN] = multiply_f32_uneven};
    multiply[chunk->then](chunk, span, block, channel);
    __asm__ volatile("" ::: "memory");
    turn_over(chunk, span, block, channel);
}

/* ---- chunks ---- */

static void set_span(struct span *span, const uint16_t *left, char *out, int count)
{
    int blocks = (count + PAIR - 1) / PAIR;
    *span = (struct span){.left = left,
                          .out = out,
                          .count = count,
                          .tile_rows = (count + 2 * blocks - 1) / (2 * blocks),
                          .blocks = blocks};
}

/* Pixels [first, end): where they are, or their summands in `left`. */
static void take_pixels(struct chunk *chunk, int first, int end, uint16_t *left)
{
    const struct xt_tile_conv *job = chunk->job;
    size_t pixel = (size_t)job->in_c * xt_tile_conv_element(job);
    const char *from = (const char *)job->in + (size_t)first * pixel;
    bool in_place = xt_tile_conv_is_in_place(job);
    if (!in_place)
        copy_row(job, from, end - first, 0, end - first, left);
    chunk->columns = chunk->pitch = end - first;
    chunk->span_count = 1;
    set_span(chunk->spans, in_place ? (const uint16_t *)(const void *)from : left,
             (char *)job->out + (size_t)first * chunk->out_pixel, end - first);
}

static void take_units(struct chunk *chunk, int first, int end, uint16_t *left)
{
    const struct xt_tile_conv *job = chunk->job;
    size_t unit_copy = (size_t)xt_summands_of(job->f32) * xt_tile_conv_summand(job);
    size_t out_pixel = (size_t)job->out_pixel * chunk->out_size;
    size_t out_line = (size_t)job->out_w * out_pixel;
    chunk->span_count = end - first;
    for (int unit = first; unit < end; unit++, left += unit_copy) {
        int row = 0;
        int rows = xt_tile_conv_rows(job, unit, &row);
        size_t line = (size_t)(unit / job->image_units) * (size_t)job->out_h +
                      (size_t)(row * job->out_step_h + job->out_y);
        copy_unit(job, unit, left);
        set_span(&chunk->spans[unit - first], left,
                 (char *)job->out + line * out_line + (size_t)job->out_x * out_pixel,
                 (rows - 1) * job->pitch + job->columns);
    }
}

/* All channels of a block follow each other, so that its results are written together; with weights
 * that L2 does not hold, blocks of the same channels, so that their weights stay there. */
static void make(struct chunk *chunk)
{
    int rows = 0;
    int channels = chunk->job->out_c;
    int pass = chunk->near ? channels : PAIR;
    for (int first = 0; first < channels; first += pass)
        for (int i = 0; i < chunk->span_count; i++) {
            const struct span *span = &chunk->spans[i];
            if (rows != span->tile_rows) {
                empty_tiles(chunk);
                configure_tiles(span->tile_rows);
            }
            rows = span->tile_rows;
            for (int block = 0; block < span->blocks; block++)
                for (int channel = first; channel < first + pass; channel += PAIR) {
                    /* A compiler barrier: tile loads and stores are invisible to the optimiser. */
                    __asm__ volatile("" ::: "memory");
                    if (chunk->job->f32)
                        make_f32(chunk, span, block, channel);
                    else
                        make_bf16(chunk, span, block, channel);
                }
        }
    if (chunk->job->f32)
        finish_f32(chunk);
    else
        empty_tiles(chunk);
}

/* Source bytes of units [first, end) without what they share with the ones before. */
static void look_ahead(struct chunk *chunk, int first, int end)
{
    const struct xt_tile_conv *job = chunk->job;
    size_t steps = 0;
    size_t pixel = (size_t)job->in_c * xt_tile_conv_element(job);
    size_t from = (size_t)first;
    size_t to = (size_t)end;
    if (!job->flat) {
        size_t image = (size_t)job->in_h * (size_t)job->in_w;
        from = from * image / (size_t)job->image_units;
        to = to * image / (size_t)job->image_units;
    }
    for (int i = 0; i < chunk->span_count; i++)
        steps += (size_t)chunk->spans[i].blocks;
    steps *= (size_t)((job->out_c + PAIR - 1) / PAIR) * xt_tile_conv_steps(job);
    size_t lines = (to - from) * pixel / LINE;
    chunk->ahead = (const char *)job->in + from * pixel;
    chunk->rate = steps ? lines * 256 / steps : 0;
    chunk->due = 0;
}

static void list_steps(struct chunk *chunk)
{
    const struct xt_tile_conv *job = chunk->job;
    struct step *step = chunk->steps;
    for (int k = 0; k < xt_tile_conv_blocks(job); k++)
        for (int i = 0; i < job->tap_count; i++) {
            size_t tile = (size_t)(k * job->weight_taps + job->taps[i].weights);
            size_t left = (size_t)k * chunk->block * sizeof(uint16_t);
            step->left = (uint32_t)(left + (size_t)job->offsets[i] * LINE);
            step->right = (uint32_t)(tile * TILE_PAIRS * sizeof *job->weights);
            step++;
        }
    chunk->step_count = (int)(step - chunk->steps);
    if (!chunk->step_count)
        return;
    *step = chunk->steps[0];
    step->right += (uint32_t)(chunk->near ? 2 * chunk->panel : 0);
}

/* Whether two blocks of bf16 are written together: past the caches adjacent lines take less time.
 */
static bool writes_two(const struct chunk *chunk)
{
    const struct xt_tile_conv *job = chunk->job;
    return job->far && !job->adds && !job->f32 && chunk->then != UNEVEN && chunk->near;
}

void XT_LOOPS_NAME(tile_conv)(const struct xt_tile_conv *job, int first, int end, float *scratch)
{
    size_t size = xt_tile_conv_element(job);
    size_t pixel = (size_t)job->out_pixel * size;
    size_t channel = (size_t)xt_summands_of(job->f32) * xt_tile_conv_weights(job) * 2;
    bool in_place = xt_tile_conv_is_in_place(job);
    struct chunk chunk = {.job = job,
                          .then = then_of(job),
                          .begins = true,
                          .near = channel * (size_t)job->out_c <= NEAR_BYTES,
                          .row = in_place ? (size_t)job->in_c * size : LINE,
                          .block = in_place ? DEEP : (size_t)job->block_positions * DEEP,
                          .panel = channel * WIDE,
                          .summand = xt_tile_conv_summand(job) * sizeof(uint16_t),
                          .out_size = size,
                          .columns = job->columns,
                          .pitch = job->pitch,
                          .out_pixel = (size_t)job->out_step_w * pixel,
                          .out_row = (size_t)(job->out_step_h * job->out_w) * pixel,
                          .sums = scratch,
                          .other_sums = scratch + SUMS,
                          .steps = (struct step *)(void *)(scratch + ALL_SUMS)};
    chunk.two_at_once = writes_two(&chunk);
    chunk.in_order = chunk.near && job->out_step_w == 1 && !job->f32;
    chunk.fetch_step = chunk.in_order ? PAIR * size : chunk.out_pixel;
    list_steps(&chunk);
    if (chunk.step_count) {
        int products = chunk.step_count * XT_PRODUCTS_F32;
        chunk.results = (PAIR + chunk.step_count - 1) / chunk.step_count;
        chunk.rows = (PAIR + products - 1) / products;
    }
    for (int next = 0; first < end; first = next) {
        int chunks = (end - first + job->chunk_units - 1) / job->chunk_units;
        int count = (end - first + chunks - 1) / chunks;
        if (job->flat && chunks > 1)
            count = (count + PAIR - 1) / PAIR * PAIR;
        next = first + count < end ? first + count : end;
        uint16_t *left = (uint16_t *)(void *)(scratch + ALL_SUMS + xt_tile_conv_list(job));
        if (job->flat)
            take_pixels(&chunk, first, next, left);
        else
            take_units(&chunk, first, next, left);
        look_ahead(&chunk, next, next + count < end ? next + count : end);
        make(&chunk);
        chunk.begins = false;
    }
    _tile_release();
    _mm_sfence();
}
#endif
