/* Operators with parameters, which take PyTorch's names from the initializers. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "models/onnx/read/ops.h"

/* ---- names ---- */

/* Names of layers and parameters of one node. */
struct names {
    char layer[XT_PARAM_NAME_MAX];
    char weight[XT_PARAM_NAME_MAX], bias[XT_PARAM_NAME_MAX];
};

bool xt_read_module_of(const struct xt_read_node *node, char *out, size_t size)
{
    const char *at = node->proto->name ? node->proto->name : "";
    char last[XT_PARAM_NAME_MAX] = "";
    size_t length = 0;
    out[0] = 0;
    while (*at == '/') {
        const char *end = strchr(++at, '/');
        char part[XT_PARAM_NAME_MAX];
        if (!end)
            break;
        if ((size_t)(end - at) >= sizeof part)
            return false;
        snprintf(part, sizeof part, "%.*s", (int)(end - at), at);
        bool repeats = *last && xt_str_starts(part, last) && part[strlen(last)] == '.';
        const char *own = repeats ? part + strlen(last) + 1 : part;
        int added = snprintf(out + length, size - length, "%s%s", length ? "." : "", own);
        if (added < 0 || (size_t)added >= size - length)
            return false;
        length += (size_t)added;
        snprintf(last, sizeof last, "%s", part);
        at = end;
    }
    return length > 0;
}

static bool fits(const char *name)
{
    return strlen(name) < XT_PARAM_NAME_MAX;
}

/* "NAME" of "NAME.weight". */
static bool strip(const char *name, const char *end, char *out)
{
    size_t length = strlen(name);
    size_t cut = strlen(end);
    if (length <= cut || strcmp(name + length - cut, end) != 0)
        return false;
    snprintf(out, XT_PARAM_NAME_MAX, "%.*s", (int)(length - cut), name);
    return true;
}

/* The parameter that the tensor of a layer's weights is already, whose name is not the tensor's;
 * NULL: none. Vectors that are alike may be several parameters' values, stored once. */
static const char *name_so_far(const struct xt_reader *reader,
                               const struct xt_read_constant *weight)
{
    for (size_t i = 0; i < reader->net->param_count && i < reader->initial_capacity; i++)
        if (reader->initial[i] == weight->tensor && weight->ndims > 1)
            return reader->net->params[i].name;
    return NULL;
}

/* `weight` NULL: it is computed. */
static bool name_layer(struct xt_reader *reader, const struct xt_read_node *node,
                       const struct xt_read_constant *weight, const struct xt_read_constant *bias,
                       struct names *out)
{
    const char *own = weight ? weight->name : "";
    const char *second = bias ? bias->name : NULL;
    bool keeps_second = second && !xt_read_is_lost(reader, second);
    bool lost = !*own || xt_read_is_lost(reader, own);
    const char *known = lost && weight ? name_so_far(reader, weight) : NULL;
    if (known) {
        own = known;
        lost = false;
    }
    if (!reader->is_foreign && (!fits(own) || (second && !fits(second))))
        return xt_reader_refuse(reader, node, "has a parameter whose name is longer than %d bytes",
                                XT_PARAM_NAME_MAX - 1);
    char beside[XT_PARAM_NAME_MAX + sizeof "_weight"]; /* of "in_proj_bias" */
    const char *weight_name = lost ? xt_read_lost_name(reader, node, "weight") : NULL;
    const char *only = lost && !weight_name && weight ? xt_read_only_lost(reader, node) : NULL;
    if (lost && !weight_name && !only && weight && keeps_second &&
        strip(second, "_bias", out->layer)) {
        snprintf(beside, sizeof beside, "%s_weight", out->layer);
        only = beside;
    }
    if (only && fits(only)) {
        own = only;
        lost = false;
    }
    bool named =
        (weight_name && strip(weight_name, ".weight", out->layer)) ||
        (!lost && (strip(own, ".weight", out->layer) || strip(own, ".running_mean", out->layer))) ||
        (only && strip(only, "_weight", out->layer)) ||
        (keeps_second && strip(second, ".bias", out->layer)) ||
        xt_read_foreign_layer(reader, node, own, out->layer) ||
        xt_read_module_of(node, out->layer, sizeof out->layer);
    if (!named)
        snprintf(out->layer, sizeof out->layer, "layer%zu", reader->net->node_count);
    int length = snprintf(out->weight, sizeof out->weight, "%s%s", lost ? out->layer : own,
                          lost ? ".weight" : "");
    int more = keeps_second ? snprintf(out->bias, sizeof out->bias, "%s", second)
                            : snprintf(out->bias, sizeof out->bias, "%s.bias", out->layer);
    return (length < XT_PARAM_NAME_MAX && more < XT_PARAM_NAME_MAX) ||
           xt_reader_refuse(reader, node, "has a parameter whose name is longer than %d bytes",
                            XT_PARAM_NAME_MAX - 1);
}

/* ---- initial values ---- */

static bool begin_as(struct xt_reader *reader, const struct xt_value *made, int which,
                     const struct xt_read_constant *constant, bool transposed)
{
    if (!made || !constant)
        return made != NULL;
    int param = made->of->params[which];
    size_t need = reader->net->param_capacity + 1;
    if (param < 0)
        return true;
    if (need > reader->initial_capacity) {
        const struct xt_file_tensor **initial = xt_reader_take(reader, need, sizeof *initial);
        bool *swapped = xt_reader_take(reader, need, sizeof *swapped);
        if (!initial || !swapped)
            return false;
        if (reader->initial) {
            memcpy(initial, reader->initial, reader->initial_capacity * sizeof *initial);
            memcpy(swapped, reader->initial_transposed, reader->initial_capacity * sizeof *swapped);
        }
        reader->initial = initial;
        reader->initial_transposed = swapped;
        reader->initial_capacity = need;
    }
    const struct xt_file_tensor *so_far = reader->initial[param];
    if (so_far && so_far != constant->tensor)
        return xt_reader_refuse(reader, NULL,
                                "it has two layers of the name %s, each with weights of its own",
                                made->of->name);
    reader->initial[param] = constant->tensor;
    reader->initial_transposed[param] = transposed;
    return true;
}

/* The node of a module that is called again has "_1", "_2" behind the module's name: those are
 * cut off, but where the file has parameters of that very name. */
static void cut_count(const struct xt_reader *reader, char *module)
{
    char *digits = strrchr(module, '_');
    char start[XT_PARAM_NAME_MAX + 1];
    if (!digits || !digits[1] || digits[1 + strspn(digits + 1, "0123456789")])
        return;
    snprintf(start, sizeof start, "%s.", module);
    if (!xt_read_begins_with(reader, start))
        *digits = 0;
}

/* Whether the node is of the module that the parameter is of, or of one around that. */
static bool is_of_module(const struct xt_reader *reader, const struct xt_read_node *node,
                         const char *parameter)
{
    char module[XT_PARAM_NAME_MAX];
    if (!xt_read_module_of(node, module, sizeof module) || xt_read_lies_in(parameter, module))
        return true;
    cut_count(reader, module);
    return xt_read_lies_in(parameter, module);
}

/* Refuses a tensor that several layers may have by chance: PyTorch's newer exporter, and programs
 * that simplify files, store equal tensors once, such as scales that are ones before training.
 * A single number that was drawn is no chance. */
static bool is_one_parameter(struct xt_reader *reader, const struct xt_read_node *node,
                             const struct xt_read_value *value, struct xt_read_constant *constant)
{
    double number = 0;
    /* The other exporter names each node after its module, of the network itself "/Pow". */
    bool knows = (node->proto->name && *node->proto->name == '/' &&
                  is_of_module(reader, node, constant->name)) ||
                 xt_read_is_own_export(reader);
    bool learns = xt_read_is_learned(reader, constant) ||
                  (reader->signature.lost && constant->tensor && constant->count > 1);
    if (value->readers < 2 || !learns || knows || xt_read_is_one(reader, value) ||
        !xt_read_all_equal(reader, constant, &number) ||
        (constant->count == 1 && number != 0 && number != 1))
        return true;
    return xt_reader_refuse(
        reader, node,
        "reads %s, as other nodes do, and its numbers are all equal: the exporter may have stored "
        "what several layers begin with once; export %strained weights, and give the file as it is "
        "then",
        xt_str_quote(value->name, strlen(value->name)).text,
        reader->is_foreign ? "" : "with optimize=False or dynamo=False, or with ");
}

/* An input that is one of the file's tensors, of that many dimensions. */
static struct xt_read_constant *weight_of(struct xt_reader *reader, struct xt_read_node *node,
                                          int i, int ndims)
{
    struct xt_read_value *value = xt_read_input(node, i);
    struct xt_read_constant *constant = value ? xt_read_constant_of(reader, value) : NULL;
    if (constant && constant->tensor && constant->ndims == ndims &&
        constant->tensor->ndims == ndims && constant->is_float)
        return is_one_parameter(reader, node, value, constant) ? constant : NULL;
    xt_reader_refuse(reader, node,
                     "needs as its input %d a tensor of %d dimensions stored in the file: weights "
                     "that are computed from others, or from the images, cannot be trained here",
                     i, ndims);
    return NULL;
}

static bool optional_bias(struct xt_reader *reader, struct xt_read_node *node, int i,
                          int64_t channels, struct xt_read_constant **out)
{
    *out = NULL;
    double none = 1;
    struct xt_read_value *value = xt_read_input(node, i);
    struct xt_read_constant *computed = value ? xt_read_constant_of(reader, value) : NULL;
    /* Exporters write a bias of zeros, computed by the weight's shape, where there is none; one
     * that is computed of parameters is added behind the layer. */
    if (!value || value->view ||
        (computed && !computed->tensor && xt_read_number(reader, value, &none) && none == 0))
        return true;
    *out = weight_of(reader, node, i, 1);
    return *out && ((*out)->dims[0] == channels ||
                    xt_reader_refuse(reader, node, "has a bias of %lld elements for %lld channels",
                                     (long long)(*out)->dims[0], (long long)channels));
}

/* Gives what a layer computes, with a computed bias, a vector that lies along the axis. */
static bool give_layer(struct xt_reader *reader, struct xt_read_node *node,
                       struct xt_read_view *view, int axis)
{
    const struct xt_read_value *bias = xt_read_input(node, 2);
    if (!view || !bias || !bias->view)
        return xt_read_give(node, view);
    struct xt_read_view *vector = xt_read_vector(reader, node, 2, axis, view->ndims);
    return xt_read_give(node, vector ? xt_read_combine(reader, node, view, vector, false) : NULL);
}

/* ---- convolution ---- */

/* The weight of a layer, a tensor of the file or computed, and its shape. */
struct weight {
    struct xt_read_constant *constant;
    struct xt_read_view *computed; /* one of both is NULL */
    int64_t dims[XT_READ_DIMS_MAX];
};

/* Whether more than layers read it, so that it is a value too. */
static bool is_value_too(const struct xt_reader *reader, const struct xt_read_value *value)
{
    static const char *const layers[] = {"Conv", "Gemm", "MatMul", "(linear)"};
    for (size_t i = 0; value->readers > 1 && i < reader->node_count; i++) {
        const struct xt_read_node *node = &reader->nodes[i];
        bool reads = false;
        for (int k = 0; node->live && k < node->input_count; k++)
            reads = reads || node->inputs[k] == value;
        for (size_t k = 0; k < sizeof layers / sizeof *layers; k++)
            reads = reads && !xt_read_is(node, layers[k]);
        if (reads && !xt_read_is(node, "Shape"))
            return true;
    }
    return false;
}

static bool find_weight(struct xt_reader *reader, struct xt_read_node *node, int ndims,
                        struct weight *out)
{
    struct xt_read_value *value = xt_read_input(node, 1);
    const struct xt_read_constant *known = value ? xt_read_constant_of(reader, value) : NULL;
    bool is_value = known && ((value->initializer && is_value_too(reader, value)) ||
                              xt_read_is_numbers(reader, known));
    if (is_value && !xt_read_view_of(reader, node, value))
        return false;
    *out = (struct weight){.computed = xt_read_computed_weight(reader, node, 1, ndims)};
    if (!out->computed && !xt_reader_fails(reader))
        out->constant = weight_of(reader, node, 1, ndims);
    for (int i = 0; out->constant && i < ndims; i++)
        out->dims[i] = out->constant->dims[i];
    for (int i = 0; out->computed && i < ndims; i++)
        out->dims[i] = xt_read_dim(out->computed, i);
    return !xt_reader_fails(reader);
}

static bool read_kernel(struct xt_reader *reader, const struct xt_read_node *node,
                        const struct xt_read_view *view, const struct weight *weight,
                        struct xt_net_conv *spec)
{
    bool line = view->ndims == 3; /* [n][c][w] */
    int sides[2] = {1, 1};
    int own[2];
    int *kernel = spec->kernel + line;
    int count = 2 - line;
    spec->kernel[0] = 1;
    spec->stride[0] = spec->dilation[0] = 1;
    for (int i = 0; i < count; i++) {
        if (weight->dims[2 + i] > 4096)
            return xt_reader_refuse(reader, node, "has a kernel of more than 4096 pixels");
        kernel[i] = (int)weight->dims[2 + i];
        sides[line + i] = (int)xt_read_dim(view, 2 + i);
    }
    if (!xt_read_window(reader, node, "kernel_shape", 0, count, own) ||
        !xt_read_window(reader, node, "strides", 1, count, spec->stride + line) ||
        !xt_read_window(reader, node, "dilations", 1, count, spec->dilation + line))
        return false;
    for (int i = 0; i < count; i++)
        if (own[i] && own[i] != kernel[i])
            return xt_reader_refuse(reader, node,
                                    "has a kernel_shape that differs from its weight's");
    return xt_read_pads(reader, node, sides, spec->kernel, spec->stride, spec->dilation, spec->pad);
}

/* The weight's axis `channels` counts the output channels. */
static struct xt_value *convolve(struct xt_reader *reader, struct xt_read_node *node,
                                 struct xt_value *in, const struct weight *weight, int channels,
                                 const struct xt_net_conv *spec)
{
    if (!in || !weight->computed)
        return in ? xt_net_conv(reader->net, in, spec) : NULL;
    struct xt_value *rows = xt_read_weight_rows(reader, node, weight->computed, channels);
    return rows ? xt_net_conv_by(reader->net, in, rows, spec) : NULL;
}

/* Several images of a sample: the padding above and below is theirs. */
static struct xt_read_view *join_images(struct xt_reader *reader, const struct xt_read_node *node,
                                        struct xt_read_view *view, struct xt_net_conv *spec,
                                        struct xt_read_stack *stack)
{
    const struct xt_read_rows rows = {spec->kernel[0], spec->stride[0], spec->dilation[0],
                                      spec->pad[XT_SIDE_TOP], spec->pad[XT_SIDE_BOTTOM]};
    spec->pad[XT_SIDE_TOP] = spec->pad[XT_SIDE_BOTTOM] = 0;
    return xt_read_below_one_another(reader, node, view, stack, &rows, 0);
}

bool xt_read_conv(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_read_view *view = xt_read_data(reader, node, 0);
    int homes[XT_READ_DIMS_MAX] = {0};
    struct xt_read_stack stack = {.count = view ? xt_read_stack_of(view) : 1};
    struct xt_read_constant *bias = NULL;
    struct weight weight;
    struct names names;
    struct xt_net_conv spec = {0};
    if (!view)
        return false;
    if (view->ndims < 3 || (stack.count == 1 && !xt_read_layer_homes(view, homes)))
        return xt_reader_refuse(
            reader, node,
            "is a convolution of %d dimensions; only images are supported, [n][c][h][w]",
            view->ndims - 2);
    if (!find_weight(reader, node, view->ndims, &weight) ||
        (weight.constant && !xt_read_check_origin(reader, node, weight.constant)) ||
        !optional_bias(reader, node, 2, weight.dims[0], &bias) ||
        !name_layer(reader, node, weight.constant, bias, &names) ||
        !read_kernel(reader, node, view, &weight, &spec))
        return false;
    int64_t groups = xt_read_int(node, "group", 1);
    if (groups < 1 || groups > weight.dims[0] || weight.dims[1] * groups != xt_read_dim(view, 1))
        return xt_reader_refuse(
            reader, node, "has a weight for %lld channels in %lld groups, and reads %lld",
            (long long)weight.dims[1], (long long)groups, (long long)xt_read_dim(view, 1));
    for (int i = 0; i < 4; i++)
        spec.pad[i] += (int)view->pad[i];
    memset(view->pad, 0, sizeof view->pad);
    spec.name = names.layer;
    spec.weight = names.weight;
    spec.bias_name = names.bias;
    spec.channels = (int)weight.dims[0];
    spec.groups = (int)groups;
    spec.bias = bias != NULL;
    if (stack.count > 1)
        view = join_images(reader, node, view, &spec, &stack);
    if (view && stack.count > 1 && !xt_read_image_homes(view, homes))
        return false;
    struct xt_value *value = view ? xt_read_lay_out(reader, node, view, homes) : NULL;
    value = convolve(reader, node, value, &weight, 0, &spec);
    if (!begin_as(reader, value, XT_NODE_WEIGHT, weight.constant, false) ||
        !begin_as(reader, value, XT_NODE_BIAS, bias, false))
        return false;
    view = xt_read_after(reader, node, view, NULL, homes, value);
    if (view && stack.count > 1)
        view = xt_read_as_stack(reader, node, view, &stack);
    return give_layer(reader, node, view, 1);
}

/* Rows and columns behind the output. */
static bool read_output_pad(struct xt_reader *reader, const struct xt_read_node *node, int count,
                            int out[])
{
    int64_t list[XT_READ_DIMS_MAX];
    int given = xt_read_ints(reader, node, "output_padding", -1, list);
    if (given != count && given != -1)
        return xt_reader_refuse(reader, node, "has %d numbers of output_padding for %d axes", given,
                                count);
    for (int i = 0; i < count && given == count; i++) {
        if (list[i] < 0 || list[i] > 4096)
            return xt_reader_refuse(reader, node, "has an output_padding of %lld",
                                    (long long)list[i]);
        out[i] = (int)list[i];
    }
    return true;
}

bool xt_read_conv_transpose(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_read_view *view = xt_read_data(reader, node, 0);
    int homes[XT_READ_DIMS_MAX] = {0};
    struct xt_read_constant *bias = NULL;
    struct names names;
    struct xt_net_conv spec = {0};
    if (!view)
        return false;
    if (view->ndims < 3 || !xt_read_image_homes(view, homes))
        return xt_reader_refuse(reader, node,
                                "is a transposed convolution of %d dimensions; only "
                                "images are supported, [n][c][h][w]",
                                view->ndims - 2);
    int line = view->ndims == 3;
    const struct xt_read_text mode = xt_read_string(node, "auto_pad");
    if (xt_read_attribute(node, "output_shape") || xt_str_starts(mode.text, "SAME"))
        return xt_reader_refuse(reader, node,
                                "is padded by its output_shape or auto_pad; pads and "
                                "output_padding are supported");
    struct weight weight = {.constant = weight_of(reader, node, 1, view->ndims)};
    int64_t groups = xt_read_int(node, "group", 1);
    if (!weight.constant || !xt_read_check_origin(reader, node, weight.constant))
        return false;
    memcpy(weight.dims, weight.constant->dims, sizeof weight.dims);
    if (groups < 1 || groups > weight.dims[0] || weight.dims[1] > INT32_MAX / groups ||
        weight.dims[0] != xt_read_dim(view, 1))
        return xt_reader_refuse(reader, node,
                                "has a weight for other channels than the %lld that "
                                "it reads in %lld groups",
                                (long long)xt_read_dim(view, 1), (long long)groups);
    if (!optional_bias(reader, node, 2, weight.dims[1] * groups, &bias) ||
        !name_layer(reader, node, weight.constant, bias, &names) ||
        !read_kernel(reader, node, view, &weight, &spec) ||
        !read_output_pad(reader, node, 2 - line, spec.output_pad + line))
        return false;
    spec.name = names.layer;
    spec.weight = names.weight;
    spec.bias_name = names.bias;
    spec.channels = (int)(weight.dims[1] * groups);
    spec.groups = (int)groups;
    spec.bias = bias != NULL;
    struct xt_value *value = xt_read_lay_out(reader, node, view, homes);
    value = value ? xt_net_conv_transpose(reader->net, value, &spec) : NULL;
    return begin_as(reader, value, XT_NODE_WEIGHT, weight.constant, false) &&
           begin_as(reader, value, XT_NODE_BIAS, bias, false) &&
           xt_read_give(node, xt_read_after(reader, node, view, NULL, homes, value));
}

/* ---- linear ---- */

static bool check_gemm(struct xt_reader *reader, const struct xt_read_node *node)
{
    bool known = xt_read_float(node, "alpha", 1) == 1 && xt_read_float(node, "beta", 1) == 1 &&
                 xt_read_int(node, "transA", 0) == 0;
    return known || xt_reader_refuse(reader, node,
                                     "has an alpha, beta or transA, which are not there; a linear "
                                     "layer has none");
}

/* By computed weights: a 1x1 convolution. */
static struct xt_value *multiply(struct xt_reader *reader, struct xt_read_node *node,
                                 struct xt_value *in, const struct weight *weight, bool out_first,
                                 const struct xt_net_linear *spec)
{
    const struct xt_net_conv conv = {.name = spec->name,
                                     .bias_name = spec->bias_name,
                                     .channels = spec->channels,
                                     .kernel = {1, 1},
                                     .bias = spec->bias};
    if (!in || weight->computed)
        return convolve(reader, node, in, weight, !out_first, &conv);
    return xt_net_linear(reader->net, in, spec);
}

/* Gemm, MatMul by a weight, and (linear): one with a bias that is added. */
bool xt_read_linear(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_read_view *view = xt_read_data(reader, node, 0);
    struct xt_read_constant *bias = NULL;
    struct weight weight;
    struct names names;
    int homes[XT_READ_DIMS_MAX] = {0};
    if (!view || !find_weight(reader, node, 2, &weight) ||
        (weight.constant && !xt_read_check_origin(reader, node, weight.constant)) ||
        (xt_read_is(node, "Gemm") && !check_gemm(reader, node)))
        return false;
    bool out_first = xt_read_is(node, "Gemm") && xt_read_int(node, "transB", 0);
    int64_t channels = weight.dims[out_first ? 0 : 1];
    if (view->ndims < 2)
        return xt_reader_refuse(reader, node, "reads a tensor of %d dimensions, not of 2 or more",
                                view->ndims);
    if (xt_read_dim(view, view->ndims - 1) % XT_READ_BATCH == 0)
        return xt_reader_refuse(reader, node, "is over the batch");
    if (xt_read_dim(view, view->ndims - 1) != weight.dims[out_first ? 1 : 0])
        return xt_reader_refuse(reader, node, "has a weight for %lld numbers, and reads %lld",
                                (long long)weight.dims[out_first ? 1 : 0],
                                (long long)xt_read_dim(view, view->ndims - 1));
    if (!optional_bias(reader, node, 2, channels, &bias) ||
        !name_layer(reader, node, weight.constant, bias, &names))
        return false;
    /* PyTorch's weight is [out][in], unless the network itself multiplies by [in][out]; an exporter
     * that swaps the axes gives the tensor a name of its own. */
    bool lost = weight.constant && xt_read_is_lost(reader, weight.constant->name);
    bool swapped = weight.constant && out_first == weight.constant->transposed;
    const struct xt_net_linear spec = {.name = names.layer,
                                       .weight = names.weight,
                                       .bias_name = names.bias,
                                       .channels = (int)channels,
                                       .bias = bias != NULL,
                                       .in_first = swapped && !lost};
    xt_read_channel_homes(view, view->ndims - 1, homes);
    struct xt_value *value = xt_read_lay_out(reader, node, view, homes);
    value = multiply(reader, node, value, &weight, out_first, &spec);
    return begin_as(reader, value, XT_NODE_WEIGHT, weight.constant, swapped && lost) &&
           begin_as(reader, value, XT_NODE_BIAS, bias, false) &&
           give_layer(reader, node, xt_read_after(reader, node, view, NULL, homes, value),
                      view->ndims - 1);
}

/* ---- norms ---- */

bool xt_read_norm_trains(const struct xt_reader *reader, const struct xt_read_node *node)
{
    return reader->opset < 14 ? node->output_count > 1 && node->outputs[1]
                              : xt_read_int(node, "training_mode", 0) != 0;
}

/* Norms in evaluation form beside others in training form are frozen in the network. */
static bool note_form(struct xt_reader *reader, const struct xt_read_node *node)
{
    bool trains = xt_read_norm_trains(reader, node);
    reader->norm_forms[trains] = true;
    return !(reader->norm_forms[0] && reader->norm_forms[1]) ||
           xt_reader_refuse(
               reader, node,
               "is frozen where other batch norms of the network are not, or the other "
               "way round: here all learn, or none (--bn frozen); export the network "
               "with all of them in training");
}

static double eps_of(const struct xt_read_node *node)
{
    return node->number > 0 ? node->number : xt_read_float(node, "epsilon", 1e-5);
}

/* The axis of its channels; of one that is written as several nodes that along which its vectors
 * were laid. */
static int channel_axis(struct xt_reader *reader, const struct xt_read_node *node,
                        const struct xt_read_view *view)
{
    enum { MEAN = 3 };
    struct xt_read_value *mean = xt_read_input(node, MEAN);
    const struct xt_read_constant *constant = mean ? xt_read_constant_of(reader, mean) : NULL;
    int before = constant ? view->ndims - constant->ndims : 0; /* axes that it lacks */
    int axis = view->ndims - 1;
    if (!xt_read_is(node, "(batch norm)"))
        return 1;
    for (int i = 0; constant && before >= 0 && i < constant->ndims; i++)
        axis = constant->dims[i] != 1 ? before + i : axis;
    return axis;
}

/* A vector of the file, in whatever shape it is read. */
static struct xt_read_constant *norm_vector(struct xt_reader *reader, struct xt_read_node *node,
                                            int i, int64_t channels)
{
    struct xt_read_value *value = xt_read_input(node, i);
    struct xt_read_constant *constant = value ? xt_read_constant_of(reader, value) : NULL;
    if (!constant || !constant->tensor || constant->tensor->ndims != 1 || !constant->is_float)
        return weight_of(reader, node, i, 1);
    if ((int64_t)constant->count != channels)
        return xt_reader_refuse(reader, node, "has %zu numbers for %lld channels", constant->count,
                                (long long)channels);
    return is_one_parameter(reader, node, value, constant) ? constant : NULL;
}

bool xt_read_batch_norm(struct xt_reader *reader, struct xt_read_node *node)
{
    static const int which[] = {XT_NODE_WEIGHT, XT_NODE_BIAS, XT_NODE_MEAN, XT_NODE_VAR};
    struct xt_read_view *view = xt_read_data(reader, node, 0);
    struct xt_read_constant *params[4];
    struct names names;
    int homes[XT_READ_DIMS_MAX] = {0};
    if (!view)
        return false;
    if (view->ndims < 2)
        return xt_reader_refuse(reader, node, "reads a tensor of one dimension");
    if (!note_form(reader, node))
        return false;
    int axis = channel_axis(reader, node, view);
    bool is_spelt = xt_read_is(node, "(batch norm)");
    bool scales = !xt_read_is_neutral(reader, node, 1, 1);
    bool shifts = !xt_read_is_neutral(reader, node, 2, 0);
    /* Keras leaves one of them out, PyTorch both. */
    bool unscaled = is_spelt ? !(scales && shifts) : !(scales || shifts);
    int first = unscaled ? 2 : 0;
    for (int i = first; i < 4; i++) {
        params[i] = norm_vector(reader, node, i + 1, xt_read_dim(view, axis));
        if (!params[i])
            return false;
    }
    if (!name_layer(reader, node, params[first], unscaled ? NULL : params[1], &names))
        return false;
    const struct xt_net_norm spec = {
        .name = names.layer,
        .eps = eps_of(node),
        .unscaled = unscaled,
        .momentum = 1 - xt_read_float(node, "momentum", 0.9),
    };
    xt_read_channel_homes(view, axis, homes);
    struct xt_value *value = xt_read_lay_out(reader, node, view, homes);
    value = value ? xt_net_batch_norm(reader->net, value, &spec) : NULL;
    for (int i = first; i < 4; i++)
        if (!begin_as(reader, value, which[i], params[i], false))
            return false;
    reader->norms++;
    view = xt_read_after(reader, node, view, NULL, homes, value);
    for (int i = 1; i <= 2 && view && unscaled; i++)
        if (i == 1 ? scales : shifts)
            view = xt_read_combine(reader, node, view, xt_read_data(reader, node, i), i == 1);
    return xt_read_give(node, view);
}

/* Over this axis and those behind it, times the scale and plus the shift, where there are any. */
static bool norm_from(struct xt_reader *reader, struct xt_read_node *node,
                      struct xt_read_view *view, int axis)
{
    const struct xt_net_norm spec = {.eps = eps_of(node), .unscaled = true};
    int homes[XT_READ_DIMS_MAX] = {0};
    xt_read_channel_homes(view, view->ndims - 1, homes);
    for (int i = 0; i < view->ndims && axis < view->ndims - 1; i++)
        homes[i] = xt_read_dim(view, i) == XT_READ_BATCH ? XT_READ_N
                   : i < axis                            ? XT_AXIS_W
                                                         : XT_AXIS_C;
    struct xt_value *value = xt_read_lay_out(reader, node, view, homes);
    value = value ? xt_net_layer_norm(reader->net, value, &spec) : NULL;
    view = xt_read_after(reader, node, view, NULL, homes, value);
    reader->norms++;
    for (int i = 1; i <= 2 && view; i++)
        if (!xt_read_is_neutral(reader, node, i, i == 1))
            view = xt_read_combine(reader, node, view, xt_read_data(reader, node, i), i == 1);
    return xt_read_give(node, view);
}

bool xt_read_layer_norm(struct xt_reader *reader, struct xt_read_node *node)
{
    struct xt_read_view *view = xt_read_data(reader, node, 0);
    struct names names;
    int homes[XT_READ_DIMS_MAX] = {0};
    if (!view)
        return false;
    int last = view->ndims - 1;
    int axis = xt_read_axis_of(reader, node, xt_read_int(node, "axis", -1), view->ndims);
    if (axis < 0)
        return false;
    if (xt_read_dim(view, axis) == XT_READ_BATCH)
        return xt_reader_refuse(reader, node, "norms over the batch");
    if (axis < last || xt_read_is_neutral(reader, node, 2, 0))
        return norm_from(reader, node, view, axis);
    struct xt_read_constant *weight = weight_of(reader, node, 1, 1);
    struct xt_read_constant *bias = weight ? weight_of(reader, node, 2, 1) : NULL;
    if (!bias || !name_layer(reader, node, weight, bias, &names))
        return false;
    if (weight->dims[0] != xt_read_dim(view, last) || bias->dims[0] != weight->dims[0])
        return xt_reader_refuse(reader, node,
                                "has a scale of %lld numbers for an axis of %lld elements",
                                (long long)weight->dims[0], (long long)xt_read_dim(view, last));
    const struct xt_net_norm spec = {.name = names.layer, .eps = eps_of(node)};
    reader->norms++;
    xt_read_channel_homes(view, last, homes);
    struct xt_value *value = xt_read_lay_out(reader, node, view, homes);
    value = value ? xt_net_layer_norm(reader->net, value, &spec) : NULL;
    return begin_as(reader, value, XT_NODE_WEIGHT, weight, false) &&
           begin_as(reader, value, XT_NODE_BIAS, bias, false) &&
           xt_read_give(node, xt_read_after(reader, node, view, NULL, homes, value));
}

/* ---- parameters and constants as values ---- */

/* Axes as C, W and H from the last one on, those of length 1 left out; false: more than three. */
static bool homes_of(int ndims, const int64_t dims[], int homes[], int sides[XT_AXES])
{
    int home = XT_AXES;
    for (int i = ndims - 1; i >= 0; i--) {
        homes[i] = dims[i] == XT_READ_BATCH ? XT_READ_N : XT_READ_NONE;
        if (dims[i] == 1 || dims[i] == XT_READ_BATCH)
            continue;
        if (home == 0 || dims[i] < 1 || dims[i] > INT32_MAX)
            return false;
        homes[i] = --home;
        sides[home] = (int)dims[i];
    }
    return true;
}

enum { PARAMETER_DIMS = 4 };

/* Leading axes of length 1 that a parameter of too many does without. */
static int axes_to_spare(int ndims, const int64_t *dims)
{
    int spare = 0;
    while (ndims - spare > PARAMETER_DIMS && dims[spare] == 1)
        spare++;
    return spare;
}

/* Whether some row, along the last axis, is of -infinity alone. */
static bool masks_rows(const struct xt_read_constant *constant, const double *numbers)
{
    size_t length = constant->ndims ? (size_t)constant->dims[constant->ndims - 1] : 1;
    for (size_t i = 0, masked = 0; i < constant->count; i++) {
        masked = (i % length ? masked : 0) + (numbers[i] < -DBL_MAX);
        if (masked == length)
            return true;
    }
    return false;
}

/* Numbers that are no parameter, as a value of the net. */
static struct xt_value *numbers_of(struct xt_reader *reader, const struct xt_read_node *node,
                                   const struct xt_read_value *value,
                                   struct xt_read_constant *constant, const int sides[XT_AXES])
{
    const double *from = xt_read_numbers(reader, constant);
    float *numbers = from ? xt_reader_take(reader, constant->count + 1, sizeof *numbers) : NULL;
    if (!numbers || !constant->count)
        return xt_reader_refuse(
            reader, node, "reads %s, %zu numbers that are no parameter: 1 to %d are supported",
            xt_str_quote(value->name, strlen(value->name)).text, constant->count,
            XT_READ_STORED_MAX);
    if (xt_read_is(node, "Add") && masks_rows(constant, from))
        return xt_reader_refuse(reader, node,
                                "masks rows as a whole, of which a softmax is not a number");
    for (size_t i = 0; i < constant->count; i++) {
        numbers[i] = (float)(xt_read_is(node, "Add") ? xt_read_finite(from[i]) : from[i]);
        if (!isfinite(numbers[i]))
            return xt_reader_refuse(reader, node, "reads %s, among whose numbers is %g",
                                    xt_str_quote(value->name, strlen(value->name)).text, from[i]);
    }
    const struct xt_net_constant spec = {.h = sides[XT_AXIS_H],
                                         .w = sides[XT_AXIS_W],
                                         .c = sides[XT_AXIS_C],
                                         .numbers = numbers,
                                         .count = constant->count};
    return xt_net_constant(reader->net, &spec);
}

/* Whether it is a PReLU's weight that PyTorch's exporter shaped for images, and computed so. A
 * slope of the code is a LeakyRelu's. */
static bool is_slope(const struct xt_reader *reader, const struct xt_read_node *node,
                     const struct xt_read_constant *constant)
{
    return xt_read_is(node, "PRelu") && constant->tensor && constant->is_float &&
           !reader->is_foreign && !reader->signature.count &&
           xt_read_is_made_up(reader, constant->name);
}

static bool name_slope(const struct xt_read_node *node, char out[XT_PARAM_NAME_MAX])
{
    char module[XT_PARAM_NAME_MAX];
    return xt_read_module_of(node, module, sizeof module) &&
           snprintf(out, XT_PARAM_NAME_MAX, "%s.weight", module) < XT_PARAM_NAME_MAX;
}

static struct xt_value *parameter_of(struct xt_reader *reader, const struct xt_read_node *node,
                                     struct xt_read_constant *constant, const int sides[XT_AXES])
{
    const struct xt_file_tensor *own = constant->tensor; /* the view may have other axes */
    int first = axes_to_spare(own->ndims, own->dims);
    struct xt_net_parameter spec = {.name = constant->name,
                                    .ndims = own->ndims - first,
                                    .h = sides[XT_AXIS_H],
                                    .w = sides[XT_AXIS_W],
                                    .c = sides[XT_AXIS_C]};
    if (spec.ndims > PARAMETER_DIMS)
        return xt_reader_refuse(reader, node, "reads a parameter of more than four dimensions");
    for (int i = 0; i < spec.ndims; i++)
        spec.dims[i] = (int)own->dims[first + i];
    bool adds = xt_read_is(node, "Add") || xt_read_is(node, "Sub");
    const char *lost = xt_read_is_made_up(reader, constant->name) &&
                               (constant->count > 1 || xt_read_is(node, "PRelu"))
                           ? xt_read_lost_name(reader, node, adds ? "bias" : "weight")
                           : NULL;
    if (!lost && xt_read_is_made_up(reader, constant->name) && constant->count > 1)
        lost = xt_read_only_lost(reader, node);
    char named[XT_PARAM_NAME_MAX];
    if (!lost && (xt_read_foreign_name(reader, node, constant->name, named) ||
                  (is_slope(reader, node, constant) && name_slope(node, named))))
        lost = named;
    if (lost)
        spec.name = lost;
    bool is_foreign = reader->is_foreign;
    if (is_foreign ? xt_read_is_vector(own->dims, own->ndims)
                   : lost != NULL) { /* shaped for images */
        spec.ndims = 1;
        spec.dims[0] = (int)constant->count;
    }
    struct xt_value *made = xt_net_parameter(reader->net, &spec);
    return begin_as(reader, made, XT_NODE_WEIGHT, constant, false) ? made : NULL;
}

struct xt_value *xt_read_restored(struct xt_reader *reader, const char *name, const float *numbers,
                                  int rows, int columns)
{
    const bool is_matrix = columns > 0;
    const struct xt_net_parameter spec = {.name = name,
                                          .h = 1,
                                          .w = is_matrix ? rows : 1,
                                          .c = is_matrix ? columns : rows,
                                          .ndims = is_matrix ? 2 : 1,
                                          .dims = {rows, columns}};
    struct xt_file_tensor *tensor = xt_reader_take(reader, 1, sizeof *tensor);
    struct xt_read_constant *constant = xt_reader_take(reader, 1, sizeof *constant);
    if (!tensor || !constant)
        return NULL;
    size_t count = (size_t)rows * (size_t)(is_matrix ? columns : 1);
    *tensor = (struct xt_file_tensor){.name = name,
                                      .dtype = XT_F32,
                                      .ndims = spec.ndims,
                                      .dims = {rows, columns},
                                      .data = numbers,
                                      .bytes = count * sizeof *numbers};
    constant->tensor = tensor;
    struct xt_value *made = xt_net_parameter(reader->net, &spec);
    return begin_as(reader, made, XT_NODE_WEIGHT, constant, false) ? made : NULL;
}

/* The axes of more than 1 lie in C, W and H, the last first; of four the first lies in W, the
 * others, as a weight's row, in C. False: there are no elements, or five such axes. */
static bool value_sides(const struct xt_read_constant *constant, int sides[XT_AXES])
{
    int axes = 0;
    for (int i = 0; i < constant->ndims; i++)
        axes += constant->dims[i] != 1;
    int home = XT_AXES;
    for (int i = constant->ndims - 1; i >= 0 && axes <= 4; i--) {
        if (constant->dims[i] < 1 || constant->dims[i] > INT32_MAX)
            return false;
        if (constant->dims[i] == 1)
            continue;
        if (axes == 4)
            home = i ? XT_AXIS_C : XT_AXIS_W;
        else if (home > XT_AXIS_H)
            home--;
        sides[home] *= (int)constant->dims[i];
    }
    return axes <= 4;
}

struct xt_read_view *xt_read_parameter(struct xt_reader *reader, const struct xt_read_node *node,
                                       struct xt_read_value *value)
{
    struct xt_read_constant *constant = xt_read_constant_of(reader, value);
    static const int whole[] = {XT_AXIS_H, XT_AXIS_W, XT_AXIS_C};
    int sides[XT_AXES] = {1, 1, 1};
    const struct xt_quoted name = xt_str_quote(value->name, strlen(value->name));
    if (constant && (!xt_read_check_origin(reader, node, constant) ||
                     (constant->of_weights && value->producer &&
                      !xt_read_check_inputs(reader, value->producer))))
        return NULL;
    bool is_numbers =
        constant && xt_read_is_numbers(reader, constant) && !is_slope(reader, node, constant);
    if (!is_numbers &&
        (!constant || !constant->tensor || !constant->is_float ||
         constant->ndims - axes_to_spare(constant->ndims, constant->dims) > PARAMETER_DIMS ||
         !fits(constant->name)))
        return xt_reader_refuse(reader, node,
                                "reads %s, which is neither a parameter nor a constant", name.text);
    if (!is_numbers && !is_one_parameter(reader, node, value, constant))
        return NULL;
    struct xt_read_constant lies = *constant; /* in the file's order */
    if (constant->transposed && !is_numbers) {
        lies.dims[0] = constant->dims[1];
        lies.dims[1] = constant->dims[0];
    }
    if (!value_sides(&lies, sides))
        return xt_reader_refuse(reader, node, "reads %s, which has no elements, or too many axes",
                                name.text);
    struct xt_value *made = is_numbers ? numbers_of(reader, node, value, constant, sides)
                                       : parameter_of(reader, node, constant, sides);
    struct xt_read_view *view = xt_read_view(reader, made, XT_AXES, whole);
    view = view ? xt_read_reshape(reader, node, view, lies.ndims, lies.dims) : NULL;
    if (view && constant->transposed && !is_numbers) {
        struct xt_read_axis first = view->axes[0];
        view->axes[0] = view->axes[1];
        view->axes[1] = first;
    }
    if (view && constant->each_sample && !xt_read_repeat_for_batch(view, 0))
        return NULL;
    value->view = view;
    return view;
}

/* Axes of several images of a sample as two, [n][images]; returns the number of axes. */
static int split_batch(const int64_t dims[], int count, int64_t out[XT_READ_DIMS_MAX])
{
    int axes = 0;
    for (int i = 0; i < count; i++) {
        int64_t images = dims[i] % XT_READ_BATCH ? 0 : dims[i] / XT_READ_BATCH;
        if (axes + 1 + (images > 1) > XT_READ_DIMS_MAX)
            return 0;
        out[axes++] = images ? XT_READ_BATCH : dims[i];
        if (images > 1)
            out[axes++] = images;
    }
    return axes;
}

bool xt_read_give_filled(struct xt_reader *reader, struct xt_read_node *node, float number,
                         int count, const int64_t dims[])
{
    int64_t split[XT_READ_DIMS_MAX] = {0};
    int homes[XT_READ_DIMS_MAX] = {0};
    int sides[XT_AXES] = {1, 1, 1};
    int axes = count < 1 ? 0 : split_batch(dims, count, split);
    if (axes < 1 || !homes_of(axes, split, homes, sides))
        return xt_reader_refuse(reader, node,
                                "has a shape that is not known while it is read, or one of more "
                                "than three axes beside the batch");
    if (!isfinite(number))
        return xt_reader_refuse(reader, node, "gives %g", (double)number);
    const struct xt_net_constant spec = {.h = sides[XT_AXIS_H],
                                         .w = sides[XT_AXIS_W],
                                         .c = sides[XT_AXIS_C],
                                         .numbers = &number,
                                         .count = 1};
    struct xt_read_view *view =
        xt_read_view(reader, xt_net_constant(reader->net, &spec), axes, homes);
    view = view ? xt_read_reshape(reader, node, view, count, dims) : NULL;
    return view && xt_read_give(node, view);
}

/* One number for each sample, by the shape: what is of no samples is a constant already. */
bool xt_read_filled(struct xt_reader *reader, struct xt_read_node *node)
{
    const Onnx__AttributeProto *given = xt_read_attribute(node, "value");
    struct xt_file_tensor tensor = {0};
    int64_t dims[XT_READ_DIMS_MAX];
    float number = 0;
    int count = xt_read_ints(reader, node, "shape", 0, dims);
    if (given && given->t &&
        xt_onnx_tensor(&reader->file, given->t, &reader->store, &tensor, &reader->err))
        return false;
    if (given && given->t && xt_file_tensor_count(&tensor))
        number = (float)xt_onnx_tensor_number(&tensor, 0);
    return xt_read_give_filled(reader, node, number, count, dims);
}
