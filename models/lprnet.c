/* LPRNet (Zherzdev & Gruzdev 2018, arXiv:1806.10447) with the parameter names of the published
 * PyTorch weights.
 */
#include <stdio.h>

#include "models/registry.h"

extern const struct xt_model_info xt_model_lprnet[];

static struct xt_value *conv(struct xt_net *net, struct xt_value *in, const char *name,
                             int channels, int kh, int kw)
{
    /* the blocks' 3x1 and 1x3 keep the size; 3x3, 1x4 and 13x1 do not */
    int pad_h = kh == 3 && kw == 1;
    int pad_w = kh == 1 && kw == 3;
    return xt_net_conv(net, in,
                       &(struct xt_net_conv){.name = name,
                                             .channels = channels,
                                             .kernel = {kh, kw},
                                             .pad = {pad_h, pad_w, pad_h, pad_w},
                                             .bias = true});
}

static struct xt_value *norm_relu(struct xt_net *net, struct xt_value *in, const char *name)
{
    return xt_net_relu(net, xt_net_batch_norm(net, in, &(struct xt_net_norm){.name = name}));
}

/* The small basic block, followed by BN and ReLU. */
static struct xt_value *block(struct xt_net *net, struct xt_value *in, int layer, int channels)
{
    static const int kernels[3][2] = {{1, 1}, {3, 1}, {1, 3}};
    struct xt_value *x = in;
    char name[64];
    for (int i = 0; i < 3; i++) {
        snprintf(name, sizeof name, "backbone.%d.block.%d", layer, 2 * i);
        x = xt_net_relu(net, conv(net, x, name, channels / 4, kernels[i][0], kernels[i][1]));
    }
    snprintf(name, sizeof name, "backbone.%d.block.6", layer);
    x = conv(net, x, name, channels, 1, 1);
    snprintf(name, sizeof name, "backbone.%d", layer + 1);
    return norm_relu(net, x, name);
}

/* The published 3-D max pools: a stride over the channels, and a 3x3 window. */
static struct xt_value *max_pool(struct xt_net *net, struct xt_value *in, int every, int stride)
{
    struct xt_value *x = in;
    if (every > 1 && in)
        x = xt_net_slice(
            net, in,
            &(struct xt_net_slice){.axis = XT_AXIS_C, .step = every, .count = in->c / every});
    return xt_net_max_pool(net, x, &(struct xt_net_pool){.kernel = {3, 3}, .stride = {1, stride}});
}

static struct xt_value *average(struct xt_net *net, struct xt_value *in, int kernel_h, int kernel_w,
                                int stride_h, int stride_w)
{
    return xt_net_avg_pool(
        net, in,
        &(struct xt_net_pool){.kernel = {kernel_h, kernel_w}, .stride = {stride_h, stride_w}});
}

/* The taps are 4 high and 18 wide. */
static struct xt_value *describe(struct xt_net *net, const struct xt_model_info *model,
                                 const struct xt_model_options *options)
{
    struct xt_value *taps[4];
    struct xt_value *x = xt_net_input(net, model->height, model->width, 3);
    x = norm_relu(net, conv(net, x, "backbone.0", 64, 3, 3), "backbone.1");
    taps[0] = average(net, x, 5, 5, 5, 5);
    x = block(net, max_pool(net, x, 1, 1), 4, 128);
    taps[1] = average(net, x, 5, 5, 5, 5);
    x = block(net, max_pool(net, x, 2, 2), 8, 256);
    x = block(net, x, 11, 256);
    taps[2] = average(net, x, 4, 10, 4, 2);
    x = xt_net_dropout(net, max_pool(net, x, 4, 2), &(struct xt_net_dropout){.name = "dropout.15"});
    x = norm_relu(net, conv(net, x, "backbone.16", 256, 1, 4), "backbone.17");
    x = xt_net_dropout(net, x, &(struct xt_net_dropout){.name = "dropout.19"});
    x = conv(net, x, "backbone.20", options->classes, 13, 1);
    taps[3] = norm_relu(net, x, "backbone.21");
    x = xt_net_context(
        net, taps, 4,
        &(struct xt_net_context){.name = "context", .over_batch = options->context_over_batch});
    return conv(net, x, "container.0", options->classes, 1, 1);
}

static const struct xt_recipe_item recipe[] = {
    {"batch", "32"},    {"steps", "800"},      {"save-every", "200"},    {"optim", "adamw"},
    {"lr", "2e-3"},     {"sched", "onecycle"}, {"weight-decay", "1e-4"}, {"clip", "5"},
    {"dropout", "0.5"}, {NULL, NULL},
};

static const struct xt_recipe_item fine_tune[] = {
    {"augment", "true"}, {"epochs", "40"}, {"lr", "1e-4"},
    {"warmup", "0.2"},   {"dropout", "0"}, {NULL, NULL},
};

const struct xt_model_info xt_model_lprnet[] = {
    {
        .name = "lprnet",
        .title = "LPRNet, license plates",
        .in_selftest = true,
        .height = 24,
        .width = 94,
        .bgr = true,
        .mean = 127.5f,
        .scale = 1 / 128.0f,
        .time_steps = 18,
        .class_layers = {{"backbone.20"},
                         {"backbone.21"},
                         {"container.0", .is_head = true, .last_columns = true}},
        .initial_bias = 0.01f,
        .default_data = "synth:plates?count=50000&seed=1",
        .default_val = "synth:plates?count=1000&seed=2",
        .recipes = {recipe, fine_tune},
        .describe = describe,
    },
    {.name = NULL}};
