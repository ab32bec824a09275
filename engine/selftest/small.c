/* The self-test's small network: every kind of op, each in every way that a network uses it, at
 * small and odd shapes. The comments give h x w x c. */
#include "engine/selftest/selftest.h"

#include <stdio.h>
#include <string.h>

#include "engine/ops/ops.h"

enum { HEIGHT = 13, WIDTH = 15, CLASSES = 10 };

static struct xt_tensor *conv(struct xt_graph *graph, struct xt_tensor *in,
                              struct xt_conv_spec spec)
{
    return xt_graph_conv(graph, in, &spec);
}

/* Padded so that the image keeps its size, with a bias. */
static struct xt_conv_spec same(const char *name, int channels, int kernel_h, int kernel_w)
{
    return (struct xt_conv_spec){.name = name,
                                 .channels = channels,
                                 .kernel_h = kernel_h,
                                 .kernel_w = kernel_w,
                                 .pad_h = kernel_h / 2,
                                 .pad_w = kernel_w / 2,
                                 .bias = true};
}

static struct xt_tensor *conv_relu(struct xt_graph *graph, struct xt_tensor *in,
                                   struct xt_conv_spec spec)
{
    spec.relu = true;
    return xt_graph_conv(graph, in, &spec);
}

static struct xt_tensor *pointwise(struct xt_graph *graph, struct xt_tensor *in, const char *name,
                                   int channels)
{
    return conv_relu(graph, in, same(name, channels, 1, 1));
}

static struct xt_norm_outputs norm(struct xt_graph *graph, struct xt_tensor *in,
                                   struct xt_norm_spec spec)
{
    return xt_graph_norm(graph, in, &spec);
}

/* Inputs of the second half. */
struct half {
    struct xt_tensor *fork;
    struct xt_norm_outputs stem, block, shortcut;
};

/* As LPRNet begins: a block of 1x1, 3x1, 1x3 and 1x1 convolutions; and a bypass. */
static struct half add_first_half(struct xt_graph *graph)
{
    struct half half = {0};
    static const struct xt_normalise by_channel = {{123.7f, 116.3f, 103.5f},
                                                   {1 / 58.4f, 1 / 57.1f, 1 / 57.4f}};
    struct xt_tensor *x = xt_graph_input(graph, HEIGHT, WIDTH, 3, &by_channel);
    x = conv(graph, x,
             (struct xt_conv_spec){
                 .name = "stem", .channels = 20, .kernel_h = 3, .kernel_w = 3, .bias = true});
    /* 11x13x20 */
    half.stem =
        norm(graph, x,
             (struct xt_norm_spec){
                 .name = "stem.norm",
                 .relu = true,
                 .max = {.kernel_h = 3, .kernel_w = 3, .stride_h = 1, .stride_w = 2}, /* 9x6 */
                 .average = {.kernel_h = 5, .kernel_w = 6, .stride_h = 5, .stride_w = 6}});
    x = pointwise(graph, half.stem.max, "block.0", 8);
    x = conv_relu(graph, x, same("block.1", 8, 3, 1));
    half.fork = conv_relu(graph, x, same("block.2", 8, 1, 3));
    x = conv(graph, half.fork, same("block.3", 32, 1, 1));
    half.block = norm(graph, x,
                      (struct xt_norm_spec){
                          .name = "block.norm",
                          .relu = true,
                          .full = true,
                          .average = {.kernel_h = 4, .kernel_w = 4, .stride_h = 4, .stride_w = 2}});
    x = conv(graph, half.block.full,
             (struct xt_conv_spec){.name = "shortcut",
                                   .channels = 24,
                                   .kernel_h = 3,
                                   .kernel_w = 3,
                                   .stride_h = 2,
                                   .stride_w = 2,
                                   .pad_h = 1,
                                   .pad_w = 1}); /* 5x3x24 */
    half.shortcut = norm(graph, x, (struct xt_norm_spec){.name = "shortcut.norm", .full = true});
    return half;
}

/* Convolutions in groups, of several channels and of one each, with a GELU between. */
static struct xt_tensor *add_groups(struct xt_graph *graph, struct xt_tensor *in)
{
    struct xt_conv_spec groups = same("groups.0", 24, 3, 3);
    groups.groups = 4;
    struct xt_tensor *x = xt_graph_fan_out(graph, conv(graph, in, groups), "groups.fan_out");
    /* both of int8 in inference */
    const struct xt_conv_transpose_spec back = {.name = "groups.back",
                                                .channels = 24,
                                                .kernel = {3, 3},
                                                .pad_before = {1, 1},
                                                .pad_after = {1, 1}};
    struct xt_tensor *transposed = xt_graph_conv_transpose(graph, x, &back);
    x = xt_graph_eltwise(graph, x, &(struct xt_activation){.kind = XT_ACT_GELU}, "gelu");
    x = xt_graph_add(graph, x, transposed, "groups.sum");
    groups.name = "groups.1";
    groups.groups = 24;
    x = conv_relu(graph, x, groups);
    /* padded on one side only, and with gaps in the kernel */
    x = conv(graph, x,
             (struct xt_conv_spec){.name = "uneven",
                                   .channels = 16,
                                   .kernel_h = 3,
                                   .kernel_w = 2,
                                   .pad_h = 2,
                                   .more_h = -2,
                                   .more_w = 1,
                                   .bias = true});
    x = norm(graph, x,
             (struct xt_norm_spec){
                 .name = "uneven.norm", .eps = 1e-3, .momentum = 0.01, .full = true})
            .full;
    return conv(graph, x,
                (struct xt_conv_spec){.name = "dilated",
                                      .channels = 24,
                                      .kernel_h = 3,
                                      .kernel_w = 2,
                                      .dilation_h = 2,
                                      .dilation_w = 2,
                                      .pad_h = 2,
                                      .pad_w = 1,
                                      .groups = 2,
                                      .relu = true});
}

/* In groups, dilated, and along rows that are longer than a kernel takes at once. 5x3x24 as 2x45x4.
 */
static struct xt_tensor *add_long_rows(struct xt_graph *graph, struct xt_tensor *x)
{
    struct xt_conv_spec rows = same("rows", 4, 1, 3);
    rows.groups = 2;
    rows.dilation_h = rows.dilation_w = rows.pad_w = 2;
    x = conv(graph, xt_graph_reshape(graph, x, 2, 45, 4, "rows.long"), rows);
    return xt_graph_reshape(graph, x, 5, 3, 24, "rows.back");
}

static int declare(struct xt_graph *graph, const char *name, enum xt_param_role role)
{
    struct xt_param param = {.role = role, .ndims = 1, .dims = {24}, .file_dims = {24}};
    if (role == XT_PARAM_WEIGHT) {
        const int dims[] = {24, 24, 3, 3};
        param.ndims = 4;
        memcpy(param.dims, dims, sizeof dims);
        memcpy(param.file_dims, dims, sizeof dims);
    }
    snprintf(param.name, sizeof param.name, "%s", name);
    return xt_graph_param(graph, &param);
}

/* A convolution and a norm that are applied three times. */
static struct xt_tensor *add_repeated(struct xt_graph *graph, struct xt_tensor *x)
{
    const struct xt_conv_params conv_params = {
        .weight = declare(graph, "repeated.weight", XT_PARAM_WEIGHT),
        .bias = declare(graph, "repeated.bias", XT_PARAM_BIAS)};
    const struct xt_norm_params norm_params = {
        .scale = declare(graph, "repeated.norm.weight", XT_PARAM_BN_SCALE),
        .shift = declare(graph, "repeated.norm.bias", XT_PARAM_BN_SHIFT),
        .mean = declare(graph, "repeated.norm.running_mean", XT_PARAM_BN_MEAN),
        .var = declare(graph, "repeated.norm.running_var", XT_PARAM_BN_VAR),
        .count = declare(graph, "repeated.norm.num_batches_tracked", XT_PARAM_BN_COUNT)};
    struct xt_conv_spec spec = same("repeated", 24, 3, 3);
    spec.params = &conv_params;
    for (int i = 0; i < 3; i++)
        x = norm(graph, conv(graph, x, spec),
                 (struct xt_norm_spec){
                     .name = "repeated.norm", .relu = i == 1, .full = true, .params = &norm_params})
                .full;
    return x;
}

/* As in MobileNets: depthwise convolutions, and norms with each activation that they take in; each
 * second one's average over the image multiplies it. */
static struct xt_tensor *add_depthwise(struct xt_graph *graph, struct xt_tensor *x)
{
    static const struct xt_activation activations[] = {
        {XT_ACT_CLIP, 0, 6}, {XT_ACT_HARD_SWISH, 0, 0}, {XT_ACT_SILU, 0, 0}};
    for (int i = 0; i < 3 && x; i++) {
        char name[16];
        int kernel = 3 + 2 * (i % 2);
        snprintf(name, sizeof name, "deep.%d", i);
        struct xt_norm_spec spec = {.name = name, .activation = &activations[i], .full = true};
        if (i > 0)
            spec.average = (struct xt_window){
                .kernel_h = x->h, .kernel_w = x->w, .stride_h = x->h, .stride_w = x->w};
        x = conv(graph, x,
                 (struct xt_conv_spec){.name = name,
                                       .channels = x->c,
                                       .kernel_h = kernel,
                                       .kernel_w = kernel,
                                       .pad_h = kernel / 2,
                                       .pad_w = kernel / 2,
                                       .groups = x->c});
        snprintf(name, sizeof name, "deep.norm%d", i);
        struct xt_norm_outputs out = norm(graph, x, spec);
        snprintf(name, sizeof name, "deep.gate%d", i);
        x = !out.average
                ? out.full
                : xt_graph_mul(graph, out.full,
                               xt_graph_cast(graph, out.average, graph->options.dtype, name), name);
    }
    return x;
}

/* Three readers of one tensor. */
static struct xt_tensor *add_fan_out(struct xt_graph *graph, struct xt_tensor *in)
{
    struct xt_tensor *x = xt_graph_fan_out(graph, in, "fan");
    struct xt_tensor *branch[3];
    for (int i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "fan.%d", i);
        branch[i] =
            conv(graph, x,
                 (struct xt_conv_spec){.name = name, .channels = 24, .kernel_h = 1, .kernel_w = 1});
    }
    for (int i = 1; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "fan.norm%d", i);
        x = norm(graph, branch[i],
                 (struct xt_norm_spec){.name = name,
                                       .residual = i == 1 ? branch[0] : x,
                                       .full = true,
                                       .unscaled = i == 1})
                .full;
    }
    return x;
}

/* Each element-wise function, with thresholds within the range of random inputs. */
static struct xt_tensor *add_activations(struct xt_graph *graph, struct xt_tensor *x)
{
    static const struct xt_activation all[] = {
        {XT_ACT_HARD_SWISH, 0, 0},
        {XT_ACT_RELU, 0, 0},
        {XT_ACT_CLIP, -0.3F, 0.6F},
        {XT_ACT_CLIP, -0.25F, 0.5F},
        {XT_ACT_LEAKY_RELU, 0.1F, 0},
        {XT_ACT_LEAKY_RELU, -0.1F, 0},
        {XT_ACT_SIGMOID, 0, 0},
        {XT_ACT_SILU, 0, 0},
        {XT_ACT_HARD_SIGMOID, 0.9F, 0.4F},
        {XT_ACT_GELU_TANH, 0, 0},
        {XT_ACT_TANH, 0, 0},
        {XT_ACT_POWER, 2, 0},
        {XT_ACT_SOFTPLUS, 0, 0},
        {XT_ACT_LOG, 0, 0},
        {XT_ACT_EXP, 0, 0},
        {XT_ACT_POWER, 0.5F, 0},
        {XT_ACT_POWER, -1, 0},
        {XT_ACT_MISH, 0, 0},
        {XT_ACT_ELU, 0.7F, 0},
        {XT_ACT_LINEAR, -1.5F, 0.75F},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char name[32];
        snprintf(name, sizeof name, "activation.%zu", i);
        x = xt_graph_eltwise(graph, x, &all[i], name);
    }
    return x;
}

static struct xt_tensor *concat(struct xt_graph *graph, struct xt_tensor *a, struct xt_tensor *b,
                                enum xt_axis axis, const char *name)
{
    return xt_graph_concat(graph, (struct xt_tensor *[]){a, b}, 2, axis, name);
}

static struct xt_tensor *slice(struct xt_graph *graph, struct xt_tensor *in, enum xt_axis axis,
                               int start, int count, const char *name)
{
    const struct xt_slice_spec spec = {name, axis, start, 0, count};
    return xt_graph_slice(graph, in, &spec);
}

/* Parameters concatenated before, after and below each sample: 5x3x2 becomes 6x4x6. */
static struct xt_tensor *add_parameters(struct xt_graph *graph, struct xt_tensor *x)
{
    const struct xt_parameter_spec before = {.name = "before", .h = 5, .w = 3, .c = 4};
    const struct xt_parameter_spec behind = {.name = "behind", .h = 5, .w = 1, .c = 6};
    const struct xt_parameter_spec below = {
        .name = "below", .h = 1, .w = 4, .c = 6, .ndims = 2, .dims = {4, 6}};
    x = concat(graph, xt_graph_parameter(graph, &before), x, XT_AXIS_C, "concat.0");
    x = concat(graph, x, xt_graph_parameter(graph, &behind), XT_AXIS_W, "concat.1");
    return concat(graph, x, xt_graph_parameter(graph, &below), XT_AXIS_H, "concat.2");
}

/* Constants in place of two channels, and added to a row: 6x4x6 stays 6x4x6. */
static struct xt_tensor *add_constants(struct xt_graph *graph, struct xt_tensor *x)
{
    static const float numbers[] = {0.5F, -1, 2, 0.25F, -0.75F, 1.5F};
    const struct xt_constant_spec one = {
        .name = "constant.one", .h = 6, .w = 4, .c = 2, .numbers = numbers, .count = 1};
    const struct xt_constant_spec row = {
        .name = "constant.row", .h = 1, .w = 1, .c = 6, .numbers = numbers, .count = 6};
    x = slice(graph, x, XT_AXIS_C, 1, 4, "constant.slice");
    x = concat(graph, x, xt_graph_constant(graph, &one), XT_AXIS_C, "constant.concat");
    return xt_graph_add(graph, x, xt_graph_constant(graph, &row), "constant.add");
}

/* Transposed in blocks of 8 by 8, which some devices copy by kernels of their own. */
static struct xt_tensor *add_blocks_of_8(struct xt_graph *graph, struct xt_tensor *x)
{
    static const enum xt_axis by_channels[] = {XT_AXIS_H, XT_AXIS_C, XT_AXIS_W};
    x = pointwise(graph, x, "blocks", 192);
    x = xt_graph_reshape(graph, x, 45, 8, 8, "blocks.0");
    x = xt_graph_transpose(graph, x, by_channels, "blocks.1");
    return xt_graph_reshape(graph, x, 5, 3, 192, "blocks.2");
}

/* A shuffle, transpositions, reshapes, slices of each axis: 5x3x24 becomes 5x3x2. */
static struct xt_tensor *add_rearrangements(struct xt_graph *graph, struct xt_tensor *x)
{
    static const enum xt_axis by_columns[] = {XT_AXIS_W, XT_AXIS_C, XT_AXIS_H};
    static const enum xt_axis rows_and_columns[] = {XT_AXIS_W, XT_AXIS_H, XT_AXIS_C};
    static const struct xt_slice_spec slices[] = {
        {"slice.0", XT_AXIS_H, 1, 2, 5},
        {"slice.1", XT_AXIS_W, 3, 0, 3},
        {"slice.2", XT_AXIS_C, 1, 3, 2},
    };
    x = xt_graph_shuffle(graph, add_blocks_of_8(graph, x), 3, "shuffle");
    x = xt_graph_transpose(graph, x, by_columns, "transpose.0"); /* 3x192x5 */
    x = xt_graph_reshape(graph, x, 6, 80, 6, "reshape");
    x = xt_graph_transpose(graph, x, rows_and_columns, "transpose.1"); /* 80x6x6 */
    for (size_t i = 0; i < sizeof slices / sizeof *slices; i++)
        x = xt_graph_slice(graph, x, &slices[i]);
    return x;
}

/* The parts of a transformer: position embedding, layer norm, attention of six heads on four
 * tokens, layer scale. 6x4x6 becomes 6x4x6. */
static struct xt_tensor *add_attention(struct xt_graph *graph, struct xt_tensor *x)
{
    const struct xt_parameter_spec position = {.name = "position", .h = 6, .w = 4, .c = 6};
    const struct xt_parameter_spec scale = {.name = "scale", .h = 1, .w = 1, .c = 6};
    const struct xt_matmul_spec by_keys = {.name = "matmul.0", .transpose = true, .scale = 0.4F};
    const struct xt_matmul_spec by_values = {.name = "matmul.1"};
    x = xt_graph_add(graph, x, xt_graph_parameter(graph, &position), "add.position");
    x = xt_graph_layer_norm(graph, x, &(struct xt_layer_norm_spec){.name = "layer_norm"});
    x = xt_graph_layer_norm(
        graph, x, &(struct xt_layer_norm_spec){.name = "layer_norm.unscaled", .unscaled = true});
    x = pointwise(graph, x, "queries_keys", 10);
    x = xt_graph_matmul(graph, slice(graph, x, XT_AXIS_C, 0, 5, "queries"),
                        slice(graph, x, XT_AXIS_C, 5, 5, "keys"), &by_keys); /* 6x4x4 */
    x = xt_graph_softmax(graph, x, "softmax");
    x = pointwise(graph, xt_graph_dropout(graph, x, 0.3F, "dropout.softmax"), "values", 6);
    x = xt_graph_matmul(graph, slice(graph, x, XT_AXIS_C, 1, 4, "weights"), x, &by_values);
    return xt_graph_mul(graph, xt_graph_parameter(graph, &scale), x, "mul.scale");
}

/* A gate on channels, stochastic depth, and a broadcast product along one axis of each factor.
 */
static struct xt_tensor *add_gates(struct xt_graph *graph, struct xt_tensor *in)
{
    const struct xt_parameter_spec row = {.name = "row", .h = 1, .w = 4, .c = 1};
    const struct xt_parameter_spec column = {.name = "column", .h = 6, .w = 1, .c = 6};
    struct xt_tensor *x = pointwise(graph, in, "gated", 6);
    struct xt_tensor *gate =
        slice(graph, slice(graph, x, XT_AXIS_H, 2, 1, "gate.0"), XT_AXIS_W, 1, 1, "gate.1");
    x = xt_graph_mul(graph, x, gate, "mul.gate");
    x = xt_graph_drop_path(graph, x, 0.3F, "drop_path");
    x = xt_graph_drop_channels(graph, x, 0.3F, "drop_channels");
    struct xt_tensor *cross = xt_graph_mul(graph, xt_graph_parameter(graph, &row),
                                           xt_graph_parameter(graph, &column), "mul.cross");
    return xt_graph_add(graph, cross, x, "add.cross");
}

/* Separate pools, with windows that overlap, reach beyond the image on one side, count their
 * padding or do not, take all; then back to as many rows and columns. 6x4x6 becomes 6x4x6. */
static struct xt_tensor *add_pools(struct xt_graph *graph, struct xt_tensor *x)
{
    const struct xt_pool_spec pools[] = {
        {.name = "max",
         .kernel_h = 3,
         .kernel_w = 2,
         .stride_h = 1,
         .stride_w = 1,
         .pad_top = 2,
         .pad_left = 1},
        {.name = "average",
         .average = true,
         .kernel_h = 3,
         .kernel_w = 3,
         .stride_h = 1,
         .stride_w = 1,
         .pad_top = 1,
         .pad_left = 1,
         .pad_bottom = 1,
         .pad_right = 1,
         .count_include_pad = true},
        {.name = "average.ceil",
         .average = true,
         .kernel_h = 2,
         .kernel_w = 2,
         .stride_h = 2,
         .stride_w = 2,
         .pad_left = 1,
         .ceil_mode = true,
         .count_include_pad = true},
        {.name = "max.ceil",
         .kernel_h = 2,
         .kernel_w = 2,
         .stride_h = 2,
         .stride_w = 2,
         .ceil_mode = true},
        {.name = "average.inside",
         .average = true,
         .kernel_h = 2,
         .kernel_w = 2,
         .stride_h = 1,
         .stride_w = 1,
         .pad_bottom = 1,
         .pad_right = 1},
        {.name = "average.global", .average = true, .kernel_h = 2, .kernel_w = 2}};
    const struct xt_parameter_spec expanded = {.name = "expanded", .h = 6, .w = 4, .c = 6};
    for (size_t i = 0; i < sizeof pools / sizeof *pools; i++)
        x = xt_graph_window_pool(graph, x, &pools[i]);
    return xt_graph_mul(graph, xt_graph_parameter(graph, &expanded), x, "mul.expanded");
}

/* Each axis longer and shorter again, by coefficients that bf16 has and others, at the end by some
 * of which it has not the sums at the border. 6x4x6 becomes 6x4x6. */
static struct xt_tensor *add_axis_maps(struct xt_graph *graph, struct xt_tensor *x)
{
    static const int picked[] = {5, 0, 0, 6, 2, 3};
    static const struct {
        enum xt_axis axis;
        struct xt_axis_map map;
    } maps[] = {
        {XT_AXIS_H, {.kind = XT_MAP_CUBIC, .count = 9, .cubic = -0.75F}},
        {XT_AXIS_W, {.kind = XT_MAP_LINEAR, .count = 7, .place = XT_PLACE_ALIGN_CORNERS}},
        {XT_AXIS_W, {.kind = XT_MAP_LINEAR, .scale = 2}},
        {XT_AXIS_H, {.kind = XT_MAP_REFLECT, .before = 2, .behind = 1}},
        {XT_AXIS_W, {.kind = XT_MAP_CONSTANT, .before = 1, .fill = 0.7F}},
        {XT_AXIS_C, {.kind = XT_MAP_CONSTANT, .before = 1, .behind = 1, .fill = -1}},
        {XT_AXIS_H, {.kind = XT_MAP_REVERSE}},
        {XT_AXIS_W, {.kind = XT_MAP_NEAREST, .count = 4}},
        {XT_AXIS_C, {.kind = XT_MAP_PICK, .picked = picked, .picked_count = 6}},
        {XT_AXIS_H, {.kind = XT_MAP_LINEAR, .scale = 0.5F}},
        {XT_AXIS_W, {.kind = XT_MAP_EDGE, .behind = 3}},
        {XT_AXIS_H, {.kind = XT_MAP_CUBIC, .scale = 2, .cubic = -0.75F}},
        {XT_AXIS_H, {.kind = XT_MAP_MEAN, .count = 5}},
        {XT_AXIS_W, {.kind = XT_MAP_MEAN, .count = 9}},
        {XT_AXIS_H, {.kind = XT_MAP_NEAREST, .count = 6}},
    };
    static const struct xt_slice_spec odd = {"slice.odd", XT_AXIS_W, 0, 2, 4};
    for (size_t i = 0; i < sizeof maps / sizeof *maps; i++) {
        char name[32];
        snprintf(name, sizeof name, "map.%zu", i);
        x = xt_graph_axis_map(graph, x, maps[i].axis, &maps[i].map, name);
    }
    return xt_graph_slice(graph, x, &odd);
}

/* Zeros outside, by points of all samples; then the border's pixels, at as many points as there
 * are channels. 6x4x6 becomes 6x4x6. */
static struct xt_tensor *add_grid_samples(struct xt_graph *graph, struct xt_tensor *x)
{
    static const struct xt_grid_sample_spec zeros = {.name = "sample.zeros"};
    static const struct xt_grid_sample_spec border = {
        .name = "sample.border", .border = true, .align_corners = true};
    static const struct xt_slice_spec points[] = {{"points.0", XT_AXIS_C, 0, 1, 2},
                                                  {"points.1", XT_AXIS_C, 3, 1, 2}};
    for (int i = 0; i < 2; i++) {
        x = xt_graph_fan_out(graph, x, i ? "sample.1.fan_out" : "sample.0.fan_out");
        struct xt_tensor *grid = xt_graph_cast(graph, xt_graph_slice(graph, x, &points[i]), XT_F32,
                                               i ? "points.1.f32" : "points.0.f32");
        x = xt_graph_grid_sample(graph, x, grid, i ? &border : &zeros);
    }
    return x;
}

/* Transposed convolutions: in groups, with each kind of padding; without a bias, of one channel
 * each, back to as many rows and columns. 6x4x6 becomes 6x4x6. */
static struct xt_tensor *add_transposed(struct xt_graph *graph, struct xt_tensor *x)
{
    const struct xt_conv_transpose_spec grows = {.name = "transposed.0",
                                                 .channels = 12,
                                                 .kernel = {3, 2},
                                                 .stride = {2, 3},
                                                 .dilation = {1, 2},
                                                 .pad_before = {1, 0},
                                                 .pad_after = {0, 1},
                                                 .more = {1, 2},
                                                 .groups = 3,
                                                 .bias = true}; /* 13x13 */
    const struct xt_conv_transpose_spec each = {
        .name = "transposed.1", .channels = 12, .kernel = {2, 2}, .groups = 12}; /* 14x14 */
    x = xt_graph_conv_transpose(graph, x, &grows);
    x = xt_graph_conv_transpose(graph, x, &each);
    return conv(graph, x,
                (struct xt_conv_spec){.name = "transposed.2",
                                      .channels = 6,
                                      .kernel_h = 4,
                                      .kernel_w = 4,
                                      .stride_h = 2,
                                      .stride_w = 3});
}

/* A grouped and dilated convolution, padded unevenly, by weights less their means. */
static struct xt_tensor *add_computed_weights(struct xt_graph *graph, struct xt_tensor *x)
{
    const struct xt_parameter_spec raw = {
        .name = "raw", .h = 1, .w = 6, .c = 18, .ndims = 4, .dims = {6, 3, 3, 2}, .f32 = true};
    const struct xt_activation minus = {.kind = XT_ACT_LINEAR, .alpha = -1};
    const struct xt_conv_spec spec = {.name = "computed",
                                      .channels = 6,
                                      .kernel_h = 3,
                                      .kernel_w = 2,
                                      .dilation_h = 2,
                                      .pad_h = 2,
                                      .more_w = 1,
                                      .groups = 2,
                                      .bias = true};
    struct xt_tensor *weights =
        xt_graph_fan_out(graph, xt_graph_parameter(graph, &raw), "raw.fan_out");
    struct xt_tensor *mean = xt_graph_channel_mean(graph, weights, "raw.mean");
    mean = xt_graph_eltwise(graph, mean, &minus, "raw.minus");
    return xt_graph_conv_by(graph, x, xt_graph_add(graph, weights, mean, "raw.centred"), &spec);
}

static struct xt_tensor *add_recurrence(struct xt_graph *graph, struct xt_tensor *x,
                                        const struct xt_recurrence_spec *spec, int hidden)
{
    char name[3][32];
    static const char *const parts[] = {"gates", "weight", "bias"};
    for (int i = 0; i < 3; i++)
        snprintf(name[i], sizeof name[i], "%s.%s", spec->name, parts[i]);
    int gates = xt_recurrence_gates(spec->kind) * hidden;
    const struct xt_parameter_spec weight = {.name = name[1],
                                             .h = 1,
                                             .w = gates,
                                             .c = hidden,
                                             .init = {XT_INIT_NORMAL, 0.4F},
                                             .f32 = true};
    const struct xt_parameter_spec bias = {
        .name = name[2], .h = 1, .w = 1, .c = gates, .init = {XT_INIT_NORMAL, 0.4F}, .f32 = true};
    return xt_graph_recurrence(graph, conv(graph, x, same(name[0], gates, 1, 1)),
                               xt_graph_parameter(graph, &weight),
                               spec->with_cell ? NULL : xt_graph_parameter(graph, &bias), spec);
}

/* States, and the last cell beside each of them. 6x4x6 becomes 6x4x3. */
static struct xt_tensor *add_lstm(struct xt_graph *graph, struct xt_tensor *x)
{
    const struct xt_recurrence_spec lstm = {
        .name = "lstm", .kind = XT_LSTM, .backwards = true, .with_cell = true};
    const struct xt_slice_spec states = {"lstm.states", XT_AXIS_C, 0, 1, 3};
    const struct xt_slice_spec last = {"lstm.last", XT_AXIS_W, 0, 1, 1};
    const struct xt_slice_spec cell = {"lstm.cell", XT_AXIS_C, 3, 1, 3};
    x = xt_graph_fan_out(graph, add_recurrence(graph, x, &lstm, 3), "lstm.fan_out");
    struct xt_tensor *cells = xt_graph_slice(graph, xt_graph_slice(graph, x, &last), &cell);
    return xt_graph_add(graph, xt_graph_slice(graph, x, &states), cells, "lstm.both");
}

/* 6x4x6 becomes 6x4x6. */
static struct xt_tensor *add_recurrences(struct xt_graph *graph, struct xt_tensor *x)
{
    static const struct xt_recurrence_spec all[] = {
        {.name = "gru", .kind = XT_GRU},
        {.name = "rnn_tanh", .kind = XT_RNN_TANH, .backwards = true},
        {.name = "rnn_relu", .kind = XT_RNN_RELU},
    };
    x = add_lstm(graph, x);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        x = add_recurrence(graph, x, &all[i], 6);
    return x;
}

/* As in ResNet, with a residual read by two; then groups, and LPRNet's end. */
static struct xt_tensor *describe(struct xt_graph *graph, const void *over_batch)
{
    struct half half = add_first_half(graph);
    struct xt_tensor *x = conv(graph, half.fork, same("branch", 32, 3, 3));
    struct xt_norm_outputs branch = norm(graph, x,
                                         (struct xt_norm_spec){.name = "branch.norm",
                                                               .relu = true,
                                                               .residual = half.block.full,
                                                               .max = {.kernel_h = 3,
                                                                       .kernel_w = 3,
                                                                       .stride_h = 2,
                                                                       .stride_w = 2,
                                                                       .pad_h = 1,
                                                                       .pad_w = 1}}); /* 5x3 */
    x = conv(graph, branch.max, same("join", 24, 1, 1));
    struct xt_norm_outputs join =
        norm(graph, x,
             (struct xt_norm_spec){
                 .name = "join.norm",
                 .relu = true,
                 .residual = half.shortcut.full,
                 .full = true,
                 .average = {.kernel_h = 2, .kernel_w = 2, .stride_h = 2, .stride_w = 1}});
    x = add_groups(graph, xt_graph_dropout(graph, join.full, 0, "dropout"));
    x = add_long_rows(graph, x);
    x = add_depthwise(graph, add_repeated(graph, x));
    x = add_activations(graph, add_rearrangements(graph, add_fan_out(graph, x)));
    x = add_constants(graph, add_parameters(graph, x));
    x = add_gates(graph, add_attention(graph, x));
    x = add_grid_samples(graph, add_axis_maps(graph, add_pools(graph, x)));
    x = add_transposed(graph, add_recurrences(graph, x));
    x = add_computed_weights(graph, x);
    x = conv(graph, x,
             (struct xt_conv_spec){
                 .name = "tail", .channels = 20, .kernel_h = 3, .kernel_w = 3, .bias = true});
    /* 4x2x20 */
    struct xt_norm_outputs tail =
        norm(graph, x,
             (struct xt_norm_spec){
                 .name = "tail.norm",
                 .relu = true,
                 .average = {.kernel_h = 2, .kernel_w = 1, .stride_h = 2, .stride_w = 1}});
    struct xt_context_spec context = {
        .count = 4,
        .taps = {half.stem.average, half.block.average, join.average, tail.average}, /* each 2x2 */
        .group = {0, 1, 1, 2},
        .over_batch = over_batch != NULL};
    struct xt_conv_spec head = same("head", CLASSES, 1, 1);
    head.why_f32 = "its logits go into the loss";
    return conv(graph, xt_graph_context(graph, &context), head);
}

const struct xt_selftest_network xt_selftest_small = {.describe = describe};
const struct xt_selftest_network xt_selftest_small_over_batch = {.describe = describe,
                                                                 .context = "over the batch"};
