/* The fusion pass: two passes over the net's nodes. The first groups nodes that run as one op; a
 * group is described at its last node before the pools. It depends only on the net, so that graphs
 * that share parameters agree. The second describes the groups in order. */
#include "engine/net/fuse.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "engine/ops/ops.h"
#include "engine/ranges.h"

enum { PARTS = 2 };

/* Nodes that run as one op; NULL: no node of that kind. */
struct group {
    const struct xt_node *conv, *norm, *add, *activation, *max, *average;
    const struct xt_value *residual;
    const struct xt_value *y; /* before the pools */
    bool to_context;          /* a context reads y, in float32 */
    /* The max pool reads only every n-th channel: the convolution and the norm are split into the
     * selected channels and the rest, so that nothing is copied. */
    const struct xt_node *select;
    int *channels; /* [y's channels] the selected, then the rest; owned */
    int selected;
};

/* The tensors that hold a value. */
struct held {
    struct xt_tensor *tensor;
    struct xt_tensor *f32;     /* a float32 copy; NULL: not needed yet */
    struct xt_tensor *rest;    /* second half of an average of split channels; NULL: not split */
    const struct group *split; /* of the channels in `tensor` and `rest` */
    bool of_weights;           /* a parameter, or computed with one, but by no layer */
    bool to_points;            /* leads to a grid's points alone, and is float32 */
};

struct lowering {
    const struct xt_net *net;
    struct xt_graph *graph;
    const struct xt_normalise *normalise;
    int *lead;            /* by the node at which the group is described */
    struct group *groups; /* by node */
    struct held *held;    /* by value */
    int (*params)[PARTS]; /* by the net's parameters: the graph's */
    int *columns;         /* [context's channels]: positions of a split tap's channels in a file */
};

/* ---- queries on the net ---- */

static const struct xt_node *only_reader(const struct lowering *l, const struct xt_value *value)
{
    if (value->readers != 1 || value == l->net->output)
        return NULL;
    return xt_net_reader(l->net, value, 0);
}

/* The only reader, if it is of that kind, else NULL. */
static const struct xt_node *followed_by(const struct lowering *l, const struct xt_value *value,
                                         enum xt_node_kind kind)
{
    const struct xt_node *reader = only_reader(l, value);
    return reader && reader->kind == kind ? reader : NULL;
}

static const struct xt_node *followed_by_relu(const struct lowering *l,
                                              const struct xt_value *value)
{
    const struct xt_node *reader = followed_by(l, value, XT_NODE_ACTIVATION);
    return reader && reader->as.activation.kind == XT_ACT_RELU ? reader : NULL;
}

/* An activation that a norm takes in. */
static const struct xt_node *followed_by_activation(const struct lowering *l,
                                                    const struct xt_value *value)
{
    const struct xt_node *reader = followed_by(l, value, XT_NODE_ACTIVATION);
    return reader && (reader->as.activation.kind == XT_ACT_RELU ||
                      xt_norm_can_activate(&reader->as.activation))
               ? reader
               : NULL;
}

static bool is_relu(const struct xt_node *activation)
{
    return activation && activation->as.activation.kind == XT_ACT_RELU;
}

static bool same_shape(const struct xt_value *a, const struct xt_value *b)
{
    return a->h == b->h && a->w == b->w && a->c == b->c;
}

/* The last layer computes in float32, since the loss reads its logits. */
static bool is_last_layer(const struct lowering *l, const struct xt_node *node)
{
    return node->output == l->net->output &&
           (node->kind == XT_NODE_CONV || node->kind == XT_NODE_LINEAR ||
            node->kind == XT_NODE_CONV_BY);
}

/* Whether the node is a view. */
static bool is_view(const struct xt_node *node)
{
    return node->kind == XT_NODE_RESHAPE && same_shape(node->inputs[0], node->output);
}

/* Whether all readers of the value compute in float32. */
static bool wants_f32(const struct lowering *l, const struct xt_value *value)
{
    const struct xt_node *reader = NULL;
    for (int i = 0; (reader = xt_net_reader(l->net, value, i)); i++) {
        bool passes = reader->kind == XT_NODE_DROPOUT || is_view(reader);
        if (reader->kind != XT_NODE_GLOBAL_CONTEXT && !is_last_layer(l, reader) &&
            !(passes && wants_f32(l, reader->output)))
            return false;
    }
    return value != l->net->output && value->readers > 0;
}

/* ---- groups ---- */

static struct xt_window window_of(const struct xt_node *node)
{
    const struct xt_net_pool *pool = &node->as.pool;
    return (struct xt_window){.kernel_h = pool->kernel[0],
                              .kernel_w = pool->kernel[1],
                              .stride_h = pool->stride[0],
                              .stride_w = pool->stride[1],
                              .pad_h = pool->pad[XT_SIDE_TOP],
                              .pad_w = pool->pad[XT_SIDE_LEFT]};
}

static bool is_even(const struct xt_net_pool *pool)
{
    return pool->pad[XT_SIDE_TOP] == pool->pad[XT_SIDE_BOTTOM] &&
           pool->pad[XT_SIDE_LEFT] == pool->pad[XT_SIDE_RIGHT] && !pool->ceil_mode;
}

static bool is_fused_max(const struct xt_node *node)
{
    const struct xt_net_pool *pool = &node->as.pool;
    return node->kind == XT_NODE_MAX_POOL && is_even(pool) && pool->kernel[0] == 3 &&
           pool->kernel[1] == 3;
}

/* Over the image, as before a gate (squeeze-and-excitation): a norm takes it in beside any
 * activation and for any reader. */
static bool is_global_average(const struct xt_node *node)
{
    const struct xt_net_pool *pool = &node->as.pool;
    const struct xt_value *in = node->inputs[0];
    return node->kind == XT_NODE_AVG_POOL && is_even(pool) && !pool->pad[XT_SIDE_TOP] &&
           !pool->pad[XT_SIDE_LEFT] && pool->kernel[0] == in->h && pool->kernel[1] == in->w;
}

static bool is_fused_average(const struct lowering *l, const struct xt_node *node)
{
    const struct xt_net_pool *pool = &node->as.pool;
    return node->kind == XT_NODE_AVG_POOL && is_even(pool) && !pool->pad[XT_SIDE_TOP] &&
           !pool->pad[XT_SIDE_LEFT] && pool->stride[0] == pool->kernel[0] &&
           wants_f32(l, node->output);
}

/* A stride along the channels, from the first on, read only by a pool that can be fused. */
static const struct xt_node *pool_of_selected(const struct lowering *l, const struct xt_node *node)
{
    const struct xt_net_slice *slice = &node->as.slice;
    if (node->kind != XT_NODE_SLICE || slice->axis != XT_AXIS_C || slice->start ||
        slice->step < 2 || (slice->count - 1) * slice->step + slice->step < node->inputs[0]->c)
        return NULL;
    const struct xt_node *pool = followed_by(l, node->output, XT_NODE_MAX_POOL);
    return pool && is_fused_max(pool) ? pool : NULL;
}

/* Whether another node has one of the node's parameters too. */
static bool shares_params(const struct lowering *l, const struct xt_node *node)
{
    for (size_t i = 0; i < l->net->node_count; i++)
        for (int k = 0; k < XT_NODE_PARAMS_MAX && l->net->nodes[i] != node; k++)
            if (node->params[k] >= 0 && l->net->nodes[i]->params[k] == node->params[k])
                return true;
    return false;
}

/* The only reader's only reader is a 1x1 convolution, whose weight columns can be permuted. */
static bool is_tap_of_split(const struct lowering *l, const struct xt_node *average)
{
    const struct xt_node *context = followed_by(l, average->output, XT_NODE_GLOBAL_CONTEXT);
    const struct xt_node *conv = context ? followed_by(l, context->output, XT_NODE_CONV) : NULL;
    return conv && conv->as.conv.groups == 1 && !shares_params(l, conv);
}

/* Whether y's channels can be computed by two convolutions and norms. */
static bool can_split(const struct lowering *l, const struct group *group)
{
    const struct xt_node *norm = group->norm;
    const struct xt_node *conv = norm->inputs[0]->of;
    return conv->kind == XT_NODE_CONV && conv->index + 1 == norm->index &&
           norm->inputs[0]->readers == 1 && conv->as.conv.groups == 1 &&
           is_relu(group->activation) && !group->add && group->average && group->y->readers == 2 &&
           is_tap_of_split(l, group->average) && !shares_params(l, conv) && !shares_params(l, norm);
}

static bool list_channels(struct lowering *l, struct group *group)
{
    int count = group->y->c;
    int step = group->select->as.slice.step;
    int at = 0;
    if (xt_mem_calloc(&group->channels, (size_t)count, sizeof *group->channels,
                      "a split layer's channels", &l->graph->err))
        return false;
    for (int i = 0; i < count; i += step)
        group->channels[at++] = i;
    group->selected = at;
    for (int i = 0; i < count; i++)
        if (i % step)
            group->channels[at++] = i;
    return true;
}

static void take_into(struct lowering *l, const struct xt_node *node, int lead)
{
    if (node)
        l->lead[node->index] = lead;
}

static void split(struct lowering *l, struct group *group, const struct xt_node *select)
{
    group->select = select;
    group->max = pool_of_selected(l, select);
    group->conv = group->norm->inputs[0]->of;
    list_channels(l, group);
}

/* Collects the pools and the context that read y; pools that cannot be fused stay separate
 * readers. */
static void find_pools(struct lowering *l, struct group *group)
{
    const struct xt_node *select = NULL;
    const struct xt_node *reader = NULL;
    for (int i = 0; (reader = xt_net_reader(l->net, group->y, i)); i++) {
        bool other = group->activation && !is_relu(group->activation);
        if (!group->max && is_relu(group->activation) && is_fused_max(reader))
            group->max = reader;
        else if (!group->average &&
                 (is_global_average(reader) || (!other && is_fused_average(l, reader))))
            group->average = reader;
        else if (pool_of_selected(l, reader))
            select = reader;
        group->to_context |= reader->kind == XT_NODE_GLOBAL_CONTEXT;
    }
    group->to_context &= !group->average && (!group->activation || is_relu(group->activation));
    if (select && !group->max && can_split(l, group))
        split(l, group, select);
}

static bool shares_memory(const struct xt_node *node)
{
    return node->kind == XT_NODE_RESHAPE || node->kind == XT_NODE_DROPOUT;
}

/* Whether another value lies in the same memory in inference: no sum may take its place. */
static bool lies_in_others(const struct lowering *l, const struct xt_value *value)
{
    const struct xt_node *reader = NULL;
    bool found = shares_memory(value->of);
    for (int i = 0; !found && (reader = xt_net_reader(l->net, value, i)); i++)
        found = shares_memory(reader);
    return found;
}

/* The sum that reads the norm's output, and the other summand, which is computed before. */
static void find_residual(const struct lowering *l, struct group *group)
{
    const struct xt_node *add = followed_by(l, group->y, XT_NODE_ADD);
    if (l->graph->options.int8_layout || !add || l->lead[add->index] != add->index ||
        l->groups[add->index].norm)
        return; /* no sum, or fused into the other summand's norm */
    const struct xt_value *other = add->inputs[add->inputs[0] == group->y];
    /* Inference adds in place, so the sum must be the summand's last reader, and a convolution
     * cannot add to what it reads. */
    const struct xt_node *before = group->norm->inputs[0]->of;
    if (!same_shape(other, group->y) || other->of_parameter ||
        xt_net_reader(l->net, other, other->readers - 1) != add ||
        (!l->graph->options.training &&
         ((before->input_count && before->inputs[0] == other) || lies_in_others(l, other))))
        return;
    group->add = add;
    group->residual = other;
    group->y = add->output;
}

static void group_norm(struct lowering *l, const struct xt_node *norm)
{
    struct group group = {.norm = norm, .y = norm->output};
    find_residual(l, &group);
    group.activation =
        group.add ? followed_by_relu(l, group.y) : followed_by_activation(l, group.y);
    if (group.activation)
        group.y = group.activation->output;
    find_pools(l, &group);
    int lead = group.y->of->index;
    const struct xt_node *nodes[] = {group.conv,   group.norm, group.add,    group.activation,
                                     group.select, group.max,  group.average};
    for (size_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++)
        take_into(l, nodes[i], lead);
    l->groups[lead] = group;
}

static void group_conv(struct lowering *l, const struct xt_node *conv)
{
    struct group group = {.conv = conv, .y = conv->output};
    if (!is_last_layer(l, conv))
        group.activation = followed_by_relu(l, conv->output);
    if (group.activation)
        group.y = group.activation->output;
    take_into(l, conv, group.y->of->index);
    take_into(l, group.activation, group.y->of->index);
    l->groups[group.y->of->index] = group;
}

static void group_nodes(struct lowering *l)
{
    for (size_t i = 0; i < l->net->node_count; i++)
        l->lead[i] = (int)i;
    for (size_t i = 0; i < l->net->node_count; i++) {
        const struct xt_node *node = l->net->nodes[i];
        if (node->kind == XT_NODE_BATCH_NORM)
            group_norm(l, node);
        else if (node->kind == XT_NODE_CONV || node->kind == XT_NODE_LINEAR)
            group_conv(l, node);
    }
}

/* ---- parameters ---- */

static struct xt_channel_map part_of(const struct group *group, int part)
{
    return (struct xt_channel_map){.file_count = group->y->c,
                                   .map = group->channels + (part ? group->selected : 0)};
}

static int part_size(const struct group *group, int part)
{
    return part ? group->y->c - group->selected : group->selected;
}

/* A parameter of the net, or the given rows and columns of it; NULL: all. */
static void declare(struct lowering *l, int index, int part, const struct xt_channel_map *rows,
                    int row_count, const struct xt_channel_map *columns)
{
    if (index < 0 || l->params[index][part] >= 0)
        return;
    const struct xt_net_param *from = &l->net->params[index];
    /* Maps are read and copied, never written. */
    union {
        const int *in;
        int *out;
    } row_map = {.in = rows && from->role != XT_PARAM_BN_COUNT ? rows->map : NULL},
      column_map = {.in = columns ? columns->map : NULL};
    struct xt_param param = {.role = from->role,
                             .ndims = from->ndims,
                             .init = from->init,
                             .rows = row_map.out,
                             .columns = column_map.out};
    memcpy(param.name, from->name, sizeof param.name);
    memcpy(param.dims, from->dims, sizeof param.dims);
    if (from->role == XT_PARAM_WEIGHT && from->ndims == 2) { /* of a 1x1 convolution */
        param.ndims = 4;
        param.file_ndims = 2;
        param.dims[2] = param.dims[3] = 1;
    }
    memcpy(param.file_dims, param.dims, sizeof param.file_dims);
    if (from->in_first) {
        param.in_first = true;
        param.dims[0] = from->dims[1];
        param.dims[1] = from->dims[0];
    }
    if (rows)
        param.dims[0] = row_count;
    l->params[index][part] = xt_graph_param(l->graph, &param);
}

static void declare_all(struct lowering *l, const struct xt_node *node, int part,
                        const struct xt_channel_map *rows, int row_count,
                        const struct xt_channel_map *columns)
{
    for (int i = 0; i < XT_NODE_PARAMS_MAX; i++)
        declare(l, node->params[i], part, rows, row_count, i == XT_NODE_WEIGHT ? columns : NULL);
}

/* Each part's parameters are contiguous. */
static void declare_split(struct lowering *l, const struct group *group)
{
    for (int part = 0; part < PARTS; part++) {
        struct xt_channel_map rows = part_of(group, part);
        declare_all(l, group->conv, part, &rows, part_size(group, part), NULL);
        declare_all(l, group->norm, part, &rows, part_size(group, part), NULL);
    }
}

/* The group whose split channels a tap of the context reads, or NULL. */
static const struct group *split_tap(const struct lowering *l, const struct xt_value *tap)
{
    const struct group *group = &l->groups[l->lead[tap->of->index]];
    return group->select && group->average == tap->of ? group : NULL;
}

/* For the reader of a context with split taps: the file's column of each channel. */
static void find_columns(struct lowering *l, const struct xt_node *context,
                         struct xt_channel_map *columns)
{
    int at = 0;
    bool is_split = false;
    for (int i = 0; i < context->input_count; i++)
        is_split |= split_tap(l, context->inputs[i]) != NULL;
    if (!is_split || xt_mem_calloc(&l->columns, (size_t)context->output->c, sizeof *l->columns,
                                   "a split layer's channels", &l->graph->err))
        return;
    for (int i = 0; i < context->input_count; i++) {
        const struct group *group = split_tap(l, context->inputs[i]);
        int first = at;
        for (int k = 0; k < context->inputs[i]->c; k++)
            l->columns[at++] = first + (group ? group->channels[k] : k);
    }
    *columns = (struct xt_channel_map){.file_count = at, .map = l->columns};
}

static void declare_params(struct lowering *l)
{
    for (size_t i = 0; i < l->net->node_count && !xt_graph_fails(l->graph); i++) {
        const struct xt_node *node = l->net->nodes[i];
        const struct group *group = &l->groups[l->lead[i]];
        struct xt_channel_map columns = {0};
        if (group->select && node == group->conv)
            declare_split(l, group);
        if (group->select && (node == group->conv || node == group->norm))
            continue;
        if (node->kind == XT_NODE_CONV && node->inputs[0]->of->kind == XT_NODE_GLOBAL_CONTEXT)
            find_columns(l, node->inputs[0]->of, &columns);
        declare_all(l, node, 0, NULL, 0, columns.map ? &columns : NULL);
    }
}

/* ---- values ---- */

/* The number of ops that read the value, without those fused into its own op. */
static int ops_reading(const struct lowering *l, const struct xt_value *value)
{
    const struct group *group = &l->groups[l->lead[value->of->index]];
    int count = value == l->net->output;
    const struct xt_node *reader = NULL;
    for (int i = 0; (reader = xt_net_reader(l->net, value, i)); i++) {
        if (is_view(reader))
            count += ops_reading(l, reader->output);
        else if (l->lead[reader->index] != l->lead[value->of->index] &&
                 !(group->to_context && reader->kind == XT_NODE_GLOBAL_CONTEXT))
            count++;
    }
    return count;
}

/* Makes the tensor the value's for all readers. */
static void hold(struct lowering *l, const struct xt_value *value, struct xt_tensor *tensor)
{
    char name[80];
    struct xt_tensor *x = tensor;
    if (tensor && !is_view(value->of) && ops_reading(l, value) > xt_tensor_readers_most(tensor)) {
        snprintf(name, sizeof name, "%s fan-out", tensor->name);
        x = xt_graph_fan_out(l->graph, tensor, name);
    }
    l->held[value->index].tensor = x;
}

static struct xt_tensor *take(const struct lowering *l, const struct xt_value *value)
{
    return l->held[value->index].tensor;
}

/* The value in float32, converted on first use. */
static struct xt_tensor *take_f32(struct lowering *l, const struct xt_value *value)
{
    const struct held *held = &l->held[value->index];
    if (held->f32)
        return held->f32;
    if (!held->tensor || xt_dtype_is_int8(held->tensor->dtype))
        return held->tensor;
    return xt_graph_cast(l->graph, held->tensor, XT_F32, NULL);
}

/* As a node reads it: what leads to points is computed in float32, what is computed of parameters
 * alone is there in that. */
static struct xt_tensor *take_for(struct lowering *l, const struct xt_node *node, int i)
{
    const struct xt_value *value = node->inputs[i];
    if (l->held[node->output->index].to_points)
        return take_f32(l, value);
    struct xt_tensor *tensor = take(l, value);
    if (!value->of_parameter || node->output->of_parameter)
        return tensor;
    return xt_graph_cast(l->graph, tensor, l->graph->options.dtype, NULL);
}

/* What is computed of `from`, where that is int8 and the graph's layout is `least` or more. */
static void quantise(const struct lowering *l, struct xt_tensor *tensor,
                     const struct xt_tensor *from, enum xt_int8_layout least)
{
    const struct xt_graph_options *options = &l->graph->options;
    if (!tensor || options->int8_layout < least)
        return;
    tensor->range = ++l->graph->range_count;
    if (options->int8 && xt_dtype_is_int8(from->dtype))
        xt_ranges_quantise(options->int8, tensor);
}

/* ---- ops ---- */

/* The graph's index of a node's parameter; -1: there is none. */
static int param_of(const struct lowering *l, const struct xt_node *node, int which, int part)
{
    return node->params[which] < 0 ? -1 : l->params[node->params[which]][part];
}

static struct xt_norm_params norm_params(const struct lowering *l, const struct xt_node *norm,
                                         int part)
{
    return (struct xt_norm_params){.scale = param_of(l, norm, XT_NODE_WEIGHT, part),
                                   .shift = param_of(l, norm, XT_NODE_BIAS, part),
                                   .mean = param_of(l, norm, XT_NODE_MEAN, part),
                                   .var = param_of(l, norm, XT_NODE_VAR, part),
                                   .count = param_of(l, norm, XT_NODE_TRACKED, part)};
}

static struct xt_conv_params conv_params(const struct lowering *l, const struct xt_node *conv,
                                         int part)
{
    return (struct xt_conv_params){.weight = param_of(l, conv, XT_NODE_WEIGHT, part),
                                   .bias = param_of(l, conv, XT_NODE_BIAS, part)};
}

static struct xt_conv_spec conv_spec(const struct xt_node *node)
{
    if (node->kind == XT_NODE_LINEAR)
        return (struct xt_conv_spec){.name = node->name,
                                     .channels = node->as.linear.channels,
                                     .kernel_h = 1,
                                     .kernel_w = 1,
                                     .bias = node->as.linear.bias};
    const struct xt_net_conv *conv = &node->as.conv;
    return (struct xt_conv_spec){.name = node->name,
                                 .channels = conv->channels,
                                 .kernel_h = conv->kernel[0],
                                 .kernel_w = conv->kernel[1],
                                 .stride_h = conv->stride[0],
                                 .stride_w = conv->stride[1],
                                 .pad_h = conv->pad[XT_SIDE_TOP],
                                 .dilation_h = conv->dilation[0],
                                 .dilation_w = conv->dilation[1],
                                 .pad_w = conv->pad[XT_SIDE_LEFT],
                                 .more_h = conv->pad[XT_SIDE_BOTTOM] - conv->pad[XT_SIDE_TOP],
                                 .more_w = conv->pad[XT_SIDE_RIGHT] - conv->pad[XT_SIDE_LEFT],
                                 .groups = conv->groups,
                                 .bias = conv->bias};
}

/* Why a layer computes in float32; NULL: it does not. */
static const char *why_f32(const struct lowering *l, const struct xt_node *layer,
                           const struct xt_value *y)
{
    return is_last_layer(l, layer)       ? "its logits go into the loss"
           : l->held[y->index].to_points ? "points of an image follow from it"
                                         : NULL;
}

static void lower_conv(struct lowering *l, const struct group *group)
{
    struct xt_conv_spec spec = conv_spec(group->conv);
    struct xt_conv_params params = conv_params(l, group->conv, 0);
    spec.params = &params;
    spec.relu = group->activation != NULL;
    spec.why_f32 = why_f32(l, group->conv, group->y);
    const struct xt_value *in = group->conv->inputs[0];
    hold(l, group->y, xt_graph_conv(l->graph, spec.why_f32 ? take_f32(l, in) : take(l, in), &spec));
}

static struct xt_tensor *lower_conv_by(struct lowering *l, const struct xt_node *node)
{
    struct xt_conv_spec spec = conv_spec(node);
    struct xt_conv_params params = conv_params(l, node, 0);
    spec.params = &params;
    spec.why_f32 = why_f32(l, node, node->output);
    const struct xt_value *in = node->inputs[0];
    return xt_graph_conv_by(l->graph, spec.why_f32 ? take_f32(l, in) : take(l, in),
                            take(l, node->inputs[1]), &spec);
}

static struct xt_norm_spec norm_spec(const struct lowering *l, const struct group *group)
{
    static const struct xt_window copy = {
        .kernel_h = 1, .kernel_w = 1, .stride_h = 1, .stride_w = 1};
    struct xt_norm_spec spec = {.name = group->norm->name,
                                .eps = group->norm->as.norm.eps,
                                .momentum = group->norm->as.norm.momentum,
                                .relu = is_relu(group->activation),
                                .full = ops_reading(l, group->y),
                                .keeps_in = ops_reading(l, group->norm->inputs[0]) > 1};
    if (group->activation && !spec.relu)
        spec.activation = &group->activation->as.activation;
    if (group->residual)
        spec.residual = take(l, group->residual);
    if (group->max)
        spec.max = window_of(group->max);
    if (group->average)
        spec.average = window_of(group->average);
    if (group->average && is_global_average(group->average))
        spec.average.stride_h = spec.average.kernel_h;
    if (!group->average && group->to_context)
        spec.average = copy;
    return spec;
}

/* A norm's average is in float32: for readers in the graph's own type it is brought to that. */
static void hold_average(struct lowering *l, const struct xt_value *value,
                         struct xt_tensor *average)
{
    if (!wants_f32(l, value))
        average = xt_graph_cast(l->graph, average, l->graph->options.dtype, NULL);
    hold(l, value, average);
}

static void lower_norm(struct lowering *l, const struct group *group)
{
    struct xt_norm_spec spec = norm_spec(l, group);
    struct xt_norm_params params = norm_params(l, group->norm, 0);
    spec.params = &params;
    struct xt_norm_outputs out = xt_graph_norm(l->graph, take(l, group->norm->inputs[0]), &spec);
    hold(l, group->y, out.full);
    if (group->max)
        hold(l, group->max->output, out.max);
    if (group->average)
        quantise(l, out.average, take(l, group->norm->inputs[0]), XT_INT8_AVERAGES);
    if (group->average)
        hold_average(l, group->average->output, out.average);
    else
        l->held[group->y->index].f32 = out.average;
}

/* One of the two convolutions with its norm. */
static struct xt_norm_outputs lower_part(struct lowering *l, const struct group *group, int part)
{
    struct xt_conv_spec conv = conv_spec(group->conv);
    struct xt_conv_params conv_by = conv_params(l, group->conv, part);
    struct xt_norm_spec norm = norm_spec(l, group);
    struct xt_norm_params norm_by = norm_params(l, group->norm, part);
    conv.params = &conv_by;
    conv.channels = part_size(group, part);
    norm.params = &norm_by;
    if (part)
        norm.max = (struct xt_window){0};
    struct xt_tensor *z = xt_graph_conv(l->graph, take(l, group->conv->inputs[0]), &conv);
    struct xt_norm_outputs out = xt_graph_norm(l->graph, z, &norm);
    quantise(l, out.average, z, XT_INT8_AVERAGES);
    return out;
}

static void lower_split(struct lowering *l, const struct group *group)
{
    struct xt_norm_outputs selected = lower_part(l, group, 0);
    struct xt_norm_outputs rest = lower_part(l, group, 1);
    hold(l, group->max->output, selected.max);
    l->held[group->average->output->index] =
        (struct held){.tensor = selected.average, .rest = rest.average, .split = group};
}

static void add_tap(struct xt_context_spec *spec, int group, struct xt_tensor *tensor)
{
    spec->taps[spec->count] = tensor;
    spec->group[spec->count++] = group;
}

static struct xt_tensor *lower_context(struct lowering *l, const struct xt_node *node)
{
    struct xt_context_spec spec = {.over_batch = node->as.context.over_batch};
    for (int i = 0; i < node->input_count; i++) {
        const struct held *held = &l->held[node->inputs[i]->index];
        if (spec.count + 2 > XT_TAPS_MAX)
            return xt_graph_refuse(l->graph, XT_ERR_RUN, "%s: more than %d taps", node->name,
                                   XT_TAPS_MAX / 2);
        add_tap(&spec, i, take_f32(l, node->inputs[i]));
        if (held->rest)
            add_tap(&spec, i, held->rest);
    }
    return xt_graph_context(l->graph, &spec);
}

/* Notes what is computed of parameters, in the nodes' order. */
static void note_weights(struct lowering *l)
{
    for (size_t i = 0; i < l->net->node_count; i++) {
        const struct xt_node *node = l->net->nodes[i];
        bool of_weights = node->kind == XT_NODE_PARAMETER;
        bool is_layer = node->params[XT_NODE_WEIGHT] >= 0;
        for (int k = 0; k < node->input_count && node->output->of_parameter && !is_layer; k++)
            of_weights = of_weights || l->held[node->inputs[k]->index].of_weights;
        l->held[node->output->index].of_weights = of_weights;
    }
}

/* Whether the node computes in the type of what it reads, and passes it on. */
static bool passes_type(const struct xt_node *node)
{
    switch (node->kind) {
    case XT_NODE_ACTIVATION:
    case XT_NODE_ADD:
    case XT_NODE_MUL:
    case XT_NODE_CONCAT:
    case XT_NODE_SLICE:
    case XT_NODE_MATMUL:
    case XT_NODE_SOFTMAX:
    case XT_NODE_CHANNEL_MEAN:
    case XT_NODE_DROPOUT:
    case XT_NODE_TRANSPOSE:
    case XT_NODE_RESHAPE:
    case XT_NODE_AXIS_MAP:
        return true;
    default:
        return false;
    }
}

/* Whether all that reads the value makes points of it. */
static bool leads_to_points(const struct lowering *l, const struct xt_value *value)
{
    const struct xt_node *reader = NULL;
    for (int i = 0; (reader = xt_net_reader(l->net, value, i)); i++) {
        bool is_grid = reader->kind == XT_NODE_GRID_SAMPLE && reader->inputs[0] != value;
        if (!is_grid && !(passes_type(reader) && l->held[reader->output->index].to_points))
            return false;
    }
    return value != l->net->output && value->readers > 0;
}

/* Notes what leads to points, from them back. */
static void note_points(struct lowering *l)
{
    bool any = false;
    for (size_t i = l->net->node_count; i > 0; i--) {
        const struct xt_node *node = l->net->nodes[i - 1];
        any = any || node->kind == XT_NODE_GRID_SAMPLE;
        if (any)
            l->held[node->output->index].to_points = leads_to_points(l, node->output);
    }
}

/* Whether a weight is computed with the constant. */
static bool is_of_weights(const struct lowering *l, const struct xt_value *constant)
{
    const struct xt_node *reader = NULL;
    for (int i = 0; (reader = xt_net_reader(l->net, constant, i)); i++)
        if (l->held[reader->output->index].of_weights)
            return true;
    return false;
}

/* Whether the parameter is only the beginning of a computation, which is in float32: rounding the
 * norms and deviations in between would cost more than rounding what comes out. */
static bool is_computed_with(const struct lowering *l, const struct xt_value *parameter)
{
    const struct xt_node *reader = NULL;
    for (int i = 0; (reader = xt_net_reader(l->net, parameter, i)); i++)
        if (reader->output->of_parameter || reader->kind == XT_NODE_CONV_BY ||
            reader->kind == XT_NODE_RECURRENCE)
            return true;
    return false;
}

static struct xt_tensor *lower_parameter(struct lowering *l, const struct xt_node *node)
{
    const struct xt_value *out = node->output;
    int declared = param_of(l, node, XT_NODE_WEIGHT, 0);
    const struct xt_net_param *param = &l->net->params[node->params[XT_NODE_WEIGHT]];
    struct xt_parameter_spec spec = {.name = param->name,
                                     .h = out->h,
                                     .w = out->w,
                                     .c = out->c,
                                     .ndims = param->ndims,
                                     .f32 =
                                         is_computed_with(l, out) || l->held[out->index].to_points,
                                     .declared = &declared};
    memcpy(spec.dims, param->dims, sizeof spec.dims);
    return xt_graph_parameter(l->graph, &spec);
}

static struct xt_tensor *lower_constant(const struct lowering *l, const struct xt_node *node)
{
    const struct xt_net_constant *constant = &node->as.constant;
    return xt_graph_constant(
        l->graph, &(struct xt_constant_spec){.name = node->name,
                                             .h = constant->h,
                                             .w = constant->w,
                                             .c = constant->c,
                                             .numbers = constant->numbers,
                                             .count = constant->count,
                                             .f32 = is_of_weights(l, node->output) ||
                                                    l->held[node->output->index].to_points});
}

/* More than an op has inputs are concatenated in parts first. */
static struct xt_tensor *concat(struct lowering *l, const struct xt_node *node,
                                struct xt_tensor **in, int count)
{
    int parts = 0;
    for (int i = 0; i < count && count > XT_OP_INPUTS_MAX; parts++, i += XT_OP_INPUTS_MAX)
        in[parts] =
            concat(l, node, in + i, count - i < XT_OP_INPUTS_MAX ? count - i : XT_OP_INPUTS_MAX);
    return parts ? concat(l, node, in, parts)
                 : xt_graph_concat(l->graph, in, count, node->as.axis, node->name);
}

static struct xt_tensor *lower_concat(struct lowering *l, const struct xt_node *node)
{
    struct xt_err err = {0};
    struct xt_tensor **in = NULL;
    if (xt_mem_calloc(&in, (size_t)node->input_count, sizeof(*in), node->name, &err))
        return xt_graph_refuse(l->graph, err.status, "%s", err.text);
    for (int i = 0; i < node->input_count; i++)
        in[i] = take_for(l, node, i);
    struct xt_tensor *out = concat(l, node, in, node->input_count);
    free(in);
    return out;
}

static struct xt_tensor *lower_slice(struct lowering *l, const struct xt_node *node,
                                     struct xt_tensor *in)
{
    const struct xt_net_slice *slice = &node->as.slice;
    return xt_graph_slice(l->graph, in,
                          &(struct xt_slice_spec){.name = node->name,
                                                  .axis = slice->axis,
                                                  .start = slice->start,
                                                  .step = slice->step,
                                                  .count = slice->count});
}

static struct xt_tensor *lower_pool(struct lowering *l, const struct xt_node *node)
{
    const struct xt_net_pool *pool = &node->as.pool;
    bool average = node->kind == XT_NODE_AVG_POOL;
    return xt_graph_window_pool(
        l->graph, take(l, node->inputs[0]),
        &(struct xt_pool_spec){.name = node->name,
                               .average = average,
                               .kernel_h = pool->kernel[0],
                               .kernel_w = pool->kernel[1],
                               .stride_h = pool->stride[0],
                               .stride_w = pool->stride[1],
                               .pad_top = pool->pad[XT_SIDE_TOP],
                               .pad_left = pool->pad[XT_SIDE_LEFT],
                               .pad_bottom = pool->pad[XT_SIDE_BOTTOM],
                               .pad_right = pool->pad[XT_SIDE_RIGHT],
                               .ceil_mode = pool->ceil_mode,
                               .count_include_pad = pool->count_include_pad,
                               .f32 = average && wants_f32(l, node->output)});
}

static struct xt_tensor *lower_matmul(struct lowering *l, const struct xt_node *node)
{
    const struct xt_net_matmul *matmul = &node->as.matmul;
    return xt_graph_matmul(l->graph, take_for(l, node, 0), take_for(l, node, 1),
                           &(struct xt_matmul_spec){.name = node->name,
                                                    .transpose = matmul->transpose,
                                                    .scale = matmul->scale});
}

static struct xt_tensor *lower_layer_norm(struct lowering *l, const struct xt_node *node)
{
    const struct xt_layer_norm_params params = {.scale = param_of(l, node, XT_NODE_WEIGHT, 0),
                                                .shift = param_of(l, node, XT_NODE_BIAS, 0)};
    bool unscaled = node->as.norm.unscaled;
    return xt_graph_layer_norm(l->graph, take(l, node->inputs[0]),
                               &(struct xt_layer_norm_spec){.name = node->name,
                                                            .eps = (float)node->as.norm.eps,
                                                            .params = unscaled ? NULL : &params,
                                                            .unscaled = unscaled});
}

static struct xt_tensor *lower_conv_transpose(struct lowering *l, const struct xt_node *node)
{
    const struct xt_net_conv *conv = &node->as.conv;
    const struct xt_conv_params params = conv_params(l, node, 0);
    return xt_graph_conv_transpose(
        l->graph, take(l, node->inputs[0]),
        &(struct xt_conv_transpose_spec){
            .name = node->name,
            .channels = conv->channels,
            .kernel = {conv->kernel[0], conv->kernel[1]},
            .stride = {conv->stride[0], conv->stride[1]},
            .dilation = {conv->dilation[0], conv->dilation[1]},
            .pad_before = {conv->pad[XT_SIDE_TOP], conv->pad[XT_SIDE_LEFT]},
            .pad_after = {conv->pad[XT_SIDE_BOTTOM], conv->pad[XT_SIDE_RIGHT]},
            .more = {conv->output_pad[0], conv->output_pad[1]},
            .groups = conv->groups,
            .bias = conv->bias,
            .params = &params});
}

static struct xt_tensor *lower_grid_sample(struct lowering *l, const struct xt_node *node)
{
    const struct xt_net_grid_sample *sample = &node->as.grid_sample;
    return xt_graph_grid_sample(
        l->graph, take(l, node->inputs[0]), take_f32(l, node->inputs[1]),
        &(struct xt_grid_sample_spec){
            .name = node->name, .border = sample->border, .align_corners = sample->align_corners});
}

static struct xt_tensor *lower_recurrence(struct lowering *l, const struct xt_node *node)
{
    const struct xt_net_recurrence *recurrence = &node->as.recurrence;
    return xt_graph_recurrence(l->graph, take(l, node->inputs[0]), take_f32(l, node->inputs[1]),
                               node->input_count > 2 ? take_f32(l, node->inputs[2]) : NULL,
                               &(struct xt_recurrence_spec){.name = node->name,
                                                            .kind = recurrence->kind,
                                                            .backwards = recurrence->backwards,
                                                            .with_cell = recurrence->with_cell});
}

/* A node that is not fused. */
static struct xt_tensor *lower_node(struct lowering *l, const struct xt_node *node)
{
    const struct xt_value *out = node->output;
    bool is_alone = node->input_count == 1 && node->kind != XT_NODE_CONCAT && passes_type(node);
    struct xt_tensor *in = is_alone            ? take_for(l, node, 0)
                           : node->input_count ? take(l, node->inputs[0])
                                               : NULL;
    switch (node->kind) {
    case XT_NODE_INPUT:
        return xt_graph_input(l->graph, out->h, out->w, out->c, l->normalise);
    case XT_NODE_PARAMETER:
        return lower_parameter(l, node);
    case XT_NODE_CONSTANT:
        return lower_constant(l, node);
    case XT_NODE_ACTIVATION:
        return xt_graph_eltwise(l->graph, in, &node->as.activation, node->name);
    case XT_NODE_CONCAT:
        return lower_concat(l, node);
    case XT_NODE_SLICE:
        return lower_slice(l, node, in);
    case XT_NODE_CHANNEL_SHUFFLE:
        return xt_graph_shuffle(l->graph, in, node->as.shuffle_groups, node->name);
    case XT_NODE_LAYER_NORM:
        return lower_layer_norm(l, node);
    case XT_NODE_ADD:
        return xt_graph_add(l->graph, take_for(l, node, 0), take_for(l, node, 1), node->name);
    case XT_NODE_MUL:
        return xt_graph_mul(l->graph, take_for(l, node, 0), take_for(l, node, 1), node->name);
    case XT_NODE_MAX_POOL:
    case XT_NODE_AVG_POOL:
        return lower_pool(l, node);
    case XT_NODE_MATMUL:
        return lower_matmul(l, node);
    case XT_NODE_SOFTMAX:
        return xt_graph_softmax(l->graph, in, node->name);
    case XT_NODE_CHANNEL_MEAN:
        return xt_graph_channel_mean(l->graph, in, node->name);
    case XT_NODE_CONV_BY:
        return lower_conv_by(l, node);
    case XT_NODE_DROPOUT:
        return xt_graph_dropout(l->graph, in, node->as.dropout.p, node->name);
    case XT_NODE_DROP_PATH:
        return xt_graph_drop_path(l->graph, in, node->as.dropout.p, node->name);
    case XT_NODE_DROP_CHANNELS:
        return xt_graph_drop_channels(l->graph, in, node->as.dropout.p, node->name);
    case XT_NODE_TRANSPOSE:
        return xt_graph_transpose(l->graph, in, node->as.transpose.from, node->name);
    case XT_NODE_RESHAPE:
        return is_view(node) ? in
                             : xt_graph_reshape(l->graph, in, out->h, out->w, out->c, node->name);
    case XT_NODE_CONV_TRANSPOSE:
        return lower_conv_transpose(l, node);
    case XT_NODE_AXIS_MAP:
        return xt_graph_axis_map(l->graph, in, node->as.axis_map.axis, &node->as.axis_map.map,
                                 node->name);
    case XT_NODE_GRID_SAMPLE:
        return lower_grid_sample(l, node);
    case XT_NODE_RECURRENCE:
        return lower_recurrence(l, node);
    case XT_NODE_GLOBAL_CONTEXT:
        return lower_context(l, node);
    default:
        return xt_graph_refuse(l->graph, XT_ERR_RUN, "%s: no op for an unfused %s yet", node->name,
                               xt_node_kind_name(node->kind));
    }
}

/* An average; a sum of two in int8, after its ReLU. */
static void quantise_node(const struct lowering *l, const struct xt_node *node,
                          struct xt_tensor *out)
{
    const struct xt_node *add =
        node->kind == XT_NODE_ACTIVATION && is_relu(node) ? node->inputs[0]->of : node;
    if (node->kind == XT_NODE_AVG_POOL)
        quantise(l, out, take(l, node->inputs[0]), XT_INT8_AVERAGES);
    if (add->kind != XT_NODE_ADD || (add == node && followed_by_relu(l, node->output)))
        return;
    const struct xt_tensor *a = take(l, add->inputs[0]);
    const struct xt_tensor *b = take(l, add->inputs[1]);
    /* A sum that a norm took in, and that others read besides this ReLU, has no terms of its own.
     */
    if (a && b)
        quantise(l, out, xt_dtype_is_int8(a->dtype) ? b : a, XT_INT8_SUMS);
}

/* ---- the listing of --dry-run ---- */

static void append(struct xt_op *op, const char *what)
{
    xt_str_append_to(op->runs, sizeof op->runs, "%s%s", *op->runs ? " + " : "", what);
}

static void append_node(struct xt_op *op, const struct xt_node *node)
{
    if (node)
        append(op, node->kind == XT_NODE_ACTIVATION ? xt_activation_name(node->as.activation.kind)
                                                    : xt_node_kind_name(node->kind));
}

static void append_norm(struct xt_op *op, const struct group *group)
{
    append_node(op, group->norm);
    append_node(op, group->add);
    append_node(op, group->activation);
}

/* An op of the group. */
static void note_op(struct xt_op *op, const struct group *group, const struct xt_node *node)
{
    if (op->kind == &xt_kind_norm) {
        append_norm(op, group);
        append_node(op, xt_op_out(op, XT_NORM_MAX) ? group->max : NULL);
        append_node(op, xt_op_out(op, XT_NORM_AVERAGE) ? group->average : NULL);
    } else if (op->kind == &xt_kind_conv) {
        append_node(op, group->conv);
        if (((const struct xt_conv_op *)op)->folded)
            append_norm(op, group);
        else
            append_node(op, group->norm ? NULL : group->activation);
    } else if (op->kind != &xt_kind_pool && op->kind != &xt_kind_fan_out &&
               op->kind != &xt_kind_cast) {
        append_node(op, node);
    }
}

static bool took_norm(const struct lowering *l, const struct group *group, const struct xt_op *op)
{
    return group->norm && !group->select && op->kind == &xt_kind_conv &&
           ((const struct xt_conv_op *)op)->folded &&
           xt_op_out(op, 0) == take(l, group->norm->inputs[0]);
}

/* The ops from `first` on are the group's; so is an earlier convolution that the norm was folded
 * into. */
static void note(const struct lowering *l, const struct group *group, const struct xt_node *node,
                 int first)
{
    for (int i = 0; i < l->graph->op_count; i++) {
        struct xt_op *op = l->graph->ops[i];
        if (took_norm(l, group, op))
            append_norm(op, group);
        else if (i >= first && !*op->runs)
            note_op(op, group, node);
    }
}

static void lower_group(struct lowering *l, const struct xt_node *node)
{
    const struct group *group = &l->groups[node->index];
    int first = l->graph->op_count;
    if (group->select)
        lower_split(l, group);
    else if (group->norm)
        lower_norm(l, group);
    else if (group->conv)
        lower_conv(l, group);
    else {
        struct xt_tensor *out = lower_node(l, node);
        if (out)
            quantise_node(l, node, out);
        hold(l, node->output, out);
    }
    if (!xt_graph_fails(l->graph))
        note(l, group, node, first);
}

static bool begin(struct lowering *l)
{
    static const char what[] = "the fusion pass";
    const struct xt_net *net = l->net;
    struct xt_err *err = &l->graph->err;
    bool made = !xt_mem_calloc(&l->lead, net->node_count, sizeof *l->lead, what, err) &&
                !xt_mem_calloc(&l->groups, net->node_count, sizeof *l->groups, what, err) &&
                !xt_mem_calloc(&l->held, net->value_count, sizeof *l->held, what, err) &&
                !xt_mem_calloc(&l->params, net->param_count, sizeof *l->params, what, err);
    for (size_t i = 0; i < net->param_count && made; i++)
        for (int part = 0; part < PARTS; part++)
            l->params[i][part] = -1;
    return made;
}

static void end(struct lowering *l)
{
    for (size_t i = 0; l->groups && i < l->net->node_count; i++)
        free(l->groups[i].channels);
    free(l->lead);
    free(l->groups);
    free(l->held);
    free(l->params);
    free(l->columns);
}

struct xt_tensor *xt_net_lower(const struct xt_net *net, struct xt_graph *graph,
                               const struct xt_normalise *normalise)
{
    struct lowering l = {.net = net, .graph = graph, .normalise = normalise};
    struct xt_tensor *logits = NULL;
    if (xt_graph_fails(graph))
        return NULL;
    if (begin(&l)) {
        group_nodes(&l);
        note_weights(&l);
        note_points(&l);
        declare_params(&l);
        graph->params_declared = true;
        for (size_t i = 0; i < net->node_count && !xt_graph_fails(graph); i++)
            if (l.lead[i] == (int)i)
                lower_group(&l, net->nodes[i]);
        logits = xt_graph_fails(graph) ? NULL : take_f32(&l, net->output);
    }
    end(&l);
    return logits;
}
