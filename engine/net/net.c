#include "engine/net/net.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* More than any network has; a file with more is invalid. */
enum { NODES_MAX = 16384, INPUTS_MAX = 256 };
#define ELEMENTS_MAX ((int64_t)1 << 31) /* of a sample's value, of a parameter */

static const char *const kind_names[XT_NODE_KINDS] = {
    [XT_NODE_INPUT] = "input",
    [XT_NODE_PARAMETER] = "parameter",
    [XT_NODE_CONSTANT] = "constant",
    [XT_NODE_CONV] = "convolution",
    [XT_NODE_CONV_TRANSPOSE] = "transposed convolution",
    [XT_NODE_CONV_BY] = "convolution by computed weights",
    [XT_NODE_LINEAR] = "linear",
    [XT_NODE_BATCH_NORM] = "batch norm",
    [XT_NODE_LAYER_NORM] = "layer norm",
    [XT_NODE_ACTIVATION] = "activation",
    [XT_NODE_ADD] = "add",
    [XT_NODE_MUL] = "multiply",
    [XT_NODE_CONCAT] = "concat",
    [XT_NODE_SLICE] = "slice",
    [XT_NODE_CHANNEL_SHUFFLE] = "channel shuffle",
    [XT_NODE_MAX_POOL] = "max pool",
    [XT_NODE_AVG_POOL] = "average pool",
    [XT_NODE_DROPOUT] = "dropout",
    [XT_NODE_DROP_PATH] = "stochastic depth",
    [XT_NODE_DROP_CHANNELS] = "dropout of channels",
    [XT_NODE_MATMUL] = "matmul",
    [XT_NODE_SOFTMAX] = "softmax",
    [XT_NODE_CHANNEL_MEAN] = "channel mean",
    [XT_NODE_TRANSPOSE] = "transpose",
    [XT_NODE_RESHAPE] = "reshape",
    [XT_NODE_AXIS_MAP] = "axis map",
    [XT_NODE_GRID_SAMPLE] = "grid sample",
    [XT_NODE_RECURRENCE] = "recurrence",
    [XT_NODE_GLOBAL_CONTEXT] = "global context",
};

const char *xt_node_kind_name(enum xt_node_kind kind)
{
    return kind_names[kind];
}

const char *xt_activation_name(enum xt_activation_kind kind)
{
    static const char *const names[XT_ACT_COUNT] = {
        [XT_ACT_RELU] = "ReLU",
        [XT_ACT_CLIP] = "clip",
        [XT_ACT_LEAKY_RELU] = "leaky ReLU",
        [XT_ACT_ELU] = "ELU",
        [XT_ACT_SIGMOID] = "sigmoid",
        [XT_ACT_SILU] = "SiLU",
        [XT_ACT_HARD_SIGMOID] = "hard sigmoid",
        [XT_ACT_HARD_SWISH] = "hard swish",
        [XT_ACT_GELU] = "GELU",
        [XT_ACT_GELU_TANH] = "GELU by tanh",
        [XT_ACT_TANH] = "tanh",
        [XT_ACT_SOFTPLUS] = "softplus",
        [XT_ACT_MISH] = "Mish",
        [XT_ACT_POWER] = "power",
        [XT_ACT_EXP] = "exp",
        [XT_ACT_LOG] = "log",
        [XT_ACT_LINEAR] = "linear function",
    };
    return names[kind];
}

static size_t value_count(const struct xt_value *value)
{
    return (size_t)value->h * (size_t)value->w * (size_t)value->c;
}

/* ---- the net itself ---- */

struct xt_net *xt_net_create(struct xt_err *err)
{
    struct xt_net *net = NULL;
    return xt_mem_calloc(&net, 1, sizeof *net, "a network", err) ? NULL : net;
}

/* The numbers that a node owns. */
static void free_numbers(const struct xt_node *node)
{
    if (node->kind == XT_NODE_CONSTANT)
        free((void *)(uintptr_t)node->as.constant.numbers);
    if (node->kind == XT_NODE_AXIS_MAP)
        free((void *)(uintptr_t)node->as.axis_map.map.picked);
}

static void free_node(struct xt_node *node)
{
    free_numbers(node);
    free(node->inputs);
    free(node);
}

void xt_net_destroy(struct xt_net *net)
{
    if (!net)
        return;
    for (size_t i = 0; i < net->node_count; i++)
        free_node(net->nodes[i]);
    for (size_t i = 0; i < net->value_count; i++)
        free(net->values[i]);
    for (size_t i = 0; i < net->param_count; i++)
        free(net->params[i].initial);
    free(net->nodes);
    free(net->values);
    free(net->params);
    free(net);
}

bool xt_net_fails(const struct xt_net *net)
{
    return net->err.status != XT_OK;
}

void *xt_net_refuse(struct xt_net *net, enum xt_status status, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    xt_err_set_first(&net->err, status, format, args);
    va_end(args);
    return NULL;
}

/* Whether nothing reads what the node gives, so that nothing would write its gradient. */
static bool is_unread(const struct xt_net *net, const struct xt_node *node)
{
    return node->kind != XT_NODE_INPUT && node->output != net->output && !node->output->readers;
}

static bool has_params(const struct xt_node *node)
{
    bool has = false;
    for (int i = 0; i < XT_NODE_PARAMS_MAX; i++)
        has = has || node->params[i] >= 0;
    return has;
}

static bool has_param(const struct xt_node *node, int param)
{
    bool has = false;
    for (int i = 0; i < XT_NODE_PARAMS_MAX; i++)
        has = has || node->params[i] == param;
    return has;
}

/* From the last node to the first; one with parameters is a mistake, since they could not be
 * trained. */
static void remove_unread(struct xt_net *net)
{
    size_t left = 0;
    for (size_t i = net->node_count; i-- > 0;) {
        struct xt_node *node = net->nodes[i];
        if (!is_unread(net, node))
            continue;
        if (has_params(node))
            xt_net_refuse(net, XT_ERR_DATA, "%s: no other layer reads what it computes",
                          node->name);
        for (int k = 0; k < node->input_count; k++)
            node->inputs[k]->readers--;
        net->nodes[i] = NULL;
        net->values[node->output->index] = NULL;
        free(node->output);
        free_node(node);
    }
    for (size_t i = 0; i < net->node_count; i++)
        if (net->nodes[i]) {
            net->nodes[i]->index = (int)left;
            net->nodes[left++] = net->nodes[i];
        }
    net->node_count = left;
    left = 0;
    for (size_t i = 0; i < net->value_count; i++)
        if (net->values[i]) {
            net->values[i]->index = (int)left;
            net->values[left++] = net->values[i];
        }
    net->value_count = left;
}

/* The parameter that is all of the value, and that nothing else reads; -1: there is none. */
static int own_parameter(const struct xt_net *net, const struct xt_value *value)
{
    const struct xt_node *of = value->of;
    bool is_own = of->kind == XT_NODE_PARAMETER && value->readers == 1 && value != net->output;
    for (size_t i = 0; is_own && i < net->node_count; i++)
        is_own = net->nodes[i] == of || !has_param(net->nodes[i], of->params[XT_NODE_WEIGHT]);
    return is_own ? of->params[XT_NODE_WEIGHT] : -1;
}

/* Of such a value, which nothing reads then. */
static void take_parameter(struct xt_net *net, struct xt_value *value, enum xt_param_role role)
{
    net->params[value->of->params[XT_NODE_WEIGHT]].role = role;
    value->of->params[XT_NODE_WEIGHT] = -1;
    value->readers = 0;
}

/* What reads the sum of a layer with its bias reads the layer. */
static void take_bias(struct xt_net *net, struct xt_node *layer)
{
    struct xt_node *add = layer->output->readers == 1 ? xt_net_reader(net, layer->output, 0) : NULL;
    if (!add || add->kind != XT_NODE_ADD || layer->output == net->output)
        return;
    int other = add->inputs[0] == layer->output;
    const struct xt_value *bias = add->inputs[other];
    int param = own_parameter(net, bias);
    if (param < 0 || net->params[param].ndims != 1 || bias->c != layer->output->c ||
        bias->h * bias->w != 1)
        return;
    if (layer->kind == XT_NODE_LINEAR)
        layer->as.linear.bias = true;
    else
        layer->as.conv.bias = true;
    layer->params[XT_NODE_BIAS] = param;
    take_parameter(net, add->inputs[other], XT_PARAM_BIAS);
    add->input_count = 0;
    layer->output->readers = add->output->readers;
    add->output->readers = 0;
    for (size_t i = 0; i < net->node_count; i++)
        for (int k = 0; k < net->nodes[i]->input_count; k++)
            if (net->nodes[i]->inputs[k] == add->output)
                net->nodes[i]->inputs[k] = layer->output;
    net->output = net->output == add->output ? layer->output : net->output;
}

/* A 1x1 convolution by weights that are a parameter as it is, with a bias that is added: a linear
 * layer. */
static void make_linear(struct xt_net *net, struct xt_node *node)
{
    const struct xt_net_conv *conv = &node->as.conv;
    bool is_plain = node->kind == XT_NODE_CONV_BY && conv->kernel[0] == 1 && conv->kernel[1] == 1 &&
                    conv->stride[0] == 1 && conv->stride[1] == 1 && conv->groups == 1 &&
                    !conv->bias;
    for (int i = 0; i < XT_SIDES; i++)
        is_plain = is_plain && conv->pad[i] == 0;
    int param = is_plain ? own_parameter(net, node->inputs[1]) : -1;
    if (param < 0 || net->params[param].ndims != 2)
        return;
    const struct xt_net_linear linear = {.channels = conv->channels};
    take_parameter(net, node->inputs[1], XT_PARAM_WEIGHT);
    node->params[XT_NODE_WEIGHT] = param;
    node->kind = XT_NODE_LINEAR;
    node->input_count = 1;
    node->as.linear = linear;
    snprintf(node->name, sizeof node->name, "%s", net->params[param].name);
    if (xt_str_ends(node->name, ".weight"))
        node->name[strlen(node->name) - strlen(".weight")] = '\0';
}

/* Whether what is added to it may be its bias, which it lacks. */
static bool lacks_bias(const struct xt_node *node)
{
    return (node->kind == XT_NODE_CONV && !node->as.conv.bias) ||
           (node->kind == XT_NODE_LINEAR && !node->as.linear.bias);
}

enum xt_status xt_net_finish(struct xt_net *net, struct xt_value *output, struct xt_err *err)
{
    net->output = output;
    if (!output)
        xt_net_refuse(net, XT_ERR_RUN, "a network without an output");
    if (!xt_net_fails(net))
        remove_unread(net);
    for (size_t i = 0; i < net->node_count && !xt_net_fails(net); i++)
        make_linear(net, net->nodes[i]);
    for (size_t i = 0; i < net->node_count && !xt_net_fails(net); i++)
        if (lacks_bias(net->nodes[i]))
            take_bias(net, net->nodes[i]);
    if (!xt_net_fails(net))
        remove_unread(net);
    return xt_net_fails(net) ? xt_err_set(err, net->err.status, "%s", net->err.text) : XT_OK;
}

/* ---- nodes, values, parameters ---- */

struct shape {
    int64_t h, w, c;
};

static struct shape shape_of(const struct xt_value *value)
{
    return (struct shape){value->h, value->w, value->c};
}

/* Checked before it is multiplied: each is an int. */
static bool is_size(struct shape shape)
{
    return shape.h >= 1 && shape.w >= 1 && shape.c >= 1 && shape.h < ELEMENTS_MAX &&
           shape.w < ELEMENTS_MAX / shape.h && shape.c < ELEMENTS_MAX / (shape.h * shape.w);
}

void xt_net_begin_layer(struct xt_net *net, const char *layer)
{
    snprintf(net->layer, sizeof net->layer, "%.40s", layer ? layer : "");
}

static bool name_node(struct xt_net *net, struct xt_node *node, const char *name)
{
    int length = name ? snprintf(node->name, sizeof node->name, "%s", name)
                      : snprintf(node->name, sizeof node->name, "%s%s%s %d", net->layer,
                                 *net->layer ? ": " : "", kind_names[node->kind], node->index);
    return (size_t)length < sizeof node->name ||
           xt_net_refuse(net, XT_ERR_DATA, "a layer's name is longer than %zu bytes: %s...",
                         sizeof node->name - 1, node->name);
}

static bool read_value(struct xt_net *net, struct xt_node *node, struct xt_value *value)
{
    if (!value)
        return xt_net_refuse(net, XT_ERR_RUN, "%s reads a value that is not there", node->name);
    value->readers++;
    node->inputs[node->input_count++] = value;
    return true;
}

/* Appends a node that reads the values; NULL after a failure. */
static struct xt_node *add_node(struct xt_net *net, enum xt_node_kind kind, const char *name,
                                struct xt_value *const *in, int count)
{
    struct xt_node *node = NULL;
    if (net->node_count == NODES_MAX)
        return xt_net_refuse(net, XT_ERR_DATA, "a network of more than %d nodes", NODES_MAX);
    if (xt_net_fails(net) ||
        xt_mem_grow(&net->nodes, &net->node_capacity, net->node_count + 1, sizeof *net->nodes,
                    "a network", &net->err) ||
        xt_mem_calloc(&node, 1, sizeof *node, "a network", &net->err))
        return NULL;
    node->kind = kind;
    node->index = (int)net->node_count;
    for (int i = 0; i < XT_NODE_PARAMS_MAX; i++)
        node->params[i] = -1;
    net->nodes[net->node_count++] = node;
    if (!name_node(net, node, name))
        return NULL;
    if (count < 0 || count > INPUTS_MAX)
        return xt_net_refuse(net, XT_ERR_DATA, "%s reads %d values: %d at most", node->name, count,
                             INPUTS_MAX);
    if (xt_mem_calloc(&node->inputs, (size_t)count, sizeof(struct xt_value *), "a network",
                      &net->err))
        return NULL;
    for (int i = 0; i < count; i++)
        if (!read_value(net, node, in[i]))
            return NULL;
    return node;
}

static struct xt_node *add_unary(struct xt_net *net, enum xt_node_kind kind, const char *name,
                                 struct xt_value *in)
{
    return add_node(net, kind, name, &in, 1);
}

/* A parameter or constant, or computed from these alone. */
static bool is_of_parameters(const struct xt_node *node)
{
    bool all = node->input_count > 0;
    for (int i = 0; i < node->input_count; i++)
        all = all && node->inputs[i]->of_parameter;
    return all || node->kind == XT_NODE_PARAMETER || node->kind == XT_NODE_CONSTANT;
}

/* The node's output. */
static struct xt_value *write(struct xt_net *net, struct xt_node *node, struct shape shape)
{
    struct xt_value *value = NULL;
    if (!node || xt_net_fails(net))
        return NULL;
    if (!is_size(shape))
        return xt_net_refuse(
            net, XT_ERR_USAGE,
            "%s: the output would be %lldx%lld with %lld channels: no size that a network can have",
            node->name, (long long)shape.h, (long long)shape.w, (long long)shape.c);
    if (xt_mem_grow(&net->values, &net->value_capacity, net->value_count + 1, sizeof *net->values,
                    "a network", &net->err) ||
        xt_mem_calloc(&value, 1, sizeof *value, "a network", &net->err))
        return NULL;
    *value = (struct xt_value){.index = (int)net->value_count,
                               .h = (int)shape.h,
                               .w = (int)shape.w,
                               .c = (int)shape.c,
                               .of_parameter = is_of_parameters(node),
                               .of = node};
    net->values[net->value_count++] = value;
    node->output = value;
    return value;
}

static struct xt_value *write_alike(struct xt_net *net, struct xt_node *node)
{
    return node ? write(net, node, shape_of(node->inputs[0])) : NULL;
}

int xt_net_find_param(const struct xt_net *net, const char *name)
{
    for (size_t i = 0; i < net->param_count; i++)
        if (strcmp(net->params[i].name, name) == 0)
            return (int)i;
    return -1;
}

/* Whether two nodes can have one parameter. */
static bool are_alike(const struct xt_net_param *a, const struct xt_net_param *b)
{
    return a->role == b->role && a->ndims == b->ndims && a->groups == b->groups &&
           a->in_first == b->in_first && a->transposed == b->transposed &&
           memcmp(a->dims, b->dims, sizeof a->dims) == 0;
}

static bool check_param(struct xt_net *net, const struct xt_net_param *param)
{
    int64_t count = 1;
    for (int i = 0; i < param->ndims; i++) {
        if (param->dims[i] < 1 || param->dims[i] >= ELEMENTS_MAX / count)
            return xt_net_refuse(net, XT_ERR_DATA, "%s: a parameter with a dimension of %d",
                                 param->name, param->dims[i]);
        count *= param->dims[i];
    }
    return true;
}

/* The node's parameter `which`: NAME.SUFFIX, or `whole`. */
static void add_param(struct xt_net *net, struct xt_node *node, int which, const char *whole,
                      const char *suffix, const struct xt_net_param *param)
{
    if (!node || xt_net_fails(net) ||
        xt_mem_grow(&net->params, &net->param_capacity, net->param_count + 1, sizeof *net->params,
                    "a network's parameters", &net->err))
        return;
    struct xt_net_param item = *param;
    int length = whole ? snprintf(item.name, sizeof item.name, "%s", whole)
                       : snprintf(item.name, sizeof item.name, "%s.%s", node->name, suffix);
    if ((size_t)length >= sizeof item.name) {
        xt_net_refuse(net, XT_ERR_DATA, "a parameter's name is longer than %zu bytes: %s...",
                      sizeof item.name - 1, item.name);
        return;
    }
    int shared = xt_net_find_param(net, item.name);
    if (shared >= 0 && !are_alike(&net->params[shared], &item)) {
        xt_net_refuse(net, XT_ERR_DATA,
                      "%s is a parameter of two layers that use it differently: only layers of one "
                      "kind, which read as many channels in as many groups, can share it",
                      item.name);
        return;
    }
    if (!check_param(net, &item))
        return;
    node->params[which] = shared >= 0 ? shared : (int)net->param_count;
    if (shared < 0)
        net->params[net->param_count++] = item;
}

static void add_channel_param(struct xt_net *net, struct xt_node *node, int which,
                              const char *suffix, enum xt_param_role role)
{
    if (node)
        add_param(net, node, which, NULL, suffix,
                  &(struct xt_net_param){.role = role, .ndims = 1, .dims = {node->inputs[0]->c}});
}

size_t xt_net_param_elements(const struct xt_net_param *param)
{
    size_t count = 1;
    for (int i = 0; i < param->ndims; i++)
        count *= (size_t)param->dims[i];
    return count;
}

enum xt_status xt_net_param_set(struct xt_net *net, int param, const float *values,
                                struct xt_err *err)
{
    struct xt_net_param *item = &net->params[param];
    size_t count = xt_net_param_elements(item);
    float *copy = NULL;
    enum xt_status status = xt_mem_aligned(&copy, count, sizeof *copy, item->name, err);
    if (status)
        return status;
    memcpy(copy, values, count * sizeof *copy);
    free(item->initial);
    item->initial = copy;
    return XT_OK;
}

/* ---- windows ---- */

static int or_1(int value)
{
    return value ? value : 1;
}

/* A window along one axis. */
struct along {
    int64_t in, kernel, stride, before, after;
    bool ceil_mode;
};

static int64_t windows_along(const struct along *a)
{
    int64_t room = a->in + a->before + a->after - a->kernel;
    if (room < 0)
        return 0;
    int64_t count = (room + (a->ceil_mode ? a->stride - 1 : 0)) / a->stride + 1;
    /* The last window begins in the input or in the padding before it. */
    if (a->ceil_mode && (count - 1) * a->stride >= a->in + a->before)
        count--;
    return count;
}

static bool check_window(struct xt_net *net, const struct xt_node *node, const int *kernel,
                         const int *stride, const int *dilation, const int *pad)
{
    enum { MOST = 1 << 16 };
    for (int i = 0; i < 2; i++)
        if (kernel[i] < 1 || stride[i] < 1 || dilation[i] < 1 || kernel[i] > MOST ||
            stride[i] > MOST || dilation[i] > MOST)
            return xt_net_refuse(
                net, XT_ERR_DATA, "%s: a kernel of %dx%d, strides of %dx%d, dilation of %dx%d",
                node->name, kernel[0], kernel[1], stride[0], stride[1], dilation[0], dilation[1]);
    for (int i = 0; i < XT_SIDES; i++)
        if (pad[i] < 0 || pad[i] > MOST)
            return xt_net_refuse(net, XT_ERR_DATA, "%s: a padding of %d", node->name, pad[i]);
    return true;
}

/* ---- convolutions and matrix products ---- */

static bool check_conv(struct xt_net *net, const struct xt_node *node)
{
    const struct xt_net_conv *conv = &node->as.conv;
    int in = node->inputs[0]->c;
    if (!check_window(net, node, conv->kernel, conv->stride, conv->dilation, conv->pad))
        return false;
    if (conv->channels < 1)
        return xt_net_refuse(net, XT_ERR_DATA, "%s: a layer of %d channels", node->name,
                             conv->channels);
    if (conv->groups < 1 || in % conv->groups || conv->channels % conv->groups)
        return xt_net_refuse(net, XT_ERR_DATA,
                             "%s: %d groups do not divide its %d input and %d output channels",
                             node->name, conv->groups, in, conv->channels);
    return true;
}

/* Takes the attributes into the node. */
static bool take_conv(struct xt_net *net, struct xt_node *node, const struct xt_net_conv *spec)
{
    struct xt_net_conv *conv = &node->as.conv;
    *conv = *spec;
    conv->groups = or_1(spec->groups);
    for (int i = 0; i < 2; i++) {
        conv->stride[i] = or_1(spec->stride[i]);
        conv->dilation[i] = or_1(spec->dilation[i]);
    }
    return check_conv(net, node);
}

/* The same, and the output's height and width. */
static bool set_conv(struct xt_net *net, struct xt_node *node, const struct xt_net_conv *spec,
                     struct shape *out)
{
    const struct xt_value *in = node->inputs[0];
    const struct xt_net_conv *conv = &node->as.conv;
    struct along along[2];
    if (!take_conv(net, node, spec))
        return false;
    for (int i = 0; i < 2; i++)
        along[i] = (struct along){.in = i ? in->w : in->h,
                                  .kernel = (int64_t)(conv->kernel[i] - 1) * conv->dilation[i] + 1,
                                  .stride = conv->stride[i],
                                  .before = conv->pad[i ? XT_SIDE_LEFT : XT_SIDE_TOP],
                                  .after = conv->pad[i ? XT_SIDE_RIGHT : XT_SIDE_BOTTOM]};
    *out = (struct shape){windows_along(&along[0]), windows_along(&along[1]), conv->channels};
    return (out->h > 0 && out->w > 0) ||
           xt_net_refuse(net, XT_ERR_USAGE, "%s: an input of %dx%d is too small for this network",
                         node->name, in->h, in->w);
}

static void add_bias(struct xt_net *net, struct xt_node *node, const char *whole, int channels,
                     struct xt_init init)
{
    add_param(net, node, XT_NODE_BIAS, whole, "bias",
              &(struct xt_net_param){
                  .role = XT_PARAM_BIAS, .ndims = 1, .dims = {channels}, .init = init});
}

struct xt_value *xt_net_conv(struct xt_net *net, struct xt_value *in,
                             const struct xt_net_conv *spec)
{
    struct xt_node *node = add_unary(net, XT_NODE_CONV, spec->name, in);
    struct shape out;
    if (!node || !set_conv(net, node, spec, &out))
        return NULL;
    const struct xt_net_conv *conv = &node->as.conv;
    add_param(net, node, XT_NODE_WEIGHT, spec->weight, "weight",
              &(struct xt_net_param){
                  .role = XT_PARAM_WEIGHT,
                  .ndims = 4,
                  .dims = {conv->channels, in->c / conv->groups, conv->kernel[0], conv->kernel[1]},
                  .groups = conv->groups,
                  .init = spec->weight_init});
    if (spec->bias)
        add_bias(net, node, spec->bias_name, conv->channels, spec->bias_init);
    return write(net, node, out);
}

struct xt_value *xt_net_conv_by(struct xt_net *net, struct xt_value *in, struct xt_value *weights,
                                const struct xt_net_conv *spec)
{
    struct xt_node *node =
        add_node(net, XT_NODE_CONV_BY, spec->name, (struct xt_value *[]){in, weights}, 2);
    struct shape out;
    if (!node || !set_conv(net, node, spec, &out))
        return NULL;
    const struct xt_net_conv *conv = &node->as.conv;
    int64_t row = (int64_t)(in->c / conv->groups) * conv->kernel[0] * conv->kernel[1];
    if (!weights->of_parameter || weights->h != 1 || weights->w != conv->channels ||
        weights->c != row)
        return xt_net_refuse(net, XT_ERR_DATA,
                             "%s: its weights are %dx%dx%d numbers%s, where 1x%dx%lld that are "
                             "computed from parameters alone are wanted",
                             node->name, weights->h, weights->w, weights->c,
                             weights->of_parameter ? "" : " of the images", conv->channels,
                             (long long)row);
    if (spec->bias)
        add_bias(net, node, spec->bias_name, conv->channels, spec->bias_init);
    return write(net, node, out);
}

struct xt_value *xt_net_conv_transpose(struct xt_net *net, struct xt_value *in,
                                       const struct xt_net_conv *spec)
{
    struct xt_node *node = add_unary(net, XT_NODE_CONV_TRANSPOSE, spec->name, in);
    if (!node || !take_conv(net, node, spec))
        return NULL;
    const struct xt_net_conv *conv = &node->as.conv;
    int64_t sides[2];
    for (int i = 0; i < 2; i++) {
        if (conv->output_pad[i] < 0 || conv->output_pad[i] >= conv->stride[i])
            return xt_net_refuse(net, XT_ERR_DATA,
                                 "%s: an output padding of %d, which is not less than its stride",
                                 node->name, conv->output_pad[i]);
        sides[i] = (int64_t)((i ? in->w : in->h) - 1) * conv->stride[i] +
                   (int64_t)(conv->kernel[i] - 1) * conv->dilation[i] + 1 -
                   conv->pad[i ? XT_SIDE_LEFT : XT_SIDE_TOP] -
                   conv->pad[i ? XT_SIDE_RIGHT : XT_SIDE_BOTTOM] + conv->output_pad[i];
    }
    add_param(net, node, XT_NODE_WEIGHT, spec->weight, "weight",
              &(struct xt_net_param){
                  .role = XT_PARAM_WEIGHT,
                  .ndims = 4,
                  .dims = {in->c, conv->channels / conv->groups, conv->kernel[0], conv->kernel[1]},
                  .groups = conv->groups,
                  .transposed = true,
                  .init = spec->weight_init});
    if (spec->bias)
        add_bias(net, node, spec->bias_name, spec->channels, spec->bias_init);
    return write(net, node, (struct shape){sides[0], sides[1], conv->channels});
}

struct xt_value *xt_net_linear(struct xt_net *net, struct xt_value *in,
                               const struct xt_net_linear *spec)
{
    struct xt_node *node = add_unary(net, XT_NODE_LINEAR, spec->name, in);
    if (!node)
        return NULL;
    node->as.linear = *spec;
    if (spec->channels < 1)
        return xt_net_refuse(net, XT_ERR_DATA, "%s: a layer of %d channels", node->name,
                             spec->channels);
    struct xt_net_param weight = {.role = XT_PARAM_WEIGHT,
                                  .ndims = 2,
                                  .dims = {spec->channels, in->c},
                                  .in_first = spec->in_first,
                                  .init = spec->weight_init};
    if (spec->in_first) {
        weight.dims[0] = in->c;
        weight.dims[1] = spec->channels;
    }
    add_param(net, node, XT_NODE_WEIGHT, spec->weight, "weight", &weight);
    if (spec->bias)
        add_bias(net, node, spec->bias_name, spec->channels, spec->bias_init);
    return write(net, node, (struct shape){in->h, in->w, spec->channels});
}

struct xt_value *xt_net_matmul(struct xt_net *net, struct xt_value *a, struct xt_value *b,
                               const struct xt_net_matmul *spec)
{
    struct xt_node *node =
        add_node(net, XT_NODE_MATMUL, spec->name, (struct xt_value *[]){a, b}, 2);
    if (!node)
        return NULL;
    node->as.matmul = *spec;
    if (spec->scale == 0)
        node->as.matmul.scale = 1;
    int inner = spec->transpose ? b->c : b->w;
    if (a->h != b->h || a->c != inner)
        return xt_net_refuse(net, XT_ERR_DATA, "%s: %dx%dx%d cannot be multiplied by %dx%dx%d%s",
                             node->name, a->h, a->w, a->c, b->h, b->w, b->c,
                             spec->transpose ? " transposed" : "");
    return write(net, node, (struct shape){a->h, a->w, spec->transpose ? b->w : b->c});
}

/* ---- norms ---- */

static struct xt_node *add_norm(struct xt_net *net, enum xt_node_kind kind, struct xt_value *in,
                                const struct xt_net_norm *spec, double eps)
{
    struct xt_node *node = add_unary(net, kind, spec->name, in);
    if (!node)
        return NULL;
    struct xt_net_norm *norm = &node->as.norm;
    *norm = *spec;
    norm->eps = spec->eps == 0 ? eps : spec->eps;
    norm->momentum = spec->momentum == 0 ? 0.1 : spec->momentum;
    if (!(norm->eps > 0 && norm->eps < 1) || !(norm->momentum > 0 && norm->momentum <= 1))
        return xt_net_refuse(net, XT_ERR_DATA, "%s: an epsilon of %g and a momentum of %g",
                             node->name, norm->eps, norm->momentum);
    if (norm->unscaled)
        return node;
    add_channel_param(net, node, XT_NODE_WEIGHT, "weight", XT_PARAM_BN_SCALE);
    add_channel_param(net, node, XT_NODE_BIAS, "bias", XT_PARAM_BN_SHIFT);
    if (node->params[XT_NODE_WEIGHT] >= 0)
        net->params[node->params[XT_NODE_WEIGHT]].init = spec->weight_init;
    return node;
}

struct xt_value *xt_net_batch_norm(struct xt_net *net, struct xt_value *in,
                                   const struct xt_net_norm *spec)
{
    struct xt_node *node = add_norm(net, XT_NODE_BATCH_NORM, in, spec, 1e-5);
    add_channel_param(net, node, XT_NODE_MEAN, "running_mean", XT_PARAM_BN_MEAN);
    add_channel_param(net, node, XT_NODE_VAR, "running_var", XT_PARAM_BN_VAR);
    add_channel_param(net, node, XT_NODE_TRACKED, "num_batches_tracked", XT_PARAM_BN_COUNT);
    return write_alike(net, node);
}

struct xt_value *xt_net_layer_norm(struct xt_net *net, struct xt_value *in,
                                   const struct xt_net_norm *spec)
{
    return write_alike(net, add_norm(net, XT_NODE_LAYER_NORM, in, spec, 1e-6));
}

/* ---- element by element ---- */

struct xt_value *xt_net_input(struct xt_net *net, int h, int w, int c)
{
    return write(net, add_node(net, XT_NODE_INPUT, "input", NULL, 0), (struct shape){h, w, c});
}

/* What a convolution's weights are computed of has their initial values, and a number for each
 * output channel ([O][1][1][1]), with which they are multiplied, begins as 1. */
static void set_by_shape(struct xt_net_param *param)
{
    bool has_rows = param->ndims == 4 && param->dims[0] > 1;
    bool is_gain = has_rows && param->dims[0] == (int)xt_net_param_elements(param);
    if (is_gain)
        param->init = (struct xt_init){XT_INIT_CONSTANT, 1};
    if (!has_rows || is_gain)
        return;
    param->role = XT_PARAM_RAW;
    param->init = (struct xt_init){XT_INIT_BY_ROLE, 0};
}

struct xt_value *xt_net_parameter(struct xt_net *net, const struct xt_net_parameter *spec)
{
    struct xt_node *node = add_node(net, XT_NODE_PARAMETER, spec->name, NULL, 0);
    struct xt_net_param param = {.role = XT_PARAM_OTHER, .ndims = spec->ndims, .init = spec->init};
    memcpy(param.dims, spec->dims, sizeof param.dims);
    set_by_shape(&param);
    add_param(net, node, XT_NODE_WEIGHT, spec->name, NULL, &param);
    struct xt_value *value = write(net, node, (struct shape){spec->h, spec->w, spec->c});
    if (value && value_count(value) != xt_net_param_elements(&param))
        return xt_net_refuse(net, XT_ERR_DATA, "%s: its %zu numbers are not %dx%dx%d", spec->name,
                             xt_net_param_elements(&param), spec->h, spec->w, spec->c);
    return value;
}

struct xt_value *xt_net_constant(struct xt_net *net, const struct xt_net_constant *spec)
{
    struct xt_node *node = add_node(net, XT_NODE_CONSTANT, spec->name, NULL, 0);
    struct xt_value *value = write(net, node, (struct shape){spec->h, spec->w, spec->c});
    float *numbers = NULL;
    if (!value)
        return NULL;
    if (spec->count != 1 && spec->count != value_count(value))
        return xt_net_refuse(net, XT_ERR_DATA, "%s: %zu numbers are not %dx%dx%d", node->name,
                             spec->count, spec->h, spec->w, spec->c);
    if (xt_mem_calloc(&numbers, spec->count, sizeof *numbers, node->name, &net->err))
        return NULL;
    memcpy(numbers, spec->numbers, spec->count * sizeof *numbers);
    node->as.constant = *spec;
    node->as.constant.numbers = numbers;
    return value;
}

struct xt_value *xt_net_activation(struct xt_net *net, struct xt_value *in,
                                   struct xt_activation activation, const char *name)
{
    struct xt_node *node = add_unary(net, XT_NODE_ACTIVATION, name, in);
    if (node)
        node->as.activation = activation;
    return write_alike(net, node);
}

struct xt_value *xt_net_relu(struct xt_net *net, struct xt_value *in)
{
    return xt_net_activation(net, in, (struct xt_activation){.kind = XT_ACT_RELU}, NULL);
}

/* 0: incompatible. */
static int broadcast(int a, int b)
{
    if (a == b || b == 1)
        return a;
    return a == 1 ? b : 0;
}

static struct xt_value *binary(struct xt_net *net, enum xt_node_kind kind, struct xt_value *a,
                               struct xt_value *b, const char *name)
{
    struct xt_node *node = add_node(net, kind, name, (struct xt_value *[]){a, b}, 2);
    if (!node)
        return NULL;
    struct shape out = {broadcast(a->h, b->h), broadcast(a->w, b->w), broadcast(a->c, b->c)};
    if (!out.h || !out.w || !out.c)
        return xt_net_refuse(net, XT_ERR_DATA,
                             "%s: %dx%dx%d and %dx%dx%d (height, width, channels) do not fit each "
                             "other",
                             node->name, a->h, a->w, a->c, b->h, b->w, b->c);
    return write(net, node, out);
}

struct xt_value *xt_net_add(struct xt_net *net, struct xt_value *a, struct xt_value *b,
                            const char *name)
{
    return binary(net, XT_NODE_ADD, a, b, name);
}

struct xt_value *xt_net_mul(struct xt_net *net, struct xt_value *a, struct xt_value *b,
                            const char *name)
{
    return binary(net, XT_NODE_MUL, a, b, name);
}

static struct xt_value *add_dropout(struct xt_net *net, enum xt_node_kind kind, struct xt_value *in,
                                    const struct xt_net_dropout *spec)
{
    struct xt_node *node = add_unary(net, kind, spec->name, in);
    if (!node)
        return NULL;
    node->as.dropout = *spec;
    if (!(spec->p >= 0 && spec->p < 1))
        return xt_net_refuse(net, XT_ERR_DATA, "%s: a probability of %g of being dropped",
                             node->name, (double)spec->p);
    return write_alike(net, node);
}

struct xt_value *xt_net_dropout(struct xt_net *net, struct xt_value *in,
                                const struct xt_net_dropout *spec)
{
    return add_dropout(net, XT_NODE_DROPOUT, in, spec);
}

struct xt_value *xt_net_drop_path(struct xt_net *net, struct xt_value *in,
                                  const struct xt_net_dropout *spec)
{
    return add_dropout(net, XT_NODE_DROP_PATH, in, spec);
}

struct xt_value *xt_net_drop_channels(struct xt_net *net, struct xt_value *in,
                                      const struct xt_net_dropout *spec)
{
    return add_dropout(net, XT_NODE_DROP_CHANNELS, in, spec);
}

struct xt_value *xt_net_softmax(struct xt_net *net, struct xt_value *in, const char *name)
{
    return write_alike(net, add_unary(net, XT_NODE_SOFTMAX, name, in));
}

struct xt_value *xt_net_channel_mean(struct xt_net *net, struct xt_value *in, const char *name)
{
    struct xt_node *node = add_unary(net, XT_NODE_CHANNEL_MEAN, name, in);
    return node ? write(net, node, (struct shape){in->h, in->w, 1}) : NULL;
}

/* ---- parts and order ---- */

static int64_t *size_along(struct shape *shape, enum xt_axis axis)
{
    return axis == XT_AXIS_H ? &shape->h : axis == XT_AXIS_W ? &shape->w : &shape->c;
}

/* ---- parts of a value, and parts put together ---- */

/* Elements start, start + 1, ... of `whole` along the axis: those of the value, whole unless it is
 * a slice along it. */
struct part {
    struct xt_value *whole;
    int start, count;
};

static struct part part_of(struct xt_value *value, enum xt_axis axis)
{
    struct shape shape = shape_of(value);
    const struct xt_node *node = value->of;
    struct part part = {value, 0, (int)*size_along(&shape, axis)};
    if (node->kind == XT_NODE_SLICE && node->as.slice.axis == axis && node->as.slice.step == 1)
        part = (struct part){node->inputs[0], node->as.slice.start, node->as.slice.count};
    return part;
}

/* What the part of a value is a part of: of what it was put together or taken from, or itself. */
static struct part inner_part(struct xt_value *value, enum xt_axis axis, int start, int count)
{
    struct part outer = part_of(value, axis);
    const struct xt_node *node = value->of;
    bool is_joined = node->kind == XT_NODE_CONCAT && node->as.axis == axis;
    int first = 0;
    for (int i = 0; is_joined && i < node->input_count; i++) {
        int length = part_of(node->inputs[i], axis).count;
        if (start >= first && start + count <= first + length)
            return inner_part(node->inputs[i], axis, start - first, count);
        first += length;
    }
    return is_joined ? (struct part){value, start, count}
                     : (struct part){outer.whole, outer.start + start, count};
}

/* Parts that follow each other in one value become one; returns how many are left. */
static int join_parts(struct xt_net *net, struct xt_value *const in[], int count, enum xt_axis axis,
                      struct xt_value *out[])
{
    int left = 0;
    for (int i = 0; i < count; left++) {
        struct part all = part_of(in[i], axis);
        out[left] = in[i++];
        int first = i;
        for (; i < count; i++) {
            struct part next = part_of(in[i], axis);
            if (next.whole != all.whole || next.start != all.start + all.count)
                break;
            all.count += next.count;
        }
        if (i > first)
            out[left] = xt_net_slice(
                net, all.whole,
                &(struct xt_net_slice){.axis = axis, .start = all.start, .count = all.count});
    }
    return left;
}

static struct xt_value *concat(struct xt_net *net, struct xt_value *const *in, int count,
                               enum xt_axis axis, const char *name)
{
    struct xt_node *node = add_node(net, XT_NODE_CONCAT, name, in, count);
    if (!node)
        return NULL;
    if (count < 1)
        return xt_net_refuse(net, XT_ERR_DATA, "%s concatenates nothing", node->name);
    node->as.axis = axis;
    struct shape out = shape_of(in[0]);
    for (int i = 1; i < count; i++) {
        struct shape next = shape_of(in[i]);
        int64_t length = *size_along(&out, axis) + *size_along(&next, axis);
        *size_along(&next, axis) = *size_along(&out, axis);
        if (out.h != next.h || out.w != next.w || out.c != next.c)
            return xt_net_refuse(
                net, XT_ERR_DATA,
                "%s: %dx%dx%d and %dx%dx%d (height, width, channels) cannot be concatenated",
                node->name, in[0]->h, in[0]->w, in[0]->c, in[i]->h, in[i]->w, in[i]->c);
        *size_along(&out, axis) = length;
    }
    return write(net, node, out);
}

struct xt_value *xt_net_concat(struct xt_net *net, struct xt_value *const *in, int count,
                               enum xt_axis axis, const char *name)
{
    struct xt_value *joined[INPUTS_MAX];
    bool all_there = count <= INPUTS_MAX;
    for (int i = 0; i < count && all_there; i++)
        all_there = in[i] != NULL;
    if (!all_there)
        return concat(net, in, count, axis, name);
    count = join_parts(net, in, count, axis, joined);
    return count == 1 ? joined[0] : concat(net, joined, count, axis, name);
}

struct xt_value *xt_net_slice(struct xt_net *net, struct xt_value *in,
                              const struct xt_net_slice *spec)
{
    struct part inner = {in, 0, 0};
    bool is_run = in && or_1(spec->step) == 1 && spec->start >= 0 && spec->count > 0 &&
                  spec->count <= part_of(in, spec->axis).count - spec->start;
    if (is_run)
        inner = inner_part(in, spec->axis, spec->start, spec->count);
    if (is_run && inner.count == part_of(inner.whole, spec->axis).count)
        return inner.whole;
    if (inner.whole != in)
        return xt_net_slice(net, inner.whole,
                            &(struct xt_net_slice){.name = spec->name,
                                                   .axis = spec->axis,
                                                   .start = inner.start,
                                                   .count = inner.count});
    struct xt_node *node = add_unary(net, XT_NODE_SLICE, spec->name, in);
    if (!node)
        return NULL;
    node->as.slice = *spec;
    node->as.slice.step = or_1(spec->step);
    struct shape out = shape_of(in);
    int64_t length = *size_along(&out, spec->axis);
    int64_t last = spec->start + ((int64_t)spec->count - 1) * node->as.slice.step;
    if (spec->start < 0 || spec->count < 1 || spec->step < 0 || last >= length)
        return xt_net_refuse(net, XT_ERR_DATA,
                             "%s: %d from %d on in steps of %d are not there in %lld", node->name,
                             spec->count, spec->start, node->as.slice.step, (long long)length);
    *size_along(&out, spec->axis) = spec->count;
    return write(net, node, out);
}

struct xt_value *xt_net_channel_shuffle(struct xt_net *net, struct xt_value *in, int groups,
                                        const char *name)
{
    struct xt_node *node = add_unary(net, XT_NODE_CHANNEL_SHUFFLE, name, in);
    if (!node)
        return NULL;
    node->as.shuffle_groups = groups;
    if (groups < 1 || in->c % groups)
        return xt_net_refuse(net, XT_ERR_DATA, "%s: %d groups do not divide %d channels",
                             node->name, groups, in->c);
    return write_alike(net, node);
}

struct xt_value *xt_net_transpose(struct xt_net *net, struct xt_value *in,
                                  const enum xt_axis from[XT_AXES], const char *name)
{
    struct xt_node *node = add_unary(net, XT_NODE_TRANSPOSE, name, in);
    unsigned seen = 0;
    if (!node)
        return NULL;
    for (int i = 0; i < XT_AXES; i++) {
        node->as.transpose.from[i] = from[i];
        seen |= (unsigned)from[i] < XT_AXES ? 1u << from[i] : 0;
    }
    if (seen != 7)
        return xt_net_refuse(net, XT_ERR_DATA, "%s: %d, %d, %d is no order of the axes 0 to 2",
                             node->name, (int)from[0], (int)from[1], (int)from[2]);
    struct shape shape = shape_of(in);
    return write(net, node,
                 (struct shape){*size_along(&shape, from[0]), *size_along(&shape, from[1]),
                                *size_along(&shape, from[2])});
}

struct xt_value *xt_net_reshape(struct xt_net *net, struct xt_value *in,
                                const struct xt_net_reshape *shape, const char *name)
{
    struct xt_node *node = add_unary(net, XT_NODE_RESHAPE, name, in);
    struct xt_value *out = write(net, node, (struct shape){shape->h, shape->w, shape->c});
    if (in && out && value_count(out) != value_count(in))
        return xt_net_refuse(net, XT_ERR_DATA, "%s: %dx%dx%d numbers cannot be %dx%dx%d",
                             node->name, in->h, in->w, in->c, out->h, out->w, out->c);
    return out;
}

/* The node's own copy. */
static bool keep_picked(struct xt_net *net, struct xt_node *node, const struct xt_axis_map *map)
{
    int *copy = NULL;
    node->as.axis_map.map.picked = NULL;
    if (map->kind != XT_MAP_PICK)
        return true;
    if (xt_mem_calloc(&copy, (size_t)map->picked_count, sizeof *copy, node->name, &net->err))
        return false;
    memcpy(copy, map->picked, (size_t)map->picked_count * sizeof *copy);
    node->as.axis_map.map.picked = copy;
    return true;
}

struct xt_value *xt_net_axis_map(struct xt_net *net, struct xt_value *in,
                                 const struct xt_net_axis_map *spec)
{
    struct xt_node *node = add_unary(net, XT_NODE_AXIS_MAP, spec->name, in);
    if (!node)
        return NULL;
    struct shape out = shape_of(in);
    int length = (int)*size_along(&out, spec->axis);
    node->as.axis_map = *spec;
    if (!keep_picked(net, node, &spec->map))
        return NULL;
    const char *why = xt_axis_map_refusal(&spec->map, length);
    if (why)
        return xt_net_refuse(net, XT_ERR_DATA, "%s: an axis of %d %s", node->name, length, why);
    *size_along(&out, spec->axis) = xt_axis_map_length(&spec->map, length);
    return write(net, node, out);
}

struct xt_value *xt_net_grid_sample(struct xt_net *net, struct xt_value *image,
                                    struct xt_value *grid, const struct xt_net_grid_sample *spec)
{
    struct xt_node *node =
        add_node(net, XT_NODE_GRID_SAMPLE, spec->name, (struct xt_value *[]){image, grid}, 2);
    if (!node)
        return NULL;
    node->as.grid_sample = *spec;
    if (grid->c != 2)
        return xt_net_refuse(net, XT_ERR_DATA, "%s: points of %d coordinates, not of 2", node->name,
                             grid->c);
    if (image->of_parameter != grid->of_parameter)
        return xt_net_refuse(net, XT_ERR_DATA,
                             "%s: an image or points that are the same for all samples",
                             node->name);
    return write(net, node, (struct shape){grid->h, grid->w, image->c});
}

struct xt_value *xt_net_recurrence(struct xt_net *net, struct xt_value *gates,
                                   struct xt_value *weight, struct xt_value *bias,
                                   const struct xt_net_recurrence *spec)
{
    struct xt_node *node = add_node(net, XT_NODE_RECURRENCE, spec->name,
                                    (struct xt_value *[]){gates, weight, bias}, bias ? 3 : 2);
    if (!node)
        return NULL;
    node->as.recurrence = *spec;
    int count = xt_recurrence_gates(spec->kind);
    int hidden = weight->c;
    if (gates->of_parameter || !weight->of_parameter || (bias && !bias->of_parameter))
        return xt_net_refuse(net, XT_ERR_DATA,
                             "%s: its gates are of the images, its weight and bias are not",
                             node->name);
    if (gates->c % count || gates->c / count != hidden || weight->h != 1 || weight->w != gates->c ||
        (bias && (bias->h != 1 || bias->w != 1 || bias->c != gates->c)))
        return xt_net_refuse(net, XT_ERR_DATA,
                             "%s: %d gates of %d channels in all do not fit a weight of %dx%d",
                             node->name, count, gates->c, weight->w, weight->c);
    if (spec->with_cell && spec->kind != XT_LSTM)
        return xt_net_refuse(net, XT_ERR_DATA, "%s: no LSTM has no cells", node->name);
    return write(net, node,
                 (struct shape){gates->h, gates->w, (spec->with_cell ? 2 : 1) * (int64_t)hidden});
}

struct xt_value *xt_net_flatten(struct xt_net *net, struct xt_value *in, const char *name)
{
    static const enum xt_axis channels_first[XT_AXES] = {XT_AXIS_C, XT_AXIS_H, XT_AXIS_W};
    struct xt_value *x = in;
    if (in && in->h * in->w > 1 && in->c > 1)
        x = xt_net_transpose(net, in, channels_first, NULL);
    int count = x ? (int)value_count(x) : 1;
    return xt_net_reshape(net, x, &(struct xt_net_reshape){1, 1, count}, name);
}

/* ---- pools ---- */

static struct xt_value *pool(struct xt_net *net, enum xt_node_kind kind, struct xt_value *in,
                             const struct xt_net_pool *spec)
{
    struct xt_node *node = add_unary(net, kind, spec->name, in);
    if (!node)
        return NULL;
    struct xt_net_pool *p = &node->as.pool;
    *p = *spec;
    struct along along[2];
    for (int i = 0; i < 2; i++)
        p->stride[i] = spec->stride[i] ? spec->stride[i] : spec->kernel[i];
    if (!check_window(net, node, p->kernel, p->stride, (int[]){1, 1}, p->pad))
        return NULL;
    for (int i = 0; i < 2; i++) {
        along[i] = (struct along){.in = i ? in->w : in->h,
                                  .kernel = p->kernel[i],
                                  .stride = p->stride[i],
                                  .before = p->pad[i ? XT_SIDE_LEFT : XT_SIDE_TOP],
                                  .after = p->pad[i ? XT_SIDE_RIGHT : XT_SIDE_BOTTOM],
                                  .ceil_mode = p->ceil_mode};
        if (along[i].before >= along[i].kernel || along[i].after >= along[i].kernel)
            return xt_net_refuse(net, XT_ERR_DATA,
                                 "%s: a window of %dx%d would lie entirely in the padding",
                                 node->name, p->kernel[0], p->kernel[1]);
    }
    struct shape out = {windows_along(&along[0]), windows_along(&along[1]), in->c};
    if (out.h < 1 || out.w < 1)
        return xt_net_refuse(net, XT_ERR_USAGE,
                             "%s: an input of %dx%d is too small for this network", node->name,
                             in->h, in->w);
    return write(net, node, out);
}

struct xt_value *xt_net_max_pool(struct xt_net *net, struct xt_value *in,
                                 const struct xt_net_pool *spec)
{
    return pool(net, XT_NODE_MAX_POOL, in, spec);
}

struct xt_value *xt_net_avg_pool(struct xt_net *net, struct xt_value *in,
                                 const struct xt_net_pool *spec)
{
    return pool(net, XT_NODE_AVG_POOL, in, spec);
}

static struct xt_net_pool whole(const struct xt_value *in, const char *name)
{
    return (struct xt_net_pool){.name = name, .kernel = {in ? in->h : 1, in ? in->w : 1}};
}

struct xt_value *xt_net_global_max_pool(struct xt_net *net, struct xt_value *in, const char *name)
{
    struct xt_net_pool spec = whole(in, name);
    return pool(net, XT_NODE_MAX_POOL, in, &spec);
}

struct xt_value *xt_net_global_avg_pool(struct xt_net *net, struct xt_value *in, const char *name)
{
    struct xt_net_pool spec = whole(in, name);
    return pool(net, XT_NODE_AVG_POOL, in, &spec);
}

struct xt_value *xt_net_context(struct xt_net *net, struct xt_value *const *in, int count,
                                const struct xt_net_context *spec)
{
    struct xt_node *node = add_node(net, XT_NODE_GLOBAL_CONTEXT, spec->name, in, count);
    int64_t channels = 0;
    if (!node)
        return NULL;
    if (count < 1)
        return xt_net_refuse(net, XT_ERR_DATA, "%s concatenates nothing", node->name);
    node->as.context = *spec;
    for (int i = 0; i < count; i++) {
        if (in[i]->w != in[0]->w)
            return xt_net_refuse(net, XT_ERR_DATA, "%s: what it concatenates has %d and %d columns",
                                 node->name, in[0]->w, in[i]->w);
        channels += in[i]->c;
    }
    return write(net, node, (struct shape){1, in[0]->w, channels});
}

/* ---- walking ---- */

struct xt_node *xt_net_reader(const struct xt_net *net, const struct xt_value *value, int i)
{
    for (size_t k = (size_t)value->of->index + 1; k < net->node_count; k++)
        for (int j = 0; j < net->nodes[k]->input_count; j++)
            if (net->nodes[k]->inputs[j] == value && i-- == 0)
                return net->nodes[k];
    return NULL;
}

const struct xt_net_param *xt_node_param(const struct xt_net *net, const struct xt_node *node,
                                         int which)
{
    return node->params[which] < 0 ? NULL : &net->params[node->params[which]];
}

double xt_node_flops(const struct xt_node *node)
{
    double out = (double)value_count(node->output);
    const struct xt_net_conv *conv = &node->as.conv;
    int inner = 0; /* channels that an output sums over */
    switch (node->kind) {
    case XT_NODE_CONV:
    case XT_NODE_CONV_BY:
        inner = node->inputs[0]->c / conv->groups;
        return 2 * out * inner * conv->kernel[0] * conv->kernel[1];
    case XT_NODE_CONV_TRANSPOSE:
        return 2 * (double)value_count(node->inputs[0]) * conv->channels / conv->groups *
               conv->kernel[0] * conv->kernel[1];
    case XT_NODE_LINEAR:
    case XT_NODE_MATMUL:
        return 2 * out * node->inputs[0]->c;
    case XT_NODE_RECURRENCE:
        return 2 * (double)value_count(node->inputs[0]) * node->inputs[1]->c;
    default:
        return 0;
    }
}
