/* EfficientNet-B0 (Tan & Le 2019, arXiv:1905.11946). Parameter names and their order are
 * torchvision's.
 */
#include <math.h>
#include <stdio.h>

#include "models/registry.h"

extern const struct xt_model_info xt_model_efficientnets[];

enum { STAGES = 7 };

static const struct xt_activation silu = {.kind = XT_ACT_SILU};
static const struct xt_activation sigmoid = {.kind = XT_ACT_SIGMOID};

/* Blocks of a stage; the first has the stride. */
struct stage {
    int expansion, kernel, stride, channels, blocks;
};

struct variant {
    int stem, tail; /* channels of the first and the last convolution */
    struct stage stages[STAGES];
};

/* A convolution with its norm, PREFIX.0 and PREFIX.1. */
struct layer {
    const char *prefix;
    int channels, kernel, stride, groups;
    bool is_linear; /* no activation after it */
};

static struct xt_value *layer(struct xt_net *net, struct xt_value *in, const struct layer *l)
{
    char conv[64];
    char norm[64];
    int pad = l->kernel / 2;
    snprintf(conv, sizeof conv, "%s.0", l->prefix);
    snprintf(norm, sizeof norm, "%s.1", l->prefix);
    struct xt_value *x = xt_net_conv(net, in,
                                     &(struct xt_net_conv){.name = conv,
                                                           .channels = l->channels,
                                                           .kernel = {l->kernel, l->kernel},
                                                           .stride = {l->stride, l->stride},
                                                           .pad = {pad, pad, pad, pad},
                                                           .groups = l->groups});
    x = xt_net_batch_norm(net, x, &(struct xt_net_norm){.name = norm});
    return l->is_linear ? x : xt_net_activation(net, x, silu, NULL);
}

static struct xt_value *squeeze(struct xt_net *net, struct xt_value *in, const char *prefix,
                                int channels)
{
    char name[80];
    struct xt_net_conv conv = {.name = name, .channels = channels, .kernel = {1, 1}, .bias = true};
    struct xt_value *x = xt_net_global_avg_pool(net, in, NULL);
    snprintf(name, sizeof name, "%s.fc1", prefix);
    x = xt_net_activation(net, xt_net_conv(net, x, &conv), silu, NULL);
    snprintf(name, sizeof name, "%s.fc2", prefix);
    conv.channels = in ? in->c : 1;
    x = xt_net_activation(net, xt_net_conv(net, x, &conv), sigmoid, NULL);
    return xt_net_mul(net, in, x, NULL);
}

/* A block's place and parameters. */
struct block {
    char prefix[32]; /* "features.1.0" */
    const struct stage *stage;
    int stride;
    float drop; /* stochastic depth: the probability of being skipped */
};

static struct xt_value *add_block(struct xt_net *net, struct xt_value *in, const struct block *b)
{
    char name[64];
    const struct stage *s = b->stage;
    struct xt_value *x = in;
    int part = 0;
    if (!in)
        return NULL;
    int expanded = in->c * s->expansion;
    if (s->expansion > 1) {
        snprintf(name, sizeof name, "%s.block.%d", b->prefix, part++);
        x = layer(net, x, &(struct layer){name, expanded, 1, 1, 1, false});
    }
    snprintf(name, sizeof name, "%s.block.%d", b->prefix, part++);
    x = layer(net, x, &(struct layer){name, expanded, s->kernel, b->stride, expanded, false});
    snprintf(name, sizeof name, "%s.block.%d", b->prefix, part++);
    x = squeeze(net, x, name, in->c / 4);
    snprintf(name, sizeof name, "%s.block.%d", b->prefix, part);
    x = layer(net, x, &(struct layer){name, s->channels, 1, 1, 1, true});
    if (b->stride > 1 || in->c != s->channels)
        return x;
    if (b->drop > 0)
        x = xt_net_drop_path(net, x, &(struct xt_net_dropout){.p = b->drop});
    return xt_net_add(net, x, in, NULL);
}

static struct xt_value *classifier(struct xt_net *net, struct xt_value *in, int classes)
{
    struct xt_value *x = xt_net_global_avg_pool(net, in, "avgpool");
    x = xt_net_flatten(net, x, NULL);
    x = xt_net_dropout(net, x, &(struct xt_net_dropout){.name = "classifier.0"});
    return xt_net_linear(
        net, x,
        &(struct xt_net_linear){.name = "classifier.1",
                                .channels = classes,
                                .bias = true,
                                .weight_init = {XT_INIT_UNIFORM, 1 / sqrtf((float)classes)}});
}

static int count_blocks(const struct variant *variant)
{
    int count = 0;
    for (int i = 0; i < STAGES; i++)
        count += variant->stages[i].blocks;
    return count;
}

static struct xt_value *describe(struct xt_net *net, const struct xt_model_info *model,
                                 const struct xt_model_options *options)
{
    const float drop_most = 0.2F;
    const struct variant *variant = model->variant;
    int at = 0;
    struct xt_value *x = xt_net_input(net, options->height, options->width, 3);
    x = layer(net, x, &(struct layer){"features.0", variant->stem, 3, 2, 1, false});
    for (int stage = 0; stage < STAGES; stage++)
        for (int i = 0; i < variant->stages[stage].blocks; i++) {
            struct block block = {
                .stage = &variant->stages[stage],
                .stride = i == 0 ? variant->stages[stage].stride : 1,
                .drop = drop_most * (float)at++ / (float)count_blocks(variant),
            };
            snprintf(block.prefix, sizeof block.prefix, "features.%d.%d", stage + 1, i);
            x = add_block(net, x, &block);
        }
    x = layer(net, x, &(struct layer){"features.8", variant->tail, 1, 1, 1, false});
    return classifier(net, x, options->classes);
}

static const struct variant b0 = {
    .stem = 32,
    .tail = 1280,
    .stages = {{1, 3, 1, 16, 1},
               {6, 3, 2, 24, 2},
               {6, 5, 2, 40, 2},
               {6, 3, 2, 80, 3},
               {6, 5, 1, 112, 3},
               {6, 5, 2, 192, 4},
               {6, 3, 1, 320, 1}},
};

static const struct xt_recipe_item recipe[] = {
    {"batch", "64"},          {"epochs", "10"},    {"optim", "sgd"},
    {"lr", "0.05"},           {"momentum", "0.9"}, {"sched", "cosine"},
    {"weight-decay", "1e-5"}, {"dropout", "0.2"},  {NULL, NULL},
};

static const struct xt_recipe_item fine_tune[] = {
    {"epochs", "5"},
    {"lr", "0.01"},
    {"flip", "true"},
    {NULL, NULL},
};

const struct xt_model_info xt_model_efficientnets[] = {
    {
        .name = "efficientnet_b0",
        .title = "EfficientNet-B0, images by class",
        XT_MODEL_OF_IMAGENET,
        .head = "classifier.1",
        .class_layers = {{"classifier.1", .is_head = true}},
        .recipes = {recipe, fine_tune},
        .variant = &b0,
        .describe = describe,
    },
    {.name = NULL},
};
