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
    float *share;          /* [c] of the average's gradient, for each pixel */
    float *zeros;          /* [c] */
    float *block;          /* [PIXELS][c] of outputs that are not written to y at once; gradients */
};

static struct sums split(const struct xt_norm_sample *s)
{
    size_t c = (size_t)s->c;
    float *at = s->scratch;
    return (struct sums){at, at + c, at + 2 * c, at + 3 * c, at + 4 * c};
}

/* Whether y is written by non-temporal stores. */
static bool is_past(const struct xt_norm_sample *s)
{
#ifdef __AVX512F__
    return s->far && s->y && s->dtype == XT_F32 && s->c % 16 == 0 && (uintptr_t)s->y % 64 == 0;
#else
    (void)s;
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
            store(y, (size_t)p * c + k, v, dtype);
            total += v;
        }
        sum[k] += total;
    }
}

XT_INLINE void activate_segment(const struct xt_norm_sample *s, size_t first, size_t pixels,
                                const struct sums *sums, enum xt_dtype dtype,
                                enum xt_activation_kind kind)
{
    size_t c = (size_t)s->c;
    bool past = is_past(s);
    size_t end = first + pixels;
    for (size_t x = first; x < end;) {
        void *y = s->y ? at_out(s->y, x * c, dtype) : NULL;
        void *to = past || !y ? sums->block : y;
        size_t count = x + PIXELS <= end ? PIXELS : 1;
        if (count == PIXELS)
            activate(s, x, to, sums->first, PIXELS, dtype, kind);
        else
            activate(s, x, to, sums->first, 1, dtype, kind);
        if (past)
            write_past(sums->block, count * c, y);
        x += count;
    }
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
        activate_segment(s, first, pixels - first < SEGMENT ? pixels - first : SEGMENT, &sums,
                         dtype, kind);
        for (size_t k = 0; k < c && s->averaged; k++)
            s->averaged[k] += sums.first[k];
    }
    for (size_t k = 0; k < c && s->averaged; k++)
        s->averaged[k] *= 1 / (float)pixels;
#ifdef __AVX512F__
    _mm_sfence();
#endif
}

/* ---- backward ---- */

/* What is constant in a loop. */
struct loop {
    enum xt_dtype dtype;
    enum xt_dtype grad; /* of y's gradient: float32 if it is the sum of two readers' */
    enum xt_activation_kind kind;
    bool apply;
};

XT_INLINE void add_two(const struct xt_norm_sample *s, size_t first, size_t pixels,
                       const struct sums *sums, enum xt_dtype dtype)
{
    size_t c = (size_t)s->c;
    for (size_t p = 0; p < pixels; p++) {
        const void *one = at(s->dy[0], (first + p) * c, dtype);
        const void *two = at(s->dy[1], (first + p) * c, dtype);
        float *to = sums->block + p * c;
#pragma omp simd
        for (size_t k = 0; k < c; k++)
            to[k] = sums->share[k] + load(one, k, dtype) + load(two, k, dtype);
    }
}

/* The gradients of pixels whose y has two readers. Out of line: shared by all instantiations. */
__attribute__((noinline)) static void add_readers(const struct xt_norm_sample *s, size_t first,
                                                  size_t pixels, const struct sums *sums)
{
    if (s->dtype == XT_F32)
        add_two(s, first, pixels, sums, XT_F32);
    else
        add_two(s, first, pixels, sums, XT_BF16);
}

XT_INLINE void finish(const struct xt_norm_sample *s, size_t first, const struct sums *sums,
                      int pixels, struct loop m)
{
    size_t c = (size_t)s->c;
    const void *z = at(s->z, first * c, m.dtype);
    void *da = m.apply ? at_out(s->da, first * c, m.dtype) : NULL;
    const void *dy = s->dy[0] ? at(s->dy[0], first * c, m.dtype) : sums->zeros;
    const float *share = sums->share;
    size_t step = s->dy[0] ? c : 0;
    if (m.grad == XT_F32 && s->dy[1]) {
        add_readers(s, first, (size_t)pixels, sums);
        dy = sums->block;
        share = sums->zeros;
    }
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
            size_t i = (size_t)p * c + k;
            float v = load(z, i, m.dtype);
            float g = share[k] + load(dy, (size_t)p * step + k, m.grad);
            g *= activation_slope(v * scale[k] + shift[k], m.kind, alpha, beta);
            if (m.apply) {
                store(da, i, s->a[k] * g + s->b[k] * v + s->d[k], m.dtype);
                continue;
            }
            total += g;
            total_z += g * (v - pivot[k]);
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
    memset(sums.zeros, 0, c * sizeof *sums.zeros);
    for (size_t k = 0; k < c; k++)
        sums.share[k] = s->daveraged ? s->daveraged[k] / (float)pixels : 0;
    if (!m.apply) {
        memset(s->sum_da, 0, c * sizeof *s->sum_da);
        memset(s->sum_da_z, 0, c * sizeof *s->sum_da_z);
    }
    for (size_t x = 0; x < pixels;) {
        size_t end = pixels - x < SEGMENT ? pixels : x + SEGMENT;
        memset(sums.first, 0, 2 * c * sizeof *sums.first);
        for (; x + PIXELS <= end && !m.apply; x += PIXELS)
            finish(s, x, &sums, PIXELS, m);
        for (; x < end; x++)
            finish(s, x, &sums, 1, m);
        for (size_t k = 0; k < c && !m.apply; k++) {
            s->sum_da[k] += (double)sums.first[k];
            s->sum_da_z[k] += (double)sums.second[k];
        }
    }
}

XT_INLINE void backward_of(const struct xt_norm_sample *s, enum xt_dtype dtype,
                           enum xt_activation_kind kind)
{
    bool apply = s->pass == XT_NORM_APPLY;
    if (s->dy[1] && apply)
        backward(s, (struct loop){dtype, XT_F32, kind, true});
    else if (s->dy[1])
        backward(s, (struct loop){dtype, XT_F32, kind, false});
    else if (apply)
        backward(s, (struct loop){dtype, dtype, kind, true});
    else
        backward(s, (struct loop){dtype, dtype, kind, false});
}

/* `run` with a constant type and kind. */
#define BY_KIND(run)                                                                               \
    do {                                                                                           \
        bool f32 = s->dtype == XT_F32;                                                             \
        if (s->activation->kind == XT_ACT_CLIP && f32)                                             \
            run(s, XT_F32, XT_ACT_CLIP);                                                           \
        else if (s->activation->kind == XT_ACT_CLIP)                                               \
            run(s, XT_BF16, XT_ACT_CLIP);                                                          \
        else if (s->activation->kind == XT_ACT_HARD_SWISH && f32)                                  \
            run(s, XT_F32, XT_ACT_HARD_SWISH);                                                     \
        else if (s->activation->kind == XT_ACT_HARD_SWISH)                                         \
            run(s, XT_BF16, XT_ACT_HARD_SWISH);                                                    \
        else if (f32)                                                                              \
            run(s, XT_F32, XT_ACT_SILU);                                                           \
        else                                                                                       \
            run(s, XT_BF16, XT_ACT_SILU);                                                          \
    } while (0)

void XT_LOOPS_NAME(norm_activation_forward)(const struct xt_norm_sample *s)
{
    BY_KIND(forward);
}

void XT_LOOPS_NAME(norm_activation_backward)(const struct xt_norm_sample *s)
{
    BY_KIND(backward_of);
}
