/* Files of other exporters than PyTorch's, and those that PyTorch writes of Keras's networks: names
 * are no module's paths with dots there, and numbers of the network's code lie beside its weights.
 */
#include <stdio.h>
#include <string.h>

#include "models/onnx/read/reader.h"

static bool is_produced_by(const struct xt_reader *reader, const char *program)
{
    const char *producer = reader->file.model->producer_name;
    return producer && xt_str_starts(producer, program);
}

bool xt_read_is_own_export(const struct xt_reader *reader)
{
    return is_produced_by(reader, "xtrain");
}

/* What Keras calls its parameters where PyTorch runs it. */
static const char keras_prefix[] = "_torch_params.";

static bool is_of_keras(const Onnx__GraphProto *graph)
{
    for (size_t i = 0; i < graph->n_initializer; i++)
        if (graph->initializer[i]->name && xt_str_starts(graph->initializer[i]->name, keras_prefix))
            return true;
    return false;
}

/* Programs that change PyTorch's files may leave their own name, but keep those of the weights. */
static bool has_names_of_pytorch(const Onnx__GraphProto *graph)
{
    for (size_t i = 0; i < graph->n_initializer; i++)
        if (graph->initializer[i]->name && xt_str_ends(graph->initializer[i]->name, ".weight"))
            return true;
    return false;
}

/* ---- names ---- */

/* TensorFlow's names are paths, "conv2d/ReadVariableOp:0", which this program's exports keep for
 * constants: parameters get PyTorch's dots. A path that begins with / is an exporter's. */
static void tidy(char *name)
{
    size_t prefix = name && xt_str_starts(name, keras_prefix) ? strlen(keras_prefix) : 0;
    if (prefix)
        memmove(name, name + prefix, strlen(name) - prefix + 1);
    for (char *at = name; at && *at; at++)
        if (*at == ':' || (*at == '/' && at > name))
            *at = '.';
}

static void tidy_names(Onnx__GraphProto *graph)
{
    for (size_t i = 0; i < graph->n_initializer; i++)
        tidy(graph->initializer[i]->name);
    for (size_t i = 0; i < graph->n_input; i++)
        tidy(graph->input[i]->name);
    for (size_t i = 0; i < graph->n_output; i++)
        tidy(graph->output[i]->name);
    for (size_t i = 0; i < graph->n_node; i++) {
        Onnx__NodeProto *node = graph->node[i];
        for (size_t k = 0; k < node->n_input; k++)
            tidy(node->input[k]);
        for (size_t k = 0; k < node->n_output; k++)
            tidy(node->output[k]);
        for (size_t k = 0; k < node->n_attribute; k++)
            if (node->attribute[k]->g)
                tidy_names(node->attribute[k]->g);
    }
}

void xt_read_find_producer(struct xt_reader *reader)
{
    Onnx__GraphProto *graph = reader->file.model->graph;
    reader->is_foreign =
        is_of_keras(graph) || (!xt_read_is_own_export(reader) &&
                               !is_produced_by(reader, "pytorch") && !has_names_of_pytorch(graph));
    if (reader->is_foreign)
        tidy_names(graph);
}

/* What other exporters put behind a layer's name in that of its weights. */
static bool is_of_exporter(const char *word)
{
    static const char *const words[] = {"ReadVariableOp",
                                        "resource",
                                        "Cast",
                                        "merged_input",
                                        "convolution",
                                        "separable_conv2d",
                                        "depthwise",
                                        "conv_transpose",
                                        "Conv2D",
                                        "BiasAdd",
                                        "MatMul",
                                        "Tensordot",
                                        "kernel",
                                        "weight",
                                        "gamma",
                                        "moving_mean",
                                        "w_0",
                                        "0"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strcmp(word, words[i]) == 0)
            return true;
    return false;
}

bool xt_read_foreign_name(const struct xt_reader *reader, const struct xt_read_node *node,
                          const char *tensor, char out[XT_PARAM_NAME_MAX])
{
    const char *path = node->proto->name;
    if (xt_str_starts(tensor, "const_") && path && strchr(path, '/'))
        tensor = path;
    if (!reader->is_foreign || !*tensor || strlen(tensor) >= XT_PARAM_NAME_MAX ||
        xt_str_starts(tensor, "const_"))
        return false;
    snprintf(out, XT_PARAM_NAME_MAX, "%s", tensor);
    for (char *at = out; *at; at++)
        *at = *at == '/' ? '.' : *at;
    for (size_t i = 0; i < reader->net->param_count; i++)
        if (strcmp(reader->net->params[i].name, out) == 0)
            return false;
    return true;
}

bool xt_read_foreign_layer(const struct xt_reader *reader, const struct xt_read_node *node,
                           const char *tensor, char out[XT_PARAM_NAME_MAX])
{
    if (!xt_read_foreign_name(reader, node, tensor, out))
        return false;
    for (char *dot; (dot = strrchr(out, '.')) && is_of_exporter(dot + 1);)
        *dot = 0;
    for (size_t i = 0; i < reader->net->node_count; i++)
        if (strcmp(reader->net->nodes[i]->name, out) == 0)
            return false;
    return true;
}

/* A number of another exporter's: tf2onnx and Paddle2ONNX write those of the network's code as
 * tensors of no axes, or under names of their own. */
bool xt_read_is_foreign_number(const struct xt_reader *reader, const char *name)
{
    const struct xt_read_value *value = reader->is_foreign ? xt_read_named(reader, name) : NULL;
    const Onnx__TensorProto *tensor = value ? value->initializer : NULL;
    bool is_one = tensor != NULL;
    for (size_t i = 0; is_one && i < tensor->n_dims; i++)
        is_one = tensor->dims[i] == 1;
    return is_one &&
           (!tensor->n_dims || xt_str_starts(name, "const_") ||
            xt_str_starts(name, "helper.constant.") || xt_str_starts(name, "p2o.pd_op.full"));
}
