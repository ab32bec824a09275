#include "loop_builds.h"
#include "random_tensor.h"

#include <math.h>

#include "device/device.h"
#include "engine/ops/reference.h"

/* A convolution with random tensors. */
struct work {
    struct xt_weight_grad job;
    xt_weight_grad_sum_loop *sum;
    struct xt_reference_conv reference;
    void *in_memory, *out_memory;
    double *in, *out;
    const double *wanted; /* [out_c][in_c][taps] */
    float *bias;
};

static void *fill(struct xt_rng *rng, size_t count, enum xt_dtype dtype, double **as_double)
{
    void *memory = malloc(count * xt_dtype_size(dtype));
    *as_double = random_numbers(rng, dtype, count, memory);
    return memory;
}

static void setup(struct work *work, struct xt_weight_grad shape)
{
    struct xt_rng rng = xt_rng_begin(5, 0);
    shape.out_h = (shape.h + 2 * shape.pad_h - shape.kernel_h) / shape.stride_h + 1;
    shape.out_w = (shape.w + 2 * shape.pad_w - shape.kernel_w) / shape.stride_w + 1;
    *work = (struct work){.job = shape,
                          .reference = {.in = {shape.n, shape.h, shape.w, shape.in_c},
                                        .out = {shape.n, shape.out_h, shape.out_w, shape.out_c},
                                        .kernel_h = shape.kernel_h,
                                        .kernel_w = shape.kernel_w,
                                        .stride_h = shape.stride_h,
                                        .stride_w = shape.stride_w,
                                        .pad_h = shape.pad_h,
                                        .pad_w = shape.pad_w}};
    enum xt_dtype dtype = shape.f32 ? XT_F32 : XT_BF16;
    work->in_memory = fill(&rng, xt_reference_count(&work->reference.in), dtype, &work->in);
    work->out_memory = fill(&rng, xt_reference_count(&work->reference.out), dtype, &work->out);
    work->bias = aligned_memory((size_t)shape.out_c * sizeof(float));
    work->job.in = work->in_memory;
    work->job.out_grad = work->out_memory;
    work->job.bias_grad = work->bias;
}

static void clear(struct work *work)
{
    free(work->in_memory);
    free(work->out_memory);
    free(work->in);
    free(work->out);
    free(work->bias);
}

/* Sums the parts in two halves. */
static void sum(const struct work *work)
{
    const struct xt_weight_grad *job = &work->job;
    size_t tile = xt_weight_grad_tile(job);
    size_t half = job->weights / tile / 2 * tile;
    double wanted = 0;
    double square = work->sum(job, half, job->weights);
    square += half ? work->sum(job, 0, half) : 0;
    for (size_t i = 0; i < job->weights; i++)
        wanted += (double)job->grad[i] * (double)job->grad[i];
    assert_true(fabs(square - wanted) <= 1e-9 * wanted);
}

/* The gradient, which the caller frees. */
static float *run(struct work *work, xt_weight_grad_loop *loop, int threads)
{
    struct xt_weight_grad *job = &work->job;
    xt_weight_grad_plan(job, threads);
    assert_in_range(xt_weight_grad_parts(job), 1, threads);
    job->grad = aligned_memory(job->weights * sizeof(float));
    job->scratch = aligned_memory(xt_weight_grad_scratch(job));
#pragma omp parallel for schedule(static)
    for (int part = 0; part < xt_weight_grad_parts(job); part++)
        loop(job, part);
    sum(work);
    free(job->scratch);
    return job->grad;
}

/* The same by workers, a sample a slice. */
static float *run_slices(struct work *work, xt_weight_grad_loop *loop)
{
    struct xt_weight_grad *job = &work->job;
    int n = job->n;
    int each = (n + 1) / 2;
    int workers = (n + each - 1) / each;
    size_t size = job->f32 ? 4 : 2;
    job->n = 1;
    xt_weight_grad_plan_workers(job, workers);
    job->grad = aligned_memory(job->weights * sizeof(float));
    job->scratch = aligned_memory(xt_weight_grad_scratch(job));
    for (int i = 0; i < n; i++) {
        struct xt_weight_grad slice = *job;
        slice.in = (char *)work->in_memory + (size_t)(i * job->h * job->w * job->in_c) * size;
        slice.out_grad =
            (char *)work->out_memory + (size_t)(i * job->out_h * job->out_w * job->out_c) * size;
        slice.adds = i % each > 0;
        slice.more = (i + 1) % each > 0 && i + 1 < n;
        loop(&slice, i / each);
    }
    sum(work);
    free(job->scratch);
    job->n = n;
    return job->grad;
}

/* Where weight [o][i][tap] lies. */
static size_t place(const struct xt_weight_grad *job, size_t o, size_t i, size_t tap)
{
    size_t edge = (size_t)job->edge;
    size_t in_tiles = ((size_t)job->in_c + edge - 1) / edge;
    size_t block = (o / edge * in_tiles + i / edge) * (size_t)job->taps + tap;
    o %= edge;
    i %= edge;
    return block * edge * edge + (xt_weight_grad_is_turned(job) ? o * edge + i : i * edge + o);
}

static void check_weights(const struct work *work, const float *grad)
{
    const struct xt_weight_grad *job = &work->job;
    size_t taps = (size_t)job->taps;
    size_t row = (size_t)job->in_c * taps;
    double pixels = (double)job->n * job->out_h * job->out_w;
    double most = (job->tiles ? 2e-7 : 1e-6) * pixels; /* tiles: not without one of six products */
    size_t edge = (size_t)job->edge;
    for (size_t o = 0; o < ((size_t)job->out_c + edge - 1) / edge * edge; o++)
        for (size_t i = 0; i < ((size_t)job->in_c + edge - 1) / edge * edge; i++)
            for (size_t tap = 0; tap < taps; tap++) {
                double got = (double)grad[place(job, o, i, tap)];
                bool real = o < (size_t)job->out_c && i < (size_t)job->in_c;
                double wanted = real ? work->wanted[o * row + i * taps + tap] : 0;
                if (!(fabs(got - wanted) <= most))
                    fail_msg("weight [%zu][%zu] tap %zu: %g, not %g", o, i, tap, got, wanted);
            }
}

static void check_bias(const struct work *work)
{
    const struct xt_weight_grad *job = &work->job;
    size_t pixels = (size_t)job->n * (size_t)job->out_h * (size_t)job->out_w;
    for (size_t o = 0; o < (size_t)job->out_c; o++) {
        double wanted = 0;
        for (size_t i = 0; i < pixels; i++)
            wanted += work->out[i * (size_t)job->out_c + o];
        if (!(fabs((double)work->bias[o] - wanted) <= 1e-6 * (double)pixels))
            fail_msg("bias [%zu]: %g, not %g", o, (double)work->bias[o], wanted);
    }
}

/* A build's loop, of float32 or bf16, from packed pixels or not, that of every shape or only of
 * flat ones, of float32 by matrix tiles or not, in tiles of `edge` channels. */
struct variant {
    xt_weight_grad_loop *loop;
    xt_weight_grad_sum_loop *sum;
    bool f32, packed, flat, tiles;
    int edge;
};

/* Of every build that this CPU can run. */
enum { LOOPS_MAX = 7 * BUILDS_MAX };
static int find_loops(struct variant loops[LOOPS_MAX])
{
    static bool loaded;
    const struct xt_loops *all[BUILDS_MAX];
    int count = 0;
    if (!loaded)
        assert_int_equal(xt_dnnl_load(XT_DNNL_CPU, &(struct xt_err){0}), XT_OK);
    loaded = true;
    for (int b = builds(all) - 1; b >= 0; b--) {
        int first = count;
        for (int edge = 16; all[b]->lanes && edge >= all[b]->lanes; edge -= 8) {
            loops[count++] =
                (struct variant){.loop = all[b]->weight_grad_f32, .f32 = true, .edge = edge};
            loops[count++] = (struct variant){
                .loop = all[b]->weight_grad_packed, .f32 = true, .packed = true, .edge = edge};
        }
        if (all[b]->weight_grad_bf16)
            loops[count++] =
                (struct variant){.loop = all[b]->weight_grad_bf16, .flat = true, .edge = 16};
        for (int f32 = 0; f32 < 2 && all[b]->weight_grad && xt_device_cpu_has_tiles(); f32++)
            loops[count++] = (struct variant){
                .loop = all[b]->weight_grad, .f32 = f32, .tiles = true, .edge = 16};
        for (int i = first; i < count; i++)
            loops[i].sum = all[b]->weight_grad_sum;
    }
    if (!count)
        print_message("skipped: no AVX2 here\n");
    return count;
}

/* A shape and what it stands for. */
static const struct xt_weight_grad shapes[] = {
    /* LPRNet's and ResNet's kinds, small */
    {.n = 3, .h = 12, .w = 23, .in_c = 3, .out_c = 64, .kernel_h = 3, .kernel_w = 3},
    {.n = 3, .h = 5, .w = 9, .in_c = 64, .out_c = 32, .kernel_h = 1, .kernel_w = 1},
    {.n = 2, .h = 7, .w = 9, .in_c = 32, .out_c = 48, .kernel_h = 1, .kernel_w = 1},
    {.n = 3, .h = 10, .w = 45, .in_c = 32, .out_c = 32, .kernel_h = 3, .kernel_w = 1, .pad_h = 1},
    {.n = 3, .h = 10, .w = 45, .in_c = 32, .out_c = 32, .kernel_h = 1, .kernel_w = 3, .pad_w = 1},
    {.n = 2, .h = 8, .w = 21, .in_c = 64, .out_c = 48, .kernel_h = 1, .kernel_w = 4},
    {.n = 2, .h = 16, .w = 18, .in_c = 48, .out_c = 68, .kernel_h = 13, .kernel_w = 1},
    {.n = 2,
     .h = 40,
     .w = 37,
     .in_c = 3,
     .out_c = 16,
     .kernel_h = 7,
     .kernel_w = 7,
     .stride_h = 2,
     .stride_w = 2,
     .pad_h = 3,
     .pad_w = 3},
    {.n = 2,
     .h = 14,
     .w = 14,
     .in_c = 32,
     .out_c = 32,
     .kernel_h = 3,
     .kernel_w = 3,
     .pad_h = 1,
     .pad_w = 1},
    {.n = 5,
     .h = 7,
     .w = 7,
     .in_c = 16,
     .out_c = 32,
     .kernel_h = 3,
     .kernel_w = 3,
     .pad_h = 1,
     .pad_w = 1},
    {.n = 2,
     .h = 15,
     .w = 28,
     .in_c = 32,
     .out_c = 16,
     .kernel_h = 3,
     .kernel_w = 3,
     .stride_h = 2,
     .stride_w = 2,
     .pad_h = 1,
     .pad_w = 1},
    {.n = 3,
     .h = 14,
     .w = 13,
     .in_c = 48,
     .out_c = 16,
     .kernel_h = 1,
     .kernel_w = 1,
     .stride_h = 2,
     .stride_w = 2},
    /* rows of one pixel */
    {.n = 2, .h = 130, .w = 3, .in_c = 8, .out_c = 16, .kernel_h = 2, .kernel_w = 3},
    /* sizes that fit nothing */
    {.n = 1, .h = 1, .w = 1, .in_c = 1, .out_c = 1, .kernel_h = 1, .kernel_w = 1},
    {.n = 3,
     .h = 5,
     .w = 6,
     .in_c = 33,
     .out_c = 70,
     .kernel_h = 2,
     .kernel_w = 3,
     .pad_h = 1,
     .pad_w = 1},
    {.n = 2,
     .h = 9,
     .w = 11,
     .in_c = 36,
     .out_c = 41,
     .kernel_h = 3,
     .kernel_w = 3,
     .stride_h = 2,
     .stride_w = 1,
     .pad_h = 1,
     .pad_w = 2},
    {.n = 2,
     .h = 9,
     .w = 9,
     .in_c = 20,
     .out_c = 7,
     .kernel_h = 5,
     .kernel_w = 5,
     .pad_h = 2,
     .pad_w = 2},
    {.n = 2,
     .h = 11,
     .w = 12,
     .in_c = 9,
     .out_c = 17,
     .kernel_h = 2,
     .kernel_w = 1,
     .stride_h = 3,
     .stride_w = 2},
    {.n = 2, .h = 3, .w = 401, .in_c = 5, .out_c = 9, .kernel_h = 3, .kernel_w = 3},
    {.n = 2,
     .h = 4,
     .w = 4,
     .in_c = 71,
     .out_c = 13,
     .kernel_h = 1,
     .kernel_w = 1,
     .pad_h = 1,
     .pad_w = 1},
    /* enough weights that threads divide the channels of either side */
    {.n = 2,
     .h = 2,
     .w = 5,
     .in_c = 200,
     .out_c = 330,
     .kernel_h = 3,
     .kernel_w = 3,
     .pad_h = 1,
     .pad_w = 1},
    {.n = 2,
     .h = 2,
     .w = 5,
     .in_c = 330,
     .out_c = 200,
     .kernel_h = 3,
     .kernel_w = 3,
     .pad_h = 1,
     .pad_w = 1},
    {.n = 1, .h = 3, .w = 7, .in_c = 330, .out_c = 700, .kernel_h = 1, .kernel_w = 1},
    {.n = 1, .h = 3, .w = 7, .in_c = 700, .out_c = 330, .kernel_h = 1, .kernel_w = 1},
    /* several chunks of packed pixels, and of their channels */
    {.n = 3,
     .h = 15,
     .w = 14,
     .in_c = 1032,
     .out_c = 40,
     .kernel_h = 1,
     .kernel_w = 1,
     .stride_h = 2,
     .stride_w = 1},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* By plain loops, once for each type and shape: every variant gets the same random numbers. */
static const double *wanted_of(const struct work *work, bool f32, int index)
{
    static double *known[2][SHAPES];
    const struct xt_weight_grad *job = &work->job;
    size_t count =
        (size_t)job->out_c * (size_t)job->in_c * (size_t)job->kernel_h * (size_t)job->kernel_w;
    double **wanted = &known[f32][index];
    if (!*wanted) {
        *wanted = malloc(count * sizeof **wanted);
        for (size_t i = 0; i < count; i++)
            (*wanted)[i] = xt_reference_conv_weight_grad(&work->reference, work->in, work->out, i);
    }
    return *wanted;
}

static struct xt_weight_grad varied(struct xt_weight_grad shape, const struct variant *variant)
{
    shape.f32 = variant->f32;
    shape.packed = variant->packed;
    shape.tiles = variant->tiles;
    shape.edge = variant->edge;
    shape.stride_h = shape.stride_h ? shape.stride_h : 1;
    shape.stride_w = shape.stride_w ? shape.stride_w : 1;
    return shape;
}

/* Sets up a shape with the variant's type; false: not one of its shapes. */
static bool begin(struct work *work, const struct variant *variant, int index)
{
    struct xt_weight_grad shape = varied(shapes[index], variant);
    if (variant->flat && !xt_weight_grad_is_flat(&shape))
        return false;
    setup(work, shape);
    work->sum = variant->sum;
    work->wanted = wanted_of(work, variant->f32, index);
    return true;
}

static void it_is_what_plain_loops_make_of_it(void **state)
{
    (void)state;
    struct variant loops[LOOPS_MAX];
    int count = find_loops(loops);
    for (int i = 0; i < count * SHAPES; i++)
        for (int threads = 1; threads <= 4; threads++) {
            struct work work;
            if (!begin(&work, &loops[i / SHAPES], i % SHAPES))
                continue;
            float *grad = run(&work, loops[i / SHAPES].loop, threads);
            check_weights(&work, grad);
            check_bias(&work);
            free(grad);
            clear(&work);
        }
}

static void by_slices_it_is_the_same_sum(void **state)
{
    (void)state;
    struct variant loops[LOOPS_MAX];
    int count = find_loops(loops);
    for (int i = 0; i < count * SHAPES; i++) {
        struct work work;
        if (!begin(&work, &loops[i / SHAPES], i % SHAPES))
            continue;
        float *grad = run_slices(&work, loops[i / SHAPES].loop);
        check_weights(&work, grad);
        check_bias(&work);
        free(grad);
        clear(&work);
    }
}

static void it_is_the_same_every_time_and_without_the_bias(void **state)
{
    (void)state;
    struct variant loops[LOOPS_MAX];
    int count = find_loops(loops);
    for (int i = 0; i < count * SHAPES; i++) {
        xt_weight_grad_loop *loop = loops[i / SHAPES].loop;
        struct work work;
        if (!begin(&work, &loops[i / SHAPES], i % SHAPES))
            continue;
        float *first = run(&work, loop, 3);
        size_t bytes = work.job.weights * sizeof *first;
        float *second = run(&work, loop, 3);
        work.job.bias_grad = NULL;
        float *third = run(&work, loop, 3);
        assert_memory_equal(first, second, bytes);
        assert_memory_equal(first, third, bytes);
        free(first);
        free(second);
        free(third);
        clear(&work);
    }
}

/* Numbers whose last bits lie below the normal range. */
static void fill_tiny(float *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++)
        numbers[i] = ldexpf(1 + (float)(i * 99991 % 8388593) / 8388608, -118);
}

static void tiny_numbers_have_a_tiny_gradient(void **state)
{
    (void)state;
    struct variant loops[LOOPS_MAX];
    int count = find_loops(loops);
    for (int i = 0; i < count * SHAPES; i++) {
        struct work work;
        if (!loops[i / SHAPES].f32 || !begin(&work, &loops[i / SHAPES], i % SHAPES))
            continue;
        fill_tiny(work.in_memory, xt_reference_count(&work.reference.in));
        float *grad = run(&work, loops[i / SHAPES].loop, 2);
        for (size_t k = 0; k < work.job.weights; k++)
            assert_true(fabsf(grad[k]) < 1e-29F);
        free(grad);
        clear(&work);
    }
}

/* In one running sum over them all the rounding would grow with their number: tiles, with three
 * additions a pixel, were three times as far away. */
static void the_sum_over_many_pixels_is_rounded_little(void **state)
{
    (void)state;
    const struct xt_weight_grad shape = {
        .n = 32, .h = 24, .w = 94, .in_c = 32, .out_c = 32, .kernel_h = 1, .kernel_w = 1};
    double *wanted = malloc((size_t)(shape.in_c * shape.out_c) * sizeof *wanted);
    struct variant loops[LOOPS_MAX];
    int count = find_loops(loops);
    for (int i = 0, known = 0; i < count; i++) {
        struct work work;
        if (!loops[i].f32)
            continue;
        setup(&work, varied(shape, &loops[i]));
        work.sum = loops[i].sum;
        for (; known < shape.in_c * shape.out_c; known++)
            wanted[known] =
                xt_reference_conv_weight_grad(&work.reference, work.in, work.out, (size_t)known);
        float *grad = run(&work, loops[i].loop, 1);
        double error = 0;
        double size = 0;
        for (int k = 0; k < known; k++) {
            size_t at = place(&work.job, (size_t)(k / shape.in_c), (size_t)(k % shape.in_c), 0);
            error += pow((double)grad[at] - wanted[k], 2);
            size += pow(wanted[k], 2);
        }
        assert_true(error <= pow(1e-6, 2) * size);
        free(grad);
        clear(&work);
    }
    free(wanted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tiny_numbers_have_a_tiny_gradient),
        cmocka_unit_test(it_is_what_plain_loops_make_of_it),
        cmocka_unit_test(by_slices_it_is_the_same_sum),
        cmocka_unit_test(it_is_the_same_every_time_and_without_the_bias),
        cmocka_unit_test(the_sum_over_many_pixels_is_rounded_little),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
