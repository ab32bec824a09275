#include "models/net_text.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* A line is KIND, INPUTS, NAME and KEY=VALUE, separated by tabs; several numbers of a key are
 * separated by commas. Values are numbered as the nodes that produce them. */
static const char first_line[] = "xtrain net 1\n";

/* ---- the fields of a node ---- */

enum type { INT, REAL, BOOL }; /* a REAL is a float or a double, by its size */
#define AT(member) offsetof(struct xt_node, as.member), sizeof((struct xt_node){0}.as.member)

static const struct field {
    enum xt_node_kind kind;
    const char *key;
    size_t at, size; /* of all its values */
    int count;
    enum type type;
} fields[] = {
    {XT_NODE_CONV, "channels", AT(conv.channels), 1, INT},
    {XT_NODE_CONV, "kernel", AT(conv.kernel), 2, INT},
    {XT_NODE_CONV, "stride", AT(conv.stride), 2, INT},
    {XT_NODE_CONV, "dilation", AT(conv.dilation), 2, INT},
    {XT_NODE_CONV, "pad", AT(conv.pad), 4, INT},
    {XT_NODE_CONV, "groups", AT(conv.groups), 1, INT},
    {XT_NODE_CONV, "bias", AT(conv.bias), 1, BOOL},
    {XT_NODE_CONV_TRANSPOSE, "output_pad", AT(conv.output_pad), 2, INT},
    {XT_NODE_LINEAR, "channels", AT(linear.channels), 1, INT},
    {XT_NODE_LINEAR, "bias", AT(linear.bias), 1, BOOL},
    {XT_NODE_BATCH_NORM, "eps", AT(norm.eps), 1, REAL},
    {XT_NODE_BATCH_NORM, "momentum", AT(norm.momentum), 1, REAL},
    {XT_NODE_LAYER_NORM, "eps", AT(norm.eps), 1, REAL},
    {XT_NODE_ACTIVATION, "alpha", AT(activation.alpha), 1, REAL},
    {XT_NODE_ACTIVATION, "beta", AT(activation.beta), 1, REAL},
    {XT_NODE_CONCAT, "axis", AT(axis), 1, INT},
    {XT_NODE_SLICE, "axis", AT(slice.axis), 1, INT},
    {XT_NODE_SLICE, "start", AT(slice.start), 1, INT},
    {XT_NODE_SLICE, "step", AT(slice.step), 1, INT},
    {XT_NODE_SLICE, "count", AT(slice.count), 1, INT},
    {XT_NODE_CHANNEL_SHUFFLE, "groups", AT(shuffle_groups), 1, INT},
    {XT_NODE_MAX_POOL, "kernel", AT(pool.kernel), 2, INT},
    {XT_NODE_MAX_POOL, "stride", AT(pool.stride), 2, INT},
    {XT_NODE_MAX_POOL, "pad", AT(pool.pad), 4, INT},
    {XT_NODE_MAX_POOL, "ceil", AT(pool.ceil_mode), 1, BOOL},
    {XT_NODE_AVG_POOL, "kernel", AT(pool.kernel), 2, INT},
    {XT_NODE_AVG_POOL, "stride", AT(pool.stride), 2, INT},
    {XT_NODE_AVG_POOL, "pad", AT(pool.pad), 4, INT},
    {XT_NODE_AVG_POOL, "ceil", AT(pool.ceil_mode), 1, BOOL},
    {XT_NODE_AVG_POOL, "count_pad", AT(pool.count_include_pad), 1, BOOL},
    {XT_NODE_DROPOUT, "p", AT(dropout.p), 1, REAL},
    {XT_NODE_DROP_PATH, "p", AT(dropout.p), 1, REAL},
    {XT_NODE_DROP_CHANNELS, "p", AT(dropout.p), 1, REAL},
    {XT_NODE_MATMUL, "transpose", AT(matmul.transpose), 1, BOOL},
    {XT_NODE_MATMUL, "scale", AT(matmul.scale), 1, REAL},
    {XT_NODE_TRANSPOSE, "from", AT(transpose.from), 3, INT},
    {XT_NODE_AXIS_MAP, "axis", AT(axis_map.axis), 1, INT},
    {XT_NODE_AXIS_MAP, "before", AT(axis_map.map.before), 1, INT},
    {XT_NODE_AXIS_MAP, "behind", AT(axis_map.map.behind), 1, INT},
    {XT_NODE_AXIS_MAP, "fill", AT(axis_map.map.fill), 1, REAL},
    {XT_NODE_AXIS_MAP, "count", AT(axis_map.map.count), 1, INT},
    {XT_NODE_AXIS_MAP, "scale", AT(axis_map.map.scale), 1, REAL},
    {XT_NODE_AXIS_MAP, "cubic", AT(axis_map.map.cubic), 1, REAL},
    {XT_NODE_AXIS_MAP, "outside", AT(axis_map.map.excludes_outside), 1, BOOL},
    {XT_NODE_GRID_SAMPLE, "border", AT(grid_sample.border), 1, BOOL},
    {XT_NODE_GRID_SAMPLE, "align_corners", AT(grid_sample.align_corners), 1, BOOL},
    {XT_NODE_RECURRENCE, "backwards", AT(recurrence.backwards), 1, BOOL},
    {XT_NODE_RECURRENCE, "with_cell", AT(recurrence.with_cell), 1, BOOL},
};
enum { FIELDS = sizeof fields / sizeof *fields };

static bool is_conv(enum xt_node_kind kind)
{
    return kind == XT_NODE_CONV || kind == XT_NODE_CONV_TRANSPOSE || kind == XT_NODE_CONV_BY;
}

/* All convolutions have the fields of one. */
static bool has_field(enum xt_node_kind kind, const struct field *field)
{
    return field->kind == kind || (field->kind == XT_NODE_CONV && is_conv(kind));
}

/* Axes are of enum type, as long as an int. */
_Static_assert(sizeof(enum xt_axis) == sizeof(int), "axes are read as int");

static const char *const activations[XT_ACT_COUNT] = {
    [XT_ACT_RELU] = "relu",
    [XT_ACT_CLIP] = "clip",
    [XT_ACT_LEAKY_RELU] = "leaky_relu",
    [XT_ACT_ELU] = "elu",
    [XT_ACT_SIGMOID] = "sigmoid",
    [XT_ACT_SILU] = "silu",
    [XT_ACT_HARD_SIGMOID] = "hard_sigmoid",
    [XT_ACT_HARD_SWISH] = "hard_swish",
    [XT_ACT_GELU] = "gelu",
    [XT_ACT_GELU_TANH] = "gelu_tanh",
    [XT_ACT_TANH] = "tanh",
    [XT_ACT_SOFTPLUS] = "softplus",
    [XT_ACT_MISH] = "mish",
    [XT_ACT_POWER] = "power",
    [XT_ACT_EXP] = "exp",
    [XT_ACT_LOG] = "log",
    [XT_ACT_LINEAR] = "linear",
};

static const char *const recurrences[XT_RECURRENCES] = {
    [XT_LSTM] = "lstm",
    [XT_GRU] = "gru",
    [XT_RNN_TANH] = "rnn_tanh",
    [XT_RNN_RELU] = "rnn_relu",
};

/* A pool over the whole image stays global at any image size. */
static bool is_global(const struct xt_node *node)
{
    bool is_pool = node->kind == XT_NODE_MAX_POOL || node->kind == XT_NODE_AVG_POOL;
    return is_pool && node->as.pool.kernel[0] == node->inputs[0]->h &&
           node->as.pool.kernel[1] == node->inputs[0]->w && node->output->h == 1 &&
           node->output->w == 1;
}

/* ---- printing ---- */

static double read_real(const char *at, size_t size)
{
    float narrow = 0;
    double number = 0;
    memcpy(size == sizeof narrow ? (void *)&narrow : &number, at, size);
    return size == sizeof narrow ? (double)narrow : number;
}

static void print_field(struct xt_str *out, const struct xt_node *node, const struct field *field)
{
    const char *at = (const char *)node + field->at;
    xt_str_printf(out, NULL, "\t%s=", field->key);
    for (int i = 0; i < field->count; i++) {
        const char *comma = i ? "," : "";
        if (field->type == REAL)
            xt_str_printf(out, NULL, "%s%.17g", comma, read_real(at, field->size));
        else
            xt_str_printf(out, NULL, "%s%d", comma,
                          field->type == INT ? ((const int *)at)[i] : ((const bool *)at)[i]);
    }
}

static void print_map(struct xt_str *out, const struct xt_axis_map *map)
{
    xt_str_printf(out, NULL, "\tof=%s\tplace=%s\trounding=%s", xt_axis_map_kinds[map->kind],
                  xt_resize_places[map->place], xt_resize_roundings[map->rounding]);
    if (map->antialias)
        xt_str_printf(out, NULL, "\tantialias=1");
    for (int i = 0; map->kind == XT_MAP_PICK && i < map->picked_count; i++)
        xt_str_printf(out, NULL, "%s%d", i ? "," : "\tpicked=", map->picked[i]);
}

/* The fields that are not in the table. */
static void print_more(const struct xt_net *net, struct xt_str *out, const struct xt_node *node)
{
    static const char *const keys[] = {"weight", "bias_name"};
    bool named = is_conv(node->kind) || node->kind == XT_NODE_LINEAR;
    for (int i = 0; named && i < 2; i++)
        if (xt_node_param(net, node, i))
            xt_str_printf(out, NULL, "\t%s=%s", keys[i], xt_node_param(net, node, i)->name);
    if (node->kind == XT_NODE_ACTIVATION)
        xt_str_printf(out, NULL, "\tof=%s", activations[node->as.activation.kind]);
    if (node->kind == XT_NODE_RECURRENCE)
        xt_str_printf(out, NULL, "\tof=%s", recurrences[node->as.recurrence.kind]);
    if (node->kind == XT_NODE_RESHAPE || node->kind == XT_NODE_INPUT ||
        node->kind == XT_NODE_PARAMETER || node->kind == XT_NODE_CONSTANT)
        xt_str_printf(out, NULL, "\th=%d\tw=%d\tc=%d", node->output->h, node->output->w,
                      node->output->c);
    for (size_t i = 0; node->kind == XT_NODE_CONSTANT && i < node->as.constant.count; i++)
        xt_str_printf(out, NULL, "%s%.9g",
                      i ? "," : "\tnumbers=", (double)node->as.constant.numbers[i]);
    if (node->kind == XT_NODE_AXIS_MAP)
        print_map(out, &node->as.axis_map.map);
    if (is_global(node))
        xt_str_printf(out, NULL, "\tglobal=1");
    if (node->kind == XT_NODE_LINEAR && node->as.linear.in_first)
        xt_str_printf(out, NULL, "\tin_first=1");
    bool is_norm = node->kind == XT_NODE_LAYER_NORM || node->kind == XT_NODE_BATCH_NORM;
    if (is_norm && node->as.norm.unscaled)
        xt_str_printf(out, NULL, "\tunscaled=1");
    const struct xt_net_param *own =
        node->kind == XT_NODE_PARAMETER ? xt_node_param(net, node, XT_NODE_WEIGHT) : NULL;
    for (int i = 0; own && i < own->ndims; i++)
        xt_str_printf(out, NULL, "%s%d", i ? "," : "\tdims=", own->dims[i]);
}

static void print_node(const struct xt_net *net, struct xt_str *out, const struct xt_node *node)
{
    xt_str_printf(out, NULL, "%s\t", xt_node_kind_name(node->kind));
    for (int i = 0; i < node->input_count; i++)
        xt_str_printf(out, NULL, "%s%d", i ? "," : "", node->inputs[i]->of->index);
    xt_str_printf(out, NULL, "\t%s", node->name);
    for (int i = 0; i < FIELDS; i++)
        if (has_field(node->kind, &fields[i]))
            print_field(out, node, &fields[i]);
    print_more(net, out, node);
    xt_str_printf(out, NULL, "\n");
}

enum xt_status xt_net_print(const struct xt_net *net, struct xt_str *out, struct xt_err *err)
{
    xt_str_printf(out, NULL, "%s", first_line);
    for (size_t i = 0; i < net->node_count; i++)
        print_node(net, out, net->nodes[i]);
    enum xt_status status = xt_str_printf(out, err, "output\t%d\n", net->output->of->index);
    size_t numbers = 0;
    for (size_t i = 0; i < net->node_count; i++)
        numbers += net->nodes[i]->kind == XT_NODE_CONSTANT ? net->nodes[i]->as.constant.count : 0;
    if (!status && out->length > XT_NET_TEXT_MAX)
        status =
            xt_err_set(err, XT_ERR_USAGE,
                       "the network takes %zu bytes as text, and weights can store at most %d: "
                       "it has %zu nodes, and constants of %zu numbers, which a parameter of "
                       "the network (nn.Parameter) could hold instead",
                       out->length, XT_NET_TEXT_MAX, net->node_count, numbers);
    return status;
}

/* ---- parsing ---- */

enum { INPUTS_MAX = 256, WORDS_MAX = 24 };

/* A line, cut at its tabs. */
struct line {
    char *words[WORDS_MAX];
    int count;
    struct xt_node node; /* from its fields */
    struct xt_value *inputs[INPUTS_MAX];
    int input_count;
    struct xt_value **before; /* what the lines before it gave: not always a node of its own */
    size_t before_count, before_capacity;
};

static const char *word_of(const struct line *line, const char *key)
{
    size_t length = strlen(key);
    for (int i = 3; i < line->count; i++)
        if (strncmp(line->words[i], key, length) == 0 && line->words[i][length] == '=')
            return line->words[i] + length + 1;
    return NULL;
}

/* Parses integers separated by commas; returns their number, -1 for anything else. */
static int read_ints(const char *text, int out[], int most)
{
    int count = 0;
    for (; text && *text; count++) {
        char *end = NULL;
        errno = 0;
        long number = strtol(text, &end, 10);
        if (count == most || end == text || errno || number < -1 || number > INT_MAX ||
            (*end && *end != ','))
            return -1;
        out[count] = (int)number;
        text = *end ? end + 1 : end;
    }
    return count;
}

static bool read_field(struct line *line, const struct field *field)
{
    const char *text = word_of(line, field->key);
    char *at = (char *)&line->node + field->at;
    int numbers[4];
    char *end = NULL;
    if (!text)
        return false;
    if (field->type == REAL) {
        double number = strtod(text, &end);
        float narrow = (float)number;
        memcpy(at, field->size == sizeof narrow ? (void *)&narrow : &number, field->size);
        return end != text && !*end && isfinite(narrow);
    }
    if (read_ints(text, numbers, field->count) != field->count)
        return false;
    if (field->type == BOOL)
        *(bool *)at = numbers[0] != 0;
    else
        memcpy(at, numbers, (size_t)field->count * sizeof *numbers);
    return true;
}

static bool read_axes(const struct line *line)
{
    const struct xt_node *node = &line->node;
    if (node->kind == XT_NODE_CONCAT)
        return (int)node->as.axis >= 0 && node->as.axis < XT_AXES;
    if (node->kind == XT_NODE_SLICE)
        return (int)node->as.slice.axis >= 0 && node->as.slice.axis < XT_AXES;
    if (node->kind == XT_NODE_AXIS_MAP)
        return (int)node->as.axis_map.axis >= 0 && node->as.axis_map.axis < XT_AXES;
    for (int i = 0; node->kind == XT_NODE_TRANSPOSE && i < XT_AXES; i++)
        if ((int)node->as.transpose.from[i] < 0 || node->as.transpose.from[i] >= XT_AXES)
            return false;
    return true;
}

/* Which of the words the key has; -1: none. */
static int read_word(const struct line *line, const char *key, const char *const words[], int count)
{
    const char *word = word_of(line, key);
    for (int i = 0; word && i < count; i++)
        if (strcmp(word, words[i]) == 0)
            return i;
    return -1;
}

static bool read_activation(struct line *line)
{
    int of = read_word(line, "of", activations, XT_ACT_COUNT);
    line->node.as.activation.kind = (enum xt_activation_kind)of;
    return of >= 0;
}

static int side_of(const struct line *line, const char *key)
{
    int number = 0;
    return read_ints(word_of(line, key), &number, 1) == 1 ? number : 0;
}

/* ---- building ---- */

static struct xt_value *build_parameter(struct xt_net *net, struct line *line)
{
    const char *dims = word_of(line, "dims");
    struct xt_net_parameter spec = {.name = line->node.name,
                                    .h = side_of(line, "h"),
                                    .w = side_of(line, "w"),
                                    .c = side_of(line, "c"),
                                    .init = {XT_INIT_NORMAL, 0.02f}};
    spec.ndims = dims ? read_ints(dims, spec.dims, 4) : 0;
    return spec.ndims < 0 ? NULL : xt_net_parameter(net, &spec);
}

/* Parses finite numbers separated by commas; returns whether they are `count`. */
static bool read_numbers(const char *text, float out[], size_t count)
{
    for (size_t i = 0; i < count; i++) {
        char *end = NULL;
        out[i] = strtof(text, &end);
        if (end == text || !isfinite(out[i]) || *end != (i + 1 < count ? ',' : 0))
            return false;
        text = end + 1;
    }
    return true;
}

static struct xt_value *build_constant(struct xt_net *net, const struct line *line)
{
    const char *text = word_of(line, "numbers");
    struct xt_net_constant spec = {.name = line->node.name,
                                   .h = side_of(line, "h"),
                                   .w = side_of(line, "w"),
                                   .c = side_of(line, "c"),
                                   .count = 1};
    struct xt_value *value = NULL;
    float *numbers = NULL;
    for (const char *at = text; at && *at; at++)
        spec.count += *at == ',';
    if (!text || xt_mem_calloc(&numbers, spec.count, sizeof *numbers, spec.name, &net->err))
        return NULL;
    spec.numbers = numbers;
    if (read_numbers(text, numbers, spec.count))
        value = xt_net_constant(net, &spec);
    free(numbers);
    return value;
}

static struct xt_value *build_input(struct xt_net *net, const struct line *line,
                                    const struct xt_net_text_options *options)
{
    return xt_net_input(net, options->height ? options->height : side_of(line, "h"),
                        options->width ? options->width : side_of(line, "w"), side_of(line, "c"));
}

static struct xt_value *build_pool(struct xt_net *net, struct line *line)
{
    struct xt_value *in = line->inputs[0];
    struct xt_net_pool *pool = &line->node.as.pool;
    bool is_max = line->node.kind == XT_NODE_MAX_POOL;
    pool->name = line->node.name;
    if (word_of(line, "global"))
        return is_max ? xt_net_global_max_pool(net, in, pool->name)
                      : xt_net_global_avg_pool(net, in, pool->name);
    return is_max ? xt_net_max_pool(net, in, pool) : xt_net_avg_pool(net, in, pool);
}

/* As many as there may be elements in an axis, which the net checks. */
static struct xt_value *build_picks(struct xt_net *net, struct line *line)
{
    struct xt_axis_map *map = &line->node.as.axis_map.map;
    const char *text = word_of(line, "picked");
    size_t most = text ? strlen(text) : 0;
    int *picked = NULL;
    struct xt_value *out = NULL;
    if (most == 0 || xt_mem_calloc(&picked, most, sizeof *picked, "a network", &net->err))
        return NULL;
    map->picked_count = read_ints(text, picked, (int)most);
    map->picked = picked;
    if (map->picked_count > 0)
        out = xt_net_axis_map(net, line->inputs[0], &line->node.as.axis_map);
    free(picked);
    return out;
}

static struct xt_value *build_map(struct xt_net *net, struct line *line)
{
    struct xt_net_axis_map *spec = &line->node.as.axis_map;
    int kind = read_word(line, "of", xt_axis_map_kinds, XT_MAP_KINDS);
    int place = read_word(line, "place", xt_resize_places, XT_PLACES);
    int rounding = read_word(line, "rounding", xt_resize_roundings, XT_ROUNDINGS);
    if (kind < 0 || place < 0 || rounding < 0)
        return NULL;
    spec->name = line->node.name;
    spec->map.kind = (enum xt_axis_map_kind)kind;
    spec->map.place = (enum xt_resize_place)place;
    spec->map.rounding = (enum xt_resize_rounding)rounding;
    spec->map.antialias = word_of(line, "antialias") != NULL;
    return kind == XT_MAP_PICK ? build_picks(net, line)
                               : xt_net_axis_map(net, line->inputs[0], spec);
}

static bool is_a_head(const struct xt_class_layer *layers, const char *name)
{
    for (const struct xt_class_layer *layer = layers; layer && layer->name; layer++)
        if (layer->is_head && strcmp(layer->name, name) == 0)
            return true;
    return false;
}

static struct xt_value *build_layer(struct xt_net *net, struct line *line,
                                    const struct xt_net_text_options *options)
{
    struct xt_node *node = &line->node;
    bool is_head = options->classes && is_a_head(options->layers, node->name);
    if (node->kind == XT_NODE_LINEAR) {
        struct xt_net_linear *linear = &node->as.linear;
        linear->name = node->name;
        linear->weight = word_of(line, "weight");
        linear->bias_name = word_of(line, "bias_name");
        linear->in_first = word_of(line, "in_first") != NULL;
        linear->channels = is_head ? options->classes : linear->channels;
        return xt_net_linear(net, line->inputs[0], linear);
    }
    struct xt_net_conv *conv = &node->as.conv;
    conv->name = node->name;
    conv->weight = word_of(line, "weight");
    conv->bias_name = word_of(line, "bias_name");
    if (node->kind == XT_NODE_CONV_BY)
        return xt_net_conv_by(net, line->inputs[0], line->inputs[1], conv);
    conv->channels = is_head ? options->classes : conv->channels;
    return node->kind == XT_NODE_CONV ? xt_net_conv(net, line->inputs[0], conv)
                                      : xt_net_conv_transpose(net, line->inputs[0], conv);
}

static struct xt_value *build_recurrence(struct xt_net *net, struct line *line)
{
    struct xt_net_recurrence *recurrence = &line->node.as.recurrence;
    int of = read_word(line, "of", recurrences, XT_RECURRENCES);
    recurrence->kind = (enum xt_recurrence)of;
    recurrence->name = line->node.name;
    return of < 0 ? NULL
                  : xt_net_recurrence(net, line->inputs[0], line->inputs[1],
                                      line->input_count > 2 ? line->inputs[2] : NULL, recurrence);
}

static struct xt_value *build_other(struct xt_net *net, struct line *line)
{
    struct xt_node *node = &line->node;
    struct xt_value *const *in = line->inputs;
    const char *name = node->name;
    struct xt_net_reshape shape = {side_of(line, "h"), side_of(line, "w"), side_of(line, "c")};
    switch (node->kind) {
    case XT_NODE_ADD:
        return xt_net_add(net, in[0], in[1], name);
    case XT_NODE_MUL:
        return xt_net_mul(net, in[0], in[1], name);
    case XT_NODE_CONCAT:
        return xt_net_concat(net, in, line->input_count, node->as.axis, name);
    case XT_NODE_SLICE:
        node->as.slice.name = name;
        return xt_net_slice(net, in[0], &node->as.slice);
    case XT_NODE_CHANNEL_SHUFFLE:
        return xt_net_channel_shuffle(net, in[0], node->as.shuffle_groups, name);
    case XT_NODE_DROPOUT:
        node->as.dropout.name = name;
        return xt_net_dropout(net, in[0], &node->as.dropout);
    case XT_NODE_DROP_PATH:
        node->as.dropout.name = name;
        return xt_net_drop_path(net, in[0], &node->as.dropout);
    case XT_NODE_DROP_CHANNELS:
        node->as.dropout.name = name;
        return xt_net_drop_channels(net, in[0], &node->as.dropout);
    case XT_NODE_MATMUL:
        node->as.matmul.name = name;
        return xt_net_matmul(net, in[0], in[1], &node->as.matmul);
    case XT_NODE_SOFTMAX:
        return xt_net_softmax(net, in[0], name);
    case XT_NODE_CHANNEL_MEAN:
        return xt_net_channel_mean(net, in[0], name);
    case XT_NODE_TRANSPOSE:
        return xt_net_transpose(net, in[0], node->as.transpose.from, name);
    case XT_NODE_RESHAPE:
        return xt_net_reshape(net, in[0], &shape, name);
    case XT_NODE_AXIS_MAP:
        return build_map(net, line);
    case XT_NODE_GRID_SAMPLE:
        node->as.grid_sample.name = name;
        return xt_net_grid_sample(net, in[0], in[1], &node->as.grid_sample);
    case XT_NODE_RECURRENCE:
        return build_recurrence(net, line);
    default:
        return NULL;
    }
}

static struct xt_value *build(struct xt_net *net, struct line *line,
                              const struct xt_net_text_options *options)
{
    struct xt_node *node = &line->node;
    switch (node->kind) {
    case XT_NODE_INPUT:
        return build_input(net, line, options);
    case XT_NODE_PARAMETER:
        return build_parameter(net, line);
    case XT_NODE_CONSTANT:
        return build_constant(net, line);
    case XT_NODE_CONV:
    case XT_NODE_CONV_TRANSPOSE:
    case XT_NODE_CONV_BY:
    case XT_NODE_LINEAR:
        return build_layer(net, line, options);
    case XT_NODE_BATCH_NORM:
    case XT_NODE_LAYER_NORM:
        node->as.norm.name = node->name;
        node->as.norm.unscaled = word_of(line, "unscaled") != NULL;
        return node->kind == XT_NODE_BATCH_NORM
                   ? xt_net_batch_norm(net, line->inputs[0], &node->as.norm)
                   : xt_net_layer_norm(net, line->inputs[0], &node->as.norm);
    case XT_NODE_ACTIVATION:
        return read_activation(line)
                   ? xt_net_activation(net, line->inputs[0], node->as.activation, node->name)
                   : NULL;
    case XT_NODE_MAX_POOL:
    case XT_NODE_AVG_POOL:
        return build_pool(net, line);
    default:
        return build_other(net, line);
    }
}

/* ---- lines ---- */

static bool reads_as_many(enum xt_node_kind kind, int count)
{
    if (kind == XT_NODE_CONCAT)
        return count > 0;
    if (kind == XT_NODE_RECURRENCE)
        return count == 2 || count == 3;
    if (kind == XT_NODE_INPUT || kind == XT_NODE_PARAMETER || kind == XT_NODE_CONSTANT)
        return count == 0;
    bool of_two = kind == XT_NODE_ADD || kind == XT_NODE_MUL || kind == XT_NODE_MATMUL ||
                  kind == XT_NODE_CONV_BY || kind == XT_NODE_GRID_SAMPLE;
    return count == (of_two ? 2 : 1);
}

static bool read_inputs(struct line *line, const char *text)
{
    int numbers[INPUTS_MAX];
    line->input_count = read_ints(text, numbers, INPUTS_MAX);
    for (int i = 0; i < line->input_count; i++) {
        if (numbers[i] < 0 || (size_t)numbers[i] >= line->before_count)
            return false;
        line->inputs[i] = line->before[numbers[i]];
    }
    return reads_as_many(line->node.kind, line->input_count);
}

/* Kind, inputs, name and fields. */
static bool read_line(struct line *line)
{
    int kind = 0;
    while (kind < XT_NODE_KINDS &&
           strcmp(line->words[0], xt_node_kind_name((enum xt_node_kind)kind)) != 0)
        kind++;
    line->node = (struct xt_node){.kind = (enum xt_node_kind)kind};
    if (line->count < 3 || kind == XT_NODE_KINDS || strlen(line->words[2]) >= XT_NODE_NAME_MAX ||
        !read_inputs(line, line->words[1]))
        return false;
    memcpy(line->node.name, line->words[2], strlen(line->words[2]) + 1);
    for (int i = 0; i < FIELDS; i++)
        if (has_field(line->node.kind, &fields[i]) && !read_field(line, &fields[i]))
            return false;
    return read_axes(line);
}

static void cut(struct line *line, char *text)
{
    line->count = 0;
    while (text && line->count < WORDS_MAX)
        line->words[line->count++] = strsep(&text, "\t");
}

static struct xt_value *parse_lines(struct xt_net *net, char *text, struct line *line,
                                    const struct xt_net_text_options *options)
{
    int output = -1;
    for (int number = 2; text && *text; number++) {
        cut(line, strsep(&text, "\n"));
        if (line->count == 2 && strcmp(line->words[0], "output") == 0 &&
            read_ints(line->words[1], &output, 1) == 1 && output >= 0 &&
            (size_t)output < line->before_count)
            return line->before[output];
        struct xt_value *value = read_line(line) ? build(net, line, options) : NULL;
        if (!value)
            return xt_net_refuse(net, XT_ERR_DATA,
                                 "line %d of the network's description cannot be read", number);
        if (xt_mem_grow(&line->before, &line->before_capacity, line->before_count + 1,
                        sizeof(struct xt_value *), "a network's description", &net->err))
            return NULL;
        line->before[line->before_count++] = value;
    }
    return xt_net_refuse(net, XT_ERR_DATA, "the network's description ends before its output");
}

struct xt_value *xt_net_parse(struct xt_net *net, const char *text,
                              const struct xt_net_text_options *options)
{
    char *copy = NULL;
    struct line *line = NULL;
    struct xt_value *output = NULL;
    if (!xt_str_starts(text, first_line) || strlen(text) > XT_NET_TEXT_MAX)
        return xt_net_refuse(
            net, XT_ERR_DATA,
            "the network's description is not in a format that this xtrain can read");
    if (!xt_mem_strdup(&copy, text + strlen(first_line), &net->err) &&
        !xt_mem_calloc(&line, 1, sizeof *line, "a network's description", &net->err))
        output = parse_lines(net, copy, line, options);
    if (line)
        free(line->before);
    free(line);
    free(copy);
    return output;
}
