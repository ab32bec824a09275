/* Pools by themselves go by PyTorch's rules: how many windows there are, and what an average's
 * divisor counts. (The self-test holds their arithmetic.) */
#include "support.h"

#include "engine/executor.h"
#include "engine/ops/ops.h"
#include "engine/selftest/selftest.h"

static const struct xt_normalise none = {{0, 0, 0}, {1, 1, 1}};

struct bench {
    struct xt_device device;
    struct xt_params params;
    struct xt_graph *graph;
    struct xt_err err;
};

/* The pool's op, of an image of 5x4. */
static const struct xt_window_pool_op *open_pool(struct bench *b, struct xt_pool_spec spec)
{
    *b = (struct bench){0};
    if (xt_device_open(&b->device, "cpu", 1, &b->err))
        fail_msg("%s", b->err.text);
    struct xt_graph_options options = {
        .device = &b->device, .params = &b->params, .batch = 1, .training = true};
    assert_int_equal(xt_graph_create(&b->graph, &options, &b->err), XT_OK);
    spec.name = "pool";
    xt_graph_window_pool(b->graph, xt_graph_input(b->graph, 5, 4, 3, &none), &spec);
    return (const struct xt_window_pool_op *)b->graph->ops[b->graph->op_count - 1];
}

static void close_pool(struct bench *b)
{
    xt_graph_destroy(b->graph);
    xt_params_clear(&b->params);
    xt_device_close(&b->device);
}

static void check_size(struct xt_pool_spec spec, int h, int w)
{
    struct bench b;
    const struct xt_tensor *out = xt_op_out(&open_pool(&b, spec)->op, 0);
    assert_non_null(out);
    assert_int_equal(out->h, h);
    assert_int_equal(out->w, w);
    close_pool(&b);
}

/* torch.nn.functional.max_pool2d(torch.ones(1, 1, 5, 4), ...).shape */
static void there_are_as_many_windows_as_in_pytorch(void **state)
{
    (void)state;
    struct xt_pool_spec spec = {.kernel_h = 2, .kernel_w = 2};
    check_size(spec, 2, 2);
    spec.ceil_mode = true;
    check_size(spec, 3, 2);
    spec.pad_top = spec.pad_left = spec.pad_bottom = spec.pad_right = 1;
    check_size(spec, 3, 3); /* of 4 rows the last would begin in the padding */
    spec.ceil_mode = false;
    check_size(spec, 3, 3);
    spec.kernel_h = spec.kernel_w = 3;
    spec.stride_h = spec.stride_w = 2;
    check_size(spec, 3, 2);
    spec.ceil_mode = true;
    check_size(spec, 3, 3);
}

/* torch.nn.functional.avg_pool2d(torch.ones(1, 1, 5, 4), 3, 2, 1, True) is
 * [[4/9, 2/3, 1/3], [2/3, 1, 1/2], [4/9, 2/3, 1/3]]: a window counts its padding, but not what is
 * beyond that. */
static void an_average_counts_its_padding_as_in_pytorch(void **state)
{
    (void)state;
    static const double wanted[3][3] = {
        {4.0 / 9, 2.0 / 3, 1.0 / 3}, {2.0 / 3, 1, 1.0 / 2}, {4.0 / 9, 2.0 / 3, 1.0 / 3}};
    struct bench b;
    const struct xt_window_pool_op *pool = open_pool(&b, (struct xt_pool_spec){
                                                             .average = true,
                                                             .kernel_h = 3,
                                                             .kernel_w = 3,
                                                             .stride_h = 2,
                                                             .stride_w = 2,
                                                             .pad_top = 1,
                                                             .pad_left = 1,
                                                             .pad_bottom = 1,
                                                             .pad_right = 1,
                                                             .ceil_mode = true,
                                                             .count_include_pad = true,
                                                         });
    assert_true(pool->counts_padding);
    for (int y = 0; y < 3; y++)
        for (int x = 0; x < 3; x++)
            assert_float_equal(xt_window_pool_share(pool, y, x), wanted[y][x], 1e-9);
    close_pool(&b);
}

/* The loops of inference know 3x3 windows alone. */
static void only_a_3x3_max_behind_a_relu_goes_by_the_loops(void **state)
{
    (void)state;
    for (int size = 2; size <= 4; size++) {
        struct bench b = {0};
        if (xt_device_open(&b.device, "cpu", 1, &b.err))
            fail_msg("%s", b.err.text);
        struct xt_graph_options options = {.device = &b.device, .params = &b.params, .batch = 1};
        const struct xt_pool_spec spec = {.name = "pool", .kernel_h = size, .kernel_w = size};
        assert_int_equal(xt_graph_create(&b.graph, &options, &b.err), XT_OK);
        struct xt_tensor *in = xt_graph_input(b.graph, 5, 4, 3, &none);
        in->above_0 = true;
        assert_non_null(xt_graph_window_pool(b.graph, in, &spec));
        assert_ptr_equal(b.graph->ops[b.graph->op_count - 1]->kind,
                         size == 3 ? &xt_kind_pool : &xt_kind_window_pool);
        close_pool(&b);
    }
}

/* A window of 16x16, whose places do not fit in a byte, of random numbers. */
static struct xt_tensor *describe_large(struct xt_graph *graph, const void *context)
{
    const struct xt_conv_spec stem = {
        .name = "stem", .channels = 16, .kernel_h = 1, .kernel_w = 1, .bias = true};
    const struct xt_conv_spec head = {.name = "head",
                                      .channels = 2,
                                      .kernel_h = 1,
                                      .kernel_w = 1,
                                      .bias = true,
                                      .why_f32 = "the loss reads it"};
    const struct xt_pool_spec large = {.name = "large", .kernel_h = 16, .kernel_w = 16};
    (void)context;
    struct xt_tensor *x = xt_graph_conv(graph, xt_graph_input(graph, 16, 16, 3, &none), &stem);
    x = xt_graph_window_pool(graph, x, &large);
    return xt_graph_conv(graph, xt_graph_cast(graph, x, XT_F32, "in float32"), &head);
}

static void a_large_window_gives_its_gradient_to_its_maximum_in_each_type(void **state)
{
    struct xt_device device;
    struct xt_err err;
    (void)state;
    assert_int_equal(xt_device_open(&device, "cpu", 1, &err), XT_OK);
    enum xt_dtype last = xt_device_cpu_has_bf16() ? XT_BF16 : XT_F32;
    for (enum xt_dtype dtype = XT_F32; dtype <= last; dtype++) {
        const struct xt_selftest_options options = {
            .device = &device, .network = {.describe = describe_large}, .batch = 2, .dtype = dtype};
        struct xt_selftest result = {0};
        if (xt_selftest_run(&result, &options, &err) ||
            xt_selftest_verdict(&result, device.name, &err))
            fail_msg("%s", err.text);
    }
    xt_device_close(&device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(there_are_as_many_windows_as_in_pytorch),
        cmocka_unit_test(an_average_counts_its_padding_as_in_pytorch),
        cmocka_unit_test(only_a_3x3_max_behind_a_relu_goes_by_the_loops),
        cmocka_unit_test(a_large_window_gives_its_gradient_to_its_maximum_in_each_type),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
