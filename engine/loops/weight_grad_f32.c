/* One part of a convolution's weight gradient in float32 by AVX-512; weight_grad_job.h says how it
 * is divided. A tile of the gradient, some input channels by some sixteens of output channels,
 * stays in registers over a chunk's pixels, which are not copied. */
#include "engine/loops/table.h"

#ifdef __AVX512F__
#include <string.h>

#include "engine/loops/ahead.h"
#include "engine/loops/weight_grad_tile.h"

enum {
    SEGMENTS = XT_F32_BLOCKS * XT_TILE_PIXELS /* rows of one pixel */
};

/* Pixels of one row, of both tensors. */
struct segment {
    const float *in, *out_grad;
    int count;
};

struct part {
    const struct xt_weight_grad *job;
    int in_first, in_end;       /* channels */
    int tile_first, tile_count; /* sixteens of output channels */
    float *sums;
    float *bias; /* NULL: another part computes it, or it is not needed */
    struct segment segments[SEGMENTS];
    int count;
    struct xt_ahead ahead;
};

/* Adds the chunk's sums of `rows` input channels from `i` on, and `wide` sixteens of output
 * channels, the last with `mask`. */
XT_INLINE void add_tile(struct part *part, int i, int o, float *const *to, __mmask16 mask, int rows,
                        int wide)
{
    size_t in_step = (size_t)part->job->in_c * (size_t)part->job->stride_w;
    size_t out_step = (size_t)part->job->out_c;
    struct xt_ahead ahead = part->ahead;
    __m512 sums[8][4];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < wide; v++)
            sums[r][v] = _mm512_setzero_ps();
    for (int s = 0; s < part->count; s++) {
        const float *in = part->segments[s].in + i;
        const float *out = part->segments[s].out_grad + o;
        for (int x = 0; x < part->segments[s].count; x++) {
            __m512 g[4];
            for (int v = 0; v < wide; v++)
                g[v] = v + 1 < wide ? _mm512_loadu_ps(out + v * CHANNELS)
                                    : _mm512_maskz_loadu_ps(mask, out + v * CHANNELS);
            for (int r = 0; r < rows; r++) {
                __m512 one = _mm512_set1_ps(in[r]);
                for (int v = 0; v < wide; v++)
                    sums[r][v] = _mm512_fmadd_ps(one, g[v], sums[r][v]);
            }
            in += in_step;
            out += out_step;
            fetch(&ahead);
        }
    }
    part->ahead = ahead;
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < wide; v++) {
            float *at = to[v] + r * CHANNELS;
            _mm512_storeu_ps(at, _mm512_add_ps(_mm512_loadu_ps(at), sums[r][v]));
        }
}

/* The input channels of one tap and `wide` tiles of output channels from `tile` on. As many rows as
 * fill the registers, within one sixteen. */
XT_INLINE void add_tap(struct part *part, int tap, int tile, int wide)
{
    const struct xt_weight_grad *job = part->job;
    int o = tile * CHANNELS;
    int last = job->out_c - o - (wide - 1) * CHANNELS;
    __mmask16 mask = tile_mask(last);
    for (int i = part->in_first; i < part->in_end;) {
        float *to[4];
        int left = part->in_end - i;
        int rows = wide < 4 && left >= 8 ? 8 : left >= 4 ? 4 : left;
        for (int v = 0; v < wide; v++) {
            size_t block = (size_t)(tile + v) * (size_t)job->left_tiles + (size_t)(i / CHANNELS);
            to[v] = part->sums + (block * (size_t)job->taps + (size_t)tap) * SUMS +
                    i % CHANNELS * CHANNELS;
        }
        if (rows == 8 && wide < 4)
            add_tile(part, i, o, to, mask, 8, wide);
        else if (rows == 4)
            add_tile(part, i, o, to, mask, 4, wide);
        else if (rows == 3)
            add_tile(part, i, o, to, mask, 3, wide);
        else if (rows == 2)
            add_tile(part, i, o, to, mask, 2, wide);
        else
            add_tile(part, i, o, to, mask, 1, wide);
        i += rows;
    }
}

/* The output columns [*first, *end) whose input pixel, shifted by x, is inside the image. */
static void columns_of(const struct xt_weight_grad *job, int x, int *first, int *end)
{
    int at = x - job->pad_w;
    *first = at < 0 ? (-at + job->stride_w - 1) / job->stride_w : 0;
    *end = job->w > at ? (job->w - at + job->stride_w - 1) / job->stride_w : 0;
    if (*end > job->out_w)
        *end = job->out_w;
}

/* The products of tap `tap` in units [unit, end). */
static void find_segments(struct part *part, int tap, int unit, int end)
{
    const struct xt_weight_grad *job = part->job;
    size_t in_c = (size_t)job->in_c;
    size_t out_c = (size_t)job->out_c;
    const float *in = job->in;
    const float *out_grad = job->out_grad;
    part->count = 0;
    if (job->flat) {
        size_t first = (size_t)unit * XT_TILE_PIXELS;
        size_t all = (size_t)job->n * (size_t)job->h * (size_t)job->w;
        size_t last = (size_t)end * XT_TILE_PIXELS < all ? (size_t)end * XT_TILE_PIXELS : all;
        part->segments[part->count++] =
            (struct segment){in + first * in_c, out_grad + first * out_c, (int)(last - first)};
        return;
    }
    int y = tap / job->kernel_w - job->pad_h;
    int x = tap % job->kernel_w;
    int from = 0;
    int to = 0;
    columns_of(job, x, &from, &to);
    for (; unit < end && from < to; unit++) {
        size_t n = (size_t)(unit / job->image_units);
        int row = unit % job->image_units * job->unit_rows;
        int last = row + job->unit_rows < job->out_h ? row + job->unit_rows : job->out_h;
        for (; row < last; row++) {
            int at = row * job->stride_h + y;
            if (at < 0 || at >= job->h)
                continue;
            size_t in_row = (n * (size_t)job->h + (size_t)at) * (size_t)job->w;
            size_t out_row = (n * (size_t)job->out_h + (size_t)row) * (size_t)job->out_w;
            part->segments[part->count++] = (struct segment){
                in + (in_row + (size_t)(from * job->stride_w + x - job->pad_w)) * in_c,
                out_grad + (out_row + (size_t)from) * out_c, to - from};
        }
    }
}

static void add_bias(struct part *part, int unit, int end)
{
    const struct xt_weight_grad *job = part->job;
    size_t first = xt_weight_grad_pixel(job, true, unit);
    size_t last = xt_weight_grad_pixel(job, true, end);
    size_t c = (size_t)job->out_c;
    for (int t = part->tile_first; t < part->tile_first + part->tile_count; t++) {
        int left = job->out_c - t * CHANNELS;
        __mmask16 mask = tile_mask(left);
        const float *from = (const float *)job->out_grad + t * CHANNELS;
        __m512 sum = _mm512_setzero_ps();
        for (size_t i = first; i < last; i++)
            sum = _mm512_add_ps(sum, _mm512_maskz_loadu_ps(mask, from + i * c));
        float *to = part->bias + t * CHANNELS;
        _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to), sum));
    }
}

static void add_chunk(struct part *part, int unit, int end)
{
    int last = part->tile_first + part->tile_count;
    if (part->bias)
        add_bias(part, unit, end);
    for (int tap = 0; tap < part->job->taps; tap++) {
        find_segments(part, tap, unit, end);
        int tile = part->tile_first;
        for (; tile + 4 <= last; tile += 4)
            add_tap(part, tap, tile, 4);
        for (; tile + 2 <= last; tile += 2)
            add_tap(part, tap, tile, 2);
        for (; tile < last; tile++)
            add_tap(part, tap, tile, 1);
    }
}

/* The sums of this share's tiles. */
static void clear_sums(const struct part *part)
{
    size_t taps = (size_t)part->job->taps;
    int first = part->in_first / CHANNELS;
    int end = (part->in_end + CHANNELS - 1) / CHANNELS;
    for (int t = part->tile_first; t < part->tile_first + part->tile_count; t++) {
        size_t row = (size_t)t * (size_t)part->job->left_tiles;
        memset(part->sums + (row + (size_t)first) * taps * SUMS, 0,
               (size_t)(end - first) * taps * SUMS * sizeof(float));
    }
}

void XT_LOOPS_NAME(weight_grad_f32)(const struct xt_weight_grad *job, int number)
{
    int share = number % job->shares;
    struct part part = {.job = job,
                        .sums = xt_weight_grad_sums(job, number / job->shares),
                        .bias = xt_weight_grad_bias(job, number)};
    int tiles = xt_weight_grad_share(job, share, true, &part.in_first);
    part.in_first *= CHANNELS;
    part.in_end = part.in_first + tiles * CHANNELS;
    part.in_end = part.in_end < job->in_c ? part.in_end : job->in_c;
    part.tile_count = xt_weight_grad_share(job, share, false, &part.tile_first);
    if (!job->adds) {
        memset(part.bias, 0, job->part_bytes - job->bias_at);
        clear_sums(&part);
    }
    if (!job->bias_grad || (share > 0 && job->shares_left))
        part.bias = NULL;
    int unit = 0;
    int end = xt_weight_grad_units(job, number, &unit);
    for (int next = 0; unit < end; unit = next) {
        next = end - unit < job->chunk_units ? end : unit + job->chunk_units;
        int turns = 3 * XT_TILE_PIXELS * job->taps * ((part.in_end - part.in_first + 3) / 4) *
                    ((part.tile_count + 3) / 4);
        look_ahead(&part.ahead, job, next,
                   end - next < job->chunk_units ? end : next + job->chunk_units, (size_t)turns);
        add_chunk(&part, unit, next);
    }
}

#endif
