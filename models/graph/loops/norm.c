/* Batch normalisation, ReLU and the pools that read it.
 *
 * A sample is taken row by row: a row is activated into float32 scratch that stays in the
 * first-level cache, and everything that reads it follows at once. Four pixels are taken together,
 * so that what belongs to a channel (scale, shift, sums) is read and written once for the four.
 */
#include "models/graph/loops/element.h"
#include "models/graph/loops/table.h"

enum { PIXELS = 4, KERNEL = 3 };

/* Where the pieces of a thread's scratch lie. */
struct rows {
    float *row;    /* [w][c] activated, or its gradient */
    float *column; /* [w][c] sums down a window of the average pool, or its gradient spread over a
                      row */
    float *best; /* [KERNEL][out_w][c] horizontal maxima; in bf16 the place is in the lower half */
    int32_t *place; /* [KERNEL][out_w][c] float32: 2 - kx of the maximum */
    float *sum;     /* [c] */
    float *sum_z;   /* [c] */
};

static struct rows split(const struct xt_norm_sample *s)
{
    size_t row = (size_t)s->w * (size_t)s->c;
    size_t ring = (size_t)KERNEL * (size_t)s->max.out_w * (size_t)s->c;
    struct rows r = {.row = s->scratch, .column = s->scratch + row};
    r.best = r.column + row;
    r.sum = r.best + ring;
    r.sum_z = r.sum + s->c;
    r.place = (int32_t *)(r.sum_z + s->c);
    return r;
}

/* ---- forward ---- */

/* Pixels [first, first + pixels) as normalised and activated float32, in bf16 already rounded to
 * what y holds; added to what is there, or in its place. */
XT_INLINE void activate(const struct xt_norm_sample *s, size_t first, size_t pixels, float *out,
                        enum xt_dtype dtype, bool relu, bool residual, bool add)
{
    size_t c = (size_t)s->c;
    const float *scale = s->scale;
    const float *shift = s->shift;
    for (size_t x = 0; x < pixels; x++) {
        size_t base = (first + x) * c;
#pragma omp simd
        for (size_t k = 0; k < c; k++) {
            float v = load(s->z, base + k, dtype) * scale[k] + shift[k];
            if (residual)
                v += load(s->residual, base + k, dtype);
            v = relu && v < 0 ? 0 : v; /* not-a-number stays one */
            v = dtype == XT_F32 ? v : xt_float_of_bits(xt_bf16_round(v) & 0xFFFF0000u);
            out[x * c + k] = add ? out[x * c + k] + v : v;
        }
    }
}

/* The same straight into y, where nothing else reads it. */
XT_INLINE void activate_to_y(const struct xt_norm_sample *s, enum xt_dtype dtype, bool relu,
                             bool residual)
{
    size_t c = (size_t)s->c;
    size_t pixels = (size_t)s->h * (size_t)s->w;
    const float *scale = s->scale;
    const float *shift = s->shift;
    for (size_t x = 0; x < pixels; x++) {
        size_t base = x * c;
#pragma omp simd
        for (size_t k = 0; k < c; k++) {
            float v = load(s->z, base + k, dtype) * scale[k] + shift[k];
            if (residual)
                v += load(s->residual, base + k, dtype);
            store(s->y, base + k, relu && v < 0 ? 0 : v, dtype);
        }
    }
}

/* The horizontal maximum of `count` columns, the first of which is the window's column `from`. Bits
 * of numbers that are not negative order like integers: in bf16 the place goes into the lower half,
 * and one integer maximum finds value and place, the first place winning a tie. */
XT_INLINE void across(const float *in, size_t c, int from, int count, float *best, int32_t *place,
                      enum xt_dtype dtype)
{
#pragma omp simd
    for (size_t k = 0; k < c; k++) {
        if (dtype == XT_BF16) {
            int32_t most = (int32_t)(xt_float_bits(in[k]) | (uint32_t)(2 - from));
            for (int i = 1; i < count; i++) {
                int32_t other =
                    (int32_t)(xt_float_bits(in[(size_t)i * c + k]) | (uint32_t)(2 - from - i));
                most = other > most ? other : most;
            }
            best[k] = xt_float_of_bits((uint32_t)most);
        } else {
            float most = in[k];
            int32_t code = 2 - from;
            for (int i = 1; i < count; i++) {
                float other = in[(size_t)i * c + k];
                code = other > most ? 2 - from - i : code;
                most = other > most ? other : most;
            }
            best[k] = most;
            place[k] = code;
        }
    }
}

XT_INLINE void max_across(const struct xt_norm_sample *s, const float *row, float *best,
                          int32_t *place, enum xt_dtype dtype)
{
    size_t c = (size_t)s->c;
    for (int ox = 0; ox < s->max.out_w; ox++) {
        int left = ox * s->max.stride_w - s->max.pad_w;
        int from = left < 0 ? -left : 0;
        int to = left + KERNEL > s->w ? s->w - left : KERNEL;
        const float *in = row + (size_t)(left + from) * c;
        float *b = best + (size_t)ox * c;
        int32_t *p = place + (size_t)ox * c;
        if (to - from == 3)
            across(in, c, 0, 3, b, p, dtype);
        else if (to - from == 2)
            across(in, c, from, 2, b, p, dtype);
        else
            across(in, c, from, 1, b, p, dtype);
    }
}

/* The maximum of `count` rows of horizontal maxima; the place becomes (2 - ky) * 4 + (2 - kx). */
XT_INLINE void down(float *const best[KERNEL], int32_t *const place[KERNEL], size_t n, int from,
                    int count, void *pooled, uint8_t *winner, enum xt_dtype dtype)
{
#pragma omp simd
    for (size_t i = 0; i < n; i++) {
        int32_t code = 0;
        if (dtype == XT_BF16) {
            int32_t most = (int32_t)(xt_float_bits(best[0][i]) | (uint32_t)(2 - from) * 4);
            for (int r = 1; r < count; r++) {
                int32_t other = (int32_t)(xt_float_bits(best[r][i]) | (uint32_t)(2 - from - r) * 4);
                most = other > most ? other : most;
            }
            ((uint16_t *)pooled)[i] = (uint16_t)((uint32_t)most >> 16);
            code = most & 0xF;
        } else {
            float most = best[0][i];
            code = place[0][i] + (2 - from) * 4;
            for (int r = 1; r < count; r++) {
                float other = best[r][i];
                code = other > most ? place[r][i] + (2 - from - r) * 4 : code;
                most = other > most ? other : most;
            }
            ((float *)pooled)[i] = most;
        }
        if (winner)
            winner[i] = (uint8_t)code;
    }
}

/* Row `oy` of the max pool, from the ring of horizontal maxima. */
XT_INLINE void max_down(const struct xt_norm_sample *s, const struct rows *r, int oy,
                        enum xt_dtype dtype, bool keep)
{
    size_t n = (size_t)s->max.out_w * (size_t)s->c;
    int top = oy * s->max.stride_h - s->max.pad_h;
    int from = top < 0 ? -top : 0;
    int to = top + KERNEL > s->h ? s->h - top : KERNEL;
    float *best[KERNEL] = {r->best, r->best, r->best};
    int32_t *place[KERNEL] = {r->place, r->place, r->place};
    for (int i = 0; i < to - from; i++) {
        size_t slot = (size_t)((top + from + i) % KERNEL) * n;
        best[i] = r->best + slot;
        place[i] = r->place + slot;
    }
    void *pooled = at_out(s->pooled, (size_t)oy * n, dtype);
    uint8_t *winner = keep ? s->winner + (size_t)oy * n : NULL;
    if (to - from == 3)
        down(best, place, n, 0, 3, pooled, winner, dtype);
    else if (to - from == 2)
        down(best, place, n, from, 2, pooled, winner, dtype);
    else
        down(best, place, n, from, 1, pooled, winner, dtype);
}

/* Whether row `oy` of the max pool has all its input once row y is there. */
static bool pool_row_ready(const struct xt_norm_sample *s, int oy, int y)
{
    int last = oy * s->max.stride_h - s->max.pad_h + KERNEL - 1;
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
#pragma omp simd
        for (size_t k = 0; k < c; k++) {
            float sum = in[k];
            for (int kx = 1; kx < w->kernel_w; kx++)
                sum += in[(size_t)kx * c + k];
            out[k] = sum * share;
        }
    }
}

static void average_row(const struct xt_norm_sample *s, const struct rows *r, int y)
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

/* Where nothing else reads the rows, they become sums at once. */
XT_INLINE void average_alone(const struct xt_norm_sample *s, enum xt_dtype dtype, bool relu,
                             bool residual)
{
    struct rows r = split(s);
    size_t w = (size_t)s->w;
    int kernel = s->average.kernel_h;
    for (int oy = 0; oy < s->average.out_h; oy++) {
        size_t first = (size_t)(oy * kernel) * w;
        activate(s, first, w, r.column, dtype, relu, residual, false);
        for (int ky = 1; ky < kernel; ky++)
            activate(s, first + (size_t)ky * w, w, r.column, dtype, relu, residual, true);
        average_across(s, r.column, oy);
    }
}

XT_INLINE void store_row(void *to, size_t first, const float *row, size_t count,
                         enum xt_dtype dtype)
{
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        store(to, first + i, row[i], dtype);
}

XT_INLINE void forward(const struct xt_norm_sample *s, enum xt_dtype dtype, bool relu,
                       bool residual)
{
    if (s->y && !s->pooled && !s->averaged) {
        activate_to_y(s, dtype, relu, residual);
        return;
    }
    if (!s->y && !s->pooled) {
        average_alone(s, dtype, relu, residual);
        return;
    }
    struct rows r = split(s);
    size_t w = (size_t)s->w;
    size_t count = w * (size_t)s->c;
    size_t ring = (size_t)s->max.out_w * (size_t)s->c;
    int next = 0;
    for (int y = 0; y < s->h; y++) {
        activate(s, (size_t)y * w, w, r.row, dtype, relu, residual, false);
        if (s->y)
            store_row(s->y, (size_t)y * count, r.row, count, dtype);
        if (s->averaged)
            average_row(s, &r, y);
        if (!s->pooled)
            continue;
        size_t slot = (size_t)(y % KERNEL) * ring;
        max_across(s, r.row, r.best + slot, r.place + slot, dtype);
        for (; pool_row_ready(s, next, y); next++) {
            if (s->winner)
                max_down(s, &r, next, dtype, true);
            else
                max_down(s, &r, next, dtype, false);
        }
    }
}

XT_INLINE void forward_of(const struct xt_norm_sample *s, enum xt_dtype dtype)
{
    if (s->residual)
        forward(s, dtype, s->relu, true);
    else if (s->relu)
        forward(s, dtype, true, false);
    else
        forward(s, dtype, false, false);
}

void XT_LOOPS_NAME(norm_forward)(const struct xt_norm_sample *s)
{
    if (s->dtype == XT_F32)
        forward_of(s, XT_F32);
    else
        forward_of(s, XT_BF16);
}

/* ---- backward ---- */

/* One row of the max pool, seen from a pixel that up to three of its windows hold: their gradients
 * and winners, and the winner that each would have to name for the pixel. */
struct windows {
    const void *grad[KERNEL];
    const void *more[KERNEL]; /* of the pool's second reader */
    const uint8_t *winner[KERNEL];
    uint8_t code[KERNEL];
    int count;
};

XT_INLINE void gather(const struct windows *w, float *to, size_t c, int count, enum xt_dtype dtype,
                      bool two)
{
#pragma omp simd
    for (size_t k = 0; k < c; k++) {
        float sum = to[k];
        for (int i = 0; i < count; i++) {
            float g = load(w->grad[i], k, dtype);
            if (two)
                g += load(w->more[i], k, dtype);
            sum += w->winner[i][k] == w->code[i] ? g : 0;
        }
        to[k] = sum;
    }
}

/* The windows of pool row `line` / c whose column kx is at x. */
XT_INLINE void find_windows(const struct xt_norm_sample *s, size_t line, int ky, int x,
                            struct windows *w, enum xt_dtype dtype, bool two)
{
    const struct xt_window *m = &s->max;
    size_t c = (size_t)s->c;
    w->count = 0;
    for (int kx = 0; kx < KERNEL; kx++) {
        int left = x + m->pad_w - kx;
        if (left < 0 || left % m->stride_w || left / m->stride_w >= m->out_w)
            continue;
        size_t base = (line + (size_t)(left / m->stride_w)) * c;
        int i = w->count++;
        w->grad[i] = at(s->dpooled[0], base, dtype);
        w->more[i] = two ? at(s->dpooled[1], base, dtype) : NULL;
        w->winner[i] = s->winner + base;
        w->code[i] = (uint8_t)((2 - ky) * 4 + (2 - kx));
    }
}

/* Adds the max pool's gradients that land in row y. */
XT_INLINE void gather_max(const struct xt_norm_sample *s, int y, float *row, enum xt_dtype dtype,
                          bool two)
{
    const struct xt_window *m = &s->max;
    size_t c = (size_t)s->c;
    for (int ky = 0; ky < KERNEL; ky++) {
        int top = y + m->pad_h - ky;
        if (top < 0 || top % m->stride_h || top / m->stride_h >= m->out_h)
            continue;
        size_t line = (size_t)(top / m->stride_h) * (size_t)m->out_w;
        for (int x = 0; x < s->w; x++) {
            struct windows w;
            find_windows(s, line, ky, x, &w, dtype, two);
            float *to = row + (size_t)x * c;
            if (w.count == 3)
                gather(&w, to, c, 3, dtype, two);
            else if (w.count == 2)
                gather(&w, to, c, 2, dtype, two);
            else if (w.count == 1)
                gather(&w, to, c, 1, dtype, two);
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

/* The row's gradient from y's readers and from the average pool; zero where there is neither. Where
 * the average pool is all there is, its row stands for every one of its window. */
XT_INLINE const float *begin_row(const struct xt_norm_sample *s, int y, const struct rows *r,
                                 enum xt_dtype dtype)
{
    size_t count = (size_t)s->w * (size_t)s->c;
    size_t first = (size_t)y * count;
    bool averaged = s->daveraged && y / s->average.kernel_h < s->average.out_h;
    if (averaged && y % s->average.kernel_h == 0)
        spread_average(s, y / s->average.kernel_h, r->column);
    if (averaged && !s->dpooled[0] && !s->dy[0])
        return r->column;
    if (averaged)
        memcpy(r->row, r->column, count * sizeof *r->row);
    else
        memset(r->row, 0, count * sizeof *r->row);
    for (int reader = 0; reader < 2; reader++) {
        if (!s->dy[reader])
            continue;
#pragma omp simd
        for (size_t i = 0; i < count; i++)
            r->row[i] += load(s->dy[reader], first + i, dtype);
    }
    return r->row;
}

/* What `pixels` pixels from `first` on are masked with, where their gradient comes from, and how
 * they are compiled. */
struct masking {
    enum xt_dtype dtype;
    bool relu;
    bool residual;
    int readers; /* of y: 1 or 2 where the gradient is read from dy, 0 where it stands in the row */
    enum xt_norm_pass pass;
};

/* Masks the gradient by the ReLU, and adds it to the channel's sums or makes the input's of it. */
XT_INLINE void finish(const struct xt_norm_sample *s, size_t first, const float *row,
                      const struct rows *r, int pixels, struct masking m)
{
    size_t c = (size_t)s->c;
    size_t base = first * c;
    const float *scale = s->scale;
    const float *shift = s->shift;
    const float *pivot = s->pivot;
    float *sum = r->sum;
    float *sum_z = r->sum_z;
#pragma omp simd
    for (size_t k = 0; k < c; k++) {
        float total = 0;
        float total_z = 0;
        for (int p = 0; p < pixels; p++) {
            size_t i = base + (size_t)p * c + k;
            float z = load(s->z, i, m.dtype);
            float v = z * scale[k] + shift[k];
            if (m.residual)
                v += load(s->residual, i, m.dtype);
            float g = m.readers ? load(s->dy[0], i, m.dtype) : row[(size_t)p * c + k];
            if (m.readers == 2)
                g += load(s->dy[1], i, m.dtype);
            float da = m.relu && !(v > 0) ? 0 : g;
            if (m.pass == XT_NORM_APPLY)
                da = s->a[k] * da + s->b[k] * z + s->d[k];
            if (m.pass != XT_NORM_SUM)
                store(s->da, i, da, m.dtype);
            if (m.pass == XT_NORM_APPLY)
                continue;
            total += da;
            total_z += da * (z - pivot[k]);
        }
        if (m.pass == XT_NORM_APPLY)
            continue;
        sum[k] += total;
        sum_z[k] += total_z;
    }
}

/* A stretch of pixels, four at a time; the float32 sums of the stretch go into the sample's
 * doubles. */
XT_INLINE void finish_stretch(const struct xt_norm_sample *s, size_t first, size_t pixels,
                              const float *row, const struct rows *r, struct masking m)
{
    size_t c = (size_t)s->c;
    memset(r->sum, 0, 2 * c * sizeof *r->sum);
    size_t x = 0;
    for (; x + PIXELS <= pixels; x += PIXELS)
        finish(s, first + x, row + x * c, r, PIXELS, m);
    for (; x < pixels; x++)
        finish(s, first + x, row + x * c, r, 1, m);
    for (size_t k = 0; k < c && m.pass != XT_NORM_APPLY; k++) {
        s->sum_da[k] += (double)r->sum[k];
        s->sum_da_z[k] += (double)r->sum_z[k];
    }
}

XT_INLINE void backward(const struct xt_norm_sample *s, struct masking m)
{
    struct rows r = split(s);
    size_t w = (size_t)s->w;
    if (m.pass != XT_NORM_APPLY) {
        memset(s->sum_da, 0, (size_t)s->c * sizeof *s->sum_da);
        memset(s->sum_da_z, 0, (size_t)s->c * sizeof *s->sum_da_z);
    }
    for (int y = 0; y < s->h; y++) {
        const float *row = r.row;
        if (!m.readers) {
            row = begin_row(s, y, &r, m.dtype);
            if (s->dpooled[0] && s->dpooled[1])
                gather_max(s, y, r.row, m.dtype, true);
            else if (s->dpooled[0])
                gather_max(s, y, r.row, m.dtype, false);
        }
        finish_stretch(s, (size_t)y * w, w, row, &r, m);
    }
}

/* The cases are spelled out because only a constant residual and reader count make loops without a
 * test inside. */
XT_INLINE void backward_of(const struct xt_norm_sample *s, enum xt_dtype dtype)
{
    bool only_y = s->dy[0] && !s->dpooled[0] && !s->daveraged;
    int readers = only_y ? 1 + (s->dy[1] != NULL) : 0;
    if (s->pass == XT_NORM_SUM && readers)
        backward(s, (struct masking){dtype, s->relu, false, 1, XT_NORM_SUM});
    else if (s->pass == XT_NORM_SUM)
        backward(s, (struct masking){dtype, s->relu, false, 0, XT_NORM_SUM});
    else if (s->pass == XT_NORM_APPLY && readers)
        backward(s, (struct masking){dtype, s->relu, false, 1, XT_NORM_APPLY});
    else if (s->pass == XT_NORM_APPLY)
        backward(s, (struct masking){dtype, s->relu, false, 0, XT_NORM_APPLY});
    else if (s->residual && readers == 2)
        backward(s, (struct masking){dtype, s->relu, true, 2, XT_NORM_SUM_AND_KEEP});
    else if (s->residual && readers == 1)
        backward(s, (struct masking){dtype, s->relu, true, 1, XT_NORM_SUM_AND_KEEP});
    else if (s->residual)
        backward(s, (struct masking){dtype, s->relu, true, 0, XT_NORM_SUM_AND_KEEP});
    else if (readers == 2)
        backward(s, (struct masking){dtype, s->relu, false, 2, XT_NORM_SUM_AND_KEEP});
    else if (readers == 1)
        backward(s, (struct masking){dtype, s->relu, false, 1, XT_NORM_SUM_AND_KEEP});
    else
        backward(s, (struct masking){dtype, s->relu, false, 0, XT_NORM_SUM_AND_KEEP});
}

void XT_LOOPS_NAME(norm_backward)(const struct xt_norm_sample *s)
{
    if (s->dtype == XT_F32)
        backward_of(s, XT_F32);
    else
        backward_of(s, XT_BF16);
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

void XT_LOOPS_NAME(norm_backward_apply)(enum xt_dtype dtype, const void *da, const void *z,
                                        size_t pixels, int c, const float *a, const float *b,
                                        const float *d, void *dz)
{
    if (dtype == XT_F32)
        apply(da, z, pixels, c, a, b, d, dz, XT_F32);
    else
        apply(da, z, pixels, c, a, b, d, dz, XT_BF16);
}

/* ---- statistics ---- */

XT_INLINE void add_pixels(const void *z, size_t first, size_t c, const float *pivot, float *sum,
                          float *square, int pixels, enum xt_dtype dtype)
{
#pragma omp simd
    for (size_t k = 0; k < c; k++) {
        float total = 0;
        float total_square = 0;
        for (int p = 0; p < pixels; p++) {
            float v = load(z, (first + (size_t)p) * c + k, dtype) - pivot[k];
            total += v;
            total_square += v * v;
        }
        sum[k] += total;
        square[k] += total_square;
    }
}

/* Float32 sums over a stretch of pixels short enough to lose no digits go into doubles. */
XT_INLINE void sums(const void *z, size_t pixels, size_t c, const float *pivot, double *total,
                    double *squares, float *scratch, enum xt_dtype dtype)
{
    enum { STRETCH = 96 };
    float *sum = scratch;
    float *square = scratch + c;
    memset(total, 0, c * sizeof *total);
    memset(squares, 0, c * sizeof *squares);
    for (size_t first = 0; first < pixels; first += STRETCH) {
        size_t end = first + STRETCH < pixels ? first + STRETCH : pixels;
        memset(scratch, 0, 2 * c * sizeof *scratch);
        size_t x = first;
        for (; x + PIXELS <= end; x += PIXELS)
            add_pixels(z, x, c, pivot, sum, square, PIXELS, dtype);
        for (; x < end; x++)
            add_pixels(z, x, c, pivot, sum, square, 1, dtype);
        for (size_t k = 0; k < c; k++) {
            total[k] += (double)sum[k];
            squares[k] += (double)square[k];
        }
    }
}

void XT_LOOPS_NAME(statistics)(enum xt_dtype dtype, const void *z, size_t pixels, int c,
                               const float *pivot, double *total, double *squares, float *scratch)
{
    if (dtype == XT_F32)
        sums(z, pixels, (size_t)c, pivot, total, squares, scratch, XT_F32);
    else
        sums(z, pixels, (size_t)c, pivot, total, squares, scratch, XT_BF16);
}
