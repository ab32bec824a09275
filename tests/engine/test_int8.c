#include "reference.h"

#include "engine/ranges.h"

#define SPEC(...) ((struct xt_conv_spec){__VA_ARGS__})
#define NORM(...) ((struct xt_norm_spec){__VA_ARGS__})

/* The ranges that the fused graph in float32 has on the reference's own input. */
static void record(net_describe *describe, struct xt_ranges *ranges)
{
    struct net net = {.fuse = true};
    net_open(&net, XT_F32, false);
    net_build(&net, describe(&net));
    net_ok(&net, xt_recording_create(&net.graph->recording, &net.err));
    net_forward(&net);
    net_ok(&net, xt_recording_ranges(net.graph->recording, net.graph, ranges, &net.err));
    xt_recording_destroy(net.graph->recording);
    net_clear(&net);
}

static void open_int8(struct net *net, net_describe *describe, struct xt_ranges *ranges)
{
    record(describe, ranges);
    *net = (struct net){.fuse = true, .int8 = ranges};
    net_open(net, XT_F32, false);
    net_build(net, describe(net));
}

/* Logits within `tolerance` of reference loops in double precision. */
static void check_int8(net_describe *describe, double tolerance)
{
    struct xt_ranges ranges;
    struct net net;
    open_int8(&net, describe, &ranges);
    net_forward(&net);
    net_loss(&net);
    net_check_logits(&net, tolerance);
    net_clear(&net);
}

/* ---- one convolution, number by number ---- */

static struct xt_tensor *one_conv(struct net *net)
{
    struct xt_tensor *x = net_conv(net, net_input(net, 5, 6),
                                   SPEC(.name = "conv", .channels = 17, .kernel_h = 3,
                                        .kernel_w = 3, .pad_h = 1, .bias = true, .relu = true));
    return net_head(net, x);
}

/* What the weights and the bias of one output channel become. */
struct channel {
    double step;
    double bias;
    int weights[3 * 3 * 3];
};

static struct channel quantise_channel(struct net *net, const struct xt_tensor *in, int o)
{
    const struct net_param *weight = net_find(net, "conv", "weight");
    enum { COUNT = 3 * 3 * 3 };
    struct channel channel = {.bias = net_find(net, "conv", "bias")->value[o]};
    double largest = net_largest(weight->value + (size_t)o * COUNT, COUNT);
    channel.step = largest / 127;
    for (int i = 0; i < COUNT; i++) {
        channel.weights[i] =
            (int)lrint(weight->value[(size_t)o * COUNT + (size_t)i] / channel.step);
        channel.bias += channel.weights[i] * channel.step * (double)(in->offset * in->scale);
    }
    return channel;
}

static int source(const struct xt_tensor *in, const int8_t *q, int n, int y, int x, int c)
{
    bool inside = y >= 0 && y < in->h && x >= 0 && x < in->w;
    return inside ? q[((n * in->h + y) * in->w + x) * in->c + c] : 0;
}

static int plain_loops(const struct channel *channel, const struct xt_tensor *in,
                       const struct xt_tensor *out, int n, int y, int x)
{
    int sum = 0;
    for (int c = 0; c < 3; c++)
        for (int ky = 0; ky < 3; ky++)
            for (int kx = 0; kx < 3; kx++)
                sum += source(in, in->value->data, n, y + ky - 1, x + kx, c) *
                       channel->weights[(c * 3 + ky) * 3 + kx];
    double value = sum * channel->step * (double)in->scale + channel->bias;
    double q = nearbyint(fmax(value, 0) / (double)out->scale);
    return q > 255 ? 255 : (int)q;
}

static void a_convolution_is_the_plain_loops_in_whole_numbers(void **state)
{
    (void)state;
    struct xt_ranges ranges;
    struct net net;
    open_int8(&net, one_conv, &ranges);
    const struct xt_tensor *in = net.layers[0].out;
    const struct xt_tensor *out = net.layers[1].out;
    assert_int_equal(in->dtype, XT_S8);
    assert_int_equal(out->dtype, XT_U8);
    net.graph->pass = net.pass;
    for (int op = 0; op < 2; op++)
        net_ok(&net, xt_graph_run_op(net.graph, op, false, &net.err));
    const uint8_t *got = out->value->data;
    /* Without VNNI oneDNN halves the weights of a source with a sign. */
    const bool exact = xt_device_cpu_has_vnni();
    int apart = 0;
    int most = 0;
    for (int o = 0; o < out->c; o++) {
        struct channel channel = quantise_channel(&net, in, o);
        for (int i = 0; i < out->n * out->h * out->w; i++) {
            int n = i / (out->h * out->w);
            int wanted = plain_loops(&channel, in, out, n, i / out->w % out->h, i % out->w);
            int difference = abs(got[i * out->c + o] - wanted);
            assert_true(difference <= (exact ? 1 : 6));
            apart += difference;
            most = wanted > most ? wanted : most;
        }
    }
    /* A number half way between two may fall to either side. */
    assert_true(!exact || apart < (int)xt_tensor_count(out) / 100);
    assert_int_equal(most, 255);
    net_clear(&net);
}

static void bytes_are_taken_as_they_are(void **state)
{
    (void)state;
    struct xt_ranges ranges;
    struct net net;
    open_int8(&net, one_conv, &ranges);
    uint8_t *pixels = malloc(net.x_count);
    assert_non_null(pixels);
    for (size_t i = 0; i < net.x_count; i++)
        pixels[i] = (uint8_t)(i * 37);
    net.graph->pass = (struct xt_graph_pass){.pixels = pixels, .count = net.batch};
    net_ok(&net, xt_graph_run_op(net.graph, 0, false, &net.err));
    const struct xt_tensor *in = net.layers[0].out;
    const int8_t *q = in->value->data;
    for (size_t i = 0; i < net.x_count; i++) {
        double value = ((double)q[i] + (double)in->offset) * (double)in->scale;
        assert_float_equal(value, ((double)pixels[i] - 127.5) / 128, 1e-6);
    }
    free(pixels);
    net_clear(&net);
}

/* ---- networks ---- */

static struct xt_tensor *conv_norm(struct net *net, struct xt_tensor *in, const char *name,
                                   int channels, int kernel, int stride, bool relu,
                                   struct xt_tensor *residual)
{
    char norm[64];
    snprintf(norm, sizeof norm, "%s.norm", name);
    struct xt_tensor *z = net_conv(net, in,
                                   SPEC(.name = name, .channels = channels, .kernel_h = kernel,
                                        .kernel_w = kernel, .stride_h = stride, .stride_w = stride,
                                        .pad_h = kernel / 2, .pad_w = kernel / 2));
    return net_norm(net, z, NORM(.name = norm, .relu = relu, .residual = residual, .full = true))
        .full;
}

static struct xt_tensor *average_all(struct net *net, struct xt_tensor *in)
{
    struct xt_window window = {.kernel_h = in->h, .kernel_w = 1, .stride_h = in->h, .stride_w = 1};
    struct xt_tensor *z = net_conv(
        net, in, SPEC(.name = "last", .channels = 9, .kernel_h = 1, .kernel_w = 1, .bias = true));
    return net_head(
        net, net_norm(net, z, NORM(.name = "last.norm", .relu = true, .average = window)).average);
}

static struct xt_tensor *identity(struct net *net)
{
    struct xt_tensor *x = conv_norm(net, net_input(net, 6, 7), "first", 16, 3, 1, true, NULL);
    struct xt_tensor *y = conv_norm(net, x, "a", 8, 1, 1, true, NULL);
    return average_all(net, conv_norm(net, y, "b", 16, 3, 1, true, x));
}

static void a_residual_without_a_sign(void **state)
{
    (void)state;
    check_int8(identity, 3e-2);
}

static struct xt_tensor *projected(struct net *net)
{
    struct xt_tensor *x = conv_norm(net, net_input(net, 7, 8), "first", 16, 3, 1, true, NULL);
    struct xt_tensor *y = conv_norm(net, x, "a", 8, 1, 1, true, NULL);
    y = net_conv(net, y,
                 SPEC(.name = "b", .channels = 20, .kernel_h = 3, .kernel_w = 3, .stride_h = 2,
                      .stride_w = 2, .pad_h = 1, .pad_w = 1));
    struct xt_tensor *side = conv_norm(net, x, "side", 20, 1, 2, false, NULL);
    y = net_norm(net, y, NORM(.name = "sum", .relu = true, .residual = side, .full = true)).full;
    return average_all(net, y);
}

static void a_residual_with_a_sign(void **state)
{
    (void)state;
    check_int8(projected, 3e-2);
    struct xt_ranges ranges;
    struct net net;
    open_int8(&net, projected, &ranges);
    bool seen = false;
    for (int i = 0; i < net.graph->tensor_count; i++)
        if (strcmp(net.graph->tensors[i]->name, "side") == 0) {
            seen = true;
            assert_int_equal(net.graph->tensors[i]->dtype, XT_S8);
        }
    assert_true(seen);
    net_clear(&net);
}

/* As behind squeeze-and-excitation, whose product stays float32. */
static struct xt_tensor *projected_f32(struct net *net)
{
    struct xt_tensor *x = conv_norm(net, net_input(net, 7, 8), "first", 16, 3, 1, true, NULL);
    struct xt_tensor *side = net_conv(net, x,
                                      SPEC(.name = "side", .channels = 16, .kernel_h = 1,
                                           .kernel_w = 1, .why_f32 = "the test reads it"));
    return average_all(net, conv_norm(net, x, "b", 16, 3, 1, true, side));
}

static void a_residual_in_float32(void **state)
{
    (void)state;
    check_int8(projected_f32, 3e-2);
}

/* ---- by Winograd's loops ---- */

/* 16 large tiles of each image. */
static struct xt_tensor *wide(struct net *net)
{
    struct xt_tensor *x = conv_norm(net, net_input(net, 14, 15), "first", 64, 3, 1, true, NULL);
    struct xt_tensor *y = conv_norm(net, x, "a", 128, 3, 1, true, NULL);
    return average_all(net, conv_norm(net, y, "b", 64, 3, 1, true, x));
}

static const struct xt_op *op_of(const struct net *net, const char *name)
{
    for (int i = 0; i < net->graph->op_count; i++)
        if (!strcmp(net->graph->ops[i]->name, name))
            return net->graph->ops[i];
    fail_msg("no op %s", name);
    return NULL;
}

static void winograd_sums_are_those_of_plain_loops(void **state)
{
    (void)state;
    struct xt_ranges ranges;
    struct net net;
    check_int8(wide, 3e-2);
    open_int8(&net, wide, &ranges);
    bool by_winograd = xt_loops_get()->winograd_int8 && !xt_device_cpu_has_vnni();
    assert_int_equal(!strcmp(xt_op_implementation(op_of(&net, "a"), false), "xtrain Winograd"),
                     by_winograd);
    assert_int_equal(!strcmp(xt_op_implementation(op_of(&net, "b"), false), "xtrain Winograd"),
                     by_winograd);
    net_clear(&net);
}

static void winograd_by_slices_is_the_same(void **state)
{
    (void)state;
    struct xt_ranges ranges;
    float *logits[2];
    size_t count = 0;
    record(wide, &ranges);
    for (int by_slices = 0; by_slices < 2; by_slices++) {
        struct net net = {.fuse = true, .int8 = &ranges, .by_slices = by_slices, .batch = 64};
        net_open(&net, XT_F32, false);
        net_build(&net, wide(&net));
        assert_int_equal(net.graph->slices.workers > 0, by_slices && net.graph->slices.even);
        net_forward(&net);
        count = xt_tensor_count(net.graph->logits);
        logits[by_slices] = malloc(count * sizeof(float));
        assert_non_null(logits[by_slices]);
        memcpy(logits[by_slices], xt_graph_logits(net.graph), count * sizeof(float));
        net_clear(&net);
    }
    for (size_t i = 0; i < count; i++)
        assert_float_equal(logits[0][i], logits[1][i], 1e-6);
    free(logits[0]);
    free(logits[1]);
}

static struct xt_tensor *flat(struct net *net)
{
    struct xt_tensor *x = net_conv(net, net_input(net, 14, 15),
                                   SPEC(.name = "first", .channels = 128, .kernel_h = 1,
                                        .kernel_w = 1, .bias = true, .relu = true));
    x = net_conv(net, x,
                 SPEC(.name = "flat", .channels = 64, .kernel_h = 3, .kernel_w = 3, .pad_h = 1,
                      .pad_w = 1, .relu = true));
    return average_all(net, x);
}

static void set_all(struct net *net, const char *name, const char *kind, double value)
{
    struct net_param *param = net_find(net, name, kind);
    for (size_t i = 0; i < param->count; i++)
        param->value[i] = value;
}

/* Each of them larger than what large tiles hold. */
static void the_largest_sums_of_a_layer_are_right(void **state)
{
    (void)state;
    enum { TERMS = 9 * 128 };
    const double weight = 0.01;
    struct xt_ranges ranges;
    struct net net;
    open_int8(&net, flat, &ranges);
    ranges.limit[net.layers[1].out->range - 1] = 1;
    ranges.limit[net.layers[2].out->range - 1] = (float)(TERMS * weight);
    net_clear(&net);
    net = (struct net){.fuse = true, .int8 = &ranges};
    net_open(&net, XT_F32, false);
    net_build(&net, flat(&net));
    set_all(&net, "first", "weight", 0);
    set_all(&net, "first", "bias", 1);
    set_all(&net, "flat", "weight", weight);
    net_put(&net);
    net.graph->pass = net.pass;
    for (int op = 0; op < 3; op++)
        net_ok(&net, xt_graph_run_op(net.graph, op, false, &net.err));
    const struct xt_tensor *out = net.layers[2].out;
    const uint8_t *got = out->value->data;
    for (size_t i = 0; i < xt_tensor_count(out); i++) {
        int x = (int)(i / (size_t)out->c) % out->w;
        int y = (int)(i / (size_t)out->c) / out->w % out->h;
        int taps = (x > 0 && x + 1 < out->w ? 3 : 2) * (y > 0 && y + 1 < out->h ? 3 : 2);
        assert_in_range(got[i], 255 * taps / 9, 255 * taps / 9 + 1);
    }
    net_clear(&net);
}

/* ---- beside int8 ---- */

/* A norm that no convolution takes in, of an int8 tensor; behind it float32, to which that tensor
 * is added again. */
static struct xt_tensor *norm_alone(struct net *net)
{
    struct xt_tensor *x = conv_norm(net, net_input(net, 6, 7), "first", 16, 3, 1, true, NULL);
    struct xt_tensor *y = net_norm(net, x, NORM(.name = "alone", .relu = true, .full = true)).full;
    return average_all(net, conv_norm(net, y, "b", 16, 3, 1, true, x));
}

static void a_norm_of_int8_computes_in_float32(void **state)
{
    (void)state;
    check_int8(norm_alone, 3e-2);
}

/* The convolution's output is read before the norm, and behind it. */
static struct xt_tensor *read_twice(struct net *net)
{
    struct xt_tensor *x = conv_norm(net, net_input(net, 6, 7), "first", 16, 3, 1, true, NULL);
    struct xt_tensor *z =
        net_conv(net, x, SPEC(.name = "z", .channels = 16, .kernel_h = 1, .kernel_w = 1));
    struct xt_tensor *y =
        net_norm(net, z, NORM(.name = "z.norm", .relu = true, .full = true, .keeps_in = true)).full;
    assert_ptr_not_equal(y, z);
    return average_all(net, conv_norm(net, y, "b", 16, 3, 1, true, z));
}

static void a_norm_beside_another_reader_is_not_folded(void **state)
{
    (void)state;
    check_net_fused(read_twice, XT_F32, 2e-5);
    check_int8(read_twice, 3e-2);
}

static struct xt_tensor *pooled(struct net *net)
{
    static const struct xt_window max = {
        .kernel_h = 3, .kernel_w = 3, .stride_h = 2, .stride_w = 2, .pad_h = 1, .pad_w = 1};
    static const struct xt_window average = {
        .kernel_h = 4, .kernel_w = 3, .stride_h = 4, .stride_w = 2};
    struct xt_tensor *z =
        net_conv(net, net_input(net, 8, 9),
                 SPEC(.name = "conv", .channels = 70, .kernel_h = 3, .kernel_w = 3, .bias = true));
    struct xt_norm_outputs y = net_norm(
        net, z, NORM(.name = "norm", .relu = true, .full = true, .max = max, .average = average));
    struct xt_tensor *x = net_conv(net, y.max,
                                   SPEC(.name = "after", .channels = 5, .kernel_h = 3,
                                        .kernel_w = 2, .bias = true, .relu = true));
    static const struct xt_window copy = {
        .kernel_h = 1, .kernel_w = 1, .stride_h = 1, .stride_w = 1};
    z = net_conv(net, x, SPEC(.name = "end", .channels = 6, .kernel_h = 1, .kernel_w = 1));
    struct xt_tensor *end = net_norm(net, z, NORM(.name = "end.norm", .average = copy)).average;
    struct xt_tensor *wide = net_conv(net, y.average,
                                      SPEC(.name = "wide", .channels = 4, .kernel_h = 1,
                                           .kernel_w = 1, .why_f32 = "the test reads it"));
    struct xt_context_spec spec = {.count = 2, .taps = {end, wide}, .group = {0, 1}};
    return net_head(net, net_context(net, spec));
}

static void pools_and_float32_taps(void **state)
{
    (void)state;
    check_net_fused(pooled, XT_F32, 2e-5);
    check_int8(pooled, 4e-2);
}

/* ---- ranges ---- */

/* Of 40 images one excites the network a thousand times as much: the others keep their steps. */
static void an_outlier_does_not_take_the_others_steps(void **state)
{
    (void)state;
    float limits[2];
    for (int loud = 0; loud < 2; loud++) {
        struct net net = {.fuse = true, .batch = 40};
        struct xt_ranges ranges;
        net_open(&net, XT_F32, false);
        net_build(&net, one_conv(&net));
        size_t sample = net.x_count / 40;
        for (size_t i = 0; i < sample && loud; i++)
            net.x[i] *= 1000;
        net_ok(&net, xt_recording_create(&net.graph->recording, &net.err));
        net_forward(&net);
        net_ok(&net, xt_recording_ranges(net.graph->recording, net.graph, &ranges, &net.err));
        xt_recording_destroy(net.graph->recording);
        limits[loud] = ranges.limit[net.layers[1].out->range - 1];
        net_clear(&net);
    }
    assert_true(limits[0] > 0);
    assert_true(limits[1] < 50 * limits[0]);
}

static void a_channel_of_zeros_stays_finite(void **state)
{
    (void)state;
    struct xt_ranges ranges;
    struct net net;
    open_int8(&net, one_conv, &ranges);
    struct net_param *weight = net_find(&net, "conv", "weight");
    for (size_t k = 0; k < weight->count; k++)
        weight->value[k] = k < 27 ? 0 : weight->value[k];
    net_put(&net);
    net_forward(&net);
    net_loss(&net);
    net_check_logits(&net, 3e-2);
    net_clear(&net);
}

/* A convolution by computed weights stays in float32, and is all that there is. */
static void int8_without_a_layer_for_it_is_refused(void **state)
{
    (void)state;
    struct net net = {.fuse = true};
    struct xt_ranges ranges;
    struct xt_recording *recording = NULL;
    net_open(&net, XT_F32, false);
    const struct xt_parameter_spec weights = {.name = "raw", .h = 1, .w = 4, .c = 3};
    xt_graph_conv_by(net.graph, net_input(&net, 5, 6), xt_graph_parameter(net.graph, &weights),
                     &SPEC(.name = "conv", .channels = 4, .kernel_h = 1, .kernel_w = 1));
    net_ok(&net, xt_recording_create(&recording, &net.err));
    assert_int_equal(xt_recording_ranges(recording, net.graph, &ranges, &net.err), XT_ERR_USAGE);
    assert_non_null(strstr(net.err.text, "no layer of this network runs in it"));
    xt_recording_destroy(recording);
    net_clear(&net);
}

static void a_range_that_is_no_number_is_refused(void **state)
{
    (void)state;
    struct net net = {.fuse = true};
    net_open(&net, XT_F32, false);
    net_build(&net, one_conv(&net));
    struct xt_ranges ranges;
    struct xt_recording *recording = NULL;
    net_ok(&net, xt_recording_create(&recording, &net.err));
    assert_int_equal(xt_recording_ranges(recording, net.graph, &ranges, &net.err), XT_ERR_DATA);
    assert_string_equal(net.err.text, "int8: no images to find ranges with");
    net_find(&net, "conv", "bias")->value[3] = (double)INFINITY;
    net_put(&net);
    net.graph->recording = recording;
    net_forward(&net);
    assert_int_equal(xt_recording_ranges(recording, net.graph, &ranges, &net.err), XT_ERR_DATA);
    assert_string_equal(net.err.text, "int8: conv is infinite or NaN on the images that give the "
                                      "ranges, so the weights do not fit them");
    xt_recording_destroy(recording);
    net_clear(&net);
}

/* In float32 a bin of 1e-36 / 2048 is nothing, and twice 3e38 is infinite. */
static void ranges_of_any_size_are_finite(void **state)
{
    (void)state;
    static const float largest[][2] = {{1e-36f, 0}, {1e-45f, 1e-38f}, {1e-36f, 2}, {1, 3e38f}};
    struct net net = {.fuse = true};
    net_open(&net, XT_F32, false);
    net_build(&net, one_conv(&net));
    const struct xt_tensor *tensor = net.layers[1].out;
    size_t count = xt_tensor_count(tensor);
    float *values = calloc(count, sizeof *values);
    assert_non_null(values);
    net.graph->pass = net.pass;
    for (size_t i = 0; i < sizeof largest / sizeof largest[0]; i++) {
        struct xt_recording *recording = NULL;
        struct xt_ranges ranges;
        net_ok(&net, xt_recording_create(&recording, &net.err));
        for (int pass = 0; pass < 2; pass++) {
            for (size_t at = 0; at < count; at++)
                values[at] = largest[i][pass] * ((float)(at % 5) / 4);
            net_ok(&net, xt_recording_see(recording, net.graph, tensor, values, &net.err));
        }
        net_ok(&net, xt_recording_ranges(recording, net.graph, &ranges, &net.err));
        float limit = ranges.limit[tensor->range - 1];
        float wanted = fmaxf(largest[i][0], largest[i][1]);
        assert_true(wanted < 1e-30f ? limit == 0 : limit > wanted / 256 && limit <= wanted);
        xt_recording_destroy(recording);
    }
    free(values);
    net_clear(&net);
}

/* Windows are several of each sample, a constant is one for all: the last numbers are the largest.
 */
static void all_that_a_tensor_holds_of_the_samples_is_in_its_range(void **state)
{
    (void)state;
    struct net net = {.fuse = true};
    net_open(&net, XT_F32, false);
    net_build(&net, one_conv(&net));
    const int batch = net.graph->options.batch;
    const struct {
        int n, count;
        bool holds_last;
    } of[] = {{2 * batch, batch, true}, {2 * batch, batch - 1, false}, {1, batch, true}};
    net.graph->pass = net.pass;
    for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
        struct xt_tensor tensor = *net.layers[1].out;
        struct xt_recording *recording = NULL;
        struct xt_ranges ranges;
        tensor.n = of[i].n;
        net.graph->pass.count = of[i].count;
        size_t count = xt_tensor_count(&tensor);
        float *values = malloc(count * sizeof *values);
        assert_non_null(values);
        for (size_t at = 0; at < count; at++)
            values[at] = at >= count - count / (size_t)tensor.n ? 8 : 1;
        net_ok(&net, xt_recording_create(&recording, &net.err));
        net_ok(&net, xt_recording_see(recording, net.graph, &tensor, values, &net.err));
        net_ok(&net, xt_recording_ranges(recording, net.graph, &ranges, &net.err));
        float limit = ranges.limit[tensor.range - 1];
        assert_true(of[i].holds_last ? limit > 4 : limit < 2);
        xt_recording_destroy(recording);
        free(values);
    }
    net_clear(&net);
}

static void weights_below_all_steps_are_zeros(void **state)
{
    (void)state;
    struct xt_ranges ranges;
    record(one_conv, &ranges);
    struct net net = {.fuse = true, .int8 = &ranges};
    net_open(&net, XT_F32, false);
    net_build(&net, one_conv(&net));
    struct net_param *weight = net_find(&net, "conv", "weight");
    for (size_t i = 0; i < 27; i++)
        weight->value[i] = 1e-45 * (double)(i % 3);
    net_put(&net);
    net_forward(&net);
    net_loss(&net);
    net_check_logits(&net, 3e-2);
    net_clear(&net);
}

static void infinite_weights_are_refused(void **state)
{
    (void)state;
    struct xt_ranges ranges;
    record(one_conv, &ranges);
    struct net net = {.fuse = true, .int8 = &ranges};
    net_open(&net, XT_F32, false);
    net_build(&net, one_conv(&net));
    net_find(&net, "conv", "weight")->value[0] = (double)INFINITY;
    net_put(&net);
    assert_int_equal(xt_graph_forward(net.graph, &net.err), XT_ERR_DATA);
    assert_string_equal(net.err.text, "conv: its weights, with the batch norm's scale, are not "
                                      "finite: int8 cannot hold them");
    net_clear(&net);
}

static void one_value_that_is_no_number_is_seen(void **state)
{
    (void)state;
    const struct xt_loops *loops = xt_loops_get();
    float values[37] = {0};
    values[20] = -3;
    assert_float_equal(loops->largest(values, 37), 3, 0);
    for (size_t i = 0; i < 37; i++) {
        float saved = values[i];
        values[i] = i % 2 ? NAN : -INFINITY;
        assert_true(!isfinite(loops->largest(values, 37)));
        values[i] = saved;
    }
}

static void refuse_graph(struct xt_graph_options options, const char *part)
{
    struct xt_err err;
    struct xt_graph *graph = NULL;
    support_assert_error((xt_graph_create(&graph, &options, &err), &err), XT_ERR_USAGE, part);
    assert_null(graph);
}

static void training_and_unfused_graphs_are_refused(void **state)
{
    (void)state;
    static const struct xt_ranges ranges = {.count = 1};
    refuse_graph((struct xt_graph_options){.int8 = &ranges, .training = true}, "for inference");
    refuse_graph((struct xt_graph_options){.int8 = &ranges}, "--no-fuse");
}

static void ranges_of_another_network_are_refused(void **state)
{
    (void)state;
    struct xt_ranges ranges;
    record(one_conv, &ranges);
    struct net net = {.fuse = true, .int8 = &ranges};
    net_open(&net, XT_F32, false);
    assert_int_equal(xt_graph_build(net.graph, identity(&net), &net.err), XT_ERR_RUN);
    assert_string_equal(net.err.text, "the int8 ranges belong to another network");
    net_clear(&net);
}

static void ranges_as_text_are_of_one_network(void **state)
{
    (void)state;
    static const char *const others[][2] = {
        {"", "they have no range of conv where the network has it"},
        {"nan conv\n", "they have no range of conv"},
        {"-1 conv\n", "they have no range of conv"},
        {"1 conv2\n", "they have no range of conv"},
        {"1 conv\n1 head\n1 more\n", "they are of more convolutions than the network has"},
    };
    struct xt_ranges ranges;
    struct xt_ranges again;
    struct xt_str text = {0};
    struct net net;
    open_int8(&net, one_conv, &ranges);
    net_ok(&net, xt_ranges_print(&ranges, net.graph, &text, &net.err));
    net_ok(&net, xt_ranges_parse(xt_str_get(&text), net.graph, &again, &net.err));
    assert_memory_equal(&ranges, &again, sizeof ranges);
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        support_assert_error((xt_ranges_parse(others[i][0], net.graph, &again, &net.err), &net.err),
                             XT_ERR_DATA, others[i][1]);
    xt_str_clear(&text);
    net_clear(&net);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_convolution_is_the_plain_loops_in_whole_numbers),
        cmocka_unit_test(bytes_are_taken_as_they_are),
        cmocka_unit_test(a_residual_without_a_sign),
        cmocka_unit_test(a_residual_with_a_sign),
        cmocka_unit_test(a_residual_in_float32),
        cmocka_unit_test(winograd_sums_are_those_of_plain_loops),
        cmocka_unit_test(winograd_by_slices_is_the_same),
        cmocka_unit_test(the_largest_sums_of_a_layer_are_right),
        cmocka_unit_test(a_norm_of_int8_computes_in_float32),
        cmocka_unit_test(a_norm_beside_another_reader_is_not_folded),
        cmocka_unit_test(pools_and_float32_taps),
        cmocka_unit_test(an_outlier_does_not_take_the_others_steps),
        cmocka_unit_test(a_channel_of_zeros_stays_finite),
        cmocka_unit_test(int8_without_a_layer_for_it_is_refused),
        cmocka_unit_test(a_range_that_is_no_number_is_refused),
        cmocka_unit_test(ranges_of_any_size_are_finite),
        cmocka_unit_test(all_that_a_tensor_holds_of_the_samples_is_in_its_range),
        cmocka_unit_test(weights_below_all_steps_are_zeros),
        cmocka_unit_test(infinite_weights_are_refused),
        cmocka_unit_test(one_value_that_is_no_number_is_seen),
        cmocka_unit_test(training_and_unfused_graphs_are_refused),
        cmocka_unit_test(ranges_of_another_network_are_refused),
        cmocka_unit_test(ranges_as_text_are_of_one_network),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
