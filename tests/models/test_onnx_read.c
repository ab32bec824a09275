/* Reading a network from an ONNX file: PyTorch's files, and what is refused. */
#include <math.h>
#include <onnx.pb-c.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "support.h"
#include "base/file.h"
#include "models/onnx/onnx.h"
#include "models/onnx/read/read.h"

/* ---- PyTorch's files ---- */

static void read_shared(const char *name, struct xt_onnx_net *out)
{
    char path[64];
    struct xt_err err;
    snprintf(path, sizeof path, "zoo/%s.onnx", name);
    if (xt_onnx_read(out, support_shared(path), 0, &err))
        fail_msg("%s", err.text);
}

static int count_nodes(const struct xt_net *net, enum xt_node_kind kind)
{
    int count = 0;
    for (size_t i = 0; i < net->node_count; i++)
        count += net->nodes[i]->kind == kind;
    return count;
}

static void test_a_residual_network_keeps_its_layers_and_their_names(void **state)
{
    struct xt_onnx_net read;
    (void)state;
    read_shared("resnet18", &read);
    assert_int_equal(count_nodes(read.net, XT_NODE_CONV), 20);
    assert_int_equal(count_nodes(read.net, XT_NODE_BATCH_NORM), 20);
    assert_int_equal(count_nodes(read.net, XT_NODE_ADD), 8);
    assert_int_equal(count_nodes(read.net, XT_NODE_TRANSPOSE), 0);
    assert_true(xt_net_find_param(read.net, "layer2.0.downsample.1.running_var") >= 0);
    assert_int_equal(read.weights.count, 102);
    assert_non_null(xt_weight_file_find(&read.weights, "layer4.1.conv2.weight"));
    assert_false(read.folded);
    xt_onnx_net_clear(&read);
}

static void test_a_network_of_plates_gives_columns_of_symbols(void **state)
{
    struct xt_onnx_net read;
    (void)state;
    read_shared("plates", &read);
    assert_int_equal(read.net->output->h, 1);
    assert_int_equal(read.net->output->w, 24);
    assert_int_equal(read.net->output->c, 68);
    xt_onnx_net_clear(&read);
}

static void test_permutes_about_layer_norms_need_no_nodes(void **state)
{
    struct xt_onnx_net read;
    (void)state;
    read_shared("convnext", &read);
    assert_int_equal(count_nodes(read.net, XT_NODE_TRANSPOSE), 0);
    assert_int_equal(count_nodes(read.net, XT_NODE_RESHAPE), 0);
    assert_int_equal(count_nodes(read.net, XT_NODE_LAYER_NORM), 8);
    xt_onnx_net_clear(&read);
}

static void test_attention_becomes_two_products_of_heads(void **state)
{
    struct xt_onnx_net read;
    (void)state;
    read_shared("vit", &read);
    assert_int_equal(count_nodes(read.net, XT_NODE_MATMUL), 4);
    assert_int_equal(count_nodes(read.net, XT_NODE_SOFTMAX), 2);
    for (size_t i = 0; i < read.net->node_count; i++) {
        const struct xt_node *node = read.net->nodes[i];
        if (node->kind == XT_NODE_SOFTMAX) {
            assert_int_equal(node->output->h, 2);
            assert_int_equal(node->output->w, 17);
            assert_int_equal(node->output->c, 17);
            /* 1 / sqrt(16), of heads of 16 */
            assert_float_equal(node->inputs[0]->of->as.matmul.scale, 0.25, 1e-6);
        }
    }
    assert_true(xt_net_find_param(
                    read.net, "encoder.layers.encoder_layer_0.self_attention.in_proj_weight") >= 0);
    xt_onnx_net_clear(&read);
}

/* ---- small models ---- */

/* Of 8x8 images "x". */
static struct xt_onnx *begin_model(void)
{
    struct xt_onnx *onnx = NULL;
    struct xt_err err;
    assert_int_equal(xt_onnx_create(&onnx, "net", &err), XT_OK);
    xt_onnx_input(onnx, "x", &(struct xt_onnx_shape){XT_F32, 4, {0, 3, 8, 8}});
    return onnx;
}

/* With so many classes "y"; returns the path. */
static const char *end_model(struct xt_onnx *onnx, const char *path, int classes)
{
    struct xt_err err;
    size_t bytes = 0;
    xt_onnx_output(onnx, "y", &(struct xt_onnx_shape){XT_F32, 2, {0, classes}});
    xt_onnx_meta(onnx, "mean", "127.5");
    if (xt_onnx_save(onnx, path, &bytes, &err))
        fail_msg("%s", err.text);
    xt_onnx_destroy(onnx);
    return path;
}

/* Two classes of 8x8 images: a convolution, the node (without its input), the mean, a linear layer.
 */
static const char *write_with(const char *folder, struct xt_onnx_node node)
{
    static const int64_t pads[] = {1, 1, 1, 1};
    struct xt_onnx *onnx = begin_model();
    float *data = NULL;
    const char *weight = xt_onnx_constant(onnx, "conv.weight",
                                          &(struct xt_onnx_shape){XT_F32, 4, {4, 3, 3, 3}}, &data);
    const char *y =
        xt_onnx_add(onnx, "conv",
                    &(struct xt_onnx_node){
                        "Conv", {"x", weight}, {{.name = "pads", .list = pads, .count = 4}}});
    node.inputs[0] = y;
    y = xt_onnx_add(onnx, "op", &node);
    y = xt_onnx_add(onnx, "mean", &(struct xt_onnx_node){"GlobalAveragePool", {y}, {{0}}});
    y = xt_onnx_add(onnx, "flat", &(struct xt_onnx_node){"Flatten", {y}, {{0}}});
    const char *head =
        xt_onnx_constant(onnx, "fc.weight", &(struct xt_onnx_shape){XT_F32, 2, {2, 4}}, &data);
    for (int i = 0; data && i < 8; i++)
        data[i] = (float)i;
    xt_onnx_add_last(onnx, "y",
                     &(struct xt_onnx_node){"Gemm", {y, head}, {{.name = "transB", .number = 1}}});
    return end_model(onnx, support_path(folder, "net.onnx"), 2);
}

static const char *write_model(const char *folder, const char *op)
{
    return write_with(folder, (struct xt_onnx_node){.type = op});
}

/* TensorFlow's GELU of images as tf2onnx writes it: half of x, and Erfc of -x / sqrt(2), each
 * turned to channels-last, by the same order or (`otherwise`) by two. */
static const char *write_turned_gelu(const char *folder, bool otherwise)
{
    static const int64_t last[] = {0, 2, 3, 1};
    static const int64_t turned[] = {0, 3, 2, 1};
    static const int64_t axes[] = {1, 2};
    struct xt_onnx *onnx = begin_model();
    struct xt_onnx_node node = {"Mul", {"x", xt_onnx_number(onnx, "onnx::Mul_1", 0.5F)}, {{0}}};
    const char *half = xt_onnx_add(onnx, "halved", &node);
    node = (struct xt_onnx_node){"Neg", {"x"}, {{0}}};
    const char *y = xt_onnx_add(onnx, "minus", &node);
    node = (struct xt_onnx_node){
        "Mul", {y, xt_onnx_number(onnx, "onnx::Mul_2", (float)M_SQRT1_2)}, {{0}}};
    y = xt_onnx_add(onnx, "scaled", &node);
    node = (struct xt_onnx_node){"Transpose", {half}, {{.name = "perm", .list = last, .count = 4}}};
    half = xt_onnx_add(onnx, "turned half", &node);
    node.inputs[0] = y;
    node.attributes[0].list = otherwise ? turned : last;
    y = xt_onnx_add(onnx, "turned", &node);
    y = xt_onnx_add(onnx, "erfc", &(struct xt_onnx_node){"Erfc", {y}, {{0}}});
    y = xt_onnx_add(onnx, "gelu", &(struct xt_onnx_node){"Mul", {half, y}, {{0}}});
    node = (struct xt_onnx_node){
        "ReduceMean", {y}, {{.name = "axes", .list = axes, .count = 2}, {.name = "keepdims"}}};
    xt_onnx_add_last(onnx, "y", &node);
    return end_model(onnx, support_path(folder, "gelu.onnx"), 3);
}

/* The same image and what a ReLU makes of it, or (`chained`) what the layer itself does, by one
 * layer's weights. */
static const char *write_shared(const char *folder, bool chained, bool alike)
{
    struct xt_onnx *onnx = begin_model();
    float *data = NULL;
    const char *weight = xt_onnx_constant(onnx, "conv.weight",
                                          &(struct xt_onnx_shape){XT_F32, 4, {3, 3, 1, 1}}, &data);
    for (int i = 0; i < 9; i++)
        data[i] = alike ? 1 : (float)i;
    const char *first =
        xt_onnx_add(onnx, "first", &(struct xt_onnx_node){"Conv", {"x", weight}, {{0}}});
    const char *in =
        xt_onnx_add(onnx, "relu", &(struct xt_onnx_node){"Relu", {chained ? first : "x"}, {{0}}});
    const char *second =
        xt_onnx_add(onnx, "second", &(struct xt_onnx_node){"Conv", {in, weight}, {{0}}});
    const char *y = xt_onnx_add(onnx, "sum", &(struct xt_onnx_node){"Add", {first, second}, {{0}}});
    y = xt_onnx_add(onnx, "mean", &(struct xt_onnx_node){"GlobalAveragePool", {y}, {{0}}});
    xt_onnx_add_last(onnx, "y", &(struct xt_onnx_node){"Flatten", {y}, {{0}}});
    return end_model(onnx, support_path(folder, "shared.onnx"), 3);
}

/* A convolution by what `op` makes of "conv.weight" or (`of_images`) of the images; `again`: and by
 * that parameter itself. */
static const char *write_computed(const char *folder, const char *op, bool of_images, bool again)
{
    struct xt_onnx *onnx = begin_model();
    float *data = NULL;
    const char *raw = xt_onnx_constant(onnx, "conv.weight",
                                       &(struct xt_onnx_shape){XT_F32, 4, {6, 3, 1, 1}}, &data);
    for (int i = 0; i < 18; i++)
        data[i] = (float)i;
    const char *weight =
        xt_onnx_add(onnx, "op", &(struct xt_onnx_node){op, {of_images ? "x" : raw}, {{0}}});
    const char *y = xt_onnx_add(onnx, "conv", &(struct xt_onnx_node){"Conv", {"x", weight}, {{0}}});
    const char *own =
        again ? xt_onnx_add(onnx, "own", &(struct xt_onnx_node){"Conv", {"x", raw}, {{0}}}) : y;
    y = xt_onnx_add(onnx, "sum", &(struct xt_onnx_node){"Add", {y, own}, {{0}}});
    y = xt_onnx_add(onnx, "mean", &(struct xt_onnx_node){"GlobalAveragePool", {y}, {{0}}});
    xt_onnx_add_last(onnx, "y", &(struct xt_onnx_node){"Flatten", {y}, {{0}}});
    return end_model(onnx, support_path(folder, "computed.onnx"), 6);
}

static Onnx__ModelProto *load(const char *path)
{
    size_t size = 0;
    uint8_t *bytes = support_read_file(path, &size);
    Onnx__ModelProto *model = onnx__model_proto__unpack(NULL, size, bytes);
    assert_non_null(model);
    free(bytes);
    return model;
}

static enum xt_status read_model(struct xt_onnx_net *out, const Onnx__ModelProto *model,
                                 struct xt_err *err)
{
    size_t size = onnx__model_proto__get_packed_size(model);
    uint8_t *bytes = malloc(size);
    assert_non_null(bytes);
    onnx__model_proto__pack(model, bytes);
    enum xt_status status = xt_onnx_read_bytes(out, bytes, size, "net.onnx", err);
    free(bytes);
    return status;
}

static void read_well(struct xt_onnx_net *out, const Onnx__ModelProto *model)
{
    struct xt_err err = {0};
    if (read_model(out, model, &err))
        fail_msg("%s", err.text);
}

static void assert_refused(const Onnx__ModelProto *model, const char *part)
{
    struct xt_onnx_net read;
    struct xt_err err = {0};
    read_model(&read, model, &err);
    support_assert_error(&err, XT_ERR_DATA, part);
}

static void test_weights_and_metadata_come_along(void **state)
{
    struct xt_onnx_net read;
    struct xt_err err;
    if (xt_onnx_read(&read, write_model(*state, "Relu"), 0, &err))
        fail_msg("%s", err.text);
    const struct xt_file_tensor *weight = xt_weight_file_find(&read.weights, "fc.weight");
    assert_non_null(weight);
    assert_float_equal(((const float *)weight->data)[7], 7, 0);
    assert_string_equal(xt_weight_file_meta(&read.weights, "mean"), "127.5");
    assert_int_equal(read.net->output->c, 2);
    xt_onnx_net_clear(&read);
}

static void test_a_gelu_of_turned_images_is_one_activation(void **state)
{
    struct xt_onnx_net read;
    struct xt_err err;
    if (xt_onnx_read(&read, write_turned_gelu(*state, false), 0, &err))
        fail_msg("%s", err.text);
    assert_int_equal(count_nodes(read.net, XT_NODE_ACTIVATION), 1);
    assert_int_equal(count_nodes(read.net, XT_NODE_MUL), 0);
    xt_onnx_net_clear(&read);
    Onnx__ModelProto *model = load(write_turned_gelu(*state, true));
    assert_refused(model, "(Erfc) is an operator that is not there");
    onnx__model_proto__free_unpacked(model, NULL);
}

static void replace(char **text, const char *by)
{
    free(*text);
    *text = strdup(by);
    assert_non_null(*text);
}

/* The exporter's own names of tensors say nothing: the parameter is called after the first layer.
 */
static void rename_weight(Onnx__ModelProto *model, const char *name)
{
    replace(&model->graph->initializer[0]->name, name);
    for (size_t i = 0; i < model->graph->n_node; i++)
        if (strcmp(model->graph->node[i]->op_type, "Conv") == 0)
            replace(&model->graph->node[i]->input[1], name);
}

static void test_layers_of_the_same_weights_share_a_parameter(void **state)
{
    for (int chained = 0; chained < 2; chained++)
        for (int made_up = 0; made_up < 2; made_up++) {
            struct xt_onnx_net read;
            Onnx__ModelProto *model = load(write_shared(*state, chained, false));
            if (made_up)
                rename_weight(model, "onnx::Conv_12");
            read_well(&read, model);
            assert_int_equal(count_nodes(read.net, XT_NODE_CONV), 2);
            assert_int_equal(read.net->param_count, 1);
            assert_int_equal(read.weights.count, 1);
            xt_onnx_net_clear(&read);
            onnx__model_proto__free_unpacked(model, NULL);
        }
}

static void test_equal_numbers_of_layers_that_may_be_different_are_refused(void **state)
{
    Onnx__ModelProto *model = load(write_shared(*state, false, true));
    replace(&model->producer_name, "pytorch");
    assert_refused(model, "conv.weight, as other nodes do, and its numbers are all equal");
    onnx__model_proto__free_unpacked(model, NULL);
}

static void rename_head(Onnx__ModelProto *model, const char *name)
{
    replace(&model->graph->initializer[1]->name, name);
    for (size_t i = 0; i < model->graph->n_node; i++)
        if (strcmp(model->graph->node[i]->op_type, "Gemm") == 0)
            replace(&model->graph->node[i]->input[1], name);
}

/* What PyTorch's newer exporter writes into metadata: a field that not every schema has. */
static void add_metadata(ProtobufCMessage *base, unsigned tag, const char *key, const char *value)
{
    Onnx__StringStringEntryProto entry = ONNX__STRING_STRING_ENTRY_PROTO__INIT;
    entry.key = (char *)key;
    entry.value = (char *)value;
    size_t size = onnx__string_string_entry_proto__get_packed_size(&entry);
    size_t prefix = size < 128 ? 1 : 2; /* its length */
    base->unknown_fields =
        realloc(base->unknown_fields, (base->n_unknown_fields + 1) * sizeof *base->unknown_fields);
    assert_non_null(base->unknown_fields);
    ProtobufCMessageUnknownField *field = &base->unknown_fields[base->n_unknown_fields++];
    assert_true(size < 16384);
    *field = (ProtobufCMessageUnknownField){.tag = tag,
                                            .wire_type = PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED,
                                            .len = size + prefix,
                                            .data = malloc(size + prefix)};
    assert_non_null(field->data);
    field->data[0] = (uint8_t)(prefix == 1 ? size : (size & 127) | 128);
    if (prefix == 2)
        field->data[1] = (uint8_t)(size >> 7);
    onnx__string_string_entry_proto__pack(&entry, field->data + prefix);
}

static void sign(Onnx__GraphProto *graph, const char *signature)
{
    add_metadata(&graph->base, 16, "pkg.torch.export.ExportedProgram.graph_signature", signature);
}

static void test_weights_that_an_exporter_computed_from_lost_parameters_are_refused(void **state)
{
    static const char signature[] = "\n# inputs\np_conv_weight: PARAMETER target='conv.weight'\n"
                                    "p_fc_weight: PARAMETER target='fc.weight'\nx: USER_INPUT\n";
    Onnx__ModelProto *model = load(write_model(*state, "Relu"));
    struct xt_onnx_net read;
    sign(model->graph, signature);
    read_well(&read, model);
    xt_onnx_net_clear(&read);
    rename_weight(model, "div");
    assert_refused(model, "(Conv) reads div, which the exporter may have computed from a parameter "
                          "that is not in the file any more, such as conv.weight");
    rename_weight(model, "conv.weight");
    rename_head(model, "div_1");
    assert_refused(model,
                   "(Gemm) reads div_1, which the exporter may have computed from a parameter "
                   "that is not in the file any more, such as fc.weight");
    rename_head(model, "val_3"); /* as it calls one that it transposed */
    read_well(&read, model);
    assert_int_equal(read.renamed, 1);
    xt_onnx_net_clear(&read);
    onnx__model_proto__free_unpacked(model, NULL);
}

/* A class of the network's own may normalise the weight before it multiplies by it. */
static void test_a_turned_weight_is_a_layers_own(void **state)
{
    static const char signature[] = "\n# inputs\np_conv_weight: PARAMETER target='conv.weight'\n"
                                    "p_fc_weight: PARAMETER target='fc.weight'\nx: USER_INPUT\n";
    static const char *const classes[] = {"torch.nn.modules.linear.Linear", "timm.layers.Linear",
                                          "__main__.NormLinear"};
    for (int i = 0; i < 3; i++) {
        Onnx__ModelProto *model = load(write_model(*state, "Relu"));
        Onnx__GraphProto *graph = model->graph;
        Onnx__NodeProto *head = graph->node[graph->n_node - 1];
        struct xt_onnx_net read;
        struct xt_err err = {0};
        char hierarchy[128];
        snprintf(hierarchy, sizeof hierarchy, "['__main__.Net', '%s', 'aten.linear.default']",
                 classes[i]);
        assert_string_equal(head->op_type, "Gemm");
        sign(graph, signature);
        rename_head(model, "val_3");
        add_metadata(&head->base, 9, "pkg.torch.onnx.class_hierarchy", hierarchy);
        add_metadata(&head->base, 9, "pkg.torch.onnx.name_scopes", "['', 'fc', 'linear']");
        if (i == 2) {
            assert_refused(model, "(Gemm) reads val_3, which the exporter may have computed from "
                                  "a parameter that is not in the file any more, such as "
                                  "fc.weight");
        } else if (read_model(&read, model, &err)) {
            fail_msg("%s", err.text);
        } else {
            assert_true(xt_net_find_param(read.net, "fc.weight") >= 0);
            xt_onnx_net_clear(&read);
        }
        onnx__model_proto__free_unpacked(model, NULL);
    }
}

/* Adds a tensor to the file's, of so many rows and no numbers yet; the model owns it. */
static Onnx__TensorProto *add_tensor(Onnx__ModelProto *model, const char *name, int type,
                                     size_t ndims, size_t rows)
{
    Onnx__GraphProto *graph = model->graph;
    Onnx__TensorProto *tensor = malloc(sizeof *tensor);
    graph->initializer =
        realloc(graph->initializer, (graph->n_initializer + 1) * sizeof *graph->initializer);
    assert_non_null(tensor);
    assert_non_null(graph->initializer);
    onnx__tensor_proto__init(tensor);
    tensor->name = strdup(name);
    tensor->has_data_type = true;
    tensor->data_type = type;
    tensor->n_dims = ndims;
    tensor->dims = calloc(ndims, sizeof *tensor->dims);
    assert_non_null(tensor->dims);
    tensor->dims[0] = (int64_t)rows;
    for (size_t i = 1; i < ndims; i++)
        tensor->dims[i] = 1;
    graph->initializer[graph->n_initializer++] = tensor;
    return tensor;
}

static void add_vector(Onnx__ModelProto *model, const char *name, const float *numbers,
                       size_t count)
{
    Onnx__TensorProto *tensor =
        add_tensor(model, name, ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, 1, count);
    tensor->n_float_data = count;
    tensor->float_data = calloc(count, sizeof *tensor->float_data);
    assert_non_null(tensor->float_data);
    memcpy(tensor->float_data, numbers, count * sizeof *numbers);
}

/* PyTorch's other exporter names the node of a module's second call "/conv_1/Conv"; a module that
 * is called so has parameters of its own. */
static void test_equal_numbers_of_a_layer_that_is_called_again_are_one_parameter(void **state)
{
    static const float zeros[3] = {0};
    Onnx__ModelProto *model = load(write_shared(*state, true, true));
    struct xt_onnx_net read;
    replace(&model->producer_name, "pytorch");
    replace(&model->graph->node[0]->name, "/conv/Conv");
    replace(&model->graph->node[2]->name, "/conv_1/Conv");
    read_well(&read, model);
    assert_int_equal(read.net->param_count, 1);
    xt_onnx_net_clear(&read);
    add_vector(model, "conv_1.bias", zeros, 3);
    assert_refused(model, "conv.weight, as other nodes do, and its numbers are all equal");
    onnx__model_proto__free_unpacked(model, NULL);
}

static const struct xt_file_tensor *weight_of(const struct xt_onnx_net *read, const char *name)
{
    const struct xt_file_tensor *weight = xt_weight_file_find(&read->weights, name);
    if (!weight)
        fail_msg("there is no %s", name);
    return weight;
}

/* Before training PyTorch's newer exporter stores the scales of all norms once and drops biases of
 * zeros: fresh.onnx has none of blocks.1.norm.weight, blocks.1.gamma, blocks.1.scale, up.bias. */
static void test_parameters_that_begin_alike_are_each_its_own(void **state)
{
    static const char *const names[] = {"blocks.1.norm.weight",
                                        "blocks.1.norm.bias",
                                        "blocks.1.wide.bias",
                                        "blocks.1.gamma",
                                        "blocks.0.scale",
                                        "blocks.1.scale",
                                        "stem.bias",
                                        "up.bias",
                                        "hidden.bias",
                                        "fc.bias"};
    struct xt_onnx_net read;
    struct xt_err err;
    (void)state;
    if (xt_onnx_read(&read, "tests/models/fixtures/parts/fresh.onnx", 0, &err))
        fail_msg("%s", err.text);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_int_equal(weight_of(&read, names[i])->ndims, 1);
    assert_float_equal(((const float *)weight_of(&read, "blocks.1.scale")->data)[7], 0.2F, 0);
    assert_true(read.splits);
    assert_int_equal(read.net->param_count, 30);
    assert_int_equal(read.renamed + read.missing, 0);
    xt_onnx_net_clear(&read);
}

static void test_a_damaged_tensor_that_several_layers_read_is_refused(void **state)
{
    Onnx__ModelProto *model = load("tests/models/fixtures/parts/fresh.onnx");
    (void)state;
    for (size_t i = 0; i < model->graph->n_initializer; i++)
        if (strcmp(model->graph->initializer[i]->name, "blocks.0.norm.weight") == 0)
            model->graph->initializer[i]->dims[0] = -8;
    assert_refused(model, "blocks.0.norm.weight");
    onnx__model_proto__free_unpacked(model, NULL);
}

/* Drawn numbers that two modules read are one parameter, so that equal ones may be too. */
static void test_beside_tied_weights_parameters_that_begin_alike_are_refused(void **state)
{
    Onnx__ModelProto *model = load("tests/models/fixtures/parts/fresh.onnx");
    (void)state;
    for (size_t i = 0; i < model->graph->n_initializer; i++) {
        Onnx__TensorProto *tensor = model->graph->initializer[i];
        if (strcmp(tensor->name, "blocks.0.gamma") == 0)
            ((float *)(void *)tensor->raw_data.data)[0] = 0.5F;
    }
    assert_refused(model, "reads blocks.0.norm.weight, as other nodes do, and its numbers are all "
                          "equal");
    onnx__model_proto__free_unpacked(model, NULL);
}

/* One that was equal may have been stored as it, in whose stead a node reads it now. */
static void test_equal_numbers_of_a_module_that_has_lost_a_parameter_are_refused(void **state)
{
    for (int lost = 0; lost < 2; lost++) {
        Onnx__ModelProto *model = load(write_shared(*state, true, true));
        struct xt_onnx_net read;
        replace(&model->producer_name, "pytorch");
        for (size_t i = 0; i < model->graph->n_node; i++)
            add_metadata(&model->graph->node[i]->base, 9, "pkg.torch.onnx.name_scopes",
                         "['', 'conv', 'conv2d']");
        sign(model->graph, lost ? "p_1: PARAMETER target='conv.weight'\n"
                                  "p_2: PARAMETER target='conv.second'\n"
                                : "p_1: PARAMETER target='conv.weight'\n"
                                  "p_2: PARAMETER target='other.weight'\n");
        if (lost) {
            assert_refused(model, "conv.weight, as other nodes do, and its numbers are all equal");
        } else {
            read_well(&read, model);
            assert_int_equal(read.net->param_count, 1);
            xt_onnx_net_clear(&read);
        }
        onnx__model_proto__free_unpacked(model, NULL);
    }
}

/* PyTorch gives 0 for such a row, and a softmax without its check no number at all. */
static void test_masks_of_whole_rows_are_refused(void **state)
{
    enum { TOKENS = 15 };
    Onnx__ModelProto *model = load("tests/models/fixtures/parts/masked.onnx");
    int found = 0;
    (void)state;
    for (size_t i = 0; i < model->graph->n_initializer; i++) {
        Onnx__TensorProto *tensor = model->graph->initializer[i];
        float *numbers = (float *)(void *)tensor->raw_data.data;
        if (tensor->n_dims != 2 || tensor->dims[0] != TOKENS || tensor->dims[1] != TOKENS)
            continue;
        for (int k = 0; k < TOKENS; k++)
            numbers[2 * TOKENS + k] = -INFINITY;
        found++;
    }
    assert_int_equal(found, 1);
    assert_refused(model, "(Add) masks rows as a whole, of which a softmax is not a number");
    onnx__model_proto__free_unpacked(model, NULL);
}

static void test_parameters_that_an_exporter_found_of_no_use_are_counted(void **state)
{
    static const char signature[] = "p_conv_weight: PARAMETER target='conv.weight'\n"
                                    "p_fc_weight: PARAMETER target='fc.weight'\n"
                                    "p_gain: PARAMETER target='gain'\n"
                                    "p_unused_weight: PARAMETER target='unused.weight'\n";
    Onnx__ModelProto *model = load(write_model(*state, "Relu"));
    struct xt_onnx_net read;
    sign(model->graph, signature);
    read_well(&read, model);
    assert_int_equal(read.missing, 2);
    assert_string_equal(read.first_missing, "gain");
    xt_onnx_net_clear(&read);
    onnx__model_proto__free_unpacked(model, NULL);
}

/* It shapes a norm's scale for images and gives it a name of its own; the node says of which module
 * it is. */
static void test_a_parameter_that_an_exporter_reshaped_gets_its_name_back(void **state)
{
    static const char signature[] =
        "\n# inputs\np_conv_weight: PARAMETER target='conv.weight'\np_norm_weight: PARAMETER "
        "target='norm.weight'\np_fc_weight: PARAMETER target='fc.weight'\nx: USER_INPUT\n";
    static const struct {
        const char *scopes, *name;
    } cases[] = {
        {"['', 'norm', 'group_norm']", "norm.weight"},
        {"['', 'other', 'mul']", "val_21"},
        {"['mul']", "val_21"},
        {"'", "val_21"},
    };
    static const float numbers[8] = {1, 2, 3, 4, 5, 6, 7, 9};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Onnx__ModelProto *model = load(
            write_with(*state, (struct xt_onnx_node){.type = "Mul", .inputs = {NULL, "val_21"}}));
        struct xt_onnx_net read;
        add_vector(model, "val_21", numbers, 8);
        sign(model->graph, signature);
        add_metadata(&model->graph->node[1]->base, 9, "pkg.torch.onnx.name_scopes",
                     cases[i].scopes);
        read_well(&read, model);
        assert_true(xt_net_find_param(read.net, cases[i].name) >= 0);
        assert_int_equal(read.renamed, strcmp(cases[i].name, "val_21") == 0);
        xt_onnx_net_clear(&read);
        onnx__model_proto__free_unpacked(model, NULL);
    }
}

/* Of an activation's one slope it makes a tensor of that many axes; a number of the code has none.
 */
static void test_a_parameter_of_one_number_that_an_exporter_reshaped_is_trained(void **state)
{
    static const char signature[] =
        "\n# inputs\np_conv_weight: PARAMETER target='conv.weight'\np_act_weight: PARAMETER "
        "target='act.weight'\np_fc_weight: PARAMETER target='fc.weight'\nx: USER_INPUT\n";
    Onnx__ModelProto *model = load(
        write_with(*state, (struct xt_onnx_node){.type = "PRelu", .inputs = {NULL, "val_21"}}));
    struct xt_onnx_net read;
    Onnx__TensorProto *slope =
        add_tensor(model, "val_21", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, 4, 1);
    slope->n_float_data = 1;
    slope->float_data = malloc(sizeof *slope->float_data);
    assert_non_null(slope->float_data);
    slope->float_data[0] = 0.25F;
    sign(model->graph, signature);
    add_metadata(&model->graph->node[1]->base, 9, "pkg.torch.onnx.name_scopes",
                 "['', 'act', 'prelu']");
    read_well(&read, model);
    int slope_of = xt_net_find_param(read.net, "act.weight");
    assert_true(slope_of >= 0);
    assert_int_equal(read.net->params[slope_of].ndims, 1);
    xt_onnx_net_clear(&read);
    onnx__model_proto__free_unpacked(model, NULL);
}

/* That exporter computes exp(t) of a parameter t that the network reads besides: nothing is lost,
 * and t would not be trained through it. */
static void test_what_an_exporter_computed_from_a_parameter_is_no_constant(void **state)
{
    static const char signature[] = "\n# inputs\np_conv_weight: PARAMETER target='conv.weight'\n"
                                    "p_fc_weight: PARAMETER target='fc.weight'\nx: USER_INPUT\n";
    float numbers[8];
    enum { EXPONENTIAL, SAME, CONSTANT, CASES };
    for (int which = 0; which < CASES; which++) {
        Onnx__ModelProto *model = load(
            write_with(*state, (struct xt_onnx_node){.type = "Mul", .inputs = {NULL, "columns"}}));
        struct xt_onnx_net read;
        struct xt_err err = {0};
        for (int i = 0; i < 8; i++) /* fc.weight is 0, 1, ... */
            numbers[i] = which == EXPONENTIAL ? expf((float)i)
                         : which == SAME      ? (float)i
                                              : (float)i + 0.5F;
        add_vector(model, "columns", numbers, 8);
        sign(model->graph, signature);
        if (which != CONSTANT) {
            assert_refused(model, "reads columns, whose numbers are what the exporter computed "
                                  "from the parameter fc.weight");
        } else if (read_model(&read, model, &err)) {
            fail_msg("%s", err.text);
        } else {
            assert_int_equal(read.net->param_count, 2);
            xt_onnx_net_clear(&read);
        }
        onnx__model_proto__free_unpacked(model, NULL);
    }
}

/* As generalised mean pooling has it: x^p, and a power of 1 / p behind it. */
static void test_a_power_by_what_was_computed_from_a_parameter_is_refused(void **state)
{
    static const char signature[] =
        "\n# inputs\np_conv_weight: PARAMETER target='conv.weight'\np_p: PARAMETER target='p'\n"
        "p_fc_weight: PARAMETER target='fc.weight'\nx: USER_INPUT\n";
    Onnx__ModelProto *model =
        load(write_with(*state, (struct xt_onnx_node){.type = "Pow", .inputs = {NULL, "mul"}}));
    const float p = 3;
    const float inverse = 1 / p;
    add_vector(model, "p", &p, 1);
    add_vector(model, "mul", &inverse, 1);
    sign(model->graph, signature);
    assert_refused(model, "(Pow) reads mul, whose numbers are what the exporter computed from the "
                          "parameter p");
    onnx__model_proto__free_unpacked(model, NULL);
    /* The other exporter says of none what it is. */
    model = load(
        write_with(*state, (struct xt_onnx_node){.type = "Pow", .inputs = {NULL, "onnx::Pow_9"}}));
    add_vector(model, "p", &p, 1);
    add_vector(model, "onnx::Pow_9", &inverse, 1);
    replace(&model->producer_name, "pytorch");
    assert_refused(model, "from the parameter p, which would not be trained through it: export "
                          "with do_constant_folding=False");
    onnx__model_proto__free_unpacked(model, NULL);
}

/* With do_constant_folding, its default, PyTorch's other exporter shapes and turns weights, which
 * lose their names: a PReLU's slope, and what nn.MultiheadAttention calls in_proj_weight. */
static void test_folded_weights_get_the_names_of_their_module_and_bias(void **state)
{
    static const struct case_ {
        struct xt_onnx_node node;
        const char *name;
    } cases[] = {
        {{.type = "PRelu", .inputs = {NULL, "onnx::PRelu_9"}}, "op.weight"},
        {{.type = "Conv",
          .inputs = {NULL, "onnx::PRelu_9", "op.in_proj_bias"},
          .attributes = {{"group", .number = 4}}},
         "op.in_proj_weight"},
    };
    static const float numbers[4] = {0.25F, 1, 2, 3};
    static const float biases[4] = {5, 7, 6, 8};
    for (int i = 0; i < 2; i++) {
        size_t rows = i ? 4 : 1;
        Onnx__ModelProto *model = load(write_with(*state, cases[i].node));
        Onnx__TensorProto *weight =
            add_tensor(model, "onnx::PRelu_9", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, 4, rows);
        struct xt_onnx_net read;
        weight->float_data = calloc(rows, sizeof *weight->float_data);
        assert_non_null(weight->float_data);
        memcpy(weight->float_data, numbers, rows * sizeof *numbers);
        weight->n_float_data = rows;
        add_vector(model, "op.in_proj_bias", biases, 4);
        replace(&model->producer_name, "pytorch");
        replace(&model->graph->node[1]->name, "/op/Node");
        read_well(&read, model);
        int own = xt_net_find_param(read.net, cases[i].name);
        assert_true(own >= 0);
        assert_int_equal(read.net->params[own].ndims, i ? 4 : 1);
        xt_onnx_net_clear(&read);
        onnx__model_proto__free_unpacked(model, NULL);
    }
}

/* What is picked from a table of biases has most numbers several times, whatever it is called. */
static void test_numbers_that_were_picked_from_a_parameter_are_refused(void **state)
{
    enum { SIDE = 8 };
    static const char signature[] =
        "\n# inputs\np_conv_weight: PARAMETER target='conv.weight'\np_op_table: PARAMETER "
        "target='op.table'\np_fc_weight: PARAMETER target='fc.weight'\nx: USER_INPUT\n";
    for (int picked = 0; picked < 2; picked++) {
        Onnx__ModelProto *model = load(write_with(
            *state, (struct xt_onnx_node){.type = "Add", .inputs = {NULL, "unsqueeze"}}));
        struct xt_onnx_net read;
        Onnx__TensorProto *biases =
            add_tensor(model, "unsqueeze", ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT, 2, SIDE);
        biases->dims[1] = SIDE;
        biases->n_float_data = SIDE * SIDE;
        biases->float_data = calloc(biases->n_float_data, sizeof *biases->float_data);
        assert_non_null(biases->float_data);
        for (int i = 0; i < SIDE * SIDE; i++)
            biases->float_data[i] = (float)(picked ? i / SIDE - i % SIDE : i);
        sign(model->graph, signature);
        add_metadata(&model->graph->node[1]->base, 9, "pkg.torch.onnx.name_scopes",
                     "['', 'op', 'add']");
        if (picked) {
            assert_refused(model, "(Add) reads unsqueeze, which the exporter may have computed "
                                  "from a parameter that is not in the file any more");
        } else {
            read_well(&read, model);
            assert_true(xt_net_find_param(read.net, "op.table") >= 0);
            xt_onnx_net_clear(&read);
        }
        onnx__model_proto__free_unpacked(model, NULL);
    }
}

static void test_what_a_weight_is_computed_of_is_the_parameter(void **state)
{
    struct xt_onnx_net read;
    struct xt_err err;
    if (xt_onnx_read(&read, write_computed(*state, "Sigmoid", false, false), 0, &err))
        fail_msg("%s", err.text);
    assert_int_equal(count_nodes(read.net, XT_NODE_CONV_BY), 1);
    assert_int_equal(read.net->param_count, 1);
    assert_int_equal(read.net->params[0].role, XT_PARAM_RAW);
    const struct xt_file_tensor *weight = xt_weight_file_find(&read.weights, "conv.weight");
    assert_non_null(weight);
    assert_int_equal(weight->ndims, 4);
    assert_float_equal(((const float *)weight->data)[17], 17, 0);
    xt_onnx_net_clear(&read);
}

/* A Sequential's parameters begin with a digit, as names do that an exporter makes up. */
static void test_a_parameter_of_a_sequential_is_no_constant(void **state)
{
    struct xt_onnx_net read;
    Onnx__ModelProto *model = load(write_computed(*state, "Neg", false, false));
    replace(&model->graph->initializer[0]->name, "0.weight");
    replace(&model->graph->node[0]->input[0], "0.weight");
    read_well(&read, model);
    assert_string_equal(read.net->params[0].name, "0.weight");
    xt_onnx_net_clear(&read);
    onnx__model_proto__free_unpacked(model, NULL);
}

/* In either order. */
static void test_a_weight_may_be_a_value_too(void **state)
{
    Onnx__ModelProto *model = load(write_computed(*state, "Sigmoid", false, true));
    Onnx__NodeProto **nodes = model->graph->node;
    for (int first = 0; first < 2; first++) {
        struct xt_onnx_net read;
        read_well(&read, model);
        assert_int_equal(count_nodes(read.net, XT_NODE_CONV_BY), 2);
        assert_int_equal(read.net->param_count, 1);
        assert_int_equal(read.weights.count, 1);
        xt_onnx_net_clear(&read);
        Onnx__NodeProto *own = nodes[2]; /* behind "op" and "conv" */
        memmove(nodes + 1, nodes, 2 * sizeof *nodes);
        nodes[0] = own;
    }
    onnx__model_proto__free_unpacked(model, NULL);
}

/* None of them may train something else than the file says. */
static void test_computed_weights_that_cannot_be_trained_are_refused(void **state)
{
    struct xt_onnx_net read;
    struct xt_err err;
    xt_onnx_read(&read, write_computed(*state, "Sigmoid", true, false), 0, &err);
    support_assert_error(&err, XT_ERR_DATA, "has weights that are computed from the images");
    xt_onnx_read(&read, write_computed(*state, "Det", false, false), 0, &err);
    support_assert_error(&err, XT_ERR_DATA,
                         "(Det) computes a weight from others by an operator that is not there");
    Onnx__ModelProto *model = load(write_computed(*state, "Sigmoid", false, true));
    rename_weight(model, "conv.parametrizations.weight.0._u");
    replace(&model->graph->node[0]->input[0], "conv.parametrizations.weight.0._u");
    assert_refused(model, "is of spectral normalisation");
    onnx__model_proto__free_unpacked(model, NULL);
}

static void test_an_operator_that_is_not_there_is_refused_with_its_node_and_a_near_one(void **state)
{
    struct xt_onnx_net read;
    struct xt_err err;
    xt_onnx_read(&read, write_model(*state, "Relv"), 0, &err);
    support_assert_error(&err, XT_ERR_DATA, "(Relv) is an operator that is not there; Relu is");
    xt_onnx_read(&read, write_model(*state, "TopK"), 0, &err);
    support_assert_error(&err, XT_ERR_DATA,
                         "(TopK) is an operator that is not there; elements can be chosen");
}

static void refuse_node(const char *folder, struct xt_onnx_node node, const char *part)
{
    struct xt_onnx_net read;
    struct xt_err err;
    xt_onnx_read(&read, write_with(folder, node), 0, &err);
    support_assert_error(&err, XT_ERR_DATA, part);
}

static void test_padding_and_resizing_that_cannot_be_are_refused(void **state)
{
    static const int64_t wide[] = {0, 0, 0, 8, 0, 0, 0, 0};
    static const int64_t batch[] = {1, 0, 0, 0, 0, 0, 0, 0};
    static const int64_t few[] = {1, 1};
    refuse_node(*state,
                (struct xt_onnx_node){
                    "Pad", {NULL}, {{"pads", wide, 8, 0, NULL, NULL}, {"mode", .text = "reflect"}}},
                "(Pad) cannot be: an axis of 8 is padded by reflection with as much as it has");
    refuse_node(*state, (struct xt_onnx_node){"Pad", {NULL}, {{"pads", batch, 8, 0, NULL, NULL}}},
                "(Pad) resizes, pads or picks from the batch");
    refuse_node(*state, (struct xt_onnx_node){"Pad", {NULL}, {{"pads", few, 2, 0, NULL, NULL}}},
                "(Pad) pads by amounts that are not constant");
    refuse_node(*state,
                (struct xt_onnx_node){
                    "Pad", {NULL}, {{"pads", wide, 8, 0, NULL, NULL}, {"mode", .text = "circle"}}},
                "(Pad) pads in a mode that is not there: \"circle\"");
    refuse_node(*state, (struct xt_onnx_node){.type = "Resize"},
                "(Resize) resizes to a size that is not constant");
    refuse_node(*state, (struct xt_onnx_node){"Resize", {NULL}, {{"mode", .text = "area"}}},
                "(Resize) resizes in a way that is not there (mode \"area\"");
}

static void test_lies_about_sizes_are_refused(void **state)
{
    Onnx__ModelProto *model = load(write_model(*state, "Relu"));
    Onnx__TensorProto *weight = model->graph->initializer[0];
    int64_t right = weight->dims[0];
    weight->dims[0] = 1000000;
    assert_refused(model, "more or fewer bytes than its shape takes");
    weight->dims[0] = INT64_MAX;
    assert_refused(model, "has a shape that cannot be");
    weight->dims[0] = -1;
    assert_refused(model, "has a shape that cannot be");
    weight->dims[0] = right;
    Onnx__TensorShapeProto *shape = model->graph->input[0]->type->tensor_type->shape;
    shape->dim[2]->dim_value = 1 << 30;
    assert_refused(model, "it reads images of");
    onnx__model_proto__free_unpacked(model, NULL);
}

static void test_weights_that_are_not_finite_are_refused(void **state)
{
    static const uint8_t nan_bytes[] = {0, 0, 0xc0, 0x7f};
    Onnx__ModelProto *model = load(write_model(*state, "Relu"));
    memcpy(model->graph->initializer[0]->raw_data.data, nan_bytes, sizeof nan_bytes);
    assert_refused(model, "holds a number that is not finite");
    onnx__model_proto__free_unpacked(model, NULL);
}

static void test_an_open_size_may_be_given(void **state)
{
    struct xt_onnx_net read;
    struct xt_err err;
    Onnx__ModelProto *model = load(write_model(*state, "Relu"));
    Onnx__TensorShapeProto *shape = model->graph->input[0]->type->tensor_type->shape;
    for (int axis = 1; axis < 4; axis++)
        shape->dim[axis]->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE__NOT_SET;
    size_t size = onnx__model_proto__get_packed_size(model);
    uint8_t *bytes = malloc(size);
    assert_non_null(bytes);
    onnx__model_proto__pack(model, bytes);
    const char *path = support_path(*state, "open.onnx");
    support_write_file(path, bytes, size);
    if (xt_onnx_read(&read, path, 8, &err))
        fail_msg("%s", err.text);
    assert_int_equal(read.net->nodes[0]->output->h, 8);
    assert_int_equal(read.net->nodes[0]->output->c, 3);
    xt_onnx_net_clear(&read);
    free(bytes);
    onnx__model_proto__free_unpacked(model, NULL);
}

static void test_open_sizes_several_outputs_and_loops_are_refused(void **state)
{
    Onnx__ModelProto *model = load(write_model(*state, "Relu"));
    Onnx__GraphProto *graph = model->graph;
    Onnx__TensorShapeProto__Dimension *height = graph->input[0]->type->tensor_type->shape->dim[2];
    height->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE__NOT_SET;
    assert_refused(model, "the size of its images is open");
    height->value_case = ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE;
    Onnx__ValueInfoProto *twice[] = {graph->output[0], graph->output[0]};
    Onnx__ValueInfoProto **once = graph->output;
    graph->output = twice;
    graph->n_output = 2;
    assert_refused(model, "it has 2 outputs");
    graph->output = once;
    graph->n_output = 1;
    Onnx__GraphProto inner = ONNX__GRAPH_PROTO__INIT;
    Onnx__AttributeProto body = ONNX__ATTRIBUTE_PROTO__INIT;
    Onnx__AttributeProto *bodies[] = {&body};
    Onnx__NodeProto *node = graph->node[1];
    body.name = (char *)"body";
    body.g = &inner;
    Onnx__AttributeProto **before = node->attribute;
    size_t count = node->n_attribute;
    node->attribute = bodies;
    node->n_attribute = 1;
    assert_refused(model, "is a loop");
    node->attribute = before;
    node->n_attribute = count;
    onnx__model_proto__free_unpacked(model, NULL);
}

/* ---- branches ---- */

enum { NODES = 5, IF = 1 };

/* A node of one input as a graph of its own, and as an attribute. */
struct branch {
    Onnx__NodeProto node;
    Onnx__NodeProto *nodes[1];
    char *input[1], *output[1];
    Onnx__ValueInfoProto value;
    Onnx__ValueInfoProto *values[1];
    Onnx__GraphProto graph;
    Onnx__AttributeProto attribute;
};

static void make_branch(struct branch *branch, const char *name, const char *op, char *in,
                        const char *out)
{
    onnx__node_proto__init(&branch->node);
    onnx__value_info_proto__init(&branch->value);
    onnx__graph_proto__init(&branch->graph);
    onnx__attribute_proto__init(&branch->attribute);
    branch->node.op_type = (char *)op;
    branch->input[0] = in;
    branch->output[0] = branch->value.name = (char *)out;
    branch->node.input = branch->input;
    branch->node.output = branch->output;
    branch->node.n_input = branch->node.n_output = 1;
    branch->nodes[0] = &branch->node;
    branch->values[0] = &branch->value;
    branch->graph.node = branch->nodes;
    branch->graph.output = branch->values;
    branch->graph.n_node = branch->graph.n_output = 1;
    branch->attribute.name = (char *)name;
    branch->attribute.g = &branch->graph;
}

/* A model whose second node is an If: a Relu where the condition holds, else an operator that is
 * not there. */
struct branched {
    Onnx__ModelProto *model;
    Onnx__NodeProto **own; /* its nodes */
    Onnx__NodeProto *nodes[NODES + 1];
    Onnx__NodeProto constant, choice;
    Onnx__TensorProto number;
    Onnx__AttributeProto value;
    Onnx__AttributeProto *of_constant[1], *of_choice[2];
    int32_t holds;
    char *condition[1];
    struct branch branches[2];
};

static void begin_branched(struct branched *b, const char *folder)
{
    b->model = load(write_model(folder, "Relu"));
    Onnx__GraphProto *graph = b->model->graph;
    assert_int_equal(graph->n_node, NODES);
    onnx__tensor_proto__init(&b->number);
    onnx__attribute_proto__init(&b->value);
    onnx__node_proto__init(&b->constant);
    b->holds = true;
    b->number.has_data_type = true;
    b->number.data_type = ONNX__TENSOR_PROTO__DATA_TYPE__BOOL;
    b->number.int32_data = &b->holds;
    b->number.n_int32_data = 1;
    b->value.name = (char *)"value";
    b->value.t = &b->number;
    b->of_constant[0] = &b->value;
    b->condition[0] = (char *)"condition";
    b->constant.op_type = (char *)"Constant";
    b->constant.attribute = b->of_constant;
    b->constant.output = b->condition;
    b->constant.n_attribute = b->constant.n_output = 1;
    b->choice = *graph->node[IF];
    make_branch(&b->branches[0], "then_branch", "Relu", b->choice.input[0], "as it is");
    make_branch(&b->branches[1], "else_branch", "Spin", b->choice.input[0], "turned");
    for (int i = 0; i < 2; i++)
        b->of_choice[i] = &b->branches[i].attribute;
    b->choice.op_type = (char *)"If";
    b->choice.input = b->condition;
    b->choice.attribute = b->of_choice;
    b->choice.n_attribute = 2;
    b->own = graph->node;
    for (int i = 0; i < NODES; i++)
        b->nodes[i + (i >= IF)] = i == IF ? NULL : b->own[i];
    b->nodes[IF] = &b->constant;
    b->nodes[IF + 1] = &b->choice;
    graph->node = b->nodes;
    graph->n_node = NODES + 1;
}

static void end_branched(struct branched *b)
{
    b->model->graph->node = b->own;
    b->model->graph->n_node = NODES;
    onnx__model_proto__free_unpacked(b->model, NULL);
}

static void test_of_branches_the_one_is_read_that_a_number_decides(void **state)
{
    struct branched b;
    struct xt_onnx_net read;
    struct xt_err err;
    begin_branched(&b, *state);
    if (read_model(&read, b.model, &err))
        fail_msg("%s", err.text);
    assert_int_equal(count_nodes(read.net, XT_NODE_ACTIVATION), 1);
    xt_onnx_net_clear(&read);
    b.holds = false;
    assert_refused(b.model, "(Spin) is an operator that is not there");
    end_branched(&b);
}

static void test_branches_that_cannot_be_followed_are_refused(void **state)
{
    struct branched b;
    Onnx__ValueInfoProto input = ONNX__VALUE_INFO_PROTO__INIT;
    Onnx__ValueInfoProto *inputs[] = {&input};
    begin_branched(&b, *state);
    b.choice.input = b.branches[0].input;
    assert_refused(b.model, "(If) chooses by what the network computes");
    b.choice.input = b.condition;
    b.branches[1].graph.n_output = 0;
    assert_refused(b.model, "(If) has not one condition and two branches of one value");
    b.branches[1].graph.n_output = 1;
    b.branches[0].graph.input = inputs;
    b.branches[0].graph.n_input = 1;
    assert_refused(b.model, "(If) has a branch with weights or inputs of its own");
    end_branched(&b);
}

static void test_values_that_no_node_gives_are_refused(void **state)
{
    Onnx__ModelProto *model = load(write_model(*state, "Relu"));
    Onnx__NodeProto *node = model->graph->node[1];
    char *right = node->input[0];
    node->input[0] = (char *)"flat";
    assert_refused(model, "reads \"flat\", which no node before it gives");
    node->input[0] = right;
    model->opset_import[0]->version = 6;
    assert_refused(model, "it is written in opset 6");
    onnx__model_proto__free_unpacked(model, NULL);
}

/* The first weight's data in a file of that name, so long. */
static enum xt_status read_external(const char *folder, const char *location, const char *length,
                                    struct xt_err *err)
{
    Onnx__ModelProto *model = load(write_model(folder, "Relu"));
    Onnx__TensorProto *weight = model->graph->initializer[0];
    Onnx__StringStringEntryProto where = ONNX__STRING_STRING_ENTRY_PROTO__INIT;
    Onnx__StringStringEntryProto size = ONNX__STRING_STRING_ENTRY_PROTO__INIT;
    Onnx__StringStringEntryProto *entries[] = {&where, &size};
    const char *path = support_path(folder, "external.onnx");
    struct xt_onnx_net read;
    where.key = (char *)"location";
    where.value = (char *)location;
    size.key = (char *)"length";
    size.value = (char *)length;
    weight->has_raw_data = false;
    weight->has_data_location = true;
    weight->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
    weight->external_data = entries;
    weight->n_external_data = 2;
    size_t bytes = onnx__model_proto__get_packed_size(model);
    uint8_t *packed = malloc(bytes);
    assert_non_null(packed);
    onnx__model_proto__pack(model, packed);
    support_write_file(path, packed, bytes);
    free(packed);
    weight->external_data = NULL;
    weight->n_external_data = 0;
    onnx__model_proto__free_unpacked(model, NULL);
    enum xt_status status = xt_onnx_read(&read, path, 0, err);
    xt_onnx_net_clear(&read);
    return status;
}

static void test_external_data_lies_in_the_folder_of_the_file(void **state)
{
    static const float zeros[4 * 3 * 3 * 3];
    struct xt_err err = {0};
    char outside[512];
    support_write_file(support_path(*state, "weights.bin"), zeros, sizeof zeros);
    assert_int_equal(read_external(*state, "weights.bin", "432", &err), XT_OK);
    read_external(*state, "weights.bin", "433", &err);
    support_assert_error(&err, XT_ERR_DATA, "another size than its shape");
    snprintf(outside, sizeof outside, "%s", support_path(*state, "weights.bin"));
    read_external(*state, outside, "432", &err);
    support_assert_error(&err, XT_ERR_DATA, "not in the model's folder");
    read_external(*state, "../weights.bin", "432", &err);
    support_assert_error(&err, XT_ERR_DATA, "not in the model's folder");
    assert_int_equal(symlink("/proc/self/exe", support_path(*state, "link.bin")), 0);
    read_external(*state, "link.bin", "432", &err);
    support_assert_error(&err, XT_ERR_DATA, "not in the model's folder");
}

/* The attribute of the first node of that type. */
static Onnx__AttributeProto *attribute_of(const Onnx__ModelProto *model, const char *op,
                                          const char *name)
{
    for (size_t i = 0; i < model->graph->n_node; i++)
        for (size_t k = 0; k < model->graph->node[i]->n_attribute; k++)
            if (strcmp(model->graph->node[i]->op_type, op) == 0 &&
                strcmp(model->graph->node[i]->attribute[k]->name, name) == 0)
                return model->graph->node[i]->attribute[k];
    fail();
    return NULL;
}

static void test_points_are_sampled_bilinear_with_zeros_or_the_border_outside(void **state)
{
    static const struct {
        const char *attribute, *word, *refused;
    } cases[] = {
        {"mode", "cubic", "samples by mode \"cubic\"; only bilinear"},
        {"mode", "nearest", "samples by mode \"nearest\"; only bilinear"},
        {"padding_mode", "reflection", "has padding_mode \"reflection\"; zeros and border are"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        Onnx__ModelProto *model = load("tests/models/fixtures/parts/points.onnx");
        Onnx__AttributeProto *attribute = attribute_of(model, "GridSample", cases[i].attribute);
        free(attribute->s.data);
        attribute->s.data = (uint8_t *)strdup(cases[i].word);
        attribute->s.len = strlen(cases[i].word);
        assert_refused(model, cases[i].refused);
        onnx__model_proto__free_unpacked(model, NULL);
    }
}

/* Adds a column of 0, 1, ... and that last number. */
static void add_column(Onnx__ModelProto *model, const char *name, size_t rows, int64_t last)
{
    Onnx__TensorProto *tensor =
        add_tensor(model, name, ONNX__TENSOR_PROTO__DATA_TYPE__INT64, 2, rows);
    tensor->n_int64_data = rows;
    tensor->int64_data = calloc(rows, sizeof *tensor->int64_data);
    assert_non_null(tensor->int64_data);
    for (size_t i = 0; i < rows; i++)
        tensor->int64_data[i] = i + 1 < rows ? (int64_t)i : last;
}

static void test_what_is_written_into_a_tensor_lies_in_it_and_once(void **state)
{
    enum { WIDTH = 11, WRITTEN = 10 }; /* columns, of which the first node writes all but one */
    static const int64_t wrong[] = {WIDTH, -WIDTH - 1, 3, -1 - WRITTEN};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        Onnx__ModelProto *model = load("tests/models/fixtures/parts/written_exported.onnx");
        add_column(model, "own.column", WRITTEN, wrong[i]);
        for (size_t k = 0; k < model->graph->n_node; k++)
            if (strcmp(model->graph->node[k]->op_type, "ScatterND") == 0)
                replace(&model->graph->node[k]->input[1], "own.column");
        assert_refused(model, "writes twice, or outside of the tensor");
        onnx__model_proto__free_unpacked(model, NULL);
    }
}

static void test_messages_nested_too_deeply_are_refused(void **state)
{
    enum { DEPTH = 4000 };
    static uint8_t bytes[DEPTH * 8];
    struct xt_onnx_net read;
    struct xt_err err = {0};
    size_t size = 0;
    (void)state;
    /* graph { node { attribute { g { ... } } } }, from the inside */
    for (int i = 0; i < DEPTH; i++) {
        static const uint8_t tags[] = {0x32, 0x2a, 0x0a};
        uint8_t head[8] = {i == DEPTH - 1 ? 0x3a : tags[i % 3]};
        size_t at = 1;
        for (size_t left = size; at == 1 || left; left >>= 7)
            head[at++] = (uint8_t)((left & 0x7f) | (left >> 7 ? 0x80 : 0));
        memmove(bytes + at, bytes, size);
        memcpy(bytes, head, at);
        size += at;
    }
    xt_onnx_read_bytes(&read, bytes, size, "deep.onnx", &err);
    support_assert_error(&err, XT_ERR_DATA, "nested too deeply");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_residual_network_keeps_its_layers_and_their_names),
        cmocka_unit_test(test_a_network_of_plates_gives_columns_of_symbols),
        cmocka_unit_test(test_permutes_about_layer_norms_need_no_nodes),
        cmocka_unit_test(test_attention_becomes_two_products_of_heads),
        cmocka_unit_test_setup_teardown(test_weights_and_metadata_come_along, support_make_folder,
                                        support_remove_folder),
        cmocka_unit_test_setup_teardown(
            test_weights_that_an_exporter_computed_from_lost_parameters_are_refused,
            support_make_folder, support_remove_folder),
        cmocka_unit_test_setup_teardown(test_a_gelu_of_turned_images_is_one_activation,
                                        support_make_folder, support_remove_folder),
        cmocka_unit_test_setup_teardown(test_layers_of_the_same_weights_share_a_parameter,
                                        support_make_folder, support_remove_folder),
        cmocka_unit_test_setup_teardown(
            test_equal_numbers_of_layers_that_may_be_different_are_refused, support_make_folder,
            support_remove_folder),
        cmocka_unit_test_setup_teardown(test_a_turned_weight_is_a_layers_own, support_make_folder,
                                        support_remove_folder),
        cmocka_unit_test_setup_teardown(
            test_a_parameter_of_one_number_that_an_exporter_reshaped_is_trained,
            support_make_folder, support_remove_folder),
        cmocka_unit_test_setup_teardown(
            test_equal_numbers_of_a_layer_that_is_called_again_are_one_parameter,
            support_make_folder, support_remove_folder),
        cmocka_unit_test(test_masks_of_whole_rows_are_refused),
        cmocka_unit_test(test_parameters_that_begin_alike_are_each_its_own),
        cmocka_unit_test(test_a_damaged_tensor_that_several_layers_read_is_refused),
        cmocka_unit_test(test_beside_tied_weights_parameters_that_begin_alike_are_refused),
        cmocka_unit_test_setup_teardown(
            test_equal_numbers_of_a_module_that_has_lost_a_parameter_are_refused,
            support_make_folder, support_remove_folder),
        cmocka_unit_test_setup_teardown(
            test_parameters_that_an_exporter_found_of_no_use_are_counted, support_make_folder,
            support_remove_folder),
        cmocka_unit_test_setup_teardown(test_folded_weights_get_the_names_of_their_module_and_bias,
                                        support_make_folder, support_remove_folder),
        cmocka_unit_test_setup_teardown(test_numbers_that_were_picked_from_a_parameter_are_refused,
                                        support_make_folder, support_remove_folder),
        cmocka_unit_test_setup_teardown(
            test_a_power_by_what_was_computed_from_a_parameter_is_refused, support_make_folder,
            support_remove_folder),
        cmocka_unit_test_setup_teardown(test_what_a_weight_is_computed_of_is_the_parameter,
                                        support_make_folder, support_remove_folder),
        cmocka_unit_test_setup_teardown(test_a_parameter_of_a_sequential_is_no_constant,
                                        support_make_folder, support_remove_folder),
        cmocka_unit_test_setup_teardown(test_a_weight_may_be_a_value_too, support_make_folder,
                                        support_remove_folder),
        cmocka_unit_test_setup_teardown(test_computed_weights_that_cannot_be_trained_are_refused,
                                        support_make_folder, support_remove_folder),
        cmocka_unit_test_setup_teardown(
            test_an_operator_that_is_not_there_is_refused_with_its_node_and_a_near_one,
            support_make_folder, support_remove_folder),
        cmocka_unit_test_setup_teardown(test_padding_and_resizing_that_cannot_be_are_refused,
                                        support_make_folder, support_remove_folder),
        cmocka_unit_test_setup_teardown(test_lies_about_sizes_are_refused, support_make_folder,
                                        support_remove_folder),
        cmocka_unit_test_setup_teardown(test_weights_that_are_not_finite_are_refused,
                                        support_make_folder, support_remove_folder),
        cmocka_unit_test_setup_teardown(test_of_branches_the_one_is_read_that_a_number_decides,
                                        support_make_folder, support_remove_folder),
        cmocka_unit_test_setup_teardown(test_branches_that_cannot_be_followed_are_refused,
                                        support_make_folder, support_remove_folder),
        cmocka_unit_test_setup_teardown(test_an_open_size_may_be_given, support_make_folder,
                                        support_remove_folder),
        cmocka_unit_test_setup_teardown(test_open_sizes_several_outputs_and_loops_are_refused,
                                        support_make_folder, support_remove_folder),
        cmocka_unit_test_setup_teardown(test_values_that_no_node_gives_are_refused,
                                        support_make_folder, support_remove_folder),
        cmocka_unit_test_setup_teardown(test_external_data_lies_in_the_folder_of_the_file,
                                        support_make_folder, support_remove_folder),
        cmocka_unit_test_setup_teardown(
            test_what_an_exporter_computed_from_a_parameter_is_no_constant, support_make_folder,
            support_remove_folder),
        cmocka_unit_test_setup_teardown(
            test_a_parameter_that_an_exporter_reshaped_gets_its_name_back, support_make_folder,
            support_remove_folder),
        cmocka_unit_test(test_points_are_sampled_bilinear_with_zeros_or_the_border_outside),
        cmocka_unit_test(test_what_is_written_into_a_tensor_lies_in_it_and_once),
        cmocka_unit_test(test_messages_nested_too_deeply_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
