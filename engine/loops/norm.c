/* Batch normalisation, ReLU and the pools that read it; without pools norm_strips.c is used.
 *
 * A sample is processed row by row: a row is activated into float32 scratch that stays in L1, then
 * passed to its readers. Four pixels are processed together, so that a channel's scale, shift and
 * sums are loaded and stored once per four. norm_wide.c has faster versions of some cases.
 */
#include "engine/loops/element.h"
#include "engine/loops/table.h"

enum { PIXELS = 4, KERNEL = 3 };

/* The parts of a thread's scratch. */
struct rows {
    float *row;    /* [w][c] activated, in the tensor's type; or its gradient */
    float *column; /* [w][c] column sums of the average pool's window, or its gradient over a row */
    float *best;   /* [KERNEL][out_w][c] horizontal maxima, of the tensor's type */
    int32_t *place; /* [KERNEL][out_w][c] bit kx of the maximum; of bf16 in 16 bits */
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
 * what y holds; added to the destination, or overwriting it. */
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
            v = relu && v < 0 ? 0 : v; /* NaN is preserved */
            v = dtype == XT_F32 ? v : xt_float_of_bits(xt_bf16_round(v) & 0xFFFF0000u);
            out[x * c + k] = add ? out[x * c + k] + v : v;
        }
    }
}

/* The same in the tensor's own type. */
XT_INLINE void activate_as_is(const struct xt_norm_sample *s, size_t first, size_t pixels,
                              void *out, enum xt_dtype dtype, bool relu, bool residual)
{
    size_t c = (size_t)s->c;
    const float *scale = s->scale;
    const float *shift = s->shift;
    for (size_t x = 0; x < pixels; x++) {
        size_t base = (first + x) * c;
        void *to = at_out(out, x * c, dtype);
#pragma omp simd
        for (size_t k = 0; k < c; k++) {
            float v = load(s->z, base + k, dtype) * scale[k] + shift[k];
            if (residual)
                v += load(s->residual, base + k, dtype);
            store(to, k, relu && v < 0 ? 0 : v, dtype);
        }
    }
}

/* The maximum of three numbers, the first of which is the window's column `from`, and its place.
 * Bits of bf16 numbers that are not negative order like integers. On a tie the first place is
 * used. */
#define ACROSS(name, type, code)                                                                   \
    XT_INLINE void name(const type *in, size_t c, size_t n, int from, int count, type *best,       \
                        code *place)                                                               \
    {                                                                                              \
        _Pragma("omp simd") for (size_t k = 0; k < n; k++)                                         \
        {                                                                                          \
            type most = in[k];                                                                     \
            code at = (code)(1 << from);                                                           \
            for (int i = 1; i < count; i++) {                                                      \
                type other = in[(size_t)i * c + k];                                                \
                code here = (code)(1 << (from + i));                                               \
                at = other > most ? here : at;                                                     \
                most = other > most ? other : most;                                                \
            }                                                                                      \
            best[k] = most;                                                                        \
            place[k] = at;                                                                         \
        }                                                                                          \
    }
ACROSS(across_f32, float, int32_t)
ACROSS(across_bf16, int16_t, int16_t)

/* The maximum of `count` rows of those; bit 3 + ky joins the place. */
#define DOWN(name, type, code)                                                                     \
    XT_INLINE void name(type *const best[KERNEL], code *const place[KERNEL], size_t n, int from,   \
                        int count, type *pooled, uint8_t *argmax)                                  \
    {                                                                                              \
        _Pragma("omp simd") for (size_t i = 0; i < n; i++)                                         \
        {                                                                                          \
            type most = best[0][i];                                                                \
            code at = (code)(place[0][i] | 8 << from);                                             \
            for (int r = 1; r < count; r++) {                                                      \
                type other = best[r][i];                                                           \
                code here = (code)(place[r][i] | 8 << (from + r));                                 \
                at = other > most ? here : at;                                                     \
                most = other > most ? other : most;                                                \
            }                                                                                      \
            pooled[i] = most;                                                                      \
            if (argmax)                                                                            \
                argmax[i] = (uint8_t)at;                                                           \
        }                                                                                          \
    }
DOWN(down_f32, float, int32_t)
DOWN(down_bf16, int16_t, int16_t)

/* The begin of ring row `i`, of maxima or of places. */
XT_INLINE void *ring_at(const struct xt_norm_sample *s, void *ring, int i, enum xt_dtype dtype)
{
    return at_out(ring, (size_t)i * (size_t)s->max.out_w * (size_t)s->c, dtype);
}

XT_INLINE void across(const void *row, size_t c, size_t n, int left, int from, int count,
                      void *best, void *place, enum xt_dtype dtype)
{
    const void *in = at(row, (size_t)(left + from) * c, dtype);
    if (dtype == XT_F32)
        across_f32(in, c, n, from, count, best, place);
    else
        across_bf16(in, c, n, from, count, best, place);
}

XT_INLINE void max_across(const struct xt_norm_sample *s, const void *row, void *best, void *place,
                          enum xt_dtype dtype)
{
    size_t c = (size_t)s->c;
    if (s->max.stride_w == 1 && s->max.pad_w == 0) {
        across(row, c, (size_t)s->max.out_w * c, 0, 0, 3, best, place, dtype);
        return;
    }
    for (int ox = 0; ox < s->max.out_w; ox++) {
        int left = ox * s->max.stride_w - s->max.pad_w;
        int from = left < 0 ? -left : 0;
        int to = left + KERNEL > s->w ? s->w - left : KERNEL;
        void *b = at_out(best, (size_t)ox * c, dtype);
        void *p = at_out(place, (size_t)ox * c, dtype);
        if (to - from == 3)
            across(row, c, c, left, 0, 3, b, p, dtype);
        else if (to - from == 2)
            across(row, c, c, left, from, 2, b, p, dtype);
        else
            across(row, c, c, left, from, 1, b, p, dtype);
    }
}

XT_INLINE void down(void *const best[KERNEL], void *const place[KERNEL], size_t n, int from,
                    int count, void *pooled, uint8_t *argmax, enum xt_dtype dtype)
{
    if (dtype == XT_F32)
        down_f32((float *[]){best[0], best[1], best[2]},
                 (int32_t *[]){place[0], place[1], place[2]}, n, from, count, pooled, argmax);
    else
        down_bf16((int16_t *[]){best[0], best[1], best[2]},
                  (int16_t *[]){place[0], place[1], place[2]}, n, from, count, pooled, argmax);
}

/* Row `oy` of the max pool, from the ring of horizontal maxima. */
XT_INLINE void max_down(const struct xt_norm_sample *s, const struct rows *r, int oy,
                        enum xt_dtype dtype, bool keep)
{
    size_t n = (size_t)s->max.out_w * (size_t)s->c;
    int top = oy * s->max.stride_h - s->max.pad_h;
    int from = top < 0 ? -top : 0;
    int to = top + KERNEL > s->h ? s->h - top : KERNEL;
    void *best[KERNEL] = {r->best, r->best, r->best};
    void *place[KERNEL] = {r->place, r->place, r->place};
    for (int i = 0; i < to - from; i++) {
        best[i] = ring_at(s, r->best, (top + from + i) % KERNEL, dtype);
        place[i] = ring_at(s, r->place, (top + from + i) % KERNEL, dtype);
    }
    void *pooled = at_out(s->pooled, (size_t)oy * n, dtype);
    uint8_t *argmax = keep ? s->argmax + (size_t)oy * n : NULL;
    if (to - from == 3)
        down(best, place, n, 0, 3, pooled, argmax, dtype);
    else if (to - from == 2)
        down(best, place, n, from, 2, pooled, argmax, dtype);
    else
        down(best, place, n, from, 1, pooled, argmax, dtype);
}

/* Whether row `oy` of the max pool has all its input after row y. */
static bool pool_row_ready(const struct xt_norm_sample *s, int oy, int y)
{
    int last = oy * s->max.stride_h - s->max.pad_h + KERNEL - 1;
    return oy < s->max.out_h && (last <= y || y == s->h - 1);
}

/* One row of the average pool from its window's column sums. `width` is a constant in all callers
 * but the last. */
XT_INLINE void average_columns(const struct xt_norm_sample *s, const float *column, int oy,
                               int width)
{
    size_t c = (size_t)s->c;
    const struct xt_window *w = &s->average;
    float share = 1.0f / (float)(w->kernel_h * width);
    for (int ox = 0; ox < w->out_w; ox++) {
        float *out = s->averaged + ((size_t)oy * (size_t)w->out_w + (size_t)ox) * c;
        const float *in = column + (size_t)(ox * w->stride_w) * c;
#pragma omp simd
        for (size_t k = 0; k < c; k++) {
            float sum = in[k];
            for (int kx = 1; kx < width; kx++)
                sum += in[(size_t)kx * c + k];
            out[k] = sum * share;
        }
    }
}

static void average_across(const struct xt_norm_sample *s, const float *column, int oy)
{
    if (s->average.kernel_w == 5)
        average_columns(s, column, oy, 5);
    else if (s->average.kernel_w == 10)
        average_columns(s, column, oy, 10);
    else
        average_columns(s, column, oy, s->average.kernel_w);
}

/* Adds the activated row y to its window's column sums. */
XT_INLINE void average_row(const struct xt_norm_sample *s, const struct rows *r, int y,
                           enum xt_dtype dtype)
{
    size_t count = (size_t)s->w * (size_t)s->c;
    int oy = y / s->average.kernel_h;
    int ky = y % s->average.kernel_h;
    float *column = r->column;
    if (oy >= s->average.out_h)
        return;
    if (ky == 0) {
#pragma omp simd
        for (size_t i = 0; i < count; i++)
            column[i] = load(r->row, i, dtype);
    } else {
#pragma omp simd
        for (size_t i = 0; i < count; i++)
            column[i] += load(r->row, i, dtype);
    }
    if (ky == s->average.kernel_h - 1)
        average_across(s, column, oy);
}

/* Without other readers the rows are summed directly. */
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

XT_INLINE void forward(const struct xt_norm_sample *s, enum xt_dtype dtype, bool relu,
                       bool residual)
{
    if (!s->y && !s->pooled) {
        average_alone(s, dtype, relu, residual);
        return;
    }
    struct rows r = split(s);
    size_t w = (size_t)s->w;
    size_t count = w * (size_t)s->c;
    int next = 0;
    for (int y = 0; y < s->h; y++) {
        activate_as_is(s, (size_t)y * w, w, r.row, dtype, relu, residual);
        if (s->y)
            memcpy(at_out(s->y, (size_t)y * count, dtype), r.row, count * xt_dtype_size(dtype));
        if (s->averaged)
            average_row(s, &r, y, dtype);
        if (!s->pooled)
            continue;
        max_across(s, r.row, ring_at(s, r.best, y % KERNEL, dtype),
                   ring_at(s, r.place, y % KERNEL, dtype), dtype);
        for (; pool_row_ready(s, next, y); next++) {
            if (s->argmax)
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
#ifdef __AVX512BW__
    if (XT_LOOPS_NAME(norm_wide_forward)(s))
        return;
#endif
    if (XT_LOOPS_NAME(norm_strips_forward)(s))
        return;
    if (s->dtype == XT_F32)
        forward_of(s, XT_F32);
    else
        forward_of(s, XT_BF16);
}

/* ---- backward ---- */

/* The max pool's windows that hold a pixel, and the argmax value that selects it in each. */
struct windows {
    int count;
    size_t first[KERNEL * KERNEL]; /* elements from the pool's begin */
    uint8_t argmax[KERNEL * KERNEL];
};

/* The index of the window, of `count` at distance `stride`, that begins at a place, or -1. */
static int window_at(int place, int stride, int count)
{
    int index = stride == 1 ? place : place / stride;
    return place < 0 || index * stride != place || index >= count ? -1 : index;
}

static void find_windows(const struct xt_norm_sample *s, int y, int x, struct windows *w)
{
    const struct xt_window *m = &s->max;
    w->count = 0;
    for (int ky = 0; ky < KERNEL; ky++) {
        int top = window_at(y + m->pad_h - ky, m->stride_h, m->out_h);
        for (int kx = 0; kx < KERNEL && top >= 0; kx++) {
            int left = window_at(x + m->pad_w - kx, m->stride_w, m->out_w);
            if (left < 0)
                continue;
            w->first[w->count] = ((size_t)top * (size_t)m->out_w + (size_t)left) * (size_t)s->c;
            w->argmax[w->count++] = (uint8_t)(8 << ky | 1 << kx);
        }
    }
}

/* A pixel whose windows are `moved` elements further. */
XT_INLINE void add_windows(const struct xt_norm_sample *s, const struct windows *w, size_t moved,
                           float *to, enum xt_dtype dtype, bool two)
{
    for (int i = 0; i < w->count; i++) {
        size_t base = w->first[i] + moved;
        const void *grad = at(s->dpooled[0], base, dtype);
        const void *more = two ? at(s->dpooled[1], base, dtype) : NULL;
        const uint8_t *argmax = s->argmax + base;
        uint8_t code = w->argmax[i];
#pragma omp simd
        for (size_t k = 0; k < (size_t)s->c; k++) {
            float g = load(grad, k, dtype);
            if (two)
                g += load(more, k, dtype);
            to[k] += argmax[k] == code ? g : 0;
        }
    }
}

/* The number of pixels, from x on and `stride` apart, that have the same places in consecutive
 * windows, up to the pool's end. */
static int count_alike(const struct xt_norm_sample *s, int x)
{
    const struct xt_window *m = &s->max;
    int at = x + m->pad_w;
    int last = at / m->stride_w;
    int left = (s->w - 1 - x) / m->stride_w;
    if (at < KERNEL - 1 || last >= m->out_w)
        return 1;
    return 1 + (m->out_w - 1 - last < left ? m->out_w - 1 - last : left);
}

/* Adds the max pool's gradients of row y, for runs of pixels with the same places at once. */
XT_INLINE void add_max_row(const struct xt_norm_sample *s, int y, float *row, enum xt_dtype dtype,
                           bool two)
{
    size_t c = (size_t)s->c;
    int stride = s->max.stride_w;
    for (int phase = 0; phase < stride; phase++)
        for (int x = phase, pixels = 0; x < s->w; x += pixels * stride) {
            struct windows w;
            float *to = row + (size_t)x * c;
            size_t step = (size_t)stride * c;
            find_windows(s, y, x, &w);
            pixels = count_alike(s, x);
            for (int n = 0; n < pixels; n++)
                add_windows(s, &w, (size_t)n * c, to + (size_t)n * step, dtype, two);
        }
}

/* Out of line: shared by all instantiations of the passes. */
__attribute__((noinline)) static void add_max_grad(const struct xt_norm_sample *s, int y,
                                                   float *row)
{
    bool two = s->dpooled[1] != NULL;
    if (s->dtype == XT_F32 && two)
        add_max_row(s, y, row, XT_F32, true);
    else if (s->dtype == XT_F32)
        add_max_row(s, y, row, XT_F32, false);
    else if (two)
        add_max_row(s, y, row, XT_BF16, true);
    else
        add_max_row(s, y, row, XT_BF16, false);
}

/* The average pool's gradient, replicated over one row of its window. */
static void average_grad(const struct xt_norm_sample *s, int oy, float *column)
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

/* The row's gradient from y's readers and from the average pool; zero if there is neither. If the
 * average pool is the only reader, one row serves its whole window. */
XT_INLINE const float *begin_row(const struct xt_norm_sample *s, int y, const struct rows *r,
                                 enum xt_dtype dtype)
{
    size_t count = (size_t)s->w * (size_t)s->c;
    size_t first = (size_t)y * count;
    bool averaged = s->daveraged && y / s->average.kernel_h < s->average.out_h;
    if (averaged && y % s->average.kernel_h == 0)
        average_grad(s, y / s->average.kernel_h, r->column);
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

/* How a pass is compiled. */
struct masking {
    enum xt_dtype dtype;
    bool relu;
    bool residual;
    enum xt_norm_pass pass;
};

/* Masks the gradient by the ReLU, and adds it to the channel's sums or computes the input's from
 * it. */
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
            float da = m.relu && !(v > 0) ? 0 : row[(size_t)p * c + k];
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

/* Prefetches the next pixels, since the hardware prefetcher stops at the end of a page. Excess
 * prefetches are harmless. */
XT_INLINE void fetch(const void *tensor, size_t first, size_t count, enum xt_dtype dtype)
{
    enum { LINE = 64 };
    const char *from = at(tensor, first, dtype);
    for (size_t i = 0; i < count * xt_dtype_size(dtype); i += LINE)
        __builtin_prefetch(from + i);
}

XT_INLINE void fetch_inputs(const struct xt_norm_sample *s, size_t first, struct masking m)
{
    size_t count = PIXELS * (size_t)s->c;
    size_t base = first * (size_t)s->c;
    fetch(s->z, base, count, m.dtype);
    if (m.residual)
        fetch(s->residual, base, count, m.dtype);
}

/* A block of pixels, four at a time; its float32 sums are added to the sample's doubles. */
XT_INLINE void finish_segment(const struct xt_norm_sample *s, size_t first, size_t pixels,
                              const float *row, const struct rows *r, struct masking m)
{
    size_t c = (size_t)s->c;
    memset(r->sum, 0, 2 * c * sizeof *r->sum);
    size_t x = 0;
    for (; x + PIXELS <= pixels; x += PIXELS) {
        fetch_inputs(s, first + x + PIXELS, m);
        finish(s, first + x, row + x * c, r, PIXELS, m);
    }
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
        const float *row = begin_row(s, y, &r, m.dtype);
        if (s->dpooled[0])
            add_max_grad(s, y, r.row);
        finish_segment(s, (size_t)y * w, w, row, &r, m);
    }
}

/* The cases are written out because only constants give loops without branches. */
XT_INLINE void backward_of(const struct xt_norm_sample *s, enum xt_dtype dtype)
{
    if (s->pass == XT_NORM_SUM)
        backward(s, (struct masking){dtype, s->relu, false, XT_NORM_SUM});
    else if (s->pass == XT_NORM_APPLY)
        backward(s, (struct masking){dtype, s->relu, false, XT_NORM_APPLY});
    else if (s->residual)
        backward(s, (struct masking){dtype, s->relu, true, XT_NORM_SUM_AND_KEEP});
    else
        backward(s, (struct masking){dtype, s->relu, false, XT_NORM_SUM_AND_KEEP});
}

void XT_LOOPS_NAME(norm_backward)(const struct xt_norm_sample *s)
{
#ifdef __AVX512BW__
    if (XT_LOOPS_NAME(norm_wide_backward)(s))
        return;
#endif
    if (XT_LOOPS_NAME(norm_strips_backward)(s))
        return;
    if (s->dtype == XT_F32)
        backward_of(s, XT_F32);
    else
        backward_of(s, XT_BF16);
}
