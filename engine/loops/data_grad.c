/* The input's gradient by AMX; data_grad_job.h defines the matrices. */
#include "engine/loops/table.h"

#ifdef __AMX_BF16__
#include <immintrin.h>
#include <string.h>

#include "engine/loops/split.h"
#include "engine/loops/tiles.h"

enum {
    DEEP = 32, /* elements of a tile's row, in either matrix */
    WIDE = XT_DATA_GRAD_WIDE,
    TILE = DEEP * WIDE
};

/* Samples whose rows of the left matrix are in scratch at a time. */
struct chunk {
    const struct xt_data_grad *job;
    int rows;      /* of theirs */
    int tile_rows; /* of the left matrix's tiles, which are used in pairs */
    int blocks;
    size_t row;     /* elements of a row */
    size_t summand; /* elements of a summand of the left matrix */
    size_t element; /* bytes of a gradient's */
    uint16_t *left;
    float *sums; /* of two by two tiles */
    char *in_grad;
};

/* A block of the product is two by two tiles: sums of a row of the input. */
struct block {
    int y;
    int first; /* of the left matrix's rows */
    size_t channel;
    int steps; /* tiles of either matrix, from here on: */
    size_t left_column, right_pair;
};

/* The destinations of a block's rows, in order. */
struct rows {
    char *to;
    int x, count;
};

/* A pixel's channels. */
static void copy_pixel(const struct chunk *chunk, const char *from, uint16_t *to)
{
    enum { SPLIT = XT_SPLIT };
    size_t c = (size_t)chunk->job->out_c;
    if (!chunk->job->f32) {
        memcpy(to, from, c * sizeof *to);
        return;
    }
    _Alignas(LINE) uint16_t summands[XT_SUMMANDS * SPLIT];
    for (size_t k = 0; k < c; k += SPLIT) {
        size_t count = c - k < SPLIT ? c - k : SPLIT;
        split((const float *)(const void *)from + k, lanes_of((int)count), SPLIT, summands);
        for (size_t i = 0; i < XT_SUMMANDS; i++)
            memcpy(to + i * chunk->summand + k, summands + i * SPLIT, count * sizeof *to);
    }
}

/* Sets `count` elements of each summand to zero. */
static void clear(const struct chunk *chunk, uint16_t *to, size_t count)
{
    for (int i = 0; i < xt_summands_of(chunk->job->f32); i++, to += chunk->summand)
        memset(to, 0, count * sizeof *to);
}

static void fill_left(const struct chunk *chunk, const char *out_grad)
{
    const struct xt_data_grad *job = chunk->job;
    size_t c = (size_t)job->out_c;
    size_t channels = (size_t)xt_data_grad_channels(job);
    size_t columns = (size_t)job->out_h * channels;
    for (int i = 0; i < chunk->rows; i++) {
        uint16_t *to = chunk->left + (size_t)i * chunk->row;
        size_t sample = (size_t)(i / job->w) * (size_t)job->out_h;
        for (int y = job->out_h - 1; y >= 0; y--, to += channels) {
            size_t pixel = (sample + (size_t)y) * (size_t)job->w + (size_t)(i % job->w);
            copy_pixel(chunk, out_grad + pixel * c * chunk->element, to);
            clear(chunk, to + c, channels - c);
        }
        clear(chunk, to, chunk->row - columns);
    }
    size_t rest = (size_t)(2 * chunk->blocks * chunk->tile_rows - chunk->rows);
    clear(chunk, chunk->left + (size_t)chunk->rows * chunk->row, rest * chunk->row);
}

/* Blocks of the same channels follow each other, so that their weights stay in cache. */
static struct block block_of(const struct chunk *chunk, int number)
{
    const struct xt_data_grad *job = chunk->job;
    int channels = xt_data_grad_channels(job);
    int y = number / chunk->blocks % job->h;
    int last = y < job->out_h ? y : job->out_h - 1;
    int first = y < job->kernel_h ? 0 : y - job->kernel_h + 1;
    return (struct block){.y = y,
                          .first = number % chunk->blocks * 2 * chunk->tile_rows,
                          .channel = (size_t)(number / chunk->blocks / job->h * 2 * WIDE),
                          .steps = ((last - first + 1) * channels + DEEP - 1) / DEEP,
                          .left_column = (size_t)((job->out_h - 1 - last) * channels),
                          .right_pair = (size_t)((y - last) * channels / 2)};
}

static struct rows rows_of(const struct chunk *chunk, const struct block *block)
{
    const struct xt_data_grad *job = chunk->job;
    size_t row = (size_t)(block->first / job->w) * (size_t)job->h + (size_t)block->y;
    size_t pixel = row * (size_t)job->w + (size_t)(block->first % job->w);
    int left = chunk->rows - block->first;
    size_t at = pixel * (size_t)job->in_c + block->channel;
    return (struct rows){.to = chunk->in_grad + at * chunk->element,
                         .x = block->first % job->w,
                         .count = left < 2 * chunk->tile_rows ? left : 2 * chunk->tile_rows};
}

XT_INLINE void next_row(struct rows *rows, const struct xt_data_grad *job, bool f32)
{
    size_t pixels = 1;
    if (++rows->x == job->w) {
        rows->x = 0;
        pixels += (size_t)(job->h - 1) * (size_t)job->w;
    }
    rows->to += pixels * (size_t)job->in_c * (f32 ? sizeof(float) : sizeof(uint16_t));
    rows->count--;
}

/* Prefetches lines that the next block will write. */
XT_INLINE void fetch(struct rows *rows, const struct xt_data_grad *job, bool f32)
{
    enum { ROWS = 3 };
    for (int i = 0; i < ROWS && rows->count > 0; i++) {
        __builtin_prefetch(rows->to, 1);
        if (f32)
            __builtin_prefetch(rows->to + LINE, 1);
        next_row(rows, job, f32);
    }
}

XT_INLINE void multiply(const struct chunk *chunk, const struct block *block, struct rows next,
                        bool f32)
{
    const struct xt_data_grad *job = chunk->job;
    size_t pairs = (size_t)xt_data_grad_channels(job) / 2 * (size_t)job->kernel_h;
    size_t summand = (pairs + XT_DATA_GRAD_SPARE) * WIDE;
    size_t panel = (size_t)xt_summands_of(f32) * summand;
    size_t row = chunk->row * sizeof *chunk->left;
    const uint16_t *left = chunk->left + (size_t)block->first * chunk->row + block->left_column;
    const uint32_t *right = job->weights + block->channel / WIDE * panel + block->right_pair * WIDE;
    zero_sums();
    for (int i = 0; i < block->steps; i++) {
        const struct products of = {.left = (const char *)left,
                                    .lower = (size_t)chunk->tile_rows * row,
                                    .row = row,
                                    .left_summand = chunk->summand * sizeof *left,
                                    .right = {(const char *)right, (const char *)(right + panel)},
                                    .right_summand = summand * sizeof *right};
        if (f32)
            add_products_f32(&of, 2, 2);
        else
            add_products_bf16(&of, 2, 2);
        left += DEEP;
        right += TILE / 2;
        fetch(&next, job, f32);
    }
    store_sums(chunk->sums, chunk->tile_rows);
}

/* The sums become the gradient of two tiles' channels. */
XT_INLINE void write(const struct chunk *chunk, struct rows rows, bool f32)
{
    for (const float *sums = chunk->sums; rows.count > 0; sums += 2 * WIDE) {
        __m512 low = _mm512_load_ps(sums);
        __m512 high = _mm512_load_ps(sums + WIDE);
        if (f32) {
            _mm512_storeu_ps(rows.to, low);
            _mm512_storeu_ps(rows.to + LINE, high);
        } else {
            _mm512_storeu_si512(rows.to, (__m512i)_mm512_cvtne2ps_pbh(high, low));
        }
        next_row(&rows, chunk->job, f32);
    }
}

XT_INLINE void make(const struct chunk *chunk, bool f32)
{
    int count = chunk->job->in_c / (2 * WIDE) * chunk->job->h * chunk->blocks;
    struct block block = block_of(chunk, 0);
    struct rows rows = rows_of(chunk, &block);
    configure_tiles(chunk->tile_rows);
    for (int i = 1; i <= count; i++) {
        struct block next = block_of(chunk, i < count ? i : 0);
        struct rows next_rows = rows_of(chunk, &next);
        /* A compiler barrier: tile loads and stores are invisible to the optimiser. */
        __asm__ volatile("" ::: "memory");
        multiply(chunk, &block, next_rows, f32);
        __asm__ volatile("" ::: "memory");
        write(chunk, rows, f32);
        block = next;
        rows = next_rows;
    }
    _tile_release();
}

void XT_LOOPS_NAME(data_grad)(const struct xt_data_grad *job, int count, const void *out_grad,
                              void *in_grad, float *scratch)
{
    enum { SUMS = 4 * WIDE * WIDE };
    int most = job->w < XT_DATA_GRAD_ROWS ? XT_DATA_GRAD_ROWS / job->w : 1;
    size_t element = job->f32 ? sizeof(float) : sizeof(uint16_t);
    size_t out_sample = (size_t)job->out_h * (size_t)job->w * (size_t)job->out_c * element;
    size_t in_sample = (size_t)job->h * (size_t)job->w * (size_t)job->in_c * element;
    for (int done = 0; done < count; done += most) {
        int samples = count - done < most ? count - done : most;
        struct chunk chunk = {.job = job,
                              .rows = samples * job->w,
                              .row = xt_data_grad_row(job),
                              .summand = xt_data_grad_rows(job) * xt_data_grad_row(job),
                              .element = element,
                              .left = (uint16_t *)(void *)(scratch + SUMS),
                              .sums = scratch,
                              .in_grad = (char *)in_grad + (size_t)done * in_sample};
        chunk.blocks = (chunk.rows + 2 * WIDE - 1) / (2 * WIDE);
        chunk.tile_rows = (chunk.rows + 2 * chunk.blocks - 1) / (2 * chunk.blocks);
        fill_left(&chunk, (const char *)out_grad + (size_t)done * out_sample);
        if (job->f32)
            make(&chunk, true);
        else
            make(&chunk, false);
    }
}
#endif
