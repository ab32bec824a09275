/* Batch normalisation with ReLU, another activation or none, a residual, and the average over the
 * image; its statistics. Other pools are norm.c's, and norm_wide.c has faster versions of some
 * cases.
 *
 * A strip of channels, two vectors, is processed pixel by pixel with its factors and sums in
 * registers; strips alternate after a few pixels, since memory is read fastest sequentially. The
 * backward pass computes the activation's slope from the norm's input, twice. */
#include "engine/loops/activation_value.h"
#include "engine/loops/table.h"

/* Float32 sums of a segment of pixels retain precision; they are added to doubles. */
enum { STRIP = 2 * WIDTH, SEGMENT = 96, TURN_ELEMENTS = 1024, TURN_LEAST = 8 };

/* The parts of a thread's scratch. */
struct sums {
    float *first, *second; /* [c] of a segment */
    float *share;          /* [c] of the average's gradient, for each pixel */
};

static struct sums split(const struct xt_norm_sample *s)
{
    size_t c = (size_t)s->c;
    return (struct sums){s->scratch, s->scratch + c, s->scratch + 2 * c};
}

/* A segment's sums. */
static void add_to_doubles(const struct sums *sums, size_t c, double *first, double *second)
{
    for (size_t k = 0; k < c; k++) {
        first[k] += (double)sums->first[k];
        second[k] += (double)sums->second[k];
    }
}

/* What is constant in a loop over a strip. */
struct loop {
    enum xt_dtype dtype;
    enum xt_activation_kind kind;
    int vectors; /* of the strip: 2, or 1 that need not be whole */
    enum xt_norm_pass pass;
};

/* Pixels [first, first + pixels) of the strip at channel k, of `lanes` if it is one vector. */
struct piece {
    size_t first, pixels, k, lanes;
};

XT_INLINE vec get(const void *data, size_t i, size_t lanes, struct loop m, enum xt_dtype dtype)
{
    return m.vectors == 2 ? load_vec(data, i, dtype) : load_part(data, i, lanes, dtype);
}

XT_INLINE void put(float *data, size_t i, size_t lanes, vec v, struct loop m)
{
    if (m.vectors == 2)
        store_vec(data, i, v, XT_F32);
    else
        store_part(data, i, lanes, v, XT_F32);
}

/* A strip's vectors in the tensor's type; past the caches only where all strips begin on a cache
 * line. */
XT_INLINE void put_out(void *to, size_t i, size_t lanes, const vec v[2], bool past, struct loop m)
{
    if (m.vectors == 1) {
        store_part(to, i, lanes, v[0], m.dtype);
        return;
    }
#ifdef __AVX512F__
    if (m.dtype == XT_F32 && past) {
        _mm512_stream_ps((float *)to + i, (__m512)v[0]);
        _mm512_stream_ps((float *)to + i + WIDTH, (__m512)v[1]);
        return;
    }
    if (m.dtype == XT_BF16) {
        __m512i line = line_of_two(v[0], v[1]);
        if (past)
            _mm512_stream_si512((void *)((uint16_t *)to + i), line);
        else
            _mm512_storeu_si512((uint16_t *)to + i, line);
        return;
    }
#endif
    (void)past;
    store_vec(to, i, v[0], m.dtype);
    store_vec(to, i + WIDTH, v[1], m.dtype);
}

/* Whether all strips of `to` begin on a cache line. */
static bool can_write_past(bool far, int c, const void *to)
{
    return far && to && c % STRIP == 0 && (uintptr_t)to % 64 == 0;
}

/* Prefetches lines of the next turn's pixels, in memory order. */
XT_INLINE void fetch(const void *data, size_t c, struct piece p, size_t x, enum xt_dtype dtype)
{
    size_t i = p.first * c + (c + p.k) * p.pixels + x * STRIP;
    __builtin_prefetch(at(data, i, dtype));
    if (dtype == XT_F32)
        __builtin_prefetch(at(data, i + WIDTH, dtype));
}

/* The same for what will be written. */
XT_INLINE void fetch_out(const void *data, size_t c, struct piece p, size_t x, enum xt_dtype dtype)
{
    size_t i = p.first * c + (c + p.k) * p.pixels + x * STRIP;
    __builtin_prefetch(at(data, i, dtype), 1);
    if (dtype == XT_F32)
        __builtin_prefetch(at(data, i + WIDTH, dtype), 1);
}

/* All strips of pixels [first, first + pixels), in turns: `run` of each strip. */
#define BY_STRIPS(run, s, at_pixel, count, sums, dtype, kind, pass)                                \
    do {                                                                                           \
        size_t channels = (size_t)(s)->c;                                                          \
        size_t most = TURN_ELEMENTS / channels;                                                    \
        most = most < TURN_LEAST ? TURN_LEAST : most;                                              \
        for (size_t x = 0, n = 0; x < (count); x += n) {                                           \
            n = (count)-x < most ? (count)-x : most;                                               \
            struct piece p = {(at_pixel) + x, n, 0, WIDTH};                                        \
            for (; p.k + STRIP <= channels; p.k += STRIP)                                          \
                run(s, p, sums, (struct loop){dtype, kind, 2, pass});                              \
            for (; p.k < channels; p.k += WIDTH) {                                                 \
                p.lanes = channels - p.k < WIDTH ? channels - p.k : WIDTH;                         \
                run(s, p, sums, (struct loop){dtype, kind, 1, pass});                              \
            }                                                                                      \
        }                                                                                          \
    } while (0)

/* ---- forward ---- */

XT_INLINE void activate(const struct xt_norm_sample *s, struct piece p, const struct sums *sums,
                        struct loop m)
{
    size_t c = (size_t)s->c;
    struct limits limits = limits_of(s->activation);
    bool past = can_write_past(s->far, s->c, s->y);
    vec scale[2], shift[2], sum[2], v[2];
    for (int j = 0; j < m.vectors; j++) {
        size_t k = p.k + (size_t)j * WIDTH;
        scale[j] = get(s->scale, k, p.lanes, m, XT_F32);
        shift[j] = get(s->shift, k, p.lanes, m, XT_F32);
        sum[j] = get(sums->first, k, p.lanes, m, XT_F32);
    }
    for (size_t x = 0; x < p.pixels; x++) {
        size_t i = (p.first + x) * c + p.k;
        fetch(s->z, c, p, x, m.dtype);
        if (s->y && !past)
            fetch_out(s->y, c, p, x, m.dtype);
        for (int j = 0; j < m.vectors; j++) {
            v[j] = get(s->z, i + (size_t)j * WIDTH, p.lanes, m, m.dtype);
            v[j] = v[j] * scale[j] + shift[j];
            if (s->residual)
                v[j] += get(s->residual, i + (size_t)j * WIDTH, p.lanes, m, m.dtype);
            v[j] = activation_value(v[j], m.kind, limits, m.dtype);
        }
        for (int j = 0; j < m.vectors && s->averaged; j++)
            sum[j] += m.dtype == XT_F32 ? v[j] : vec_of_halves(halves_of_vec(v[j]));
        if (s->y)
            put_out(s->y, i, p.lanes, v, past, m);
    }
    for (int j = 0; j < m.vectors; j++)
        put(sums->first, p.k + (size_t)j * WIDTH, p.lanes, sum[j], m);
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
        size_t count = pixels - first < SEGMENT ? pixels - first : SEGMENT;
        memset(sums.first, 0, c * sizeof *sums.first);
        BY_STRIPS(activate, s, first, count, &sums, dtype, kind, XT_NORM_SUM);
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

/* The gradient of y from its readers. */
XT_INLINE vec read_grad(const struct xt_norm_sample *s, size_t i, size_t lanes, vec share,
                        struct loop m)
{
    if (s->dy[0])
        share += get(s->dy[0], i, lanes, m, m.dtype);
    if (s->dy[1])
        share += get(s->dy[1], i, lanes, m, m.dtype);
    return share;
}

XT_INLINE void finish(const struct xt_norm_sample *s, struct piece p, const struct sums *sums,
                      struct loop m)
{
    size_t c = (size_t)s->c;
    struct limits limits = limits_of(s->activation);
    bool apply = m.pass == XT_NORM_APPLY;
    /* a, b and d, or the sums and the pivot */
    const float *from[3] = {apply ? s->a : sums->first, apply ? s->b : sums->second,
                            apply ? s->d : s->pivot};
    vec scale[2], shift[2], share[2], factor[2][3], out[2];
    for (int j = 0; j < m.vectors; j++) {
        size_t k = p.k + (size_t)j * WIDTH;
        scale[j] = get(s->scale, k, p.lanes, m, XT_F32);
        shift[j] = get(s->shift, k, p.lanes, m, XT_F32);
        share[j] = get(sums->share, k, p.lanes, m, XT_F32);
        for (int f = 0; f < 3; f++)
            factor[j][f] = get(from[f], k, p.lanes, m, XT_F32);
    }
    for (size_t x = 0; x < p.pixels; x++) {
        size_t i = (p.first + x) * c + p.k;
        fetch(s->z, c, p, x, m.dtype);
        if (s->dy[0])
            fetch(s->dy[0], c, p, x, m.dtype);
        if (s->dy[1])
            fetch(s->dy[1], c, p, x, m.dtype);
        for (int j = 0; j < m.vectors; j++) {
            size_t here = i + (size_t)j * WIDTH;
            vec z = get(s->z, here, p.lanes, m, m.dtype);
            vec v = z * scale[j] + shift[j];
            if (s->residual)
                v += get(s->residual, here, p.lanes, m, m.dtype);
            vec g = read_grad(s, here, p.lanes, share[j], m);
            g = activation_grad(v, g, m.kind, limits, m.dtype);
            out[j] = apply ? factor[j][0] * g + (factor[j][1] * z + factor[j][2]) : g;
            if (apply)
                continue;
            factor[j][0] += g;
            factor[j][1] += g * (z - factor[j][2]);
        }
        if (s->pass != XT_NORM_SUM)
            put_out(s->da, i, p.lanes, out, false, m);
    }
    for (int j = 0; j < m.vectors && !apply; j++) {
        put(sums->first, p.k + (size_t)j * WIDTH, p.lanes, factor[j][0], m);
        put(sums->second, p.k + (size_t)j * WIDTH, p.lanes, factor[j][1], m);
    }
}

XT_INLINE void sum_grad(const struct xt_norm_sample *s, const struct sums *sums,
                        enum xt_dtype dtype, enum xt_activation_kind kind)
{
    size_t c = (size_t)s->c;
    size_t pixels = (size_t)s->h * (size_t)s->w;
    memset(s->sum_da, 0, c * sizeof *s->sum_da);
    memset(s->sum_da_z, 0, c * sizeof *s->sum_da_z);
    for (size_t first = 0; first < pixels; first += SEGMENT) {
        size_t count = pixels - first < SEGMENT ? pixels - first : SEGMENT;
        memset(sums->first, 0, 2 * c * sizeof *sums->first);
        BY_STRIPS(finish, s, first, count, sums, dtype, kind, XT_NORM_SUM);
        add_to_doubles(sums, c, s->sum_da, s->sum_da_z);
    }
}

XT_INLINE void backward(const struct xt_norm_sample *s, enum xt_dtype dtype,
                        enum xt_activation_kind kind)
{
    size_t pixels = (size_t)s->h * (size_t)s->w;
    struct sums sums = split(s);
    for (size_t k = 0; k < (size_t)s->c; k++)
        sums.share[k] = s->daveraged ? s->daveraged[k] / (float)pixels : 0;
    if (s->pass != XT_NORM_APPLY)
        sum_grad(s, &sums, dtype, kind);
    else
        BY_STRIPS(finish, s, 0, pixels, &sums, dtype, kind, XT_NORM_APPLY);
}

/* `run` with a constant type and kind. */
#define BY_KIND(run, s)                                                                            \
    do {                                                                                           \
        bool f32 = (s)->dtype == XT_F32;                                                           \
        if ((s)->activation->kind == XT_ACT_CLIP && f32)                                           \
            run(s, XT_F32, XT_ACT_CLIP);                                                           \
        else if ((s)->activation->kind == XT_ACT_CLIP)                                             \
            run(s, XT_BF16, XT_ACT_CLIP);                                                          \
        else if ((s)->activation->kind == XT_ACT_HARD_SWISH && f32)                                \
            run(s, XT_F32, XT_ACT_HARD_SWISH);                                                     \
        else if ((s)->activation->kind == XT_ACT_HARD_SWISH)                                       \
            run(s, XT_BF16, XT_ACT_HARD_SWISH);                                                    \
        else if (f32)                                                                              \
            run(s, XT_F32, XT_ACT_SILU);                                                           \
        else                                                                                       \
            run(s, XT_BF16, XT_ACT_SILU);                                                          \
    } while (0)

/* The sample with an activation: ReLU and none are clips without an upper limit. */
static struct xt_norm_sample activated(const struct xt_norm_sample *s, struct xt_activation *clip)
{
    struct xt_norm_sample sample = *s;
    *clip = (struct xt_activation){XT_ACT_CLIP, s->relu ? 0 : -INFINITY, INFINITY};
    if (!s->activation)
        sample.activation = clip;
    return sample;
}

bool XT_LOOPS_NAME(norm_strips_forward)(const struct xt_norm_sample *s)
{
    struct xt_activation clip;
    struct xt_norm_sample sample = activated(s, &clip);
    if (!s->activation && (s->pooled || s->averaged))
        return false;
    BY_KIND(forward, &sample);
    return true;
}

bool XT_LOOPS_NAME(norm_strips_backward)(const struct xt_norm_sample *s)
{
    struct xt_activation clip;
    struct xt_norm_sample sample = activated(s, &clip);
    if (!s->activation && (s->dpooled[0] || s->daveraged))
        return false;
    BY_KIND(backward, &sample);
    return true;
}

/* ---- from a kept gradient, and statistics ---- */

struct applied {
    int c;
    const void *da, *z;
    const float *factors; /* [3][c] of da, of z, and what is added */
    void *dz;
    bool past;
};

XT_INLINE void apply(const struct applied *a, struct piece p, const struct sums *sums,
                     struct loop m)
{
    size_t c = (size_t)a->c;
    vec factor[2][3], out[2];
    (void)sums;
    for (int j = 0; j < m.vectors; j++)
        for (size_t f = 0; f < 3; f++)
            factor[j][f] = get(a->factors + f * c, p.k + (size_t)j * WIDTH, p.lanes, m, XT_F32);
    for (size_t x = 0; x < p.pixels; x++) {
        size_t i = (p.first + x) * c + p.k;
        fetch(a->da, c, p, x, m.dtype);
        fetch(a->z, c, p, x, m.dtype);
        for (int j = 0; j < m.vectors; j++) {
            size_t here = i + (size_t)j * WIDTH;
            out[j] = factor[j][1] * get(a->z, here, p.lanes, m, m.dtype) + factor[j][2];
            out[j] += factor[j][0] * get(a->da, here, p.lanes, m, m.dtype);
        }
        put_out(a->dz, i, p.lanes, out, a->past, m);
    }
}

void XT_LOOPS_NAME(norm_backward_apply)(enum xt_dtype dtype, const void *da, const void *z,
                                        size_t pixels, int c, const float *factors, void *dz,
                                        bool far)
{
    struct applied applied = {c, da, z, factors, dz, can_write_past(far, c, dz)};
#ifdef __AVX512BW__
    if (XT_LOOPS_NAME(norm_wide_apply)(dtype, da, z, pixels, c, factors, dz, far))
        return;
#endif
    if (dtype == XT_F32)
        BY_STRIPS(apply, &applied, 0, pixels, NULL, XT_F32, XT_ACT_CLIP, XT_NORM_APPLY);
    else
        BY_STRIPS(apply, &applied, 0, pixels, NULL, XT_BF16, XT_ACT_CLIP, XT_NORM_APPLY);
#ifdef __AVX512F__
    _mm_sfence();
#endif
}

struct measured {
    int c;
    const void *z;
    const float *pivot;
};

XT_INLINE void add_up(const struct measured *s, struct piece p, const struct sums *sums,
                      struct loop m)
{
    size_t c = (size_t)s->c;
    vec pivot[2], sum[2], square[2];
    for (int j = 0; j < m.vectors; j++) {
        size_t k = p.k + (size_t)j * WIDTH;
        pivot[j] = get(s->pivot, k, p.lanes, m, XT_F32);
        sum[j] = get(sums->first, k, p.lanes, m, XT_F32);
        square[j] = get(sums->second, k, p.lanes, m, XT_F32);
    }
    for (size_t x = 0; x < p.pixels; x++) {
        fetch(s->z, c, p, x, m.dtype);
        for (int j = 0; j < m.vectors; j++) {
            size_t i = (p.first + x) * c + p.k + (size_t)j * WIDTH;
            vec v = get(s->z, i, p.lanes, m, m.dtype) - pivot[j];
            sum[j] += v;
            square[j] += v * v;
        }
    }
    for (int j = 0; j < m.vectors; j++) {
        put(sums->first, p.k + (size_t)j * WIDTH, p.lanes, sum[j], m);
        put(sums->second, p.k + (size_t)j * WIDTH, p.lanes, square[j], m);
    }
}

void XT_LOOPS_NAME(statistics)(enum xt_dtype dtype, const void *z, size_t pixels, int c,
                               const float *pivot, double *total, double *squares, float *scratch)
{
    size_t each = (size_t)c * sizeof *total;
    struct measured measured = {c, z, pivot};
    struct sums sums = {scratch, scratch + c, NULL};
#ifdef __AVX512BW__
    if (XT_LOOPS_NAME(norm_wide_statistics)(dtype, z, pixels, c, pivot, total, squares))
        return;
#endif
    memset(total, 0, each);
    memset(squares, 0, each);
    for (size_t first = 0; first < pixels; first += SEGMENT) {
        size_t count = pixels - first < SEGMENT ? pixels - first : SEGMENT;
        memset(scratch, 0, 2 * (size_t)c * sizeof *scratch);
        if (dtype == XT_F32)
            BY_STRIPS(add_up, &measured, first, count, &sums, XT_F32, XT_ACT_CLIP, XT_NORM_SUM);
        else
            BY_STRIPS(add_up, &measured, first, count, &sums, XT_BF16, XT_ACT_CLIP, XT_NORM_SUM);
        add_to_doubles(&sums, (size_t)c, total, squares);
    }
}
