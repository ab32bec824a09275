/* Winograd's convolutions of int8 against plain loops, in every build that has them. */
#include "loop_builds.h"
#include "random_tensor.h"

#include <math.h>

enum { TAPS = 9, SIDE = 3, WIDE = XT_WINOGRAD_INT8_OUT };

/* A convolution with random tensors; `before` is what the output holds. */
struct work {
    struct xt_winograd job;
    uint8_t *in, *before, *out;
    int8_t *dense; /* [out][in][taps] */
    int8_t *weights;
    float *scale, *bias;
    size_t in_count, out_count;
};

static int8_t *sorted(const struct work *work)
{
    size_t in_c = (size_t)work->job.in_c;
    int8_t *to = aligned_memory((size_t)work->job.out_c * in_c * TAPS);
    const int8_t *from = work->dense;
    for (size_t o = 0; o < (size_t)work->job.out_c; o++)
        for (size_t i = 0; i < in_c; i++)
            for (size_t tap = 0; tap < TAPS; tap++)
                to[((o / WIDE * (in_c / 2) + i / 2) * TAPS + tap) * 2 * WIDE + o % WIDE * 2 +
                   i % 2] = *from++;
    return to;
}

static int random_whole(struct xt_rng *rng, int least, int most)
{
    return least + (int)((float)(most - least + 1) * xt_rng_uniform(rng));
}

/* Inputs up to `in_most`, weights up to `weight_most`; sums are multiplied by `scale`. */
static void setup(struct work *work, struct xt_winograd shape, int in_most, int weight_most,
                  float scale)
{
    struct xt_rng rng = xt_rng_begin(5, (uint64_t)shape.in_c);
    shape.dtype = XT_U8;
    shape.pads[0] = shape.pads[1] = 1;
    *work = (struct work){.job = shape};
    size_t in_c = (size_t)shape.in_c;
    size_t out_c = (size_t)shape.out_c;
    size_t pixels = (size_t)shape.n * (size_t)shape.h * (size_t)shape.w;
    size_t weight_count = TAPS * in_c * out_c;
    work->in_count = pixels * in_c;
    work->out_count = pixels * out_c;
    work->in = aligned_memory(work->in_count);
    work->before = aligned_memory(work->out_count);
    work->out = aligned_memory(work->out_count);
    work->dense = aligned_memory(weight_count);
    work->scale = aligned_memory(out_c * sizeof(float));
    work->bias = aligned_memory(out_c * sizeof(float));
    for (size_t i = 0; i < work->in_count; i++)
        work->in[i] = (uint8_t)random_whole(&rng, 0, in_most);
    for (size_t i = 0; i < work->out_count; i++)
        work->before[i] = (uint8_t)random_whole(&rng, 0, UINT8_MAX);
    for (size_t i = 0; i < weight_count; i++)
        work->dense[i] = (int8_t)random_whole(&rng, -weight_most, weight_most);
    for (int o = 0; o < shape.out_c; o++) {
        work->scale[o] = scale;
        work->bias[o] = (float)random_whole(&rng, 0, 200);
    }
    work->weights = sorted(work);
    work->job.in = work->in;
    work->job.out = work->out;
    work->job.weights = work->weights;
    work->job.scale = work->scale;
    work->job.bias = work->bias;
}

static void clear(struct work *work)
{
    free(work->in);
    free(work->before);
    free(work->out);
    free(work->dense);
    free(work->weights);
    free(work->scale);
    free(work->bias);
}

static int64_t sum_of(const struct work *work, int pixel, int o)
{
    const struct xt_winograd *job = &work->job;
    int x = pixel % job->w;
    int y = pixel / job->w % job->h;
    int64_t sum = 0;
    for (int tap = 0; tap < TAPS; tap++) {
        int down = tap / SIDE - 1;
        int right = tap % SIDE - 1;
        if (y + down < 0 || y + down >= job->h || x + right < 0 || x + right >= job->w)
            continue;
        const uint8_t *in = work->in + (size_t)((pixel + down * job->w + right) * job->in_c);
        const int8_t *weights = work->dense + (size_t)(o * job->in_c * TAPS + tap);
        for (int i = 0; i < job->in_c; i++)
            sum += in[i] * weights[i * TAPS];
    }
    return sum;
}

static double wanted_of(const struct work *work, int pixel, int o)
{
    const struct xt_winograd *job = &work->job;
    uint8_t before = work->before[pixel * job->out_c + o];
    double value = (double)sum_of(work, pixel, o) * (double)work->scale[o] + (double)work->bias[o];
    if (job->adds)
        value += (job->residual_signed ? (int8_t)before : before) * (double)job->residual_scale;
    return fmin(fmax(value, job->out_signed ? -128 : 0), job->out_signed ? 127 : 255);
}

static void run(struct work *work, xt_winograd_loop *loop, int threads)
{
    float *scratch = aligned_memory(xt_winograd_int8_scratch(work->job.in_c) * sizeof(float));
    memcpy(work->out, work->before, work->out_count);
    xt_winograd_plan(&work->job, threads);
    for (int part = 0; part < work->job.groups * work->job.shares; part++)
        loop(&work->job, part, scratch);
    free(scratch);
}

static void check(const struct work *work, double most_apart)
{
    int channels = work->job.out_c;
    for (int i = 0; i < (int)work->out_count; i++) {
        double wanted = wanted_of(work, i / channels, i % channels);
        double got = work->job.out_signed ? (int8_t)work->out[i] : work->out[i];
        if (!(fabs(got - wanted) <= most_apart))
            fail_msg("pixel %d channel %d is %g, not %g", i / channels, i % channels, got, wanted);
    }
}

/* Tiles that fit and tiles that do not, fewer of them than a chunk has and more, an odd number of
 * panels, and each kind of output. */
static const struct xt_winograd shapes[] = {
    {.n = 2, .h = 8, .w = 8, .in_c = 64, .out_c = 32},
    {.n = 1, .h = 1, .w = 1, .in_c = 64, .out_c = 64, .out_signed = true},
    {.n = 3, .h = 7, .w = 5, .in_c = 128, .out_c = 96, .adds = true, .residual_scale = 0.5F},
    {.n = 1,
     .h = 14,
     .w = 15,
     .in_c = 64,
     .out_c = 64,
     .adds = true,
     .residual_signed = true,
     .residual_scale = 2},
    {.n = 2, .h = 3, .w = 82, .in_c = 64, .out_c = 128, .out_signed = true},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* The builds that have the loops; NULL where there is no further one. */
static xt_winograd_loop *loop_of(int build)
{
    const struct xt_loops *all[BUILDS_MAX];
    int count = builds(all);
    for (int b = 0; b < count; b++)
        if (all[b]->winograd_int8 && !build--)
            return all[b]->winograd_int8;
    return NULL;
}

static void check_shapes(int in_most, int weight_most, float scale, double most_apart)
{
    xt_winograd_loop *loop = NULL;
    if (!loop_of(0))
        support_skip("no AVX2 here");
    for (int b = 0; (loop = loop_of(b)); b++)
        for (int i = 0; i < 2 * SHAPES; i++) {
            struct work work;
            struct xt_winograd shape = shapes[i / 2];
            shape.form = i % 2 ? XT_WINOGRAD_LARGE : XT_WINOGRAD_SMALL;
            setup(&work, shape, in_most, weight_most, scale);
            run(&work, loop, 1);
            check(&work, most_apart);
            clear(&work);
        }
}

static void small_sums_are_those_of_plain_loops_to_the_unit(void **state)
{
    (void)state;
    check_shapes(3, 1, 1, 0.5);
}

static void sums_of_all_bytes_are_those_of_plain_loops(void **state)
{
    (void)state;
    check_shapes(UINT8_MAX, INT8_MAX, 2e-4F, 0.501);
}

static void outputs_do_not_depend_on_threads(void **state)
{
    (void)state;
    xt_winograd_loop *loop = NULL;
    if (!loop_of(0))
        support_skip("no AVX2 here");
    for (int b = 0; (loop = loop_of(b)); b++)
        for (int i = 0; i < SHAPES; i++) {
            struct work work;
            struct xt_winograd shape = shapes[i];
            shape.form = XT_WINOGRAD_LARGE;
            setup(&work, shape, UINT8_MAX, INT8_MAX, 2e-4F);
            run(&work, loop, 1);
            uint8_t *whole = aligned_memory(work.out_count);
            memcpy(whole, work.out, work.out_count);
            for (int threads = 2; threads <= 8; threads++) {
                run(&work, loop, threads);
                assert_memory_equal(whole, work.out, work.out_count);
            }
            free(whole);
            clear(&work);
        }
}

/* All inputs 255 and all weights 127, or -127 in every second output channel. */
static void check_largest_sums(enum xt_winograd_form form, int in_c)
{
    xt_winograd_loop *loop = NULL;
    for (int b = 0; (loop = loop_of(b)); b++) {
        struct work work;
        float scale = 100.0F / (float)(UINT8_MAX * INT8_MAX * TAPS * in_c);
        struct xt_winograd shape = {
            .form = form, .n = 1, .h = 6, .w = 7, .in_c = in_c, .out_c = 32, .out_signed = true};
        setup(&work, shape, UINT8_MAX, INT8_MAX, scale);
        memset(work.in, UINT8_MAX, work.in_count);
        size_t row = (size_t)in_c * TAPS;
        for (size_t o = 0; o < 32; o++)
            memset(work.dense + o * row, o % 2 ? INT8_MAX : -INT8_MAX, row);
        memset(work.bias, 0, 32 * sizeof(float));
        free(work.weights);
        work.job.weights = work.weights = sorted(&work);
        run(&work, loop, 1);
        check(&work, 0.501);
        clear(&work);
    }
}

static void the_largest_sums_are_exact(void **state)
{
    (void)state;
    if (!loop_of(0))
        support_skip("no AVX2 here");
    check_largest_sums(XT_WINOGRAD_SMALL, XT_WINOGRAD_INT8_IN);
    check_largest_sums(XT_WINOGRAD_LARGE, 64);
}

/* 255 * 131586 * 64 is below 2^31, 255 * 131587 * 64 above. */
static void large_tiles_are_refused_where_sums_may_not_be_exact(void **state)
{
    (void)state;
    enum { COUNT = 2 * 1100, EXACT = 131586 };
    float weights[COUNT] = {0};
    for (int sign = -1; sign <= 1; sign += 2) {
        for (int i = 0; i < COUNT; i++)
            weights[i] = (float)(sign * (i % 2 ? EXACT / (COUNT / 2) : -1));
        weights[1] += (float)(sign * (EXACT % (COUNT / 2)));
        assert_true(xt_winograd_int8_is_exact(weights, COUNT));
        weights[1] += (float)sign;
        assert_false(xt_winograd_int8_is_exact(weights, COUNT));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(small_sums_are_those_of_plain_loops_to_the_unit),
        cmocka_unit_test(sums_of_all_bytes_are_those_of_plain_loops),
        cmocka_unit_test(outputs_do_not_depend_on_threads),
        cmocka_unit_test(the_largest_sums_are_exact),
        cmocka_unit_test(large_tiles_are_refused_where_sums_may_not_be_exact),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
