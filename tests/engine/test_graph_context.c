#include "reference.h"

static const struct xt_window copy = {.kernel_h = 1, .kernel_w = 1, .stride_h = 1, .stride_w = 1};

/* Three tensors as two taps: the first tap in two parts, of different heights. */
static struct xt_tensor *taps(struct net *net, bool over_batch)
{
    struct xt_conv_spec conv = {
        .name = "trunk", .channels = 5, .kernel_h = 1, .kernel_w = 1, .bias = true, .relu = true};
    struct xt_tensor *x = net_conv(net, net_stem(net, 6, 5, 4), conv);
    struct xt_context_spec spec = {.count = 3, .group = {0, 1, 0}, .over_batch = over_batch};
    conv.name = "conv.0";
    conv.channels = 3;
    conv.kernel_w = 2;
    conv.relu = false;
    spec.taps[0] =
        net_norm(net, net_conv(net, x, conv),
                 (struct xt_norm_spec){
                     .name = "norm.0",
                     .relu = true,
                     .average = {.kernel_h = 3, .kernel_w = 1, .stride_h = 3, .stride_w = 1}})
            .average;
    conv.name = "conv.1";
    conv.channels = 7;
    struct xt_norm_outputs y = net_norm(
        net, net_conv(net, x, conv),
        (struct xt_norm_spec){.name = "norm.1", .relu = true, .full = true, .average = copy});
    spec.taps[1] = y.average;
    conv.name = "conv.2";
    conv.channels = 2;
    conv.kernel_w = 1;
    spec.taps[2] = net_norm(net, net_conv(net, y.full, conv),
                            (struct xt_norm_spec){.name = "norm.2", .relu = true, .average = copy})
                       .average;
    return net_head(net, net_context(net, spec));
}

static struct xt_tensor *over_the_sample(struct net *net)
{
    return taps(net, false);
}

static struct xt_tensor *over_the_batch(struct net *net)
{
    return taps(net, true);
}

static void the_mean_square_over_a_sample(void **state)
{
    (void)state;
    check_net(over_the_sample);
}

static void the_mean_square_over_the_batch(void **state)
{
    (void)state;
    check_net(over_the_batch);
}

/* The context alone: BN would read the padding too. */
static void padding_is_not_part_of_the_batch(void **state)
{
    (void)state;
    check_net_f32(over_the_batch, (struct xt_graph_pass){.count = 2});
    check_net_f32(over_the_batch,
                  (struct xt_graph_pass){.training = true, .bn_frozen = true, .count = 2});
}

/* What stands in the batch's padding changes no logit of the samples before it. */
static void padding_changes_nothing(void **state)
{
    (void)state;
    struct net net = {.pass = {.count = 2}};
    net_open(&net, XT_F32, false);
    net_build(&net, over_the_batch(&net));
    net_forward(&net);
    size_t count = xt_tensor_count(net.graph->logits) / 3 * 2;
    float *before = malloc(count * sizeof *before);
    assert_non_null(before);
    memcpy(before, xt_graph_logits(net.graph), count * sizeof *before);
    for (size_t i = net.x_count / 3 * 2; i < net.x_count; i++)
        net.x[i] = 50;
    net_forward(&net);
    assert_memory_equal(before, xt_graph_logits(net.graph), count * sizeof *before);
    free(before);
    net_clear(&net);
}

static void a_tap_of_zeros_stays_finite(void **state)
{
    (void)state;
    for (int over_batch = 0; over_batch < 2; over_batch++) {
        struct net net = {.pass = {.training = true}};
        net_open(&net, XT_F32, true);
        net_build(&net, taps(&net, over_batch));
        struct net_param *scale = net_find(&net, "norm.1", "weight");
        struct net_param *shift = net_find(&net, "norm.1", "bias");
        for (size_t k = 0; k < scale->count; k++)
            scale->value[k] = shift->value[k] = 0;
        net_put(&net);
        net_forward(&net);
        net_loss(&net);
        net_check_logits(&net, 2e-5);
        net_backward(&net);
        for (size_t i = 0; i < net.params.value_floats; i++)
            assert_true(isfinite(net.params.grads[i]));
        net_clear(&net);
    }
}

static void a_second_reader_is_refused(void **state)
{
    (void)state;
    struct net net = {0};
    net_open(&net, XT_F32, true);
    struct xt_context_spec spec = {.count = 1};
    spec.taps[0] = net_norm(&net, net_stem(&net, 6, 5, 4),
                            (struct xt_norm_spec){.name = "norm", .relu = true, .average = copy})
                       .average;
    net_refuse_reader(&net, net_context(&net, spec));
    net_clear(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_mean_square_over_a_sample),
        cmocka_unit_test(the_mean_square_over_the_batch),
        cmocka_unit_test(padding_is_not_part_of_the_batch),
        cmocka_unit_test(padding_changes_nothing),
        cmocka_unit_test(a_tap_of_zeros_stays_finite),
        cmocka_unit_test(a_second_reader_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
