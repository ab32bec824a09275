/* The input's gradient by AMX; data_grad_job.h says of which matrices. */
#include "models/graph/loops/table.h"

#ifdef __AMX_BF16__
#include <immintrin.h>
#include <string.h>

enum {
    DEEP = 32, /* of either matrix in a tile */
    WIDE = XT_DATA_GRAD_WIDE,
    TILE = DEEP * WIDE,
    LINE = 64 /* bytes of a tile's row */
};

/* Samples whose rows of the left matrix are there at a time. */
struct chunk {
    const struct xt_data_grad *job;
    int rows;      /* of theirs */
    int tile_rows; /* of the left matrix's tiles, which go by twos */
    int blocks;
    size_t row; /* elements of a row */
    uint16_t *left;
    float *sums; /* of two by two tiles */
    uint16_t *in_grad;
};

/* What a row of the input gets: `steps` tiles from some column of the left matrix on, and from some
 * row of pairs of the right one. */
struct stretch {
    int y;
    int steps;
    size_t column, pair;
};

static void gather(const struct chunk *chunk, const uint16_t *out_grad)
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
            memcpy(to, out_grad + pixel * c, c * sizeof *to);
            to[channels - 1] = channels > c ? 0 : to[channels - 1];
        }
        memset(to, 0, (chunk->row - columns) * sizeof *to);
    }
    size_t rest = (size_t)(2 * chunk->blocks * chunk->tile_rows - chunk->rows);
    memset(chunk->left + (size_t)chunk->rows * chunk->row, 0,
           rest * chunk->row * sizeof *chunk->left);
}

static void configure(const struct chunk *chunk)
{
    struct {
        uint8_t palette, start, reserved[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } tiles = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        tiles.bytes[i] = LINE;
        tiles.rows[i] = (uint8_t)(i < 6 ? chunk->tile_rows : WIDE);
    }
    _tile_loadconfig(&tiles);
}

static struct stretch stretch_of(const struct xt_data_grad *job, int y)
{
    int channels = xt_data_grad_channels(job);
    int last = y < job->out_h ? y : job->out_h - 1;
    int first = y < job->kernel_h ? 0 : y - job->kernel_h + 1;
    return (struct stretch){.y = y,
                            .steps = ((last - first + 1) * channels + DEEP - 1) / DEEP,
                            .column = (size_t)((job->out_h - 1 - last) * channels),
                            .pair = (size_t)((y - last) * channels / 2)};
}

/* Two by two tiles of sums, from the first row of the left ones. */
XT_INLINE void multiply(const struct chunk *chunk, const struct stretch *stretch,
                        const uint16_t *left, const uint32_t *const right[2])
{
    size_t stride = chunk->row * sizeof *left;
    size_t lower = (size_t)chunk->tile_rows;
    const uint16_t *left0 = left + stretch->column;
    const uint16_t *left1 = left0 + lower * chunk->row;
    const uint32_t *right0 = right[0] + stretch->pair * WIDE;
    const uint32_t *right1 = right[1] + stretch->pair * WIDE;
    _tile_zero(0);
    _tile_zero(1);
    _tile_zero(2);
    _tile_zero(3);
    for (int i = 0; i < stretch->steps; i++) {
        _tile_loadd(4, left0, stride);
        _tile_loadd(6, right0, LINE);
        _tile_dpbf16ps(0, 4, 6);
        _tile_loadd(7, right1, LINE);
        _tile_dpbf16ps(1, 4, 7);
        _tile_loadd(5, left1, stride);
        _tile_dpbf16ps(2, 5, 6);
        _tile_dpbf16ps(3, 5, 7);
        left0 += DEEP;
        left1 += DEEP;
        right0 += TILE / 2;
        right1 += TILE / 2;
    }
    float *sums = chunk->sums;
    _tile_stored(0, sums, 2 * LINE);
    _tile_stored(1, sums + WIDE, 2 * LINE);
    _tile_stored(2, sums + 2 * WIDE * lower, 2 * LINE);
    _tile_stored(3, sums + 2 * WIDE * lower + WIDE, 2 * LINE);
}

/* Sums of rows from `first` on become the gradient of two tiles' channels. */
XT_INLINE void write(const struct chunk *chunk, int y, int first, size_t channel)
{
    const struct xt_data_grad *job = chunk->job;
    size_t c = (size_t)job->in_c;
    int x = first % job->w;
    int end =
        first + 2 * chunk->tile_rows < chunk->rows ? first + 2 * chunk->tile_rows : chunk->rows;
    size_t row = (size_t)(first / job->w) * (size_t)job->h + (size_t)y;
    uint16_t *to = chunk->in_grad + (row * (size_t)job->w + (size_t)x) * c + channel;
    const float *sums = chunk->sums;
    for (int i = first; i < end; i++) {
        __m512 low = _mm512_load_ps(sums);
        __m512 high = _mm512_load_ps(sums + WIDE);
        _mm512_storeu_si512(to, (__m512i)_mm512_cvtne2ps_pbh(high, low));
        sums += 2 * WIDE;
        to += c;
        if (++x == job->w) {
            x = 0;
            to += (size_t)(job->h - 1) * (size_t)job->w * c;
        }
    }
}

static void make(const struct chunk *chunk)
{
    const struct xt_data_grad *job = chunk->job;
    size_t pairs = (size_t)xt_data_grad_channels(job) / 2 * (size_t)job->kernel_h;
    size_t panel = (pairs + XT_DATA_GRAD_SPARE) * WIDE;
    configure(chunk);
    for (size_t k = 0; k < (size_t)job->in_c; k += 2 * WIDE) {
        const uint32_t *right = job->weights + k / WIDE * panel;
        for (int y = 0; y < job->h; y++) {
            struct stretch stretch = stretch_of(job, y);
            for (int i = 0; i < chunk->rows; i += 2 * chunk->tile_rows) {
                /* The tiles are read from memory, and written to it, behind the compiler's back. */
                __asm__ volatile("" ::: "memory");
                multiply(chunk, &stretch, chunk->left + (size_t)i * chunk->row,
                         (const uint32_t *[]){right, right + panel});
                __asm__ volatile("" ::: "memory");
                write(chunk, y, i, k);
            }
        }
    }
    _tile_release();
}

void XT_LOOPS_NAME(data_grad)(const struct xt_data_grad *job, int count, const uint16_t *out_grad,
                              uint16_t *in_grad, float *scratch)
{
    enum { SUMS = 4 * WIDE * WIDE };
    int most = job->w < XT_DATA_GRAD_ROWS ? XT_DATA_GRAD_ROWS / job->w : 1;
    size_t out_sample = (size_t)job->out_h * (size_t)job->w * (size_t)job->out_c;
    size_t in_sample = (size_t)job->h * (size_t)job->w * (size_t)job->in_c;
    for (int done = 0; done < count; done += most) {
        int samples = count - done < most ? count - done : most;
        struct chunk chunk = {.job = job,
                              .rows = samples * job->w,
                              .row = xt_data_grad_row(job),
                              .left = (uint16_t *)(void *)(scratch + SUMS),
                              .sums = scratch,
                              .in_grad = in_grad + (size_t)done * in_sample};
        chunk.blocks = (chunk.rows + 2 * WIDE - 1) / (2 * WIDE);
        chunk.tile_rows = (chunk.rows + 2 * chunk.blocks - 1) / (2 * chunk.blocks);
        gather(&chunk, out_grad + (size_t)done * out_sample);
        make(&chunk);
    }
}
#endif
