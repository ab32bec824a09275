/* The loops that inference runs beside its convolutions, in every build that this CPU can run,
 * against reference loops. */
#include "loop_builds.h"
#include "support.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "base/number.h"
#include "engine/loops/loops.h"

static double at(enum xt_dtype dtype, const void *data, size_t i)
{
    float value = 0;
    xt_number_to_float(dtype, (const char *)data + i * xt_dtype_size(dtype), 1, &value);
    return (double)value;
}

/* Non-negative numbers of the type (any sign in s8), in memory of exactly their size. */
static void *make(enum xt_dtype dtype, size_t count)
{
    char *data = malloc(count * xt_dtype_size(dtype));
    assert_non_null(data);
    for (size_t i = 0; i < count; i++) {
        uint64_t random = xt_rng_at(5, (uint64_t)dtype, i);
        float value = (float)(random % 1000) / 100;
        if (xt_dtype_is_int8(dtype))
            data[i] = (char)(random & 0xFF);
        else
            xt_number_from_float(dtype, &value, 1, data + i * xt_dtype_size(dtype));
    }
    return data;
}

struct image {
    int h, w, c;
    struct xt_window window;
};

#define WINDOW(kh, kw, sh, sw, ph, pw)                                                             \
    {                                                                                              \
        .kernel_h = (kh), .kernel_w = (kw), .stride_h = (sh), .stride_w = (sw), .pad_h = (ph),     \
        .pad_w = (pw)                                                                              \
    }

static void fit(struct image *image)
{
    struct xt_window *w = &image->window;
    w->out_h = (image->h + 2 * w->pad_h - w->kernel_h) / w->stride_h + 1;
    w->out_w = (image->w + 2 * w->pad_w - w->kernel_w) / w->stride_w + 1;
}

/* The largest and the mean of a window. */
static void look(const struct image *m, enum xt_dtype dtype, const void *data, int oy, int ox,
                 int k, double *most, double *mean)
{
    const struct xt_window *w = &m->window;
    double sum = 0;
    *most = -INFINITY;
    for (int i = 0; i < w->kernel_h * w->kernel_w; i++) {
        int y = oy * w->stride_h - w->pad_h + i / w->kernel_w;
        int x = ox * w->stride_w - w->pad_w + i % w->kernel_w;
        if (y < 0 || y >= m->h || x < 0 || x >= m->w)
            continue;
        double value = at(dtype, data, (size_t)((y * m->w + x) * m->c + k));
        sum += value;
        *most = fmax(*most, value);
    }
    *mean = sum / (w->kernel_h * w->kernel_w);
}

static float *scratch_of(const struct image *m)
{
    float *scratch = malloc((size_t)(m->w * m->c) * sizeof *scratch);
    assert_non_null(scratch);
    return scratch;
}

static void check_max(const struct xt_loops *loops, struct image m, enum xt_dtype dtype)
{
    fit(&m);
    size_t row = (size_t)(m.window.out_w * m.c);
    void *in = make(dtype, (size_t)(m.h * m.w * m.c));
    void *out = make(dtype, row * (size_t)m.window.out_h);
    float *scratch = scratch_of(&m);
    int middle = m.window.out_h / 2;
    loops->max_pool(dtype, in, m.h, m.w, m.c, &m.window, (int[]){0, middle}, scratch, out);
    loops->max_pool(dtype, in, m.h, m.w, m.c, &m.window, (int[]){middle, m.window.out_h}, scratch,
                    out);
    for (int oy = 0; oy < m.window.out_h; oy++)
        for (size_t i = 0; i < row; i++) {
            double most = 0;
            double mean = 0;
            look(&m, dtype, in, oy, (int)i / m.c, (int)i % m.c, &most, &mean);
            assert_true(at(dtype, out, (size_t)oy * row + i) == most);
        }
    free(scratch);
    free(out);
    free(in);
}

static void check_average(const struct xt_loops *loops, struct image m, enum xt_dtype dtype)
{
    fit(&m);
    size_t row = (size_t)(m.window.out_w * m.c);
    void *in = make(dtype, (size_t)(m.h * m.w * m.c));
    float *out = make(XT_F32, row);
    float *scratch = scratch_of(&m);
    for (int oy = 0; oy < m.window.out_h; oy++) {
        loops->average_pool_row(dtype, in, m.w, m.c, &m.window, oy, 0.25f, scratch, out);
        for (size_t i = 0; i < row; i++) {
            double most = 0;
            double mean = 0;
            look(&m, dtype, in, oy, (int)i / m.c, (int)i % m.c, &most, &mean);
            assert_true(fabs((double)out[i] - mean / 4) <= 1e-6 * fmax(1, fmax(most, -mean)));
        }
    }
    free(scratch);
    free(out);
    free(in);
}

static const enum xt_dtype types[] = {XT_F32, XT_BF16, XT_U8, XT_S8};

static void a_max_pool(void **state)
{
    (void)state;
    static const struct image images[] = {
        {5, 6, 70, WINDOW(3, 3, 1, 1, 0, 0)},   {5, 7, 3, WINDOW(3, 3, 1, 2, 0, 0)},
        {8, 9, 65, WINDOW(3, 3, 2, 2, 1, 1)},   {3, 3, 1, WINDOW(3, 3, 1, 1, 0, 0)},
        {1, 1, 5, WINDOW(3, 3, 2, 2, 1, 1)},    {4, 5, 17, WINDOW(3, 3, 1, 1, 1, 1)},
        {2, 2, 40, WINDOW(3, 3, 1, 1, 1, 1)},   {6, 4, 33, WINDOW(3, 3, 1, 2, 1, 1)},
        {7, 3, 16, WINDOW(3, 3, 1, 3, 0, 1)},   {5, 150, 70, WINDOW(3, 3, 1, 2, 1, 1)},
        {4, 131, 64, WINDOW(3, 3, 1, 1, 0, 0)},
    };
    const struct xt_loops *all[BUILDS_MAX];
    int count = builds(all);
    for (int b = 0; b < count; b++)
        for (size_t i = 0; i < sizeof images / sizeof images[0]; i++)
            for (int t = 0; t < 3; t++)
                check_max(all[b], images[i], types[t]);
}

static void an_average_pool(void **state)
{
    (void)state;
    static const struct image images[] = {
        {10, 11, 70, WINDOW(5, 5, 5, 5, 0, 0)},    {8, 14, 33, WINDOW(4, 10, 4, 2, 0, 0)},
        {7, 7, 64, WINDOW(7, 7, 7, 7, 0, 0)},      {3, 4, 5, WINDOW(1, 1, 1, 1, 0, 0)},
        {2, 3, 1, WINDOW(2, 3, 2, 3, 0, 0)},       {6, 5, 19, WINDOW(3, 1, 3, 1, 0, 0)},
        {2, 9, 21, WINDOW(1, 1, 1, 1, 0, 0)},      {3, 9, 21, WINDOW(1, 1, 1, 2, 0, 0)},
        {17, 16, 3, WINDOW(17, 16, 17, 16, 0, 0)},
    };
    const struct xt_loops *all[BUILDS_MAX];
    int count = builds(all);
    for (int b = 0; b < count; b++)
        for (size_t i = 0; i < sizeof images / sizeof images[0]; i++)
            for (size_t t = 0; t < sizeof types / sizeof types[0]; t++)
                check_average(all[b], images[i], types[t]);
}

/* 257 bytes of 255 just fit into 16 bits, 258 do not. */
static void an_average_of_many_large_bytes(void **state)
{
    (void)state;
    const struct xt_loops *all[BUILDS_MAX];
    int count = builds(all);
    uint8_t bytes[258 * 3];
    float scratch[3];
    float out[3];
    memset(bytes, 255, sizeof bytes);
    for (int b = 0; b < count; b++)
        for (int rows = 256; rows <= 258; rows++) {
            struct image m = {rows, 1, 3, WINDOW(rows, 1, rows, 1, 0, 0)};
            fit(&m);
            all[b]->average_pool_row(XT_U8, bytes, 1, 3, &m.window, 0, 1, scratch, out);
            for (int k = 0; k < 3; k++)
                assert_float_equal(out[k], 255, 1e-4);
        }
}

static void sums_of_rows_and_their_squares(void **state)
{
    (void)state;
    enum { W = 5, C = 37, STRIDE = 40 };
    const struct xt_loops *all[BUILDS_MAX];
    int count = builds(all);
    float *in = make(XT_F32, (size_t)6 * W * C);
    for (int b = 0; b < count; b++)
        for (int h = 1; h <= 6; h++) {
            double square = 0;
            float out[W * STRIDE] = {0};
            for (int i = 0; i < h * W * C; i++)
                square += (double)in[i] * (double)in[i];
            double squares = all[b]->sum_rows(in, h, W, C, out, STRIDE);
            assert_true(fabs(squares - square) < 1e-5 * square);
            all[b]->scale_rows(out, W, C, STRIDE, 0.5f);
            for (int x = 0; x < W; x++)
                for (int k = 0; k < STRIDE; k++) {
                    double sum = 0;
                    for (int y = 0; y < h && k < C; y++)
                        sum += (double)in[(y * W + x) * C + k];
                    assert_true(fabs((double)out[x * STRIDE + k] - sum / 2) < 1e-5);
                }
        }
    free(in);
}

static void bytes_around_zero(void **state)
{
    (void)state;
    const struct xt_loops *all[BUILDS_MAX];
    int count = builds(all);
    uint8_t in[256];
    int8_t out[256];
    for (int i = 0; i < 256; i++)
        in[i] = (uint8_t)i;
    for (int b = 0; b < count; b++) {
        memset(out, 0, sizeof out);
        all[b]->centre(in, 256, out);
        for (int i = 0; i < 256; i++)
            assert_int_equal(out[i], i - 128);
    }
}

static void the_largest_magnitude(void **state)
{
    (void)state;
    const struct xt_loops *all[BUILDS_MAX];
    int count = builds(all);
    for (int b = 0; b < count; b++)
        for (size_t i = 0; i < 37; i++) {
            float values[37] = {0};
            assert_float_equal(all[b]->largest(values, 37), 0, 0);
            values[i] = -3;
            assert_float_equal(all[b]->largest(values, 37), 3, 0);
            values[36 - i] = 4;
            assert_float_equal(all[b]->largest(values, 37), 4, 0);
            values[i] = i % 2 ? NAN : -INFINITY;
            assert_true(!isfinite(all[b]->largest(values, 37)));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_max_pool),
        cmocka_unit_test(an_average_pool),
        cmocka_unit_test(an_average_of_many_large_bytes),
        cmocka_unit_test(sums_of_rows_and_their_squares),
        cmocka_unit_test(bytes_around_zero),
        cmocka_unit_test(the_largest_magnitude),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
