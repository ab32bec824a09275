#include "support.h"

#include <string.h>

#include "engine/net/net.h"

static struct xt_net *begin(void)
{
    struct xt_err err = {0};
    struct xt_net *net = xt_net_create(&err);
    assert_non_null(net);
    return net;
}

static void expect(const struct xt_value *value, int h, int w, int c)
{
    assert_non_null(value);
    assert_int_equal(value->h, h);
    assert_int_equal(value->w, w);
    assert_int_equal(value->c, c);
}

/* Ends the net, which must have failed with a sentence that has these words. */
static void expect_refused(struct xt_net *net, const char *words)
{
    struct xt_err err = {0};
    assert_int_not_equal(xt_net_finish(net, NULL, &err), XT_OK);
    if (!strstr(err.text, words))
        fail_msg("\"%s\" has no \"%s\"", err.text, words);
    xt_net_destroy(net);
}

/* Sizes as torch.nn.Conv2d gives them. */
static void convolution_shapes(void **state)
{
    (void)state;
    static const struct {
        struct xt_net_conv conv;
        int h, w;
    } cases[] = {
        {{.kernel = {3, 3}}, 22, 92},
        {{.kernel = {7, 7}, .stride = {2, 2}, .pad = {3, 3, 3, 3}}, 12, 47},
        {{.kernel = {3, 3}, .dilation = {2, 3}}, 20, 88},
        {{.kernel = {3, 5}, .stride = {2, 3}, .pad = {0, 1, 1, 2}}, 12, 31},
        {{.kernel = {13, 1}}, 12, 94},
    };
    struct xt_net *net = begin();
    struct xt_value *in = xt_net_input(net, 24, 94, 6);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[] = "conv0";
        struct xt_net_conv conv = cases[i].conv;
        name[4] = (char)('0' + i);
        conv.name = name;
        conv.channels = 12;
        conv.groups = 3;
        conv.bias = i == 1;
        expect(xt_net_conv(net, in, &conv), cases[i].h, cases[i].w, 12);
    }
    assert_int_equal(in->readers, 5);
    assert_ptr_equal(xt_net_reader(net, in, 4), net->nodes[5]);
    assert_null(xt_net_reader(net, in, 5));
    const struct xt_net_param *weight = xt_node_param(net, net->nodes[1], XT_NODE_WEIGHT);
    assert_string_equal(weight->name, "conv0.weight");
    assert_int_equal(weight->dims[1], 2);
    assert_null(xt_node_param(net, net->nodes[1], XT_NODE_BIAS));
    assert_int_equal(xt_net_find_param(net, "conv1.bias"), 2);
    assert_true(xt_node_flops(net->nodes[1]) == 2.0 * 22 * 92 * 12 * 2 * 9);
    xt_net_destroy(net);
}

/* Sizes as torch.nn.MaxPool2d and AvgPool2d give them. */
static void pool_shapes(void **state)
{
    (void)state;
    static const struct {
        struct xt_net_pool pool;
        int h, w;
    } cases[] = {
        {{.kernel = {3, 3}, .stride = {2, 2}}, 3, 4},
        {{.kernel = {3, 3}, .stride = {2, 2}, .ceil_mode = true}, 4, 4},
        {{.kernel = {2, 2}, .ceil_mode = true}, 4, 5},
        {{.kernel = {2, 2}, .pad = {1, 1, 1, 1}, .ceil_mode = true}, 5, 5},
        /* the third window would begin after the input: it does not count */
        {{.kernel = {1, 1}, .stride = {4, 9}, .ceil_mode = true}, 2, 1},
        {{.kernel = {3, 3}, .stride = {1, 1}, .pad = {1, 1, 1, 1}}, 8, 9},
    };
    struct xt_net *net = begin();
    struct xt_value *in = xt_net_input(net, 8, 9, 4);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        expect(xt_net_max_pool(net, in, &cases[i].pool), cases[i].h, cases[i].w, 4);
        expect(xt_net_avg_pool(net, in, &cases[i].pool), cases[i].h, cases[i].w, 4);
    }
    expect(xt_net_global_avg_pool(net, in, NULL), 1, 1, 4);
    xt_net_destroy(net);
}

static void parts_and_order(void **state)
{
    (void)state;
    struct xt_net *net = begin();
    struct xt_value *in = xt_net_input(net, 4, 6, 8);
    struct xt_value *half =
        xt_net_slice(net, in, &(struct xt_net_slice){.axis = XT_AXIS_C, .step = 2, .count = 4});
    expect(half, 4, 6, 4);
    expect(xt_net_concat(net, (struct xt_value *[]){in, half, in}, 3, XT_AXIS_C, NULL), 4, 6, 20);
    assert_int_equal(in->readers, 3);
    expect(xt_net_transpose(net, in, (enum xt_axis[]){XT_AXIS_C, XT_AXIS_H, XT_AXIS_W}, NULL), 8, 4,
           6);
    expect(xt_net_flatten(net, in, NULL), 1, 1, 192);
    expect(xt_net_channel_shuffle(net, in, 2, NULL), 4, 6, 8);
    struct xt_value *tokens = xt_net_reshape(net, in, &(struct xt_net_reshape){1, 24, 8}, NULL);
    struct xt_value *token = xt_net_parameter(
        net, &(struct xt_net_parameter){
                 .name = "class_token", .h = 1, .w = 1, .c = 8, .ndims = 3, .dims = {1, 1, 8}});
    assert_true(token->of_parameter);
    struct xt_value *all =
        xt_net_concat(net, (struct xt_value *[]){token, tokens}, 2, XT_AXIS_W, NULL);
    expect(all, 1, 25, 8);
    expect(xt_net_matmul(net, all, all, &(struct xt_net_matmul){.transpose = true}), 1, 25, 25);
    expect(xt_net_mul(net, in, xt_net_global_avg_pool(net, in, NULL), NULL), 4, 6, 8);
    expect(xt_net_channel_mean(net, all, NULL), 1, 25, 1);
    struct xt_value *last =
        xt_net_linear(net, all, &(struct xt_net_linear){.name = "fc", .channels = 5});
    expect(last, 1, 25, 5);
    struct xt_err err = {0};
    assert_int_equal(xt_net_finish(net, last, &err), XT_OK);
    xt_net_destroy(net);
}

/* Nothing would write their gradients. */
static struct xt_value *channels(struct xt_net *net, struct xt_value *in, int start, int count)
{
    const struct xt_net_slice slice = {.axis = XT_AXIS_C, .start = start, .count = count};
    return xt_net_slice(net, in, &slice);
}

static void parts_of_parts_are_parts_of_the_whole(void **state)
{
    struct xt_net *net = begin();
    struct xt_value *x = xt_net_input(net, 4, 4, 8);
    struct xt_value *y = xt_net_relu(net, x);
    (void)state;
    assert_ptr_equal(channels(net, x, 0, 8), x);
    struct xt_value *inner = channels(net, channels(net, x, 2, 5), 1, 3);
    assert_ptr_equal(inner->of->inputs[0], x);
    assert_int_equal(inner->of->as.slice.start, 3);
    struct xt_value *both = xt_net_concat(net, (struct xt_value *[]){x, y}, 2, XT_AXIS_C, NULL);
    assert_ptr_equal(channels(net, both, 8, 8), y);
    assert_ptr_equal(channels(net, both, 9, 2)->of->inputs[0], y);
    assert_ptr_equal(channels(net, both, 6, 4)->of->inputs[0], both);
    xt_net_destroy(net);
}

static void parts_that_are_put_together_again_are_the_whole(void **state)
{
    struct xt_net *net = begin();
    struct xt_value *x = xt_net_input(net, 4, 4, 8);
    struct xt_value *parts[] = {channels(net, x, 0, 3), channels(net, x, 3, 1),
                                channels(net, x, 4, 4)};
    struct xt_value *turned[] = {parts[1], parts[2], parts[0]};
    (void)state;
    assert_ptr_equal(xt_net_concat(net, parts, 3, XT_AXIS_C, NULL), x);
    struct xt_value *y = xt_net_concat(net, turned, 3, XT_AXIS_C, NULL);
    assert_int_equal(y->of->input_count, 2);
    expect(y->of->inputs[0], 4, 4, 5);
    expect(xt_net_concat(net, (struct xt_value *[]){parts[1], parts[1]}, 2, XT_AXIS_W, NULL), 4, 8,
           1);
    xt_net_destroy(net);
}

/* With the bias that is added, whoever reads the sum. */
static void a_convolution_by_a_parameter_as_it_is_is_a_linear_layer(void **state)
{
    const struct xt_net_parameter weight = {
        .name = "fc.weight", .h = 1, .w = 5, .c = 8, .ndims = 2, .dims = {5, 8}};
    const struct xt_net_parameter bias = {
        .name = "fc.bias", .h = 1, .w = 1, .c = 5, .ndims = 1, .dims = {5}};
    const struct xt_net_conv conv = {.channels = 5, .kernel = {1, 1}};
    (void)state;
    for (int shared = 0; shared < 2; shared++) {
        struct xt_err err = {0};
        struct xt_net *net = begin();
        struct xt_value *x = xt_net_input(net, 4, 5, 8);
        struct xt_value *w = xt_net_parameter(net, &weight);
        x = xt_net_conv_by(net, x, w, &conv);
        x = xt_net_add(net, x, xt_net_parameter(net, &bias), NULL);
        x = xt_net_mul(net, x, shared ? channels(net, w, 0, 1) : x, NULL);
        assert_int_equal(xt_net_finish(net, x, &err), XT_OK);
        if (shared) { /* the weight is more than the layer's */
            assert_int_equal(net->nodes[2]->kind, XT_NODE_CONV_BY);
            xt_net_destroy(net);
            continue;
        }
        assert_int_equal(net->node_count, 3);
        const struct xt_node *linear = net->nodes[1];
        assert_int_equal(linear->kind, XT_NODE_LINEAR);
        assert_int_equal(linear->output->readers, 2);
        assert_string_equal(xt_node_param(net, linear, XT_NODE_WEIGHT)->name, "fc.weight");
        assert_string_equal(xt_node_param(net, linear, XT_NODE_BIAS)->name, "fc.bias");
        assert_int_equal(xt_node_param(net, linear, XT_NODE_WEIGHT)->role, XT_PARAM_WEIGHT);
        xt_net_destroy(net);
    }
}

static void what_leads_to_nothing_is_removed(void **state)
{
    static const struct xt_activation relu = {.kind = XT_ACT_RELU};
    struct xt_err err = {0};
    (void)state;
    struct xt_net *net = begin();
    struct xt_value *in = xt_net_input(net, 4, 6, 8);
    struct xt_value *unread = xt_net_activation(net, in, relu, NULL);
    xt_net_add(net, unread, in, NULL);
    struct xt_value *last = xt_net_global_avg_pool(net, in, NULL);
    assert_int_equal(xt_net_finish(net, last, &err), XT_OK);
    assert_int_equal(net->node_count, 2);
    assert_int_equal(in->readers, 1);
    assert_ptr_equal(net->nodes[1], last->of);
    assert_int_equal(last->of->index, 1);
    assert_int_equal(last->index, 1);
    xt_net_destroy(net);
}

static void parameters_that_lead_to_nothing_are_refused(void **state)
{
    struct xt_err err = {0};
    (void)state;
    struct xt_net *net = begin();
    struct xt_value *in = xt_net_input(net, 4, 6, 8);
    xt_net_conv(net, in, &(struct xt_net_conv){.name = "aside", .channels = 2, .kernel = {1, 1}});
    assert_int_not_equal(xt_net_finish(net, xt_net_global_avg_pool(net, in, NULL), &err), XT_OK);
    assert_string_equal(err.text, "aside: no other layer reads what it computes");
    xt_net_destroy(net);
}

static void params_in_the_order_of_a_file(void **state)
{
    (void)state;
    static const char *const names[] = {"c.weight",       "c.offset",      "n.weight", "n.bias",
                                        "n.running_mean", "n.running_var", NULL};
    struct xt_net *net = begin();
    struct xt_value *x = xt_net_input(net, 4, 4, 3);
    x = xt_net_conv(
        net, x,
        &(struct xt_net_conv){
            .name = "c", .bias_name = "c.offset", .channels = 2, .kernel = {1, 1}, .bias = true});
    x = xt_net_batch_norm(net, x, &(struct xt_net_norm){.name = "n"});
    for (int i = 0; names[i]; i++)
        assert_string_equal(net->params[i].name, names[i]);
    assert_true(x->of->as.norm.eps == 1e-5);
    struct xt_err err = {0};
    assert_int_equal(xt_net_param_set(net, 1, (float[]){1, 2}, &err), XT_OK);
    assert_true(net->params[1].initial[1] == 2);
    xt_net_destroy(net);
}

static void refusals(void **state)
{
    (void)state;
    struct xt_net *net = begin();
    struct xt_value *in = xt_net_input(net, 4, 4, 6);
    xt_net_conv(net, in, &(struct xt_net_conv){.name = "c", .channels = 4, .kernel = {5, 5}});
    assert_null(xt_net_relu(net, in));
    expect_refused(net, "c: an input of 4x4 is too small");

    net = begin();
    in = xt_net_input(net, 4, 4, 6);
    xt_net_conv(net, in,
                &(struct xt_net_conv){.name = "c", .channels = 4, .kernel = {1, 1}, .groups = 4});
    expect_refused(net, "4 groups do not divide its 6 input and 4 output channels");

    net = begin();
    in = xt_net_input(net, 4, 4, 6);
    xt_net_add(net, in, xt_net_input(net, 4, 4, 5), "sum");
    expect_refused(net, "sum: 4x4x6 and 4x4x5");

    net = begin();
    in = xt_net_input(net, 4, 4, 6);
    for (int i = 0; i < 2; i++)
        xt_net_batch_norm(net, i ? xt_net_input(net, 4, 4, 5) : in,
                          &(struct xt_net_norm){.name = "same"});
    expect_refused(net, "same.weight is a parameter of two layers that use it differently");

    net = begin();
    in = xt_net_input(net, 4, 4, 6);
    for (int i = 0; i < 2; i++)
        xt_net_conv(net, i ? xt_net_input(net, 4, 4, 1) : in,
                    &(struct xt_net_conv){
                        .name = "same", .channels = 6, .kernel = {1, 1}, .groups = i ? 1 : 6});
    expect_refused(net, "same.weight is a parameter of two layers that use it differently");

    net = begin();
    xt_net_input(net, 1 << 20, 1 << 20, 3);
    expect_refused(net, "no size that a network can have");

    net = begin();
    in = xt_net_input(net, 4, 4, 6);
    xt_net_slice(net, in, &(struct xt_net_slice){.axis = XT_AXIS_C, .start = 3, .count = 4});
    expect_refused(net, "4 from 3 on in steps of 1 are not there in 6");

    net = begin();
    in = xt_net_input(net, 4, 4, 6);
    xt_net_max_pool(net, in, &(struct xt_net_pool){.kernel = {2, 2}, .pad = {2, 0, 0, 0}});
    expect_refused(net, "entirely in the padding");

    expect_refused(begin(), "without an output");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(convolution_shapes),
        cmocka_unit_test(pool_shapes),
        cmocka_unit_test(parts_and_order),
        cmocka_unit_test(parts_of_parts_are_parts_of_the_whole),
        cmocka_unit_test(parts_that_are_put_together_again_are_the_whole),
        cmocka_unit_test(a_convolution_by_a_parameter_as_it_is_is_a_linear_layer),
        cmocka_unit_test(what_leads_to_nothing_is_removed),
        cmocka_unit_test(parameters_that_lead_to_nothing_are_refused),
        cmocka_unit_test(refusals),
        cmocka_unit_test(params_in_the_order_of_a_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
