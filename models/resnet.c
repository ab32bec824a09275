/* ResNet-50 (He et al. 2016, arXiv:1512.03385) in its version 1.5: the stride stands on the 3x3
 * convolution of a block. Parameter names and their order are torchvision's.
 */
#include <math.h>
#include <stdio.h>

#include "models/registry.h"

extern const struct xt_model_info xt_model_resnet50;

enum { EXPANSION = 4 };

static struct xt_value *conv(struct xt_net *net, struct xt_value *in, const char *name,
                             int channels, int kernel, int stride)
{
    int pad = kernel / 2;
    return xt_net_conv(net, in,
                       &(struct xt_net_conv){.name = name,
                                             .channels = channels,
                                             .kernel = {kernel, kernel},
                                             .stride = {stride, stride},
                                             .pad = {pad, pad, pad, pad}});
}

static struct xt_value *norm(struct xt_net *net, struct xt_value *in, const char *name)
{
    return xt_net_batch_norm(net, in, &(struct xt_net_norm){.name = name});
}

static struct xt_value *stem(struct xt_net *net, const struct xt_model_options *options)
{
    struct xt_value *x = xt_net_input(net, options->height, options->width, 3);
    x = xt_net_relu(net, norm(net, conv(net, x, "conv1", 64, 7, 2), "bn1"));
    return xt_net_max_pool(
        net, x, &(struct xt_net_pool){.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1, 1, 1}});
}

/* Where a block stands, and what it is like. */
struct block {
    char prefix[32]; /* "layer1.0" */
    int width;       /* of the 3x3 convolution */
    int stride;
    bool downsample;
};

static const char *name_in(const struct block *block, const char *name, char *out, size_t size)
{
    snprintf(out, size, "%s.%s", block->prefix, name);
    return out;
}

/* The block's convolution and norm of this number. */
static struct xt_value *layer(struct xt_net *net, struct xt_value *in, const struct block *block,
                              const char *conv_name, const char *norm_name, int channels,
                              int kernel, int stride)
{
    char name[64];
    struct xt_value *x =
        conv(net, in, name_in(block, conv_name, name, sizeof name), channels, kernel, stride);
    return norm(net, x, name_in(block, norm_name, name, sizeof name));
}

static struct xt_value *bottleneck(struct xt_net *net, struct xt_value *in,
                                   const struct block *block)
{
    int out = EXPANSION * block->width;
    struct xt_value *x = layer(net, in, block, "conv1", "bn1", block->width, 1, 1);
    x = layer(net, xt_net_relu(net, x), block, "conv2", "bn2", block->width, 3, block->stride);
    x = layer(net, xt_net_relu(net, x), block, "conv3", "bn3", out, 1, 1);
    struct xt_value *shortcut = in;
    if (block->downsample)
        shortcut = layer(net, in, block, "downsample.0", "downsample.1", out, 1, block->stride);
    return xt_net_relu(net, xt_net_add(net, x, shortcut, NULL));
}

static struct xt_value *head(struct xt_net *net, struct xt_value *in, int classes)
{
    struct xt_value *x = xt_net_global_avg_pool(net, in, "avgpool");
    struct xt_init init = {XT_INIT_UNIFORM, x ? 1 / sqrtf((float)x->c) : 1};
    return xt_net_linear(net, xt_net_flatten(net, x, NULL),
                         &(struct xt_net_linear){.name = "fc",
                                                 .channels = classes,
                                                 .bias = true,
                                                 .weight_init = init,
                                                 .bias_init = init});
}

static struct xt_value *describe(struct xt_net *net, const struct xt_model_options *options)
{
    static const int depths[] = {3, 4, 6, 3};
    enum { STAGES = sizeof depths / sizeof depths[0] };
    struct xt_value *x = stem(net, options);
    for (int stage = 0; stage < STAGES; stage++)
        for (int i = 0; i < depths[stage]; i++) {
            struct block block = {
                .width = 64 << stage,
                .stride = stage > 0 && i == 0 ? 2 : 1,
                .downsample = i == 0,
            };
            snprintf(block.prefix, sizeof block.prefix, "layer%d.%d", stage + 1, i);
            x = bottleneck(net, x, &block);
        }
    return head(net, x, options->classes);
}

static const struct xt_recipe_item recipe[] = {
    {"batch", "128"},    {"epochs", "1"},       {"optim", "sgd"},    {"lr", "0.01"},
    {"momentum", "0.9"}, {"sched", "constant"}, {"log-every", "50"}, {NULL, NULL},
};

/* The last layer is new as a rule: the rate falls from what it needs to what the others keep. */
static const struct xt_recipe_item fine_tune[] = {
    {"epochs", "5"},
    {"sched", "cosine"},
    {"flip", "true"},
    {NULL, NULL},
};

static const struct xt_class_layer class_layers[] = {
    {.name = "fc", .is_head = true},
    {.name = NULL},
};

const struct xt_model_info xt_model_resnet50 = {
    .name = "resnet50",
    .title = "ResNet-50, images by class",
    .height = 224,
    .width = 224,
    .any_size = true,
    .smallest = 32,
    .mean = 127.5f,
    .scale = 1 / 127.5f,
    .published = "imagenet",
    .head = "fc",
    .class_layers = class_layers,
    .default_data = "synth:shapes?count=20000&seed=1",
    .default_val = "synth:shapes?count=1000&seed=2",
    .recipes = {recipe, fine_tune},
    .describe = describe,
};
