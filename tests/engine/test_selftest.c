/* The self-test finds nothing on this machine's CPU, and finds each op that is made to go wrong. */
#include "support.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/backend.h"
#include "engine/executor.h"
#include "engine/ops/ops.h"
#include "engine/selftest/selftest.h"
#include "engine/selftest/whole.h"

/* Spoils what one op reads, just before it runs. */
struct saboteur {
    int op;        /* index; -1: nothing */
    bool training; /* in which graph */
    bool backward;
    bool not_a_number;
    bool spoiled;
    char name[64];
    uint8_t other_pixels[3 * 13 * 15 * 3];
    int ops[2]; /* that the inference and the training graph have */
    const struct xt_op_kind *kinds[2][XT_OPS_MAX];
};

static void spoil_buffer(struct saboteur *saboteur, struct xt_graph *graph,
                         const struct xt_tensor *tensor, const struct xt_buffer *buffer)
{
    size_t count = xt_tensor_count(tensor);
    struct xt_err err = {0};
    float *values = malloc(count * sizeof *values);
    assert_non_null(values);
    assert_int_equal(xt_graph_read_back(graph, buffer, tensor->dtype, values, count, &err), XT_OK);
    for (size_t i = 0; i < count; i += 2)
        values[i] = saboteur->not_a_number ? (float)NAN : -values[i];
    assert_int_equal(xt_graph_write(graph, buffer, tensor->dtype, values, count, &err), XT_OK);
    free(values);
    saboteur->spoiled = true;
}

static void spoil_param(struct saboteur *saboteur, struct xt_graph *graph, int index)
{
    struct xt_params *params = graph->options.params;
    float *values = xt_params_value(params, &params->items[index]);
    for (size_t i = 0; i < params->items[index].floats; i += 2)
        values[i] = -values[i];
    params->version++;
    saboteur->spoiled = true;
}

/* A constant's, on the device. */
static void spoil_numbers(struct saboteur *saboteur, struct xt_graph *graph, const struct xt_op *op)
{
    struct xt_tensor numbers = *op->outputs[0];
    numbers.dtype = XT_F32;
    for (int i = 0; i < graph->buffer_count; i++)
        if (strcmp(graph->buffers[i]->tensor, op->name) == 0 &&
            strcmp(graph->buffers[i]->kind, "numbers") == 0)
            spoil_buffer(saboteur, graph, &numbers, graph->buffers[i]);
}

static const struct xt_tensor *output_of(const struct xt_op *op)
{
    for (int i = 0; i < op->output_count; i++)
        if (op->outputs[i])
            return op->outputs[i];
    fail_msg("%s writes nothing", op->name);
    return NULL;
}

static void spoil(void *context, struct xt_graph *graph, const struct xt_op *op, bool backward)
{
    struct saboteur *saboteur = context;
    saboteur->ops[graph->options.training] = graph->op_count;
    saboteur->kinds[graph->options.training][op->index] = op->kind;
    if (op->index != saboteur->op || backward != saboteur->backward ||
        graph->options.training != saboteur->training)
        return;
    strcpy(saboteur->name, op->name);
    if (op->kind == &xt_kind_input) {
        graph->pass.pixels = saboteur->other_pixels;
        saboteur->spoiled = true;
    } else if (backward) {
        spoil_buffer(saboteur, graph, output_of(op), output_of(op)->grad[0]);
    } else if (op->kind == &xt_kind_parameter) {
        spoil_param(saboteur, graph, op->params[0]);
    } else if (op->kind == &xt_kind_constant) {
        spoil_numbers(saboteur, graph, op);
    } else {
        spoil_buffer(saboteur, graph, xt_op_in(op, 0), xt_op_in(op, 0)->value);
    }
}

/* What is run: a type, or inference in int8. */
struct subject {
    enum xt_dtype dtype;
    bool int8, thorough, over_batch;
    const struct xt_backend *backend;
    struct xt_selftest_network network; /* instead of the small one */
    int batch;                          /* instead of 3 */
};

static struct xt_selftest run(struct subject subject, struct saboteur *saboteur)
{
    struct xt_device device;
    struct xt_err err = {0};
    struct xt_selftest result = {0};
    if (subject.dtype == XT_BF16)
        support_need_bf16();
    if (xt_device_open(&device, "cpu", saboteur ? 1 : 2, &err))
        fail_msg("%s", err.text);
    struct xt_selftest_options options = {.device = &device,
                                          .network = subject.network.describe ? subject.network
                                                     : subject.over_batch
                                                         ? xt_selftest_small_over_batch
                                                         : xt_selftest_small,
                                          .batch = subject.batch ? subject.batch : 3,
                                          .dtype = subject.dtype,
                                          .int8 = subject.int8,
                                          .backend = subject.backend,
                                          .thorough = subject.thorough,
                                          .before = saboteur ? spoil : NULL,
                                          .context = saboteur};
    if (xt_selftest_run(&result, &options, &err) ||
        (!saboteur && xt_selftest_whole(&result, &options, &err)))
        fail_msg("%s", err.text);
    xt_device_close(&device);
    return result;
}

static struct xt_selftest assert_right(struct subject subject)
{
    struct xt_err err = {0};
    struct xt_selftest result = run(subject, NULL);
    if (xt_selftest_verdict(&result, "the CPU", &err))
        fail_msg("%s", err.text);
    return result;
}

static void assert_all_right(struct subject subject, int rows)
{
    for (int over_batch = 0; over_batch < 2; over_batch++) {
        subject.over_batch = over_batch;
        assert_true(assert_right(subject).row_count >= rows);
    }
}

static void all_ops_are_right_in_f32(void **state)
{
    (void)state;
    assert_all_right((struct subject){.dtype = XT_F32, .thorough = true}, 15);
}

static void all_ops_are_right_in_bf16(void **state)
{
    (void)state;
    assert_all_right((struct subject){.dtype = XT_BF16, .thorough = true}, 15);
}

static void all_ops_are_right_in_int8(void **state)
{
    (void)state;
    assert_all_right((struct subject){.int8 = true}, 8);
}

/* What an XPU runs, on this CPU: the same descriptions without the CPU's own loops. */
static void all_ops_are_right_by_their_programs_alone(void **state)
{
    (void)state;
    const struct xt_backend *programs = &xt_backend_programs;
    assert_all_right((struct subject){.dtype = XT_F32, .thorough = true, .backend = programs}, 15);
    assert_all_right((struct subject){.int8 = true, .backend = programs}, 8);
    if (xt_device_cpu_has_bf16())
        assert_all_right((struct subject){.dtype = XT_BF16, .backend = programs}, 15);
}

/* What the networks below have in common: how their pixels are normalised, and a last layer of as
 * many classes over the whole image. */
static const struct xt_normalise halves = {{127.5F, 127.5F, 127.5F}, {0.01F, 0.01F, 0.01F}};

static struct xt_tensor *head(struct xt_graph *graph, struct xt_tensor *x, int classes, int side)
{
    const struct xt_conv_spec conv = {.name = "head",
                                      .channels = classes,
                                      .kernel_h = side,
                                      .kernel_w = side,
                                      .why_f32 = "its logits go into the loss"};
    return xt_graph_conv(graph, x, &conv);
}

/* Grey images; convolutions that do not read the first pixel, and write some from padding alone; a
 * clip whose lower end is above 0; a product with a view of the same tensor. */
static struct xt_tensor *describe_odd(struct xt_graph *graph, const void *context)
{
    static const struct xt_activation above = {XT_ACT_CLIP, 0.5F, FLT_MAX};
    struct xt_conv_spec conv = {
        .name = "gaps", .channels = 6, .kernel_h = 1, .kernel_w = 1, .pad_h = 1, .pad_w = 1};
    (void)context;
    conv.stride_h = conv.stride_w = 2;
    struct xt_tensor *x = xt_graph_conv(graph, xt_graph_input(graph, 9, 9, 1, &halves), &conv);
    conv.name = "around";
    conv.stride_h = conv.stride_w = 1;
    conv.pad_h = conv.pad_w = 2;
    x = xt_graph_conv(graph, x, &conv); /* 10x10 */
    x = xt_graph_norm(graph, x,
                      &(struct xt_norm_spec){.name = "clipped", .activation = &above, .full = true})
            .full;
    struct xt_tensor *view = xt_graph_reshape(graph, x, 10, 10, 6, "view");
    x = xt_graph_matmul(graph, x, view,
                        &(struct xt_matmul_spec){.name = "product", .transpose = true});
    return head(graph, x, 10, 1);
}

static void nothing_is_found_where_numbers_are_not_read_or_clipped(void **state)
{
    (void)state;
    assert_all_right((struct subject){.dtype = XT_F32, .network = {.describe = describe_odd}}, 4);
}

/* Each row with an op that is off names the one that was spoiled. */
static void assert_found(const struct xt_selftest *result, const struct saboteur *saboteur)
{
    struct xt_err err = {0};
    if (!result->wrong)
        fail_msg("what %s reads was spoiled, and nothing was found", saboteur->name);
    for (int i = 0; i < result->row_count; i++)
        if (result->rows[i].wrong &&
            strncmp(result->rows[i].where, saboteur->name, strlen(saboteur->name)) != 0)
            fail_msg("%s was spoiled, %s was found", saboteur->name, result->rows[i].where);
    assert_int_equal(xt_selftest_verdict(result, "the CPU", &err), XT_ERR_RUN);
    assert_non_null(strstr(err.text, saboteur->name));
}

/* Whether two ops before it are of its kind. */
static bool is_third(const struct xt_op_kind *const *kinds, int op)
{
    int same = 0;
    for (int i = 0; i < op; i++)
        same += kinds[i] == kinds[op];
    return same >= 2;
}

static void spoil_each(struct subject subject, const struct saboteur *look, bool training,
                       bool backward)
{
    int ops = look->ops[training];
    assert_true(ops > 12);
    /* The input's, op 0, and constants' have no backward pass. */
    for (int i = backward ? 1 : 0; i < ops; i++) {
        struct saboteur saboteur = {.op = i, .training = training, .backward = backward};
        if (is_third(look->kinds[training], i) ||
            (backward && look->kinds[training][i] == &xt_kind_constant))
            continue;
        struct xt_selftest result = run(subject, &saboteur);
        assert_true(saboteur.spoiled);
        assert_found(&result, &saboteur);
    }
}

/* Many channels of which each has 128 numbers: the first of some is far from the others, to which
 * the sums for the variance are relative. */
static struct xt_tensor *describe_few_pixels(struct xt_graph *graph, const void *context)
{
    struct xt_conv_spec conv = {.name = "stem", .channels = 4096, .kernel_h = 1, .kernel_w = 1};
    (void)context;
    struct xt_tensor *x = xt_graph_conv(graph, xt_graph_input(graph, 8, 8, 3, &halves), &conv);
    x = xt_graph_norm(graph, x, &(struct xt_norm_spec){.name = "norm", .full = true}).full;
    return head(graph, x, 1, 8);
}

static void norms_of_few_pixels_are_within_their_bounds(void **state)
{
    (void)state;
    assert_right((struct subject){.network = {.describe = describe_few_pixels}, .batch = 2});
}

/* A convolution of numbers that all samples have in common, as encodings of positions are. */
static struct xt_tensor *describe_positions(struct xt_graph *graph, const void *context)
{
    static const float half = 0.5F;
    const struct xt_constant_spec numbers = {
        .name = "numbers", .h = 8, .w = 8, .c = 3, .numbers = &half, .count = 1};
    struct xt_conv_spec conv = {
        .name = "stem", .channels = 32, .kernel_h = 1, .kernel_w = 1, .bias = true};
    (void)context;
    struct xt_tensor *x = xt_graph_conv(graph, xt_graph_input(graph, 8, 8, 3, &halves), &conv);
    conv.name = "places";
    x = xt_graph_add(graph, x, xt_graph_conv(graph, xt_graph_constant(graph, &numbers), &conv),
                     "sum");
    return head(graph, x, 10, 8);
}

/* Scores of which one is masked by the number. */
static struct xt_tensor *describe_mask(struct xt_graph *graph, const void *context)
{
    const float numbers[] = {0, *(const float *)context, 0, 0};
    const struct xt_constant_spec mask = {
        .name = "mask", .h = 1, .w = 1, .c = 4, .numbers = numbers, .count = 4};
    struct xt_conv_spec conv = {.name = "stem", .channels = 4, .kernel_h = 8, .kernel_w = 8};
    struct xt_tensor *x = xt_graph_conv(graph, xt_graph_input(graph, 8, 8, 3, &halves), &conv);
    x = xt_graph_add(graph, x, xt_graph_constant(graph, &mask), "masked");
    x = xt_graph_cast(graph, xt_graph_softmax(graph, x, "weights"), XT_F32, "numbers");
    return head(graph, x, 10, 1);
}

/* bf16 would round float32's lowest number to -infinity. */
static void masks_are_right_in_each_type(void **state)
{
    static const float masks[] = {-FLT_MAX, -INFINITY};
    (void)state;
    for (int i = 0; i < 4; i++)
        assert_right(
            (struct subject){.dtype = i < 2 ? XT_F32 : XT_BF16,
                             .network = {.describe = describe_mask, .context = &masks[i % 2]}});
}

/* Most windows have the same maximum, whose gradients are added up in bf16. */
static struct xt_tensor *describe_wide_pool(struct xt_graph *graph, const void *context)
{
    struct xt_conv_spec conv = {.name = "stem", .channels = 32, .kernel_h = 1, .kernel_w = 1};
    const struct xt_pool_spec pool = {.name = "pool",
                                      .kernel_h = 13,
                                      .kernel_w = 13,
                                      .stride_h = 1,
                                      .stride_w = 1,
                                      .pad_top = 6,
                                      .pad_left = 6,
                                      .pad_bottom = 6,
                                      .pad_right = 6};
    (void)context;
    struct xt_tensor *x = xt_graph_conv(graph, xt_graph_input(graph, 16, 16, 3, &halves), &conv);
    x = xt_graph_cast(graph, xt_graph_window_pool(graph, x, &pool), XT_F32, "numbers");
    return head(graph, x, 10, 16);
}

static void pools_of_many_windows_are_within_their_bounds(void **state)
{
    (void)state;
    assert_right((struct subject){
        .dtype = XT_BF16, .network = {.describe = describe_wide_pool}, .batch = 4});
}

/* One pixel, of which the kernel's middle alone takes a part. */
static struct xt_tensor *describe_wide_stride(struct xt_graph *graph, const void *context)
{
    struct xt_conv_spec conv = {.name = "stem", .channels = 32, .kernel_h = 8, .kernel_w = 8};
    (void)context;
    struct xt_tensor *x = xt_graph_conv(graph, xt_graph_input(graph, 8, 8, 3, &halves), &conv);
    conv = (struct xt_conv_spec){.name = "wide",
                                 .channels = 32,
                                 .groups = 2,
                                 .kernel_h = 3,
                                 .kernel_w = 3,
                                 .stride_h = 2,
                                 .stride_w = 2,
                                 .pad_h = 1,
                                 .pad_w = 1};
    x = xt_graph_cast(graph, xt_graph_conv(graph, x, &conv), XT_F32, "numbers");
    return head(graph, x, 10, 1);
}

static void strides_wider_than_the_image_are_right(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++)
        assert_right((struct subject){.dtype = i ? XT_BF16 : XT_F32,
                                      .network = {.describe = describe_wide_stride},
                                      .batch = 2});
}

/* Each op may be right while the order in which a run computes its samples is not. */
static void a_pass_by_slices_is_that_of_its_ops(void **state)
{
    const struct subject subject = {.network = {.describe = describe_positions}, .batch = 8};
    struct xt_selftest result = assert_right(subject);
    int passes = 0;
    (void)state;
    for (int i = 0; i < result.row_count; i++)
        passes += strcmp(result.rows[i].kind, "whole pass") == 0 && result.rows[i].ops == 1;
    assert_int_equal(passes, 2); /* inference with constants is never by slices */
}

static void each_kind_of_op_that_goes_wrong_is_named(void **state)
{
    (void)state;
    const struct subject bf16 = {.dtype = XT_BF16};
    struct saboteur look = {.op = -1};
    run(bf16, &look);
    spoil_each(bf16, &look, true, false);
    spoil_each(bf16, &look, true, true);
    spoil_each(bf16, &look, false, false);
}

static void each_kind_of_op_that_goes_wrong_in_int8_is_named(void **state)
{
    (void)state;
    const struct subject int8 = {.int8 = true};
    struct saboteur look = {.op = -1};
    run(int8, &look);
    spoil_each(int8, &look, false, false);
}

static void what_is_not_a_number_is_off(void **state)
{
    (void)state;
    struct saboteur saboteur = {.op = 4, .training = true, .backward = true, .not_a_number = true};
    struct xt_selftest result = run((struct subject){.dtype = XT_F32}, &saboteur);
    assert_true(saboteur.spoiled);
    assert_found(&result, &saboteur);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_ops_are_right_in_f32),
        cmocka_unit_test(all_ops_are_right_in_bf16),
        cmocka_unit_test(all_ops_are_right_in_int8),
        cmocka_unit_test(all_ops_are_right_by_their_programs_alone),
        cmocka_unit_test(nothing_is_found_where_numbers_are_not_read_or_clipped),
        cmocka_unit_test(norms_of_few_pixels_are_within_their_bounds),
        cmocka_unit_test(masks_are_right_in_each_type),
        cmocka_unit_test(pools_of_many_windows_are_within_their_bounds),
        cmocka_unit_test(strides_wider_than_the_image_are_right),
        cmocka_unit_test(a_pass_by_slices_is_that_of_its_ops),
        cmocka_unit_test(each_kind_of_op_that_goes_wrong_is_named),
        cmocka_unit_test(each_kind_of_op_that_goes_wrong_in_int8_is_named),
        cmocka_unit_test(what_is_not_a_number_is_off),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
