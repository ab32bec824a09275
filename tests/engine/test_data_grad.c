/* The input's gradient by matrix tiles, against reference loops. */
#include "loop_builds.h"
#include "random_tensor.h"

#include <math.h>

#include "device/device.h"
#include "engine/ops/reference.h"

/* LPRNet's kind; channels that fill no tile and no pair; fewer output rows than taps and more; one
 * of either; more columns than a chunk has, and one. */
static const struct shape {
    int n, h, w, in_c, out_c, kernel_h;
} shapes[] = {
    {4, 16, 18, 64, 68, 13}, {5, 16, 18, 32, 68, 13}, {1, 13, 7, 32, 41, 13},
    {3, 9, 5, 96, 33, 3},    {2, 4, 79, 32, 17, 2},   {7, 6, 1, 64, 1, 4},
    {1, 1, 1, 32, 2, 1},     {3, 5, 24, 32, 16, 5},   {9, 3, 30, 32, 100, 2},
};
enum { SHAPES = sizeof shapes / sizeof shapes[0] };

struct work {
    struct xt_reference_conv reference;
    struct xt_data_grad job;
    uint16_t *out_grad;
    uint32_t *copy;
    double *reference_out_grad, *reference_weights;
};

/* Weights in blocks of 16 by 16, whose rest is zeros, and their copy. */
static void bring_weights(struct work *work, const struct shape *s, const struct xt_loops *loops,
                          bool out_is_row)
{
    struct xt_rng rng = xt_rng_begin(9, (uint64_t)s->out_c);
    struct xt_weight_copy copy = {.out = s->out_c,
                                  .in = s->in_c,
                                  .taps = s->kernel_h,
                                  .out_is_row = out_is_row,
                                  .wide = XT_DATA_GRAD_WIDE,
                                  .spare = XT_DATA_GRAD_SPARE};
    size_t rows = ((size_t)s->out_c + 15) / 16;
    size_t row = (size_t)s->in_c * (size_t)s->kernel_h;
    float *from = calloc(rows * 16 * row, sizeof *from);
    work->reference_weights = malloc((size_t)s->out_c * row * sizeof *work->reference_weights);
    assert_true(from && work->reference_weights);
    for (size_t i = 0; i < (size_t)s->out_c * row; i++) {
        size_t tap = i % (size_t)s->kernel_h;
        size_t c = i / (size_t)s->kernel_h % (size_t)s->in_c;
        size_t o = i / row;
        size_t block = (o / 16 * (size_t)s->in_c / 16 + c / 16) * (size_t)s->kernel_h + tap;
        size_t place = out_is_row ? o % 16 * 16 + c % 16 : c % 16 * 16 + o % 16;
        uint16_t bf16;
        work->reference_weights[i] = random_number(&rng, XT_BF16, &bf16);
        from[block * 256 + place] = xt_bf16_to_float(bf16);
    }
    work->copy = aligned_memory((size_t)s->in_c / XT_DATA_GRAD_WIDE * xt_weight_copy_panel(&copy) *
                                sizeof *work->copy);
    copy.from = from;
    copy.to = work->copy;
    for (size_t i = 0; i < rows; i++)
        loops->copy_weights(&copy, (int)i);
    work->job.weights = work->copy;
    free(from);
}

static void setup(struct work *work, const struct shape *s, const struct xt_loops *loops,
                  bool out_is_row)
{
    int out_h = s->h - s->kernel_h + 1;
    struct xt_rng rng = xt_rng_begin(8, (uint64_t)s->in_c);
    *work = (struct work){.reference = {.in = {s->n, s->h, s->w, s->in_c},
                                        .out = {s->n, out_h, s->w, s->out_c},
                                        .kernel_h = s->kernel_h,
                                        .kernel_w = 1,
                                        .stride_h = 1,
                                        .stride_w = 1},
                          .job = {.h = s->h,
                                  .w = s->w,
                                  .in_c = s->in_c,
                                  .out_h = out_h,
                                  .out_c = s->out_c,
                                  .kernel_h = s->kernel_h}};
    size_t count = xt_reference_count(&work->reference.out);
    work->out_grad = malloc(count * sizeof *work->out_grad);
    work->reference_out_grad = random_numbers(&rng, XT_BF16, count, work->out_grad);
    bring_weights(work, s, loops, out_is_row);
}

static void clear(struct work *work)
{
    free(work->out_grad);
    free(work->copy);
    free(work->reference_out_grad);
    free(work->reference_weights);
}

/* `each` samples at a time; the caller frees it. */
static uint16_t *run(const struct work *work, const struct xt_loops *loops, int each)
{
    const struct xt_reference_conv *conv = &work->reference;
    size_t count = xt_reference_count(&conv->in);
    uint16_t *grad = malloc(count * sizeof *grad);
    assert_non_null(grad);
    memset(grad, 0xFF, count * sizeof *grad);
    float *scratch = aligned_memory(xt_data_grad_scratch(&work->job) * sizeof *scratch);
    for (int n = 0; n < conv->in.n; n += each)
        loops->data_grad(&work->job, conv->in.n - n < each ? conv->in.n - n : each,
                         work->out_grad + xt_reference_at(&conv->out, n, 0, 0, 0),
                         grad + xt_reference_at(&conv->in, n, 0, 0, 0), scratch);
    free(scratch);
    return grad;
}

static void check(const struct work *work, const uint16_t *grad)
{
    const struct xt_reference_conv *conv = &work->reference;
    double terms = (double)conv->kernel_h * conv->out.c;
    for (size_t i = 0; i < xt_reference_count(&conv->in); i++) {
        double got = (double)xt_bf16_to_float(grad[i]);
        double wanted = xt_reference_conv_input_grad(conv, work->reference_out_grad,
                                                     work->reference_weights, i);
        if (!(fabs(got - wanted) <= fabs(wanted) / 256 + 1e-6 * terms))
            fail_msg("%dx1, %d to %d channels: [%zu] is %g, not %g", conv->kernel_h, conv->in.c,
                     conv->out.c, i, got, wanted);
    }
}

static const struct xt_loops *tiles(void)
{
    static bool loaded;
    if (!loaded)
        assert_int_equal(xt_dnnl_load(XT_DNNL_CPU, &(struct xt_err){0}), XT_OK);
    loaded = true;
    const struct xt_loops *loops = xt_loops_get();
    if (loops->data_grad && xt_device_cpu_has_tiles())
        return loops;
    print_message("skipped: no AMX here\n");
    return NULL;
}

static void it_is_what_plain_loops_make_of_it(void **state)
{
    (void)state;
    const struct xt_loops *loops = tiles();
    for (int i = 0; i < 2 * SHAPES && loops; i++) {
        struct work work;
        setup(&work, &shapes[i / 2], loops, i % 2 != 0);
        uint16_t *grad = run(&work, loops, work.reference.in.n);
        check(&work, grad);
        free(grad);
        clear(&work);
    }
}

static void by_slices_it_is_the_same(void **state)
{
    (void)state;
    const struct xt_loops *loops = tiles();
    for (int i = 0; i < SHAPES && loops; i++)
        for (int each = 1; each <= 3; each++) {
            struct work work;
            setup(&work, &shapes[i], loops, false);
            uint16_t *whole = run(&work, loops, work.reference.in.n);
            uint16_t *slices = run(&work, loops, each);
            assert_memory_equal(whole, slices,
                                xt_reference_count(&work.reference.in) * sizeof *whole);
            free(whole);
            free(slices);
            clear(&work);
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(it_is_what_plain_loops_make_of_it),
                                       cmocka_unit_test(by_slices_it_is_the_same)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
