#include "loop_builds.h"
#include "random_tensor.h"

#include <math.h>

/* A 1x1 convolution in int8 with random tensors; `before` is what the output holds. */
struct work {
    struct xt_pointwise_int8 job;
    int n;
    uint8_t *in, *before, *out;
    int8_t *weights;
    float *scale, *bias;
    size_t out_bytes;
};

static void *random_bytes(struct xt_rng *rng, size_t count)
{
    uint8_t *bytes = aligned_memory(count);
    for (size_t i = 0; i < count; i++)
        bytes[i] = (uint8_t)(256 * xt_rng_uniform(rng));
    return bytes;
}

/* Factors of the size that brings most sums into the output's range, and some far beyond it. */
static float *random_factors(struct xt_rng *rng, int count, float size)
{
    float *factors = aligned_memory((size_t)count * sizeof *factors);
    for (int i = 0; i < count; i++)
        factors[i] = size * (2 * xt_rng_uniform(rng) - 1) * (i % 29 ? 1.0F : 1e30F);
    return factors;
}

static int pixels_of(const struct work *work)
{
    return work->n * work->job.out_h * work->job.out_w;
}

static void setup(struct work *work, struct xt_pointwise_int8 shape, int n)
{
    struct xt_rng rng = xt_rng_begin(11, 0);
    shape.out_h = (shape.h - 1) / shape.stride_h + 1;
    shape.out_w = (shape.w - 1) / shape.stride_w + 1;
    shape.row = shape.out_c;
    *work = (struct work){.job = shape, .n = n};
    work->in = random_bytes(&rng, (size_t)(n * shape.h * shape.w * shape.in_c));
    work->weights = random_bytes(&rng, (size_t)(shape.in_c * shape.out_c));
    work->scale = random_factors(&rng, shape.out_c, 2.0F / (float)shape.in_c / 100);
    work->bias = random_factors(&rng, shape.out_c, 100);
    work->out_bytes = (size_t)(pixels_of(work) * shape.out_c);
    work->before = random_bytes(&rng, work->out_bytes);
    work->out = aligned_memory(work->out_bytes);
    memcpy(work->out, work->before, work->out_bytes);
    work->job.in = work->in;
    work->job.weights = work->weights;
    work->job.scale = work->scale;
    work->job.bias = work->bias;
    work->job.out = work->out;
}

static void clear(struct work *work)
{
    free(work->in);
    free(work->before);
    free(work->out);
    free(work->weights);
    free(work->scale);
    free(work->bias);
}

/* Before it is rounded. */
static double wanted_of(const struct work *work, int pixel, int block, int place)
{
    const struct xt_pointwise_int8 *job = &work->job;
    int x = pixel % job->out_w * job->stride_w;
    int y = pixel / job->out_w % job->out_h * job->stride_h;
    int at = (pixel / job->out_w / job->out_h * job->h + y) * job->w + x;
    int sum = 0;
    for (int i = 0; i < job->in_c; i++)
        sum += work->in[at * job->in_c + i] *
               work->weights[((block * job->in_c + i / 4 * 4) * 32 + place * 4) + i % 4];
    uint8_t before =
        work->before[pixel * job->out_c + block * 32 + xt_pointwise_int8_channel(place)];
    double residual = job->residual_signed ? (double)(int8_t)before : (double)before;
    return (double)sum * (double)work->scale[block * 32 + place] +
           (double)work->bias[block * 32 + place] +
           (job->adds ? residual * (double)job->residual_scale : 0);
}

static void check(const struct work *work, const char *isa)
{
    const struct xt_pointwise_int8 *job = &work->job;
    for (int pixel = 0; pixel < pixels_of(work); pixel++)
        for (int i = 0; i < job->out_c; i++) {
            int channel = i / 32 * 32 + xt_pointwise_int8_channel(i % 32);
            uint8_t byte = work->out[pixel * job->out_c + channel];
            double got = job->out_signed ? (double)(int8_t)byte : (double)byte;
            double wanted =
                fmin(fmax(wanted_of(work, pixel, i / 32, i % 32), job->out_signed ? -128 : 0),
                     job->out_signed ? 127 : 255);
            if (!(fabs(got - wanted) <= 0.501))
                fail_msg("%s: pixel %d channel %d is %g, not %g", isa, pixel, channel, got, wanted);
        }
}

/* All counts of pixels that a tile may have, with each kind of output. */
static const struct xt_pointwise_int8 shapes[] = {
    {.h = 7, .w = 7, .in_c = 64, .out_c = 96, .stride_h = 1, .stride_w = 1},
    {.h = 9, .w = 13, .in_c = 16, .out_c = 32, .stride_h = 2, .stride_w = 2, .out_signed = true},
    {.h = 8,
     .w = 8,
     .in_c = 96,
     .out_c = 64,
     .stride_h = 2,
     .stride_w = 1,
     .adds = true,
     .residual_scale = 0.7F},
    {.h = 2, .w = 1, .in_c = 160, .out_c = 32, .stride_h = 1, .stride_w = 1},
    {.h = 10,
     .w = 11,
     .in_c = 32,
     .out_c = 256,
     .stride_h = 1,
     .stride_w = 3,
     .adds = true,
     .residual_signed = true,
     .residual_scale = 0.3F},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* Divided at any pixel and by channels it is the same. */
static void check_parts(struct work *work, const struct xt_loops *loops)
{
    uint8_t *whole = aligned_memory(work->out_bytes);
    int pixels = pixels_of(work);
    memcpy(whole, work->out, work->out_bytes);
    for (int first = 0, count = 1; first < pixels; first += count++) {
        int end = first + count < pixels ? first + count : pixels;
        memcpy(work->out, work->before, work->out_bytes);
        for (int channel = 0; channel < work->job.out_c; channel += 32) {
            struct xt_pointwise_int8 some = work->job;
            some.out_c = 32;
            some.out += channel;
            some.weights += channel * work->job.in_c;
            some.scale += channel;
            some.bias += channel;
            loops->pointwise_int8(&some, 0, first);
            loops->pointwise_int8(&some, first, end);
            loops->pointwise_int8(&some, end, pixels);
        }
        assert_memory_equal(whole, work->out, work->out_bytes);
    }
    free(whole);
}

static void it_is_what_plain_loops_make_of_it(void **state)
{
    const struct xt_loops *all[BUILDS_MAX];
    int count = builds(all);
    (void)state;
    for (int i = 0; i < count * SHAPES; i++) {
        const struct xt_loops *loops = all[i / SHAPES];
        if (!loops->pointwise_int8 || !__builtin_cpu_supports("avx512vnni"))
            continue;
        struct work work;
        setup(&work, shapes[i % SHAPES], 3);
        loops->pointwise_int8(&work.job, 0, pixels_of(&work));
        check(&work, loops->isa);
        check_parts(&work, loops);
        clear(&work);
    }
}

static void each_place_holds_one_channel(void **state)
{
    unsigned seen = 0;
    (void)state;
    for (int place = 0; place < XT_POINTWISE_INT8_OUT; place++)
        seen |= 1U << xt_pointwise_int8_channel(place);
    assert_true(seen == UINT32_MAX);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_what_plain_loops_make_of_it),
        cmocka_unit_test(each_place_holds_one_channel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
