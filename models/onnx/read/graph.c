/* An ONNX graph's nodes, joined by the names of their values, and what is said of them. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/onnx/read/reader.h"

enum {
    OPSET_LEAST = 7,
    OPSET_MOST = 25,
    NAME_MAX_BYTES = 1024,
    NODE_VALUES_MAX = 4096,
    BRANCHES_MAX = 8, /* within each other */
};

static const char *const branches[] = {"then_branch", "else_branch"};

bool xt_reader_fails(const struct xt_reader *reader)
{
    return reader->err.status != XT_OK;
}

void *xt_reader_refuse(struct xt_reader *reader, const struct xt_read_node *node,
                       const char *format, ...)
{
    char text[768];
    va_list args;
    if (xt_reader_fails(reader))
        return NULL;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (!node) {
        xt_err_set(&reader->err, XT_ERR_DATA, "%s", text);
        return NULL;
    }
    const char *name = node->proto->name && *node->proto->name  ? node->proto->name
                       : node->output_count && node->outputs[0] ? node->outputs[0]->name
                                                                : "without a name";
    xt_err_set(&reader->err, XT_ERR_DATA, "the node %s (%s) %s",
               xt_str_quote(name, strlen(name)).text, node->proto->op_type, text);
    return NULL;
}

void *xt_reader_take(struct xt_reader *reader, size_t count, size_t size)
{
    void *out = NULL;
    if (!xt_reader_fails(reader))
        xt_weight_store_alloc(&reader->store, &out, count, size, "the ONNX model", &reader->err);
    return out;
}

/* ---- attributes ---- */

bool xt_read_is(const struct xt_read_node *node, const char *op)
{
    return node && strcmp(node->op, op) == 0;
}

struct xt_read_value *xt_read_input(const struct xt_read_node *node, int i)
{
    return i < node->input_count ? node->inputs[i] : NULL;
}

const Onnx__AttributeProto *xt_read_attribute(const struct xt_read_node *node, const char *name)
{
    for (size_t i = 0; i < node->proto->n_attribute; i++) {
        const Onnx__AttributeProto *attribute = node->proto->attribute[i];
        if (attribute->name && strcmp(attribute->name, name) == 0)
            return attribute;
    }
    return NULL;
}

int64_t xt_read_int(const struct xt_read_node *node, const char *name, int64_t otherwise)
{
    const Onnx__AttributeProto *attribute = xt_read_attribute(node, name);
    return attribute && attribute->has_i ? attribute->i : otherwise;
}

double xt_read_float(const struct xt_read_node *node, const char *name, double otherwise)
{
    const Onnx__AttributeProto *attribute = xt_read_attribute(node, name);
    char decimal[32];
    if (!attribute || !attribute->has_f)
        return otherwise;
    /* The decimal number that was meant: 1e-05, not 9.99999975e-06. */
    snprintf(decimal, sizeof decimal, "%.7g", (double)attribute->f);
    return strtod(decimal, NULL);
}

struct xt_read_text xt_read_string(const struct xt_read_node *node, const char *name)
{
    struct xt_read_text out = {""};
    const Onnx__AttributeProto *attribute = xt_read_attribute(node, name);
    if (attribute && attribute->has_s)
        snprintf(out.text, sizeof out.text, "%.*s",
                 (int)(attribute->s.len < sizeof out.text ? attribute->s.len : sizeof out.text),
                 (const char *)attribute->s.data);
    return out;
}

int xt_read_ints(struct xt_reader *reader, const struct xt_read_node *node, const char *attribute,
                 int input, int64_t out[XT_READ_DIMS_MAX])
{
    return xt_read_int_list(reader, node, attribute, input, out, XT_READ_DIMS_MAX);
}

int xt_read_int_list(struct xt_reader *reader, const struct xt_read_node *node,
                     const char *attribute, int input, int64_t *out, size_t most)
{
    const Onnx__AttributeProto *list = xt_read_attribute(node, attribute);
    struct xt_read_value *value = input < 0 ? NULL : xt_read_input(node, input);
    if (list && list->n_ints <= most) {
        for (size_t i = 0; i < list->n_ints; i++)
            out[i] = list->ints[i];
        return (int)list->n_ints;
    }
    if (list || !value)
        return list ? -2 : -1;
    struct xt_read_constant *constant = xt_read_constant_of(reader, value);
    const double *numbers =
        constant && constant->count <= most ? xt_read_numbers(reader, constant) : NULL;
    if (!numbers)
        return -2;
    for (size_t i = 0; i < constant->count; i++)
        out[i] = xt_read_whole(numbers[i]);
    return (int)constant->count;
}

/* ---- names ---- */

static int compare(const void *a, const void *b)
{
    return strcmp((*(struct xt_read_value *const *)a)->name,
                  (*(struct xt_read_value *const *)b)->name);
}

/* Among the first `count` by name. */
static struct xt_read_value *find(const struct xt_reader *reader, size_t count, const char *name)
{
    const struct xt_read_value wanted = {.name = name};
    const struct xt_read_value *key = &wanted;
    if (!count)
        return NULL;
    struct xt_read_value **found =
        bsearch(&key, reader->by_name, count, sizeof *reader->by_name, compare);
    return found ? *found : NULL;
}

struct xt_read_value *xt_read_named(const struct xt_reader *reader, const char *name)
{
    return find(reader, reader->value_count, name);
}

static int compare_start(const void *start, const void *value)
{
    return strncmp(start, (*(struct xt_read_value *const *)value)->name, strlen(start));
}

bool xt_read_begins_with(const struct xt_reader *reader, const char *start)
{
    return bsearch(start, reader->by_name, reader->value_count, sizeof *reader->by_name,
                   compare_start) != NULL;
}

static struct xt_read_value *add_value(struct xt_reader *reader, const char *name)
{
    if (!name || strlen(name) > NAME_MAX_BYTES)
        return xt_reader_refuse(reader, NULL,
                                "a value of it has no name, or one of more than %d bytes",
                                NAME_MAX_BYTES);
    struct xt_read_value *value = reader->by_name[reader->value_count++];
    value->name = name;
    return value;
}

/* Room for all values: of initializers, inputs, and what nodes give. */
static bool take_values(struct xt_reader *reader)
{
    const Onnx__GraphProto *graph = reader->file.model->graph;
    size_t count = graph->n_initializer + graph->n_input;
    for (size_t i = 0; i < reader->node_count; i++)
        count += reader->nodes[i].proto->n_output;
    if (count > XT_READ_VALUES_MAX)
        return xt_reader_refuse(reader, NULL, "it has %zu values; the limit is %d", count,
                                XT_READ_VALUES_MAX);
    struct xt_read_value *values = xt_reader_take(reader, count + 1, sizeof *values);
    reader->by_name = xt_reader_take(reader, count + 1, sizeof *reader->by_name);
    for (size_t i = 0; i < count && values && reader->by_name; i++)
        reader->by_name[i] = &values[i];
    return values && reader->by_name;
}

static bool sort(struct xt_reader *reader)
{
    size_t count = reader->value_count;
    if (!count)
        return true;
    qsort(reader->by_name, count, sizeof *reader->by_name, compare);
    for (size_t i = 1; i < count; i++)
        if (compare(&reader->by_name[i - 1], &reader->by_name[i]) == 0)
            return xt_reader_refuse(
                reader, NULL, "two values of it are called \"%s\"",
                xt_str_quote(reader->by_name[i]->name, strlen(reader->by_name[i]->name)).text);
    return true;
}

bool xt_reader_add(struct xt_reader *reader, struct xt_read_value *const values[], size_t count)
{
    size_t all = reader->value_count + count;
    struct xt_read_value **by_name = xt_reader_take(reader, all + 1, sizeof *by_name);
    if (!by_name)
        return false;
    memcpy(by_name, reader->by_name, reader->value_count * sizeof *by_name);
    if (count)
        memcpy(by_name + reader->value_count, values, count * sizeof *by_name);
    reader->by_name = by_name;
    reader->value_count = all;
    return sort(reader);
}

/* ---- inputs ---- */

static int64_t fixed(const Onnx__TensorShapeProto__Dimension *dim)
{
    return dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE ? dim->dim_value
                                                                                   : 0;
}

static int64_t or_open(const Onnx__TensorShapeProto__Dimension *dim, int64_t otherwise)
{
    int64_t length = fixed(dim);
    return length ? length : otherwise;
}

/* Red, green and blue, or grey. */
static bool is_colours(int64_t channels)
{
    return channels == 3 || channels == 1;
}

static bool read_input_shape(struct xt_reader *reader, const Onnx__ValueInfoProto *info)
{
    enum { SIDE_MAX = 16384 };
    const Onnx__TypeProto__Tensor *tensor =
        info->type && info->type->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE
            ? info->type->tensor_type
            : NULL;
    if (!tensor || !tensor->shape || tensor->shape->n_dim != 4)
        return xt_reader_refuse(reader, NULL,
                                "its input is no batch of images, [n][3][height][width] or "
                                "[n][height][width][3]");
    if (tensor->elem_type != ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT)
        return xt_reader_refuse(reader, NULL,
                                "its input is not of float32: export the network itself, without "
                                "the conversion from bytes, and without .half()");
    Onnx__TensorShapeProto__Dimension *const *dims = tensor->shape->dim;
    bool last = !is_colours(fixed(dims[1])) && is_colours(fixed(dims[3]));
    int64_t h = or_open(dims[last ? 1 : 2], reader->side);
    int64_t w = or_open(dims[last ? 2 : 3], reader->side);
    int64_t c = or_open(dims[last ? 3 : 1], 3);
    reader->fixed_batch = fixed(dims[0]);
    if (h <= 0 || w <= 0)
        return xt_reader_refuse(reader, NULL,
                                "the size of its images is open: give it, --image-size 224");
    if (!is_colours(c))
        return xt_reader_refuse(reader, NULL,
                                "it reads images of %lld channels; 3 (red, green and blue) or 1 "
                                "(grey) are supported",
                                (long long)c);
    if (h > SIDE_MAX || w > SIDE_MAX)
        return xt_reader_refuse(reader, NULL, "it reads images of %lldx%lld, above the limit of %d",
                                (long long)w, (long long)h, SIDE_MAX);
    reader->height = (int)h;
    reader->width = (int)w;
    reader->colours = (int)c;
    reader->colours_last = last;
    return true;
}

/* Exporters leave inputs that no node reads any more. */
static bool is_read(const struct xt_reader *reader, const char *name)
{
    for (size_t i = 0; name && i < reader->node_count; i++) {
        const Onnx__NodeProto *node = reader->nodes[i].proto;
        for (size_t k = 0; k < node->n_input; k++)
            if (node->input[k] && strcmp(node->input[k], name) == 0)
                return true;
    }
    return false;
}

static bool add_inputs(struct xt_reader *reader)
{
    enum { INPUTS_MAX = 64 }; /* besides initializers: each is looked for among all nodes */
    const Onnx__GraphProto *graph = reader->file.model->graph;
    int others = 0;
    const Onnx__ValueInfoProto *input = NULL;
    const size_t initializers = reader->value_count; /* which older files list as inputs too */
    for (size_t i = 0; i < graph->n_input; i++) {
        if (graph->input[i]->name && find(reader, initializers, graph->input[i]->name))
            continue;
        if (++others > INPUTS_MAX)
            return xt_reader_refuse(reader, NULL, "it has more than %d inputs", INPUTS_MAX);
        if (input && !is_read(reader, graph->input[i]->name))
            continue;
        if (input)
            return xt_reader_refuse(reader, NULL, "it has several inputs; one is supported");
        input = graph->input[i];
        reader->input = add_value(reader, input->name);
        if (!reader->input)
            return false;
        reader->input->is_input = true;
    }
    return input ? read_input_shape(reader, input)
                 : xt_reader_refuse(reader, NULL, "it has no input") != NULL;
}

/* ---- nodes ---- */

static bool check_opset(struct xt_reader *reader)
{
    const Onnx__ModelProto *model = reader->file.model;
    for (size_t i = 0; i < model->n_opset_import; i++) {
        const char *domain = model->opset_import[i]->domain;
        if (!domain || !*domain || strcmp(domain, "ai.onnx") == 0)
            reader->opset = model->opset_import[i]->version;
    }
    return (reader->opset >= OPSET_LEAST && reader->opset <= OPSET_MOST) ||
           xt_reader_refuse(reader, NULL,
                            "it is written in opset %lld, %d to %d are supported: export it with "
                            "opset_version=17",
                            (long long)reader->opset, OPSET_LEAST, OPSET_MOST);
}

static bool check_node(struct xt_reader *reader, const struct xt_read_node *node)
{
    const Onnx__NodeProto *proto = node->proto;
    /* A name in brackets is a pattern's (patterns.c). */
    if (!proto->op_type || !*proto->op_type || *proto->op_type == '(' ||
        strlen(proto->op_type) > 64)
        return xt_reader_refuse(reader, NULL, "one of its nodes has no operator");
    if (proto->domain && *proto->domain && strcmp(proto->domain, "ai.onnx") != 0)
        return xt_reader_refuse(reader, node,
                                "is of the operators \"%s\", only ONNX's own are supported",
                                xt_str_quote(proto->domain, strlen(proto->domain)).text);
    for (size_t i = 0; i < proto->n_attribute && strcmp(proto->op_type, "If") != 0; i++)
        if (proto->attribute[i]->g || proto->attribute[i]->n_graphs)
            return xt_reader_refuse(reader, node,
                                    "is a loop, which cannot be trained here: export the network "
                                    "with its loops unrolled (torch.jit.trace; unroll=True of a "
                                    "layer of Keras)");
    if (proto->n_input > NODE_VALUES_MAX || proto->n_output > NODE_VALUES_MAX)
        return xt_reader_refuse(reader, node, "reads or gives more than %d values",
                                NODE_VALUES_MAX);
    return true;
}

static bool add_outputs(struct xt_reader *reader)
{
    for (size_t i = 0; i < reader->node_count; i++) {
        const Onnx__NodeProto *proto = reader->nodes[i].proto;
        for (size_t k = 0; k < proto->n_output; k++)
            if (proto->output[k] && *proto->output[k] && !add_value(reader, proto->output[k]))
                return false;
    }
    return true;
}

/* Input i is the value of that name, which is there already. */
static bool join_input(struct xt_reader *reader, struct xt_read_node *node, int i, const char *name)
{
    if (!name || !*name)
        return true;
    struct xt_read_value *value = xt_read_named(reader, name);
    if (!value || (!value->producer && !value->is_input && !value->initializer))
        return xt_reader_refuse(reader, node, "reads \"%s\", which no node before it gives",
                                xt_str_quote(name, strlen(name)).text);
    node->inputs[i] = value;
    value->readers++;
    return true;
}

/* Its inputs are there already, its outputs come to be. An If reads what its branches give too. */
static bool join(struct xt_reader *reader, struct xt_read_node *node)
{
    const Onnx__NodeProto *proto = node->proto;
    bool is_if = xt_read_is(node, "If");
    node->input_count = (int)proto->n_input + (is_if ? 2 : 0);
    node->output_count = (int)proto->n_output;
    node->inputs = xt_reader_take(reader, (size_t)node->input_count, sizeof *node->inputs);
    node->outputs = xt_reader_take(reader, proto->n_output, sizeof *node->outputs);
    if (!node->inputs || !node->outputs)
        return false;
    for (int i = 0; i < node->output_count; i++)
        if (proto->output[i] && *proto->output[i])
            node->outputs[i] = xt_read_named(reader, proto->output[i]);
    for (int i = 0; i < (int)proto->n_input; i++)
        if (!join_input(reader, node, i, proto->input[i]))
            return false;
    for (int i = 0; is_if && i < 2; i++)
        if (!join_input(reader, node, 1 + i,
                        xt_read_attribute(node, branches[i])->g->output[0]->name))
            return false;
    for (int i = 0; i < node->output_count; i++)
        if (node->outputs[i])
            node->outputs[i]->producer = node;
    return true;
}

/* ---- branches ---- */

/* The nodes of a graph: those of an If's branches, then itself. False after a failure. */
static bool count_nodes(struct xt_reader *reader, const Onnx__GraphProto *graph, int depth,
                        size_t *count)
{
    *count += graph->n_node;
    if (depth > BRANCHES_MAX || *count > XT_READ_NODES_MAX)
        return xt_reader_refuse(reader, NULL,
                                "it has more than %d nodes, or branches deeper than %d",
                                XT_READ_NODES_MAX, BRANCHES_MAX);
    for (size_t i = 0; i < graph->n_node; i++)
        for (size_t k = 0; k < graph->node[i]->n_attribute; k++) {
            const Onnx__GraphProto *branch = graph->node[i]->attribute[k]->g;
            if (branch && !count_nodes(reader, branch, depth + 1, count))
                return false;
        }
    return true;
}

/* One of the two graphs of an If; NULL, refused: not of one value by one condition. */
static const Onnx__GraphProto *branch_of(struct xt_reader *reader, const struct xt_read_node *node,
                                         int which)
{
    const Onnx__AttributeProto *attribute = xt_read_attribute(node, branches[which]);
    const Onnx__GraphProto *branch = attribute ? attribute->g : NULL;
    bool known = node->proto->n_input == 1 && node->proto->n_output == 1 && branch &&
                 branch->n_output == 1 && branch->output[0]->name && *branch->output[0]->name;
    if (!known)
        xt_reader_refuse(reader, node, "has not one condition and two branches of one value");
    else if (branch->n_initializer || branch->n_sparse_initializer || branch->n_input)
        xt_reader_refuse(reader, node, "has a branch with weights or inputs of its own");
    return xt_reader_fails(reader) ? NULL : branch;
}

static bool add_nodes(struct xt_reader *reader, const Onnx__GraphProto *graph)
{
    for (size_t i = 0; i < graph->n_node; i++) {
        struct xt_read_node own = {.proto = graph->node[i], .op = graph->node[i]->op_type};
        if (!check_node(reader, &own))
            return false;
        size_t ends[3] = {reader->node_count};
        for (int b = 0; b < 2 && xt_read_is(&own, "If"); b++) {
            const Onnx__GraphProto *branch = branch_of(reader, &own, b);
            if (!branch || !add_nodes(reader, branch))
                return false;
            ends[b + 1] = reader->node_count;
        }
        struct xt_read_node *node = &reader->nodes[reader->node_count++];
        *node = own;
        for (size_t k = ends[0]; k < ends[2]; k++)
            if (!reader->nodes[k].choice) {
                reader->nodes[k].choice = node;
                reader->nodes[k].in_then = k < ends[1];
            }
    }
    return true;
}

bool xt_read_is_taken(struct xt_reader *reader, const struct xt_read_node *node)
{
    for (; node->choice; node = node->choice) {
        double condition = 0;
        struct xt_read_value *value = xt_read_input(node->choice, 0);
        if (!value || !xt_read_number(reader, value, &condition) ||
            (condition != 0) != node->in_then)
            return false;
    }
    return true;
}

static bool add_initializers(struct xt_reader *reader)
{
    const Onnx__GraphProto *graph = reader->file.model->graph;
    if (graph->n_sparse_initializer)
        return xt_reader_refuse(reader, NULL, "it has sparse weights, which are not read");
    for (size_t i = 0; i < graph->n_initializer; i++) {
        struct xt_read_value *value = add_value(reader, graph->initializer[i]->name);
        if (!value)
            return false;
        value->initializer = graph->initializer[i];
    }
    return true;
}

static bool take_output(struct xt_reader *reader)
{
    const Onnx__GraphProto *graph = reader->file.model->graph;
    if (graph->n_output != 1)
        return xt_reader_refuse(reader, NULL,
                                "it has %zu outputs; only one is supported, the logits: export it "
                                "without the others (aux_logits=False)",
                                graph->n_output);
    const char *name = graph->output[0]->name;
    reader->output = name ? xt_read_named(reader, name) : NULL;
    return (reader->output && reader->output->producer) ||
           xt_reader_refuse(reader, NULL, "no node gives its output");
}

bool xt_reader_load(struct xt_reader *reader)
{
    const Onnx__GraphProto *graph = reader->file.model->graph;
    size_t count = 0;
    if (!check_opset(reader) || !count_nodes(reader, graph, 0, &count))
        return false;
    xt_read_find_producer(reader);
    reader->nodes = xt_reader_take(reader, count, sizeof *reader->nodes);
    if (!reader->nodes || !add_nodes(reader, graph) || !take_values(reader) ||
        !add_initializers(reader) || !sort(reader) || !add_inputs(reader) || !add_outputs(reader) ||
        !sort(reader))
        return false;
    for (size_t i = 0; i < reader->node_count; i++)
        if (!join(reader, &reader->nodes[i]))
            return false;
    return take_output(reader);
}
