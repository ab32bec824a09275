/* A network described once and run twice: as a graph, and by reference loops in double precision.
 *
 * A test describes its network with net_conv, net_norm and net_context, which pass each layer on to
 * the graph and note it. check_net then holds the graph's logits, running statistics and gradients
 * against the loops; gradients by central differences. bf16 is held against the graph in float32.
 */
#pragma once

#include "support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/rng.h"
#include "engine/executor.h"
#include "engine/ops/reference.h"
#include "infer/network/param_files.h"

enum { NET_TENSORS_MAX = 40, NET_LAYERS_MAX = 40 };

static void net_relu(double *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] = values[i] < 0 ? 0 : values[i];
}

/* A tensor of the graph with the loops' value of it. */
struct net_tensor {
    struct xt_tensor *graph;
    double *value;
};

/* A tensor of the weight file. `after`: a running statistic as the forward pass leaves it. */
struct net_param {
    const char *name;
    size_t count;
    double *value;
    double *after;
};

enum net_kind { NET_INPUT, NET_CONV, NET_NORM, NET_CONTEXT };

struct net_layer {
    enum net_kind kind;
    char name[64]; /* a norm's */
    struct xt_tensor *in;
    struct xt_conv_spec conv;
    struct xt_norm_spec norm;
    struct xt_context_spec context;
    struct xt_tensor *out;
    struct xt_norm_outputs outputs;
};

struct net {
    struct xt_device device;
    struct xt_params params;
    struct xt_graph *graph;
    struct xt_graph_pass pass;
    struct xt_err err;
    int batch;
    const struct xt_backend *backend; /* NULL: the device's own */
    bool fuse, by_slices;
    const struct xt_ranges *int8;
    struct net_layer layers[NET_LAYERS_MAX];
    int layer_count;
    struct net_tensor tensors[NET_TENSORS_MAX];
    int tensor_count;
    struct net_param weights[XT_PARAMS_MAX];
    int weight_count;
    struct xt_params_tensors names; /* what the weights' names point into */
    float *x;
    size_t x_count;
    double *direction; /* the loss is its product with the logits */
    /* Added to one element of a tensor, for its gradient. */
    const struct xt_tensor *bumped;
    size_t bumped_element;
    double bump;
};

#define net_ok(net, status)                                                                        \
    do {                                                                                           \
        enum xt_status net_ok_status = (status);                                                   \
        if (net_ok_status)                                                                         \
            print_error("%s\n", (net)->err.text);                                                  \
        assert_int_equal(net_ok_status, XT_OK);                                                    \
    } while (0)

static inline double net_random(struct xt_rng *rng)
{
    return 2 * (double)xt_rng_uniform(rng) - 1;
}

static inline double *net_doubles(size_t count)
{
    double *values = calloc(count, sizeof *values);
    assert_non_null(values);
    return values;
}

/* ---- describing ---- */

static inline void net_open(struct net *net, enum xt_dtype dtype, bool training)
{
    if (!net->batch)
        net->batch = 3;
    if (dtype == XT_BF16)
        support_need_bf16();
    net_ok(net, xt_device_open(&net->device, "cpu", 0, &net->err));
    struct xt_graph_options options = {.device = &net->device,
                                       .params = &net->params,
                                       .batch = net->batch,
                                       .training = training,
                                       .backend = net->backend,
                                       .fuse = net->fuse,
                                       .by_slices = net->by_slices,
                                       .dtype = dtype,
                                       .int8 = net->int8};
    net_ok(net, xt_graph_create(&net->graph, &options, &net->err));
}

static inline struct xt_tensor *net_add_tensor(struct net *net, struct xt_tensor *graph)
{
    if (!graph)
        return NULL;
    assert_true(net->tensor_count < NET_TENSORS_MAX);
    net->tensors[net->tensor_count++] =
        (struct net_tensor){.graph = graph, .value = net_doubles(xt_tensor_count(graph))};
    return graph;
}

static inline struct net_layer *net_add_layer(struct net *net, enum net_kind kind,
                                              struct xt_tensor *in)
{
    assert_true(net->layer_count < NET_LAYERS_MAX);
    struct net_layer *layer = &net->layers[net->layer_count++];
    *layer = (struct net_layer){.kind = kind, .in = in};
    return layer;
}

static inline struct xt_tensor *net_described(struct net *net, struct xt_tensor *tensor)
{
    if (!tensor)
        print_error("%s\n", net->graph->err.text);
    assert_non_null(tensor);
    return tensor;
}

static inline struct xt_tensor *net_input(struct net *net, int h, int w)
{
    struct net_layer *layer = net_add_layer(net, NET_INPUT, NULL);
    static const struct xt_normalise alike = {{127.5f, 127.5f, 127.5f},
                                              {1 / 128.0f, 1 / 128.0f, 1 / 128.0f}};
    layer->out = net_described(net, xt_graph_input(net->graph, h, w, 3, &alike));
    net_add_tensor(net, layer->out);
    net->x_count = xt_tensor_count(layer->out);
    net->x = calloc(net->x_count, sizeof *net->x);
    assert_non_null(net->x);
    struct xt_rng rng = xt_rng_begin(3, 1000);
    for (size_t i = 0; i < net->x_count; i++)
        net->x[i] = (float)net_random(&rng);
    return layer->out;
}

static inline struct xt_tensor *net_conv(struct net *net, struct xt_tensor *in,
                                         struct xt_conv_spec spec)
{
    struct net_layer *layer = net_add_layer(net, NET_CONV, in);
    layer->conv = spec;
    layer->out = net_described(net, xt_graph_conv(net->graph, in, &spec));
    return net_add_tensor(net, layer->out);
}

static inline struct xt_norm_outputs net_norm(struct net *net, struct xt_tensor *in,
                                              struct xt_norm_spec spec)
{
    struct net_layer *layer = net_add_layer(net, NET_NORM, in);
    layer->norm = spec;
    layer->norm.name = layer->name;
    snprintf(layer->name, sizeof layer->name, "%s", spec.name);
    layer->outputs = xt_graph_norm(net->graph, in, &spec);
    net->err = net->graph->err;
    net_ok(net, net->err.status);
    net_add_tensor(net, layer->outputs.full);
    net_add_tensor(net, layer->outputs.max);
    net_add_tensor(net, layer->outputs.average);
    return layer->outputs;
}

static inline struct xt_tensor *net_context(struct net *net, struct xt_context_spec spec)
{
    struct net_layer *layer = net_add_layer(net, NET_CONTEXT, NULL);
    layer->context = spec;
    layer->out = net_described(net, xt_graph_context(net->graph, &spec));
    return net_add_tensor(net, layer->out);
}

/* The tensor, read once, must not be read again. */
static inline void net_refuse_reader(struct net *net, struct xt_tensor *tensor)
{
    struct xt_conv_spec once = {.name = "once", .channels = 2, .kernel_h = 1, .kernel_w = 1};
    struct xt_conv_spec recompute = {.name = "again", .channels = 2, .kernel_h = 1, .kernel_w = 1};
    net_described(net, xt_graph_conv(net->graph, tensor, &once));
    assert_null(xt_graph_conv(net->graph, tensor, &recompute));
    support_assert_error(&net->graph->err, XT_ERR_RUN, "has more than 1 reader");
}

/* A first 1x1 convolution: what its output's gradient holds after a backward pass is the gradient
 * of the next layer's input. */
static inline struct xt_tensor *net_stem(struct net *net, int h, int w, int channels)
{
    return net_conv(
        net, net_input(net, h, w),
        (struct xt_conv_spec){
            .name = "stem", .channels = channels, .kernel_h = 1, .kernel_w = 1, .bias = true});
}

/* A tap of width 2 that depends on each element of `in` in its own way: of an average pool's
 * output, which is float32, ... */
static inline struct xt_tensor *net_average_outlet(struct net *net, struct xt_tensor *in,
                                                   const char *name)
{
    return net_conv(net, in,
                    (struct xt_conv_spec){.name = name,
                                          .channels = 3,
                                          .kernel_h = in->h,
                                          .kernel_w = in->w > 1 ? in->w - 1 : 2,
                                          .pad_w = in->w == 1,
                                          .bias = true,
                                          .why_f32 = "the test reads it"});
}

/* ... and of one of the graph's type. */
static inline struct xt_tensor *net_outlet(struct net *net, struct xt_tensor *in, const char *name)
{
    struct xt_tensor *z = net_conv(net, in,
                                   (struct xt_conv_spec){.name = name,
                                                         .channels = 3,
                                                         .kernel_h = in->h > 1 ? in->h - 1 : 1,
                                                         .kernel_w = in->w - 1,
                                                         .bias = true});
    char norm[64];
    snprintf(norm, sizeof norm, "%s.norm", name);
    static const struct xt_window copy = {
        .kernel_h = 1, .kernel_w = 1, .stride_h = 1, .stride_w = 1};
    return net_norm(net, z, (struct xt_norm_spec){.name = norm, .average = copy}).average;
}

static inline struct xt_tensor *net_head(struct net *net, struct xt_tensor *in)
{
    return net_conv(net, in,
                    (struct xt_conv_spec){.name = "head",
                                          .channels = 4,
                                          .kernel_h = 1,
                                          .kernel_w = 1,
                                          .bias = true,
                                          .why_f32 = "the test reads it"});
}

/* ---- weights ---- */

static inline struct net_param *net_find(struct net *net, const char *layer, const char *suffix)
{
    char name[XT_PARAM_NAME_MAX];
    snprintf(name, sizeof name, "%s.%s", layer, suffix);
    for (int i = 0; i < net->weight_count; i++)
        if (strcmp(net->weights[i].name, name) == 0)
            return &net->weights[i];
    fail_msg("no parameter %s", name);
    return NULL;
}

static inline bool net_ends(const char *text, const char *end)
{
    size_t length = strlen(text);
    return length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

static inline double net_weight(const struct xt_file_tensor *tensor, struct xt_rng *rng)
{
    double u = net_random(rng);
    if (tensor->ndims == 1 &&
        (net_ends(tensor->name, ".running_var") || net_ends(tensor->name, ".weight")))
        return 1 + 0.5 * u;
    if (tensor->ndims == 1)
        return 0.3 * u;
    return u * sqrt(3.0 / (double)(tensor->dims[1] * tensor->dims[2] * tensor->dims[3]));
}

/* Fills every weight, here and in the graph's parameters. */
static inline void net_fill(struct net *net)
{
    struct xt_params_view view = {net->params.values, net->params.stats};
    net_ok(net, xt_params_to_tensors(&net->params, &net->device, &view, &net->names, &net->err));
    for (int i = 0; i < net->names.count; i++) {
        const struct xt_file_tensor *tensor = &net->names.items[i];
        if (tensor->dtype != XT_F32)
            continue;
        struct net_param *param = &net->weights[net->weight_count++];
        *param = (struct net_param){.name = tensor->name, .count = xt_file_tensor_count(tensor)};
        param->value = net_doubles(param->count);
        param->after = net_doubles(param->count);
        struct xt_rng rng = xt_rng_begin(7, (uint64_t)i);
        for (size_t k = 0; k < param->count; k++)
            param->value[k] = (double)(float)net_weight(tensor, &rng);
    }
}

/* The weights as they stand here become the graph's. */
static inline void net_put(struct net *net)
{
    struct xt_params_view view = {net->params.values, net->params.stats};
    for (int i = 0; i < net->params.count; i++) {
        const struct xt_param *param = &net->params.items[i];
        for (int k = 0; k < net->weight_count; k++) {
            const struct net_param *weight = &net->weights[k];
            if (strcmp(weight->name, param->name) != 0)
                continue;
            float *reference = malloc(weight->count * sizeof *reference);
            assert_non_null(reference);
            for (size_t e = 0; e < weight->count; e++)
                reference[e] = (float)weight->value[e];
            net_ok(net, xt_params_import(param, &net->device, &view, reference, &net->err));
            free(reference);
        }
    }
    net->params.version++;
}

static inline void net_build(struct net *net, struct xt_tensor *logits)
{
    net_ok(net, xt_graph_build(net->graph, logits, &net->err));
    net_fill(net);
    net_put(net);
    net->pass.floats = net->x;
    if (!net->pass.count)
        net->pass.count = net->batch;
    size_t count = xt_tensor_count(logits);
    net->direction = net_doubles(count);
    struct xt_rng rng = xt_rng_begin(3, 3);
    for (size_t i = 0; i < count; i++)
        if (i / (count / (size_t)net->batch) < (size_t)net->pass.count)
            net->direction[i] = (double)(float)net_random(&rng);
}

static inline void net_clear(struct net *net)
{
    for (int i = 0; i < net->tensor_count; i++)
        free(net->tensors[i].value);
    for (int i = 0; i < net->weight_count; i++) {
        free(net->weights[i].value);
        free(net->weights[i].after);
    }
    xt_params_free_tensors(&net->names);
    free(net->x);
    free(net->direction);
    xt_graph_destroy(net->graph);
    xt_params_clear(&net->params);
    xt_device_close(&net->device);
}

/* ---- reference loops ---- */

static inline double *net_value(const struct net *net, const struct xt_tensor *tensor)
{
    for (int i = 0; i < net->tensor_count; i++)
        if (net->tensors[i].graph == tensor)
            return net->tensors[i].value;
    return NULL;
}

static inline struct xt_reference_shape net_shape(const struct xt_tensor *t)
{
    return (struct xt_reference_shape){t->n, t->h, t->w, t->c};
}

static inline size_t net_mapped(const struct xt_channel_map *map, int k)
{
    return (size_t)(map->map ? map->map[k] : k);
}

/* The part of a file's vector that belongs to the channels here. */
static inline double *net_own_part(const double *file, const struct xt_channel_map *map, int count)
{
    double *own = net_doubles((size_t)count);
    for (int k = 0; k < count; k++)
        own[k] = file[net_mapped(map, k)];
    return own;
}

/* The same of a convolution's weights, by rows and columns. */
static inline double *net_own_weight(struct net *net, const struct net_layer *layer)
{
    const struct xt_conv_spec *s = &layer->conv;
    const double *file = net_find(net, s->name, "weight")->value;
    size_t window = (size_t)(s->kernel_h * s->kernel_w);
    size_t in = (size_t)layer->in->c;
    size_t file_in = s->in.file_count ? (size_t)s->in.file_count : in;
    double *own = net_doubles((size_t)layer->out->c * in * window);
    for (int o = 0; o < layer->out->c; o++)
        for (int i = 0; i < layer->in->c; i++)
            memcpy(own + ((size_t)o * in + (size_t)i) * window,
                   file + (net_mapped(&s->out, o) * file_in + net_mapped(&s->in, i)) * window,
                   window * sizeof *own);
    return own;
}

static inline void net_run_conv(struct net *net, const struct net_layer *layer)
{
    const struct xt_conv_spec *s = &layer->conv;
    const double *in = net_value(net, layer->in);
    const double *bias = s->bias ? net_find(net, s->name, "bias")->value : NULL;
    double *weight = net_own_weight(net, layer);
    double *to = net_value(net, layer->out);
    size_t count = xt_tensor_count(layer->out);
    const struct xt_reference_conv conv = {
        .in = net_shape(layer->in),
        .out = net_shape(layer->out),
        .kernel_h = s->kernel_h,
        .kernel_w = s->kernel_w,
        .stride_h = s->stride_h ? s->stride_h : 1,
        .stride_w = s->stride_w ? s->stride_w : 1,
        .pad_h = s->pad_h,
        .pad_w = s->pad_w,
    };
    for (size_t i = 0; i < count; i++) {
        int o = (int)(i % (size_t)layer->out->c);
        to[i] = xt_reference_conv_output(&conv, in, weight, i);
        to[i] += bias ? bias[net_mapped(&s->out, o)] : 0;
    }
    if (s->relu)
        net_relu(to, count);
    free(weight);
}

/* The statistics of channel k that this pass normalises by; notes what the running ones become. */
static inline void net_statistics(struct net *net, const struct net_layer *layer, const double *z,
                                  int k, double *mean, double *var)
{
    const struct xt_reference_shape shape = net_shape(layer->in);
    size_t row = net_mapped(&layer->norm.out, k);
    struct net_param *running_mean = net_find(net, layer->norm.name, "running_mean");
    struct net_param *running_var = net_find(net, layer->norm.name, "running_var");
    *mean = running_mean->after[row] = running_mean->value[row];
    *var = running_var->after[row] = running_var->value[row];
    if (!net->pass.training || net->pass.bn_frozen)
        return;
    double pixels = (double)xt_reference_count(&shape) / shape.c;
    xt_reference_moments(&shape, z, k, mean, var);
    running_mean->after[row] = 0.9 * running_mean->value[row] + 0.1 * *mean;
    running_var->after[row] = 0.9 * running_var->value[row] + 0.1 * *var * pixels / (pixels - 1);
}

static inline struct xt_window net_window(const struct xt_window *window,
                                          const struct xt_tensor *out)
{
    struct xt_window own = *window;
    own.out_h = out->h;
    own.out_w = out->w;
    return own;
}

static inline void net_run_norm(struct net *net, const struct net_layer *layer)
{
    const struct xt_norm_spec *s = &layer->norm;
    const struct xt_norm_outputs *outputs = &layer->outputs;
    const struct xt_reference_shape shape = net_shape(layer->in);
    const double *z = net_value(net, layer->in);
    size_t count = xt_reference_count(&shape);
    double *gamma = net_own_part(net_find(net, s->name, "weight")->value, &s->out, shape.c);
    double *beta = net_own_part(net_find(net, s->name, "bias")->value, &s->out, shape.c);
    double *mean = net_doubles((size_t)shape.c);
    double *var = net_doubles((size_t)shape.c);
    double *y = net_doubles(count);
    for (int k = 0; k < shape.c; k++)
        net_statistics(net, layer, z, k, &mean[k], &var[k]);
    const struct xt_reference_norm norm = {shape, mean, var, gamma, beta, 1e-5, false};
    xt_reference_norm(&norm, z, net_value(net, s->residual), y);
    if (s->relu)
        net_relu(y, count);
    if (s->full)
        memcpy(net_value(net, outputs->full), y, count * sizeof *y);
    if (s->max.kernel_h) {
        struct xt_window window = net_window(&s->max, outputs->max);
        xt_reference_max_pool(&shape, &window, y, net_value(net, outputs->max), NULL);
    }
    if (s->average.kernel_h) {
        struct xt_window window = net_window(&s->average, outputs->average);
        xt_reference_average_pool(&shape, &window, y, net_value(net, outputs->average));
    }
    free(gamma);
    free(beta);
    free(mean);
    free(var);
    free(y);
}

static inline void net_run_context(struct net *net, const struct net_layer *layer)
{
    const struct xt_context_spec *s = &layer->context;
    struct xt_reference_tap taps[XT_TAPS_MAX];
    for (int i = 0; i < s->count; i++)
        taps[i] = (struct xt_reference_tap){.shape = net_shape(s->taps[i]),
                                            .group = s->group[i],
                                            .value = net_value(net, s->taps[i])};
    xt_reference_context(taps, s->count, s->over_batch ? net->pass.count : 0,
                         net_value(net, layer->out));
}

static inline void net_run_layer(struct net *net, const struct net_layer *layer)
{
    switch (layer->kind) {
    case NET_INPUT:
        for (size_t i = 0; i < net->x_count; i++)
            net_value(net, layer->out)[i] = (double)net->x[i];
        break;
    case NET_CONV:
        net_run_conv(net, layer);
        break;
    case NET_NORM:
        net_run_norm(net, layer);
        break;
    case NET_CONTEXT:
        net_run_context(net, layer);
        break;
    }
    if (net->bumped && layer->out == net->bumped)
        net_value(net, net->bumped)[net->bumped_element] += net->bump;
}

/* The loss by the reference loops. */
static inline double net_loss(struct net *net)
{
    for (int i = 0; i < net->layer_count; i++)
        net_run_layer(net, &net->layers[i]);
    const double *logits = net_value(net, net->graph->logits);
    double loss = 0;
    for (size_t i = 0; i < xt_tensor_count(net->graph->logits); i++)
        loss += net->direction[i] * logits[i];
    return loss;
}

/* ---- comparing ---- */

static inline double net_element(const struct xt_tensor *tensor, const struct xt_buffer *buffer,
                                 size_t i)
{
    if (tensor->dtype == XT_F32)
        return (double)((const float *)buffer->data)[i];
    uint32_t bits = (uint32_t)((const uint16_t *)buffer->data)[i] << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return (double)value;
}

static inline double net_largest(const double *values, size_t count)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(values[i]));
    return largest;
}

static inline void net_forward(struct net *net)
{
    net->graph->pass = net->pass;
    net_ok(net, xt_graph_forward(net->graph, &net->err));
}

static inline void net_backward(struct net *net)
{
    float *grad = xt_graph_logits_grad(net->graph);
    for (size_t i = 0; i < xt_tensor_count(net->graph->logits); i++)
        grad[i] = (float)net->direction[i];
    net_ok(net, xt_graph_backward(net->graph, &net->err));
}

/* The graph's logits against those that the last net_loss left. */
static inline void net_check_logits(struct net *net, double tolerance)
{
    const struct xt_tensor *logits = net->graph->logits;
    const double *wanted = net_value(net, logits);
    size_t count = xt_tensor_count(logits) / (size_t)net->batch * (size_t)net->pass.count;
    double largest = net_largest(wanted, count);
    for (size_t i = 0; i < count; i++) {
        double got = (double)xt_graph_logits(net->graph)[i];
        if (!(fabs(got - wanted[i]) <= tolerance * largest))
            fail_msg("logit %zu is %g, by reference loops %g (largest %g)", i, got, wanted[i],
                     largest);
    }
}

static inline void net_check_statistics(struct net *net, double tolerance)
{
    struct xt_params_tensors tensors;
    struct xt_params_view view = {net->params.values, net->params.stats};
    net_ok(net, xt_params_to_tensors(&net->params, &net->device, &view, &tensors, &net->err));
    for (int i = 0; i < net->weight_count; i++) {
        const struct net_param *param = &net->weights[i];
        if (!strstr(param->name, "running_"))
            continue;
        for (int t = 0; t < tensors.count; t++)
            if (strcmp(tensors.items[t].name, param->name) == 0)
                for (size_t k = 0; k < param->count; k++) {
                    double got = (double)((const float *)tensors.items[t].data)[k];
                    if (!(fabs(got - param->after[k]) <= tolerance))
                        fail_msg("%s[%zu] is %g, should be %g", param->name, k, got,
                                 param->after[k]);
                }
    }
    xt_params_free_tensors(&tensors);
}

/* Which of `count` elements to compare: all of few, else evenly spaced ones. */
static inline size_t net_stride(size_t count)
{
    enum { LOOKED_AT = 24 };
    return count <= LOOKED_AT ? 1 : count / LOOKED_AT + 1;
}

static const double net_step = 1e-7;

static inline double net_slope(struct net *net, double *value)
{
    double saved = *value;
    *value = saved + net_step;
    double above = net_loss(net);
    *value = saved - net_step;
    double below = net_loss(net);
    *value = saved;
    return (above - below) / (2 * net_step);
}

/* The change of the loss along a random direction of all of a parameter's elements. */
static inline double net_slope_along(struct net *net, struct net_param *param, const float *signs)
{
    double sides[2];
    double step = net_step / sqrt((double)param->count);
    for (int side = 0; side < 2; side++) {
        double by = side ? -step : step;
        for (size_t k = 0; k < param->count; k++)
            param->value[k] += by * (double)signs[k];
        sides[side] = net_loss(net);
        for (size_t k = 0; k < param->count; k++)
            param->value[k] -= by * (double)signs[k];
    }
    return (sides[0] - sides[1]) / (2 * step);
}

static inline void net_check_param(struct net *net, struct net_param *param, const float *got,
                                   double lower_bound, double tolerance)
{
    double largest = lower_bound;
    for (size_t k = 0; k < param->count; k++)
        largest = fmax(largest, fabs((double)got[k]));
    for (size_t k = 0; k < param->count; k += net_stride(param->count)) {
        double wanted = net_slope(net, &param->value[k]);
        if (!(fabs((double)got[k] - wanted) <= tolerance * largest))
            fail_msg("d %s[%zu] is %g, by differences %g (largest %g)", param->name, k,
                     (double)got[k], wanted, largest);
    }
    float *signs = malloc(param->count * sizeof *signs);
    assert_non_null(signs);
    struct xt_rng rng = xt_rng_begin(11, param->count);
    double along = 0;
    for (size_t k = 0; k < param->count; k++) {
        signs[k] = xt_rng_next(&rng) & 1 ? 1 : -1;
        along += (double)signs[k] * (double)got[k];
    }
    double wanted = net_slope_along(net, param, signs);
    free(signs);
    if (!(fabs(along - wanted) <= tolerance * largest * sqrt((double)param->count)))
        fail_msg("d %s along a random direction is %g, by differences %g", param->name, along,
                 wanted);
}

/* The gradients of the file's tensors. Release with xt_params_free_tensors. */
static inline struct xt_params_tensors net_grads(struct net *net)
{
    struct xt_params_tensors grads;
    struct xt_params_view view = {net->params.grads, NULL};
    net_ok(net, xt_params_to_tensors(&net->params, &net->device, &view, &grads, &net->err));
    return grads;
}

static inline void net_check_params(struct net *net, double tolerance)
{
    struct xt_params_tensors grads = net_grads(net);
    double largest = 0;
    for (int i = 0; i < grads.count; i++)
        for (size_t k = 0; k < xt_file_tensor_count(&grads.items[i]); k++)
            largest = fmax(largest, fabs((double)((const float *)grads.items[i].data)[k]));
    for (int i = 0; i < grads.count; i++)
        for (int p = 0; p < net->weight_count; p++)
            if (strcmp(net->weights[p].name, grads.items[i].name) == 0)
                net_check_param(net, &net->weights[p], grads.items[i].data, largest * 1e-2,
                                tolerance);
    xt_params_free_tensors(&grads);
}

/* The gradient of the stem's output, where nothing overwrote it. */
static inline void net_check_input(struct net *net, double tolerance)
{
    const struct xt_tensor *stem = net->layers[1].out;
    if (net->layers[1].kind != NET_CONV || net->layers[1].conv.relu)
        return;
    size_t count = xt_tensor_count(stem);
    double *got = net_doubles(count);
    for (size_t i = 0; i < count; i++)
        got[i] = net_element(stem, stem->grad[0], i);
    double largest = net_largest(got, count);
    net->bumped = stem;
    for (size_t i = 0; i < count; i += net_stride(count)) {
        net->bumped_element = i;
        double wanted = net_slope(net, &net->bump);
        if (!(fabs(got[i] - wanted) <= tolerance * largest))
            fail_msg("d input[%zu] is %g, by differences %g (largest %g)", i, got[i], wanted,
                     largest);
    }
    net->bumped = NULL;
    free(got);
}

/* |a - b| / |b| over all tensors together. */
static inline double net_distance(const struct xt_params_tensors *a,
                                  const struct xt_params_tensors *b)
{
    double apart = 0;
    double length = 0;
    assert_int_equal(a->count, b->count);
    for (int i = 0; i < a->count; i++)
        for (size_t k = 0; k < xt_file_tensor_count(&a->items[i]); k++) {
            double x = (double)((const float *)a->items[i].data)[k];
            double y = (double)((const float *)b->items[i].data)[k];
            apart += (x - y) * (x - y);
            length += y * y;
        }
    return sqrt(apart / length);
}

typedef struct xt_tensor *net_describe(struct net *net);

/* The graph in float32 against the reference loops. */
static inline void check_net_f32(net_describe *describe, struct xt_graph_pass pass)
{
    struct net net = {.pass = pass};
    net_open(&net, XT_F32, pass.training);
    net_build(&net, describe(&net));
    net_forward(&net);
    net_loss(&net);
    net_check_logits(&net, 2e-5);
    net_check_statistics(&net, 1e-6);
    if (pass.training) {
        net_backward(&net);
        net_check_params(&net, 2e-4);
        net_check_input(&net, 2e-4);
    }
    net_clear(&net);
}

/* bf16 has 8 bits: a rounding moves a value by up to 0.4 %, which makes 2 % of a gradient in
 * networks like these; one ReLU that it turns on or off, or another argmax of a max pool, is worth
 * up to 20 %, so the random numbers are such that hardly any is that close. */
static const double net_bf16_logits = 4e-2;
static const double net_bf16_grads = 1e-1;

static inline struct xt_params_tensors net_exact_grads(net_describe *describe,
                                                       struct xt_graph_pass pass)
{
    struct net net = {.pass = pass};
    net_open(&net, XT_F32, true);
    net_build(&net, describe(&net));
    net_forward(&net);
    net_backward(&net);
    struct xt_params_tensors grads = net_grads(&net);
    net_clear(&net);
    return grads;
}

static inline void check_net_bf16(net_describe *describe, struct xt_graph_pass pass)
{
    struct net net = {.pass = pass};
    net_open(&net, XT_BF16, pass.training);
    net_build(&net, describe(&net));
    net_forward(&net);
    net_loss(&net);
    net_check_logits(&net, net_bf16_logits);
    if (!pass.training) {
        net_clear(&net);
        return;
    }
    net_backward(&net);
    struct xt_params_tensors got = net_grads(&net);
    net_clear(&net);
    struct xt_params_tensors wanted = net_exact_grads(describe, pass);
    double distance = net_distance(&got, &wanted);
    if (!(distance <= net_bf16_grads))
        fail_msg("bf16 gradients are %.3f from those in float32", distance);
    xt_params_free_tensors(&got);
    xt_params_free_tensors(&wanted);
}

/* Norms folded into the convolutions before them: the same logits. */
static inline void check_net_fused(net_describe *describe, enum xt_dtype dtype, double tolerance)
{
    struct net net = {.fuse = true};
    net_open(&net, dtype, false);
    net_build(&net, describe(&net));
    net_forward(&net);
    net_loss(&net);
    net_check_logits(&net, tolerance);
    net_clear(&net);
}

/* Forward in evaluation; forward and backward in training; float32 and bf16. */
static inline void check_net(net_describe *describe)
{
    check_net_fused(describe, XT_F32, 2e-5);
    check_net_fused(describe, XT_BF16, net_bf16_logits);
    check_net_f32(describe, (struct xt_graph_pass){.training = false});
    check_net_f32(describe, (struct xt_graph_pass){.training = true});
    check_net_bf16(describe, (struct xt_graph_pass){.training = false});
    check_net_bf16(describe, (struct xt_graph_pass){.training = true});
}
