#include "reference.h"

enum { CHANNELS = 16, HEIGHT = 9, WIDTH = 10 };

/* Ones through dropout, and out as they are: the logits are the mask times its factor. In bf16 a
 * copy to float32 stands between. */
static struct xt_tensor *describe(struct net *net)
{
    static const struct xt_window copy = {
        .kernel_h = 1, .kernel_w = 1, .stride_h = 1, .stride_w = 1};
    struct xt_tensor *x = net_stem(net, HEIGHT, WIDTH, CHANNELS);
    x = net_described(net, xt_graph_dropout(net->graph, x, 0, "dropout"));
    return net_norm(net, x, (struct xt_norm_spec){.name = "norm", .average = copy}).average;
}

static void set(struct net *net, const char *layer, const char *suffix, double value)
{
    struct net_param *param = net_find(net, layer, suffix);
    for (size_t k = 0; k < param->count; k++)
        param->value[k] = value;
}

static void open_net(struct net *net, enum xt_dtype dtype, double dropout)
{
    *net = (struct net){
        .pass = {.training = true, .bn_frozen = true, .dropout = dropout, .seed = 5, .step = 8}};
    net_open(net, dtype, true);
    net_build(net, describe(net));
    set(net, "stem", "weight", 0);
    set(net, "stem", "bias", 1);
    set(net, "norm", "weight", 1);
    set(net, "norm", "bias", 0);
    set(net, "norm", "running_mean", 0);
    set(net, "norm", "running_var", 1 - 1e-5);
    net_put(net);
}

static size_t count_of(const struct net *net)
{
    return xt_tensor_count(net->graph->logits);
}

static float *copy_logits(const struct net *net)
{
    float *copy = malloc(count_of(net) * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, xt_graph_logits(net->graph), count_of(net) * sizeof *copy);
    return copy;
}

static void check_share(enum xt_dtype dtype, double dropout)
{
    struct net net;
    open_net(&net, dtype, dropout);
    net_forward(&net);
    size_t saved = 0;
    double factor = 1 / (1 - dropout);
    for (size_t i = 0; i < count_of(&net); i++) {
        double got = (double)xt_graph_logits(net.graph)[i];
        if (got == 0)
            continue;
        saved++;
        assert_true(fabs(got - factor) < factor * (dtype == XT_F32 ? 1e-5 : 8e-3));
    }
    double share = (double)saved / (double)count_of(&net);
    double deviation = sqrt(dropout * (1 - dropout) / (double)count_of(&net));
    if (!(fabs(share - (1 - dropout)) < 4 * deviation))
        fail_msg("%.4f are saved at dropout %.2f", share, dropout);
    net_clear(&net);
}

static void the_expected_share_is_kept_and_scaled_up(void **state)
{
    (void)state;
    check_share(XT_F32, 0.5);
    check_share(XT_F32, 0.1);
    check_share(XT_F32, 0.9);
}

static void the_same_in_bf16(void **state)
{
    (void)state;
    check_share(XT_BF16, 0.5);
    check_share(XT_BF16, 0.25);
}

static void check_backward(enum xt_dtype dtype)
{
    struct net net;
    open_net(&net, dtype, 0.5);
    net_forward(&net);
    float *mask = copy_logits(&net);
    for (size_t i = 0; i < count_of(&net); i++)
        net.direction[i] = 1;
    net_backward(&net);
    const struct xt_tensor *stem = net.layers[1].out;
    for (size_t i = 0; i < count_of(&net); i++)
        assert_float_equal((float)net_element(stem, stem->grad[0], i), mask[i], 0.01f);
    free(mask);
    net_clear(&net);
}

static void the_gradient_has_the_same_mask(void **state)
{
    (void)state;
    check_backward(XT_F32);
    check_backward(XT_BF16);
}

/* The share of elements at which two masks agree is a half where they are independent. */
static void check_independent(const struct net *net, const float *a, const float *b)
{
    size_t same = 0;
    for (size_t i = 0; i < count_of(net); i++)
        same += (a[i] == 0) == (b[i] == 0);
    double share = (double)same / (double)count_of(net);
    if (!(fabs(share - 0.5) < 4 * 0.5 / sqrt((double)count_of(net))))
        fail_msg("two masks agree at %.4f of the elements", share);
}

static void another_step_and_another_seed_have_other_masks(void **state)
{
    (void)state;
    struct net net;
    open_net(&net, XT_F32, 0.5);
    net_forward(&net);
    float *first = copy_logits(&net);
    net.pass.step++;
    net_forward(&net);
    float *next = copy_logits(&net);
    net.pass.step--;
    net.pass.seed++;
    net_forward(&net);
    check_independent(&net, first, next);
    check_independent(&net, first, xt_graph_logits(net.graph));
    check_independent(&net, next, xt_graph_logits(net.graph));
    net.pass.seed--;
    net_forward(&net);
    assert_memory_equal(first, xt_graph_logits(net.graph), count_of(&net) * sizeof *first);
    free(first);
    free(next);
    net_clear(&net);
}

static void samples_have_masks_of_their_own(void **state)
{
    (void)state;
    struct net net;
    open_net(&net, XT_F32, 0.5);
    net_forward(&net);
    size_t sample = count_of(&net) / (size_t)net.batch;
    size_t same = 0;
    for (size_t i = 0; i < sample; i++)
        same +=
            (xt_graph_logits(net.graph)[i] == 0) == (xt_graph_logits(net.graph)[sample + i] == 0);
    assert_true(fabs((double)same / (double)sample - 0.5) < 4 * 0.5 / sqrt((double)sample));
    net_clear(&net);
}

static void neighbours_are_kept_independently(void **state)
{
    (void)state;
    struct net net;
    open_net(&net, XT_F32, 0.5);
    net_forward(&net);
    const float *mask = xt_graph_logits(net.graph);
    const size_t apart[] = {1, 2, CHANNELS, CHANNELS * WIDTH};
    for (size_t a = 0; a < sizeof apart / sizeof apart[0]; a++) {
        size_t pairs = count_of(&net) - apart[a];
        size_t same = 0;
        for (size_t i = 0; i < pairs; i++)
            same += (mask[i] == 0) == (mask[i + apart[a]] == 0);
        double share = (double)same / (double)pairs;
        if (!(fabs(share - 0.5) < 4 * 0.5 / sqrt((double)pairs)))
            fail_msg("elements %zu apart agree at %.4f", apart[a], share);
    }
    net_clear(&net);
}

static void evaluation_drops_nothing(void **state)
{
    (void)state;
    struct net net;
    open_net(&net, XT_F32, 0.5);
    net.pass.training = false;
    net_forward(&net);
    for (size_t i = 0; i < count_of(&net); i++)
        assert_float_equal(xt_graph_logits(net.graph)[i], 1, 1e-5f);
    net_clear(&net);
}

static void probability_0_drops_nothing(void **state)
{
    (void)state;
    struct net net;
    open_net(&net, XT_F32, 0);
    net_forward(&net);
    for (size_t i = 0; i < count_of(&net); i++)
        assert_float_equal(xt_graph_logits(net.graph)[i], 1, 1e-5f);
    net_clear(&net);
}

static void a_second_reader_is_refused(void **state)
{
    (void)state;
    struct net net = {0};
    net_open(&net, XT_F32, true);
    struct xt_tensor *x = net_stem(&net, HEIGHT, WIDTH, CHANNELS);
    net_refuse_reader(&net, xt_graph_dropout(net.graph, x, 0, "dropout"));
    net_clear(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_expected_share_is_kept_and_scaled_up),
        cmocka_unit_test(the_same_in_bf16),
        cmocka_unit_test(the_gradient_has_the_same_mask),
        cmocka_unit_test(another_step_and_another_seed_have_other_masks),
        cmocka_unit_test(samples_have_masks_of_their_own),
        cmocka_unit_test(neighbours_are_kept_independently),
        cmocka_unit_test(evaluation_drops_nothing),
        cmocka_unit_test(probability_0_drops_nothing),
        cmocka_unit_test(a_second_reader_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
