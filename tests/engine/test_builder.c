/* What a builder hands over is checked when it is described: each mistake is a sentence, and
 * nothing is read or written past its end. */
#include "support.h"

#include "engine/executor.h"
#include "models/registry.h"

static const struct xt_normalise reference = {{0, 0, 0}, {1, 1, 1}};

struct bench {
    struct xt_device device;
    struct xt_params params;
    struct xt_graph *graph;
    struct xt_err err;
};

static void open_graph(struct bench *b, enum xt_dtype dtype)
{
    *b = (struct bench){0};
    if (xt_device_open(&b->device, "cpu", 1, &b->err))
        fail_msg("%s", b->err.text);
    struct xt_graph_options options = {
        .device = &b->device, .params = &b->params, .batch = 2, .training = true, .dtype = dtype};
    if (xt_graph_create(&b->graph, &options, &b->err))
        fail_msg("%s", b->err.text);
}

static void close_graph(struct bench *b)
{
    xt_graph_destroy(b->graph);
    xt_params_clear(&b->params);
    xt_device_close(&b->device);
}

/* Planning what failed while it was described is refused with that sentence. */
static void assert_refused(struct bench *b, struct xt_tensor *logits, enum xt_status status,
                           const char *part)
{
    struct xt_err err = {0};
    assert_int_equal(xt_graph_plan(b->graph, logits, &err), status);
    support_assert_error(&err, status, part);
    close_graph(b);
}

static struct xt_tensor *conv(struct bench *b, struct xt_tensor *in, struct xt_conv_spec spec)
{
    return xt_graph_conv(b->graph, in, &spec);
}

static struct xt_tensor *stem(struct bench *b)
{
    return conv(b, xt_graph_input(b->graph, 8, 24, 3, &reference),
                (struct xt_conv_spec){
                    .name = "stem", .channels = 4, .kernel_h = 8, .kernel_w = 1, .bias = true});
}

/* Logits of 24 columns, for a loss that reads as many as the network says it has. */
static struct xt_value *describe(struct xt_net *net, const struct xt_model_info *model,
                                 const struct xt_model_options *options)
{
    (void)model;
    return xt_net_conv(
        net, xt_net_input(net, 8, 24, 3),
        &(struct xt_net_conv){
            .name = "head", .bias = true, .channels = options->classes, .kernel = {8, 1}});
}

/* NULL: taken. */
static void check_model(int time_steps, const char *part)
{
    struct bench b;
    const struct xt_model_info model = {
        .name = "wrong", .time_steps = time_steps, .describe = describe};
    open_graph(&b, XT_F32);
    struct xt_tensor *logits =
        xt_model_describe(&model, b.graph, &(struct xt_model_options){.classes = 5});
    assert_int_equal(logits != NULL, part == NULL);
    if (part)
        assert_refused(&b, logits, XT_ERR_RUN, part);
    else
        close_graph(&b);
}

static void logits_of_other_columns_than_time_steps_are_refused(void **state)
{
    (void)state;
    check_model(24, NULL);
    check_model(40, "24 columns and 5 classes, but the loss reads 1, 40 and 5");
    check_model(0, "24 columns and 5 classes, but the loss reads 1, 1 and 5");
}

static struct xt_value *of_four_classes(struct xt_net *net, const struct xt_model_info *model,
                                        const struct xt_model_options *options)
{
    (void)options;
    return describe(net, model, &(struct xt_model_options){.classes = 4});
}

static void logits_of_other_classes_are_refused(void **state)
{
    (void)state;
    struct bench b;
    const struct xt_model_info model = {
        .name = "wrong", .time_steps = 24, .describe = of_four_classes};
    open_graph(&b, XT_F32);
    assert_null(xt_model_describe(&model, b.graph, &(struct xt_model_options){.classes = 5}));
    assert_refused(&b, NULL, XT_ERR_RUN, "24 columns and 4 classes");
}

static void a_float32_convolution_of_a_bf16_tensor_is_refused(void **state)
{
    (void)state;
    struct bench b;
    open_graph(&b, XT_BF16);
    struct xt_tensor *x = conv(&b, stem(&b),
                               (struct xt_conv_spec){.name = "head",
                                                     .channels = 4,
                                                     .kernel_h = 1,
                                                     .kernel_w = 1,
                                                     .why_f32 = "the loss reads it"});
    assert_null(x);
    assert_refused(&b, x, XT_ERR_RUN,
                   "head stays float32 (the loss reads it), but the tensor stem");
}

static void logits_in_bf16_are_refused(void **state)
{
    (void)state;
    struct bench b;
    open_graph(&b, XT_BF16);
    assert_refused(&b, stem(&b), XT_ERR_RUN, "the logits stem are in bf16");
}

static void an_output_of_no_channels_is_refused(void **state)
{
    (void)state;
    struct bench b;
    open_graph(&b, XT_F32);
    struct xt_tensor *x =
        conv(&b, stem(&b),
             (struct xt_conv_spec){.name = "none", .channels = 0, .kernel_h = 1, .kernel_w = 1});
    assert_null(x);
    assert_refused(&b, x, XT_ERR_USAGE, "none: the output would be 2 samples of 1x24 with 0");
}

static void a_pool_larger_than_its_input_is_refused(void **state)
{
    (void)state;
    struct bench b;
    open_graph(&b, XT_F32);
    struct xt_norm_spec spec = {
        .name = "norm",
        .relu = true,
        .max = {.kernel_h = 3, .kernel_w = 3, .stride_h = 1, .stride_w = 1}};
    struct xt_tensor *x = xt_graph_norm(b.graph, stem(&b), &spec).max;
    assert_null(x);
    assert_refused(&b, x, XT_ERR_USAGE, "norm max: the output would be 2 samples of 0x22");
}

static void groups_that_do_not_divide_the_channels_are_refused(void **state)
{
    (void)state;
    struct bench b;
    open_graph(&b, XT_F32);
    struct xt_tensor *x =
        conv(&b, stem(&b),
             (struct xt_conv_spec){
                 .name = "groups", .channels = 4, .kernel_h = 1, .kernel_w = 1, .groups = 3});
    assert_null(x);
    assert_refused(&b, x, XT_ERR_RUN, "groups: 3 groups do not divide its 4 input and 4 output");
}

static void two_readers_of_a_gelu_are_refused(void **state)
{
    (void)state;
    struct bench b;
    open_graph(&b, XT_F32);
    struct xt_tensor *x =
        xt_graph_eltwise(b.graph, stem(&b), &(struct xt_activation){.kind = XT_ACT_GELU}, "gelu");
    struct xt_conv_spec spec = {.name = "first", .channels = 4, .kernel_h = 1, .kernel_w = 1};
    assert_non_null(xt_graph_conv(b.graph, x, &spec));
    spec.name = "second";
    struct xt_tensor *second = xt_graph_conv(b.graph, x, &spec);
    assert_null(second);
    assert_refused(&b, second, XT_ERR_RUN, "tensor gelu has more than 1 reader");
}

static void what_is_computed_of_constants_has_no_gradient(void **state)
{
    static const float numbers[] = {1, 2, 3, 4};
    const struct xt_constant_spec constant = {
        .name = "numbers", .h = 1, .w = 1, .c = 4, .numbers = numbers, .count = 4};
    const struct xt_slice_spec half = {"half", XT_AXIS_C, 0, 1, 2};
    const struct xt_parameter_spec parameter = {.name = "scale", .h = 1, .w = 1, .c = 2};
    struct bench b;
    (void)state;
    open_graph(&b, XT_F32);
    struct xt_tensor *part = xt_graph_slice(b.graph, xt_graph_constant(b.graph, &constant), &half);
    assert_false(part->wants_grad);
    struct xt_tensor *scaled =
        xt_graph_mul(b.graph, part, xt_graph_parameter(b.graph, &parameter), "scaled");
    assert_true(scaled->wants_grad);
    close_graph(&b);
}

/* A last op that gives its output's gradient the memory of its input's. */
static void logits_keep_their_memory_until_the_loss_has_written_their_gradient(void **state)
{
    (void)state;
    struct bench b;
    open_graph(&b, XT_F32);
    struct xt_tensor *logits = xt_graph_add(b.graph, stem(&b), stem(&b), "logits");
    assert_int_equal(xt_graph_plan(b.graph, logits, &b.err), XT_OK);
    const struct xt_buffer *value = logits->value;
    const struct xt_buffer *grad = logits->grad[0];
    assert_true(grad->first <= b.graph->op_count && value->last >= b.graph->op_count);
    assert_true(value->offset + value->bytes <= grad->offset ||
                grad->offset + grad->bytes <= value->offset);
    close_graph(&b);
}

static void a_residual_of_another_shape_is_refused(void **state)
{
    (void)state;
    struct bench b;
    open_graph(&b, XT_F32);
    struct xt_tensor *x =
        conv(&b, stem(&b),
             (struct xt_conv_spec){
                 .name = "narrow", .channels = 4, .kernel_h = 1, .kernel_w = 1, .relu = true});
    struct xt_tensor *y = conv(
        &b, x, (struct xt_conv_spec){.name = "wide", .channels = 6, .kernel_h = 1, .kernel_w = 1});
    struct xt_norm_spec spec = {.name = "norm", .full = true, .residual = x};
    struct xt_tensor *out = xt_graph_norm(b.graph, y, &spec).full;
    assert_null(out);
    assert_refused(&b, out, XT_ERR_RUN, "norm: the residual narrow has another shape");
}

/* The first failure is the one reported, whatever is described after it. */
static void what_follows_a_failure_changes_nothing(void **state)
{
    (void)state;
    struct bench b;
    open_graph(&b, XT_F32);
    struct xt_conv_spec tall = {.name = "tall", .channels = 4, .kernel_h = 99, .kernel_w = 1};
    struct xt_conv_spec next = {.name = "next", .channels = 0, .kernel_h = 1, .kernel_w = 1};
    struct xt_tensor *x = xt_graph_conv(b.graph, stem(&b), &tall);
    x = xt_graph_eltwise(b.graph, x, &(struct xt_activation){.kind = XT_ACT_GELU}, "gelu");
    x = xt_graph_dropout(b.graph, x, 0, "dropout");
    x = xt_graph_conv(b.graph, x, &next);
    assert_null(x);
    assert_refused(&b, x, XT_ERR_USAGE, "tall: an input of 1x24 is too small");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(logits_of_other_columns_than_time_steps_are_refused),
        cmocka_unit_test(logits_of_other_classes_are_refused),
        cmocka_unit_test(a_float32_convolution_of_a_bf16_tensor_is_refused),
        cmocka_unit_test(logits_in_bf16_are_refused),
        cmocka_unit_test(an_output_of_no_channels_is_refused),
        cmocka_unit_test(a_pool_larger_than_its_input_is_refused),
        cmocka_unit_test(groups_that_do_not_divide_the_channels_are_refused),
        cmocka_unit_test(two_readers_of_a_gelu_are_refused),
        cmocka_unit_test(what_is_computed_of_constants_has_no_gradient),
        cmocka_unit_test(logits_keep_their_memory_until_the_loss_has_written_their_gradient),
        cmocka_unit_test(a_residual_of_another_shape_is_refused),
        cmocka_unit_test(what_follows_a_failure_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
