/* One part of a convolution's weight gradient in float32 by AVX-512 or AVX2; weight_grad_job.h says
 * how it is divided. A tile of the gradient, some input channels by some vectors of output
 * channels, stays in registers over a chunk's pixels, which are not copied. */
#include "engine/loops/table.h"
#include "engine/loops/vector.h"

#ifdef XT_LOOPS_HAVE_VECTORS
#include <string.h>

#include "engine/loops/ahead.h"
#include "engine/loops/weight_grad_job.h"

enum {
    LANES = XT_LANES,
    WIDE = 4, /* vectors */
    ROWS = 8, /* channels */
    FEW_ROWS = 4,
    REGISTERS = LANES == 16 ? 16 : 12,        /* of sums */
    SEGMENTS = XT_F32_BLOCKS * XT_TILE_PIXELS /* rows of one pixel */
};

/* Pixels of one row, of both tensors. */
struct segment {
    const float *in, *out_grad;
    int count;
};

struct part {
    const struct xt_weight_grad *job;
    int in_first, in_end;   /* channels */
    int out_first, out_end; /* likewise, with padding */
    float *sums;
    float *bias; /* NULL: another part computes it, or it is not needed */
    struct segment segments[SEGMENTS];
    int count;
    struct xt_ahead ahead;
};

/* Adds one pixel's products. Either its `rows` numbers or its `wide` vectors stay in registers; the
 * barrier keeps gcc from reading a vector anew for each product. */
XT_INLINE void add_pixel(const float *in, const float *out, int left, xt_vector sums[ROWS][WIDE],
                         int rows, int wide, bool whole)
{
    xt_vector ones[ROWS];
    xt_vector g[WIDE];
    for (int r = 0; r < rows && rows < wide; r++)
        ones[r] = xt_vector_of(in[r]);
    for (int v = 0; v < wide; v++) {
        g[v] = whole ? xt_vector_load(out + v * LANES) : xt_vector_load_some(out, left);
        if (rows >= wide)
            continue;
        __asm__ volatile("" ::: "memory");
        for (int r = 0; r < rows; r++)
            sums[r][v] = xt_vector_add_product(ones[r], g[v], sums[r][v]);
    }
    for (int r = 0; r < rows && rows >= wide; r++) {
        xt_vector one = xt_vector_of(in[r]);
        for (int v = 0; v < wide; v++)
            sums[r][v] = xt_vector_add_product(one, g[v], sums[r][v]);
    }
}

/* Adds the chunk's sums of `rows` input channels from `i` on, and `wide` vectors of output channels
 * from `o` on, or the only one, which is not whole. */
XT_INLINE void add_tile(struct part *part, int i, int o, float *const to[WIDE], int rows, int wide,
                        bool whole)
{
    size_t in_step = (size_t)part->job->in_c * (size_t)part->job->stride_w;
    size_t out_step = (size_t)part->job->out_c;
    int left = part->job->out_c - o;
    struct xt_ahead ahead = part->ahead;
    xt_vector sums[ROWS][WIDE];
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < wide; v++)
            sums[r][v] = xt_vector_of(0);
    for (int s = 0; s < part->count; s++) {
        const float *in = part->segments[s].in + i;
        const float *out = part->segments[s].out_grad + o;
        for (int x = 0; x < part->segments[s].count; x++) {
            add_pixel(in, out, left, sums, rows, wide, whole);
            in += in_step;
            out += out_step;
            fetch(&ahead);
        }
    }
    part->ahead = ahead;
    for (int r = 0; r < rows; r++)
        for (int v = 0; v < wide; v++) {
            float *at = to[v] + r * part->job->edge;
            xt_vector_store(at, xt_vector_load(at) + sums[r][v]);
        }
}

/* The input channels of one tap and `wide` vectors of output channels from `o` on. As many rows as
 * fill the registers, within one tile. */
XT_INLINE void add_tap(struct part *part, int tap, int o, int wide, bool whole)
{
    float *column[WIDE];
    for (int v = 0; v < wide; v++)
        column[v] = part->sums + xt_weight_grad_place(part->job, tap, 0, o + v * LANES);
    for (int i = part->in_first; i < part->in_end;) {
        size_t row = xt_weight_grad_place(part->job, 0, i, 0);
        float *to[WIDE];
        int left = part->in_end - i;
        int rows = ROWS * wide <= REGISTERS && left >= ROWS ? ROWS
                   : left >= FEW_ROWS                       ? FEW_ROWS
                                                            : left;
        for (int v = 0; v < wide; v++)
            to[v] = column[v] + row;
        if (rows == ROWS && ROWS * wide <= REGISTERS)
            add_tile(part, i, o, to, ROWS, wide, whole);
        else if (rows == 4 && 4 * wide <= REGISTERS)
            add_tile(part, i, o, to, 4, wide, whole);
        else if (rows == 3)
            add_tile(part, i, o, to, 3, wide, whole);
        else if (rows == 2)
            add_tile(part, i, o, to, 2, wide, whole);
        else
            add_tile(part, i, o, to, 1, wide, whole);
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

/* Adds `wide` vectors of all pixels, or the only one, of which `left` numbers are. */
XT_INLINE void add_pixels(const float *from, size_t step, size_t pixels, float *to, int wide,
                          int left)
{
    xt_vector sums[WIDE];
    for (int v = 0; v < wide; v++)
        sums[v] = xt_vector_of(0);
    for (; pixels > 0; pixels--, from += step)
        for (int v = 0; v < wide; v++)
            sums[v] +=
                left < LANES ? xt_vector_load_some(from, left) : xt_vector_load(from + v * LANES);
    for (int v = 0; v < wide; v++)
        xt_vector_store(to + v * LANES, xt_vector_load(to + v * LANES) + sums[v]);
}

static void add_bias(struct part *part, int unit, int end)
{
    const struct xt_weight_grad *job = part->job;
    size_t first = xt_weight_grad_pixel(job, true, unit);
    size_t pixels = xt_weight_grad_pixel(job, true, end) - first;
    size_t c = (size_t)job->out_c;
    const float *from = (const float *)job->out_grad + first * c;
    int last = part->out_end < job->out_c ? part->out_end : job->out_c;
    int o = part->out_first;
    for (; o + WIDE * LANES <= last; o += WIDE * LANES)
        add_pixels(from + o, c, pixels, part->bias + o, WIDE, LANES);
    for (; o + LANES <= last; o += LANES)
        add_pixels(from + o, c, pixels, part->bias + o, 1, LANES);
    if (o < last)
        add_pixels(from + o, c, pixels, part->bias + o, 1, last - o);
}

static void add_chunk(struct part *part, int unit, int end)
{
    int last = part->out_end < part->job->out_c ? part->out_end : part->job->out_c;
    int rows = part->in_end - part->in_first < FEW_ROWS ? part->in_end - part->in_first : FEW_ROWS;
    int most = REGISTERS / rows < WIDE ? REGISTERS / rows : WIDE;
    if (part->bias)
        add_bias(part, unit, end);
    for (int tap = 0; tap < part->job->taps; tap++) {
        int o = part->out_first;
        find_segments(part, tap, unit, end);
        for (int wide = 0; o + LANES <= last; o += wide * LANES) {
            wide = xt_vectors_together((last - o) / LANES, most);
            if (wide == WIDE)
                add_tap(part, tap, o, WIDE, true);
            else if (wide == 3)
                add_tap(part, tap, o, 3, true);
            else if (wide == 2)
                add_tap(part, tap, o, 2, true);
            else
                add_tap(part, tap, o, 1, true);
        }
        if (o < last)
            add_tap(part, tap, o, 1, false);
    }
}

/* The sums of this share's tiles. */
static void clear_sums(const struct part *part)
{
    const struct xt_weight_grad *job = part->job;
    int edge = job->edge;
    size_t tiles = (size_t)((part->in_end - part->in_first + edge - 1) / edge);
    for (int o = part->out_first; o < part->out_end; o += edge)
        memset(part->sums + xt_weight_grad_place(job, 0, part->in_first, o), 0,
               tiles * (size_t)(job->taps * edge * edge) * sizeof(float));
}

void XT_LOOPS_NAME(weight_grad_f32)(const struct xt_weight_grad *job, int number)
{
    int share = number % job->shares;
    struct part part = {.job = job,
                        .sums = xt_weight_grad_sums(job, number / job->shares),
                        .bias = xt_weight_grad_bias(job, number)};
    int tiles = xt_weight_grad_share(job, share, true, &part.in_first);
    part.in_first *= job->edge;
    part.in_end = part.in_first + tiles * job->edge;
    part.in_end = part.in_end < job->in_c ? part.in_end : job->in_c;
    tiles = xt_weight_grad_share(job, share, false, &part.out_first);
    part.out_first *= job->edge;
    part.out_end = part.out_first + tiles * job->edge;
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
                    (((part.out_end - part.out_first) / LANES + WIDE - 1) / WIDE);
        look_ahead(&part.ahead, job, next,
                   end - next < job->chunk_units ? end : next + job->chunk_units, (size_t)turns);
        add_chunk(&part, unit, next);
    }
}

#endif
