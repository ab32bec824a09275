/* Batch normalisation, ReLU and the pools that read it by AVX-512; norm.c is the version for any
 * type and instruction set.
 *
 * A strip of 32 channels (strip.h) is processed pixel by pixel; its channels' constants stay in
 * registers.
 */
#include "engine/loops/element.h"
#include "engine/loops/table.h"

#ifdef __AVX512BW__
#include "engine/loops/strip.h"

enum { KERNEL = 3 };

/* The parts of a thread's scratch. Columns count from the first of the padding. Not larger than
 * norm.c's for 32 channels or more. */
struct rows {
    size_t columns;
    void *active;   /* [columns][STRIP] a row of a strip, activated */
    void *best;     /* [c / STRIP][2][out_w][STRIP] horizontal maxima of the two rows before */
    uint8_t *place; /* the same shape: bit kx of their place */
    float *grad;    /* [columns] pairs: a row's gradient; the forward pass has none */
    float *column;  /* [c / STRIP][columns] pairs: column sums of the average pool's window, or its
                       gradient over a row */
    float *factors; /* [c / STRIP][FACTORS] pairs */
    float *sums;    /* [c / STRIP][2] pairs: of da and of da * (z - pivot) */
};

/* The forward pass uses only the first two, and the residual's; the pivot is in the place of A. */
enum { SCALE, SHIFT, A, B, D, FACTORS, PIVOT = A, RESIDUAL_SCALE = B };

XT_INLINE struct pair factor(const struct rows *r, size_t k, int which)
{
    return load_pair(r->factors + k * FACTORS + (size_t)which * STRIP);
}

XT_INLINE void order_factors(const struct xt_norm_sample *s, const struct rows *r,
                             enum xt_dtype type)
{
    const float *from[FACTORS] = {s->scale, s->shift, s->pass == XT_NORM_APPLY ? s->a : s->pivot,
                                  s->b ? s->b : s->residual_scale, s->d};
    for (size_t k = 0; k < (size_t)s->c; k += STRIP)
        for (size_t i = 0; i < FACTORS; i++)
            if (from[i])
                store_pair(r->factors + k * FACTORS + i * STRIP, load_ordered(from[i] + k, type));
}

XT_INLINE struct rows split(const struct xt_norm_sample *s, enum xt_dtype type)
{
    size_t out_w = (size_t)s->max.out_w;
    struct rows r = {.columns = (size_t)s->w + 2 * (size_t)s->max.pad_w};
    r.active = s->scratch;
    r.best = at_out(r.active, r.columns * STRIP, type);
    r.place = at_out(r.best, 2 * out_w * (size_t)s->c, type);
    r.grad = s->scratch;
    float *forward_end = (float *)(r.place + 2 * out_w * (size_t)s->c);
    float *backward_end = r.grad + r.columns * STRIP;
    r.column = forward_end > backward_end ? forward_end : backward_end;
    r.factors = r.column + r.columns * (size_t)s->c;
    r.sums = r.factors + FACTORS * (size_t)s->c;
    order_factors(s, &r, type);
    return r;
}

/* Memory is read fastest sequentially. So strips alternate after a few pixels, or after a row where
 * required; the next turn's data is prefetched in memory order. */
enum { TURN_ELEMENTS = 1024 };

static size_t turn(size_t c, size_t first, size_t pixels)
{
    size_t most = c <= TURN_ELEMENTS / 4 ? TURN_ELEMENTS / c : 4;
    return pixels - first < most ? pixels - first : most;
}

/* Of [pixels][c] from `base` on, the offset to prefetch for pixel x of a strip. */
XT_INLINE size_t ahead(size_t base, size_t c, size_t k, size_t pixels, size_t x)
{
    return base + (c + k) * pixels + x * STRIP;
}

XT_INLINE void fetch(const void *tensor, size_t i, enum xt_dtype type)
{
    _mm_prefetch(at(tensor, i, type), _MM_HINT_T0);
    if (type == XT_F32)
        _mm_prefetch(at(tensor, i + HALF, type), _MM_HINT_T0);
}

/* Prefetches lines that will be written, as fetch() does. */
XT_INLINE void fetch_out(const void *tensor, size_t i, enum xt_dtype type)
{
    __builtin_prefetch(at(tensor, i, type), 1);
    if (type == XT_F32)
        __builtin_prefetch(at(tensor, i + HALF, type), 1);
}

XT_INLINE bool can_write_past(const void *to)
{
    return (uintptr_t)to % sizeof(__m512i) == 0;
}

/* ---- forward ---- */

/* What is added before the activation. */
enum summand { NOTHING, RESIDUAL, SCALED_RESIDUAL };

/* `pixels` pixels of a strip, stored `step` apart; NaN is preserved. */
XT_INLINE void activate_pixels(const struct xt_norm_sample *s, const struct rows *r, size_t first,
                               size_t k, size_t pixels, void *to, size_t step, enum summand summand,
                               bool far, enum xt_dtype type)
{
    size_t c = (size_t)s->c;
    size_t base = first * c;
    struct pair scale = factor(r, k, SCALE);
    struct pair shift = factor(r, k, SHIFT);
    struct pair residual_scale = factor(r, k, RESIDUAL_SCALE);
    __m512 least = _mm512_set1_ps(s->relu ? 0 : -INFINITY);
    for (size_t x = 0; x < pixels; x++) {
        fetch(s->z, ahead(base, c, k, pixels, x), type);
        struct pair v = mul_add(load_strip(s->z, base + k + x * c, type), scale, shift);
        if (summand != NOTHING) {
            struct pair more = load_strip(s->residual, base + k + x * c, type);
            fetch(s->residual, ahead(base, c, k, pixels, x), type);
            v = summand == SCALED_RESIDUAL ? mul_add(more, residual_scale, v) : add(v, more);
        }
        v.even = _mm512_max_ps(least, v.even);
        v.odd = _mm512_max_ps(least, v.odd);
        if (far) {
            stream_strip(to, x * step, v, type);
            if (s->held)
                store_strip(s->held, base + k + x * c, v, type);
            continue;
        }
        if (step > STRIP)
            fetch_out(s->y, ahead(base, c, k, pixels, x), type);
        store_strip(to, x * step, v, type);
    }
}

/* A row of a strip. */
XT_INLINE void activate(const struct xt_norm_sample *s, const struct rows *r, size_t first,
                        size_t k, void *to, enum xt_dtype type)
{
    size_t w = (size_t)s->w;
    if (s->residual)
        activate_pixels(s, r, first, k, w, to, STRIP, RESIDUAL, false, type);
    else
        activate_pixels(s, r, first, k, w, to, STRIP, NOTHING, false, type);
}

/* Of y alone. */
XT_INLINE void activate_turn(const struct xt_norm_sample *s, const struct rows *r, size_t first,
                             size_t k, size_t pixels, bool far)
{
    size_t c = (size_t)s->c;
    uint16_t *to = (uint16_t *)s->y + first * c + k;
    if (s->residual_scale)
        activate_pixels(s, r, first, k, pixels, to, c, SCALED_RESIDUAL, far, XT_BF16);
    else if (s->residual)
        activate_pixels(s, r, first, k, pixels, to, c, RESIDUAL, far, XT_BF16);
    else
        activate_pixels(s, r, first, k, pixels, to, c, NOTHING, far, XT_BF16);
}

/* Of bf16; float32 without pools goes by norm_strips.c. */
static void activate_all(const struct xt_norm_sample *s)
{
    struct rows r = split(s, XT_BF16);
    size_t c = (size_t)s->c;
    size_t pixels = (size_t)s->h * (size_t)s->w;
    bool far = s->far && can_write_past(s->y);
    for (size_t first = 0, count = 0; first < pixels; first += count) {
        count = turn(c, first, pixels);
        for (size_t k = 0; k < c; k += STRIP) {
            if (far)
                activate_turn(s, &r, first, k, count, true);
            else
                activate_turn(s, &r, first, k, count, false);
        }
    }
    if (far)
        _mm_sfence();
}

/* Columns of an average pool's window that are summed as a group: its stride, if the width is a
 * multiple of it. */
struct groups {
    size_t columns;       /* of a group */
    size_t window, apart; /* groups of a window, and from one to the next */
    size_t count;
};

static struct groups groups_of(const struct xt_window *w)
{
    size_t columns = (size_t)(w->kernel_w % w->stride_w == 0 ? w->stride_w : 1);
    struct groups g = {columns, (size_t)w->kernel_w / columns, (size_t)w->stride_w / columns, 0};
    g.count = ((size_t)w->out_w - 1) * g.apart + g.window;
    return g;
}

/* Adds row y of a strip to its window's column sums. */
XT_INLINE void average_row(const struct xt_norm_sample *s, const void *row, size_t k, int y,
                           float *column, enum xt_dtype type)
{
    const struct xt_window *w = &s->average;
    int oy = y / w->kernel_h;
    int ky = y % w->kernel_h;
    struct groups g = groups_of(w);
    if (oy >= w->out_h)
        return;
    for (size_t i = 0; i < g.count; i++) {
        struct pair sum = ky > 0 ? load_pair(column + i * STRIP) : all(0);
        for (size_t x = i * g.columns; x < (i + 1) * g.columns; x++)
            sum = add(sum, load_strip(row, x * STRIP, type));
        store_pair(column + i * STRIP, sum);
    }
    struct pair share = all(1.0f / (float)(w->kernel_h * w->kernel_w));
    for (int ox = 0; ox < w->out_w && ky == w->kernel_h - 1; ox++) {
        const float *from = column + (size_t)ox * g.apart * STRIP;
        struct pair sum = load_pair(from);
        for (size_t i = 1; i < g.window; i++)
            sum = add(sum, load_pair(from + i * STRIP));
        sum = in_order(mul_add(sum, share, all(0)), type);
        store_pair(s->averaged + ((size_t)oy * (size_t)w->out_w + (size_t)ox) * (size_t)s->c + k,
                   sum);
    }
}

/* A strip as it is stored; bf16 has the first vector alone. */
struct line {
    __m512i v[2];
};

XT_INLINE struct line load_line(const void *from, size_t i, enum xt_dtype type)
{
    struct line line = {{_mm512_loadu_si512(at(from, i, type)), _mm512_setzero_si512()}};
    if (type == XT_F32)
        line.v[1] = _mm512_loadu_si512(at(from, i + HALF, type));
    return line;
}

XT_INLINE void store_line(void *to, size_t i, struct line line, enum xt_dtype type)
{
    _mm512_storeu_si512(at_out(to, i, type), line.v[0]);
    if (type == XT_F32)
        _mm512_storeu_si512(at_out(to, i + HALF, type), line.v[1]);
}

XT_INLINE void stream_line(void *to, size_t i, struct line line, enum xt_dtype type)
{
    _mm512_stream_si512((void *)at_out(to, i, type), line.v[0]);
    if (type == XT_F32)
        _mm512_stream_si512((void *)at_out(to, i + HALF, type), line.v[1]);
}

/* The larger one and its place; the first on a tie. Bits of numbers that are not negative order
 * like integers. */
XT_INLINE void larger(struct line *best, __m256i *place, struct line other, __m256i other_place,
                      enum xt_dtype type)
{
    __mmask32 wins = 0;
    if (type == XT_F32) {
        wins = _mm512_cmpgt_epi32_mask(other.v[1], best->v[1]);
        wins = wins << HALF | _mm512_cmpgt_epi32_mask(other.v[0], best->v[0]);
        for (int i = 0; i < 2; i++)
            best->v[i] = _mm512_max_epi32(best->v[i], other.v[i]);
    } else {
        wins = _mm512_cmpgt_epi16_mask(other.v[0], best->v[0]);
        best->v[0] = _mm512_max_epi16(best->v[0], other.v[0]);
    }
    *place = _mm256_mask_mov_epi8(*place, wins, other_place);
}

/* The maxima across an activated row, which replace those of two rows before; if a window ends
 * here, also a row of the pool. */
XT_INLINE void max_row(const struct xt_norm_sample *s, const struct rows *r, size_t k, int y,
                       void *pooled, void *held, uint8_t *argmax, enum xt_dtype type)
{
    size_t out_w = (size_t)s->max.out_w;
    size_t step = (size_t)s->max.stride_w * STRIP;
    size_t c = (size_t)s->c;
    size_t older = (2 * k + (size_t)(y & 1) * STRIP) * out_w;
    size_t newer = (2 * k + (size_t)(~y & 1) * STRIP) * out_w;
    for (size_t i = 0; i < out_w; i++) {
        struct line best = load_line(r->active, i * step, type);
        __m256i place = _mm256_set1_epi8(1);
        larger(&best, &place, load_line(r->active, i * step + STRIP, type), _mm256_set1_epi8(2),
               type);
        larger(&best, &place, load_line(r->active, i * step + (size_t)2 * STRIP, type),
               _mm256_set1_epi8(4), type);
        __m256i *old_place = (__m256i *)(r->place + older + i * STRIP);
        if (pooled) {
            size_t between = newer + i * STRIP;
            struct line most = load_line(r->best, older + i * STRIP, type);
            __m256i at = _mm256_or_si256(_mm256_loadu_si256(old_place), _mm256_set1_epi8(8));
            __m256i second = _mm256_loadu_si256((const __m256i *)(r->place + between));
            larger(&most, &at, load_line(r->best, between, type),
                   _mm256_or_si256(second, _mm256_set1_epi8(16)), type);
            larger(&most, &at, best, _mm256_or_si256(place, _mm256_set1_epi8(32)), type);
            if (held) {
                stream_line(pooled, i * c, most, type);
                store_line(held, i * c, most, type);
            } else {
                fetch_out(pooled, i * c + c * out_w, type);
                store_line(pooled, i * c, most, type);
            }
            if (argmax) {
                __builtin_prefetch(argmax + c * out_w + i * STRIP, 1);
                _mm256_storeu_si256((__m256i *)(argmax + i * STRIP), at);
            }
        }
        store_line(r->best, older + i * STRIP, best, type);
        _mm256_storeu_si256(old_place, place);
    }
}

/* Row y of a strip of the max pool's input, which is in the scratch; the padding has rows too.
 */
XT_INLINE void max_pool(const struct xt_norm_sample *s, const struct rows *r, size_t k, int y,
                        enum xt_dtype type)
{
    const struct xt_window *m = &s->max;
    int top = y + m->pad_h - (KERNEL - 1);
    int oy = top / m->stride_h;
    bool ends = top >= 0 && oy * m->stride_h == top && oy < m->out_h;
    size_t to = ends ? (size_t)oy * (size_t)m->out_w * (size_t)s->c : 0;
    void *pooled = at_out(s->pooled, to + k, type);
    void *held = s->held ? at_out(s->held, to + k, type) : NULL;
    if (ends && s->argmax)
        max_row(s, r, k, y, pooled, held, s->argmax + to + k * (size_t)m->out_w, type);
    else if (ends)
        max_row(s, r, k, y, pooled, held, NULL, type);
    else
        max_row(s, r, k, y, NULL, NULL, NULL, type);
}

/* The padding, which is never a maximum. */
XT_INLINE void fill_row(void *row, size_t columns, enum xt_dtype type)
{
    __m512i least = type == XT_F32 ? _mm512_set1_epi32(INT32_MIN) : _mm512_set1_epi16(INT16_MIN);
    for (size_t x = 0; x < columns; x++)
        store_line(row, x * STRIP, (struct line){{least, least}}, type);
}

/* Which numbers of a strip's row are above 0. */
XT_INLINE void note_above(const struct xt_norm_sample *s, const uint16_t *row, size_t first,
                          size_t k)
{
    size_t strips = (size_t)s->c / STRIP;
    uint32_t *to = s->above + first * strips + k / STRIP;
    for (size_t x = 0; x < (size_t)s->w; x++)
        to[x * strips] =
            _mm512_cmpgt_epi16_mask(_mm512_loadu_si512(row + x * STRIP), _mm512_setzero_si512());
}

/* Row y of a strip, for all its readers. */
XT_INLINE void forward_row(const struct xt_norm_sample *s, const struct rows *r, size_t k, int y,
                           float *column, enum xt_dtype type)
{
    size_t c = (size_t)s->c;
    size_t w = (size_t)s->w;
    size_t first = (size_t)y * w;
    void *row = at_out(r->active, (size_t)s->max.pad_w * STRIP, type);
    activate(s, r, first, k, row, type);
    for (size_t x = 0; x < w && s->y; x++)
        store_line(s->y, (first + x) * c + k, load_line(row, x * STRIP, type), type);
    if (s->above && type == XT_BF16)
        note_above(s, row, first, k);
    if (s->averaged)
        average_row(s, row, k, y, column, type);
    if (s->pooled)
        max_pool(s, r, k, y, type);
}

XT_INLINE void forward(const struct xt_norm_sample *s, enum xt_dtype type)
{
    struct rows r = split(s, type);
    size_t c = (size_t)s->c;
    int pad = s->pooled ? s->max.pad_h : 0;
    for (int y = -pad; y < s->h + pad; y++) {
        bool padding = y < 0 || y >= s->h;
        if (y <= 0 || padding)
            fill_row(r.active, r.columns, type);
        for (size_t k = 0; k < c; k += STRIP) {
            if (padding)
                max_pool(s, &r, k, y, type);
            else
                forward_row(s, &r, k, y, r.column + k * r.columns, type);
        }
    }
    if (s->held)
        _mm_sfence();
}

/* Supports whole strips, and pools with stride 1 or 2 along columns. */
static bool is_wide(const struct xt_norm_sample *s)
{
    return !s->activation && s->c % STRIP == 0 && s->max.stride_w <= 2;
}

bool XT_LOOPS_NAME(norm_wide_forward)(const struct xt_norm_sample *s)
{
    bool pools = s->pooled || s->averaged;
    if (!is_wide(s) || (s->dtype == XT_F32 && !pools))
        return false;
    if (!pools)
        activate_all(s);
    else if (s->dtype == XT_F32)
        forward(s, XT_F32);
    else
        forward(s, XT_BF16);
    return true;
}

/* ---- backward ---- */

/* The rows of the max pool whose windows hold a row, and the bit of their argmax that selects
 * it. */
struct reach {
    int count;
    size_t first[KERNEL]; /* elements from the pool's begin */
    char bit[KERNEL];
};

static struct reach rows_over(const struct xt_norm_sample *s, int y)
{
    const struct xt_window *m = &s->max;
    struct reach reach = {.count = 0};
    for (int ky = 0; ky < KERNEL && s->dpooled[0]; ky++) {
        int top = y + m->pad_h - ky;
        int oy = top / m->stride_h;
        if (top < 0 || oy * m->stride_h != top || oy >= m->out_h)
            continue;
        reach.first[reach.count] = (size_t)oy * (size_t)m->out_w * (size_t)s->c;
        reach.bit[reach.count++] = (char)(8 << ky);
    }
    return reach;
}

/* The gradients of a row from the windows of one column, all at the same place. */
struct landed {
    struct pair grad;
    __m512i place; /* bit kx; of bf16 16 bits each, of float32 8 */
};

/* Those of a strip's numbers that a mask names. */
XT_INLINE struct pair load_masked(const void *from, size_t i, __mmask32 mask, enum xt_dtype type)
{
    const float *numbers = (const float *)from + i;
    if (type == XT_BF16)
        return widen_line(_mm512_maskz_loadu_epi16(mask, (const uint16_t *)from + i));
    return (struct pair){_mm512_maskz_loadu_ps((__mmask16)mask, numbers),
                         _mm512_maskz_loadu_ps((__mmask16)(mask >> HALF), numbers + HALF)};
}

XT_INLINE struct landed land(const struct xt_norm_sample *s, const struct reach *reach, int count,
                             size_t k, size_t ox, bool two, enum xt_dtype type)
{
    size_t c = (size_t)s->c;
    size_t out_w = (size_t)s->max.out_w;
    size_t in_row = k + ox * c;
    size_t in_argmax = k * out_w + ox * STRIP;
    struct landed sum = {.grad = all(0)};
    __m256i place = _mm256_setzero_si256();
    fetch(s->dpooled[0], ahead(reach->first[0], c, k, out_w, ox), type);
    _mm_prefetch((const char *)s->argmax + reach->first[0] + c * out_w + in_argmax, _MM_HINT_T0);
#pragma GCC unroll 3
    for (int i = 0; i < count; i++) {
        size_t base = reach->first[i] + in_row;
        const uint8_t *from = s->argmax + reach->first[i] + in_argmax;
        __m256i argmax = _mm256_loadu_si256((const __m256i *)from);
        __mmask32 wins = _mm256_test_epi8_mask(argmax, _mm256_set1_epi8(reach->bit[i]));
        struct pair g = load_masked(s->dpooled[0], base, wins, type);
        if (two)
            g = add(g, load_masked(s->dpooled[1], base, wins, type));
        sum.grad = i > 0 ? add(sum.grad, g) : g;
        place = _mm256_mask_mov_epi8(place, wins, argmax);
    }
    sum.place = type == XT_F32 ? _mm512_castsi256_si512(place) : _mm512_cvtepu8_epi16(place);
    return sum;
}

/* Adds the gradient of column kx of the window. */
XT_INLINE struct pair take(struct pair sum, const struct landed *from, int kx, enum xt_dtype type)
{
    __mmask16 even = _mm512_test_epi32_mask(from->place, _mm512_set1_epi32(1 << kx));
    __mmask16 odd = _mm512_test_epi32_mask(from->place, _mm512_set1_epi32(1 << (kx + 16)));
    if (type == XT_F32) {
        __mmask32 both = _mm256_test_epi8_mask(_mm512_castsi512_si256(from->place),
                                               _mm256_set1_epi8((char)(1 << kx)));
        even = (__mmask16)both;
        odd = (__mmask16)(both >> HALF);
    }
    sum.even = _mm512_mask_add_ps(sum.even, even, sum.even, from->grad.even);
    sum.odd = _mm512_mask_add_ps(sum.odd, odd, sum.odd, from->grad.odd);
    return sum;
}

/* Adds the max pool's gradient of a row to `column`, for windows with stride one; returns the
 * number of columns done. */
XT_INLINE size_t add_each(const struct xt_norm_sample *s, const struct reach *reach, int count,
                          size_t k, bool two, const float *column, float *grad, enum xt_dtype type)
{
    size_t out_w = (size_t)s->max.out_w;
    struct landed none = {.grad = all(0), .place = _mm512_setzero_si512()};
    struct landed last[2] = {none, none};
    for (size_t x = 0; x < out_w + 2; x++) {
        struct landed now = x < out_w ? land(s, reach, count, k, x, two, type) : none;
        struct pair sum = take(load_pair(column + x * STRIP), &now, 0, type);
        sum = take(sum, &last[0], 1, type);
        store_pair(grad + x * STRIP, take(sum, &last[1], 2, type));
        last[1] = last[0];
        last[0] = now;
    }
    return out_w + 2;
}

/* The same for stride two. */
XT_INLINE size_t add_second(const struct xt_norm_sample *s, const struct reach *reach, int count,
                            size_t k, bool two, const float *column, float *grad,
                            enum xt_dtype type)
{
    size_t out_w = (size_t)s->max.out_w;
    struct landed last = {.grad = all(0), .place = _mm512_setzero_si512()};
    for (size_t i = 0; i < out_w; i++) {
        size_t x = 2 * i * STRIP;
        struct landed now = land(s, reach, count, k, i, two, type);
        struct pair first = take(load_pair(column + x), &now, 0, type);
        store_pair(grad + x, take(first, &last, 2, type));
        store_pair(grad + x + STRIP, take(load_pair(column + x + STRIP), &now, 1, type));
        last = now;
    }
    size_t end = 2 * out_w * STRIP;
    store_pair(grad + end, take(load_pair(column + end), &last, 2, type));
    return 2 * out_w + 1;
}

XT_INLINE size_t add_rows(const struct xt_norm_sample *s, const struct reach *reach, int count,
                          size_t k, bool two, const float *column, float *grad, enum xt_dtype type)
{
    if (s->max.stride_w == 1)
        return add_each(s, reach, count, k, two, column, grad, type);
    return add_second(s, reach, count, k, two, column, grad, type);
}

/* The row's gradient from both pools, shared by all passes. */
XT_INLINE void row_grad(const struct xt_norm_sample *s, const struct rows *r, size_t k, int y,
                        const float *column, enum xt_dtype type)
{
    struct reach reach = rows_over(s, y);
    size_t done = 0;
    if (reach.count && s->dpooled[1])
        done = add_rows(s, &reach, reach.count, k, true, column, r->grad, type);
    else if (reach.count == 3)
        done = add_rows(s, &reach, 3, k, false, column, r->grad, type);
    else if (reach.count == 2)
        done = add_rows(s, &reach, 2, k, false, column, r->grad, type);
    else if (reach.count)
        done = add_rows(s, &reach, 1, k, false, column, r->grad, type);
    if (done < r->columns)
        memcpy(r->grad + done * STRIP, column + done * STRIP,
               (r->columns - done) * STRIP * sizeof *column);
}

static __attribute__((noinline)) void row_grad_bf16(const struct xt_norm_sample *s,
                                                    const struct rows *r, size_t k, int y,
                                                    const float *column)
{
    row_grad(s, r, k, y, column, XT_BF16);
}

static __attribute__((noinline)) void row_grad_f32(const struct xt_norm_sample *s,
                                                   const struct rows *r, size_t k, int y,
                                                   const float *column)
{
    row_grad(s, r, k, y, column, XT_F32);
}

/* The average pool's gradient of a strip, replicated over one row of its window; zero without
 * one. */
XT_INLINE void average_grad(const struct xt_norm_sample *s, size_t columns, size_t k, int y,
                            float *column, enum xt_dtype type)
{
    const struct xt_window *w = &s->average;
    struct pair share = all(1.0f / (float)(w->kernel_h * w->kernel_w));
    bool within = s->daveraged && y / w->kernel_h < w->out_h;
    struct groups g = within ? groups_of(w) : (struct groups){.count = 0};
    size_t x = (size_t)s->max.pad_w;
    memset(column, 0, columns * STRIP * sizeof *column);
    for (size_t i = 0; i < g.count; i++) {
        size_t first = i < g.window ? 0 : (i - g.window) / g.apart + 1;
        size_t line = (size_t)(y / w->kernel_h) * (size_t)w->out_w;
        struct pair sum = all(0);
        for (size_t ox = first; ox * g.apart <= i && ox < (size_t)w->out_w; ox++)
            sum = add(sum, load_ordered(s->daveraged + (line + ox) * (size_t)s->c + k, type));
        sum = mul_add(sum, share, all(0));
        for (size_t n = 0; n < g.columns; n++, x++)
            store_pair(column + x * STRIP, sum);
    }
}

/* How a pass over pixels is compiled. */
struct masking {
    enum xt_dtype type;
    bool residual;
    int readers; /* of y: 1 or 2 if the gradient is read from dy, 0 if it is in a row */
    enum xt_norm_pass pass;
};

/* Masks a strip's gradient by the ReLU, and adds it to the channels' sums or computes the input's
 * from it. */
XT_INLINE void finish(const struct xt_norm_sample *s, const struct rows *r, size_t first, size_t k,
                      size_t pixels, const float *row, struct masking m)
{
    size_t c = (size_t)s->c;
    size_t base = first * c;
    bool applies = m.pass == XT_NORM_APPLY;
    struct pair scale = factor(r, k, SCALE);
    struct pair shift = factor(r, k, SHIFT);
    struct pair pivot = factor(r, k, PIVOT);
    struct pair a = factor(r, k, A);
    struct pair b = factor(r, k, B);
    struct pair d = factor(r, k, D);
    float *sums = r->sums + 2 * k;
    struct pair sum = load_pair(sums);
    struct pair sum_z = load_pair(sums + STRIP);
    for (size_t x = 0; x < pixels; x++) {
        size_t i = base + k + x * c;
        size_t next = ahead(base, c, k, pixels, x);
        fetch(s->z, next, m.type);
        struct pair z = load_strip(s->z, i, m.type);
        struct pair v = mul_add(z, scale, shift);
        if (m.residual) {
            fetch(s->residual, next, m.type);
            v = add(v, load_strip(s->residual, i, m.type));
        }
        if (m.readers)
            fetch(s->dy[0], next, m.type);
        if (m.readers == 2)
            fetch(s->dy[1], next, m.type);
        struct pair g = m.readers ? load_strip(s->dy[0], i, m.type) : load_pair(row + x * STRIP);
        if (m.readers == 2)
            g = add(g, load_strip(s->dy[1], i, m.type));
        __mmask16 even = _mm512_cmp_ps_mask(v.even, _mm512_setzero_ps(), _CMP_GT_OQ);
        __mmask16 odd = _mm512_cmp_ps_mask(v.odd, _mm512_setzero_ps(), _CMP_GT_OQ);
        struct pair da = {_mm512_maskz_mov_ps(even, g.even), _mm512_maskz_mov_ps(odd, g.odd)};
        if (applies)
            da = mul_add(a, da, mul_add(b, z, d));
        if (m.pass != XT_NORM_SUM)
            store_strip(s->da, i, da, m.type);
        if (applies)
            continue;
        sum = add(sum, da);
        sum_z = mul_add(da, sub(z, pivot), sum_z);
    }
    if (applies)
        return;
    store_pair(sums, sum);
    store_pair(sums + STRIP, sum_z);
}

/* The gradient before the ReLU of an average pool alone, in memory order. Rows of a window have the
 * same, which is made once, where the strips' rows are otherwise. */
XT_INLINE void keep_average(const struct xt_norm_sample *s, const struct rows *r)
{
    size_t c = (size_t)s->c;
    uint16_t *row = (uint16_t *)r->column;
    const uint32_t *above = s->above;
    uint16_t *to = s->da;
    for (int y = 0; y < s->h; y++) {
        for (size_t k = 0; k < c && y % s->average.kernel_h == 0; k += STRIP) {
            average_grad(s, r->columns, k, y, r->grad, XT_BF16);
            for (size_t x = 0; x < (size_t)s->w; x++)
                _mm512_storeu_si512(
                    row + x * c + k,
                    narrow(load_pair(r->grad + ((size_t)s->max.pad_w + x) * STRIP)));
        }
        for (size_t i = 0; i < (size_t)s->w * c; to += s->da_pixel)
            for (size_t k = 0; k < c; k += STRIP, i += STRIP)
                _mm512_storeu_si512(to + k,
                                    _mm512_maskz_mov_epi16(*above++, _mm512_loadu_si512(row + i)));
    }
}

/* A strip's row of the gradient before the ReLU. */
XT_INLINE void keep(const struct xt_norm_sample *s, size_t first, size_t k, const float *row)
{
    size_t strips = (size_t)s->c / STRIP;
    const uint32_t *above = s->above + first * strips + k / STRIP;
    size_t pixel = (size_t)s->da_pixel;
    uint16_t *to = (uint16_t *)s->da + first * pixel + k;
    for (size_t x = 0; x < (size_t)s->w; x++) {
        __m512i line = narrow(load_pair(row + x * STRIP));
        _mm512_storeu_si512(to + x * pixel, _mm512_maskz_mov_epi16(above[x * strips], line));
    }
}

XT_INLINE bool adds_up(enum xt_norm_pass pass)
{
    return pass == XT_NORM_SUM_AND_KEEP || pass == XT_NORM_SUM;
}

/* Adds a block's float32 sums to the sample's doubles. */
XT_INLINE void flush(const struct xt_norm_sample *s, const struct rows *r, enum xt_dtype type)
{
    for (size_t k = 0; k < (size_t)s->c; k += STRIP) {
        add_to_doubles(s->sum_da + k, load_pair(r->sums + 2 * k), type);
        add_to_doubles(s->sum_da_z + k, load_pair(r->sums + 2 * k + STRIP), type);
    }
    memset(r->sums, 0, 2 * (size_t)s->c * sizeof *r->sums);
}

XT_INLINE void backward_from_readers(const struct xt_norm_sample *s, const struct rows *r,
                                     struct masking m)
{
    enum { SEGMENT = 64 };
    size_t c = (size_t)s->c;
    size_t pixels = (size_t)s->h * (size_t)s->w;
    size_t due = SEGMENT;
    for (size_t first = 0, count = 0; first < pixels; first += count) {
        count = turn(c, first, pixels);
        for (size_t k = 0; k < c; k += STRIP)
            finish(s, r, first, k, count, NULL, m);
        if (m.pass == XT_NORM_APPLY || (first + count < due && first + count < pixels))
            continue;
        flush(s, r, m.type);
        due += SEGMENT;
    }
}

/* Adds the gradients of y to those of the pools. */
XT_INLINE void add_readers(const struct xt_norm_sample *s, size_t first, size_t k, float *row,
                           enum xt_dtype type)
{
    size_t c = (size_t)s->c;
    for (int reader = 0; reader < 2; reader++)
        for (size_t x = 0; x < (size_t)s->w && s->dy[reader]; x++)
            store_pair(row + x * STRIP, add(load_pair(row + x * STRIP),
                                            load_strip(s->dy[reader], (first + x) * c + k, type)));
}

XT_INLINE void backward_from_pools(const struct xt_norm_sample *s, const struct rows *r,
                                   struct masking m)
{
    size_t c = (size_t)s->c;
    size_t pad = (size_t)s->max.pad_w * STRIP;
    for (int y = 0; y < s->h; y++) {
        size_t first = (size_t)y * (size_t)s->w;
        for (size_t k = 0; k < c; k += STRIP) {
            float *column = r->column + k * r->columns;
            float *row = column;
            if (s->daveraged ? y % s->average.kernel_h == 0 : y == 0)
                average_grad(s, r->columns, k, y, column, m.type);
            if (s->dpooled[0] || s->dy[0]) {
                row = r->grad;
                (m.type == XT_F32 ? row_grad_f32 : row_grad_bf16)(s, r, k, y, column);
                add_readers(s, first, k, row + pad, m.type);
            }
            if (m.pass == XT_NORM_KEEP)
                keep(s, first, k, row + pad);
            else
                finish(s, r, first, k, (size_t)s->w, row + pad, m);
        }
        if (adds_up(m.pass))
            flush(s, r, m.type);
    }
}

XT_INLINE void backward(const struct xt_norm_sample *s, struct masking m)
{
    struct rows r = split(s, m.type);
    if (adds_up(m.pass)) {
        memset(r.sums, 0, 2 * (size_t)s->c * sizeof *r.sums);
        memset(s->sum_da, 0, (size_t)s->c * sizeof *s->sum_da);
        memset(s->sum_da_z, 0, (size_t)s->c * sizeof *s->sum_da_z);
    }
    if (m.readers)
        backward_from_readers(s, &r, m);
    else if (m.pass == XT_NORM_KEEP && s->daveraged && !s->dpooled[0])
        keep_average(s, &r);
    else
        backward_from_pools(s, &r, m);
}

/* The cases are written out because only constants give loops without branches. */
XT_INLINE void backward_of(const struct xt_norm_sample *s, int readers, enum xt_dtype type)
{
    if (s->residual)
        backward(s, (struct masking){type, true, readers, XT_NORM_SUM_AND_KEEP});
    else if (s->pass == XT_NORM_SUM_AND_KEEP)
        backward(s, (struct masking){type, false, readers, XT_NORM_SUM_AND_KEEP});
    else if (s->pass == XT_NORM_SUM)
        backward(s, (struct masking){type, false, readers, XT_NORM_SUM});
    else if (s->pass == XT_NORM_KEEP && type == XT_BF16)
        backward(s, (struct masking){type, false, readers, XT_NORM_KEEP});
    else
        backward(s, (struct masking){type, false, readers, XT_NORM_APPLY});
}

bool XT_LOOPS_NAME(norm_wide_backward)(const struct xt_norm_sample *s)
{
    bool only_y = s->dy[0] && !s->dpooled[0] && !s->daveraged;
    if (!is_wide(s) || !s->relu || (s->dtype == XT_F32 && only_y))
        return false;
    if (s->dtype == XT_F32)
        backward_of(s, 0, XT_F32);
    else if (!only_y)
        backward_of(s, 0, XT_BF16);
    else if (s->dy[1])
        backward_of(s, 2, XT_BF16);
    else
        backward_of(s, 1, XT_BF16);
    return true;
}

bool XT_LOOPS_NAME(norm_wide_apply)(enum xt_dtype dtype, const void *da, const void *z,
                                    size_t pixels, int channels, const float *factors, void *dz,
                                    bool far)
{
    size_t c = (size_t)channels;
    bool past = far && can_write_past(dz);
    if (dtype != XT_BF16 || c % STRIP != 0)
        return false;
    for (size_t first = 0, count = 0; first < pixels; first += count) {
        count = turn(c, first, pixels);
        for (size_t k = 0; k < c; k += STRIP) {
            struct pair da_factor = load_ordered(factors + k, XT_BF16);
            struct pair z_factor = load_ordered(factors + c + k, XT_BF16);
            struct pair rest = load_ordered(factors + 2 * c + k, XT_BF16);
            for (size_t x = 0; x < count; x++) {
                size_t i = first * c + k + x * c;
                size_t next = ahead(first * c, c, k, count, x);
                fetch(z, next, XT_BF16);
                fetch(da, next, XT_BF16);
                struct pair v = mul_add(z_factor, load_strip(z, i, XT_BF16), rest);
                v = mul_add(da_factor, load_strip(da, i, XT_BF16), v);
                if (past)
                    stream_strip(dz, i, v, XT_BF16);
                else
                    store_strip(dz, i, v, XT_BF16);
            }
        }
    }
    _mm_sfence();
    return true;
}

/* ---- statistics ---- */

bool XT_LOOPS_NAME(norm_wide_statistics)(enum xt_dtype dtype, const void *z, size_t pixels,
                                         int channels, const float *pivot, double *total,
                                         double *squares)
{
    enum { SEGMENT = 64 };
    size_t c = (size_t)channels;
    if (dtype != XT_BF16 || c % STRIP != 0)
        return false;
    memset(total, 0, c * sizeof *total);
    memset(squares, 0, c * sizeof *squares);
    for (size_t first = 0; first < pixels; first += SEGMENT)
        for (size_t k = 0; k < c; k += STRIP) {
            struct pair around = load_ordered(pivot + k, XT_BF16);
            struct pair sum = all(0);
            struct pair square = all(0);
            size_t count = pixels - first < SEGMENT ? pixels - first : SEGMENT;
            for (size_t x = 0; x < count; x++) {
                fetch(z, ahead(first * c, c, k, count, x), XT_BF16);
                struct pair v = sub(load_strip(z, (first + x) * c + k, XT_BF16), around);
                sum = add(sum, v);
                square = mul_add(v, v, square);
            }
            add_to_doubles(total + k, sum, XT_BF16);
            add_to_doubles(squares + k, square, XT_BF16);
        }
    return true;
}
#endif
