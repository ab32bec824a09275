/* ResNet (He et al. 2016, arXiv:1512.03385; with version 1.5's bottlenecks, whose stride is in the
 * 3x3 convolution), ResNeXt (Xie et al. 2017, arXiv:1611.05431) and wide ResNet (Zagoruyko &
 * Komodakis 2016, arXiv:1605.07146). Parameter names and their order are torchvision's.
 */
#include <math.h>
#include <stdio.h>

#include "models/registry.h"

extern const struct xt_model_info xt_model_resnets[];

enum { STAGES = 4 };

/* What distinguishes the networks of the family. */
struct variant {
    int depths[STAGES]; /* blocks of a stage */
    int expansion;      /* of a block's output; 1: a block is two 3x3 convolutions */
    int groups;
    int group_width; /* of the 3x3 convolution, for each 64 of the stage's width */
};

static struct xt_value *conv(struct xt_net *net, struct xt_value *in, struct xt_net_conv spec)
{
    int pad = spec.kernel[0] / 2;
    for (int i = 0; i < XT_SIDES; i++)
        spec.pad[i] = pad;
    return xt_net_conv(net, in, &spec);
}

static struct xt_value *norm(struct xt_net *net, struct xt_value *in, const char *name)
{
    return xt_net_batch_norm(net, in, &(struct xt_net_norm){.name = name});
}

static struct xt_value *stem(struct xt_net *net, const struct xt_model_options *options)
{
    struct xt_value *x = xt_net_input(net, options->height, options->width, 3);
    x = conv(
        net, x,
        (struct xt_net_conv){.name = "conv1", .channels = 64, .kernel = {7, 7}, .stride = {2, 2}});
    x = xt_net_relu(net, norm(net, x, "bn1"));
    return xt_net_max_pool(
        net, x, &(struct xt_net_pool){.kernel = {3, 3}, .stride = {2, 2}, .pad = {1, 1, 1, 1}});
}

/* A block's place and parameters. */
struct block {
    char prefix[32]; /* "layer1.0" */
    const struct variant *variant;
    int width; /* the stage's */
    int stride;
};

/* A convolution and its norm in a block. */
struct layer {
    const char *conv, *norm;
    int channels, kernel, stride, groups;
};

static struct xt_value *layer(struct xt_net *net, struct xt_value *in, const struct block *block,
                              struct layer l)
{
    char name[64];
    snprintf(name, sizeof name, "%s.%s", block->prefix, l.conv);
    struct xt_value *x = conv(net, in,
                              (struct xt_net_conv){.name = name,
                                                   .channels = l.channels,
                                                   .kernel = {l.kernel, l.kernel},
                                                   .stride = {l.stride, l.stride},
                                                   .groups = l.groups});
    snprintf(name, sizeof name, "%s.%s", block->prefix, l.norm);
    return norm(net, x, name);
}

static struct xt_value *basic(struct xt_net *net, struct xt_value *in, const struct block *b)
{
    struct xt_value *x =
        layer(net, in, b, (struct layer){"conv1", "bn1", b->width, 3, b->stride, 1});
    return layer(net, xt_net_relu(net, x), b, (struct layer){"conv2", "bn2", b->width, 3, 1, 1});
}

static struct xt_value *bottleneck(struct xt_net *net, struct xt_value *in, const struct block *b)
{
    const struct variant *v = b->variant;
    int width = b->width * v->group_width / 64 * v->groups;
    struct xt_value *x = layer(net, in, b, (struct layer){"conv1", "bn1", width, 1, 1, 1});
    x = layer(net, xt_net_relu(net, x), b,
              (struct layer){"conv2", "bn2", width, 3, b->stride, v->groups});
    return layer(net, xt_net_relu(net, x), b,
                 (struct layer){"conv3", "bn3", b->width * v->expansion, 1, 1, 1});
}

static struct xt_value *add_block(struct xt_net *net, struct xt_value *in, const struct block *b)
{
    int out = b->width * b->variant->expansion;
    bool is_basic = b->variant->expansion == 1;
    struct xt_value *x = is_basic ? basic(net, in, b) : bottleneck(net, in, b);
    struct xt_value *shortcut = in;
    if (in && (b->stride > 1 || in->c != out))
        shortcut =
            layer(net, in, b, (struct layer){"downsample.0", "downsample.1", out, 1, b->stride, 1});
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

static struct xt_value *describe(struct xt_net *net, const struct xt_model_info *model,
                                 const struct xt_model_options *options)
{
    const struct variant *variant = model->variant;
    struct xt_value *x = stem(net, options);
    for (int stage = 0; stage < STAGES; stage++)
        for (int i = 0; i < variant->depths[stage]; i++) {
            struct block block = {
                .variant = variant,
                .width = 64 << stage,
                .stride = stage > 0 && i == 0 ? 2 : 1,
            };
            snprintf(block.prefix, sizeof block.prefix, "layer%d.%d", stage + 1, i);
            x = add_block(net, x, &block);
        }
    return head(net, x, options->classes);
}

static const struct xt_recipe_item recipe[] = {
    {"batch", "128"},    {"epochs", "1"},       {"optim", "sgd"},    {"lr", "0.01"},
    {"momentum", "0.9"}, {"sched", "constant"}, {"log-every", "50"}, {NULL, NULL},
};

/* The last layer is usually new: the rate falls from what it needs to what preserves the others. */
static const struct xt_recipe_item fine_tune[] = {
    {"epochs", "5"},
    {"sched", "cosine"},
    {"flip", "true"},
    {NULL, NULL},
};

/* What the networks of the family share. */
#define FAMILY                                                                                     \
    XT_MODEL_OF_IMAGENET, .head = "fc", .class_layers = {{"fc", .is_head = true}},                 \
                          .recipes = {recipe, fine_tune}, .describe = describe

const struct xt_model_info xt_model_resnets[] = {
    {"resnet18", "ResNet-18, images by class",
     .variant = &(const struct variant){{2, 2, 2, 2}, 1, 1, 64}, FAMILY},
    {"resnet34", "ResNet-34, images by class",
     .variant = &(const struct variant){{3, 4, 6, 3}, 1, 1, 64}, FAMILY},
    {"resnet50", "ResNet-50, images by class", .in_selftest = true,
     .variant = &(const struct variant){{3, 4, 6, 3}, 4, 1, 64}, FAMILY},
    {"resnet101", "ResNet-101, images by class",
     .variant = &(const struct variant){{3, 4, 23, 3}, 4, 1, 64}, FAMILY},
    {"resnet152", "ResNet-152, images by class",
     .variant = &(const struct variant){{3, 8, 36, 3}, 4, 1, 64}, FAMILY},
    {"resnext50_32x4d", "ResNeXt-50 of 32 groups of 4, images by class",
     .variant = &(const struct variant){{3, 4, 6, 3}, 4, 32, 4}, FAMILY},
    {"wide_resnet50_2", "ResNet-50 of twice the width, images by class",
     .variant = &(const struct variant){{3, 4, 6, 3}, 4, 1, 128}, FAMILY},
    {.name = NULL},
};
