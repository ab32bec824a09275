/* LPRNet (Zherzdev & Gruzdev 2018, arXiv:1806.10447) with the parameter names of the published
 * PyTorch weights.
 *
 * Where the published network takes every 2nd or every 4th channel on (its 3-D max pools), the
 * convolution before and its BN stand here as two: the selected channels, which go on, and the
 * rest, which only the tap reads. Files hold them as one.
 */
#include <stdio.h>

#include "models/registry.h"

extern const struct xt_model_info xt_model_lprnet;

enum { CHANNELS_MAX = 256 };

/* The channels of a tensor of `count` that a stride selects, and those it leaves. */
struct split {
    int count;
    int selected[CHANNELS_MAX];
    int selected_count;
    int rest[CHANNELS_MAX];
    int rest_count;
};

static void split_init(struct split *split, int count, int every)
{
    *split = (struct split){.count = count};
    for (int i = 0; i < count; i++) {
        if (i % every == 0)
            split->selected[split->selected_count++] = i;
        else
            split->rest[split->rest_count++] = i;
    }
}

/* The network while it is being described: the taps so far and where their channels stand in the
 * head's input. */
struct builder {
    struct xt_graph *graph;
    struct xt_context_spec context;
    int columns[CHANNELS_MAX * 4]; /* the head's input channel i is the file's channel columns[i] */
    int column_count;
    int tap_start; /* the file's first channel of the tap being added */
};

/* A tensor of the current tap, whose channel i is the tap's channel channels[i] (NULL: i). */
static void add_tap(struct builder *b, int tap, struct xt_tensor *tensor, const int *channels)
{
    b->context.taps[b->context.count] = tensor;
    b->context.group[b->context.count++] = tap;
    for (int i = 0; tensor && i < tensor->c; i++)
        b->columns[b->column_count++] = b->tap_start + (channels ? channels[i] : i);
}

static struct xt_tensor *conv(struct builder *b, struct xt_tensor *in, const char *name,
                              int channels, int kh, int kw, bool relu)
{
    struct xt_conv_spec spec = {
        .name = name,
        .channels = channels,
        .kernel_h = kh,
        .kernel_w = kw,
        /* the blocks' 3x1 and 1x3 keep the size; 3x3, 1x4 and 13x1 do not */
        .pad_h = kh == 3 && kw == 1,
        .pad_w = kh == 1 && kw == 3,
        .bias = true,
        .relu = relu,
    };
    return xt_graph_conv(b->graph, in, &spec);
}

/* The small basic block up to its last ReLU; the last 1x1 convolution follows apart, since it may
 * be split. */
static struct xt_tensor *block(struct builder *b, struct xt_tensor *in, int layer, int channels)
{
    static const int kernels[3][2] = {{1, 1}, {3, 1}, {1, 3}};
    struct xt_tensor *x = in;
    for (int i = 0; i < 3; i++) {
        char name[64];
        snprintf(name, sizeof name, "backbone.%d.block.%d", layer, 2 * i);
        x = conv(b, x, name, channels / 4, kernels[i][0], kernels[i][1], true);
    }
    return x;
}

struct pools {
    struct xt_window max;
    struct xt_window average;
    bool full;
};

/* One part of a block's last convolution and its BN. */
static struct xt_norm_outputs part(struct builder *b, struct xt_tensor *in, int layer,
                                   int file_count, const int *map, int channels,
                                   const struct pools *pools)
{
    char name[64];
    snprintf(name, sizeof name, "backbone.%d.block.6", layer);
    struct xt_conv_spec spec = {.name = name,
                                .channels = channels,
                                .kernel_h = 1,
                                .kernel_w = 1,
                                .bias = true,
                                .out = {.file_count = file_count, .map = map}};
    struct xt_tensor *z = xt_graph_conv(b->graph, in, &spec);
    snprintf(name, sizeof name, "backbone.%d", layer + 1);
    struct xt_norm_spec norm = {.name = name,
                                .relu = true,
                                .full = pools->full,
                                .max = pools->max,
                                .average = pools->average,
                                .out = spec.out};
    return xt_graph_norm(b->graph, z, &norm);
}

/* A block whose selected channels go on through a max pool and all of whose channels are a tap. */
static struct xt_tensor *tapped_block(struct builder *b, struct xt_tensor *in, int layer,
                                      int channels, int every, int tap, struct xt_window average)
{
    static const struct xt_window narrow = {
        .kernel_h = 3, .kernel_w = 3, .stride_h = 1, .stride_w = 2};
    struct split split;
    split_init(&split, channels, every);
    struct xt_tensor *x = block(b, in, layer, channels);
    struct xt_norm_outputs selected =
        part(b, x, layer, channels, split.selected, split.selected_count,
             &(struct pools){.max = narrow, .average = average});
    struct xt_norm_outputs rest = part(b, x, layer, channels, split.rest, split.rest_count,
                                       &(struct pools){.average = average});
    add_tap(b, tap, selected.average, split.selected);
    add_tap(b, tap, rest.average, split.rest);
    b->tap_start += channels;
    return selected.max;
}

static struct xt_tensor *stem(struct builder *b, const struct xt_normalise *normalise)
{
    struct xt_tensor *x =
        xt_graph_input(b->graph, xt_model_lprnet.height, xt_model_lprnet.width, normalise);
    x = conv(b, x, "backbone.0", 64, 3, 3, false);
    struct xt_norm_spec norm = {
        .name = "backbone.1",
        .relu = true,
        .max = {.kernel_h = 3, .kernel_w = 3, .stride_h = 1, .stride_w = 1},
        .average = {.kernel_h = 5, .kernel_w = 5, .stride_h = 5, .stride_w = 5},
    };
    struct xt_norm_outputs out = xt_graph_norm(b->graph, x, &norm);
    add_tap(b, 0, out.average, NULL);
    b->tap_start += 64;
    return out.max;
}

static struct xt_tensor *plain_norm(struct builder *b, struct xt_tensor *in, const char *name)
{
    struct xt_norm_spec norm = {.name = name, .relu = true, .full = true};
    return xt_graph_norm(b->graph, in, &norm).full;
}

/* Layers 15 to 22: dropout, 1x4, dropout, 13x1, whose output is the last tap. It is not pooled: a
 * 1x1 window copies it to float32. */
static void tail(struct builder *b, struct xt_tensor *in, int classes)
{
    struct xt_norm_spec last = {
        .name = "backbone.21",
        .relu = true,
        .average = {.kernel_h = 1, .kernel_w = 1, .stride_h = 1, .stride_w = 1}};
    struct xt_tensor *x = xt_graph_dropout(b->graph, in, "dropout.15");
    x = conv(b, x, "backbone.16", 256, 1, 4, false);
    x = plain_norm(b, x, "backbone.17");
    x = xt_graph_dropout(b->graph, x, "dropout.19");
    x = conv(b, x, "backbone.20", classes, 13, 1, false);
    add_tap(b, 3, xt_graph_norm(b->graph, x, &last).average, NULL);
}

static struct xt_tensor *describe(struct xt_graph *graph, const struct xt_model_options *options)
{
    static const struct xt_window second = {
        .kernel_h = 5, .kernel_w = 5, .stride_h = 5, .stride_w = 5};
    static const struct xt_window third = {
        .kernel_h = 4, .kernel_w = 10, .stride_h = 4, .stride_w = 2};
    struct builder b = {.graph = graph};
    b.context.over_batch = options->context_over_batch;
    struct xt_tensor *x = stem(&b, &options->normalise);
    x = tapped_block(&b, x, 4, 128, 2, 1, second);
    x = block(&b, x, 8, 256);
    x = conv(&b, x, "backbone.8.block.6", 256, 1, 1, false);
    x = plain_norm(&b, x, "backbone.9");
    x = tapped_block(&b, x, 11, 256, 4, 2, third);
    tail(&b, x, options->classes);
    struct xt_conv_spec head = {
        .name = "container.0",
        .channels = options->classes,
        .kernel_h = 1,
        .kernel_w = 1,
        .bias = true,
        .why_f32 = "it reads the context, and its logits go into the loss",
        .in = {.file_count = b.column_count, .map = b.columns},
    };
    return xt_graph_conv(graph, xt_graph_context(graph, &b.context), &head);
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

static const struct xt_class_layer class_layers[] = {
    {.name = "backbone.20"},
    {.name = "backbone.21"},
    {.name = "container.0", .is_head = true, .last_columns = true},
    {.name = NULL},
};

const struct xt_model_info xt_model_lprnet = {
    .name = "lprnet",
    .title = "LPRNet, licence plates",
    .height = 24,
    .width = 94,
    .bgr = true,
    .mean = 127.5f,
    .scale = 1 / 128.0f,
    .time_steps = 18,
    .class_layers = class_layers,
    .initial_bias = 0.01f,
    .default_data = "synth:plates?count=50000&seed=1",
    .default_val = "synth:plates?count=1000&seed=2",
    .recipes = {recipe, fine_tune},
    .describe = describe,
};
