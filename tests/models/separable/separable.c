/* A small network of depthwise-separable convolutions (Howard et al. 2017, arXiv:1704.04861) that
 * reads plates: not a product, but what adding a network takes, and a use of grouped convolutions
 * and GELU. The comments give h x w x c.
 */
#include <stdio.h>

#include "models/registry.h"

extern const struct xt_model_info xt_model_separable[];

/* A 3x3 convolution of each channel alone, GELU, and a 1x1 convolution over the channels. */
static struct xt_value *separable(struct xt_net *net, struct xt_value *in, const char *name,
                                  int channels)
{
    char part[64];
    snprintf(part, sizeof part, "%s.depthwise", name);
    struct xt_value *x = xt_net_conv(net, in,
                                     &(struct xt_net_conv){.name = part,
                                                           .channels = in ? in->c : 1,
                                                           .groups = in ? in->c : 1,
                                                           .kernel = {3, 3},
                                                           .pad = {1, 1, 1, 1},
                                                           .bias = true});
    snprintf(part, sizeof part, "%s.gelu", name);
    x = xt_net_activation(net, x, (struct xt_activation){.kind = XT_ACT_GELU}, part);
    snprintf(part, sizeof part, "%s.pointwise", name);
    return xt_net_conv(net, x,
                       &(struct xt_net_conv){.name = part, .channels = channels, .kernel = {1, 1}});
}

static struct xt_value *norm(struct xt_net *net, struct xt_value *in, const char *name)
{
    return xt_net_relu(net, xt_net_batch_norm(net, in, &(struct xt_net_norm){.name = name}));
}

static struct xt_value *describe(struct xt_net *net, const struct xt_model_info *model,
                                 const struct xt_model_options *options)
{
    static const struct xt_net_pool narrow = {.kernel = {3, 3}, .stride = {1, 2}};
    static const struct xt_net_pool dense = {.kernel = {3, 3}, .stride = {1, 1}};
    static const struct xt_net_pool column = {.kernel = {8, 1}};
    struct xt_value *x = xt_net_input(net, model->height, model->width, 3);
    x = xt_net_conv(net, x,
                    &(struct xt_net_conv){.name = "stem",
                                          .channels = 32,
                                          .kernel = {3, 3},
                                          .stride = {2, 2},
                                          .pad = {1, 1, 1, 1}});
    x = norm(net, x, "stem.norm"); /* 12x47x32 */
    x = norm(net, separable(net, x, "a", 64), "a.norm");
    x = xt_net_max_pool(net, x, &narrow); /* 10x23x64 */
    x = norm(net, separable(net, x, "b", 128), "b.norm");
    x = norm(net, separable(net, x, "c", 128), "c.norm");
    x = xt_net_max_pool(net, x, &dense); /* 8x21x128 */
    x = xt_net_conv(net, x,
                    &(struct xt_net_conv){.name = "row", .channels = 128, .kernel = {1, 4}});
    x = xt_net_avg_pool(net, norm(net, x, "row.norm"), &column); /* 1x18x128 */
    return xt_net_conv(
        net, x,
        &(struct xt_net_conv){
            .name = "head", .channels = options->classes, .kernel = {1, 1}, .bias = true});
}

static const struct xt_recipe_item recipe[] = {
    {"batch", "64"},       {"steps", "1500"},        {"optim", "adamw"}, {"lr", "4e-3"},
    {"sched", "onecycle"}, {"weight-decay", "1e-4"}, {"clip", "5"},      {NULL, NULL},
};

const struct xt_model_info xt_model_separable[] = {
    {
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
    },
    {.name = NULL}};
