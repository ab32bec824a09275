#include "loop_builds.h"
#include "norm_sums.h"
#include "random_tensor.h"

#include <math.h>

/* A 1x1 convolution with random tensors. */
struct work {
    struct xt_pointwise job;
    int n;
    float *in_memory, *weights_memory, *out;
    double *in, *weights; /* [in_c][out_c] */
};

static int out_pixels(const struct work *work)
{
    return work->n * work->job.out_h * work->job.out_w;
}

/* Where weight [i][o] lies. */
static size_t place(const struct xt_pointwise *job, int i, int o)
{
    return ((size_t)(o / 16) * (size_t)job->in_c + (size_t)i) * 16 + (size_t)(o % 16);
}

static void setup(struct work *work, struct xt_pointwise shape, int n)
{
    struct xt_rng rng = xt_rng_begin(7, 0);
    size_t weights = (size_t)shape.in_c * (size_t)shape.out_c;
    size_t inputs = (size_t)n * (size_t)shape.h * (size_t)shape.w * (size_t)shape.in_c;
    shape.out_h = (shape.h - 1) / shape.stride_h + 1;
    shape.out_w = (shape.w - 1) / shape.stride_w + 1;
    *work = (struct work){.job = shape, .n = n};
    work->in_memory = malloc(inputs * sizeof(float));
    work->weights_memory = malloc(weights * sizeof(float));
    work->in = random_numbers(&rng, XT_F32, inputs, work->in_memory);
    work->weights = random_numbers(&rng, XT_F32, weights, work->weights_memory);
    work->out = aligned_memory((size_t)out_pixels(work) * (size_t)shape.out_c * sizeof(float));
    work->job.in = work->in_memory;
    work->job.weights = work->weights_memory;
    work->job.out = work->out;
}

static void clear(struct work *work)
{
    free(work->in_memory);
    free(work->weights_memory);
    free(work->in);
    free(work->weights);
    free(work->out);
}

static void check(const struct work *work, const char *isa)
{
    const struct xt_pointwise *job = &work->job;
    for (int p = 0; p < out_pixels(work); p++) {
        int x = p % job->out_w * job->stride_w;
        int y = p / job->out_w % job->out_h * job->stride_h;
        int pixel = (p / job->out_w / job->out_h * job->h + y) * job->w + x;
        for (int o = 0; o < job->out_c; o++) {
            double wanted = 0;
            for (int i = 0; i < job->in_c; i++)
                wanted += work->in[(size_t)pixel * (size_t)job->in_c + (size_t)i] *
                          work->weights[place(job, i, o)];
            double got = (double)work->out[(size_t)p * (size_t)job->out_c + (size_t)o];
            if (!(fabs(got - wanted) <= 1e-6 * job->in_c))
                fail_msg("%s: pixel %d channel %d is %g, not %g", isa, p, o, got, wanted);
        }
    }
}

static const struct xt_pointwise shapes[] = {
    {.h = 7, .w = 7, .in_c = 64, .out_c = 96, .stride_h = 1, .stride_w = 1},
    {.h = 9, .w = 13, .in_c = 32, .out_c = 32, .stride_h = 2, .stride_w = 2},
    {.h = 8, .w = 8, .in_c = 96, .out_c = 64, .stride_h = 2, .stride_w = 1},
    {.h = 1, .w = 1, .in_c = 160, .out_c = 32, .stride_h = 1, .stride_w = 1},
    {.h = 10, .w = 11, .in_c = 32, .out_c = 256, .stride_h = 1, .stride_w = 3},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

/* Divided at any pixel it is the same, bit for bit. */
static void it_is_what_plain_loops_make_of_it(void **state)
{
    const struct xt_loops *all[BUILDS_MAX];
    int count = builds(all);
    (void)state;
    for (int i = 0; i < count * SHAPES; i++) {
        const struct xt_loops *loops = all[i / SHAPES];
        if (!loops->pointwise)
            continue;
        struct work work;
        setup(&work, shapes[i % SHAPES], 3);
        int pixels = out_pixels(&work);
        loops->pointwise(&work.job, 0, pixels);
        check(&work, loops->isa);
        size_t bytes = (size_t)pixels * (size_t)work.job.out_c * sizeof(float);
        float *whole = work.out;
        work.out = work.job.out = aligned_memory(bytes);
        loops->pointwise(&work.job, 0, pixels / 3);
        loops->pointwise(&work.job, pixels / 3, pixels / 3);
        loops->pointwise(&work.job, pixels / 3, pixels);
        assert_memory_equal(whole, work.out, bytes);
        free(whole);
        clear(&work);
    }
}

/* ---- sums for a norm ---- */

/* Terms are rounded, and float32 adds up a few dozen of them. */
static const double sums_apart = 3e-6;

static void check_statistics(struct work *work, int first, int end)
{
    const struct xt_pointwise *job = &work->job;
    for (int o = 0; o < job->out_c; o++) {
        const float *out = work->out + o;
        struct sum sum = {0};
        assert_true(job->norm.pivot[o] == out[first * job->out_c]);
        for (int p = first; p < end; p++) {
            double value = (double)out[p * job->out_c] - (double)job->norm.pivot[o];
            add_to_sum(&sum, value, value * value);
        }
        check_sum(&sum, &job->norm, o, sums_apart);
    }
}

/* About the first pixel, so that a mean of ten thousand times the deviation costs nothing; and the
 * output stays what it is without them. */
static void statistics_come_with_the_output(void **state)
{
    enum { MEAN = 10000 };
    const struct xt_loops *all[BUILDS_MAX];
    int count = builds(all);
    (void)state;
    for (int i = 0; i < count * SHAPES; i++) {
        const struct xt_loops *loops = all[i / SHAPES];
        struct work work;
        double sums[2 * 256];
        float pivot[256];
        if (!loops->pointwise)
            continue;
        setup(&work, shapes[i % SHAPES], 3);
        int pixels = out_pixels(&work);
        size_t bytes = (size_t)pixels * (size_t)work.job.out_c * sizeof(float);
        int inputs = work.n * work.job.h * work.job.w * work.job.in_c;
        for (int k = 0; k < inputs; k++)
            work.in_memory[k] += MEAN;
        loops->pointwise(&work.job, 0, pixels);
        float *alone = work.out;
        work.out = work.job.out = aligned_memory(bytes);
        for (int first = 0; first < pixels; first += pixels / 3 + 1) {
            begin_sums(&work.job.norm, work.job.out_c, sums, pivot);
            loops->pointwise(&work.job, first, pixels);
            check_statistics(&work, first, pixels);
        }
        assert_memory_equal(alone, work.out, bytes);
        free(alone);
        clear(&work);
    }
}

/* The gradient before ReLU from the one that the convolution alone computes, `plain`. */
static void check_gradient(const struct work *work, const float *plain, const float *before)
{
    const struct xt_pointwise *job = &work->job;
    const float *y = job->norm.y;
    const float *z = job->norm.z;
    for (int o = 0; o < job->out_c; o++) {
        struct sum sum = {0};
        for (int p = 0; p < out_pixels(work); p++) {
            int at = p * job->out_c + o;
            float grad = job->adds ? plain[at] + before[at] : plain[at];
            grad = y[at] > 0 ? grad : 0;
            assert_true(work->out[at] == grad);
            add_to_sum(&sum, (double)grad,
                       (double)grad * ((double)z[at] - (double)job->norm.pivot[o]));
        }
        check_sum(&sum, &job->norm, o, sums_apart);
    }
}

static void run_gradient(const struct xt_loops *loops, struct work *work, bool adds)
{
    enum { MEAN = 10000 };
    size_t count = (size_t)out_pixels(work) * (size_t)work->job.out_c;
    struct xt_rng rng = xt_rng_begin(9, 0);
    float *tensors[4];
    double sums[2 * 256];
    float pivot[256];
    for (int i = 0; i < 4; i++) {
        tensors[i] = aligned_memory(count * sizeof(float));
        for (size_t k = 0; k < count; k++)
            tensors[i][k] = 2 * xt_rng_uniform(&rng) - 1;
    }
    float *plain = tensors[0];
    float *before = tensors[1];
    for (size_t k = 0; k < count; k++)
        tensors[2][k] += MEAN;
    for (int o = 0; o < 256; o++)
        pivot[o] = MEAN;
    tensors[3][0] = NAN;
    work->job.out = plain;
    loops->pointwise(&work->job, 0, out_pixels(work));
    memcpy(work->out, before, count * sizeof(float));
    work->job.out = work->out;
    begin_sums(&work->job.norm, work->job.out_c, sums, pivot);
    work->job.norm.z = tensors[2];
    work->job.norm.y = tensors[3];
    work->job.adds = adds;
    loops->pointwise(&work->job, 0, out_pixels(work) / 2);
    loops->pointwise(&work->job, out_pixels(work) / 2, out_pixels(work));
    check_gradient(work, plain, before);
    for (int i = 0; i < 4; i++)
        free(tensors[i]);
}

static void the_gradient_before_relu_comes_with_its_sums(void **state)
{
    const struct xt_loops *all[BUILDS_MAX];
    int count = builds(all);
    (void)state;
    for (int i = 0; i < count * SHAPES * 2; i++) {
        struct work work;
        if (!all[i / SHAPES / 2]->pointwise)
            continue;
        setup(&work, shapes[i / 2 % SHAPES], 3);
        run_gradient(all[i / SHAPES / 2], &work, i % 2);
        clear(&work);
    }
}

static void weights_are_transposed(void **state)
{
    enum { ROWS = 48, COLUMNS = 32 };
    const struct xt_loops *all[BUILDS_MAX];
    int count = builds(all);
    float from[ROWS * COLUMNS];
    float to[ROWS * COLUMNS];
    (void)state;
    for (int i = 0; i < ROWS * COLUMNS; i++)
        from[i] = (float)i;
    for (int b = 0; b < count; b++) {
        if (!all[b]->pointwise_turn)
            continue;
        memset(to, 0xFF, sizeof to);
        for (int block = 0; block < ROWS / 16; block++)
            all[b]->pointwise_turn(from, ROWS, COLUMNS, block, to);
        for (int row = 0; row < ROWS; row++)
            for (int column = 0; column < COLUMNS; column++)
                assert_true(to[(row / 16 * COLUMNS + column) * 16 + row % 16] ==
                            from[(column / 16 * ROWS + row) * 16 + column % 16]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(it_is_what_plain_loops_make_of_it),
        cmocka_unit_test(statistics_come_with_the_output),
        cmocka_unit_test(the_gradient_before_relu_comes_with_its_sums),
        cmocka_unit_test(weights_are_transposed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
