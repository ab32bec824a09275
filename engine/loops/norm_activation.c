/* Batch normalisation with an activation other than ReLU, and the average over the image: what
 * norm.c does, without residual, max pool and windows. The backward pass computes the activation's
 * slope from the norm's input, twice. */
#ifdef __AVX512F__
#include <immintrin.h>
#endif
#include <string.h>

#include "engine/loops/activation_value.h"
#include "engine/loops/table.h"

enum { PIXELS = 4, SEGMENT = 96 };

/* The parts of a thread's scratch. */
struct sums {
    float *first, *second; /* [c] of a segment */
    float *block;          /* [PIXELS][c] of what is written past the caches; [c] of a gradient */
};

static struct sums split(const struct xt_norm_sample *s)
{
    size_t c = (size_t)s->c;
    return (struct sums){s->scratch, s->scratch + c, s->scratch + 2 * c};
}

static bool is_past(const struct xt_norm_sample *s, const void *to)
{
#ifdef __AVX512F__
    return s->far && to && s->c % 16 == 0 && (uintptr_t)to % 64 == 0;
#else
    (void)s;
    (void)to;
    return false;
#endif
}

static void write_past(const float *from, size_t count, float *to)
{
#ifdef __AVX512F__
    for (size_t i = 0; i < count; i += 16)
        _mm512_stream_ps(to + i, _mm512_loadu_ps(from + i));
#else
    memcpy(to, from, count * sizeof *to);
#endif
}

/* ---- forward ---- */

/* y may be NULL. */
XT_INLINE void activate(const struct xt_norm_sample *s, size_t first, void *y, float *sum,
                        int pixels, enum xt_dtype dtype, enum xt_activation_kind kind)
{
    size_t c = (size_t)s->c;
    const void *z = at(s->z, first * c, dtype);
    const float *scale = s->scale;
    const float *shift = s->shift;
    float alpha = s->activation->alpha;
    float beta = s->activation->beta;
#pragma omp simd
    for (size_t k = 0; k < c; k++) {
        float total = 0;
        for (int p = 0; p < pixels; p++) {
            float v = load(z, (size_t)p * c + k, dtype) * scale[k] + shift[k];
            v = activation_value(v, kind, alpha, beta);
            v = dtype == XT_F32 ? v : xt_float_of_bits(xt_bf16_round(v) & 0xFFFF0000u);
            if (y)
                store(y, (size_t)p * c + k, v, dtype);
            total += v;
        }
        sum[k] += total;
    }
}

XT_INLINE void activate_some(const struct xt_norm_sample *s, size_t first, size_t pixels,
                             const struct sums *sums, enum xt_dtype dtype,
                             enum xt_activation_kind kind)
{
    size_t c = (size_t)s->c;
    bool past = dtype == XT_F32 && is_past(s, s->y);
    void *y = s->y ? at_out(s->y, first * c, dtype) : NULL;
    size_t x = 0;
    for (; x + PIXELS <= pixels; x += PIXELS) {
        if (past) {
            activate(s, first + x, sums->block, sums->first, PIXELS, dtype, kind);
            write_past(sums->block, PIXELS * c, (float *)y + x * c);
        } else if (y) {
            activate(s, first + x, at_out(y, x * c, dtype), sums->first, PIXELS, dtype, kind);
        } else {
            activate(s, first + x, NULL, sums->first, PIXELS, dtype, kind);
        }
    }
    for (; x < pixels; x++)
        activate(s, first + x, y ? at_out(y, x * c, dtype) : NULL, sums->first, 1, dtype, kind);
}

XT_INLINE void forward(const struct xt_norm_sample *s, enum xt_dtype dtype,
                       enum xt_activation_kind kind)
{
    size_t c = (size_t)s->c;
    size_t pixels = (size_t)s->h * (size_t)s->w;
    struct sums sums = split(s);
    if (s->averaged)
        memset(s->averaged, 0, c * sizeof *s->averaged);
    for (size_t first = 0; first < pixels; first += SEGMENT) {
        memset(sums.first, 0, c * sizeof *sums.first);
        activate_some(s, first, pixels - first < SEGMENT ? pixels - first : SEGMENT, &sums, dtype,
                      kind);
        for (size_t k = 0; k < c && s->averaged; k++)
            s->averaged[k] += sums.first[k];
    }
    for (size_t k = 0; k < c && s->averaged; k++)
        s->averaged[k] *= 1 / (float)pixels;
#ifdef __AVX512F__
    _mm_sfence();
#endif
}

void XT_LOOPS_NAME(norm_activation_forward)(const struct xt_norm_sample *s)
{
    bool f32 = s->dtype == XT_F32;
    if (s->activation->kind == XT_ACT_CLIP && f32)
        forward(s, XT_F32, XT_ACT_CLIP);
    else if (s->activation->kind == XT_ACT_CLIP)
        forward(s, XT_BF16, XT_ACT_CLIP);
    else if (s->activation->kind == XT_ACT_HARD_SWISH && f32)
        forward(s, XT_F32, XT_ACT_HARD_SWISH);
    else if (s->activation->kind == XT_ACT_HARD_SWISH)
        forward(s, XT_BF16, XT_ACT_HARD_SWISH);
    else if (f32)
        forward(s, XT_F32, XT_ACT_SILU);
    else
        forward(s, XT_BF16, XT_ACT_SILU);
}

/* ---- backward ---- */

/* What is constant in a loop. */
struct loop {
    enum xt_dtype dtype;
    enum xt_activation_kind kind;
    int readers; /* of y */
    bool apply;
};

/* `share`: [c] of the average's gradient, for each pixel. */
XT_INLINE void finish(const struct xt_norm_sample *s, size_t first, const struct sums *sums,
                      const float *share, int pixels, struct loop m)
{
    size_t c = (size_t)s->c;
    size_t base = first * c;
    const float *scale = s->scale;
    const float *shift = s->shift;
    const float *pivot = s->pivot;
    float *sum = sums->first;
    float *sum_z = sums->second;
    float alpha = s->activation->alpha;
    float beta = s->activation->beta;
#pragma omp simd
    for (size_t k = 0; k < c; k++) {
        float total = 0;
        float total_z = 0;
        for (int p = 0; p < pixels; p++) {
            size_t i = base + (size_t)p * c + k;
            float z = load(s->z, i, m.dtype);
            float g = share[k];
            if (m.readers > 0)
                g += load(s->dy[0], i, m.dtype);
            if (m.readers > 1)
                g += load(s->dy[1], i, m.dtype);
            float da = g * activation_slope(z * scale[k] + shift[k], m.kind, alpha, beta);
            if (m.apply)
                store(s->da, i, s->a[k] * da + s->b[k] * z + s->d[k], m.dtype);
            total += da;
            total_z += da * (z - pivot[k]);
        }
        if (m.apply)
            continue;
        sum[k] += total;
        sum_z[k] += total_z;
    }
}

XT_INLINE void backward(const struct xt_norm_sample *s, struct loop m)
{
    size_t c = (size_t)s->c;
    size_t pixels = (size_t)s->h * (size_t)s->w;
    struct sums sums = split(s);
    float *share = sums.block;
    for (size_t k = 0; k < c; k++)
        share[k] = s->daveraged ? s->daveraged[k] / (float)pixels : 0;
    if (!m.apply) {
        memset(s->sum_da, 0, c * sizeof *s->sum_da);
        memset(s->sum_da_z, 0, c * sizeof *s->sum_da_z);
    }
    for (size_t x = 0; x < pixels;) {
        size_t end = pixels - x < SEGMENT ? pixels : x + SEGMENT;
        memset(sums.first, 0, 2 * c * sizeof *sums.first);
        for (; x + PIXELS <= end; x += PIXELS)
            finish(s, x, &sums, share, PIXELS, m);
        for (; x < end; x++)
            finish(s, x, &sums, share, 1, m);
        for (size_t k = 0; k < c && !m.apply; k++) {
            s->sum_da[k] += (double)sums.first[k];
            s->sum_da_z[k] += (double)sums.second[k];
        }
    }
}

XT_INLINE void backward_of(const struct xt_norm_sample *s, enum xt_dtype dtype,
                           enum xt_activation_kind kind)
{
    int readers = !s->dy[0] ? 0 : !s->dy[1] ? 1 : 2;
    bool apply = s->pass == XT_NORM_APPLY;
    if (readers == 0 && apply)
        backward(s, (struct loop){dtype, kind, 0, true});
    else if (readers == 0)
        backward(s, (struct loop){dtype, kind, 0, false});
    else if (readers == 1 && apply)
        backward(s, (struct loop){dtype, kind, 1, true});
    else if (readers == 1)
        backward(s, (struct loop){dtype, kind, 1, false});
    else if (apply)
        backward(s, (struct loop){dtype, kind, 2, true});
    else
        backward(s, (struct loop){dtype, kind, 2, false});
}

void XT_LOOPS_NAME(norm_activation_backward)(const struct xt_norm_sample *s)
{
    bool f32 = s->dtype == XT_F32;
    if (s->activation->kind == XT_ACT_CLIP && f32)
        backward_of(s, XT_F32, XT_ACT_CLIP);
    else if (s->activation->kind == XT_ACT_CLIP)
        backward_of(s, XT_BF16, XT_ACT_CLIP);
    else if (s->activation->kind == XT_ACT_HARD_SWISH && f32)
        backward_of(s, XT_F32, XT_ACT_HARD_SWISH);
    else if (s->activation->kind == XT_ACT_HARD_SWISH)
        backward_of(s, XT_BF16, XT_ACT_HARD_SWISH);
    else if (f32)
        backward_of(s, XT_F32, XT_ACT_SILU);
    else
        backward_of(s, XT_BF16, XT_ACT_SILU);
}
