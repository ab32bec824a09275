#include "base/number.h"
#include "loop_builds.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "engine/loops/loops.h"

/* Elements of either type; of their exact size, so that the address sanitizer sees what is read
 * beyond. */
struct array {
    enum xt_dtype dtype;
    size_t count;
    void *data;
};

static uint16_t to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t low = bits & 0xFFFF;
    uint32_t high = bits >> 16;
    if (low > 0x8000 || (low == 0x8000 && high % 2))
        high++;
    return (uint16_t)high;
}

static double get(const struct array *a, size_t i)
{
    if (a->dtype == XT_F32)
        return (double)((const float *)a->data)[i];
    uint32_t bits = (uint32_t)((const uint16_t *)a->data)[i] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static void set(const struct array *a, size_t i, double value)
{
    if (a->dtype == XT_F32)
        ((float *)a->data)[i] = (float)value;
    else
        ((uint16_t *)a->data)[i] = to_bf16((float)value);
}

static struct array make(enum xt_dtype dtype, size_t count)
{
    struct array a = {.dtype = dtype, .count = count};
    a.data = calloc(count, xt_dtype_size(dtype));
    assert_non_null(a.data);
    return a;
}

static double random_number(struct xt_rng *rng)
{
    return 4 * (double)xt_rng_uniform(rng) - 2;
}

static struct array make_random(enum xt_dtype dtype, size_t count, struct xt_rng *rng)
{
    struct array a = make(dtype, count);
    for (size_t i = 0; i < count; i++)
        set(&a, i, random_number(rng));
    return a;
}

static struct array copy(const struct array *from)
{
    struct array a = make(from->dtype, from->count);
    memcpy(a.data, from->data, from->count * xt_dtype_size(from->dtype));
    return a;
}

static double unit(enum xt_dtype dtype)
{
    return dtype == XT_F32 ? 2e-6 : 1.0 / 256;
}

/* ---- batch norm, ReLU, pools ---- */

/* One sample with all inputs, and the reference loops' results. */
struct sample {
    enum xt_dtype dtype;
    int h, w, c;
    bool relu, full;
    int readers;
    struct xt_window max;     /* kernel_h 0: none */
    struct xt_window average; /* the same */
    struct array scale, shift, pivot, z, residual, dy[2], dpooled[2], daveraged;
    double *v;  /* before ReLU */
    double *da; /* gradient before ReLU */
    double *pooled, *averaged;
    double *sum_da, *sum_da_z;
};

static size_t size_of(const struct sample *s)
{
    return (size_t)s->h * (size_t)s->w * (size_t)s->c;
}

static size_t window_size(const struct sample *s, const struct xt_window *w)
{
    return (size_t)w->out_h * (size_t)w->out_w * (size_t)s->c;
}

static size_t place(const struct sample *s, int y, int x, int k)
{
    return ((size_t)y * (size_t)s->w + (size_t)x) * (size_t)s->c + (size_t)k;
}

/* The pools read what y holds: in bf16 the rounded value. */
static double activated(const struct sample *s, size_t i)
{
    double v = s->relu && !(s->v[i] > 0) ? 0 : s->v[i];
    if (s->dtype == XT_F32)
        return v;
    uint16_t bits = to_bf16((float)v);
    return get(&(struct array){.dtype = XT_BF16, .count = 1, .data = &bits}, 0);
}

static double *doubles(size_t count)
{
    double *values = calloc(count ? count : 1, sizeof *values);
    assert_non_null(values);
    return values;
}

static void reference_max(const struct sample *s)
{
    const struct xt_window *m = &s->max;
    for (int oy = 0; oy < m->out_h; oy++)
        for (int ox = 0; ox < m->out_w; ox++)
            for (int k = 0; k < s->c; k++) {
                double best = -INFINITY;
                size_t argmax = 0;
                for (int ky = 0; ky < m->kernel_h; ky++)
                    for (int kx = 0; kx < m->kernel_w; kx++) {
                        int y = oy * m->stride_h - m->pad_h + ky;
                        int x = ox * m->stride_w - m->pad_w + kx;
                        if (y < 0 || y >= s->h || x < 0 || x >= s->w ||
                            !(activated(s, place(s, y, x, k)) > best))
                            continue;
                        argmax = place(s, y, x, k);
                        best = activated(s, argmax);
                    }
                size_t o = ((size_t)oy * (size_t)m->out_w + (size_t)ox) * (size_t)s->c + (size_t)k;
                s->pooled[o] = best;
                for (int r = 0; r < s->readers; r++)
                    s->da[argmax] += get(&s->dpooled[r], o);
            }
}

static void reference_average(const struct sample *s)
{
    const struct xt_window *a = &s->average;
    double share = 1.0 / (a->kernel_h * a->kernel_w);
    for (int oy = 0; oy < a->out_h; oy++)
        for (int ox = 0; ox < a->out_w; ox++)
            for (int k = 0; k < s->c; k++) {
                size_t o = ((size_t)oy * (size_t)a->out_w + (size_t)ox) * (size_t)s->c + (size_t)k;
                for (int ky = 0; ky < a->kernel_h; ky++)
                    for (int kx = 0; kx < a->kernel_w; kx++) {
                        size_t i = place(s, oy * a->stride_h + ky, ox * a->stride_w + kx, k);
                        s->averaged[o] += activated(s, i) * share;
                        s->da[i] += get(&s->daveraged, o) * share;
                    }
            }
}

static void run_plain(struct sample *s)
{
    size_t c = (size_t)s->c;
    for (size_t i = 0; i < size_of(s); i++) {
        s->v[i] = get(&s->z, i) * get(&s->scale, i % c) + get(&s->shift, i % c);
        if (s->residual.data)
            s->v[i] += get(&s->residual, i);
        for (int r = 0; r < s->readers && s->full; r++)
            s->da[i] += get(&s->dy[r], i);
    }
    if (s->max.kernel_h)
        reference_max(s);
    if (s->average.kernel_h)
        reference_average(s);
    for (size_t i = 0; i < size_of(s); i++) {
        if (s->relu && !(s->v[i] > 0))
            s->da[i] = 0;
        s->sum_da[i % c] += s->da[i];
        s->sum_da_z[i % c] += s->da[i] * (get(&s->z, i) - get(&s->pivot, i % c));
    }
}

static void fit(struct xt_window *w, const struct sample *s)
{
    if (!w->kernel_h)
        return;
    w->out_h = (s->h + 2 * w->pad_h - w->kernel_h) / w->stride_h + 1;
    w->out_w = (s->w + 2 * w->pad_w - w->kernel_w) / w->stride_w + 1;
}

static void fill(struct sample *s, bool residual, uint64_t seed)
{
    struct xt_rng rng = xt_rng_begin(seed, 42);
    size_t c = (size_t)s->c;
    fit(&s->max, s);
    fit(&s->average, s);
    s->scale = make_random(XT_F32, c, &rng);
    s->shift = make_random(XT_F32, c, &rng);
    s->pivot = make_random(XT_F32, c, &rng);
    s->z = make_random(s->dtype, size_of(s), &rng);
    if (residual)
        s->residual = make_random(s->dtype, size_of(s), &rng);
    for (int r = 0; r < s->readers; r++) {
        s->dy[r] = make_random(s->dtype, size_of(s), &rng);
        s->dpooled[r] = make_random(s->dtype, window_size(s, &s->max), &rng);
    }
    s->daveraged = make_random(XT_F32, window_size(s, &s->average), &rng);
    s->v = doubles(size_of(s));
    s->da = doubles(size_of(s));
    s->pooled = doubles(window_size(s, &s->max));
    s->averaged = doubles(window_size(s, &s->average));
    s->sum_da = doubles(c);
    s->sum_da_z = doubles(c);
    run_plain(s);
}

static void sample_clear(struct sample *s)
{
    struct array *arrays[] = {&s->scale, &s->shift, &s->pivot,      &s->z,          &s->residual,
                              &s->dy[0], &s->dy[1], &s->dpooled[0], &s->dpooled[1], &s->daveraged};
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        free(arrays[i]->data);
    free(s->v);
    free(s->da);
    free(s->pooled);
    free(s->averaged);
    free(s->sum_da);
    free(s->sum_da_z);
}

static void compare(const char *isa, const char *what, enum xt_dtype precision,
                    const struct array *got, const double *wanted, double slack)
{
    for (size_t i = 0; i < got->count; i++) {
        double allowed = unit(precision) * (fabs(wanted[i]) + slack);
        if (!(fabs(get(got, i) - wanted[i]) <= allowed))
            fail_msg("%s: %s[%zu] is %g, by reference loops %g", isa, what, i, get(got, i),
                     wanted[i]);
    }
}

static void compare_sums(const char *isa, const char *what, const struct sample *s,
                         const double *got, const double *wanted)
{
    /* Elements are of the order of ten at most, and round at random. */
    double allowed = unit(s->dtype) * 10 * (double)s->h * s->w;
    for (int k = 0; k < s->c; k++)
        if (!(fabs(got[k] - wanted[k]) <= allowed))
            fail_msg("%s: %s[%d] is %g, by reference loops %g", isa, what, k, got[k], wanted[k]);
}

/* What a pass of the loops writes. */
struct results {
    struct array y, pooled, averaged, da;
    double *sum_da, *sum_da_z;
};

/* Forward alone; with a stored gradient before the ReLU; with a recomputed one, which becomes dz =
 * A * da + B * z + D; with one that is made without the input. */
enum way { INFERS, KEEPS, MAKES_AGAIN, KEEPS_ALONE };
static const float factor_a = 2, factor_b = 0.5f, factor_d = -0.25f;

/* The sums alone, then what goes by them, into da. */
static void run_again(const struct xt_loops *loops, const struct sample *s,
                      struct xt_norm_sample *n)
{
    float *factors = malloc(3 * (size_t)s->c * sizeof *factors);
    assert_non_null(factors);
    for (int k = 0; k < s->c; k++) {
        factors[k] = factor_a;
        factors[s->c + k] = factor_b;
        factors[2 * s->c + k] = factor_d;
    }
    n->a = factors;
    n->b = factors + s->c;
    n->d = factors + 2 * s->c;
    n->pass = XT_NORM_SUM;
    loops->norm_backward(n);
    n->pass = XT_NORM_APPLY;
    loops->norm_backward(n);
    free(factors);
}

/* Of what the forward pass noted. */
static void keep_alone(const struct xt_loops *loops, struct xt_norm_sample *n)
{
    n->pass = XT_NORM_KEEP;
    n->da_pixel = n->c;
    n->z = NULL;
    n->sum_da = n->sum_da_z = NULL;
    loops->norm_backward(n);
}

static bool can_keep_alone(const struct xt_loops *loops, const struct sample *s)
{
    enum { LANES = 16, STRIP = 32 };
    return loops->lanes == LANES && s->c % STRIP == 0 && s->dtype == XT_BF16 && s->relu &&
           !s->full && !s->residual.data;
}

static struct results run_loops(const struct xt_loops *loops, const struct sample *s, enum way way)
{
    size_t c = (size_t)s->c;
    struct results r = {.y = make(s->dtype, size_of(s)),
                        .pooled = make(s->dtype, window_size(s, &s->max)),
                        .averaged = make(XT_F32, window_size(s, &s->average)),
                        .sum_da = doubles(c),
                        .sum_da_z = doubles(c)};
    r.da = s->full ? copy(&s->dy[0]) : make(s->dtype, size_of(s));
    struct xt_norm_sample n = {
        .dtype = s->dtype,
        .h = s->h,
        .w = s->w,
        .c = s->c,
        .relu = s->relu,
        .scale = s->scale.data,
        .shift = s->shift.data,
        .z = s->z.data,
        .residual = s->residual.data,
        .y = s->full ? r.y.data : NULL,
        .max = s->max,
        .pooled = s->max.kernel_h ? r.pooled.data : NULL,
        .average = s->average,
        .averaged = s->average.kernel_h ? r.averaged.data : NULL,
        .pivot = s->pivot.data,
        .sum_da = r.sum_da,
        .sum_da_z = r.sum_da_z,
    };
    uint8_t *argmax = malloc(window_size(s, &s->max) + 1);
    uint32_t *above = malloc(size_of(s) * sizeof *above);
    n.argmax = way != INFERS && n.pooled ? argmax : NULL;
    n.above = way == KEEPS_ALONE ? above : NULL;
    size_t floats = xt_norm_scratch(&n);
    n.scratch = malloc(floats * sizeof(float));
    assert_true(argmax && above && n.scratch);
    loops->norm_forward(&n);
    /* The gradient before ReLU lands on the first reader's, as it does in a graph. */
    n.da = r.da.data;
    n.dy[0] = s->full ? r.da.data : NULL;
    n.dy[1] = s->full && s->readers > 1 ? s->dy[1].data : NULL;
    n.dpooled[0] = n.pooled ? s->dpooled[0].data : NULL;
    n.dpooled[1] = n.pooled && s->readers > 1 ? s->dpooled[1].data : NULL;
    n.daveraged = n.averaged ? s->daveraged.data : NULL;
    if (way == KEEPS)
        loops->norm_backward(&n);
    if (way == MAKES_AGAIN)
        run_again(loops, s, &n);
    if (way == KEEPS_ALONE)
        keep_alone(loops, &n);
    free(argmax);
    free(above);
    free(n.scratch);
    return r;
}

static void results_clear(struct results *r)
{
    free(r->y.data);
    free(r->pooled.data);
    free(r->averaged.data);
    free(r->da.data);
    free(r->sum_da);
    free(r->sum_da_z);
}

static void check_sample(const struct sample *s)
{
    const struct xt_loops *all[BUILDS_MAX];
    int count = builds(all);
    double *y = doubles(size_of(s));
    for (size_t i = 0; i < size_of(s); i++)
        y[i] = activated(s, i);
    double *dz = doubles(size_of(s));
    for (size_t i = 0; i < size_of(s); i++)
        dz[i] = (double)factor_a * s->da[i] + (double)factor_b * get(&s->z, i) + (double)factor_d;
    /* The residual's gradient is the stored one. */
    int ways = s->residual.data ? 2 : 4;
    for (int b = 0; b < ways * count; b++) {
        enum way way = (enum way)(b % ways);
        const char *isa = all[b / ways]->isa;
        if (way == KEEPS_ALONE && !can_keep_alone(all[b / ways], s))
            continue;
        struct results r = run_loops(all[b / ways], s, way);
        if (s->full)
            compare(isa, "y", s->dtype, &r.y, y, 1);
        if (s->max.kernel_h)
            compare(isa, "pooled", s->dtype, &r.pooled, s->pooled, 1);
        if (s->average.kernel_h)
            compare(isa, "averaged", s->dtype, &r.averaged, s->averaged, 1);
        if (way == KEEPS || way == KEEPS_ALONE)
            compare(isa, "da", s->dtype, &r.da, s->da, 1);
        if (way == MAKES_AGAIN)
            compare(isa, "dz", s->dtype, &r.da, dz, 1);
        if (way == KEEPS || way == MAKES_AGAIN) {
            compare_sums(isa, "sum of da", s, r.sum_da, s->sum_da);
            compare_sums(isa, "sum of da z", s, r.sum_da_z, s->sum_da_z);
        }
        results_clear(&r);
    }
    free(dz);
    free(y);
}

static const int channel_counts[] = {1, 3, 8, 16, 17, 32, 33, 64, 68, 96};
enum { COUNTS = sizeof channel_counts / sizeof *channel_counts };

static const struct xt_window max_windows[] = {
    {0},
    {.kernel_h = 3, .kernel_w = 3, .stride_h = 1, .stride_w = 1},
    {.kernel_h = 3, .kernel_w = 3, .stride_h = 1, .stride_w = 2},
    {.kernel_h = 3, .kernel_w = 3, .stride_h = 2, .stride_w = 2, .pad_h = 1, .pad_w = 1},
};

static const struct xt_window average_windows[] = {
    {0},
    {.kernel_h = 5, .kernel_w = 5, .stride_h = 5, .stride_w = 5},
    {.kernel_h = 4, .kernel_w = 10, .stride_h = 4, .stride_w = 2},
    {.kernel_h = 1, .kernel_w = 1, .stride_h = 1, .stride_w = 1},
    {.kernel_h = 2, .kernel_w = 3, .stride_h = 2, .stride_w = 1},
};

/* Each kind of output with each number of channels, sizes at random. */
static void check_samples(enum xt_dtype dtype)
{
    enum { CASES = 160 };
    for (uint64_t seed = 0; seed < CASES; seed++) {
        struct xt_rng rng = xt_rng_begin(seed, 1);
        struct sample s = {.dtype = dtype,
                           .h = 5 + (int)xt_rng_below(&rng, 7),
                           .w = 10 + (int)xt_rng_below(&rng, 6),
                           .c = channel_counts[seed % COUNTS],
                           .readers = 1 + (int)xt_rng_below(&rng, 2)};
        s.max = max_windows[xt_rng_below(&rng, 4)];
        s.average = average_windows[xt_rng_below(&rng, 5)];
        s.full = (!s.max.kernel_h && !s.average.kernel_h) || xt_rng_below(&rng, 2);
        s.relu = s.max.kernel_h || xt_rng_below(&rng, 2);
        fill(&s, xt_rng_below(&rng, 3) == 0, seed);
        check_sample(&s);
        sample_clear(&s);
    }
}

static void a_norm_with_its_pools_is_what_plain_loops_make_of_it(void **state)
{
    (void)state;
    check_samples(XT_F32);
}

static void the_same_in_bf16(void **state)
{
    (void)state;
    check_samples(XT_BF16);
}

static void a_sample_of_one_pixel(void **state)
{
    (void)state;
    for (int dtype = XT_F32; dtype <= XT_BF16; dtype++)
        for (int i = 0; i < COUNTS; i++) {
            struct sample s = {.dtype = (enum xt_dtype)dtype,
                               .h = 1,
                               .w = 1,
                               .c = channel_counts[i],
                               .readers = 1,
                               .relu = true,
                               .full = true,
                               .max = {.kernel_h = 3,
                                       .kernel_w = 3,
                                       .stride_h = 2,
                                       .stride_w = 2,
                                       .pad_h = 1,
                                       .pad_w = 1},
                               .average = average_windows[3]};
            fill(&s, false, (uint64_t)i);
            check_sample(&s);
            sample_clear(&s);
        }
}

/* Where values are equal the first of the window wins, row by row, in every build. */
static void the_first_of_equal_values_wins(void **state)
{
    (void)state;
    for (int dtype = XT_F32; dtype <= XT_BF16; dtype++) {
        struct sample s = {.dtype = (enum xt_dtype)dtype,
                           .h = 6,
                           .w = 9,
                           .c = 17,
                           .readers = 1,
                           .relu = true,
                           .max = max_windows[1]};
        fill(&s, false, 3);
        for (size_t i = 0; i < size_of(&s); i++) {
            set(&s.z, i, 1 + (double)(i * 7 / 3 % 2));
            s.da[i] = 0;
        }
        for (size_t k = 0; k < (size_t)s.c; k++) {
            set(&s.scale, k, 1);
            set(&s.shift, k, 1);
            s.sum_da[k] = s.sum_da_z[k] = 0;
        }
        run_plain(&s);
        check_sample(&s);
        sample_clear(&s);
    }
}

static void the_second_pass_of_the_gradient(void **state)
{
    (void)state;
    const struct xt_loops *all[BUILDS_MAX];
    int count = builds(all);
    enum { PIXELS = 7 };
    for (int dtype = XT_F32; dtype <= XT_BF16; dtype++)
        for (int i = 0; i < COUNTS * count; i++) {
            struct xt_rng rng = xt_rng_begin((uint64_t)i, 5);
            size_t c = (size_t)channel_counts[i % COUNTS];
            struct array factors = make_random(XT_F32, 3 * c, &rng);
            struct array da = make_random((enum xt_dtype)dtype, c * PIXELS, &rng);
            struct array z = make_random((enum xt_dtype)dtype, c * PIXELS, &rng);
            double *wanted = doubles(da.count);
            for (size_t k = 0; k < da.count; k++)
                wanted[k] = get(&factors, k % c) * get(&da, k) +
                            get(&factors, c + k % c) * get(&z, k) + get(&factors, 2 * c + k % c);
            all[i / COUNTS]->norm_backward_apply((enum xt_dtype)dtype, da.data, z.data, PIXELS,
                                                 (int)c, factors.data, da.data, false);
            compare(all[i / COUNTS]->isa, "dz", da.dtype, &da, wanted, 1);
            free(factors.data);
            free(da.data);
            free(z.data);
            free(wanted);
        }
}

/* Both passes of a sample whose output is written past the caches or not: the same bits. */
static void run_far(const struct xt_loops *loops, enum xt_dtype dtype, int c, bool far, void *y,
                    void *dz)
{
    enum { H = 3, W = 5 };
    struct xt_rng rng = xt_rng_begin((uint64_t)c, 11);
    size_t count = (size_t)c * H * W;
    struct array z = make_random(dtype, count, &rng);
    struct array more = make_random(dtype, count, &rng);
    struct array factors = make_random(XT_F32, 3 * (size_t)c, &rng);
    set(&z, 2, NAN);
    struct xt_norm_sample n = {.dtype = dtype,
                               .h = H,
                               .w = W,
                               .c = c,
                               .relu = true,
                               .scale = factors.data,
                               .shift = (const float *)factors.data + c,
                               .z = z.data,
                               .residual = c % 32 ? NULL : more.data,
                               .y = y,
                               .far = far};
    n.scratch = aligned_alloc(64, (xt_norm_scratch(&n) * sizeof(float) + 63) / 64 * 64);
    assert_non_null(n.scratch);
    loops->norm_forward(&n);
    loops->norm_backward_apply(dtype, more.data, z.data, H * W, c, factors.data, dz, far);
    free(n.scratch);
    free(z.data);
    free(more.data);
    free(factors.data);
}

static void what_is_written_past_the_caches_is_the_same(void **state)
{
    (void)state;
    const struct xt_loops *all[BUILDS_MAX];
    static const int channels[] = {16, 17, 48, 64};
    enum { MOST = 64 * 3 * 5 };
    static _Alignas(64) float out[4][MOST];
    for (int b = builds(all) - 1; b >= 0; b--)
        for (int dtype = XT_F32; dtype <= XT_BF16; dtype++)
            for (size_t i = 0; i < sizeof channels / sizeof channels[0]; i++) {
                memset(out, 0, sizeof out);
                run_far(all[b], (enum xt_dtype)dtype, channels[i], false, out[0], out[1]);
                run_far(all[b], (enum xt_dtype)dtype, channels[i], true, out[2], out[3]);
                assert_memory_equal(out[0], out[2], sizeof out[0]);
                assert_memory_equal(out[1], out[3], sizeof out[0]);
            }
}

/* The norm of a residual is applied where it is added. */
static void a_residual_with_a_scale_of_its_own(void **state)
{
    (void)state;
    enum { H = 3, W = 7, C = 96, COUNT = H * W * C };
    const struct xt_loops *all[BUILDS_MAX];
    static _Alignas(64) uint16_t y[COUNT];
    struct xt_rng rng = xt_rng_begin(1, 13);
    struct array z = make_random(XT_BF16, COUNT, &rng);
    struct array residual = make_random(XT_BF16, COUNT, &rng);
    struct array factors = make_random(XT_F32, 3 * C, &rng);
    const struct array got = {.dtype = XT_BF16, .count = COUNT, .data = y};
    const float *scales = factors.data;
    double *wanted = doubles(COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        size_t k = i % C;
        wanted[i] = fmax(0, get(&z, i) * get(&factors, k) + get(&factors, C + k) +
                                get(&residual, i) * get(&factors, 2 * (size_t)C + k));
    }
    for (int b = 2 * builds(all) - 1; b >= 0; b--) {
        struct xt_norm_sample n = {.dtype = XT_BF16,
                                   .h = H,
                                   .w = W,
                                   .c = C,
                                   .relu = true,
                                   .scale = scales,
                                   .shift = scales + C,
                                   .z = z.data,
                                   .residual = residual.data,
                                   .residual_scale = scales + 2 * C,
                                   .y = y,
                                   .far = b % 2};
        float *scratch = malloc(xt_norm_scratch(&n) * sizeof *scratch);
        n.scratch = scratch;
        assert_non_null(scratch);
        if (all[b / 2]->lanes == 16) {
            memset(y, 0, sizeof y);
            all[b / 2]->norm_forward(&n);
            compare(all[b / 2]->isa, "y", XT_BF16, &got, wanted, 1);
        }
        free(scratch);
    }
    free(z.data);
    free(residual.data);
    free(factors.data);
    free(wanted);
}

/* ---- element by element ---- */

static void the_gradient_of_relu_passes_where_the_output_is_above_zero(void **state)
{
    (void)state;
    const struct xt_loops *all[BUILDS_MAX];
    int count = builds(all);
    enum { COUNT = 133 };
    for (int dtype = XT_F32; dtype <= XT_BF16; dtype++)
        for (int i = 0; i < 2 * count; i++) {
            struct xt_rng rng = xt_rng_begin(9, 9);
            struct array y = make_random((enum xt_dtype)dtype, COUNT, &rng);
            struct array dy = make_random((enum xt_dtype)dtype, COUNT, &rng);
            struct array more = make_random((enum xt_dtype)dtype, COUNT, &rng);
            set(&y, 3, 0.0);
            set(&y, 4, -0.0);
            double wanted[COUNT];
            for (size_t k = 0; k < COUNT; k++) {
                wanted[k] = get(&dy, k) + (i % 2 ? get(&more, k) : 0);
                wanted[k] = get(&y, k) > 0 ? wanted[k] : 0;
            }
            all[i / 2]->relu_backward((enum xt_dtype)dtype, y.data, dy.data,
                                      i % 2 ? more.data : NULL, COUNT);
            compare(all[i / 2]->isa, "gradient", dy.dtype, &dy, wanted, 0.1);
            for (size_t k = 0; k < COUNT; k++)
                assert_true(get(&y, k) > 0 || get(&dy, k) == 0);
            free(y.data);
            free(dy.data);
            free(more.data);
        }
}

static void bf16_rounds_to_nearest_even(void **state)
{
    (void)state;
    static const struct {
        float in;
        uint16_t out;
    } cases[] = {
        {1.0f, 0x3F80},
        {-2.5f, 0xC020},
        {0x1.01p0f, 0x3F80}, /* a tie: to even, below */
        {0x1.03p0f, 0x3F82}, /* a tie: to even, above */
        {0x1.010002p0f, 0x3F81},
        {0x1.00fffep0f, 0x3F80},
        {0.0f, 0x0000},
        {-0.0f, 0x8000},
        {0x1.fffffep127f, 0x7F80} /* the largest float becomes infinite */,
        {INFINITY, 0x7F80},
        {-INFINITY, 0xFF80},
    };
    enum { COUNT = sizeof cases / sizeof cases[0] };
    const struct xt_loops *all[BUILDS_MAX];
    int count = builds(all);
    for (int b = 0; b < count; b++)
        for (size_t i = 0; i < COUNT; i++) {
            float in[40];
            uint16_t out[40];
            for (int k = 0; k < 40; k++)
                in[k] = cases[i].in;
            all[b]->convert(XT_BF16, in, 40, out);
            for (int k = 0; k < 40; k++)
                assert_int_equal(out[k], cases[i].out);
            in[1] = NAN;
            all[b]->convert(XT_BF16, in, 2, out);
            assert_true((out[1] & 0x7F80) == 0x7F80 && (out[1] & 0x7F));
        }
}

/* Vector code of every build against one number at a time. */
static void fp16_is_rounded_and_read_as_elsewhere(void **state)
{
    (void)state;
    enum { COUNT = 0x7C01, STEP = 64 };
    static uint16_t halves[COUNT], out[COUNT];
    static float floats[COUNT], back[COUNT], scratch[COUNT];
    const struct xt_window one = {
        .kernel_h = 1, .kernel_w = 1, .stride_h = 1, .stride_w = 1, .out_h = 1, .out_w = COUNT};
    const struct xt_loops *all[BUILDS_MAX];
    int count = builds(all);
    for (int i = 0; i < COUNT; i++)
        halves[i] = (uint16_t)i;
    xt_number_to_float(XT_F16, halves, COUNT, floats);
    for (int b = 0; b < count; b++) {
        all[b]->average_pool_row(XT_F16, halves, COUNT, 1, &one, 0, 1, scratch, back);
        for (int i = 0; i < COUNT; i++)
            assert_true(back[i] == floats[i]);
        /* Between each number and the next, too: where it rounds to. */
        for (int part = 0; part < STEP; part += 7) {
            float between[COUNT];
            for (int i = 0; i < COUNT - 1; i++)
                between[i] = floats[i] + (floats[i + 1] - floats[i]) * (float)part / STEP;
            between[COUNT - 1] = -65519;
            uint16_t wanted[COUNT];
            xt_number_from_float(XT_F16, between, COUNT, wanted);
            all[b]->convert(XT_F16, between, COUNT, out);
            for (int i = 0; i < COUNT - 2; i++)
                assert_int_equal(out[i], wanted[i]);
            assert_int_equal(out[COUNT - 1], 0xFBFF);
        }
        const float beyond[] = {65520, -INFINITY, NAN};
        all[b]->convert(XT_F16, beyond, 3, out);
        assert_int_equal(out[0], 0x7C00);
        assert_int_equal(out[1], 0xFC00);
        assert_int_equal(out[2] & 0x7E00, 0x7E00);
    }
}

static void a_max_pool_of_fp16_takes_the_largest(void **state)
{
    (void)state;
    enum { SIDE = 3, CHANNELS = 17 };
    float in[SIDE * SIDE * CHANNELS];
    uint16_t halves[SIDE * SIDE * CHANNELS];
    float scratch[SIDE * CHANNELS];
    uint16_t out[CHANNELS];
    const struct xt_window window = {
        .kernel_h = 3, .kernel_w = 3, .stride_h = 1, .stride_w = 1, .out_h = 1, .out_w = 1};
    const struct xt_loops *all[BUILDS_MAX];
    int count = builds(all);
    for (int i = 0; i < SIDE * SIDE * CHANNELS; i++)
        in[i] = (float)((i * 37) % 101) / 8;
    xt_number_from_float(XT_F16, in, SIDE * SIDE * CHANNELS, halves);
    for (int b = 0; b < count; b++) {
        all[b]->max_pool(XT_F16, halves, SIDE, SIDE, CHANNELS, &window, (int[]){0, 1}, scratch,
                         out);
        for (int k = 0; k < CHANNELS; k++) {
            float largest = 0;
            float got = 0;
            for (int i = 0; i < SIDE * SIDE; i++)
                largest = fmaxf(largest, in[i * CHANNELS + k]);
            xt_number_to_float(XT_F16, &out[k], 1, &got);
            assert_true(got == largest);
        }
    }
}

static void builds_agree_bit_by_bit_on_bytes_and_masks(void **state)
{
    (void)state;
    enum { COUNT = 1037 };
    const struct xt_loops *all[BUILDS_MAX];
    int count = builds(all);
    static const float mean[] = {127.5f, 100, 30.25f};
    static const float scale[] = {1 / 128.0f, 1 / 64.0f, 0.25f};
    uint8_t bytes[COUNT];
    for (int i = 0; i < COUNT; i++)
        bytes[i] = (uint8_t)i;
    for (int dtype = XT_F32; dtype <= XT_BF16; dtype++) {
        struct array first = make((enum xt_dtype)dtype, COUNT);
        struct array mask = make((enum xt_dtype)dtype, COUNT);
        size_t size = COUNT * xt_dtype_size((enum xt_dtype)dtype);
        for (int b = 0; b < count; b++) {
            struct array out = make((enum xt_dtype)dtype, COUNT);
            all[b]->normalise((enum xt_dtype)dtype, bytes, COUNT, mean, scale, out.data);
            for (size_t i = 0; i < COUNT; i++) {
                set(&first, i, ((double)bytes[i] - (double)mean[i % 3]) * (double)scale[i % 3]);
                assert_true(get(&out, i) == get(&first, i));
            }
            all[b]->dropout((enum xt_dtype)dtype, out.data, out.data, COUNT, 77, 5, 1u << 30,
                            4 / 3.0f);
            if (b == 0)
                memcpy(mask.data, out.data, size);
            assert_memory_equal(mask.data, out.data, size);
            free(out.data);
        }
        free(first.data);
        free(mask.data);
    }
}

static void a_mask_goes_by_the_elements_number(void **state)
{
    (void)state;
    enum { COUNT = 500, LATER = 123 };
    const struct xt_loops *loops = xt_loops_get();
    float ones[COUNT];
    float whole[COUNT];
    float later[COUNT - LATER];
    for (int i = 0; i < COUNT; i++)
        ones[i] = 1;
    loops->dropout(XT_F32, ones, whole, COUNT, 3, 0, 1u << 31, 2);
    loops->dropout(XT_F32, ones, later, COUNT - LATER, 3, LATER, 1u << 31, 2);
    assert_memory_equal(whole + LATER, later, sizeof later);
    loops->dropout(XT_F32, ones, whole, COUNT, 3, 0, 0, 1);
    assert_memory_equal(whole, ones, sizeof ones);
}

/* The pixels that strides select, of `bytes` each; the rest is 0. */
static void transform_ones(const struct xt_loops *loops, int h, int w, const int strides[2],
                           size_t bytes)
{
    size_t rows = ((size_t)h + (size_t)strides[0] - 1) / (size_t)strides[0];
    size_t columns = ((size_t)w + (size_t)strides[1] - 1) / (size_t)strides[1];
    uint8_t *from = malloc(rows * columns * bytes);
    uint8_t *to = aligned_alloc(64, ((size_t)(h * w) * bytes + 63) / 64 * 64);
    assert_true(from && to);
    for (size_t i = 0; i < rows * columns * bytes; i++)
        from[i] = (uint8_t)(1 + i % 251);
    loops->zero_insert(from, bytes, (int[]){h, w}, strides, to);
    const uint8_t *next = from;
    for (int y = 0; y < h; y++)
        for (int x = 0; x < w; x++)
            for (size_t i = 0; i < bytes; i++) {
                bool read = y % strides[0] == 0 && x % strides[1] == 0;
                assert_int_equal(to[(size_t)(y * w + x) * bytes + i], read ? *next++ : 0);
            }
    free(from);
    free(to);
}

static void pixels_are_spread_among_zeros(void **state)
{
    (void)state;
    const struct xt_loops *all[BUILDS_MAX];
    for (int b = builds(all) - 1; b >= 0; b--) {
        transform_ones(all[b], 6, 8, (int[]){2, 2}, 128);
        transform_ones(all[b], 7, 5, (int[]){2, 3}, 64);
        transform_ones(all[b], 5, 4, (int[]){1, 2}, 20);
    }
}

static float normal_of_the_library(struct xt_rng rng, size_t i)
{
    rng.counter += 2 * i;
    double u = ((double)(xt_rng_next(&rng) >> 11) + 1) * 0x1p-53;
    double v = (double)(xt_rng_next(&rng) >> 11) * 0x1p-53;
    return (float)(sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * v));
}

/* First weights do not depend on the CPU. */
static void normal_numbers_are_those_of_the_library_in_each_build(void **state)
{
    enum { FIRST = 3, COUNT = 300001 };
    (void)state;
    const struct xt_loops *all[BUILDS_MAX];
    const struct xt_rng rng = xt_rng_begin(5, 11);
    float *numbers = calloc(COUNT, sizeof *numbers);
    assert_non_null(numbers);
    for (int b = builds(all) - 1; b >= 0; b--) {
        size_t wrong = 0;
        all[b]->normal(rng, FIRST, COUNT, 0.1f, numbers);
        for (size_t i = 0; i < COUNT; i++)
            wrong += numbers[i] != normal_of_the_library(rng, FIRST + i) * 0.1f;
        assert_int_equal(wrong, 0);
    }
    free(numbers);
}

/* Channels that fill no vector; more pixels than are processed together. */
static void check_gate(const struct xt_loops *loops, enum xt_dtype dtype)
{
    enum { PIXELS = 21, C = 37 };
    struct xt_rng rng = {.key = 11};
    struct array x = make(dtype, (size_t)PIXELS * C);
    struct array dy = make(dtype, (size_t)PIXELS * C);
    struct array gate = make(dtype, C);
    struct array dx = make(dtype, (size_t)PIXELS * C);
    float sums[C];
    double expected[C] = {0};
    for (size_t i = 0; i < x.count; i++) {
        set(&x, i, random_number(&rng));
        set(&dy, i, random_number(&rng));
    }
    for (size_t k = 0; k < C; k++)
        set(&gate, k, random_number(&rng));
    memcpy(dx.data, dy.data, dy.count * xt_dtype_size(dtype));
    loops->gate_backward(dtype, x.data, gate.data, dx.data, PIXELS, C, sums);
    for (size_t i = 0; i < x.count; i++) {
        double product = get(&dy, i) * get(&gate, i % C);
        expected[i % C] += get(&dy, i) * get(&x, i);
        assert_true(fabs(get(&dx, i) - product) <= fabs(product) * (dtype == XT_F32 ? 1e-7 : 4e-3));
    }
    for (size_t k = 0; k < C; k++)
        assert_true(fabs((double)sums[k] - expected[k]) <= 1e-4);
    free(x.data);
    free(dy.data);
    free(gate.data);
    free(dx.data);
}

static void a_gates_gradients_in_each_build(void **state)
{
    (void)state;
    const struct xt_loops *all[BUILDS_MAX];
    for (int b = builds(all) - 1; b >= 0; b--) {
        check_gate(all[b], XT_F32);
        check_gate(all[b], XT_BF16);
    }
}

/* Rows of no, one and five elements, in parts, of several blocks of vectors and less than one. */
static void check_sparse(const struct xt_loops *loops, enum xt_dtype dtype, size_t inner)
{
    static int first[] = {0, 0, 1, 6};
    static int at[] = {3, 0, 1, 2, 2, 3};
    static float weight[] = {0.75F, 0.3F, -1.2F, 0.5F, 0.25F, 1};
    static const float fill[] = {7, 0, -0.5F};
    const struct xt_sparse_rows rows = {3, first, at, weight};
    struct xt_rng rng = {.key = 13};
    struct array x = make(dtype, 4 * inner);
    struct array y = make(dtype, 3 * inner);
    double *wanted = calloc(3 * inner, sizeof *wanted);
    assert_non_null(wanted);
    for (size_t i = 0; i < x.count; i++)
        set(&x, i, random_number(&rng));
    for (int row = 0; row < 3; row++)
        for (size_t i = 0; i < inner; i++) {
            wanted[(size_t)row * inner + i] = (double)fill[row];
            for (int k = first[row]; k < first[row + 1]; k++)
                wanted[(size_t)row * inner + i] +=
                    (double)weight[k] * get(&x, (size_t)at[k] * inner + i);
        }
    loops->sparse_product(dtype, &rows, (const int[]){0, 2}, fill, x.data, inner, y.data);
    loops->sparse_product(dtype, &rows, (const int[]){2, 3}, fill, x.data, inner, y.data);
    compare(loops->isa, "a sparse product", dtype, &y, wanted, 1);
    free(wanted);
    free(x.data);
    free(y.data);
}

static void a_sparse_product_in_each_build(void **state)
{
    (void)state;
    const struct xt_loops *all[BUILDS_MAX];
    for (int b = builds(all) - 1; b >= 0; b--)
        for (int dtype = 0; dtype < 2; dtype++) {
            check_sparse(all[b], dtype ? XT_BF16 : XT_F32, 155);
            check_sparse(all[b], dtype ? XT_BF16 : XT_F32, 3);
        }
}

/* From below the smallest result to above the largest argument of the exponential, and no number of
 * whole vectors. */
static void check_gelu(const struct xt_loops *loops, enum xt_dtype dtype)
{
    enum { COUNT = 30011 };
    struct array x = make(dtype, COUNT);
    struct array y = make(dtype, COUNT);
    struct array dy = make(dtype, COUNT);
    double values[COUNT];
    double grads[COUNT];
    struct xt_rng rng = {.key = 12};
    for (size_t i = 0; i < COUNT; i++) {
        set(&x, i, 15 * ((double)i / (COUNT / 2) - 1));
        set(&dy, i, random_number(&rng));
        double below = 0.5 * erfc(-get(&x, i) / sqrt(2));
        double bell = exp(-get(&x, i) * get(&x, i) / 2) / sqrt(2 * acos(-1));
        values[i] = get(&x, i) * below;
        grads[i] = get(&dy, i) * (below + get(&x, i) * bell);
    }
    loops->gelu(dtype, x.data, COUNT, y.data);
    loops->gelu_backward(dtype, x.data, dy.data, COUNT, dy.data);
    compare(loops->isa, "gelu", dtype, &y, values, 0.1);
    compare(loops->isa, "gelu's gradient", dtype, &dy, grads, 0.1);
    free(x.data);
    free(y.data);
    free(dy.data);
}

static void gelu_and_its_gradient_in_each_build(void **state)
{
    (void)state;
    const struct xt_loops *all[BUILDS_MAX];
    for (int b = builds(all) - 1; b >= 0; b--) {
        check_gelu(all[b], XT_F32);
        check_gelu(all[b], XT_BF16);
    }
}

/* Place k of the patch at (oy, ox). */
static uint16_t covered(const struct xt_patches *job, const uint16_t *in, int oy, int ox, int k)
{
    int tap = k / job->c;
    int y = oy * job->stride_h - job->pad_h + tap / job->kernel_w;
    int x = ox * job->stride_w - job->pad_w + tap % job->kernel_w;
    bool is_within =
        tap < job->kernel_h * job->kernel_w && y >= 0 && y < job->h && x >= 0 && x < job->w;
    return is_within ? in[(y * job->w + x) * job->c + k % job->c] : 0;
}

static void check_patches(const struct xt_loops *loops, struct xt_patches job)
{
    size_t in_count = (size_t)job.h * (size_t)job.w * (size_t)job.c;
    job.out_h = (job.h + 2 * job.pad_h - job.kernel_h) / job.stride_h + 1;
    job.out_w = (job.w + 2 * job.pad_w - job.kernel_w) / job.stride_w + 1;
    struct xt_rng rng = xt_rng_begin(3, 0);
    struct array in = make_random(XT_BF16, in_count, &rng);
    struct array out =
        make_random(XT_BF16, (size_t)job.out_h * (size_t)job.out_w * (size_t)job.width, &rng);
    loops->patches(&job, in.data, out.data);
    for (int i = 0; i < (int)out.count; i++) {
        int pixel = i / job.width;
        assert_int_equal(
            ((const uint16_t *)out.data)[i],
            covered(&job, in.data, pixel / job.out_w, pixel % job.out_w, i % job.width));
    }
    free(in.data);
    free(out.data);
}

/* Of a kernel in one line and in two, with strides and padding, and wider than the image. */
static void patches_are_what_the_kernel_covers(void **state)
{
    const struct xt_patches jobs[] = {
        {9, 11, 3, 0, 0, 3, 3, 1, 1, 0, 0, 32}, {9, 11, 3, 0, 0, 3, 3, 2, 2, 1, 1, 32},
        {8, 9, 1, 0, 0, 7, 7, 2, 1, 3, 3, 64},  {6, 7, 7, 0, 0, 3, 3, 1, 1, 1, 1, 64},
        {5, 2, 4, 0, 0, 4, 4, 1, 1, 1, 2, 64},  {4, 5, 32, 0, 0, 1, 1, 1, 1, 0, 0, 32},
        {7, 6, 2, 0, 0, 1, 5, 1, 3, 0, 4, 32},
    };
    const struct xt_loops *all[BUILDS_MAX];
    (void)state;
    for (int b = builds(all) - 1; b >= 0; b--)
        for (size_t i = 0; i < sizeof jobs / sizeof *jobs && all[b]->patches; i++)
            check_patches(all[b], jobs[i]);
}

static void the_widest_build_is_picked(void **state)
{
    (void)state;
    const struct xt_loops *all[BUILDS_MAX];
    int count = builds(all);
    assert_ptr_equal(xt_loops_get(), all[count - 1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_norm_with_its_pools_is_what_plain_loops_make_of_it),
        cmocka_unit_test(the_same_in_bf16),
        cmocka_unit_test(a_sample_of_one_pixel),
        cmocka_unit_test(the_first_of_equal_values_wins),
        cmocka_unit_test(the_second_pass_of_the_gradient),
        cmocka_unit_test(what_is_written_past_the_caches_is_the_same),
        cmocka_unit_test(a_residual_with_a_scale_of_its_own),
        cmocka_unit_test(the_gradient_of_relu_passes_where_the_output_is_above_zero),
        cmocka_unit_test(bf16_rounds_to_nearest_even),
        cmocka_unit_test(fp16_is_rounded_and_read_as_elsewhere),
        cmocka_unit_test(a_max_pool_of_fp16_takes_the_largest),
        cmocka_unit_test(builds_agree_bit_by_bit_on_bytes_and_masks),
        cmocka_unit_test(a_mask_goes_by_the_elements_number),
        cmocka_unit_test(pixels_are_spread_among_zeros),
        cmocka_unit_test(normal_numbers_are_those_of_the_library_in_each_build),
        cmocka_unit_test(a_gates_gradients_in_each_build),
        cmocka_unit_test(a_sparse_product_in_each_build),
        cmocka_unit_test(gelu_and_its_gradient_in_each_build),
        cmocka_unit_test(patches_are_what_the_kernel_covers),
        cmocka_unit_test(the_widest_build_is_picked),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
