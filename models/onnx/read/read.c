#include "models/onnx/read/read.h"

#include <math.h>
#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "models/onnx/read/ops.h"

/* Pixels that a network makes smaller still are bytes. */
static const double reads_bytes_below = 1 / 32.0;

/* ---- operators ---- */

static const struct operator
{
    const char *op;
    bool (*read)(struct xt_reader * reader, struct xt_read_node * node);
}
operators[] = {
    {"Conv", xt_read_conv},
    {"ConvTranspose", xt_read_conv_transpose},
    {"Gemm", xt_read_linear},
    {"(linear)", xt_read_linear},
    {"MatMul", xt_read_matmul},
    {"BatchNormalization", xt_read_batch_norm},
    {"(batch norm)", xt_read_batch_norm},
    {"(weight norm)", xt_read_weight_norm},
    {"LayerNormalization", xt_read_layer_norm},
    {"(layer norm)", xt_read_layer_norm},
    {"(activation)", xt_read_activation},
    {"Relu", xt_read_activation},
    {"LeakyRelu", xt_read_activation},
    {"Clip", xt_read_activation},
    {"Sigmoid", xt_read_activation},
    {"HardSigmoid", xt_read_activation},
    {"HardSwish", xt_read_activation},
    {"Tanh", xt_read_activation},
    {"Softplus", xt_read_activation},
    {"Exp", xt_read_activation},
    {"Log", xt_read_activation},
    {"Mish", xt_read_activation},
    {"Gelu", xt_read_activation},
    {"Neg", xt_read_activation},
    {"Abs", xt_read_activation},
    {"Sqrt", xt_read_activation},
    {"Reciprocal", xt_read_activation},
    {"Pow", xt_read_power},
    {"Add", xt_read_binary},
    {"Sub", xt_read_binary},
    {"Mul", xt_read_binary},
    {"Div", xt_read_binary},
    {"Concat", xt_read_concat},
    {"Slice", xt_read_slice},
    {"ReverseSequence", xt_read_reverse_sequence},
    {"Split", xt_read_split},
    {"Gather", xt_read_gather},
    {"GatherND", xt_read_gather},
    {"ScatterND", xt_read_scatter},
    {"ScatterElements", xt_read_scatter_elements},
    {"Transpose", xt_read_transpose},
    {"Reshape", xt_read_reshape_op},
    {"Flatten", xt_read_flatten},
    {"Squeeze", xt_read_squeeze},
    {"Unsqueeze", xt_read_unsqueeze},
    {"Expand", xt_read_expand},
    {"Tile", xt_read_tile},
    {"ConstantOfShape", xt_read_filled},
    {"Identity", xt_read_same},
    {"Cast", xt_read_same},
    {"CastLike", xt_read_same},
    {"Pad", xt_read_pad},
    {"MaxPool", xt_read_pool},
    {"AveragePool", xt_read_pool},
    {"GlobalMaxPool", xt_read_pool},
    {"GlobalAveragePool", xt_read_pool},
    {"(adaptive pool)", xt_read_adaptive_pool},
    {"ReduceMean", xt_read_reduce},
    {"ReduceMax", xt_read_reduce},
    {"ReduceSum", xt_read_reduce},
    {"ReduceSumSquare", xt_read_reduce},
    {"ReduceL2", xt_read_reduce},
    {"ReduceL1", xt_read_reduce},
    {"ReduceMin", xt_read_reduce},
    {"ReduceLogSumExp", xt_read_reduce},
    {"Elu", xt_read_activation},
    {"Selu", xt_read_scaled_elu},
    {"Celu", xt_read_scaled_elu},
    {"PRelu", xt_read_prelu},
    {"Max", xt_read_extreme},
    {"Min", xt_read_extreme},
    {"InstanceNormalization", xt_read_instance_norm},
    {"GroupNormalization", xt_read_group_norm},
    {"DepthToSpace", xt_read_blocks},
    {"SpaceToDepth", xt_read_blocks},
    {"Resize", xt_read_resize},
    {"Upsample", xt_read_resize},
    {"CumSum", xt_read_running_sum},
    {"AffineGrid", xt_read_affine_grid},
    {"GridSample", xt_read_grid_sample},
    {"Dropout", xt_read_dropout},
    {"(dropout)", xt_read_dropout},
    {"Einsum", xt_read_einsum},
    {"Softmax", xt_read_softmax},
    {"Attention", xt_read_attention},
    {"LogSoftmax", xt_read_log_softmax},
    {"LRN", xt_read_response_norm},
    {"Greater", xt_read_compare},
    {"GreaterOrEqual", xt_read_compare},
    {"Less", xt_read_compare},
    {"LessOrEqual", xt_read_compare},
    {"Equal", xt_read_compare},
    {"And", xt_read_logic},
    {"Or", xt_read_logic},
    {"Not", xt_read_logic},
    {"Where", xt_read_where},
    {"Sign", xt_read_sign},
    {"If", xt_read_if},
    {"LSTM", xt_read_recurrent},
    {"GRU", xt_read_recurrent},
    {"RNN", xt_read_recurrent},
};
enum { OPERATORS = sizeof operators / sizeof *operators };

/* What is near in meaning, where the spelling says something else or nothing. */
static const char *advice_on(const char *op)
{
    static const char alike[] = "BatchNormalization, LayerNormalization, GroupNormalization and "
                                "InstanceNormalization are supported";
    static const char chosen[] =
        "elements can be chosen by comparisons (Greater, Where) alone, not by "
        "indices that the network computes";
    static const char functions[] =
        "of the functions of one value there are Exp, Log, Sqrt, Abs, Pow, "
        "Reciprocal, Tanh, Sigmoid and the usual activations";
    static const char quantised[] = "export the network before it is quantised";
    static const char *const advice[][2] = {
        {"MeanVarianceNormalization", alike},
        {"Sin", functions},
        {"Cos", functions},
        {"Floor", functions},
        {"Round", functions},
        {"TopK", chosen},
        {"ArgMax", chosen},
        {"NonZero", chosen},
        {"GatherElements", chosen},
        {"RandomUniformLike", "Dropout and stochastic depth are supported"},
        {"RandomNormalLike", "Dropout and stochastic depth are supported"},
        {"Bernoulli", "Dropout and stochastic depth are supported"},
        {"QuantizeLinear", quantised},
        {"DequantizeLinear", quantised},
    };
    for (size_t i = 0; i < sizeof advice / sizeof *advice; i++)
        if (strcmp(advice[i][0], op) == 0)
            return advice[i][1];
    return NULL;
}

/* Whether it computes with weights alone. */
static bool is_of_weights(struct xt_reader *reader, const struct xt_read_node *node)
{
    bool any = false;
    for (int i = 0; i < node->input_count; i++) {
        struct xt_read_value *value = node->inputs[i];
        const struct xt_read_constant *constant = value ? xt_read_constant_of(reader, value) : NULL;
        if (value && !constant)
            return false;
        any = any || (constant && constant->tensor && constant->is_float);
    }
    return any;
}

static bool refuse_operator(struct xt_reader *reader, const struct xt_read_node *node)
{
    const char *names[OPERATORS];
    size_t count = 0;
    if (is_of_weights(reader, node))
        return xt_reader_refuse(reader, node,
                                "computes a weight from others by an operator that is not there; "
                                "torch.nn.utils.parametrize.remove_parametrizations stores the "
                                "result as the weight");
    const char *advice = advice_on(node->op);
    if (advice)
        return xt_reader_refuse(reader, node, "is an operator that is not there; %s", advice);
    struct xt_str all = {0};
    for (int i = 0; i < OPERATORS; i++)
        if (operators[i].op[0] != '(')
            names[count++] = operators[i].op;
    const char *near = xt_str_nearest(node->op, names, count);
    for (size_t i = 0; i < count; i++)
        xt_str_printf(&all, NULL, "%s%s", i ? ", " : "", names[i]);
    if (near)
        xt_reader_refuse(reader, node, "is an operator that is not there; %s is", near);
    else
        xt_reader_refuse(reader, node, "is an operator that is not there; there are %s",
                         xt_str_get(&all));
    xt_str_clear(&all);
    return false;
}

static bool read_op(struct xt_reader *reader, struct xt_read_node *node)
{
    for (int i = 0; i < OPERATORS; i++)
        if (xt_read_is(node, operators[i].op))
            return operators[i].read(reader, node);
    return refuse_operator(reader, node);
}

bool xt_read_give(struct xt_read_node *node, struct xt_read_view *view)
{
    if (view && node->output_count && node->outputs[0])
        node->outputs[0]->view = view;
    return view != NULL;
}

struct xt_read_view *xt_read_view_of(struct xt_reader *reader, const struct xt_read_node *node,
                                     struct xt_read_value *value)
{
    if (value->view)
        return value->view;
    if (xt_read_constant_of(reader, value))
        return xt_read_parameter(reader, node, value);
    xt_reader_refuse(reader, node, "reads \"%s\", of which nothing is known",
                     xt_str_quote(value->name, strlen(value->name)).text);
    return NULL;
}

struct xt_read_view *xt_read_data(struct xt_reader *reader, struct xt_read_node *node, int i)
{
    struct xt_read_value *value = xt_read_input(node, i);
    if (value && value->is_empty)
        return xt_reader_refuse(reader, node, "reads a part of no elements");
    struct xt_read_view *view = value ? xt_read_view_of(reader, node, value) : NULL;
    if (!value)
        xt_reader_refuse(reader, node, "has no input %d", i);
    if (view)
        value->view = view = xt_read_padded(reader, node, view);
    return view ? xt_read_copy(reader, view) : NULL;
}

/* ---- the net ---- */

/* Marks what the output needs, from the last node to the first. */
static void mark_live(struct xt_reader *reader)
{
    for (size_t i = 0; i < reader->value_count; i++)
        reader->by_name[i]->readers = 0;
    reader->output->readers = 1;
    for (size_t i = reader->node_count; i-- > 0;) {
        struct xt_read_node *node = &reader->nodes[i];
        for (int k = 0; k < node->output_count; k++)
            node->live = node->live || (node->outputs[k] && node->outputs[k]->readers);
        reader->has_sines = reader->has_sines ||
                            (node->live && (xt_read_is(node, "Sin") || xt_read_is(node, "Cos")));
        int apart = node->live ? xt_read_begin_write(node) : -1;
        for (int k = 0; node->live && k < node->input_count; k++)
            if (node->inputs[k] && k != apart)
                node->inputs[k]->readers++;
    }
}

static bool walk(struct xt_reader *reader)
{
    static const int colours_first[] = {XT_READ_N, XT_AXIS_C, XT_AXIS_H, XT_AXIS_W};
    static const int colours_last[] = {XT_READ_N, XT_AXIS_H, XT_AXIS_W, XT_AXIS_C};
    struct xt_value *input =
        xt_net_input(reader->net, reader->height, reader->width, reader->colours);
    reader->input->view =
        xt_read_view(reader, input, 4, reader->colours_last ? colours_last : colours_first);
    reader->pixels = input;
    reader->pixel_scale = 1;
    mark_live(reader);
    if (!xt_read_check_weights(reader))
        return false;
    for (size_t i = 0; i < reader->node_count; i++) {
        struct xt_read_node *node = &reader->nodes[i];
        if (!node->live || !xt_read_is_taken(reader, node) || xt_read_fold(reader, node))
            continue;
        if (xt_reader_fails(reader) || !read_op(reader, node)) {
            if (xt_net_fails(reader->net))
                xt_reader_refuse(reader, node, "cannot be: %s", reader->net->err.text);
            return xt_reader_refuse(reader, node, "cannot be read");
        }
    }
    return true;
}

/* The axis of the classes: the last, or the middle one of [n][symbols][T]. */
static struct xt_value *logits_of(struct xt_reader *reader)
{
    struct xt_read_view *view = reader->output->view;
    int homes[XT_READ_DIMS_MAX] = {0};
    int axes = 0;
    int last = -1;
    int channels = -1;
    if (!view)
        return xt_reader_refuse(reader, NULL, "its output does not depend on the images");
    bool known = xt_read_homes(view, homes);
    for (int i = 0; i < view->ndims; i++) {
        int64_t dim = xt_read_dim(view, i);
        bool counts = dim != 1 && dim != XT_READ_BATCH;
        axes += counts;
        last = counts ? i : last;
        channels = counts && known && homes[i] == XT_AXIS_C ? i : channels;
    }
    channels = channels < 0 ? last : channels;
    if (axes < 1 || axes > 2 || xt_read_dim(view, channels) % XT_READ_BATCH == 0)
        return xt_reader_refuse(
            reader, NULL,
            "its output is neither [n][classes] nor [n][columns][symbols]: networks "
            "that tell classes apart or read plates are trained here");
    for (int i = 0; i < view->ndims; i++)
        homes[i] = i == channels                           ? XT_AXIS_C
                   : xt_read_dim(view, i) == XT_READ_BATCH ? XT_READ_N
                   : xt_read_dim(view, i) == 1             ? XT_READ_NONE
                                                           : XT_AXIS_W;
    return xt_read_lay_out(reader, NULL, view, homes);
}

/* The loss and predict take the softmax of logits: one that ends the network is left off. */
static bool drop_softmax(struct xt_reader *reader)
{
    bool dropped = false;
    struct xt_read_node *node = reader->output->producer;
    while (node && node->input_count &&
           (xt_read_is(node, "Softmax") || xt_read_is(node, "LogSoftmax") ||
            xt_read_is(node, "Identity"))) {
        dropped = dropped || !xt_read_is(node, "Identity");
        reader->output = node->inputs[0];
        node = reader->output ? reader->output->producer : NULL;
    }
    return dropped;
}

/* ---- initial weights ---- */

static enum xt_status copy_floats(struct xt_reader *reader, size_t i, struct xt_weight_file *out,
                                  float *to, struct xt_err *err)
{
    const struct xt_file_tensor *tensor = reader->initial[i];
    size_t count = xt_file_tensor_count(tensor);
    size_t rows = tensor->ndims ? (size_t)tensor->dims[0] : 1;
    float *copy = NULL;
    (void)out;
    enum xt_status status = xt_file_tensor_floats(tensor, to, count, err);
    for (size_t k = 0; k < count && !status; k++)
        if (!isfinite(to[k]))
            status = xt_err_set(err, XT_ERR_DATA,
                                "the tensor %s holds a number that is not finite, at %zu",
                                reader->net->params[i].name, k);
    if (status || !reader->initial_transposed[i])
        return status;
    status = xt_mem_calloc(&copy, count, sizeof *copy, "a weight", err);
    if (status)
        return status;
    memcpy(copy, to, count * sizeof *copy);
    for (size_t k = 0; k < count; k++)
        to[k % (count / rows) * rows + k / (count / rows)] = copy[k];
    free(copy);
    return XT_OK;
}

static enum xt_status add_weight(struct xt_reader *reader, size_t i, struct xt_weight_file *out,
                                 struct xt_err *err)
{
    const struct xt_net_param *param = &reader->net->params[i];
    struct xt_file_tensor *tensor = &out->tensors[out->count];
    size_t count = xt_net_param_elements(param);
    float *data = NULL;
    if (i >= reader->initial_capacity || !reader->initial[i])
        return XT_OK;
    enum xt_status status =
        xt_weight_store_name(out, &tensor->name, param->name, strlen(param->name), err);
    if (!status && count != xt_file_tensor_count(reader->initial[i]))
        status =
            xt_err_set(err, XT_ERR_DATA, "the tensor %s has %zu elements, where %zu are wanted",
                       param->name, xt_file_tensor_count(reader->initial[i]), count);
    if (!status)
        status = xt_weight_store_alloc(out, &data, count, sizeof *data, "a weight", err);
    if (!status)
        status = copy_floats(reader, i, out, data, err);
    if (status)
        return status;
    tensor->dtype = XT_F32;
    tensor->ndims = param->ndims;
    for (int k = 0; k < param->ndims; k++)
        tensor->dims[k] = param->dims[k];
    tensor->data = data;
    tensor->bytes = count * sizeof *data;
    out->count++;
    return XT_OK;
}

static enum xt_status take_meta(struct xt_reader *reader, struct xt_weight_file *out,
                                struct xt_err *err)
{
    const Onnx__ModelProto *model = reader->file.model;
    enum xt_status status =
        xt_weight_store_alloc(out, &out->meta, model->n_metadata_props + 1, sizeof *out->meta,
                              "the metadata of the ONNX model", err);
    for (size_t i = 0; i < model->n_metadata_props && !status; i++) {
        const Onnx__StringStringEntryProto *entry = model->metadata_props[i];
        struct xt_file_meta *meta = &out->meta[out->meta_count];
        char *key = NULL;
        char *value = NULL;
        if (!entry->key || !entry->value ||
            !xt_weight_store_is_text(entry->key, strlen(entry->key), false) ||
            !xt_weight_store_is_text(entry->value, strlen(entry->value), true))
            continue;
        status = xt_weight_store_alloc(out, &key, strlen(entry->key) + 1, 1, "metadata", err);
        if (!status)
            status =
                xt_weight_store_alloc(out, &value, strlen(entry->value) + 1, 1, "metadata", err);
        if (status)
            break;
        memcpy(key, entry->key, strlen(entry->key) + 1);
        memcpy(value, entry->value, strlen(entry->value) + 1);
        *meta = (struct xt_file_meta){key, value};
        out->meta_count++;
    }
    return status;
}

static enum xt_status take_weights(struct xt_reader *reader, struct xt_weight_file *out,
                                   struct xt_err *err)
{
    size_t count = reader->net ? reader->net->param_count : 0;
    enum xt_status status = xt_weight_store_alloc(out, &out->tensors, count + 1,
                                                  sizeof *out->tensors, "the weights", err);
    for (size_t i = 0; i < count && !status; i++)
        status = add_weight(reader, i, out, err);
    return status ? status : take_meta(reader, out, err);
}

/* ---- the file ---- */

/* Whether batch norms have become part of convolutions: the file says so, TensorFlow's optimiser
 * has merged a weight with something, or there is none in a file of PyTorch's and a convolution's
 * weight or bias is an exporter's own, or it has no bias. */
static bool is_folded(const struct xt_reader *reader)
{
    bool is_foreign = reader->is_foreign;
    bool made = false;
    if (reader->signature.folded)
        return true;
    for (size_t i = 0; i < reader->node_count; i++) {
        const struct xt_read_node *node = &reader->nodes[i];
        const struct xt_read_value *weight =
            xt_read_is(node, "Conv") ? xt_read_input(node, 1) : NULL;
        const struct xt_read_value *bias = weight ? xt_read_input(node, 2) : NULL;
        if (is_foreign && weight && strstr(weight->name, ".merged_input"))
            return true;
        made = made || (weight && !weight->view &&
                        (xt_read_is_made_up(reader, weight->name) || !bias ||
                         xt_str_ends(bias->name, ".weight_bias")));
    }
    return made && !reader->norms && !is_foreign;
}

/* Parameters that the file has under another name than PyTorch's. */
static size_t count_renamed(const struct xt_reader *reader)
{
    size_t params = reader->net && reader->signature.count ? reader->net->param_count : 0;
    size_t count = 0;
    for (size_t i = 0; i < params; i++)
        count += i < reader->initial_capacity && reader->initial[i] &&
                 xt_read_origin_of(reader, reader->net->params[i].name) == XT_READ_MADE;
    return count;
}

/* Parameters that the net has under no name. */
static void find_missing(const struct xt_reader *reader, struct xt_onnx_net *out)
{
    const struct xt_read_signature *signature = &reader->signature;
    for (size_t i = 0; i < signature->count && signature->lost; i++) {
        const struct xt_read_target *target = &signature->targets[i];
        if (!xt_read_is_missing(reader, target))
            continue;
        if (!out->missing++)
            snprintf(out->first_missing, sizeof out->first_missing, "%s", target->name);
    }
}

static enum xt_status read_net(struct xt_reader *reader, struct xt_onnx_net *out,
                               struct xt_err *err)
{
    reader->net = out->net = xt_net_create(&reader->err);
    struct xt_value *logits = NULL;
    if (reader->net && xt_reader_load(reader) && xt_read_take_signature(reader)) {
        out->ends_in_softmax = drop_softmax(reader);
        if (reader->output && xt_reader_match(reader) && walk(reader))
            logits = logits_of(reader);
    }
    if (!logits && !xt_reader_fails(reader))
        xt_reader_refuse(reader, NULL, "%s",
                         reader->net && xt_net_fails(reader->net) ? reader->net->err.text
                                                                  : "it has no output");
    if (xt_reader_fails(reader))
        return xt_err_set(err, reader->err.status, "%s", reader->err.text);
    out->folded = is_folded(reader);
    out->may_be_folded = !out->folded && !reader->norms && reader->is_foreign;
    out->normalises = reader->pixels != reader->input->view->value || reader->pixel_scale != 1;
    out->reads_bytes = reader->pixel_scale < reads_bytes_below;
    out->renamed = count_renamed(reader);
    out->splits = reader->signature.splits;
    find_missing(reader, out);
    enum xt_status status = xt_net_finish(reader->net, logits, err);
    return status ? status : take_weights(reader, &out->weights, err);
}

static enum xt_status finish(struct xt_reader *reader, struct xt_onnx_net *out,
                             enum xt_status status, const char *name, struct xt_err *err)
{
    struct xt_err why = {0};
    if (!status)
        status = read_net(reader, out, &why);
    else if (err)
        why = *err;
    xt_weight_file_clear(&reader->store);
    xt_onnx_file_close(&reader->file);
    if (!status)
        return XT_OK;
    xt_onnx_net_clear(out);
    return xt_err_set(err, status, "%s: %s", name, why.text);
}

enum xt_status xt_onnx_read(struct xt_onnx_net *out, const char *path, int side, struct xt_err *err)
{
    struct xt_reader reader = {.side = side};
    *out = (struct xt_onnx_net){0};
    enum xt_status status = xt_onnx_file_open(&reader.file, path, err);
    return finish(&reader, out, status, path, err);
}

enum xt_status xt_onnx_read_bytes(struct xt_onnx_net *out, const uint8_t *bytes, size_t size,
                                  const char *name, struct xt_err *err)
{
    struct xt_reader reader = {0};
    *out = (struct xt_onnx_net){0};
    enum xt_status status = xt_onnx_file_parse(&reader.file, bytes, size, err);
    return finish(&reader, out, status, name, err);
}

void xt_onnx_net_clear(struct xt_onnx_net *net)
{
    xt_net_destroy(net->net);
    xt_weight_file_clear(&net->weights);
    *net = (struct xt_onnx_net){0};
}
