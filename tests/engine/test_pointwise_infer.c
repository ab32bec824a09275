/* 1x1 convolutions of inference against plain loops, in every build that has them. */
#include "loop_builds.h"
#include "random_tensor.h"

#include <math.h>

#include "engine/ops/ops.h"

enum { OUT = XT_POINTWISE_INFER_OUT };

/* A convolution with random tensors; `before` is what the output holds. */
struct work {
    struct xt_pointwise_infer job;
    int n;
    uint8_t *in, *before, *out;
    void *weights;
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

/* Channels whose weights lie side by side. */
static int wide(const struct xt_pointwise_infer *job)
{
    return job->dtype == XT_F32 ? XT_POINTWISE_BLOCK : OUT;
}

/* Bytes, or numbers in bf16 or float32. */
static void *random_tensor(struct xt_rng *rng, enum xt_dtype dtype, size_t count)
{
    if (dtype == XT_U8)
        return random_bytes(rng, count);
    void *memory = aligned_memory(count * xt_dtype_size(dtype));
    free(random_numbers(rng, dtype, count, memory));
    return memory;
}

/* Factors of the size that brings most sums into the output's range, and int8 some far beyond it.
 */
static float *random_factors(struct xt_rng *rng, const struct xt_pointwise_infer *job, float size)
{
    float *factors = aligned_memory((size_t)job->out_c * sizeof *factors);
    for (int i = 0; i < job->out_c; i++)
        factors[i] =
            size * (2 * xt_rng_uniform(rng) - 1) * (i % 29 || job->dtype != XT_U8 ? 1.0F : 1e30F);
    return factors;
}

static int pixels_of(const struct work *work)
{
    return work->n * work->job.out_h * work->job.out_w;
}

static void setup(struct work *work, struct xt_pointwise_infer shape, int n)
{
    struct xt_rng rng = xt_rng_begin(11, 0);
    shape.out_h = (shape.h - 1) / shape.stride_h + 1;
    shape.out_w = (shape.w - 1) / shape.stride_w + 1;
    shape.row = shape.out_c;
    *work = (struct work){.job = shape, .n = n};
    size_t outputs = (size_t)(pixels_of(work) * shape.out_c);
    work->in = random_tensor(&rng, shape.dtype, (size_t)(n * shape.h * shape.w * shape.in_c));
    work->weights = random_tensor(&rng, shape.dtype, (size_t)(shape.in_c * shape.out_c));
    work->scale = random_factors(&rng, &shape, 2.0F / (float)shape.in_c / 100);
    work->bias = random_factors(&rng, &shape, shape.dtype == XT_U8 ? 100 : 2);
    work->out_bytes = outputs * xt_dtype_size(shape.dtype);
    work->before = random_tensor(&rng, shape.dtype, outputs);
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

/* Element i of a tensor. */
static double number_at(const void *tensor, int i, enum xt_dtype dtype)
{
    float value;
    if (dtype == XT_U8)
        return ((const uint8_t *)tensor)[i];
    if (dtype == XT_S8)
        return ((const int8_t *)tensor)[i];
    xt_number_to_float(dtype, (const char *)tensor + (size_t)i * xt_dtype_size(dtype), 1, &value);
    return (double)value;
}

static double sum_of(const struct work *work, int pixel, int block, int place)
{
    const struct xt_pointwise_infer *job = &work->job;
    int in_word = XT_POINTWISE_INFER_WORD / (int)xt_dtype_size(job->dtype);
    int x = pixel % job->out_w * job->stride_w;
    int y = pixel / job->out_w % job->out_h * job->stride_h;
    int at = (pixel / job->out_w / job->out_h * job->h + y) * job->w + x;
    double sum = 0;
    for (int i = 0; i < job->in_c; i++)
        sum += number_at(work->in, at * job->in_c + i, job->dtype) *
               number_at(work->weights,
                         (block * job->in_c + i / in_word * in_word) * wide(job) + place * in_word +
                             i % in_word,
                         job->dtype == XT_U8 ? XT_S8 : job->dtype);
    return sum;
}

static int channel_of(const struct work *work, int block, int place)
{
    return block * wide(&work->job) + xt_pointwise_infer_channel(work->job.dtype == XT_U8, place);
}

/* Before it is rounded. */
static double wanted_of(const struct work *work, int pixel, int block, int place)
{
    const struct xt_pointwise_infer *job = &work->job;
    bool int8 = job->dtype == XT_U8;
    double before = number_at(work->before, pixel * job->out_c + channel_of(work, block, place),
                              job->residual_signed ? XT_S8 : job->dtype);
    double sum = sum_of(work, pixel, block, place);
    if (int8)
        sum *= (double)work->scale[block * wide(job) + place];
    double value = sum + (double)work->bias[block * wide(job) + place];
    if (job->adds)
        value += before * (int8 ? (double)job->residual_scale : 1);
    if (int8)
        return fmin(fmax(value, job->out_signed ? -128 : 0), job->out_signed ? 127 : 255);
    if (job->activation)
        return xt_activation_value(job->activation, value);
    return job->relu ? fmax(value, 0) : value;
}

static void check(const struct work *work, const char *isa)
{
    const struct xt_pointwise_infer *job = &work->job;
    for (int pixel = 0; pixel < pixels_of(work); pixel++)
        for (int i = 0; i < job->out_c; i++) {
            int at = pixel * job->out_c + channel_of(work, i / wide(job), i % wide(job));
            double got = number_at(work->out, at, job->out_signed ? XT_S8 : job->dtype);
            double wanted = wanted_of(work, pixel, i / wide(job), i % wide(job));
            double most = job->dtype == XT_U8    ? 0.501
                          : job->dtype == XT_F32 ? 1e-6 * (fabs(wanted) + job->in_c)
                                                 : fabs(wanted) / 256 + 1e-3 + 1e-6 * job->in_c;
            if (!(fabs(got - wanted) <= most))
                fail_msg("%s: pixel %d channel %d is %g, not %g", isa, pixel, i, got, wanted);
        }
}

static const struct xt_activation relu6 = {XT_ACT_CLIP, 0, 6}, swish = {XT_ACT_HARD_SWISH, 0, 0},
                                  silu = {XT_ACT_SILU, 0, 0};

/* All counts of pixels that a tile may have, with each kind of output; those of bf16 are float32's
 * too. */
static const struct xt_pointwise_infer shapes[] = {
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
    {.dtype = XT_BF16, .h = 7, .w = 7, .in_c = 8, .out_c = 96, .stride_h = 1, .stride_w = 1},
    {.dtype = XT_BF16,
     .h = 9,
     .w = 13,
     .in_c = 24,
     .out_c = 32,
     .stride_h = 2,
     .stride_w = 2,
     .relu = true},
    {.dtype = XT_BF16,
     .h = 8,
     .w = 8,
     .in_c = 96,
     .out_c = 64,
     .stride_h = 2,
     .stride_w = 1,
     .adds = true,
     .relu = true},
    {.dtype = XT_BF16,
     .h = 2,
     .w = 1,
     .in_c = 160,
     .out_c = 32,
     .stride_h = 1,
     .stride_w = 1,
     .activation = &relu6},
    {.dtype = XT_BF16,
     .h = 10,
     .w = 11,
     .in_c = 32,
     .out_c = 256,
     .stride_h = 1,
     .stride_w = 3,
     .adds = true,
     .activation = &swish},
    {.dtype = XT_BF16,
     .h = 5,
     .w = 6,
     .in_c = 40,
     .out_c = 64,
     .stride_h = 1,
     .stride_w = 1,
     .activation = &silu},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* Divided at any pixel and by channels it is the same. */
static void check_parts(struct work *work, xt_pointwise_infer_loop *loop)
{
    uint8_t *whole = aligned_memory(work->out_bytes);
    int pixels = pixels_of(work);
    size_t number = xt_dtype_size(work->job.dtype);
    memcpy(whole, work->out, work->out_bytes);
    for (int first = 0, count = 1; first < pixels; first += count++) {
        int end = first + count < pixels ? first + count : pixels;
        memcpy(work->out, work->before, work->out_bytes);
        for (size_t channel = 0; channel < (size_t)work->job.out_c; channel += OUT) {
            struct xt_pointwise_infer some = work->job;
            some.out_c = OUT;
            some.out = work->out + channel * number;
            some.weights = (const char *)work->weights + channel * (size_t)some.in_c * number;
            some.scale += channel;
            some.bias += channel;
            loop(&some, 0, first);
            loop(&some, first, end);
            loop(&some, end, pixels);
        }
        assert_memory_equal(whole, work->out, work->out_bytes);
    }
    free(whole);
}

static void check_shape(const struct xt_loops *loops, struct xt_pointwise_infer shape,
                        xt_pointwise_infer_loop *loop)
{
    struct work work;
    if (!loop)
        return;
    setup(&work, shape, 3);
    loop(&work.job, 0, pixels_of(&work));
    check(&work, loops->isa);
    check_parts(&work, loop);
    clear(&work);
}

static void it_is_what_plain_loops_make_of_it(void **state)
{
    const struct xt_loops *all[BUILDS_MAX];
    int count = builds(all);
    (void)state;
    for (int i = 0; i < count * SHAPES; i++) {
        const struct xt_loops *loops = all[i / SHAPES];
        struct xt_pointwise_infer shape = shapes[i % SHAPES];
        bool bytes = shape.dtype != XT_BF16;
        shape.dtype = bytes ? XT_U8 : XT_BF16;
        if (__builtin_cpu_supports("avx512vnni"))
            check_shape(loops, shape, bytes ? loops->pointwise_int8 : loops->pointwise_bf16);
        shape.dtype = XT_F32;
        if (!bytes)
            check_shape(loops, shape, loops->pointwise_f32);
    }
}

static void each_place_holds_one_channel(void **state)
{
    (void)state;
    for (int int8 = 0; int8 < 2; int8++) {
        unsigned seen = 0;
        for (int place = 0; place < OUT; place++)
            seen |= 1U << xt_pointwise_infer_channel(int8, place);
        assert_true(seen == UINT32_MAX);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_what_plain_loops_make_of_it),
        cmocka_unit_test(each_place_holds_one_channel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
