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
    enum xt_dtype dtype;
    void *out_grad;
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
                                  .summands = xt_summands_of(work->job.f32),
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
        union {
            float f32;
            uint16_t bf16;
        } number;
        work->reference_weights[i] = random_number(&rng, work->dtype, &number);
        from[block * 256 + place] =
            work->dtype == XT_F32 ? number.f32 : xt_bf16_to_float(number.bf16);
    }
    work->copy = aligned_memory((size_t)s->in_c / XT_DATA_GRAD_WIDE * xt_weight_copy_panel(&copy) *
                                sizeof *work->copy);
    copy.from = from;
    copy.to = work->copy;
    loops->copy_weights(&copy, 0, xt_weight_copy_blocks(&copy));
    work->job.weights = work->copy;
    free(from);
}

static void setup(struct work *work, const struct shape *s, const struct xt_loops *loops,
                  enum xt_dtype dtype, bool out_is_row)
{
    int out_h = s->h - s->kernel_h + 1;
    struct xt_rng rng = xt_rng_begin(8, (uint64_t)s->in_c);
    *work = (struct work){.dtype = dtype,
                          .reference = {.in = {s->n, s->h, s->w, s->in_c},
                                        .out = {s->n, out_h, s->w, s->out_c},
                                        .kernel_h = s->kernel_h,
                                        .kernel_w = 1,
                                        .stride_h = 1,
                                        .stride_w = 1},
                          .job = {.f32 = dtype == XT_F32,
                                  .h = s->h,
                                  .w = s->w,
                                  .in_c = s->in_c,
                                  .out_h = out_h,
                                  .out_c = s->out_c,
                                  .kernel_h = s->kernel_h}};
    size_t count = xt_reference_count(&work->reference.out);
    work->out_grad = malloc(count * xt_dtype_size(dtype));
    work->reference_out_grad = random_numbers(&rng, dtype, count, work->out_grad);
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
static void *run(const struct work *work, const struct xt_loops *loops, int each)
{
    const struct xt_reference_conv *conv = &work->reference;
    size_t count = xt_reference_count(&conv->in);
    size_t element = xt_dtype_size(work->dtype);
    char *grad = malloc(count * element);
    assert_non_null(grad);
    memset(grad, 0xFF, count * element);
    float *scratch = aligned_memory(xt_data_grad_scratch(&work->job) * sizeof *scratch);
    for (int n = 0; n < conv->in.n; n += each)
        loops->data_grad(&work->job, conv->in.n - n < each ? conv->in.n - n : each,
                         (char *)work->out_grad + xt_reference_at(&conv->out, n, 0, 0, 0) * element,
                         grad + xt_reference_at(&conv->in, n, 0, 0, 0) * element, scratch);
    free(scratch);
    return grad;
}

static void check(const struct work *work, const void *grad)
{
    const struct xt_reference_conv *conv = &work->reference;
    double terms = (double)conv->kernel_h * conv->out.c;
    for (size_t i = 0; i < xt_reference_count(&conv->in); i++) {
        double got = work->dtype == XT_F32 ? (double)((const float *)grad)[i]
                                           : (double)xt_bf16_to_float(((const uint16_t *)grad)[i]);
        double wanted = xt_reference_conv_input_grad(conv, work->reference_out_grad,
                                                     work->reference_weights, i);
        /* Without one of float32's six products of summands the bound does not hold. */
        double bound =
            work->dtype == XT_F32 ? 6e-7 * sqrt(terms) : fabs(wanted) / 256 + 1e-6 * terms;
        if (!(fabs(got - wanted) <= bound))
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
    for (int i = 0; i < 4 * SHAPES && loops; i++) {
        struct work work;
        setup(&work, &shapes[i / 4], loops, i % 4 < 2 ? XT_F32 : XT_BF16, i % 2 != 0);
        void *grad = run(&work, loops, work.reference.in.n);
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
            setup(&work, &shapes[i], loops, each % 2 ? XT_F32 : XT_BF16, false);
            void *whole = run(&work, loops, work.reference.in.n);
            void *slices = run(&work, loops, each);
            assert_memory_equal(whole, slices,
                                xt_reference_count(&work.reference.in) * xt_dtype_size(work.dtype));
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
