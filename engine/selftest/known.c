/* The network that is checked before a run begins: one op of each kind that training needs, with
 * realistic channels, and small otherwise. The comments give h x w x c. */
#include "engine/selftest/selftest.h"

enum { SIDE = XT_SELFTEST_KNOWN_SIDE, CHANNELS = 64, CLASSES = 10, BATCH = 2 };

static struct xt_tensor *describe(struct xt_graph *graph, const void *context)
{
    (void)context;
    static const struct xt_normalise half = {{127.5f, 127.5f, 127.5f},
                                             {1 / 127.5f, 1 / 127.5f, 1 / 127.5f}};
    struct xt_tensor *x = xt_graph_input(graph, SIDE, SIDE, 3, &half);
    x = xt_graph_conv(graph, x,
                      &(struct xt_conv_spec){.name = "stem",
                                             .channels = CHANNELS,
                                             .kernel_h = 3,
                                             .kernel_w = 3,
                                             .stride_h = 2,
                                             .stride_w = 2,
                                             .pad_h = 1,
                                             .pad_w = 1,
                                             .bias = true}); /* 8x8x64 */
    struct xt_norm_outputs stem =
        xt_graph_norm(graph, x,
                      &(struct xt_norm_spec){.name = "stem.norm",
                                             .relu = true,
                                             .max = {.kernel_h = 3,
                                                     .kernel_w = 3,
                                                     .stride_h = 2,
                                                     .stride_w = 2,
                                                     .pad_h = 1,
                                                     .pad_w = 1}}); /* 4x4x64 */
    x = xt_graph_conv(graph, stem.max,
                      &(struct xt_conv_spec){.name = "block",
                                             .channels = CHANNELS,
                                             .kernel_h = 3,
                                             .kernel_w = 3,
                                             .pad_h = 1,
                                             .pad_w = 1,
                                             .bias = true});
    struct xt_norm_outputs block = xt_graph_norm(
        graph, x,
        &(struct xt_norm_spec){
            .name = "block.norm",
            .relu = true,
            .average = {.kernel_h = 4, .kernel_w = 4, .stride_h = 4, .stride_w = 4}}); /* 1x1x64 */
    return xt_graph_conv(graph, block.average,
                         &(struct xt_conv_spec){.name = "head",
                                                .channels = CLASSES,
                                                .kernel_h = 1,
                                                .kernel_w = 1,
                                                .bias = true,
                                                .why_f32 = "its logits go into the loss"});
}

const struct xt_selftest_network xt_selftest_known = {.describe = describe};

static struct xt_selftest_options options_of(struct xt_device *device, enum xt_dtype dtype)
{
    return (struct xt_selftest_options){
        .device = device,
        .network = xt_selftest_known,
        .batch = BATCH,
        .dtype = dtype,
        .training_alone = true,
    };
}

enum xt_status xt_selftest_device(struct xt_device *device, enum xt_dtype dtype, struct xt_err *err)
{
    const struct xt_selftest_options options = options_of(device, dtype);
    struct xt_selftest result = {0};
    enum xt_status status = xt_selftest_run(&result, &options, err);
    return status ? status
                  : xt_selftest_refuse(&result, device->name, "xtrain selftest --xpu --small", err);
}

enum xt_status xt_selftest_time_device(struct xt_device *device, enum xt_dtype dtype,
                                       double *seconds, struct xt_err *err)
{
    enum { PASSES = 10 };
    const struct xt_selftest_options options = options_of(device, dtype);
    return xt_selftest_time(&options, PASSES, seconds, err);
}
