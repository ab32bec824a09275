/* Depthwise convolutions of every build against reference loops: output, both gradients; in
 * inference activations, and int8. */
#include "loop_builds.h"
#include "random_tensor.h"

#include <math.h>

#include "engine/ops/ops.h"
#include "engine/ops/reference.h"

/* Each kernel and stride that has loops of its own, others; channels below a vector, beside whole
 * ones and of whole ones; kernels larger than the image; padding that is not the same everywhere.
 */
static const struct shape {
    int h, w, c, kernel_h, kernel_w, stride_h, stride_w, dilation, pad_h, pad_w, more;
} shapes[] = {
    {9, 21, 40, 3, 3, 1, 1, 1, 1, 1, 0}, {10, 21, 32, 3, 3, 2, 2, 1, 1, 1, 0},
    {9, 22, 24, 3, 3, 2, 2, 1, 1, 1, 0}, {7, 14, 24, 5, 5, 1, 1, 1, 2, 2, 0},
    {7, 15, 16, 5, 5, 2, 2, 1, 2, 2, 0}, {8, 20, 17, 5, 5, 2, 2, 1, 1, 1, 1},
    {9, 17, 72, 7, 7, 1, 1, 1, 3, 3, 0}, {9, 17, 16, 7, 7, 2, 2, 1, 3, 3, 0},
    {3, 4, 16, 7, 5, 1, 1, 1, 3, 2, 0},  {5, 9, 3, 3, 3, 1, 1, 1, 1, 1, 0},
    {6, 9, 5, 3, 3, 2, 2, 1, 0, 0, 1},   {9, 13, 20, 3, 3, 1, 1, 2, 2, 2, 0},
    {8, 11, 19, 2, 4, 3, 2, 1, 0, 1, 0}, {5, 5, 16, 1, 1, 2, 2, 1, 0, 0, 0},
    {6, 12, 33, 4, 2, 1, 1, 1, 1, 0, 0}, {4, 31, 16, 3, 3, 1, 1, 1, 1, 1, 0},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

struct work {
    struct xt_reference_conv reference;
    struct xt_depthwise job;
    size_t in_count, out_count, taps;
    void *in, *out_grad;
    float *forward, *backward, *bias; /* weights in the loops' two orders */
    double *values, *gradients, *weights;
};

static int out_size(int in, int kernel, int stride, int dilation, int pads)
{
    return (in + pads - (kernel - 1) * dilation - 1) / stride + 1;
}

static struct xt_depthwise job_of(const struct shape *s, enum xt_dtype dtype)
{
    return (struct xt_depthwise){
        .dtype = dtype,
        .h = s->h,
        .w = s->w,
        .c = s->c,
        .out_h = out_size(s->h, s->kernel_h, s->stride_h, s->dilation, 2 * s->pad_h + s->more),
        .out_w = out_size(s->w, s->kernel_w, s->stride_w, s->dilation, 2 * s->pad_w + s->more),
        .kernel_h = s->kernel_h,
        .kernel_w = s->kernel_w,
        .stride_h = s->stride_h,
        .stride_w = s->stride_w,
        .dilation_h = s->dilation,
        .dilation_w = s->dilation,
        .pad_h = s->pad_h,
        .pad_w = s->pad_w};
}

static void bring_weights(struct work *work, struct xt_rng *rng)
{
    const struct xt_depthwise *job = &work->job;
    size_t c = (size_t)job->c;
    float *plain = malloc(work->taps * c * sizeof *plain);
    work->weights = random_numbers(rng, XT_F32, work->taps * c, plain);
    work->forward = aligned_memory(work->taps * c * sizeof *work->forward);
    work->backward = aligned_memory(work->taps * c * sizeof *work->backward);
    for (size_t i = 0; i < work->taps * c; i++) {
        size_t k = i / work->taps;
        size_t t = i % work->taps;
        int kx = (int)t % job->kernel_w;
        size_t place = t - (size_t)kx + (size_t)xt_depthwise_backward_tap(job, kx);
        work->forward[t * c + k] = work->backward[place * c + k] = plain[i];
    }
    free(plain);
}

static void setup(struct work *work, const struct shape *s, enum xt_dtype dtype)
{
    struct xt_rng rng = xt_rng_begin(3, (uint64_t)(s->c * s->kernel_h));
    struct xt_depthwise job = job_of(s, dtype);
    *work = (struct work){.job = job,
                          .reference = {.in = {1, s->h, s->w, s->c},
                                        .out = {1, job.out_h, job.out_w, s->c},
                                        .kernel_h = s->kernel_h,
                                        .kernel_w = s->kernel_w,
                                        .stride_h = s->stride_h,
                                        .stride_w = s->stride_w,
                                        .dilation_h = s->dilation,
                                        .dilation_w = s->dilation,
                                        .pad_h = s->pad_h,
                                        .pad_w = s->pad_w,
                                        .groups = s->c}};
    work->in_count = xt_reference_count(&work->reference.in);
    work->out_count = xt_reference_count(&work->reference.out);
    work->taps = (size_t)(s->kernel_h * s->kernel_w);
    work->in = malloc(work->in_count * xt_dtype_size(dtype));
    work->out_grad = malloc(work->out_count * xt_dtype_size(dtype));
    work->bias = malloc((size_t)s->c * sizeof *work->bias);
    work->values = random_numbers(&rng, dtype, work->in_count, work->in);
    work->gradients = random_numbers(&rng, dtype, work->out_count, work->out_grad);
    free(random_numbers(&rng, XT_F32, (size_t)s->c, work->bias));
    bring_weights(work, &rng);
}

static void clear(struct work *work)
{
    void *all[] = {work->in,   work->out_grad, work->forward,   work->backward,
                   work->bias, work->values,   work->gradients, work->weights};
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        free(all[i]);
}

static double number(const void *data, size_t i, enum xt_dtype dtype)
{
    float value = 0;
    xt_number_to_float(dtype, (const char *)data + i * xt_dtype_size(dtype), 1, &value);
    return (double)value;
}

static void expect(const char *what, const struct xt_depthwise *job, size_t i, double got,
                   double wanted, double rounding)
{
    if (!(fabs(got - wanted) <= rounding * (fabs(wanted) + 1)))
        fail_msg("%s of %dx%d by %d, %d channels: [%zu] is %g, not %g", what, job->kernel_h,
                 job->kernel_w, job->stride_w, job->c, i, got, wanted);
}

static double rounding_of(enum xt_dtype dtype)
{
    return dtype == XT_F32 ? 2e-6 : 1.0 / 256;
}

static void check_output(struct work *work, const struct xt_loops *loops, bool ends)
{
    struct xt_depthwise *job = &work->job;
    void *out = malloc(work->out_count * xt_dtype_size(job->dtype));
    job->weights = work->forward;
    job->ending.bias = ends ? work->bias : NULL;
    job->ending.least = ends ? 0 : -INFINITY;
    job->ending.most = INFINITY;
    job->end_row = job->out_h;
    loops->depthwise(job, work->in, out);
    for (size_t i = 0; i < work->out_count; i++) {
        double wanted = xt_reference_conv_output(&work->reference, work->values, work->weights, i);
        wanted += ends ? (double)work->bias[i % (size_t)job->c] : 0;
        wanted = ends && wanted < 0 ? 0 : wanted;
        expect("output", job, i, number(out, i, job->dtype), wanted, rounding_of(job->dtype));
    }
    free(out);
}

static void check_input_grad(struct work *work, const struct xt_loops *loops)
{
    struct xt_depthwise *job = &work->job;
    void *grad = malloc(work->in_count * xt_dtype_size(job->dtype));
    job->weights = work->backward;
    loops->depthwise_data_grad(job, work->out_grad, grad);
    for (size_t i = 0; i < work->in_count; i++)
        expect("input's gradient", job, i, number(grad, i, job->dtype),
               xt_reference_conv_input_grad(&work->reference, work->gradients, work->weights, i),
               rounding_of(job->dtype));
    free(grad);
}

static void check_weight_grad(struct work *work, const struct xt_loops *loops)
{
    struct xt_depthwise *job = &work->job;
    size_t c = (size_t)job->c;
    float *sums = aligned_memory((work->taps + 1) * c * sizeof *sums);
    job->ending.bias = work->bias;
    loops->depthwise_weight_grad(job, work->in, work->out_grad, sums);
    for (size_t i = 0; i < work->taps * c; i++)
        expect("weights' gradient", job, i, (double)sums[i % work->taps * c + i / work->taps],
               xt_reference_conv_weight_grad(&work->reference, work->values, work->gradients, i),
               2e-6);
    for (size_t k = 0; k < c; k++) {
        double wanted = 0;
        for (size_t i = k; i < work->out_count; i += c)
            wanted += work->gradients[i];
        expect("bias's gradient", job, k, (double)sums[work->taps * c + k], wanted, 2e-6);
    }
    free(sums);
}

static void check(const struct xt_loops *loops, enum xt_dtype dtype)
{
    for (size_t i = 0; i < SHAPES; i++) {
        struct work work;
        setup(&work, &shapes[i], dtype);
        check_output(&work, loops, i % 2 == 0);
        check_input_grad(&work, loops);
        check_weight_grad(&work, loops);
        clear(&work);
    }
}

static void it_is_what_reference_loops_compute(void **state)
{
    const struct xt_loops *all[BUILDS_MAX];
    (void)state;
    for (int b = 0, count = builds(all); b < count; b++)
        check(all[b], XT_F32);
}

static void the_same_in_bf16(void **state)
{
    const struct xt_loops *all[BUILDS_MAX];
    (void)state;
    for (int b = 0, count = builds(all); b < count; b++)
        check(all[b], XT_BF16);
}

/* ---- in inference ---- */

static const struct xt_activation hard_swish = {.kind = XT_ACT_HARD_SWISH},
                                  silu = {.kind = XT_ACT_SILU};

/* What an output is before it is rounded. */
static double ended(const struct work *work, size_t i)
{
    const struct xt_depthwise_ending *ending = &work->job.ending;
    size_t k = i % (size_t)work->job.c;
    double value = xt_reference_conv_output(&work->reference, work->values, work->weights, i);
    value = value * (ending->scale ? (double)ending->scale[k] : 1) + (double)ending->bias[k];
    if (ending->activation)
        value = xt_activation_value(ending->activation, value) *
                (ending->scale ? (double)ending->steps : 1);
    return fmin(fmax(value, (double)ending->least), (double)ending->most);
}

/* Two calls for the rows, as two threads have it. */
static void run_halves(struct work *work, const struct xt_loops *loops, void *out)
{
    struct xt_depthwise *job = &work->job;
    job->weights = work->forward;
    job->first_row = 0;
    job->end_row = job->out_h / 2;
    loops->depthwise(job, work->in, out);
    job->first_row = job->end_row;
    job->end_row = job->out_h;
    loops->depthwise(job, work->in, out);
}

static void check_ending(const struct xt_loops *loops, const struct shape *s,
                         const struct xt_activation *activation)
{
    struct work work;
    setup(&work, s, XT_F32);
    work.job.ending = (struct xt_depthwise_ending){.bias = work.bias,
                                                   .activation = activation,
                                                   .least = activation ? -INFINITY : -0.25F,
                                                   .most = activation ? INFINITY : 0.5F};
    float *out = malloc(work.out_count * sizeof *out);
    run_halves(&work, loops, out);
    for (size_t i = 0; i < work.out_count; i++)
        expect("output", &work.job, i, (double)out[i], ended(&work, i), 4e-6);
    free(out);
    clear(&work);
}

static void it_clips_or_applies_an_activation_to_some_of_the_rows(void **state)
{
    const struct xt_loops *all[BUILDS_MAX];
    (void)state;
    for (int b = 0, count = builds(all); b < count; b++)
        for (size_t i = 0; i < SHAPES; i++)
            if (shapes[i].c >= XT_DEPTHWISE_INFER_LEAST)
                check_ending(all[b], &shapes[i],
                             i % 3 == 0   ? NULL
                             : i % 3 == 1 ? &hard_swish
                                          : &silu);
}

/* Bytes of all values, whole weights. */
static void setup_int8(struct work *work, const struct shape *s, bool is_signed, float *scale)
{
    struct xt_rng rng = xt_rng_begin(4, (uint64_t)s->c);
    setup(work, s, XT_F32);
    work->job.dtype = is_signed ? XT_S8 : XT_U8;
    for (size_t i = 0; i < work->in_count; i++) {
        uint8_t byte = (uint8_t)(256 * xt_rng_uniform(&rng));
        ((uint8_t *)work->in)[i] = byte;
        work->values[i] = is_signed ? (int8_t)byte : byte;
    }
    for (size_t i = 0; i < work->taps * (size_t)s->c; i++) {
        size_t k = i / work->taps;
        work->weights[i] = floor(255 * (double)xt_rng_uniform(&rng)) - 127;
        work->forward[i % work->taps * (size_t)s->c + k] = (float)work->weights[i];
    }
    for (int k = 0; k < s->c; k++) {
        scale[k] = 0.003F + 0.0001F * (float)k;
        work->bias[k] *= 30;
    }
}

static void check_int8(const struct xt_loops *loops, const struct shape *s, bool is_signed,
                       bool out_signed, const struct xt_activation *activation)
{
    struct work work;
    float *scale = aligned_memory((size_t)s->c * sizeof *scale);
    setup_int8(&work, s, is_signed, scale);
    work.job.ending = (struct xt_depthwise_ending){.bias = work.bias,
                                                   .activation = activation,
                                                   .least = out_signed ? -128 : 0,
                                                   .most = out_signed ? 127 : 255,
                                                   .scale = scale,
                                                   .steps = 1.5F};
    uint8_t *out = malloc(work.out_count);
    run_halves(&work, loops, out);
    for (size_t i = 0; i < work.out_count; i++) {
        double got = out_signed ? (int8_t)out[i] : out[i];
        if (!(fabs(got - ended(&work, i)) <= 0.501))
            fail_msg("%dx%d by %d, %d channels: [%zu] is %g, not %g", s->kernel_h, s->kernel_w,
                     s->stride_w, s->c, i, got, ended(&work, i));
    }
    free(out);
    free(scale);
    clear(&work);
}

static void bytes_are_the_nearest_to_exact_sums(void **state)
{
    const struct xt_loops *all[BUILDS_MAX];
    (void)state;
    for (int b = 0, count = builds(all); b < count; b++)
        for (size_t i = 0; i < SHAPES; i++)
            for (int type = 0; type < 4 && shapes[i].c >= XT_DEPTHWISE_INFER_LEAST; type++)
                check_int8(all[b], &shapes[i], type & 1, type & 2, i % 2 ? &hard_swish : NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_what_reference_loops_compute),
        cmocka_unit_test(the_same_in_bf16),
        cmocka_unit_test(it_clips_or_applies_an_activation_to_some_of_the_rows),
        cmocka_unit_test(bytes_are_the_nearest_to_exact_sums),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
