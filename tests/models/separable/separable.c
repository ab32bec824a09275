/* A small network of depthwise-separable convolutions (Howard et al. 2017, arXiv:1704.04861) that
 * reads plates: not a product, but what adding a network takes, and a use of grouped convolutions
 * and GELU. The comments give h x w x c.
 */
#include <stdio.h>

#include "models/registry.h"

extern const struct xt_model_info xt_model_separable;

static struct xt_tensor *conv(struct xt_graph *graph, struct xt_tensor *in,
                              struct xt_conv_spec spec)
{
    return xt_graph_conv(graph, in, &spec);
}

/* A 3x3 convolution of each channel alone, GELU, and a 1x1 convolution over the channels. */
static struct xt_tensor *separable(struct xt_graph *graph, struct xt_tensor *in, const char *name,
                                   int channels)
{
    char part[64];
    snprintf(part, sizeof part, "%s.depthwise", name);
    struct xt_tensor *x = conv(graph, in,
                               (struct xt_conv_spec){.name = part,
                                                     .channels = in ? in->c : 1,
                                                     .groups = in ? in->c : 1,
                                                     .kernel_h = 3,
                                                     .kernel_w = 3,
                                                     .pad_h = 1,
                                                     .pad_w = 1,
                                                     .bias = true});
    snprintf(part, sizeof part, "%s.gelu", name);
    x = xt_graph_eltwise(graph, x, &(struct xt_activation){.kind = XT_ACT_GELU}, part);
    snprintf(part, sizeof part, "%s.pointwise", name);
    return conv(
        graph, x,
        (struct xt_conv_spec){.name = part, .channels = channels, .kernel_h = 1, .kernel_w = 1});
}

static struct xt_norm_outputs norm(struct xt_graph *graph, struct xt_tensor *in, const char *name,
                                   struct xt_window max, struct xt_window average)
{
    struct xt_norm_spec spec = {.name = name,
                                .relu = true,
                                .full = !max.kernel_h && !average.kernel_h,
                                .max = max,
                                .average = average};
    return xt_graph_norm(graph, in, &spec);
}

static struct xt_tensor *describe(struct xt_graph *graph, const struct xt_model_options *options)
{
    const struct xt_model_info *model = &xt_model_separable;
    const struct xt_window none = {0};
    const struct xt_window narrow = {.kernel_h = 3, .kernel_w = 3, .stride_h = 1, .stride_w = 2};
    const struct xt_window dense = {.kernel_h = 3, .kernel_w = 3, .stride_h = 1, .stride_w = 1};
    const struct xt_window column = {.kernel_h = 8, .kernel_w = 1, .stride_h = 8, .stride_w = 1};
    struct xt_tensor *x = xt_graph_input(graph, model->height, model->width, &options->normalise);
    x = conv(graph, x,
             (struct xt_conv_spec){.name = "stem",
                                   .channels = 32,
                                   .kernel_h = 3,
                                   .kernel_w = 3,
                                   .stride_h = 2,
                                   .stride_w = 2,
                                   .pad_h = 1,
                                   .pad_w = 1});
    x = norm(graph, x, "stem.norm", none, none).full;                          /* 12x47x32 */
    x = norm(graph, separable(graph, x, "a", 64), "a.norm", narrow, none).max; /* 10x23x64 */
    x = norm(graph, separable(graph, x, "b", 128), "b.norm", none, none).full; /* 10x23x128 */
    x = norm(graph, separable(graph, x, "c", 128), "c.norm", dense, none).max; /* 8x21x128 */
    x = conv(graph, x,
             (struct xt_conv_spec){.name = "row", .channels = 128, .kernel_h = 1, .kernel_w = 4});
    x = norm(graph, x, "row.norm", none, column).average; /* 1x18x128 */
    return conv(graph, x,
                (struct xt_conv_spec){.name = "head",
                                      .channels = options->classes,
                                      .kernel_h = 1,
                                      .kernel_w = 1,
                                      .bias = true,
                                      .why_f32 = "it reads float32 means, and its logits go into "
                                                 "the loss"});
}

static const struct xt_recipe_item recipe[] = {
    {"batch", "64"},       {"steps", "1500"},        {"optim", "adamw"}, {"lr", "4e-3"},
    {"sched", "onecycle"}, {"weight-decay", "1e-4"}, {"clip", "5"},      {NULL, NULL},
};

const struct xt_model_info xt_model_separable = {
    .name = "separable",
    .title = "a small depthwise-separable network, licence plates",
    .height = 24,
    .width = 94,
    .bgr = true,
    .mean = 127.5f,
    .scale = 1 / 128.0f,
    .time_steps = 18,
    .default_data = "synth:plates?count=100000&seed=1",
    .default_val = "synth:plates?count=1000&seed=2",
    .recipes = {.train = recipe},
    .describe = describe,
};
