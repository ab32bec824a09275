#include "reference.h"

#include <omp.h>

static const struct xt_window pool3x3 = {
    .kernel_h = 3, .kernel_w = 3, .stride_h = 1, .stride_w = 1};

/* Everything that the norm gives becomes a tap of its own. */
static struct xt_tensor *taps_of(struct net *net, struct xt_norm_outputs outputs)
{
    struct xt_context_spec spec = {0};
    if (outputs.full)
        spec.taps[spec.count++] = net_outlet(net, outputs.full, "full");
    if (outputs.max)
        spec.taps[spec.count++] = net_outlet(net, outputs.max, "max");
    if (outputs.average)
        spec.taps[spec.count++] = net_average_outlet(net, outputs.average, "average");
    for (int i = 0; i < spec.count; i++)
        spec.group[i] = i;
    return net_head(net, spec.count == 1 ? spec.taps[0] : net_context(net, spec));
}

static struct xt_tensor *around(struct net *net, int h, int w, int channels,
                                struct xt_norm_spec spec)
{
    spec.name = "norm";
    return taps_of(net, net_norm(net, net_stem(net, h, w, channels), spec));
}

#define SPEC(...) ((struct xt_norm_spec){__VA_ARGS__})

/* A test, and the same with frozen statistics. */
#define NETWORK(name, ...)                                                                         \
    static struct xt_tensor *describe_##name(struct net *net)                                      \
    {                                                                                              \
        return around(net, __VA_ARGS__);                                                           \
    }                                                                                              \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        check_net(describe_##name);                                                                \
        check_net_f32(describe_##name,                                                             \
                      (struct xt_graph_pass){.training = true, .bn_frozen = true});                \
        check_net_bf16(describe_##name,                                                            \
                       (struct xt_graph_pass){.training = true, .bn_frozen = true});               \
    }

NETWORK(the_full_output, 4, 5, 5, SPEC(.full = true))
NETWORK(the_full_output_with_relu, 4, 5, 16, SPEC(.full = true, .relu = true))
NETWORK(sixty_eight_channels, 3, 4, 68, SPEC(.full = true, .relu = true))
NETWORK(three_channels, 3, 4, 3, SPEC(.full = true, .relu = true))
NETWORK(a_max_pool, 5, 6, 5, SPEC(.relu = true, .max = pool3x3))
NETWORK(a_max_pool_of_stride_1_2, 5, 8, 16,
        SPEC(.relu = true, .max = {.kernel_h = 3, .kernel_w = 3, .stride_h = 1, .stride_w = 2}))
NETWORK(
    the_max_pool_of_resnets_stem, 7, 6, 5,
    SPEC(.relu = true,
         .max = {
             .kernel_h = 3, .kernel_w = 3, .stride_h = 2, .stride_w = 2, .pad_h = 1, .pad_w = 1}))
NETWORK(an_average_pool_5x5, 11, 12, 4,
        SPEC(.relu = true, .average = {.kernel_h = 5, .kernel_w = 5, .stride_h = 5, .stride_w = 5}))
NETWORK(an_average_pool_of_overlapping_columns, 9, 14, 4,
        SPEC(.relu = true,
             .average = {.kernel_h = 4, .kernel_w = 10, .stride_h = 4, .stride_w = 2}))
NETWORK(an_average_of_the_whole_image, 4, 5, 7,
        SPEC(.relu = true, .average = {.kernel_h = 4, .kernel_w = 5, .stride_h = 4, .stride_w = 5}))
NETWORK(a_copy_to_float32, 3, 4, 68,
        SPEC(.relu = true, .average = {.kernel_h = 1, .kernel_w = 1, .stride_h = 1, .stride_w = 1}))
NETWORK(all_outputs_together, 7, 8, 5,
        SPEC(.full = true, .relu = true, .max = pool3x3,
             .average = {.kernel_h = 3, .kernel_w = 4, .stride_h = 3, .stride_w = 2}))

/* y and the pool are each read twice; the gradients add up. */
static struct xt_tensor *two_readers(struct net *net)
{
    struct xt_norm_outputs y =
        net_norm(net, net_stem(net, 5, 6, 5),
                 SPEC(.name = "norm", .full = true, .relu = true, .max = pool3x3));
    struct xt_context_spec spec = {
        .count = 4,
        .taps = {net_outlet(net, y.full, "full.0"), net_outlet(net, y.full, "full.1"),
                 net_outlet(net, y.max, "max.0"), net_outlet(net, y.max, "max.1")},
        .group = {0, 1, 2, 3}};
    return net_head(net, net_context(net, spec));
}

static void two_readers_of_each(void **state)
{
    (void)state;
    check_net(two_readers);
}

/* As in ResNet: a block's input is read by its first convolution and added to its last norm. */
static struct xt_tensor *residual_block(struct net *net, struct xt_tensor *in, const char *conv,
                                        const char *norm)
{
    struct xt_conv_spec spec = {
        .name = conv, .channels = in->c, .kernel_h = 3, .kernel_w = 3, .pad_h = 1, .pad_w = 1};
    struct xt_tensor *z = net_conv(net, in, spec);
    return net_norm(net, z, SPEC(.name = norm, .relu = true, .full = true, .residual = in)).full;
}

static struct xt_tensor *resnet(struct net *net)
{
    struct xt_tensor *x =
        net_norm(net, net_stem(net, 4, 5, 6), SPEC(.name = "first", .relu = true, .full = true))
            .full;
    x = residual_block(net, x, "conv.0", "norm.0");
    x = residual_block(net, x, "conv.1", "norm.1");
    return net_head(net, net_outlet(net, x, "out"));
}

static void a_residual_that_is_read_twice(void **state)
{
    (void)state;
    check_net(resnet);
}

/* A projection on the way of the residual: a norm without ReLU whose only reader adds it. */
static struct xt_tensor *projection(struct net *net)
{
    struct xt_tensor *x =
        net_norm(net, net_stem(net, 5, 6, 4), SPEC(.name = "first", .relu = true, .full = true))
            .full;
    struct xt_conv_spec conv = {
        .name = "down", .channels = 6, .kernel_h = 1, .kernel_w = 1, .stride_h = 2, .stride_w = 2};
    struct xt_tensor *side =
        net_norm(net, net_conv(net, x, conv), SPEC(.name = "side", .full = true)).full;
    conv.name = "main";
    struct xt_norm_outputs y =
        net_norm(net, net_conv(net, x, conv),
                 SPEC(.name = "sum", .relu = true, .residual = side, .full = true,
                      .average = {.kernel_h = 3, .kernel_w = 3, .stride_h = 3, .stride_w = 3}));
    return taps_of(net, y);
}

static void a_residual_through_a_projection(void **state)
{
    (void)state;
    check_net(projection);
}

/* One batch norm of the file in two parts. */
static struct xt_tensor *split(struct net *net)
{
    static const int even[] = {0, 2, 4};
    static const int odd[] = {1, 3};
    struct xt_conv_spec conv = {
        .name = "trunk", .channels = 4, .kernel_h = 1, .kernel_w = 1, .bias = true, .relu = true};
    struct xt_tensor *x = net_conv(net, net_stem(net, 4, 5, 4), conv);
    struct xt_norm_outputs parts[2];
    for (int i = 0; i < 2; i++) {
        conv = (struct xt_conv_spec){.name = "conv",
                                     .channels = i ? 2 : 3,
                                     .kernel_h = 1,
                                     .kernel_w = 1,
                                     .out = {.file_count = 5, .map = i ? odd : even}};
        parts[i] = net_norm(net, net_conv(net, x, conv),
                            SPEC(.name = "norm", .relu = true, .full = true, .out = conv.out));
    }
    struct xt_context_spec spec = {
        .count = 2,
        .taps = {net_outlet(net, parts[0].full, "even"), net_outlet(net, parts[1].full, "odd")},
        .group = {0, 0}};
    return net_head(net, net_context(net, spec));
}

static void a_norm_of_the_file_in_two_parts(void **state)
{
    (void)state;
    check_net(split);
}

static void count_params(const struct net *net, const char *name, int wanted)
{
    int found = 0;
    for (int i = 0; i < net->names.count; i++)
        found += strcmp(net->names.items[i].name, name) == 0;
    assert_int_equal(found, wanted);
}

static void parts_are_one_tensor_of_the_file(void **state)
{
    (void)state;
    struct net net = {0};
    net_open(&net, XT_F32, true);
    net_build(&net, split(&net));
    count_params(&net, "norm.weight", 1);
    count_params(&net, "norm.running_var", 1);
    count_params(&net, "norm.num_batches_tracked", 1);
    net_clear(&net);
}

/* A mean far from 0: the variance must not be lost in the sum of squares. */
static void a_large_mean_costs_no_digits(void **state)
{
    (void)state;
    struct net net = {.pass = {.training = true}};
    net_open(&net, XT_F32, true);
    net_build(&net, describe_the_full_output(&net));
    struct net_param *bias = net_find(&net, "stem", "bias");
    for (size_t k = 0; k < bias->count; k++)
        bias->value[k] = 300;
    net_put(&net);
    net_forward(&net);
    net_loss(&net);
    /* The values themselves have 2^-24 * 300 of error, against a deviation of about one. */
    net_check_logits(&net, 2e-4);
    net_clear(&net);
}

static void a_constant_channel_stays_finite(void **state)
{
    (void)state;
    struct net net = {.pass = {.training = true}};
    net_open(&net, XT_F32, true);
    net_build(&net, describe_all_outputs_together(&net));
    struct net_param *weight = net_find(&net, "stem", "weight");
    for (size_t k = 0; k < weight->count; k++)
        weight->value[k] = 0;
    net_put(&net);
    net_forward(&net);
    net_loss(&net);
    net_check_logits(&net, 1e-3);
    net_backward(&net);
    for (size_t i = 0; i < net.params.value_floats; i++)
        assert_true(isfinite(net.params.grads[i]));
    net_clear(&net);
}

static void frozen_statistics_do_not_move(void **state)
{
    (void)state;
    struct net net = {.pass = {.training = true, .bn_frozen = true}};
    net_open(&net, XT_F32, true);
    net_build(&net, describe_the_full_output(&net));
    float *before = malloc(net.params.stat_floats * sizeof *before);
    assert_non_null(before);
    memcpy(before, net.params.stats, net.params.stat_floats * sizeof *before);
    net_forward(&net);
    net_backward(&net);
    assert_memory_equal(before, net.params.stats, net.params.stat_floats * sizeof *before);
    free(before);
    net_clear(&net);
}

/* The same bits at any number of threads: sums go sample by sample. */
static void running_statistics_do_not_depend_on_threads(void **state)
{
    (void)state;
    float saved[64];
    for (int threads = 1; threads <= 3; threads++) {
        struct net net = {.pass = {.training = true}};
        net_open(&net, XT_F32, true);
        xt_graph_destroy(net.graph);
        xt_device_close(&net.device);
        net_ok(&net, xt_device_open(&net.device, "cpu", threads, &net.err));
        struct xt_graph_options options = {.device = &net.device,
                                           .params = &net.params,
                                           .batch = net.batch,
                                           .training = true,
                                           .dtype = XT_F32};
        net_ok(&net, xt_graph_create(&net.graph, &options, &net.err));
        net_build(&net, describe_the_full_output(&net));
        net_forward(&net);
        assert_true(net.params.stat_floats <= 64);
        if (threads == 1)
            memcpy(saved, net.params.stats, net.params.stat_floats * sizeof *saved);
        /* The first norm: what follows reads convolutions, whose sums oneDNN splits over threads.
         */
        assert_memory_equal(saved, net.params.stats, 5 * sizeof *saved);
        net_clear(&net);
    }
}

static void refused(struct xt_norm_spec spec, const char *sentence)
{
    struct net net = {0};
    net_open(&net, XT_F32, true);
    spec.name = "norm";
    struct xt_norm_outputs out = xt_graph_norm(net.graph, net_stem(&net, 6, 8, 3), &spec);
    assert_true(!out.full && !out.max && !out.average);
    assert_int_equal(net.graph->err.status, XT_ERR_RUN);
    assert_string_equal(net.graph->err.text, sentence);
    net_clear(&net);
}

static void a_max_pool_without_relu_is_refused(void **state)
{
    (void)state;
    refused(SPEC(.max = pool3x3),
            "norm: a max pool without a ReLU before it, or of another size than 3x3");
}

static void an_average_pool_of_overlapping_rows_is_refused(void **state)
{
    (void)state;
    refused(
        SPEC(.relu = true, .average = {.kernel_h = 4, .kernel_w = 4, .stride_h = 2, .stride_w = 4}),
        "norm: an average pool with overlapping or padded rows");
}

static void a_second_reader_of_an_average_is_refused(void **state)
{
    (void)state;
    struct net net = {0};
    net_open(&net, XT_F32, true);
    net_refuse_reader(
        &net,
        net_norm(&net, net_stem(&net, 6, 8, 3),
                 SPEC(.name = "norm", .relu = true,
                      .average = {.kernel_h = 1, .kernel_w = 1, .stride_h = 1, .stride_w = 1}))
            .average);
    net_clear(&net);
}

/* OpenMP's number of threads is that of whichever device was opened last. */
static void a_graph_computes_with_its_own_devices_threads(void **state)
{
    (void)state;
    struct net net = {.pass = {.training = true}};
    struct xt_device other;
    net_open(&net, XT_F32, true);
    net_build(&net, around(&net, 6, 8, 3, SPEC(.relu = true, .max = pool3x3)));
    int own = net.device.threads;
    net_ok(&net, xt_device_open(&other, "cpu", own + 2, &net.err));
    assert_int_not_equal(other.threads, own);
    net_forward(&net);
    assert_int_equal(omp_get_max_threads(), own);
    xt_device_close(&other);
    net_clear(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_full_output),
        cmocka_unit_test(the_full_output_with_relu),
        cmocka_unit_test(sixty_eight_channels),
        cmocka_unit_test(three_channels),
        cmocka_unit_test(a_max_pool),
        cmocka_unit_test(a_max_pool_of_stride_1_2),
        cmocka_unit_test(the_max_pool_of_resnets_stem),
        cmocka_unit_test(an_average_pool_5x5),
        cmocka_unit_test(an_average_pool_of_overlapping_columns),
        cmocka_unit_test(an_average_of_the_whole_image),
        cmocka_unit_test(a_copy_to_float32),
        cmocka_unit_test(all_outputs_together),
        cmocka_unit_test(two_readers_of_each),
        cmocka_unit_test(a_residual_that_is_read_twice),
        cmocka_unit_test(a_residual_through_a_projection),
        cmocka_unit_test(a_norm_of_the_file_in_two_parts),
        cmocka_unit_test(parts_are_one_tensor_of_the_file),
        cmocka_unit_test(a_large_mean_costs_no_digits),
        cmocka_unit_test(a_constant_channel_stays_finite),
        cmocka_unit_test(frozen_statistics_do_not_move),
        cmocka_unit_test(running_statistics_do_not_depend_on_threads),
        cmocka_unit_test(a_graph_computes_with_its_own_devices_threads),
        cmocka_unit_test(a_max_pool_without_relu_is_refused),
        cmocka_unit_test(an_average_pool_of_overlapping_rows_is_refused),
        cmocka_unit_test(a_second_reader_of_an_average_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
