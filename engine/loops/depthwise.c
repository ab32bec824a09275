/* Depthwise convolutions, row by row of what is written: some neighbouring pixels at a time, so
 * that a weight is read once for all of them and a pixel of the input once for the taps of a row.
 * depthwise_job.h says what a job is. */
#include "engine/loops/activation_value.h"
#include "engine/loops/table.h"

/* Pixels at a time: 7 divides the widths of tensors of 224 x 224 images; of other narrow ones; of
 * the weights' gradient. */
enum { PIXELS = 7, FEW = 4, SUMMED = 8 };

/* What the next row reads, of which each pixel of this row prefetches a share: rows are too short
 * and too far apart for the CPU to do so. Excess prefetches are harmless. */
struct ahead {
    const char *from;
    size_t pixel; /* bytes */
};

XT_INLINE void fetch(const struct ahead *ahead, int x, int pixels)
{
    enum { LINE = 64 };
    const char *from = ahead->from + (size_t)x * ahead->pixel;
    for (size_t i = 0; i < (size_t)pixels * ahead->pixel; i += LINE)
        __builtin_prefetch(from + i);
}

/* `rows` rows of `width` pixels from `from` on, for `count` pixels. */
static struct ahead look_ahead(const void *from, int rows, int width, int c, int count,
                               enum xt_dtype dtype)
{
    size_t bytes = (size_t)rows * (size_t)width * (size_t)c * xt_dtype_size(dtype);
    return (struct ahead){from, bytes / (size_t)(count > 0 ? count : 1)};
}

/* A row to write, or its pixels at a stride. */
struct line {
    struct ahead ahead;
    void *out;
    size_t out_step; /* elements from one pixel to the next */
    int count;       /* pixels */
    int first, step; /* the column that the first pixel's first tap reads; from pixel to pixel */
    int taps, tap_step;
    int width; /* columns of what is read */
    int c;
    const struct xt_depthwise_ending *ending;
    int rows; /* that are read, with the weights of each: [taps][c] */
    const void *in[XT_DEPTHWISE_KERNEL_MOST];
    const float *weights[XT_DEPTHWISE_KERNEL_MOST];
};

/* Hard swish or SiLU. */
static void activate(const struct xt_depthwise_ending *ending, vec *sum, int pixels)
{
    bool hard = ending->activation->kind == XT_ACT_HARD_SWISH;
    for (int p = 0; p < pixels; p++) {
        sum[p] = swish_value(sum[p], hard, XT_F32);
        sum[p] = ending->scale ? sum[p] * ending->steps : sum[p];
    }
}

/* What the sums of the channels from k on begin with. */
XT_INLINE vec begin_sum(const struct xt_depthwise_ending *ending, size_t k, enum xt_dtype dtype)
{
    return ending->bias && !xt_dtype_is_int8(dtype) ? load_vec(ending->bias, k, XT_F32) : (vec){0};
}

XT_INLINE void end_sums(const struct xt_depthwise_ending *ending, size_t k, int pixels, vec *sum,
                        enum xt_dtype dtype)
{
    if (xt_dtype_is_int8(dtype)) {
        vec scale = load_vec(ending->scale, k, XT_F32);
        vec bias = load_vec(ending->bias, k, XT_F32);
#pragma GCC unroll 8
        for (int p = 0; p < pixels; p++)
            sum[p] = sum[p] * scale + bias;
    }
    if (ending->activation) {
        vec copy[PIXELS]; /* so that sums need no memory without */
        memcpy(copy, sum, (size_t)pixels * sizeof *sum);
        activate(ending, copy, pixels);
        memcpy(sum, copy, (size_t)pixels * sizeof *sum);
    }
    vec least = vec_of(ending->least);
    vec most = vec_of(ending->most);
#pragma GCC unroll 8
    for (int p = 0; p < pixels; p++)
        sum[p] = vec_least(most, vec_most(least, sum[p]));
}

/* In a register: as an operand in memory it would be read for each of its taps. */
XT_INLINE vec keep(vec v)
{
#ifdef __SSE2__
    __asm__("" : "+v"(v));
#endif
    return v;
}

/* Adds to the sums of `pixels` pixels, of the channels from k on; the first one's first tap is in
 * column `left`. Of the columns that they read, as many as half the taps may be outside on either
 * side. `pixels`, `taps` and `step` are constants. */
XT_INLINE void add_taps(const struct line *l, int left, size_t k, int pixels, int taps, int step,
                        enum xt_dtype dtype, vec *sum)
{
    enum { TAPS_MOST = 7 };
    const int columns = (pixels - 1) * step + taps;
    const int edge = taps / 2;
    size_t c = (size_t)l->c;
    int end = l->width - left;
    size_t first = (size_t)left * c + k; /* wraps where that column is outside */
    for (int r = 0; r < l->rows; r++) {
        const void *in = l->in[r];
        const float *from = l->weights[r] + k;
        vec weight[TAPS_MOST];
#pragma GCC unroll 8
        for (int t = 0; t < taps; t++)
            weight[t] = load_vec(from, (size_t)t * c, XT_F32);
#pragma GCC unroll 24
        for (int i = 0; i < columns; i++) {
            if ((i < edge && i < -left) || (i >= columns - edge && i >= end))
                continue;
            vec column = keep(load_vec(in, first + (size_t)i * c, dtype));
#pragma GCC unroll 8
            for (int p = 0; p < pixels; p++)
                if (i - p * step >= 0 && i - p * step < taps)
                    sum[p] += weight[i - p * step] * column;
        }
    }
}

/* `pixels` pixels from x on, of the channels from k on. */
XT_INLINE void write_pixels(const struct line *l, int x, size_t k, int pixels, int taps, int step,
                            enum xt_dtype dtype)
{
    vec begin = begin_sum(l->ending, k, dtype);
    vec sum[PIXELS];
#pragma GCC unroll 8
    for (int p = 0; p < pixels; p++)
        sum[p] = begin;
    add_taps(l, l->first + x * step, k, pixels, taps, step, dtype, sum);
    end_sums(l->ending, k, pixels, sum, dtype);
    void *out = at_out(l->out, (size_t)x * l->out_step + k, dtype);
#pragma GCC unroll 8
    for (int p = 0; p < pixels; p++, out = at_out(out, l->out_step, dtype))
        store_vec(out, 0, sum[p], dtype);
}

/* A row, `pixels` at a time, of which it has as many at least; its last pixels again where they
 * fill no block, and the last channels where they fill no vector. */
XT_INLINE void write_blocks(const struct line *l, int pixels, int taps, int step,
                            enum xt_dtype dtype)
{
    size_t c = (size_t)l->c;
    int last = l->count - pixels;
    for (int x = 0; x < last + pixels; x += pixels) {
        int first = x < last ? x : last;
        fetch(&l->ahead, first, pixels);
        size_t k = 0;
        for (; k + WIDTH <= c; k += WIDTH)
            write_pixels(l, first, k, pixels, taps, step, dtype);
        if (k < c)
            write_pixels(l, first, c - WIDTH, pixels, taps, step, dtype);
    }
}

XT_INLINE void write_row(const struct line *l, int taps, int step, enum xt_dtype dtype)
{
    if (l->count % PIXELS == 0 || l->count > 4 * PIXELS)
        write_blocks(l, PIXELS, taps, step, dtype);
    else
        write_blocks(l, FEW, taps, step, dtype);
}

/* Pixel by pixel, of any shape. */
XT_INLINE void write_any(const struct line *l, size_t k, enum xt_dtype dtype)
{
    size_t c = (size_t)l->c;
    for (int x = 0; x < l->count; x++) {
        vec sum = begin_sum(l->ending, k, dtype);
        for (int r = 0; r < l->rows; r++)
            for (int t = 0; t < l->taps; t++) {
                int column = l->first + x * l->step + t * l->tap_step;
                if (column >= 0 && column < l->width)
                    sum += load_vec(l->weights[r], (size_t)t * c + k, XT_F32) *
                           load_vec(l->in[r], (size_t)column * c + k, dtype);
            }
        end_sums(l->ending, k, 1, &sum, dtype);
        store_vec(l->out, (size_t)x * l->out_step + k, sum, dtype);
    }
}

/* 10 * taps + step if there is a loop for them: those with a padding of up to half the taps. */
static int shape_of(const struct line *l)
{
    int most = l->taps / 2;
    int right = l->first + (l->count - 1) * l->step + l->taps - l->width;
    return l->tap_step == 1 && l->count >= FEW && -l->first <= most && right <= most
               ? 10 * l->taps + l->step
               : 0;
}

XT_INLINE void write_wide(const struct line *l, enum xt_dtype dtype)
{
    size_t c = (size_t)l->c;
    int shape = shape_of(l);
    if (shape == 11)
        write_row(l, 1, 1, dtype);
    else if (shape == 21)
        write_row(l, 2, 1, dtype);
    else if (shape == 31)
        write_row(l, 3, 1, dtype);
    else if (shape == 32)
        write_row(l, 3, 2, dtype);
    else if (shape == 51)
        write_row(l, 5, 1, dtype);
    else if (shape == 52)
        write_row(l, 5, 2, dtype);
    else if (shape == 71)
        write_row(l, 7, 1, dtype);
    else
        for (size_t k = 0; k < c; k += WIDTH)
            write_any(l, k + WIDTH <= c ? k : c - WIDTH, dtype);
}

/* The first pixel from which on no tap is outside on the left; and on the right, likewise. */
static void find_inner(const struct line *l, int *begin, int *end)
{
    int room = l->width - 1 - (l->taps - 1) * l->tap_step - l->first;
    *begin = l->first < 0 ? (-l->first + l->step - 1) / l->step : 0;
    *end = room < 0 ? 0 : room / l->step + 1;
    *end = *end < l->count ? *end : l->count;
    *begin = *begin < l->count ? *begin : l->count;
    *end = *end > *begin ? *end : *begin;
}

/* Fewer channels than a vector has, in training. */
static void write_narrow(const struct line *l, enum xt_dtype dtype)
{
    const struct xt_depthwise_ending *ending = l->ending;
    size_t c = (size_t)l->c;
    for (int x = 0; x < l->count; x++)
        for (size_t k = 0; k < c; k++) {
            float sum = ending->bias ? ending->bias[k] : 0;
            for (int r = 0; r < l->rows; r++)
                for (int t = 0; t < l->taps; t++) {
                    int column = l->first + x * l->step + t * l->tap_step;
                    if (column >= 0 && column < l->width)
                        sum += l->weights[r][(size_t)t * c + k] *
                               load(l->in[r], (size_t)column * c + k, dtype);
                }
            store(l->out, (size_t)x * l->out_step + k, sum < ending->least ? ending->least : sum,
                  dtype);
        }
}

static void write_line(const struct line *l, enum xt_dtype dtype)
{
    if (l->c < WIDTH)
        write_narrow(l, dtype);
    else if (dtype == XT_F32)
        write_wide(l, XT_F32);
    else if (dtype == XT_BF16)
        write_wide(l, XT_BF16);
    else if (dtype == XT_U8)
        write_wide(l, XT_U8);
    else
        write_wide(l, XT_S8);
}

void XT_LOOPS_NAME(depthwise)(const struct xt_depthwise *job, const void *from, void *to)
{
    size_t row = (size_t)job->w * (size_t)job->c;
    size_t taps = (size_t)job->kernel_w * (size_t)job->c;
    struct line l = {.out_step = (size_t)job->c,
                     .count = job->out_w,
                     .first = -job->pad_w,
                     .step = job->stride_w,
                     .taps = job->kernel_w,
                     .tap_step = job->dilation_w,
                     .width = job->w,
                     .c = job->c,
                     .ending = &job->ending};
    for (int oy = job->first_row; oy < job->end_row; oy++) {
        l.rows = 0;
        l.out = at_out(to, (size_t)oy * (size_t)job->out_w * l.out_step, job->dtype);
        for (int ky = 0; ky < job->kernel_h; ky++) {
            int y = oy * job->stride_h - job->pad_h + ky * job->dilation_h;
            if (y < 0 || y >= job->h)
                continue;
            l.in[l.rows] = at(from, (size_t)y * row, job->dtype);
            l.weights[l.rows++] = job->weights + (size_t)ky * taps;
            l.ahead = look_ahead(at(from, (size_t)(y + 1) * row, job->dtype), job->stride_h, job->w,
                                 job->c, job->out_w, job->dtype);
        }
        write_line(&l, job->dtype);
    }
}

/* ---- the input's gradient ---- */

/* The rows of the output that row y went into. */
static void find_rows(const struct xt_depthwise *job, int y, const void *from, struct line *l)
{
    size_t row = (size_t)job->out_w * (size_t)job->c;
    size_t taps = (size_t)job->kernel_w * (size_t)job->c;
    l->rows = 0;
    for (int ky = 0; ky < job->kernel_h; ky++) {
        int place = y + job->pad_h - ky * job->dilation_h;
        int oy = place / job->stride_h;
        if (place < 0 || place % job->stride_h || oy >= job->out_h)
            continue;
        l->in[l->rows] = at(from, (size_t)oy * row, job->dtype);
        l->weights[l->rows++] = job->weights + (size_t)ky * taps;
        if (l->rows == 1)
            l->ahead = look_ahead(at(from, (size_t)(oy + 1) * row, job->dtype), 1, job->out_w,
                                  job->c, job->w / job->stride_w, job->dtype);
    }
}

/* A phase is every stride-th column: the same taps reach all of them. */
void XT_LOOPS_NAME(depthwise_data_grad)(const struct xt_depthwise *job, const void *from, void *to)
{
    static const struct xt_depthwise_ending none = {.least = -INFINITY, .most = INFINITY};
    size_t c = (size_t)job->c;
    struct line l = {.out_step = (size_t)job->stride_w * c,
                     .step = 1,
                     .tap_step = job->dilation_w,
                     .width = job->out_w,
                     .c = job->c,
                     .ending = &none};
    for (int y = 0; y < job->h; y++) {
        find_rows(job, y, from, &l);
        for (int phase = 0; phase < job->stride_w; phase++) {
            int x = (phase - job->pad_w % job->stride_w + job->stride_w) % job->stride_w;
            l.out = at_out(to, ((size_t)y * (size_t)job->w + (size_t)x) * c, job->dtype);
            l.count = x < job->w ? (job->w - 1 - x) / job->stride_w + 1 : 0;
            l.taps = xt_depthwise_taps(job, phase);
            l.first = (x + job->pad_w - phase) / job->stride_w - (l.taps - 1) * job->dilation_w;
            write_line(&l, job->dtype);
            l.ahead.pixel = 0; /* the first phase has fetched all */
            for (int r = 0; r < l.rows; r++)
                l.weights[r] += (size_t)l.taps * c;
        }
    }
}

/* ---- the weights' gradient ---- */

/* A row of the input and one of the output's gradient, multiplied by a row of taps. */
struct product {
    struct ahead ahead;
    const void *in, *out_grad;
    float *sums; /* [taps][c] */
    int first, step, taps, tap_step, c;
};

/* Taps [from, to) of `pixels` of the output's pixels from x on, of the channels from k on but the
 * `skip` first ones. Several taps are neighbours. */
XT_INLINE void sum_taps(const struct product *m, int x, size_t k, int skip, int pixels, int from,
                        int to, int step, enum xt_dtype dtype)
{
    size_t c = (size_t)m->c;
    const void *in = at(m->in, (size_t)(m->first + x * step + from * m->tap_step) * c + k, dtype);
    bits counted;
    for (int i = 0; i < WIDTH; i++)
        counted[i] = i >= skip ? ~0u : 0;
    vec sum[SUMMED];
#pragma GCC unroll 8
    for (int t = from; t < to; t++)
        sum[t - from] = load_vec(m->sums, (size_t)t * c + k, XT_F32);
#pragma GCC unroll 8
    for (int p = 0; p < pixels; p++) {
        vec g = load_vec(m->out_grad, (size_t)(x + p) * c + k, dtype);
        g = (vec)((bits)g & counted);
#pragma GCC unroll 8
        for (int t = from; t < to; t++)
            sum[t - from] += g * load_vec(in, (size_t)(p * step + t - from) * c, dtype);
    }
#pragma GCC unroll 8
    for (int t = from; t < to; t++)
        store_vec(m->sums, (size_t)t * c + k, sum[t - from], XT_F32);
}

XT_INLINE void sum_channels(const struct product *m, int x, int pixels, int from, int to, int step,
                            enum xt_dtype dtype)
{
    size_t c = (size_t)m->c;
    size_t k = 0;
    for (; k + WIDTH <= c; k += WIDTH)
        sum_taps(m, x, k, 0, pixels, from, to, step, dtype);
    if (k < c)
        sum_taps(m, x, c - WIDTH, WIDTH - (int)(c - k), pixels, from, to, step, dtype);
}

/* Output pixels [x, end), tap by tap. */
XT_INLINE void sum_edge(const struct product *m, int x, int end, int width, enum xt_dtype dtype)
{
    for (; x < end; x++)
        for (int t = 0; t < m->taps; t++) {
            int column = m->first + x * m->step + t * m->tap_step;
            if (column >= 0 && column < width)
                sum_channels(m, x, 1, t, t + 1, m->step, dtype);
        }
}

XT_INLINE void sum_inner(const struct product *m, int x, int end, int taps, int step,
                         enum xt_dtype dtype)
{
    for (; x + SUMMED <= end; x += SUMMED) {
        fetch(&m->ahead, x, SUMMED);
        sum_channels(m, x, SUMMED, 0, taps, step, dtype);
    }
    for (; x < end; x++)
        sum_channels(m, x, 1, 0, taps, step, dtype);
}

XT_INLINE void sum_wide(const struct product *m, const struct line *l, enum xt_dtype dtype)
{
    int x = 0;
    int end = 0;
    find_inner(l, &x, &end);
    sum_edge(m, 0, x, l->width, dtype);
    int shape = m->tap_step == 1 ? 10 * m->taps + m->step : 0;
    if (shape == 31)
        sum_inner(m, x, end, 3, 1, dtype);
    else if (shape == 32)
        sum_inner(m, x, end, 3, 2, dtype);
    else if (shape == 51)
        sum_inner(m, x, end, 5, 1, dtype);
    else if (shape == 52)
        sum_inner(m, x, end, 5, 2, dtype);
    else if (shape == 71)
        sum_inner(m, x, end, 7, 1, dtype);
    else
        sum_edge(m, x, end, l->width, dtype);
    sum_edge(m, end, l->count, l->width, dtype);
}

#ifdef __AVX512BF16__
enum { LINE_CHANNELS = 2 * WIDTH };

/* `mask` of the channels from k on in a column of a row of `width`; zeros outside the row. */
XT_INLINE __m512i load_column(const void *row, int column, int width, size_t c, size_t k,
                              __mmask32 mask, bool inside)
{
    inside = inside || (column >= 0 && column < width);
    return _mm512_maskz_loadu_epi16(inside ? mask : 0,
                                    (const uint16_t *)row + (inside ? (size_t)column * c + k : 0));
}

/* All taps of SUMMED of the output's pixels from x on, two at a time by dot products: of
 * LINE_CHANNELS channels from k on, those of `mask`; if not `inside`, some are outside the rows. */
XT_INLINE void sum_pairs(const struct product *m, const struct line *l, int x, size_t k,
                         __mmask32 mask, int taps, int step, bool inside)
{
    enum { PAIRS = SUMMED / 2, TAPS_MOST = 7 };
    const __m512i first = _mm512_setr_epi32(0, 1, 2, 3, 16, 17, 18, 19, 4, 5, 6, 7, 20, 21, 22, 23);
    const __m512i second = _mm512_add_epi32(first, _mm512_set1_epi32(8));
    size_t c = (size_t)m->c;
    int left = m->first + x * step;
    __m512bh g[PAIRS][2];
    __m512 sum[TAPS_MOST][2];
#pragma GCC unroll 8
    for (int q = 0; q < PAIRS; q++) {
        __m512i a = load_column(m->out_grad, x + 2 * q, l->count, c, k, mask, inside);
        __m512i b = load_column(m->out_grad, x + 2 * q + 1, l->count, c, k, mask, inside);
        g[q][0] = (__m512bh)_mm512_unpacklo_epi16(a, b);
        g[q][1] = (__m512bh)_mm512_unpackhi_epi16(a, b);
    }
#pragma GCC unroll 8
    for (int t = 0; t < taps; t++)
        sum[t][0] = sum[t][1] = _mm512_setzero_ps();
#pragma GCC unroll 24
    for (int i = 0; i < (SUMMED - 2) * step + taps; i++) {
        __m512i a = load_column(m->in, left + i, l->width, c, k, ~0u, inside);
        __m512i b = load_column(m->in, left + i + step, l->width, c, k, ~0u, inside);
        __m512bh low = (__m512bh)_mm512_unpacklo_epi16(a, b);
        __m512bh high = (__m512bh)_mm512_unpackhi_epi16(a, b);
#pragma GCC unroll 8
        for (int q = 0; q < PAIRS; q++) {
            int t = i - 2 * q * step;
            if (t < 0 || t >= taps)
                continue;
            sum[t][0] = _mm512_dpbf16_ps(sum[t][0], low, g[q][0]);
            sum[t][1] = _mm512_dpbf16_ps(sum[t][1], high, g[q][1]);
        }
    }
#pragma GCC unroll 8
    for (int t = 0; t < taps; t++) {
        float *to = m->sums + (size_t)t * c + k;
        __m512 low = _mm512_permutex2var_ps(sum[t][0], first, sum[t][1]);
        __m512 high = _mm512_permutex2var_ps(sum[t][0], second, sum[t][1]);
        _mm512_storeu_ps(to, _mm512_add_ps(_mm512_loadu_ps(to), low));
        _mm512_storeu_ps(to + WIDTH, _mm512_add_ps(_mm512_loadu_ps(to + WIDTH), high));
    }
}

/* All channels; the last ones again, uncounted, where they fill no line. */
XT_INLINE void sum_lines(const struct product *m, const struct line *l, int x, int taps, int step,
                         bool inside)
{
    size_t c = (size_t)m->c;
    size_t k = 0;
    for (; k + LINE_CHANNELS <= c; k += LINE_CHANNELS)
        sum_pairs(m, l, x, k, ~0u, taps, step, inside);
    if (k < c)
        sum_pairs(m, l, x, c - LINE_CHANNELS, ~0u << (k + LINE_CHANNELS - c), taps, step, inside);
}

XT_INLINE void sum_blocks(const struct product *m, const struct line *l, int taps, int step)
{
    for (int x = 0; x < l->count; x += SUMMED) {
        int left = m->first + x * step;
        fetch(&m->ahead, x, SUMMED);
        if (left >= 0 && x + SUMMED <= l->count && left + (SUMMED - 1) * step + taps <= l->width)
            sum_lines(m, l, x, taps, step, true);
        else
            sum_lines(m, l, x, taps, step, false);
    }
}

/* bf16 by dot products; false, doing nothing, if there is no loop for the shape. */
static bool sum_dots(const struct product *m, const struct line *l)
{
    int shape = m->tap_step == 1 && m->c >= LINE_CHANNELS ? 10 * m->taps + m->step : 0;
    if (shape == 31)
        sum_blocks(m, l, 3, 1);
    else if (shape == 32)
        sum_blocks(m, l, 3, 2);
    else if (shape == 51)
        sum_blocks(m, l, 5, 1);
    else if (shape == 52)
        sum_blocks(m, l, 5, 2);
    else if (shape == 71)
        sum_blocks(m, l, 7, 1);
    else
        return false;
    return true;
}
#else
static bool sum_dots(const struct product *m, const struct line *l)
{
    (void)m;
    (void)l;
    return false;
}
#endif

static void sum_narrow(const struct product *m, const struct line *l, enum xt_dtype dtype)
{
    size_t c = (size_t)m->c;
    for (int x = 0; x < l->count; x++)
        for (int t = 0; t < m->taps; t++) {
            int column = m->first + x * m->step + t * m->tap_step;
            for (size_t k = 0; k < c && column >= 0 && column < l->width; k++)
                m->sums[(size_t)t * c + k] += load(m->out_grad, (size_t)x * c + k, dtype) *
                                              load(m->in, (size_t)column * c + k, dtype);
        }
}

static void sum_line(const struct product *m, const struct line *l, enum xt_dtype dtype)
{
    if (m->c < WIDTH)
        sum_narrow(m, l, dtype);
    else if (dtype == XT_F32)
        sum_wide(m, l, XT_F32);
    else if (!sum_dots(m, l))
        sum_wide(m, l, XT_BF16);
}

/* The bias's sums of a row. */
XT_INLINE void sum_row(const void *out_grad, int w, int c, float *sums, enum xt_dtype dtype)
{
    for (int x = 0; x < w; x++) {
        const void *g = at(out_grad, (size_t)x * (size_t)c, dtype);
#pragma omp simd
        for (int k = 0; k < c; k++)
            sums[k] += load(g, (size_t)k, dtype);
    }
}

void XT_LOOPS_NAME(depthwise_weight_grad)(const struct xt_depthwise *job, const void *in,
                                          const void *out_grad, float *sums)
{
    size_t c = (size_t)job->c;
    size_t row = (size_t)job->w * c;
    size_t out_row = (size_t)job->out_w * c;
    float *bias = sums + (size_t)(job->kernel_h * job->kernel_w) * c;
    struct line l = {.count = job->out_w,
                     .first = -job->pad_w,
                     .step = job->stride_w,
                     .taps = job->kernel_w,
                     .tap_step = job->dilation_w,
                     .width = job->w};
    struct product m = {
        .first = l.first, .step = l.step, .taps = l.taps, .tap_step = l.tap_step, .c = job->c};
    memset(sums, 0, ((size_t)(job->kernel_h * job->kernel_w) + 1) * c * sizeof *sums);
    for (int oy = 0; oy < job->out_h; oy++) {
        m.out_grad = at(out_grad, (size_t)oy * out_row, job->dtype);
        for (int ky = 0; ky < job->kernel_h; ky++) {
            int y = oy * job->stride_h - job->pad_h + ky * job->dilation_h;
            if (y < 0 || y >= job->h)
                continue;
            m.in = at(in, (size_t)y * row, job->dtype);
            m.ahead.pixel = 0;
            if (ky == 0)
                m.ahead = look_ahead(at(out_grad, (size_t)(oy + 1) * out_row, job->dtype), 1,
                                     job->out_w, job->c, job->out_w, job->dtype);
            else if (ky == job->kernel_h - 1)
                m.ahead = look_ahead(at(in, (size_t)(y + 1) * row, job->dtype), job->stride_h,
                                     job->w, job->c, job->out_w, job->dtype);
            m.sums = sums + (size_t)(ky * job->kernel_w) * c;
            sum_line(&m, &l, job->dtype);
        }
        if (job->ending.bias && job->dtype == XT_F32)
            sum_row(m.out_grad, job->out_w, job->c, bias, XT_F32);
        else if (job->ending.bias)
            sum_row(m.out_grad, job->out_w, job->c, bias, XT_BF16);
    }
}
