/* A block that a network applies three times: its gradients are the sums of those that three blocks
 * of the same weights have, and its running statistics move at each time. */
#include "slices.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/rng.h"
#include "engine/backend.h"
#include "engine/net/fuse.h"

enum { TIMES = 3, BATCH = 8, CHANNELS = 32 };

struct pass {
    const struct xt_backend *backend; /* NULL: the CPU's */
    bool by_slices, recompute, bf16;
    const char *learn_from;
    double most; /* relative error of a gradient */
};

/* The layer's own name in one net, NAME.K in the other. */
static const char *name_of(char *out, const char *name, int k, bool repeated)
{
    snprintf(out, 32, repeated ? "%s" : "%s.%d", name, k);
    return out;
}

/* A 3x3 and a 1x1 convolution with norms, a residual, a layer norm, a scale; the third time in a
 * smaller image. */
static struct xt_value *add_block(struct xt_net *net, struct xt_value *x, int k, bool repeated)
{
    char name[32];
    struct xt_net_conv conv = {.channels = CHANNELS, .kernel = {3, 3}, .pad = {1, 1, 1, 1}};
    conv.bias = true;
    conv.name = name_of(name, "wide", k, repeated);
    struct xt_value *y = xt_net_conv(net, x, &conv);
    struct xt_net_norm norm = {.name = name_of(name, "norm", k, repeated), .momentum = 0.3};
    y = xt_net_relu(net, xt_net_batch_norm(net, y, &norm));
    conv = (struct xt_net_conv){.channels = CHANNELS, .kernel = {1, 1}};
    conv.name = name_of(name, "narrow", k, repeated);
    y = xt_net_conv(net, y, &conv);
    norm.name = name_of(name, "last", k, repeated);
    y = xt_net_relu(net, xt_net_add(net, xt_net_batch_norm(net, y, &norm), x, NULL));
    norm = (struct xt_net_norm){.name = name_of(name, "layer", k, repeated)};
    y = xt_net_layer_norm(net, y, &norm);
    const struct xt_net_parameter scale = {.name = name_of(name, "scale", k, repeated),
                                           .h = 1,
                                           .w = 1,
                                           .c = CHANNELS,
                                           .ndims = 1,
                                           .dims = {CHANNELS},
                                           .init = {XT_INIT_CONSTANT, 0.7F}};
    y = xt_net_mul(net, y, xt_net_parameter(net, &scale), NULL);
    if (k == 1)
        y = xt_net_max_pool(net, y, &(struct xt_net_pool){.kernel = {2, 2}});
    return y;
}

static struct xt_net *describe_net(bool repeated, struct xt_err *err)
{
    struct xt_net *net = xt_net_create(err);
    struct xt_value *x = xt_net_input(net, 12, 16, 3);
    const struct xt_net_conv stem = {
        .name = "stem", .channels = CHANNELS, .kernel = {3, 3}, .pad = {1, 1, 1, 1}};
    x = xt_net_conv(net, x, &stem);
    for (int k = 0; k < TIMES; k++) {
        char name[32];
        x = add_block(net, x, k, repeated);
        snprintf(name, sizeof name, "between.%d", k);
        x = xt_net_conv(
            net, x, &(struct xt_net_conv){.name = name, .channels = CHANNELS, .kernel = {1, 1}});
    }
    x = xt_net_global_avg_pool(net, x, NULL);
    x = xt_net_linear(net, x, &(struct xt_net_linear){.name = "head", .channels = 10});
    assert_int_equal(xt_net_finish(net, x, err), XT_OK);
    return net;
}

static void open_network(struct network *n, const struct pass *pass, bool repeated)
{
    static const struct xt_normalise normalise = {{127, 127, 127}, {0.01F, 0.01F, 0.01F}};
    *n = (struct network){.graph = NULL};
    ok(n, xt_device_open(&n->device, "cpu", 2, &n->err));
    struct xt_net *net = describe_net(repeated, &n->err);
    const struct xt_graph_options options = {.device = &n->device,
                                             .params = &n->params,
                                             .batch = BATCH,
                                             .training = true,
                                             .dtype = pass->bf16 ? XT_BF16 : XT_F32,
                                             .by_slices = pass->by_slices,
                                             .recompute = pass->recompute,
                                             .backend = pass->backend,
                                             .learn_from = pass->learn_from};
    ok(n, xt_graph_create(&n->graph, &options, &n->err));
    ok(n, xt_graph_build(n->graph, xt_net_lower(net, n->graph, &normalise), &n->err));
    ok(n, xt_params_initialise(&n->params, &n->device, 1, 0, &n->err));
    /* Nothing writes those of what is frozen. */
    memset(n->params.grads, 0, n->params.value_floats * sizeof(float));
    xt_net_destroy(net);
}

static const struct xt_param *find(const struct network *n, const char *name)
{
    for (int i = 0; i < n->params.count; i++)
        if (strcmp(n->params.items[i].name, name) == 0)
            return &n->params.items[i];
    fail_msg("there is no parameter %s", name);
    return NULL;
}

/* "norm.weight" as the block of that time has it in the other net: "norm.1.weight". */
static const char *name_at(char *out, const struct network *other, const char *name, int k)
{
    const char *end = strchr(name, '.');
    snprintf(out, XT_PARAM_NAME_MAX, "%.*s.%d%s", end ? (int)(end - name) : (int)strlen(name), name,
             k, end ? end : "");
    for (int i = 0; i < other->params.count; i++)
        if (strcmp(other->params.items[i].name, out) == 0)
            return out;
    return NULL;
}

enum { MOST = CHANNELS * CHANNELS * 9 };

static size_t count_of(const struct xt_param *param)
{
    size_t count = 1;
    for (int i = 0; i < param->file_ndims; i++)
        count *= (size_t)param->file_dims[i];
    assert_true(count <= MOST);
    return count;
}

static void read_param(struct network *n, const char *name, bool grad, float out[MOST])
{
    struct xt_params *params = &n->params;
    const struct xt_params_view view = {grad ? params->grads : params->values, params->stats};
    ok(n, xt_params_export(find(n, name), &n->device, &view, out, &n->err));
}

static void write_param(struct network *n, const char *name, const float values[MOST])
{
    const struct xt_params_view view = {n->params.values, n->params.stats};
    ok(n, xt_params_import(find(n, name), &n->device, &view, values, &n->err));
    n->params.version++;
}

/* The three blocks begin with the weights of the one. */
static void copy_values(struct network *from, struct network *to)
{
    static float values[MOST];
    for (int i = 0; i < from->params.count; i++) {
        const struct xt_param *param = &from->params.items[i];
        char name[XT_PARAM_NAME_MAX];
        if (param->role == XT_PARAM_BN_COUNT)
            continue;
        read_param(from, param->name, false, values);
        for (int k = 0; k < TIMES && name_at(name, to, param->name, k); k++)
            write_param(to, name, values);
    }
}

static void run_pass(struct network *n)
{
    uint8_t pixels[BATCH * 12 * 16 * 3];
    struct xt_rng rng = xt_rng_begin(7, 0);
    for (size_t i = 0; i < sizeof pixels; i++)
        pixels[i] = (uint8_t)(xt_rng_uniform(&rng) * 255);
    n->graph->pass = (struct xt_graph_pass){.pixels = pixels, .count = BATCH, .training = true};
    ok(n, xt_graph_forward(n->graph, &n->err));
    for (int i = 0; i < BATCH * 10; i++)
        xt_graph_logits_grad(n->graph)[i] = xt_rng_uniform(&rng) - 0.5F;
    ok(n, xt_graph_backward(n->graph, &n->err));
}

/* The norms of the net of three moved from the same numbers by their own batch's: r = a + m (b -
 * a), of which the one has the three in turn. */
static void follow(const float start[MOST], float *const moved[TIMES], size_t count,
                   float out[MOST])
{
    const double m = 0.3;
    for (size_t i = 0; i < count; i++) {
        double running = (double)start[i];
        for (int k = 0; k < TIMES; k++)
            running +=
                m * (((double)moved[k][i] - (double)start[i]) / m + (double)start[i] - running);
        out[i] = (float)running;
    }
}

static void add_up(float *const parts[TIMES], size_t count, float out[MOST])
{
    for (size_t i = 0; i < count; i++)
        out[i] = parts[0][i] + parts[1][i] + parts[2][i];
}

/* In front of a norm a bias has no gradient but for roundings, which differ from loop to loop. */
static bool is_rounding(const struct xt_param *param)
{
    return strcmp(param->name, "wide.bias") == 0;
}

static void compare(struct network *one, struct network *three, const struct xt_param *param,
                    const struct pass *pass)
{
    static float got[MOST], wanted[MOST], start[MOST], parts[TIMES][MOST];
    float *const of[] = {parts[0], parts[1], parts[2]};
    bool statistic = xt_param_is_statistic(param);
    size_t count = count_of(param);
    char name[XT_PARAM_NAME_MAX];
    for (int k = 0; k < TIMES; k++) {
        if (!name_at(name, three, param->name, k))
            return;
        read_param(three, name, !statistic, parts[k]);
    }
    read_param(one, param->name, !statistic, got);
    for (size_t i = 0; i < count; i++)
        start[i] = param->role == XT_PARAM_BN_VAR;
    if (statistic)
        follow(start, of, count, wanted);
    else
        add_up(of, count, wanted);
    for (size_t i = 0; i < count && is_rounding(param); i++)
        assert_true(fabs((double)got[i]) <= pass->most && fabs((double)wanted[i]) <= pass->most);
    double apart = is_rounding(param) ? 0 : distance(wanted, got, count);
    if (!(apart <= pass->most))
        fail_msg("%s is %g apart", param->name, apart);
}

static void agree(const struct pass *pass)
{
    struct network one, three;
    open_network(&one, pass, true);
    open_network(&three, pass, false);
    copy_values(&one, &three);
    /* A frozen norm normalises by what the others' passes moved. */
    for (int turn = 0; turn < (pass->learn_from ? 1 : 2); turn++) {
        run_pass(&one);
        if (turn == 0)
            run_pass(&three);
        int compared = 0;
        for (int i = 0; i < one.params.count; i++) {
            const struct xt_param *param = &one.params.items[i];
            if (param->role == XT_PARAM_BN_COUNT || (turn && xt_param_is_statistic(param)))
                continue;
            compare(&one, &three, param, pass);
            compared++;
        }
        assert_true(compared > 10);
    }
    close_network(&one);
    close_network(&three);
}

static void test_gradients_are_sums(void **state)
{
    (void)state;
    agree(&(struct pass){.most = 1e-4});
    agree(&(struct pass){.most = 1e-4, .recompute = true});
    agree(&(struct pass){.most = 1e-4, .backend = &xt_backend_programs});
}

static int64_t batches_of(const struct network *n, const char *norm)
{
    char name[XT_PARAM_NAME_MAX];
    snprintf(name, sizeof name, "%s.num_batches_tracked", norm);
    return n->params.tracked[find(n, name) - n->params.items];
}

/* As PyTorch counts, each time that a norm is applied; what is frozen is not. */
static void test_each_norm_counts_its_batches(void **state)
{
    struct network one, three, part;
    (void)state;
    open_network(&one, &(struct pass){.most = 0}, true);
    open_network(&three, &(struct pass){.most = 0}, false);
    open_network(&part, &(struct pass){.learn_from = "between.1"}, false);
    for (int turn = 0; turn < 2; turn++) {
        xt_graph_count_batches(one.graph, 1);
        xt_graph_count_batches(three.graph, 1);
        xt_graph_count_batches(part.graph, 1);
    }
    xt_graph_count_batches(three.graph, -1);
    assert_int_equal(batches_of(&one, "norm"), 6);
    assert_int_equal(batches_of(&three, "norm.0"), 1);
    assert_int_equal(batches_of(&part, "last.1"), 0);
    assert_int_equal(batches_of(&part, "last.2"), 2);
    one.graph->options.bn_frozen = true;
    xt_graph_count_batches(one.graph, 1);
    assert_int_equal(batches_of(&one, "norm"), 6);
    close_network(&one);
    close_network(&three);
    close_network(&part);
}

static void test_so_are_they_by_slices(void **state)
{
    (void)state;
    agree(&(struct pass){.most = 1e-4, .by_slices = true});
    agree(&(struct pass){.most = 1e-4, .by_slices = true, .recompute = true});
}

/* Shared weights are not in the format of the loops that others run by. */
static void test_so_are_they_in_bf16(void **state)
{
    (void)state;
    support_need_any_bf16();
    agree(&(struct pass){.most = 5e-2, .bf16 = true});
    agree(&(struct pass){.most = 5e-2, .bf16 = true, .by_slices = true});
}

/* The first time the block is frozen: it has the gradients of the others. */
static void test_a_part_that_learns(void **state)
{
    (void)state;
    agree(&(struct pass){.most = 1e-4, .learn_from = "between.0"});
    agree(&(struct pass){.most = 1e-4, .learn_from = "between.0", .by_slices = true});
    agree(&(struct pass){.most = 1e-4, .learn_from = "between.0", .backend = &xt_backend_programs});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_norm_counts_its_batches),
        cmocka_unit_test(test_gradients_are_sums),
        cmocka_unit_test(test_so_are_they_by_slices),
        cmocka_unit_test(test_so_are_they_in_bf16),
        cmocka_unit_test(test_a_part_that_learns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
