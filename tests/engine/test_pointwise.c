#include "loop_builds.h"
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
        cmocka_unit_test(weights_are_transposed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
