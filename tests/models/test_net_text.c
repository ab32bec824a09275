/* A network as text and back, and invalid text that is refused. */
#include <stdio.h>

#include "support.h"
#include "models/net_text.h"
#include "models/onnx/read/read.h"

static const struct xt_net_text_options as_it_is = {0};

/* A convolution, a norm without scale and shift, an activation, a pool over the whole image and a
 * linear layer of 3. */
static struct xt_net *make(struct xt_err *err)
{
    const struct xt_net_conv conv = {.name = "conv",
                                     .channels = 4,
                                     .kernel = {3, 3},
                                     .stride = {2, 2},
                                     .pad = {1, 1, 1, 1},
                                     .bias = true};
    const struct xt_net_linear linear = {.name = "fc", .weight = "head_weight", .channels = 3};
    const struct xt_net_norm norm = {.name = "norm", .unscaled = true};
    const struct xt_activation clip = {XT_ACT_CLIP, 0, 0.1f};
    struct xt_net *net = xt_net_create(err);
    struct xt_value *x = xt_net_conv(net, xt_net_input(net, 8, 8, 3), &conv);
    x = xt_net_batch_norm(net, x, &norm);
    x = xt_net_activation(net, x, clip, "clip");
    x = xt_net_global_avg_pool(net, xt_net_mul(net, x, x, NULL), NULL);
    assert_int_equal(xt_net_finish(net, xt_net_linear(net, x, &linear), err), XT_OK);
    return net;
}

static struct xt_net *parse(const char *text, const struct xt_net_text_options *options,
                            struct xt_err *err)
{
    struct xt_net *net = xt_net_create(err);
    if (!xt_net_finish(net, xt_net_parse(net, text, options), err))
        return net;
    xt_net_destroy(net);
    return NULL;
}

static void assert_round_trip(const struct xt_net *net)
{
    struct xt_err err = {0};
    struct xt_str text = {0};
    struct xt_str second = {0};
    assert_int_equal(xt_net_print(net, &text, &err), XT_OK);
    struct xt_net *copy = parse(xt_str_get(&text), &as_it_is, &err);
    if (!copy)
        fail_msg("%s", err.text);
    assert_int_equal(xt_net_print(copy, &second, &err), XT_OK);
    assert_string_equal(xt_str_get(&text), xt_str_get(&second));
    xt_net_destroy(copy);
    xt_str_clear(&text);
    xt_str_clear(&second);
}

/* Weights less their mean, of half of the channels. */
static void test_computed_weights_are_the_same_after_text(void **state)
{
    const struct xt_net_parameter raw = {
        .name = "conv.weight", .h = 1, .w = 4, .c = 6, .ndims = 4, .dims = {4, 1, 3, 2}};
    const struct xt_net_conv conv = {.name = "conv",
                                     .bias_name = "conv.shift",
                                     .channels = 4,
                                     .kernel = {3, 2},
                                     .stride = {2, 1},
                                     .dilation = {1, 2},
                                     .pad = {1, 0, 1, 2},
                                     .groups = 2,
                                     .bias = true};
    const struct xt_activation minus = {XT_ACT_LINEAR, -1, 0};
    struct xt_err err = {0};
    struct xt_net *net = xt_net_create(&err);
    struct xt_value *x = xt_net_input(net, 8, 8, 2);
    struct xt_value *weight = xt_net_parameter(net, &raw);
    struct xt_value *mean = xt_net_channel_mean(net, weight, NULL);
    weight = xt_net_add(net, weight, xt_net_activation(net, mean, minus, NULL), NULL);
    (void)state;
    assert_int_equal(xt_net_finish(net, xt_net_conv_by(net, x, weight, &conv), &err), XT_OK);
    assert_int_equal(net->params[0].role, XT_PARAM_RAW);
    assert_true(xt_net_find_param(net, "conv.shift") >= 0);
    assert_round_trip(net);
    xt_net_destroy(net);
}

static void test_recurrent_layers_are_the_same_after_text(void **state)
{
    static const struct xt_net_recurrence layers[] = {
        {"lstm", XT_LSTM, .backwards = true, .with_cell = true},
        {"gru", XT_GRU},
        {"tanh", XT_RNN_TANH, .backwards = true},
        {"relu", XT_RNN_RELU},
    };
    struct xt_err err = {0};
    struct xt_net *net = xt_net_create(&err);
    struct xt_value *x = xt_net_input(net, 8, 8, 3);
    (void)state;
    for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
        char names[3][16];
        static const char *const parts[] = {"gates", "weight", "bias"};
        int gates = 4 * xt_recurrence_gates(layers[i].kind);
        for (int k = 0; k < 3; k++)
            snprintf(names[k], sizeof names[k], "%s.%s", layers[i].name, parts[k]);
        const struct xt_net_parameter weight = {
            .name = names[1], .h = 1, .w = gates, .c = 4, .ndims = 2, .dims = {gates, 4}};
        const struct xt_net_parameter bias = {
            .name = names[2], .h = 1, .w = 1, .c = gates, .ndims = 1, .dims = {gates}};
        x = xt_net_linear(net, x, &(struct xt_net_linear){.name = names[0], .channels = gates});
        x = xt_net_recurrence(net, x, xt_net_parameter(net, &weight),
                              i % 2 ? xt_net_parameter(net, &bias) : NULL, &layers[i]);
    }
    assert_int_equal(xt_net_finish(net, x, &err), XT_OK);
    assert_round_trip(net);
    xt_net_destroy(net);
}

/* A line that is the part of another one's value has no node of its own. */
static void test_lines_count_whether_or_not_they_become_a_node(void **state)
{
    static const char text[] =
        "xtrain net 1\ninput\t\tx\th=8\tw=8\tc=4\n"
        "slice\t0\tleft\taxis=2\tstart=0\tstep=1\tcount=3\n"
        "slice\t0\tright\taxis=2\tstart=3\tstep=1\tcount=1\n"
        "concat\t1,2\tboth\taxis=2\nslice\t3\tfirst\taxis=2\tstart=0\tstep=1\tcount=2\n"
        "activation\t4\ty\tof=relu\talpha=0\tbeta=0\noutput\t5\n";
    struct xt_err err = {0};
    struct xt_net *net = parse(text, &as_it_is, &err);
    (void)state;
    assert_non_null(net);
    assert_int_equal(net->output->of->kind, XT_NODE_ACTIVATION);
    assert_int_equal(net->output->c, 2);
    assert_int_equal(net->node_count, 3);
    assert_round_trip(net);
    xt_net_destroy(net);
}

static void test_a_network_is_the_same_after_text(void **state)
{
    struct xt_err err = {0};
    struct xt_net *net = make(&err);
    (void)state;
    assert_round_trip(net);
    xt_net_destroy(net);
}

static void test_maps_of_an_axis_are_the_same_after_text(void **state)
{
    static const int picked[] = {7, 0, 2, 2};
    const struct xt_net_axis_map maps[] = {
        {"cubic",
         XT_AXIS_H,
         {.kind = XT_MAP_CUBIC, .scale = 1.7F, .cubic = -0.75F, .excludes_outside = true}},
        {"shorter", XT_AXIS_W, {.kind = XT_MAP_LINEAR, .scale = 0.75F, .antialias = true}},
        {"nearest",
         XT_AXIS_W,
         {.kind = XT_MAP_NEAREST,
          .count = 11,
          .place = XT_PLACE_ASYMMETRIC,
          .rounding = XT_ROUND_FLOOR}},
        {"pad", XT_AXIS_C, {.kind = XT_MAP_CONSTANT, .before = 2, .behind = 3, .fill = 0.1F}},
        {"pick", XT_AXIS_C, {.kind = XT_MAP_PICK, .picked = picked, .picked_count = 4}},
    };
    struct xt_err err = {0};
    struct xt_net *net = xt_net_create(&err);
    struct xt_value *value = xt_net_input(net, 8, 8, 3);
    (void)state;
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++)
        value = xt_net_axis_map(net, value, &maps[i]);
    assert_int_equal(xt_net_finish(net, value, &err), XT_OK);
    assert_round_trip(net);
    xt_net_destroy(net);
}

static void test_a_transposed_convolution_is_the_same_after_text(void **state)
{
    const struct xt_net_conv spec = {.name = "up",
                                     .channels = 6,
                                     .kernel = {3, 2},
                                     .stride = {2, 3},
                                     .dilation = {1, 2},
                                     .pad = {1, 0, 0, 1},
                                     .output_pad = {1, 2},
                                     .groups = 3,
                                     .bias = true};
    struct xt_err err = {0};
    struct xt_net *net = xt_net_create(&err);
    struct xt_value *value = xt_net_conv_transpose(net, xt_net_input(net, 8, 8, 3), &spec);
    (void)state;
    assert_int_equal(xt_net_finish(net, value, &err), XT_OK);
    assert_int_equal(value->h, 17);
    assert_int_equal(value->w, 25);
    assert_int_equal(net->params[0].dims[0], 3);
    assert_int_equal(net->params[0].dims[1], 2);
    assert_round_trip(net);
    xt_net_destroy(net);
}

/* What is said as a scale follows the image's size. */
static void test_a_scaled_image_can_be_of_another_size(void **state)
{
    const struct xt_net_text_options options = {.height = 12, .width = 20};
    const struct xt_net_axis_map twice = {"twice", XT_AXIS_W, {.kind = XT_MAP_LINEAR, .scale = 2}};
    struct xt_err err = {0};
    struct xt_str text = {0};
    struct xt_net *net = xt_net_create(&err);
    (void)state;
    struct xt_value *value = xt_net_axis_map(net, xt_net_input(net, 8, 8, 3), &twice);
    assert_int_equal(xt_net_finish(net, value, &err), XT_OK);
    assert_int_equal(xt_net_print(net, &text, &err), XT_OK);
    struct xt_net *other = parse(xt_str_get(&text), &options, &err);
    assert_non_null(other);
    assert_int_equal(other->output->w, 40);
    xt_net_destroy(other);
    xt_net_destroy(net);
    xt_str_clear(&text);
}

static void test_networks_of_pytorch_are_the_same_after_text(void **state)
{
    static const char *const names[] = {"vit",    "convnext",      "densenet121",
                                        "plates", "squeezenet1_1", "regnet_y_400mf"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[64];
        struct xt_onnx_net read;
        struct xt_err err = {0};
        snprintf(path, sizeof path, "zoo/%s.onnx", names[i]);
        if (xt_onnx_read(&read, support_shared(path), 0, &err))
            fail_msg("%s", err.text);
        assert_round_trip(read.net);
        xt_onnx_net_clear(&read);
    }
}

static void test_image_size_and_classes_can_be_others(void **state)
{
    static const struct xt_class_layer layers[] = {
        {"conv"}, {"fc", .is_head = true}, {.name = NULL}};
    const struct xt_net_text_options options = {
        .height = 12, .width = 20, .layers = layers, .classes = 7};
    struct xt_err err = {0};
    struct xt_str text = {0};
    struct xt_net *net = make(&err);
    (void)state;
    assert_int_equal(xt_net_print(net, &text, &err), XT_OK);
    struct xt_net *other = parse(xt_str_get(&text), &options, &err);
    assert_non_null(other);
    assert_int_equal(other->output->h * other->output->w * other->output->c, 7);
    assert_int_equal(other->nodes[1]->output->w, 10);
    assert_true(xt_net_find_param(other, "head_weight") >= 0);
    assert_true(xt_net_find_param(other, "norm.running_mean") >= 0);
    assert_true(xt_net_find_param(other, "norm.weight") < 0);
    xt_net_destroy(other);
    xt_net_destroy(net);
    xt_str_clear(&text);
}

#define IMAGE "xtrain net 1\ninput\t\tx\th=8\tw=8\tc=3\n"
#define MAP(axis, numbers, words)                                                                  \
    IMAGE "axis map\t0\ty\taxis=" axis "\tbefore=0\tbehind=0\tfill=0\t" numbers                    \
          "\tcubic=0\toutside=0\t" words "\noutput\t1\n"
#define WORDS "place=half_pixel\trounding=floor"

static void test_maps_that_cannot_be_are_refused(void **state)
{
    static const char *const texts[] = {
        MAP("3", "count=4\tscale=0", "of=linear\t" WORDS),
        MAP("1", "count=0\tscale=0", "of=linear\t" WORDS),
        MAP("1", "count=0\tscale=1e-30", "of=linear\t" WORDS),
        MAP("1", "count=4\tscale=0", "of=linea\t" WORDS),
        MAP("1", "count=4\tscale=0", "of=linear\tplace=here\trounding=floor"),
        MAP("1", "count=0\tscale=0", "of=pick\t" WORDS),
        MAP("1", "count=0\tscale=0", "of=pick\t" WORDS "\tpicked="),
        MAP("1", "count=0\tscale=0", "of=pick\t" WORDS "\tpicked=1,x"),
        MAP("1", "count=0\tscale=0", "of=pick\t" WORDS "\tpicked=8"),
        MAP("1", "count=0\tscale=0", "of=pick\t" WORDS "\tpicked=-1"),
    };
    struct xt_err err = {0};
    (void)state;
    struct xt_net *net =
        parse(MAP("1", "count=0\tscale=0", "of=pick\t" WORDS "\tpicked=7"), &as_it_is, &err);
    assert_non_null(net);
    xt_net_destroy(net);
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        assert_null(parse(texts[i], &as_it_is, &err));
        assert_int_not_equal(err.status, XT_OK);
    }
}

static void test_what_is_no_description_is_refused(void **state)
{
    static const char *const texts[] = {
        "",
        "xtrain net 2\n",
        "xtrain net 1\n",
        "xtrain net 1\noutput\t0\n",
        "xtrain net 1\ninput\t\tx\th=8\tw=8\tc=3\n",
        "xtrain net 1\ninput\t\tx\th=8\tw=8\tc=3\nadd\t0,1\ty\noutput\t1\n",
        "xtrain net 1\ninput\t\tx\th=8\tw=8\tc=99999999999\noutput\t0\n",
        "xtrain net 1\ninput\t\tx\th=8\tw=8\tc=3\nactivation\t0\ty\tof=relu\talpha=nan\tbeta=0\n",
        "xtrain net 1\ninput\t\tx\th=8\tw=8\tc=3\nconcat\t0\ty\taxis=7\noutput\t1\n",
        "xtrain net 1\ninput\t\tx\th=8\tw=8\tc=3\nslice\t0\ty\taxis=2\tstart=0\tstep=1\tcount=9\n",
        "xtrain net 1\nconvolution\t0\ty\tchannels=1\noutput\t0\n",
    };
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct xt_err err = {0};
        assert_null(parse(texts[i], &as_it_is, &err));
        assert_int_not_equal(err.status, XT_OK);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_network_is_the_same_after_text),
        cmocka_unit_test(test_maps_of_an_axis_are_the_same_after_text),
        cmocka_unit_test(test_a_transposed_convolution_is_the_same_after_text),
        cmocka_unit_test(test_a_scaled_image_can_be_of_another_size),
        cmocka_unit_test(test_maps_that_cannot_be_are_refused),
        cmocka_unit_test(test_computed_weights_are_the_same_after_text),
        cmocka_unit_test(test_recurrent_layers_are_the_same_after_text),
        cmocka_unit_test(test_lines_count_whether_or_not_they_become_a_node),
        cmocka_unit_test(test_networks_of_pytorch_are_the_same_after_text),
        cmocka_unit_test(test_image_size_and_classes_can_be_others),
        cmocka_unit_test(test_what_is_no_description_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
