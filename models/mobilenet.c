/* MobileNetV2 (Sandler et al. 2018, arXiv:1801.04381) and MobileNetV3 (Howard et al. 2019,
 * arXiv:1905.02244). Parameter names and their order are torchvision's.
 */
#include <stdio.h>

#include "models/registry.h"

extern const struct xt_model_info xt_model_mobilenets[];

enum { BLOCKS_MAX = 17 };

static const struct xt_activation relu = {.kind = XT_ACT_RELU};
static const struct xt_activation relu6 = {.kind = XT_ACT_CLIP, .alpha = 0, .beta = 6};
static const struct xt_activation hard_swish = {.kind = XT_ACT_HARD_SWISH};
static const struct xt_activation hard_sigmoid = {
    .kind = XT_ACT_HARD_SIGMOID, .alpha = 1 / 6.0F, .beta = 0.5F};

/* An inverted residual: 1x1 to `expanded` channels, a depthwise convolution, 1x1. */
struct block {
    int kernel, expanded, channels, stride;
    bool squeezes; /* squeeze-and-excitation after the middle one */
    const struct xt_activation *activation;
};

/* What distinguishes the networks of the family. */
struct variant {
    bool v2;
    int stem, tail; /* channels of the first and the last convolution */
    int hidden;     /* of the classifier; 0: it is one layer */
    struct block blocks[BLOCKS_MAX];
    int count;
};

/* A network being described. */
struct builder {
    struct xt_net *net;
    const struct variant *variant;
};

/* A convolution and its norm, with their names, and an activation (may be NULL). */
struct layer {
    const char *conv, *norm;
    int channels, kernel, stride, groups;
    const struct xt_activation *activation;
};

static struct xt_value *layer(const struct builder *b, struct xt_value *in, const struct layer *l)
{
    int pad = l->kernel / 2;
    struct xt_net_norm norm = {.name = l->norm};
    if (!b->variant->v2) {
        norm.eps = 1e-3;
        norm.momentum = 0.01;
    }
    struct xt_value *x = xt_net_conv(b->net, in,
                                     &(struct xt_net_conv){.name = l->conv,
                                                           .channels = l->channels,
                                                           .kernel = {l->kernel, l->kernel},
                                                           .stride = {l->stride, l->stride},
                                                           .pad = {pad, pad, pad, pad},
                                                           .groups = l->groups});
    x = xt_net_batch_norm(b->net, x, &norm);
    return l->activation ? xt_net_activation(b->net, x, *l->activation, NULL) : x;
}

static int eighths(int channels)
{
    int rounded = (channels + 4) / 8 * 8;
    rounded = rounded < 8 ? 8 : rounded;
    return 10 * rounded < 9 * channels ? rounded + 8 : rounded;
}

static struct xt_value *squeeze(const struct builder *b, struct xt_value *in, const char *prefix)
{
    char name[80];
    struct xt_net_conv conv = {.name = name, .kernel = {1, 1}, .bias = true};
    struct xt_value *x = xt_net_global_avg_pool(b->net, in, NULL);
    snprintf(name, sizeof name, "%s.fc1", prefix);
    conv.channels = eighths(in ? in->c / 4 : 8);
    x = xt_net_activation(b->net, xt_net_conv(b->net, x, &conv), relu, NULL);
    snprintf(name, sizeof name, "%s.fc2", prefix);
    conv.channels = in ? in->c : 8;
    x = xt_net_activation(b->net, xt_net_conv(b->net, x, &conv), hard_sigmoid, NULL);
    return xt_net_mul(b->net, in, x, NULL);
}

/* The block's `part`-th convolution with its norm. The last one's names are one level up in V2. */
static struct xt_value *part_of(const struct builder *b, struct xt_value *in, int number, int part,
                                struct layer l)
{
    char conv[64];
    char norm[64];
    const char *within = b->variant->v2 ? "conv" : "block";
    bool is_flat = b->variant->v2 && !l.activation;
    const char *depth = is_flat ? "" : ".0";
    snprintf(conv, sizeof conv, "features.%d.%s.%d%s", number, within, part, depth);
    if (is_flat)
        snprintf(norm, sizeof norm, "features.%d.%s.%d", number, within, part + 1);
    else
        snprintf(norm, sizeof norm, "features.%d.%s.%d.1", number, within, part);
    l.conv = conv;
    l.norm = norm;
    return layer(b, in, &l);
}

static struct xt_value *add_block(const struct builder *b, struct xt_value *in, int number,
                                  const struct block *s)
{
    struct xt_value *x = in;
    int part = 0;
    char name[64];
    if (!in)
        return NULL;
    if (s->expanded != in->c)
        x = part_of(
            b, x, number, part++,
            (struct layer){
                .channels = s->expanded, .kernel = 1, .stride = 1, .activation = s->activation});
    x = part_of(b, x, number, part++,
                (struct layer){.channels = s->expanded,
                               .kernel = s->kernel,
                               .stride = s->stride,
                               .groups = s->expanded,
                               .activation = s->activation});
    if (s->squeezes) {
        snprintf(name, sizeof name, "features.%d.block.%d", number, part++);
        x = squeeze(b, x, name);
    }
    x = part_of(b, x, number, part,
                (struct layer){.channels = s->channels, .kernel = 1, .stride = 1});
    return s->stride == 1 && in->c == s->channels ? xt_net_add(b->net, x, in, NULL) : x;
}

static struct xt_value *linear(const struct builder *b, struct xt_value *in, const char *name,
                               int channels)
{
    return xt_net_linear(b->net, in,
                         &(struct xt_net_linear){.name = name,
                                                 .channels = channels,
                                                 .bias = true,
                                                 .weight_init = {XT_INIT_NORMAL, 0.01F}});
}

static struct xt_value *classifier(const struct builder *b, struct xt_value *in, int classes)
{
    static const struct xt_net_dropout dropout = {.name = "classifier.dropout"};
    struct xt_value *x = xt_net_global_avg_pool(b->net, in, "avgpool");
    x = xt_net_flatten(b->net, x, NULL);
    if (!b->variant->hidden)
        return linear(b, xt_net_dropout(b->net, x, &dropout), "classifier.1", classes);
    x = linear(b, x, "classifier.0", b->variant->hidden);
    x = xt_net_activation(b->net, x, hard_swish, NULL);
    return linear(b, xt_net_dropout(b->net, x, &dropout), "classifier.3", classes);
}

static struct xt_value *describe(struct xt_net *net, const struct xt_model_info *model,
                                 const struct xt_model_options *options)
{
    const struct variant *variant = model->variant;
    const struct builder b = {net, variant};
    const struct xt_activation *outer = variant->v2 ? &relu6 : &hard_swish;
    char conv[32];
    char norm[32];
    struct xt_value *x = xt_net_input(net, options->height, options->width, 3);
    x = layer(&b, x,
              &(struct layer){"features.0.0", "features.0.1", variant->stem, 3, 2, 1, outer});
    for (int i = 0; i < variant->count; i++)
        x = add_block(&b, x, i + 1, &variant->blocks[i]);
    snprintf(conv, sizeof conv, "features.%d.0", variant->count + 1);
    snprintf(norm, sizeof norm, "features.%d.1", variant->count + 1);
    x = layer(&b, x, &(struct layer){conv, norm, variant->tail, 1, 1, 1, outer});
    return classifier(&b, x, options->classes);
}

static const struct variant v2 = {
    .v2 = true,
    .stem = 32,
    .tail = 1280,
    .count = 17,
    .blocks =
        {
            {3, 32, 16, 1, false, &relu6},
            {3, 96, 24, 2, false, &relu6},
            {3, 144, 24, 1, false, &relu6},
            {3, 144, 32, 2, false, &relu6},
            {3, 192, 32, 1, false, &relu6},
            {3, 192, 32, 1, false, &relu6},
            {3, 192, 64, 2, false, &relu6},
            {3, 384, 64, 1, false, &relu6},
            {3, 384, 64, 1, false, &relu6},
            {3, 384, 64, 1, false, &relu6},
            {3, 384, 96, 1, false, &relu6},
            {3, 576, 96, 1, false, &relu6},
            {3, 576, 96, 1, false, &relu6},
            {3, 576, 160, 2, false, &relu6},
            {3, 960, 160, 1, false, &relu6},
            {3, 960, 160, 1, false, &relu6},
            {3, 960, 320, 1, false, &relu6},
        },
};

static const struct variant v3_small = {
    .stem = 16,
    .tail = 576,
    .hidden = 1024,
    .count = 11,
    .blocks =
        {
            {3, 16, 16, 2, true, &relu},
            {3, 72, 24, 2, false, &relu},
            {3, 88, 24, 1, false, &relu},
            {5, 96, 40, 2, true, &hard_swish},
            {5, 240, 40, 1, true, &hard_swish},
            {5, 240, 40, 1, true, &hard_swish},
            {5, 120, 48, 1, true, &hard_swish},
            {5, 144, 48, 1, true, &hard_swish},
            {5, 288, 96, 2, true, &hard_swish},
            {5, 576, 96, 1, true, &hard_swish},
            {5, 576, 96, 1, true, &hard_swish},
        },
};

static const struct variant v3_large = {
    .stem = 16,
    .tail = 960,
    .hidden = 1280,
    .count = 15,
    .blocks =
        {
            {3, 16, 16, 1, false, &relu},
            {3, 64, 24, 2, false, &relu},
            {3, 72, 24, 1, false, &relu},
            {5, 72, 40, 2, true, &relu},
            {5, 120, 40, 1, true, &relu},
            {5, 120, 40, 1, true, &relu},
            {3, 240, 80, 2, false, &hard_swish},
            {3, 200, 80, 1, false, &hard_swish},
            {3, 184, 80, 1, false, &hard_swish},
            {3, 184, 80, 1, false, &hard_swish},
            {3, 480, 112, 1, true, &hard_swish},
            {3, 672, 112, 1, true, &hard_swish},
            {5, 672, 160, 2, true, &hard_swish},
            {5, 960, 160, 1, true, &hard_swish},
            {5, 960, 160, 1, true, &hard_swish},
        },
};

static const struct xt_recipe_item recipe[] = {
    {"batch", "64"},          {"epochs", "10"},    {"optim", "sgd"},
    {"lr", "0.05"},           {"momentum", "0.9"}, {"sched", "cosine"},
    {"weight-decay", "4e-5"}, {"dropout", "0.2"},  {NULL, NULL},
};

static const struct xt_recipe_item fine_tune[] = {
    {"epochs", "5"},
    {"lr", "0.01"},
    {"flip", "true"},
    {NULL, NULL},
};

/* What the networks of the family share. */
#define FAMILY XT_MODEL_OF_IMAGENET, .recipes = {recipe, fine_tune}, .describe = describe

const struct xt_model_info xt_model_mobilenets[] = {
    {"mobilenet_v2", "MobileNetV2, images by class", .variant = &v2, .head = "classifier.1",
     .class_layers = {{"classifier.1", .is_head = true}}, FAMILY},
    {"mobilenet_v3_small", "MobileNetV3 small, images by class", .variant = &v3_small,
     .head = "classifier.3", .class_layers = {{"classifier.3", .is_head = true}}, FAMILY},
    {"mobilenet_v3_large", "MobileNetV3 large, images by class", .variant = &v3_large,
     .head = "classifier.3", .class_layers = {{"classifier.3", .is_head = true}}, FAMILY},
    {.name = NULL},
};
