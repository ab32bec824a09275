/* Any bytes as an ONNX model, many of them small models of nodes and numbers at random, or models
 * with one thing changed: what is read has the parameters that its weights are for. */
#include <onnx.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/onnx/read/read.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
size_t LLVMFuzzerMutate(uint8_t *bytes, size_t size, size_t room);
size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t room, unsigned seed);

enum { NODES_MAX = 8, INPUTS = 3, NAME = 8, WEIGHTS = 6, ATTRIBUTES = 3, INTS = 4 };

static const char *const ops[] = {"Conv",
                                  "Gemm",
                                  "MatMul",
                                  "BatchNormalization",
                                  "LayerNormalization",
                                  "Relu",
                                  "Clip",
                                  "Add",
                                  "Mul",
                                  "Div",
                                  "Concat",
                                  "Slice",
                                  "Split",
                                  "Gather",
                                  "Transpose",
                                  "Reshape",
                                  "Flatten",
                                  "Squeeze",
                                  "Expand",
                                  "Unsqueeze",
                                  "Pad",
                                  "MaxPool",
                                  "AveragePool",
                                  "Shape",
                                  "Dropout",
                                  "Softmax",
                                  "Cast",
                                  "GlobalAveragePool",
                                  "ReduceMean",
                                  "CumSum",
                                  "Range",
                                  "Size",
                                  "GatherND",
                                  "ScatterND",
                                  "ScatterElements",
                                  "AffineGrid",
                                  "GridSample",
                                  "Identity"};
static const char *const attributes[] = {"axis",  "axes",   "perm",    "kernel_shape", "strides",
                                         "group", "pads",   "shape",   "starts",       "ends",
                                         "split", "transB", "keepdims"};
enum { OPS = sizeof ops / sizeof *ops, NAMES = sizeof attributes / sizeof *attributes };

/* A model and all that it points to. */
struct model {
    Onnx__ModelProto model;
    Onnx__GraphProto graph;
    Onnx__OperatorSetIdProto opset, *opsets[1];
    Onnx__NodeProto nodes[NODES_MAX], *node_list[NODES_MAX];
    Onnx__AttributeProto attributes[NODES_MAX][ATTRIBUTES], *attribute_list[NODES_MAX][ATTRIBUTES];
    int64_t ints[NODES_MAX][ATTRIBUTES][INTS];
    Onnx__TensorProto weights[WEIGHTS], *weight_list[WEIGHTS];
    int64_t dims[WEIGHTS][4];
    float floats[4096];
    int64_t wholes[4];
    Onnx__ValueInfoProto input, output, *inputs[1], *outputs[1];
    Onnx__TypeProto type;
    Onnx__TypeProto__Tensor tensor;
    Onnx__TensorShapeProto shape;
    Onnx__TensorShapeProto__Dimension sides[4], *side_list[4];
    char names[NODES_MAX + 1][NAME], weight_names[WEIGHTS][NAME];
    char *reads[NODES_MAX][INPUTS], *gives[NODES_MAX][1];
};

static void add_weights(struct model *m)
{
    static const int64_t shapes[WEIGHTS][4] = {{3, 3, 3, 3}, {4, 3}, {3}, {4}, {0}, {3, 3}};
    static const size_t counts[WEIGHTS] = {4, 2, 1, 1, 1, 2};
    for (int i = 0; i < WEIGHTS; i++) {
        Onnx__TensorProto *tensor = m->weight_list[i] = &m->weights[i];
        onnx__tensor_proto__init(tensor);
        snprintf(m->weight_names[i], NAME, "w%d", i);
        memcpy(m->dims[i], shapes[i], sizeof m->dims[i]);
        tensor->name = m->weight_names[i];
        tensor->dims = m->dims[i];
        tensor->n_dims = counts[i];
        tensor->has_data_type = true;
        tensor->data_type = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
        tensor->float_data = m->floats;
        tensor->n_float_data = 1;
        for (size_t k = 0; k < counts[i]; k++)
            tensor->n_float_data *= (size_t)shapes[i][k];
    }
    for (int i = 0; i < 4; i++)
        m->wholes[i] = rand() % 5 - 1;
    m->dims[4][0] = rand() % 5;
    m->weights[4].data_type = ONNX__TENSOR_PROTO__DATA_TYPE__INT64;
    m->weights[4].n_float_data = 0;
    m->weights[4].int64_data = m->wholes;
    m->weights[4].n_int64_data = (size_t)m->dims[4][0];
}

static void add_node(struct model *m, int i, int count)
{
    Onnx__NodeProto *node = m->node_list[i] = &m->nodes[i];
    onnx__node_proto__init(node);
    snprintf(m->names[i + 1], NAME, i + 1 == count ? "y" : "v%d", i);
    node->op_type = (char *)ops[rand() % OPS];
    node->output = m->gives[i];
    node->n_output = 1;
    m->gives[i][0] = m->names[i + 1];
    node->input = m->reads[i];
    node->n_input = 1 + (size_t)rand() % INPUTS;
    m->reads[i][0] = m->names[rand() % 4 ? i : rand() % (i + 1)];
    for (int k = 1; k < INPUTS; k++)
        m->reads[i][k] =
            rand() % 2 ? m->weight_names[rand() % WEIGHTS] : m->names[rand() % (i + 1)];
    node->attribute = m->attribute_list[i];
    node->n_attribute = (size_t)rand() % ATTRIBUTES;
    for (int k = 0; k < ATTRIBUTES; k++) {
        Onnx__AttributeProto *attribute = m->attribute_list[i][k] = &m->attributes[i][k];
        onnx__attribute_proto__init(attribute);
        attribute->name = (char *)attributes[rand() % NAMES];
        attribute->has_i = rand() % 2;
        attribute->i = rand() % 6 - 2;
        attribute->n_ints = attribute->has_i ? 0 : 1 + (size_t)rand() % INTS;
        attribute->ints = m->ints[i][k];
        for (int n = 0; n < INTS; n++)
            m->ints[i][k][n] = rand() % 6 - 1;
    }
}

static void add_input(struct model *m)
{
    onnx__value_info_proto__init(&m->input);
    onnx__value_info_proto__init(&m->output);
    onnx__type_proto__init(&m->type);
    onnx__type_proto__tensor__init(&m->tensor);
    onnx__tensor_shape_proto__init(&m->shape);
    static const int64_t sides[] = {0, 3, 6, 6};
    for (int i = 0; i < 4; i++) {
        onnx__tensor_shape_proto__dimension__init(&m->sides[i]);
        m->side_list[i] = &m->sides[i];
        m->sides[i].value_case = i ? ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE : 0;
        m->sides[i].dim_value = sides[i];
    }
    m->shape.dim = m->side_list;
    m->shape.n_dim = 4;
    m->tensor.has_elem_type = true;
    m->tensor.elem_type = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
    m->tensor.shape = &m->shape;
    m->type.value_case = ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE;
    m->type.tensor_type = &m->tensor;
    m->input.type = &m->type;
    strcpy(m->names[0], "x");
    m->input.name = m->names[0];
    m->output.name = (char *)"y";
    m->inputs[0] = &m->input;
    m->outputs[0] = &m->output;
    m->graph.input = m->inputs;
    m->graph.output = m->outputs;
    m->graph.n_input = m->graph.n_output = 1;
}

/* 0: no room. */
static size_t make_model(uint8_t *bytes, size_t room, unsigned seed)
{
    static struct model m;
    memset(&m, 0, sizeof m);
    srand(seed);
    onnx__model_proto__init(&m.model);
    onnx__graph_proto__init(&m.graph);
    onnx__operator_set_id_proto__init(&m.opset);
    m.opset.has_version = true;
    m.opset.version = 9 + rand() % 13;
    m.opsets[0] = &m.opset;
    m.model.opset_import = m.opsets;
    m.model.n_opset_import = 1;
    m.model.graph = &m.graph;
    add_input(&m);
    add_weights(&m);
    int count = 1 + rand() % NODES_MAX;
    for (int i = 0; i < count; i++)
        add_node(&m, i, count);
    m.graph.node = m.node_list;
    m.graph.n_node = (size_t)count;
    m.graph.initializer = m.weight_list;
    m.graph.n_initializer = WEIGHTS;
    if (onnx__model_proto__get_packed_size(&m.model) > room)
        return 0;
    return onnx__model_proto__pack(&m.model, bytes);
}

/* ---- a model with one thing changed ---- */

static void change_input(const Onnx__GraphProto *graph)
{
    const Onnx__NodeProto *to = graph->node[(size_t)rand() % graph->n_node];
    const Onnx__NodeProto *from = graph->node[(size_t)rand() % graph->n_node];
    if (!to->n_input || !from->n_input)
        return;
    char **a = &to->input[(size_t)rand() % to->n_input];
    char **b = &from->input[(size_t)rand() % from->n_input];
    char *swapped = *a;
    *a = *b;
    *b = swapped;
}

static void change_attribute(const Onnx__GraphProto *graph)
{
    const Onnx__NodeProto *node = graph->node[(size_t)rand() % graph->n_node];
    if (!node->n_attribute)
        return;
    Onnx__AttributeProto *attribute = node->attribute[(size_t)rand() % node->n_attribute];
    int64_t number = rand() % 8 ? rand() % 9 - 3 : (int64_t)rand() << rand() % 32;
    if (attribute->n_ints)
        attribute->ints[(size_t)rand() % attribute->n_ints] = number;
    else if (attribute->t && attribute->t->n_dims && rand() % 2)
        attribute->t->dims[(size_t)rand() % attribute->t->n_dims] = number;
    else if (attribute->t && attribute->t->raw_data.len >= sizeof number)
        memcpy(attribute->t->raw_data.data, &number, sizeof number);
    else
        attribute->i = number;
}

static void change_tensor(const Onnx__GraphProto *graph)
{
    if (!graph->n_initializer)
        return;
    Onnx__TensorProto *tensor = graph->initializer[(size_t)rand() % graph->n_initializer];
    if (tensor->n_dims > 1) {
        int64_t first = tensor->dims[0];
        tensor->dims[0] = tensor->dims[tensor->n_dims - 1];
        tensor->dims[tensor->n_dims - 1] = first;
    }
}

/* Two nodes' types in one another's places. */
static void change_type(const Onnx__GraphProto *graph)
{
    Onnx__NodeProto *a = graph->node[(size_t)rand() % graph->n_node];
    Onnx__NodeProto *b = graph->node[(size_t)rand() % graph->n_node];
    char *type = a->op_type;
    a->op_type = b->op_type;
    b->op_type = type;
}

/* 0: no model, or no room. */
static size_t change_model(uint8_t *bytes, size_t size, size_t room, unsigned seed)
{
    static void (*const changes[])(const Onnx__GraphProto *graph) = {
        change_input, change_attribute, change_attribute, change_tensor, change_type};
    Onnx__ModelProto *model = onnx__model_proto__unpack(NULL, size, bytes);
    size_t made = 0;
    srand(seed);
    if (model && model->graph && model->graph->n_node) {
        changes[(size_t)rand() % (sizeof changes / sizeof *changes)](model->graph);
        size_t wanted = onnx__model_proto__get_packed_size(model);
        made = wanted <= room ? onnx__model_proto__pack(model, bytes) : 0;
    }
    if (model)
        onnx__model_proto__free_unpacked(model, NULL);
    return made;
}

size_t LLVMFuzzerCustomMutator(uint8_t *bytes, size_t size, size_t room, unsigned seed)
{
    size_t made = seed % 4 == 0  ? make_model(bytes, room, seed)
                  : seed % 4 < 3 ? change_model(bytes, size, room, seed)
                                 : 0;
    return made ? made : LLVMFuzzerMutate(bytes, size, room);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct xt_onnx_net read;
    struct xt_err err;
    enum xt_status status = xt_onnx_read_bytes(&read, bytes, size, "input", &err);
    for (size_t i = 0; !status && i < read.weights.count; i++) {
        int param = xt_net_find_param(read.net, read.weights.tensors[i].name);
        if (param < 0 || xt_net_param_elements(&read.net->params[param]) !=
                             xt_file_tensor_count(&read.weights.tensors[i]))
            abort();
    }
    xt_onnx_net_clear(&read);
    return 0;
}
