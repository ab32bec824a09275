/* A network of the registry on the CPU, for tests of passes by slices. */
#pragma once

#include "support.h"

#include <math.h>

#include "engine/executor.h"
#include "engine/ranges.h"
#include "models/registry.h"

struct network {
    struct xt_device device;
    struct xt_params params;
    struct xt_ranges ranges;
    struct xt_graph *graph;
    struct xt_err err;
};

static inline void ok(const struct network *net, enum xt_status status)
{
    if (status)
        print_error("%s\n", net->err.text);
    assert_int_equal(status, XT_OK);
}

static inline struct xt_model_options small_images(const struct xt_model_info *model)
{
    struct xt_model_options options = {.classes = 10,
                                       .height = model->any_size ? 64 : model->height,
                                       .width = model->any_size ? 64 : model->width};
    for (int k = 0; k < 3; k++) {
        options.normalise.mean[k] = 127.5f;
        options.normalise.scale[k] = 1 / 128.0f;
    }
    return options;
}

static inline void close_network(struct network *net)
{
    xt_graph_destroy(net->graph);
    xt_params_clear(&net->params);
    xt_device_close(&net->device);
}

/* |a - b| / |a|. */
static inline double distance(const float *a, const float *b, size_t count)
{
    double apart = 0;
    double length = 0;
    for (size_t i = 0; i < count; i++) {
        double d = (double)a[i] - (double)b[i];
        apart += d * d;
        length += (double)a[i] * (double)a[i];
    }
    return length > 0 ? sqrt(apart / length) : INFINITY;
}
