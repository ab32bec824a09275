/* Batch normalisation, ReLU and the pools that read it. Rows are taken one at a time: a row is
 * activated into float32 scratch that stays in the first-level cache, and everything that reads it
 * follows at once.
 */
#include "models/loops/loops.h"

#include "models/loops/element.h"

/* Scratch: two activated rows' worth of float32 for the row, its gradient and the average's column
 * sums, and for each of kernel_h rows the horizontal maxima and their places. */
struct rows {
    float *row;
    float *column;  /* [w][c] sums down a window of the average pool, or its gradient spread over a
                       row */
    float *ring;    /* [kernel_h][out_w][c] horizontal maxima */
    uint8_t *place; /* [kernel_h][out_w][c] their kx */
    float *sum;     /* [c] */
    float *sum_z;   /* [c] */
};

static struct rows split(const struct xt_norm_sample *s)
{
    size_t row = (size_t)s->w * (size_t)s->c;
    size_t ring = s->pooled || s->dpooled[0]
                      ? (size_t)s->max.kernel_h * (size_t)s->max.out_w * (size_t)s->c
                      : 0;
    struct rows r = {.row = s->scratch, .column = s->scratch + row};
    r.ring = r.column + row;
    r.sum = r.ring + ring;
    r.sum_z = r.sum + s->c;
    r.place = (uint8_t *)(r.sum_z + s->c);
    return r;
}

XT_INLINE void activate_row(const struct xt_norm_sample *s, int y, float *row, enum xt_dtype dtype,
                            bool relu, bool residual)
{
    size_t c = (size_t)s->c;
    size_t first = (size_t)y * (size_t)s->w * c;
    const float *scale = s->scale;
    const float *shift = s->shift;
    for (int x = 0; x < s->w; x++) {
        size_t base = first + (size_t)x * c;
        float *out = row + (size_t)x * c;
#pragma omp simd
        for (size_t k = 0; k < c; k++) {
            float v = load(s->z, base + k, dtype) * scale[k] + shift[k];
            if (residual)
                v += load(s->residual, base + k, dtype);
            out[k] = relu && !(v > 0) ? 0 : v;
        }
    }
}

XT_INLINE void store_row(void *to, size_t first, const float *row, size_t count,
                         enum xt_dtype dtype)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        store(to, first + i, row[i], dtype);
}

/* The horizontal maxima of a row, and which column of the window held the first largest. */
static void max_across(const struct xt_norm_sample *s, const float *row, float *best,
                       uint8_t *place)
{
    size_t c = (size_t)s->c;
    for (int ox = 0; ox < s->max.out_w; ox++) {
        float *b = best + (size_t)ox * c;
        uint8_t *p = place + (size_t)ox * c;
        int left = ox * s->max.stride_w - s->max.pad_w;
        int from = left < 0 ? -left : 0;
        int to = left + s->max.kernel_w > s->w ? s->w - left : s->max.kernel_w;
        const float *in = row + (size_t)(left + from) * c;
        memcpy(b, in, c * sizeof *b);
        memset(p, from, c);
        for (int kx = from + 1; kx < to; kx++) {
            in += c;
            uint8_t here = (uint8_t)kx;
#pragma omp simd
            for (size_t k = 0; k < c; k++) {
                p[k] = in[k] > b[k] ? here : p[k];
                b[k] = in[k] > b[k] ? in[k] : b[k];
            }
        }
    }
}

/* One row of the max pool from the ring of horizontal maxima. */
XT_INLINE void max_down(const struct xt_norm_sample *s, const struct rows *r, int oy,
                        enum xt_dtype dtype, bool keep_winner)
{
    size_t count = (size_t)s->max.out_w * (size_t)s->c;
    int top = oy * s->max.stride_h - s->max.pad_h;
    int from = top < 0 ? -top : 0;
    int to = top + s->max.kernel_h > s->h ? s->h - top : s->max.kernel_h;
    size_t first = (size_t)oy * count;
    float *best = r->row;
    size_t slot = (size_t)((top + from) % s->max.kernel_h);
    memcpy(best, r->ring + slot * count, count * sizeof *best);
    uint8_t *winner = keep_winner ? s->winner + first : NULL;
    if (keep_winner) {
        const uint8_t *place = r->place + slot * count;
        uint8_t base = (uint8_t)(from * s->max.kernel_w);
#pragma omp simd
        for (size_t i = 0; i < count; i++)
            winner[i] = (uint8_t)(place[i] + base);
    }
    for (int ky = from + 1; ky < to; ky++) {
        slot = (size_t)((top + ky) % s->max.kernel_h);
        const float *in = r->ring + slot * count;
        const uint8_t *place = r->place + slot * count;
        uint8_t base = (uint8_t)(ky * s->max.kernel_w);
        if (keep_winner) {
#pragma omp simd
            for (size_t i = 0; i < count; i++) {
                winner[i] = in[i] > best[i] ? (uint8_t)(place[i] + base) : winner[i];
                best[i] = in[i] > best[i] ? in[i] : best[i];
            }
        } else {
#pragma omp simd
            for (size_t i = 0; i < count; i++)
                best[i] = in[i] > best[i] ? in[i] : best[i];
        }
    }
    store_row(s->pooled, first, best, count, dtype);
}

/* Whether row `oy` of the max pool has all its input once row y is there. */
static bool pool_row_ready(const struct xt_norm_sample *s, int oy, int y)
{
    int last = oy * s->max.stride_h - s->max.pad_h + s->max.kernel_h - 1;
    return oy < s->max.out_h && (last <= y || y == s->h - 1);
}

static void add_row(float *to, const float *from, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        to[i] += from[i];
}

/* One row of the average pool from the sums down its window. */
static void average_across(const struct xt_norm_sample *s, const float *column, int oy)
{
    size_t c = (size_t)s->c;
    const struct xt_window *w = &s->average;
    float share = 1.0f / (float)(w->kernel_h * w->kernel_w);
    for (int ox = 0; ox < w->out_w; ox++) {
        float *out = s->averaged + ((size_t)oy * (size_t)w->out_w + (size_t)ox) * c;
        const float *in = column + (size_t)(ox * w->stride_w) * c;
        memcpy(out, in, c * sizeof *out);
        for (int kx = 1; kx < w->kernel_w; kx++)
            add_row(out, in + (size_t)kx * c, c);
#pragma omp simd
        for (size_t k = 0; k < c; k++)
            out[k] *= share;
    }
}

static void average_row(const struct xt_norm_sample *s, struct rows *r, int y)
{
    size_t count = (size_t)s->w * (size_t)s->c;
    int oy = y / s->average.kernel_h;
    int ky = y % s->average.kernel_h;
    if (oy >= s->average.out_h)
        return;
    if (ky == 0)
        memcpy(r->column, r->row, count * sizeof *r->column);
    else
        add_row(r->column, r->row, count);
    if (ky == s->average.kernel_h - 1)
        average_across(s, r->column, oy);
}

XT_INLINE void forward(const struct xt_norm_sample *s, enum xt_dtype dtype, bool relu,
                       bool residual)
{
    struct rows r = split(s);
    size_t count = (size_t)s->w * (size_t)s->c;
    size_t ring = (size_t)s->max.out_w * (size_t)s->c;
    int next = 0;
    for (int y = 0; y < s->h; y++) {
        activate_row(s, y, r.row, dtype, relu, residual);
        if (s->y)
            store_row(s->y, (size_t)y * count, r.row, count, dtype);
        if (s->averaged)
            average_row(s, &r, y);
        if (!s->pooled)
            continue;
        size_t slot = (size_t)(y % s->max.kernel_h) * ring;
        max_across(s, r.row, r.ring + slot, r.place + slot);
        for (; pool_row_ready(s, next, y); next++) {
            if (s->winner)
                max_down(s, &r, next, dtype, true);
            else
                max_down(s, &r, next, dtype, false);
        }
    }
}

static void norm_forward(const struct xt_norm_sample *s)
{
    if (s->dtype == XT_F32 && s->residual)
        forward(s, XT_F32, s->relu, true);
    else if (s->dtype == XT_F32)
        forward(s, XT_F32, s->relu, false);
    else if (s->residual)
        forward(s, XT_BF16, s->relu, true);
    else
        forward(s, XT_BF16, s->relu, false);
}

/* Adds the max pool's gradients that land in row y. */
XT_INLINE void scatter_max(const struct xt_norm_sample *s, int y, float *row, enum xt_dtype dtype,
                           bool two)
{
    const struct xt_window *m = &s->max;
    size_t c = (size_t)s->c;
    for (int ky = 0; ky < m->kernel_h; ky++) {
        int top = y + m->pad_h - ky;
        if (top < 0 || top % m->stride_h || top / m->stride_h >= m->out_h)
            continue;
        size_t line = (size_t)(top / m->stride_h) * (size_t)m->out_w;
        for (int ox = 0; ox < m->out_w; ox++) {
            size_t base = (line + (size_t)ox) * c;
            const uint8_t *winner = s->winner + base;
            for (int kx = 0; kx < m->kernel_w; kx++) {
                int x = ox * m->stride_w - m->pad_w + kx;
                if (x < 0 || x >= s->w)
                    continue;
                uint8_t here = (uint8_t)(ky * m->kernel_w + kx);
                float *to = row + (size_t)x * c;
#pragma omp simd
                for (size_t k = 0; k < c; k++) {
                    float g = load(s->dpooled[0], base + k, dtype);
                    if (two)
                        g += load(s->dpooled[1], base + k, dtype);
                    to[k] += winner[k] == here ? g : 0;
                }
            }
        }
    }
}

/* The average pool's gradient, spread over one row of its window. */
static void spread_average(const struct xt_norm_sample *s, int oy, float *column)
{
    const struct xt_window *w = &s->average;
    size_t c = (size_t)s->c;
    float share = 1.0f / (float)(w->kernel_h * w->kernel_w);
    memset(column, 0, (size_t)s->w * c * sizeof *column);
    for (int ox = 0; ox < w->out_w; ox++) {
        const float *g = s->daveraged + ((size_t)oy * (size_t)w->out_w + (size_t)ox) * c;
        for (int kx = 0; kx < w->kernel_w; kx++) {
            float *to = column + (size_t)(ox * w->stride_w + kx) * c;
#pragma omp simd
            for (size_t k = 0; k < c; k++)
                to[k] += g[k] * share;
        }
    }
}

XT_INLINE void read_gradient(const struct xt_norm_sample *s, int y, float *row, enum xt_dtype dtype)
{
    size_t count = (size_t)s->w * (size_t)s->c;
    size_t first = (size_t)y * count;
    if (!s->dy[0]) {
        memset(row, 0, count * sizeof *row);
        return;
    }
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        row[i] = load(s->dy[0], first + i, dtype);
    if (!s->dy[1])
        return;
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        row[i] += load(s->dy[1], first + i, dtype);
}

/* Masks the row's gradient by the ReLU, stores it and adds it to the sums. */
XT_INLINE void finish_row(const struct xt_norm_sample *s, int y, const struct rows *r,
                          enum xt_dtype dtype, bool relu, bool residual)
{
    size_t c = (size_t)s->c;
    size_t first = (size_t)y * (size_t)s->w * c;
    const float *scale = s->scale;
    const float *shift = s->shift;
    const float *pivot = s->pivot;
    float *sum = r->sum;
    float *sum_z = r->sum_z;
    memset(sum, 0, c * sizeof *sum);
    memset(sum_z, 0, c * sizeof *sum_z);
    for (int x = 0; x < s->w; x++) {
        size_t base = first + (size_t)x * c;
        const float *g = r->row + (size_t)x * c;
#pragma omp simd
        for (size_t k = 0; k < c; k++) {
            float z = load(s->z, base + k, dtype);
            float v = z * scale[k] + shift[k];
            if (residual)
                v += load(s->residual, base + k, dtype);
            float da = relu && !(v > 0) ? 0 : g[k];
            store(s->da, base + k, da, dtype);
            sum[k] += da;
            sum_z[k] += da * (z - pivot[k]);
        }
    }
    for (size_t k = 0; k < c; k++) {
        s->sum_da[k] += (double)sum[k];
        s->sum_da_z[k] += (double)sum_z[k];
    }
}

XT_INLINE void backward(const struct xt_norm_sample *s, enum xt_dtype dtype, bool relu,
                        bool residual)
{
    struct rows r = split(s);
    size_t count = (size_t)s->w * (size_t)s->c;
    memset(s->sum_da, 0, (size_t)s->c * sizeof *s->sum_da);
    memset(s->sum_da_z, 0, (size_t)s->c * sizeof *s->sum_da_z);
    for (int y = 0; y < s->h; y++) {
        read_gradient(s, y, r.row, dtype);
        if (s->dpooled[0] && s->dpooled[1])
            scatter_max(s, y, r.row, dtype, true);
        else if (s->dpooled[0])
            scatter_max(s, y, r.row, dtype, false);
        if (s->daveraged && y / s->average.kernel_h < s->average.out_h) {
            if (y % s->average.kernel_h == 0)
                spread_average(s, y / s->average.kernel_h, r.column);
            add_row(r.row, r.column, count);
        }
        finish_row(s, y, &r, dtype, relu, residual);
    }
}

static void norm_backward(const struct xt_norm_sample *s)
{
    if (s->dtype == XT_F32 && s->residual)
        backward(s, XT_F32, s->relu, true);
    else if (s->dtype == XT_F32)
        backward(s, XT_F32, s->relu, false);
    else if (s->residual)
        backward(s, XT_BF16, s->relu, true);
    else
        backward(s, XT_BF16, s->relu, false);
}

XT_INLINE void sums(const void *z, size_t rows, size_t width, int channels, const float *pivot,
                    double *total, double *squares, float *scratch, enum xt_dtype dtype)
{
    size_t c = (size_t)channels;
    float *row_sum = scratch;
    float *row_square = scratch + c;
    memset(total, 0, c * sizeof *total);
    memset(squares, 0, c * sizeof *squares);
    for (size_t y = 0; y < rows; y++) {
        memset(scratch, 0, 2 * c * sizeof *scratch);
        for (size_t x = 0; x < width; x++) {
            size_t base = (y * width + x) * c;
#pragma omp simd
            for (size_t k = 0; k < c; k++) {
                float v = load(z, base + k, dtype) - pivot[k];
                row_sum[k] += v;
                row_square[k] += v * v;
            }
        }
        for (size_t k = 0; k < c; k++) {
            total[k] += (double)row_sum[k];
            squares[k] += (double)row_square[k];
        }
    }
}

static void statistics(enum xt_dtype dtype, const void *z, size_t rows, size_t width, int c,
                       const float *pivot, double *total, double *squares, float *scratch)
{
    if (dtype == XT_F32)
        sums(z, rows, width, c, pivot, total, squares, scratch, XT_F32);
    else
        sums(z, rows, width, c, pivot, total, squares, scratch, XT_BF16);
}

XT_INLINE void apply(const void *da, const void *z, size_t pixels, int channels, const float *a,
                     const float *b, const float *d, void *dz, enum xt_dtype dtype)
{
    size_t c = (size_t)channels;
    for (size_t x = 0; x < pixels; x++) {
        const void *g = at(da, x * c, dtype);
        const void *in = at(z, x * c, dtype);
        void *out = at_out(dz, x * c, dtype);
#pragma omp simd
        for (size_t k = 0; k < c; k++)
            store(out, k, a[k] * load(g, k, dtype) + b[k] * load(in, k, dtype) + d[k], dtype);
    }
}

static void norm_backward_apply(enum xt_dtype dtype, const void *da, const void *z, size_t pixels,
                                int c, const float *a, const float *b, const float *d, void *dz)
{
    if (dtype == XT_F32)
        apply(da, z, pixels, c, a, b, d, dz, XT_F32);
    else
        apply(da, z, pixels, c, a, b, d, dz, XT_BF16);
}

XT_INLINE void add_masked(const void *y, void *dy, const void *more, size_t count,
                          enum xt_dtype dtype)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float g = load(dy, i, dtype) + load(more, i, dtype);
        store(dy, i, load(y, i, dtype) > 0 ? g : 0, dtype);
    }
}

/* A bf16 is above zero when its sign bit is clear and the rest is not zero: the mask needs no
 * conversion. */
static void mask_bf16(const int16_t *y, int16_t *dy, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        dy[i] = y[i] > 0 ? dy[i] : 0;
}

static void mask_f32(const float *y, float *dy, size_t count)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        dy[i] = y[i] > 0 ? dy[i] : 0;
}

static void relu_backward(enum xt_dtype dtype, const void *y, void *dy, const void *more,
                          size_t count)
{
    if (dtype == XT_F32 && more)
        add_masked(y, dy, more, count, XT_F32);
    else if (dtype == XT_F32)
        mask_f32(y, dy, count);
    else if (more)
        add_masked(y, dy, more, count, XT_BF16);
    else
        mask_bf16(y, dy, count);
}

/* A 32-bit mixing function (two multiplications), good enough for a mask and cheap in vector
 * registers. */
XT_INLINE uint32_t hash(uint32_t key, uint32_t i)
{
    uint32_t h = (i ^ key) * 0x7FEB352Du;
    h = (h ^ (h >> 15)) * 0x846CA68Bu;
    return h ^ (h >> 16);
}

XT_INLINE void drop(const void *in, void *out, size_t count, uint32_t key, uint32_t first,
                    uint32_t threshold, float factor, enum xt_dtype dtype)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float v = load(in, i, dtype) * factor;
        store(out, i, hash(key, first + (uint32_t)i) >= threshold ? v : 0, dtype);
    }
}

static void dropout(enum xt_dtype dtype, const void *in, void *out, size_t count, uint32_t key,
                    uint32_t first, uint32_t threshold, float factor)
{
    if (dtype == XT_F32)
        drop(in, out, count, key, first, threshold, factor, XT_F32);
    else
        drop(in, out, count, key, first, threshold, factor, XT_BF16);
}

static void convert(enum xt_dtype dtype, const float *in, size_t count, void *out)
{
    if (dtype == XT_F32)
        memcpy(out, in, count * sizeof *in);
    else
        store_row(out, 0, in, count, XT_BF16);
}

static void normalise(enum xt_dtype dtype, const uint8_t *in, size_t count, float mean, float scale,
                      void *out)
{
    if (dtype == XT_F32) {
        float *to = out;
#pragma omp simd
        for (size_t i = 0; i < count; i++)
            to[i] = ((float)in[i] - mean) * scale;
        return;
    }
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        store(out, i, ((float)in[i] - mean) * scale, XT_BF16);
}

#define XT_STRING(x) #x
#define XT_EXPAND_STRING(x) XT_STRING(x)

extern const struct xt_loops XT_LOOPS_NAME(norm);
const struct xt_loops XT_LOOPS_NAME(norm) = {
    .isa = XT_EXPAND_STRING(XT_LOOPS_ISA),
    .statistics = statistics,
    .norm_forward = norm_forward,
    .norm_backward = norm_backward,
    .norm_backward_apply = norm_backward_apply,
    .relu_backward = relu_backward,
    .dropout = dropout,
    .convert = convert,
    .normalise = normalise,
};
