#include "reference.h"

/* The stem, the convolution that the test is about, and what makes logits of it. */
static struct xt_tensor *around(struct net *net, int h, int w, int in_channels,
                                struct xt_conv_spec spec)
{
    spec.name = "conv";
    struct xt_tensor *x = net_conv(net, net_stem(net, h, w, in_channels), spec);
    return net_head(net, net_outlet(net, x, "outlet"));
}

#define SPEC(...) ((struct xt_conv_spec){__VA_ARGS__})

#define NETWORK(name, ...)                                                                         \
    static struct xt_tensor *describe_##name(struct net *net)                                      \
    {                                                                                              \
        return around(net, __VA_ARGS__);                                                           \
    }                                                                                              \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        check_net(describe_##name);                                                                \
    }

NETWORK(a_3x3, 5, 6, 5, SPEC(.channels = 7, .kernel_h = 3, .kernel_w = 3, .bias = true))
NETWORK(a_3x3_with_relu, 5, 6, 16,
        SPEC(.channels = 16, .kernel_h = 3, .kernel_w = 3, .bias = true, .relu = true))
NETWORK(a_1x1_to_68_channels, 3, 4, 3,
        SPEC(.channels = 68, .kernel_h = 1, .kernel_w = 1, .bias = true))
NETWORK(a_1x1_from_68_channels_with_relu, 3, 4, 68,
        SPEC(.channels = 3, .kernel_h = 1, .kernel_w = 1, .bias = true, .relu = true))
NETWORK(a_padded_3x1_with_relu, 4, 5, 8,
        SPEC(.channels = 8, .kernel_h = 3, .kernel_w = 1, .pad_h = 1, .bias = true, .relu = true))
NETWORK(a_padded_1x3_with_relu, 4, 5, 8,
        SPEC(.channels = 8, .kernel_h = 1, .kernel_w = 3, .pad_w = 1, .bias = true, .relu = true))
NETWORK(a_1x4, 3, 7, 6, SPEC(.channels = 9, .kernel_h = 1, .kernel_w = 4, .bias = true))
NETWORK(a_13x1_to_68_channels, 15, 3, 4,
        SPEC(.channels = 68, .kernel_h = 13, .kernel_w = 1, .bias = true))
/* As wide as the tiles of the loop that makes its input's gradient in bf16. */
NETWORK(a_9x1_from_32_channels_with_relu, 10, 2, 32,
        SPEC(.channels = 5, .kernel_h = 9, .kernel_w = 1, .bias = true, .relu = true))
NETWORK(a_3x3_of_stride_2, 7, 8, 5,
        SPEC(.channels = 6, .kernel_h = 3, .kernel_w = 3, .stride_h = 2, .stride_w = 2, .pad_h = 1,
             .pad_w = 1))
NETWORK(a_1x1_of_stride_2, 5, 6, 5,
        SPEC(.channels = 6, .kernel_h = 1, .kernel_w = 1, .stride_h = 2, .stride_w = 2))
NETWORK(a_7x7_of_stride_2, 9, 10, 3,
        SPEC(.channels = 5, .kernel_h = 7, .kernel_w = 7, .stride_h = 2, .stride_w = 2, .pad_h = 3,
             .pad_w = 3))

/* As the loops for 1x1 convolutions want it. */
NETWORK(a_1x1_from_32_to_64_channels, 3, 5, 32, SPEC(.channels = 64, .kernel_h = 1, .kernel_w = 1))
NETWORK(a_1x1_of_stride_2_from_32_to_32_channels, 5, 6, 32,
        SPEC(.channels = 32, .kernel_h = 1, .kernel_w = 1, .stride_h = 2, .stride_w = 2))

/* Both gradients of the ReLU's output are added up. */
static struct xt_tensor *two_readers(struct net *net)
{
    struct xt_tensor *x = net_conv(net, net_stem(net, 4, 5, 5),
                                   SPEC(.name = "conv", .channels = 6, .kernel_h = 3, .kernel_w = 3,
                                        .pad_h = 1, .pad_w = 1, .bias = true, .relu = true));
    struct xt_tensor *taps[] = {net_outlet(net, x, "first"), net_outlet(net, x, "second")};
    struct xt_context_spec spec = {.count = 2, .taps = {taps[0], taps[1]}, .group = {0, 1}};
    return net_head(net, net_context(net, spec));
}

static void a_relu_with_two_readers(void **state)
{
    (void)state;
    check_net(two_readers);
}

/* One tensor of the file in two convolutions, one for the even channels and one for the odd ones;
 * the head's input channels stand in the file's order. */
static struct xt_tensor *split(struct net *net)
{
    static const int even[] = {0, 2, 4, 6};
    static const int odd[] = {1, 3, 5};
    static const int columns[] = {5, 0, 3, 1, 4, 2};
    struct xt_tensor *x =
        net_conv(net, net_stem(net, 4, 5, 5),
                 SPEC(.name = "trunk", .channels = 5, .kernel_h = 1, .kernel_w = 1, .relu = true));
    struct xt_conv_spec part = {.name = "split", .kernel_h = 1, .kernel_w = 3, .bias = true};
    part.channels = 4;
    part.out = (struct xt_channel_map){.file_count = 7, .map = even};
    struct xt_tensor *first = net_conv(net, x, part);
    part.channels = 3;
    part.out.map = odd;
    struct xt_tensor *second = net_conv(net, x, part);
    struct xt_context_spec spec = {
        .count = 2,
        .taps = {net_outlet(net, first, "first"), net_outlet(net, second, "second")},
        .group = {0, 0}};
    return net_conv(net, net_context(net, spec),
                    SPEC(.name = "head", .channels = 4, .kernel_h = 1, .kernel_w = 1,
                         .why_f32 = "the test reads it", .in = {.file_count = 6, .map = columns}));
}

static void a_tensor_of_the_file_in_two_parts(void **state)
{
    (void)state;
    check_net(split);
}

/* The parameters of a training graph serve an inference graph of another batch size. */
static void an_inference_graph_shares_the_parameters(void **state)
{
    (void)state;
    struct net net = {0};
    net_open(&net, XT_F32, true);
    net_build(&net, two_readers(&net));
    net_forward(&net);
    struct net one = {.batch = 1};
    struct xt_graph_options options = {
        .device = &net.device, .params = &net.params, .batch = 1, .dtype = XT_F32};
    net_ok(&one, xt_graph_create(&one.graph, &options, &one.err));
    struct xt_tensor *logits = two_readers(&one);
    net_ok(&one, xt_graph_build(one.graph, logits, &one.err));
    size_t sample = xt_tensor_count(logits);
    for (int n = 0; n < net.batch; n++) {
        one.graph->pass = (struct xt_graph_pass){
            .floats = net.x + net.x_count / (size_t)net.batch * (size_t)n, .count = 1};
        net_ok(&one, xt_graph_forward(one.graph, &one.err));
        for (size_t i = 0; i < sample; i++)
            assert_float_equal(xt_graph_logits(one.graph)[i],
                               xt_graph_logits(net.graph)[(size_t)n * sample + i], 1e-5f);
    }
    xt_graph_destroy(one.graph);
    one.graph = NULL;
    free(one.x);
    for (int i = 0; i < one.tensor_count; i++)
        free(one.tensors[i].value);
    net_clear(&net);
}

/* Working copies of the weights follow params.version. */
static void changed_weights_count_at_the_next_pass(void **state)
{
    (void)state;
    struct net net = {0};
    net_open(&net, XT_F32, true);
    net_build(&net, two_readers(&net));
    net_forward(&net);
    for (int i = 0; i < net.weight_count; i++)
        for (size_t k = 0; k < net.weights[i].count; k++)
            net.weights[i].value[k] = (double)(float)(net.weights[i].value[k] * 1.25);
    net_put(&net);
    net_forward(&net);
    net_loss(&net);
    net_check_logits(&net, 2e-5);
    net_clear(&net);
}

/* (v - mean) * scale of each byte. */
static void bytes_are_normalised(void **state)
{
    (void)state;
    struct net net = {0};
    net_open(&net, XT_F32, false);
    net_build(&net, describe_a_3x3(&net));
    uint8_t *pixels = malloc(net.x_count);
    assert_non_null(pixels);
    for (size_t i = 0; i < net.x_count; i++) {
        pixels[i] = (uint8_t)(i * 37);
        net.x[i] = ((float)pixels[i] - 127.5f) / 128;
    }
    net.pass.pixels = pixels;
    net_forward(&net);
    net_loss(&net);
    net_check_logits(&net, 2e-5);
    free(pixels);
    net_clear(&net);
}

static void two_readers_without_relu_are_refused(void **state)
{
    (void)state;
    struct net net = {0};
    net_open(&net, XT_F32, true);
    struct xt_tensor *x = net_stem(&net, 4, 5, 5);
    struct xt_conv_spec second = {.name = "second", .channels = 1, .kernel_h = 1, .kernel_w = 1};
    net_outlet(&net, x, "first");
    assert_null(xt_graph_conv(net.graph, x, &second));
    assert_string_equal(net.graph->err.text,
                        "tensor stem has more than 1 reader: the op that writes it would lose the "
                        "gradient of another one");
    net_clear(&net);
}

static void a_third_reader_is_refused(void **state)
{
    (void)state;
    struct net net = {0};
    net_open(&net, XT_F32, true);
    struct xt_tensor *x = net_stem(&net, 4, 5, 5);
    struct xt_conv_spec relu = {
        .name = "relu", .channels = 4, .kernel_h = 1, .kernel_w = 1, .relu = true};
    x = xt_graph_conv(net.graph, x, &relu);
    net_outlet(&net, x, "first");
    net_outlet(&net, x, "second");
    struct xt_conv_spec third = {.name = "third", .channels = 1, .kernel_h = 1, .kernel_w = 1};
    assert_null(xt_graph_conv(net.graph, x, &third));
    assert_string_equal(net.graph->err.text,
                        "tensor relu has more than 2 readers: the op that writes it "
                        "would lose the gradient of another one");
    net_clear(&net);
}

static void an_input_smaller_than_the_kernel_is_refused(void **state)
{
    (void)state;
    struct net net = {0};
    net_open(&net, XT_F32, true);
    struct xt_tensor *x = net_stem(&net, 4, 5, 5);
    struct xt_conv_spec tall = {.name = "tall", .channels = 1, .kernel_h = 13, .kernel_w = 1};
    assert_null(xt_graph_conv(net.graph, x, &tall));
    assert_int_equal(net.graph->err.status, XT_ERR_USAGE);
    assert_string_equal(net.graph->err.text, "tall: an input of 4x5 is too small for this network");
    net_clear(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_3x3),
        cmocka_unit_test(a_3x3_with_relu),
        cmocka_unit_test(a_1x1_to_68_channels),
        cmocka_unit_test(a_1x1_from_68_channels_with_relu),
        cmocka_unit_test(a_padded_3x1_with_relu),
        cmocka_unit_test(a_padded_1x3_with_relu),
        cmocka_unit_test(a_1x4),
        cmocka_unit_test(a_13x1_to_68_channels),
        cmocka_unit_test(a_9x1_from_32_channels_with_relu),
        cmocka_unit_test(a_3x3_of_stride_2),
        cmocka_unit_test(a_1x1_of_stride_2),
        cmocka_unit_test(a_7x7_of_stride_2),
        cmocka_unit_test(a_1x1_from_32_to_64_channels),
        cmocka_unit_test(a_1x1_of_stride_2_from_32_to_32_channels),
        cmocka_unit_test(a_relu_with_two_readers),
        cmocka_unit_test(a_tensor_of_the_file_in_two_parts),
        cmocka_unit_test(an_inference_graph_shares_the_parameters),
        cmocka_unit_test(changed_weights_count_at_the_next_pass),
        cmocka_unit_test(bytes_are_normalised),
        cmocka_unit_test(two_readers_without_relu_are_refused),
        cmocka_unit_test(a_third_reader_is_refused),
        cmocka_unit_test(an_input_smaller_than_the_kernel_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
