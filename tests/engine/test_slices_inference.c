/* A fused pass by slices of a few samples against the same one op by op. */
#include "slices.h"

#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "engine/ranges.h"

struct pass {
    const char *model;
    bool gelu; /* a small network with it, of that one's options */
    enum xt_dtype dtype;
    bool int8, over_batch, by_slices;
    bool floats; /* its pictures are normalised already */
    bool lower_bound;
    int batch, threads;
    /* its results */
    int workers;
    size_t bytes;
    float *logits;
    size_t count;
};

/* Random pictures, as bytes or as numbers. */
static void forward(struct network *net, const struct pass *pass)
{
    size_t count = xt_tensor_count(net->graph->ops[0]->outputs[0]);
    uint8_t *pixels = malloc(count);
    float *floats = malloc(count * sizeof *floats);
    assert_true(pixels && floats);
    for (size_t i = 0; i < count; i++) {
        pixels[i] = (uint8_t)xt_rng_at(7, 0, i);
        floats[i] = ((float)pixels[i] - 127.5f) / 128;
    }
    net->graph->pass = (struct xt_graph_pass){.count = pass->batch};
    if (pass->floats)
        net->graph->pass.floats = floats;
    else
        net->graph->pass.pixels = pixels;
    for (int turn = 0; turn < 2; turn++) {
        ok(net, xt_graph_forward(net->graph, &net->err));
        if (pass->lower_bound)
            ok(net, xt_graph_convolutions_alone(net->graph, false, &net->err));
    }
    if (pass->lower_bound)
        ok(net, xt_graph_forward(net->graph, &net->err));
    free(pixels);
    free(floats);
}

/* A depthwise convolution, and GELU behind it. */
static struct xt_tensor *describe_gelu(struct xt_graph *graph,
                                       const struct xt_model_options *options)
{
    struct xt_conv_spec wide = {.name = "wide", .channels = 16, .kernel_h = 1, .kernel_w = 1};
    struct xt_conv_spec depthwise = {.name = "depthwise",
                                     .channels = 16,
                                     .kernel_h = 3,
                                     .kernel_w = 3,
                                     .pad_h = 1,
                                     .pad_w = 1,
                                     .groups = 16};
    struct xt_conv_spec head = {.name = "head", .channels = 10, .kernel_h = 1, .kernel_w = 1};
    struct xt_tensor *x = xt_graph_input(graph, 24, 40, 3, &options->normalise);
    x = xt_graph_conv(graph, x, &wide);
    x = xt_graph_conv(graph, x, &depthwise);
    x = xt_graph_eltwise(graph, x, &(struct xt_activation){.kind = XT_ACT_GELU}, "gelu");
    return xt_graph_conv(graph, x, &head);
}

static void build(struct network *net, const struct pass *pass,
                  const struct xt_graph_options *options)
{
    const struct xt_model_info *model = xt_model_find(pass->model);
    struct xt_model_options of_model = small_images(model);
    of_model.context_over_batch = pass->over_batch;
    ok(net, xt_graph_create(&net->graph, options, &net->err));
    struct xt_tensor *logits = pass->gelu ? describe_gelu(net->graph, &of_model)
                                          : xt_model_describe(model, net->graph, &of_model);
    ok(net, xt_graph_build(net->graph, logits, &net->err));
    ok(net, xt_params_initialise(&net->params, &net->device, 1, model->initial_bias, &net->err));
}

/* int8's ranges, of a pass in float32. */
static void find_ranges(struct network *net, const struct pass *pass,
                        const struct xt_graph_options *options)
{
    struct xt_graph_options op_by_op = *options;
    struct xt_recording *recording = NULL;
    op_by_op.by_slices = false;
    build(net, pass, &op_by_op);
    ok(net, xt_recording_create(&recording, &net->err));
    net->graph->recording = recording;
    forward(net, pass);
    ok(net, xt_recording_ranges(recording, net->graph, &net->ranges, &net->err));
    xt_recording_destroy(recording);
    xt_graph_destroy(net->graph);
    xt_params_clear(&net->params);
    net->params = (struct xt_params){0};
}

static void open_network(struct network *net, const struct pass *pass)
{
    struct xt_graph_options options = {.device = &net->device,
                                       .params = &net->params,
                                       .batch = pass->batch,
                                       .fuse = true,
                                       .dtype = pass->dtype,
                                       .by_slices = pass->by_slices,
                                       .lower_bound = pass->lower_bound};
    if (pass->int8) {
        find_ranges(net, pass, &options);
        options.int8 = &net->ranges;
    }
    build(net, pass, &options);
}

static void run(struct pass *pass)
{
    struct network net = {.graph = NULL};
    if (pass->dtype == XT_BF16)
        support_need_bf16();
    ok(&net, xt_device_open(&net.device, "cpu", pass->threads, &net.err));
    open_network(&net, pass);
    forward(&net, pass);
    pass->workers = net.graph->slices.workers;
    pass->bytes = net.graph->plan.bytes;
    pass->count = xt_tensor_count(net.graph->logits);
    pass->logits = malloc(pass->count * sizeof *pass->logits);
    assert_non_null(pass->logits);
    memcpy(pass->logits, xt_graph_logits(net.graph), pass->count * sizeof *pass->logits);
    close_network(&net);
}

static void both_ways_agree(struct pass pass, int workers, double most)
{
    struct pass slices = pass;
    slices.by_slices = true;
    run(&pass);
    run(&slices);
    assert_int_equal(pass.workers, 0);
    assert_int_equal(slices.workers, workers);
    double apart = distance(pass.logits, slices.logits, pass.count);
    if (!(apart <= most))
        print_error("the logits of %s are %g apart\n", pass.model, apart);
    assert_true(apart <= most);
    assert_true(slices.bytes <= pass.bytes);
    free(pass.logits);
    free(slices.logits);
}

static void in_float32(void **state)
{
    (void)state;
    struct pass pass = {.model = "lprnet", .dtype = XT_F32, .batch = 16, .threads = 2};
    both_ways_agree(pass, 2, 1e-5);
    pass.floats = true;
    both_ways_agree(pass, 2, 1e-5);
    pass.batch = 5;
    pass.threads = 1;
    both_ways_agree(pass, 1, 1e-5);
}

static void in_bf16(void **state)
{
    (void)state;
    both_ways_agree((struct pass){.model = "lprnet", .dtype = XT_BF16, .batch = 24, .threads = 3},
                    3, 0.02);
}

static void in_int8(void **state)
{
    (void)state;
    struct pass pass = {
        .model = "lprnet", .dtype = XT_F32, .int8 = true, .batch = 32, .threads = 2};
    both_ways_agree(pass, 2, 1e-5);
    pass.floats = true;
    both_ways_agree(pass, 2, 1e-5);
}

/* The mean over the batch stands between two segments. */
static void with_a_context_over_the_batch(void **state)
{
    (void)state;
    both_ways_agree(
        (struct pass){
            .model = "lprnet", .dtype = XT_F32, .over_batch = true, .batch = 8, .threads = 2},
        2, 1e-5);
}

/* Squeeze-and-excitation's activations and products, and residuals that are not part of a
 * convolution, run by slices with the rest. */
static void of_depthwise_convolutions(void **state)
{
    static const char *const models[] = {"mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0"};
    (void)state;
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        struct pass pass = {.model = models[i], .dtype = XT_F32, .batch = 4, .threads = 2};
        both_ways_agree(pass, 2, 1e-5);
        pass.int8 = true;
        both_ways_agree(pass, 2, 1e-5);
        pass.batch = 6;
        pass.threads = 3;
        both_ways_agree(pass, 3, 1e-5);
    }
}

/* GELU by loops. */
static void of_a_depthwise_convolution_and_gelu(void **state)
{
    (void)state;
    both_ways_agree(
        (struct pass){.model = "resnet18", .gelu = true, .dtype = XT_F32, .batch = 4, .threads = 2},
        2, 1e-5);
}

static void of_depthwise_convolutions_in_bf16(void **state)
{
    (void)state;
    both_ways_agree(
        (struct pass){.model = "efficientnet_b0", .dtype = XT_BF16, .batch = 4, .threads = 2}, 2,
        0.05);
}

/* All threads work on one image; a network whose weights fill the cache goes op by op. */
static void not_where_it_does_not_pay(void **state)
{
    (void)state;
    both_ways_agree((struct pass){.model = "lprnet", .dtype = XT_F32, .batch = 1, .threads = 2}, 0,
                    0);
    both_ways_agree((struct pass){.model = "resnet50", .dtype = XT_F32, .batch = 4, .threads = 2},
                    0, 0);
}

/* Such a graph goes op by op; to run them between two passes changes nothing. */
static void the_convolutions_alone_disturb_no_pass(void **state)
{
    (void)state;
    struct pass passes[2];
    for (int i = 0; i < 2; i++) {
        passes[i] = (struct pass){.model = "lprnet",
                                  .dtype = XT_F32,
                                  .by_slices = true,
                                  .lower_bound = i == 1,
                                  .batch = 8,
                                  .threads = 2};
        run(&passes[i]);
    }
    assert_memory_equal(passes[0].logits, passes[1].logits,
                        passes[0].count * sizeof *passes[0].logits);
    free(passes[0].logits);
    free(passes[1].logits);
}

/* A worker keeps a slice of what is between the ops: many images take little more than few. */
static void memory_does_not_grow_with_the_batch(void **state)
{
    (void)state;
    struct pass few = {
        .model = "lprnet", .dtype = XT_F32, .by_slices = true, .batch = 8, .threads = 2};
    struct pass many = few;
    many.batch = 64;
    run(&few);
    run(&many);
    assert_true(many.bytes < few.bytes + few.bytes / 10);
    free(few.logits);
    free(many.logits);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_float32),
        cmocka_unit_test(in_bf16),
        cmocka_unit_test(in_int8),
        cmocka_unit_test(with_a_context_over_the_batch),
        cmocka_unit_test(of_depthwise_convolutions),
        cmocka_unit_test(of_a_depthwise_convolution_and_gelu),
        cmocka_unit_test(of_depthwise_convolutions_in_bf16),
        cmocka_unit_test(not_where_it_does_not_pay),
        cmocka_unit_test(the_convolutions_alone_disturb_no_pass),
        cmocka_unit_test(memory_does_not_grow_with_the_batch),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
