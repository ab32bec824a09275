/* A described graph as an ONNX file: what stands in it, and what is refused. Other programs run
 * such files in tests/cli/test_export_models.sh. */
#include <onnx.pb-c.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"
#include "base/file.h"
#include "base/str.h"
#include "models/onnx/write/export.h"
#include "engine/executor.h"
#include "engine/net/fuse.h"
#include "engine/ops/ops.h"
#include "engine/ranges.h"

static const struct xt_normalise centred = {{127.5F, 127.5F, 127.5F}, {0.25F, 0.25F, 0.25F}};

struct bench {
    struct xt_device device;
    struct xt_params params;
    struct xt_graph *graph;
    struct xt_err err;
};

static void open_graph(struct bench *b, enum xt_dtype dtype)
{
    struct xt_graph_options options = {
        .device = &b->device, .params = &b->params, .batch = 1, .fuse = true, .dtype = dtype};
    if (xt_graph_create(&b->graph, &options, &b->err))
        fail_msg("%s", b->err.text);
}

/* An image, a convolution with its norm and ReLU, and a head. */
static struct xt_tensor *describe(struct bench *b)
{
    struct xt_conv_spec stem = {.name = "stem", .channels = 4, .kernel_h = 3, .kernel_w = 3};
    struct xt_conv_spec head = {
        .name = "head", .channels = 5, .kernel_h = 1, .kernel_w = 1, .bias = true};
    struct xt_norm_spec norm = {
        .name = "norm",
        .relu = true,
        .average = {.kernel_h = 4, .kernel_w = 6, .stride_h = 4, .stride_w = 6}};
    struct xt_tensor *x =
        xt_graph_conv(b->graph, xt_graph_input(b->graph, 6, 8, 3, &centred), &stem);
    return xt_graph_conv(b->graph, xt_graph_norm(b->graph, x, &norm).average, &head);
}

/* Parameters as a new network has them. */
static void make_params(struct bench *b)
{
    *b = (struct bench){0};
    if (xt_device_open(&b->device, "cpu", 1, &b->err))
        fail_msg("%s", b->err.text);
    open_graph(b, XT_F32);
    describe(b);
    assert_int_equal(xt_params_allocate(&b->params, false, &b->err), XT_OK);
    assert_int_equal(xt_params_initialise(&b->params, &b->device, 1, 0.5F, &b->err), XT_OK);
    xt_graph_destroy(b->graph);
    b->graph = NULL;
}

static void close_bench(struct bench *b)
{
    xt_graph_destroy(b->graph);
    xt_params_clear(&b->params);
    xt_device_close(&b->device);
}

static Onnx__ModelProto *read_model(const char *path)
{
    size_t size = 0;
    uint8_t *bytes = support_read_file(path, &size);
    Onnx__ModelProto *model = onnx__model_proto__unpack(NULL, size, bytes);
    assert_non_null(model);
    free(bytes);
    return model;
}

static void assert_nodes(const Onnx__GraphProto *graph, const char *const *types)
{
    size_t count = 0;
    for (; types[count]; count++) {
        assert_true(count < graph->n_node);
        assert_string_equal(graph->node[count]->op_type, types[count]);
    }
    assert_int_equal(graph->n_node, count);
}

static void a_graph_becomes_nodes_with_the_norm_in_their_weights(void **state)
{
    static const char *const types[] = {"Conv", "Relu", "AveragePool", "Conv", "Flatten", NULL};
    static const struct xt_file_meta meta[] = {{"model", "small"}, {"scale", "0.25"}};
    const char *path = support_path(*state, "small.onnx");
    struct bench b;
    struct xt_exported exported;
    make_params(&b);
    open_graph(&b, XT_F32);
    struct xt_export_options options = {
        .name = "small", .logits = describe(&b), .meta = meta, .meta_count = 2};
    assert_int_equal(xt_export_onnx(b.graph, &options, path, &exported, &b.err), XT_OK);
    Onnx__ModelProto *model = read_model(path);
    const Onnx__GraphProto *graph = model->graph;
    assert_nodes(graph, types);
    assert_int_equal(model->ir_version, exported.ir);
    assert_int_equal(model->opset_import[0]->version, exported.opset);
    assert_string_equal(graph->input[0]->name, "input");
    assert_string_equal(graph->output[0]->name, "logits");
    Onnx__TensorShapeProto *shape = graph->input[0]->type->tensor_type->shape;
    assert_string_equal(shape->dim[0]->dim_param, "batch");
    assert_int_equal(shape->dim[1]->dim_value, 3);
    assert_int_equal(shape->dim[3]->dim_value, 8);
    assert_string_equal(model->metadata_props[1]->key, "scale");
    assert_string_equal(model->metadata_props[1]->value, "0.25");
    onnx__model_proto__free_unpacked(model, NULL);
    close_bench(&b);
}

static void preparation_and_batch_are_in_the_graph_where_asked_for(void **state)
{
    static const char *const types[] = {"Transpose", "Cast", "Sub",     "Mul",         "Cast",
                                        "Conv",      "Relu", "Cast",    "AveragePool", "Cast",
                                        "Conv",      "Cast", "Flatten", NULL};
    const char *path = support_path(*state, "small.onnx");
    struct bench b;
    struct xt_exported exported;
    make_params(&b);
    open_graph(&b, XT_F16);
    struct xt_export_options options = {
        .name = "small", .logits = describe(&b), .batch = 7, .with_preprocess = true};
    assert_int_equal(xt_export_onnx(b.graph, &options, path, &exported, &b.err), XT_OK);
    Onnx__ModelProto *model = read_model(path);
    assert_nodes(model->graph, types);
    const Onnx__TypeProto__Tensor *takes = model->graph->input[0]->type->tensor_type;
    assert_string_equal(model->graph->input[0]->name, "images");
    assert_int_equal(takes->elem_type, ONNX__TENSOR_PROTO__DATA_TYPE__UINT8);
    assert_int_equal(takes->shape->dim[0]->dim_value, 7);
    assert_int_equal(takes->shape->dim[3]->dim_value, 3);
    onnx__model_proto__free_unpacked(model, NULL);
    close_bench(&b);
}

static void an_op_without_a_counterpart_is_refused_by_name(void **state)
{
    static const struct xt_op_kind strange = {.name = "crystal ball", .size = sizeof(struct xt_op)};
    const char *path = support_path(*state, "small.onnx");
    struct bench b;
    struct xt_exported exported;
    make_params(&b);
    open_graph(&b, XT_F32);
    struct xt_export_options options = {.name = "small", .logits = describe(&b)};
    xt_graph_add_op(b.graph, &strange, "layer7");
    assert_int_equal(xt_export_onnx(b.graph, &options, path, &exported, &b.err), XT_ERR_USAGE);
    support_assert_error(&b.err, XT_ERR_USAGE, "layer7 is a crystal ball");
    assert_false(xt_file_exists(path));
    close_bench(&b);
}

static void a_number_that_fp16_does_not_have_is_named(void **state)
{
    const char *path = support_path(*state, "small.onnx");
    struct bench b;
    struct xt_exported exported;
    make_params(&b);
    b.params.values[b.params.items[0].offset] = 1e6F;
    open_graph(&b, XT_F16);
    struct xt_export_options options = {.name = "small", .logits = describe(&b)};
    assert_int_equal(xt_export_onnx(b.graph, &options, path, &exported, &b.err), XT_ERR_DATA);
    support_assert_error(&b.err, XT_ERR_DATA, "stem.weight holds a number above 65504");
    close_bench(&b);
}

/* A residual block and an average over the image, in int8. */
static struct xt_tensor *describe_block(struct bench *b, enum xt_int8_layout layout,
                                        const struct xt_ranges *ranges)
{
    struct xt_graph_options options = {.device = &b->device,
                                       .params = &b->params,
                                       .batch = 1,
                                       .fuse = true,
                                       .dtype = XT_F32,
                                       .int8 = ranges,
                                       .int8_layout = layout};
    struct xt_net *net = xt_net_create(&b->err);
    struct xt_value *x = xt_net_input(net, 6, 8, 3);
    struct xt_value *first = NULL;
    for (int i = 0; i < 3; i++) {
        char name[8] = "conv0";
        char norm[8] = "norm0";
        name[4] = norm[4] = (char)('0' + i);
        struct xt_value *y = xt_net_conv(
            net, x, &(struct xt_net_conv){.name = name, .channels = 3, .kernel = {1, 1}});
        y = xt_net_batch_norm(net, y, &(struct xt_net_norm){.name = norm});
        x = xt_net_relu(net, i == 2 ? xt_net_add(net, y, first, "sum") : y);
        first = i ? first : x;
    }
    x = xt_net_avg_pool(net, x, &(struct xt_net_pool){.kernel = {6, 8}, .stride = {6, 8}});
    x = xt_net_conv(net, x, &(struct xt_net_conv){.name = "head", .channels = 5, .kernel = {1, 1}});
    assert_int_equal(xt_net_finish(net, x, &b->err), XT_OK);
    assert_int_equal(xt_graph_create(&b->graph, &options, &b->err), XT_OK);
    struct xt_tensor *logits = xt_net_lower(net, b->graph, &centred);
    xt_net_destroy(net);
    if (!logits)
        fail_msg("%s", b->graph->err.text);
    return logits;
}

/* The types of the nodes in order, separated by blanks; dequantisations are skipped. */
static void list_types(const Onnx__GraphProto *graph, size_t size, char *out)
{
    for (size_t i = 0; i < graph->n_node; i++)
        if (strcmp(graph->node[i]->op_type, "DequantizeLinear"))
            xt_str_append_to(out, size, "%s%s", *out ? " " : "", graph->node[i]->op_type);
}

static const Onnx__TensorProto *constant(const Onnx__GraphProto *graph, const char *name)
{
    for (size_t i = 0; i < graph->n_initializer; i++)
        if (!strcmp(graph->initializer[i]->name, name))
            return graph->initializer[i];
    fail_msg("no constant %s", name);
    return NULL;
}

/* The parameters of describe_block's network, and ranges for int8. */
static void make_block(struct bench *b, struct xt_ranges *ranges)
{
    make_params(b);
    xt_params_clear(&b->params);
    b->params = (struct xt_params){0};
    describe_block(b, XT_INT8_OWN, NULL);
    assert_int_equal(xt_params_allocate(&b->params, false, &b->err), XT_OK);
    assert_int_equal(xt_params_initialise(&b->params, &b->device, 1, 0.5F, &b->err), XT_OK);
    for (int i = 0; i < XT_TENSORS_MAX; i++)
        ranges->limit[i] = 1;
}

/* onnxruntime fuses a convolution and a sum whose inputs and output are quantised, all as u8;
 * OpenVINO the same with s8 where there is a sign, and averages in int8. The program's own layout
 * adds the residual in float32. */
static void int8_is_laid_for_the_runtime(void **state)
{
    static const struct {
        enum xt_int8_layout layout;
        bool for_onnxruntime;
        const char *types;
        int type_of_input, zero_of_input;
    } cases[] = {
        {XT_INT8_OWN, false,
         "Sub QuantizeLinear Conv Relu QuantizeLinear Conv Relu QuantizeLinear Conv Add Relu "
         "QuantizeLinear Max AveragePool "
         "Conv Flatten",
         ONNX__TENSOR_PROTO__DATA_TYPE__INT8, 0},
        {XT_INT8_SUMS, true,
         "Sub QuantizeLinear Conv Relu QuantizeLinear Conv Relu QuantizeLinear Conv QuantizeLinear "
         "Add Relu QuantizeLinear "
         "AveragePool Conv Flatten",
         ONNX__TENSOR_PROTO__DATA_TYPE__UINT8, 128},
        {XT_INT8_AVERAGES, false,
         "Sub QuantizeLinear Conv Relu QuantizeLinear Conv Relu QuantizeLinear Conv QuantizeLinear "
         "Add Relu QuantizeLinear "
         "AveragePool QuantizeLinear Conv Flatten",
         ONNX__TENSOR_PROTO__DATA_TYPE__INT8, 0},
    };
    const char *path = support_path(*state, "small.onnx");
    struct xt_ranges ranges = {.count = 1};
    struct xt_exported exported;
    struct bench b;
    make_block(&b, &ranges);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char types[256] = "";
        xt_graph_destroy(b.graph);
        const struct xt_export_options options = {.name = "small",
                                                  .logits =
                                                      describe_block(&b, cases[i].layout, &ranges),
                                                  .for_onnxruntime = cases[i].for_onnxruntime};
        assert_int_equal(xt_export_onnx(b.graph, &options, path, &exported, &b.err), XT_OK);
        Onnx__ModelProto *model = read_model(path);
        list_types(model->graph, sizeof types, types);
        assert_string_equal(types, cases[i].types);
        const Onnx__TensorProto *zero = constant(model->graph, "input/zero");
        assert_int_equal(zero->data_type, cases[i].type_of_input);
        assert_int_equal(zero->raw_data.data[0], cases[i].zero_of_input);
        onnx__model_proto__free_unpacked(model, NULL);
    }
    close_bench(&b);
}

/* The largest of the int8 weights. */
static int largest_weight(const Onnx__GraphProto *graph)
{
    int largest = 0;
    for (size_t i = 0; i < graph->n_initializer; i++) {
        const Onnx__TensorProto *tensor = graph->initializer[i];
        if (tensor->data_type != ONNX__TENSOR_PROTO__DATA_TYPE__INT8 || tensor->n_dims != 4)
            continue;
        for (size_t k = 0; k < tensor->raw_data.len; k++) {
            int weight = abs((int8_t)tensor->raw_data.data[k]);
            largest = weight > largest ? weight : largest;
        }
    }
    return largest;
}

static void int8_weights_have_8_bits_or_7(void **state)
{
    const char *path = support_path(*state, "small.onnx");
    struct xt_ranges ranges = {.count = 1};
    struct xt_exported exported;
    struct bench b;
    make_block(&b, &ranges);
    for (int of_7_bits = 0; of_7_bits < 2; of_7_bits++) {
        xt_graph_destroy(b.graph);
        const struct xt_export_options options = {
            .name = "small", .logits = describe_block(&b, XT_INT8_OWN, &ranges)};
        b.graph->options.int8_of_7_bits = of_7_bits;
        assert_int_equal(xt_export_onnx(b.graph, &options, path, &exported, &b.err), XT_OK);
        Onnx__ModelProto *model = read_model(path);
        assert_int_equal(largest_weight(model->graph), of_7_bits ? 63 : 127);
        onnx__model_proto__free_unpacked(model, NULL);
    }
    close_bench(&b);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, support_make_folder, support_remove_folder)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_graph_becomes_nodes_with_the_norm_in_their_weights),
        TEST(preparation_and_batch_are_in_the_graph_where_asked_for),
        TEST(an_op_without_a_counterpart_is_refused_by_name),
        TEST(a_number_that_fp16_does_not_have_is_named),
        TEST(int8_is_laid_for_the_runtime),
        TEST(int8_weights_have_8_bits_or_7),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
