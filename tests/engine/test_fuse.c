/* What of a net runs as one op, and that its parameters stay in its order. */
#include "support.h"

#include <string.h>

#include "engine/executor.h"
#include "engine/net/fuse.h"

struct bench {
    struct xt_device device;
    struct xt_params params;
    struct xt_graph *graph;
    struct xt_net *net;
    struct xt_err err;
};

static void open_bench(struct bench *b, bool training)
{
    *b = (struct bench){0};
    if (xt_device_open(&b->device, "cpu", 1, &b->err))
        fail_msg("%s", b->err.text);
    struct xt_graph_options options = {.device = &b->device,
                                       .params = &b->params,
                                       .batch = 2,
                                       .training = training,
                                       .fuse = !training,
                                       .dtype = XT_F32};
    if (xt_graph_create(&b->graph, &options, &b->err) || !(b->net = xt_net_create(&b->err)))
        fail_msg("%s", b->err.text);
}

static void close_bench(struct bench *b)
{
    xt_net_destroy(b->net);
    xt_graph_destroy(b->graph);
    xt_params_clear(&b->params);
    xt_device_close(&b->device);
}

/* Lowers the net and builds the graph, so that what cannot run is seen. */
static void lower(struct bench *b, struct xt_value *output)
{
    static const struct xt_normalise as_they_are = {{0, 0, 0}, {1, 1, 1}};
    if (xt_net_finish(b->net, output, &b->err) ||
        xt_graph_build(b->graph, xt_net_lower(b->net, b->graph, &as_they_are), &b->err))
        fail_msg("%s", b->err.text);
}

static int ops_that_run(const struct bench *b, const char *what)
{
    int count = 0;
    for (int i = 0; i < b->graph->op_count; i++)
        count += strcmp(b->graph->ops[i]->runs, what) == 0;
    return count;
}

static int fan_outs(const struct bench *b)
{
    int count = 0;
    for (int i = 0; i < b->graph->op_count; i++)
        count += strcmp(xt_op_kind_name(b->graph->ops[i]), "fan-out") == 0;
    return count;
}

static struct xt_value *conv(struct bench *b, struct xt_value *in, const char *name)
{
    return xt_net_conv(b->net, in,
                       &(struct xt_net_conv){.name = name, .channels = 16, .kernel = {1, 1}});
}

static struct xt_value *norm(struct bench *b, struct xt_value *in, const char *name)
{
    return xt_net_batch_norm(b->net, in, &(struct xt_net_norm){.name = name});
}

static struct xt_value *head(struct bench *b, struct xt_value *in)
{
    struct xt_value *x = xt_net_flatten(b->net, xt_net_global_avg_pool(b->net, in, NULL), NULL);
    return xt_net_linear(b->net, x, &(struct xt_net_linear){.name = "fc", .channels = 3});
}

/* An activation that no sum takes in. */
static struct xt_value *silu(struct bench *b, struct xt_value *in)
{
    return xt_net_activation(b->net, in, (struct xt_activation){XT_ACT_SILU, 0, 0}, NULL);
}

/* The shortcut's layers run before the norm whose parameters a file has first. */
static struct xt_value *residual_block(struct bench *b)
{
    struct xt_value *in = conv(b, xt_net_input(b->net, 6, 6, 3), "stem");
    in = xt_net_relu(b->net, norm(b, in, "stem.norm"));
    struct xt_value *x = norm(b, conv(b, in, "branch"), "branch.norm");
    struct xt_value *shortcut = norm(b, conv(b, in, "shortcut"), "shortcut.norm");
    return head(b, xt_net_relu(b->net, xt_net_add(b->net, x, shortcut, NULL)));
}

static void a_residual_block_is_one_norm(void **state)
{
    (void)state;
    struct bench b;
    open_bench(&b, true);
    lower(&b, residual_block(&b));
    assert_int_equal(ops_that_run(&b, "batch norm + add + ReLU + average pool"), 1);
    assert_int_equal(ops_that_run(&b, "batch norm + ReLU"), 1);
    assert_int_equal(ops_that_run(&b, "add"), 0);
    assert_int_equal((size_t)b.params.count, b.net->param_count);
    for (int i = 0; i < b.params.count; i++)
        assert_string_equal(b.params.items[i].name, b.net->params[i].name);
    close_bench(&b);
}

/* The sum has one norm's place; the other norm is an op of its own. */
static void two_norms_are_summed_without_an_activation(void **state)
{
    (void)state;
    for (int training = 0; training < 2; training++) {
        struct bench b;
        open_bench(&b, training);
        struct xt_value *in = conv(&b, xt_net_input(b.net, 6, 6, 3), "stem");
        struct xt_value *x = norm(&b, conv(&b, in, "a"), "a.norm");
        x = xt_net_add(b.net, x, norm(&b, conv(&b, in, "b"), "b.norm"), NULL);
        lower(&b, head(&b, silu(&b, x)));
        assert_int_equal(
            ops_that_run(&b, training ? "batch norm + add" : "convolution + batch norm + add"), 1);
        close_bench(&b);
    }
}

static void a_norm_goes_into_the_convolution_in_inference(void **state)
{
    (void)state;
    struct bench b;
    open_bench(&b, false);
    lower(&b, residual_block(&b));
    assert_int_equal(ops_that_run(&b, "convolution + batch norm + add + ReLU"), 1);
    assert_int_equal(ops_that_run(&b, "convolution + batch norm + ReLU"), 1);
    assert_int_equal(ops_that_run(&b, "convolution + batch norm"), 1);
    close_bench(&b);
}

/* What else reads the convolution's output reads it as it is before the norm. */
static void a_norm_stays_an_op_where_others_read_the_convolution(void **state)
{
    (void)state;
    for (int later = 0; later < 2; later++) {
        struct bench b;
        open_bench(&b, false);
        struct xt_value *z = conv(&b, xt_net_input(b.net, 6, 6, 3), "stem");
        struct xt_value *before = later ? NULL : silu(&b, z);
        struct xt_value *y = norm(&b, z, "stem.norm");
        lower(&b, head(&b, xt_net_mul(b.net, y, later ? silu(&b, z) : before, NULL)));
        assert_int_equal(ops_that_run(&b, "convolution"), 1);
        assert_int_equal(ops_that_run(&b, "batch norm"), 1);
        close_bench(&b);
    }
}

/* `in` is read again behind the sum, in whose memory the sum would be in inference. */
static struct xt_value *read_again(struct bench *b)
{
    struct xt_value *in = conv(b, xt_net_input(b->net, 6, 6, 3), "stem");
    in = xt_net_relu(b->net, norm(b, in, "stem.norm"));
    struct xt_value *x = xt_net_add(b->net, norm(b, conv(b, in, "a"), "a.norm"), in, "first");
    x = xt_net_add(b->net, norm(b, conv(b, x, "b"), "b.norm"), in, "second");
    return head(b, x);
}

static void many_readers_are_fanned_out_in_training_alone(void **state)
{
    (void)state;
    for (int training = 0; training < 2; training++) {
        struct bench b;
        open_bench(&b, training);
        lower(&b, read_again(&b));
        assert_int_equal(ops_that_run(&b, "add"), 1);
        assert_int_equal(fan_outs(&b), training);
        close_bench(&b);
    }
}

static void a_sum_behind_a_norm_may_have_a_relu_and_other_readers(void **state)
{
    (void)state;
    for (int training = 0; training < 2; training++) {
        struct bench b;
        open_bench(&b, training);
        struct xt_value *in = conv(&b, xt_net_input(b.net, 6, 6, 3), "stem");
        struct xt_value *sum = xt_net_add(b.net, norm(&b, conv(&b, in, "a"), "a.norm"), in, NULL);
        struct xt_value *x = conv(&b, xt_net_relu(b.net, sum), "b");
        lower(&b, head(&b, xt_net_add(b.net, norm(&b, x, "b.norm"), sum, NULL)));
        assert_int_equal(ops_that_run(&b, "ReLU"), 1);
        close_bench(&b);
    }
}

/* In inference the sum would be in the memory that the convolution reads. */
static void a_convolution_does_not_add_to_what_it_reads(void **state)
{
    (void)state;
    for (int training = 0; training < 2; training++) {
        struct bench b;
        open_bench(&b, training);
        struct xt_value *in = conv(&b, xt_net_input(b.net, 6, 6, 3), "stem");
        struct xt_value *x = xt_net_add(b.net, norm(&b, conv(&b, in, "a"), "a.norm"), in, NULL);
        lower(&b, head(&b, silu(&b, x)));
        assert_int_equal(
            ops_that_run(&b, training ? "batch norm + add" : "convolution + batch norm"), 1);
        assert_int_equal(ops_that_run(&b, "add"), !training);
        close_bench(&b);
    }
}

/* A recurrent layer that is written step by step concatenates as many values as it has steps. */
static void more_values_than_an_op_reads_are_concatenated_in_parts(void **state)
{
    enum { VALUES = 150, OPS = 3 + 1 };
    struct bench b;
    struct xt_value *values[VALUES];
    (void)state;
    open_bench(&b, false);
    struct xt_value *in = conv(&b, xt_net_input(b.net, 2, 2, 3), "conv");
    for (int i = 0; i < VALUES; i++)
        values[i] = in;
    struct xt_value *all = xt_net_concat(b.net, values, VALUES, XT_AXIS_C, "all");
    assert_int_equal(all->c, VALUES * 16);
    lower(&b, head(&b, all));
    int concats = 0;
    for (int i = 0; i < b.graph->op_count; i++)
        concats += strcmp(xt_op_kind_name(b.graph->ops[i]), "concatenation") == 0;
    assert_int_equal(concats, OPS);
    close_bench(&b);
}

static void channels_that_a_stride_selects_are_split(void **state)
{
    (void)state;
    struct bench b;
    open_bench(&b, true);
    struct xt_value *x = xt_net_input(b.net, 6, 6, 3);
    x = xt_net_relu(b.net, norm(&b, conv(&b, x, "split"), "split.norm"));
    struct xt_value *tap =
        xt_net_avg_pool(b.net, x, &(struct xt_net_pool){.kernel = {3, 1}, .stride = {3, 1}});
    struct xt_value *selected =
        xt_net_slice(b.net, x, &(struct xt_net_slice){.axis = XT_AXIS_C, .step = 4, .count = 4});
    selected =
        xt_net_max_pool(b.net, selected, &(struct xt_net_pool){.kernel = {3, 3}, .stride = {1, 1}});
    selected =
        xt_net_conv(b.net, selected,
                    &(struct xt_net_conv){
                        .name = "last", .channels = 4, .kernel = {1, 1}, .pad = {0, 1, 0, 1}});
    selected = xt_net_relu(b.net, norm(&b, selected, "last.norm"));
    x = xt_net_context(b.net, (struct xt_value *[]){tap, selected}, 2,
                       &(struct xt_net_context){.name = "context"});
    lower(&b, xt_net_conv(b.net, x,
                          &(struct xt_net_conv){.name = "head", .channels = 3, .kernel = {1, 1}}));
    assert_int_equal(ops_that_run(&b, "slice"), 0);
    assert_int_equal(ops_that_run(&b, "batch norm + ReLU + max pool + average pool"), 1);
    assert_int_equal(ops_that_run(&b, "batch norm + ReLU + average pool"), 1);
    assert_string_equal(b.params.items[0].name, "split.weight");
    assert_int_equal(b.params.items[0].dims[0], 4);
    assert_int_equal(b.params.items[0].file_dims[0], 16);
    assert_int_equal(b.params.items[0].rows[1], 4);
    close_bench(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_residual_block_is_one_norm),
        cmocka_unit_test(two_norms_are_summed_without_an_activation),
        cmocka_unit_test(a_norm_goes_into_the_convolution_in_inference),
        cmocka_unit_test(a_norm_stays_an_op_where_others_read_the_convolution),
        cmocka_unit_test(a_sum_behind_a_norm_may_have_a_relu_and_other_readers),
        cmocka_unit_test(many_readers_are_fanned_out_in_training_alone),
        cmocka_unit_test(a_convolution_does_not_add_to_what_it_reads),
        cmocka_unit_test(more_values_than_an_op_reads_are_concatenated_in_parts),
        cmocka_unit_test(channels_that_a_stride_selects_are_split),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
