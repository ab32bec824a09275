/* ResNet-50 (He et al. 2016, arXiv:1512.03385) in its version 1.5: the stride stands on the 3x3
 * convolution of a block. Parameter names and their order are torchvision's.
 */
#include <stdio.h>

#include "models/registry.h"

extern const struct xt_model_info xt_model_resnet50;

enum { EXPANSION = 4 };

static struct xt_tensor *conv(struct xt_graph *graph, struct xt_tensor *in, const char *name,
                              int channels, int kernel, int stride)
{
    struct xt_conv_spec spec = {
        .name = name,
        .channels = channels,
        .kernel_h = kernel,
        .kernel_w = kernel,
        .stride_h = stride,
        .stride_w = stride,
        .pad_h = kernel / 2,
        .pad_w = kernel / 2,
    };
    return xt_graph_conv(graph, in, &spec);
}

/* BN of a convolution's output, whose own output is the whole tensor. */
static struct xt_tensor *norm(struct xt_graph *graph, struct xt_tensor *in, const char *name,
                              bool relu)
{
    struct xt_norm_spec spec = {.name = name, .relu = relu, .full = true};
    return xt_graph_norm(graph, in, &spec).full;
}

static struct xt_tensor *stem(struct xt_graph *graph, const struct xt_model_options *options)
{
    struct xt_norm_spec spec = {
        .name = "bn1",
        .relu = true,
        .max = {
            .kernel_h = 3, .kernel_w = 3, .stride_h = 2, .stride_w = 2, .pad_h = 1, .pad_w = 1}};
    struct xt_tensor *x =
        xt_graph_input(graph, options->height, options->width, &options->normalise);
    return xt_graph_norm(graph, conv(graph, x, "conv1", 64, 7, 2), &spec).max;
}

/* Where a block stands, and what it is like. */
struct block {
    char prefix[32]; /* "layer1.0" */
    int width;       /* of the 3x3 convolution */
    int stride;
    bool downsample;
    bool last; /* of the network: its output is averaged over the whole image */
};

static const char *name_in(const struct block *block, const char *name, char *out, size_t size)
{
    snprintf(out, size, "%s.%s", block->prefix, name);
    return out;
}

/* The 1x1, 3x3 and 1x1 convolutions, the last one's BN left to the caller. */
static struct xt_tensor *branch(struct xt_graph *graph, struct xt_tensor *in,
                                const struct block *block)
{
    char name[64];
    enum { SIZE = sizeof name };
    struct xt_tensor *x = conv(graph, in, name_in(block, "conv1", name, SIZE), block->width, 1, 1);
    x = norm(graph, x, name_in(block, "bn1", name, SIZE), true);
    x = conv(graph, x, name_in(block, "conv2", name, SIZE), block->width, 3, block->stride);
    x = norm(graph, x, name_in(block, "bn2", name, SIZE), true);
    return conv(graph, x, name_in(block, "conv3", name, SIZE), EXPANSION * block->width, 1, 1);
}

/* What is added to the branch: the block's input, brought to its output's size. */
static struct xt_tensor *shortcut(struct xt_graph *graph, struct xt_tensor *in,
                                  const struct block *block)
{
    char name[64];
    enum { SIZE = sizeof name };
    if (!block->downsample)
        return in;
    struct xt_tensor *x = conv(graph, in, name_in(block, "downsample.0", name, SIZE),
                               EXPANSION * block->width, 1, block->stride);
    return norm(graph, x, name_in(block, "downsample.1", name, SIZE), false);
}

static struct xt_tensor *bottleneck(struct xt_graph *graph, struct xt_tensor *in,
                                    const struct block *block)
{
    char name[64];
    struct xt_tensor *x = branch(graph, in, block);
    /* A file has the last BN before the shortcut, which has to run first. */
    name_in(block, "bn3", name, sizeof name);
    struct xt_norm_params params =
        xt_graph_norm_params(graph, name, EXPANSION * block->width, NULL);
    struct xt_norm_spec spec = {.name = name,
                                .relu = true,
                                .residual = shortcut(graph, in, block),
                                .full = !block->last,
                                .params = &params};
    if (block->last && x)
        spec.average = (struct xt_window){
            .kernel_h = x->h, .kernel_w = x->w, .stride_h = x->h, .stride_w = x->w};
    struct xt_norm_outputs out = xt_graph_norm(graph, x, &spec);
    return block->last ? out.average : out.full;
}

static struct xt_tensor *describe(struct xt_graph *graph, const struct xt_model_options *options)
{
    static const int depths[] = {3, 4, 6, 3};
    enum { STAGES = sizeof depths / sizeof depths[0] };
    struct xt_tensor *x = stem(graph, options);
    for (int stage = 0; stage < STAGES; stage++)
        for (int i = 0; i < depths[stage]; i++) {
            struct block block = {
                .width = 64 << stage,
                .stride = stage > 0 && i == 0 ? 2 : 1,
                .downsample = i == 0,
                .last = stage == STAGES - 1 && i == depths[stage] - 1,
            };
            snprintf(block.prefix, sizeof block.prefix, "layer%d.%d", stage + 1, i);
            x = bottleneck(graph, x, &block);
        }
    struct xt_conv_spec fc = {
        .name = "fc",
        .channels = options->classes,
        .kernel_h = 1,
        .kernel_w = 1,
        .bias = true,
        .why_f32 = "it reads float32 means, and its logits go into the loss",
        .fully_connected = true,
    };
    return xt_graph_conv(graph, x, &fc);
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
