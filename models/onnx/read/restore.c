/* Puts back the parameters that PyTorch's newer exporter leaves out of a file, as its signature and
 * the modules of its nodes tell: it stores equal tensors once, such as the scales of all norms
 * before training, drops a bias of zeros, and calls what a batch of one expands "expand". */
#include <stdio.h>
#include <string.h>

#include "models/onnx/read/reader.h"

struct restore {
    struct xt_reader *reader;
    struct xt_read_value **added;
    size_t count;
};

/* What a layer's inputs are called in its module. */
static const struct role {
    const char *op;
    const char *own[5]; /* by the input */
} roles[] = {
    {"Conv", {NULL, "weight", "bias"}},
    {"ConvTranspose", {NULL, "weight", "bias"}},
    {"Gemm", {NULL, "weight", "bias"}},
    {"LayerNormalization", {NULL, "weight", "bias"}},
    {"GroupNormalization", {NULL, "weight", "bias"}},
    {"InstanceNormalization", {NULL, "weight", "bias"}},
    {"BatchNormalization", {NULL, "weight", "bias", "running_mean", "running_var"}},
};

enum { ROLES = sizeof roles->own / sizeof *roles->own };

static const struct role *role_of(const struct xt_read_node *node)
{
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (xt_read_is(node, roles[i].op))
            return &roles[i];
    return NULL;
}

static const char *module_of(const struct xt_reader *reader, const struct xt_read_node *node)
{
    return reader->signature.modules[node - reader->nodes];
}

/* Whether the file has not had it. */
static bool is_left_out(const struct xt_reader *reader, const struct xt_read_target *target)
{
    return target && (target->restored || !xt_read_is_initializer(reader, target->name));
}

/* ---- the modules of the network's own ---- */

/* Whether it is a tensor without PyTorch's name, of several numbers: a parameter of another shape,
 * or a constant. */
static bool is_made(struct xt_reader *reader, struct xt_read_value *value)
{
    if (!value || !value->initializer || xt_read_origin_of(reader, value->name) != XT_READ_MADE)
        return false;
    const struct xt_read_constant *constant = xt_read_constant_of(reader, value);
    return constant && constant->is_float && constant->count > 1;
}

/* What the nodes of a module read of a kind, counted as often as they do. */
static size_t count_inputs(struct xt_reader *reader, const char *module,
                           bool (*is)(struct xt_reader *reader, struct xt_read_value *value))
{
    size_t count = 0;
    for (size_t i = 0; i < reader->node_count; i++) {
        const struct xt_read_node *node = &reader->nodes[i];
        for (int k = 0; strcmp(module_of(reader, node), module) == 0 && k < node->input_count; k++)
            count += is(reader, node->inputs[k]);
    }
    return count;
}

static size_t count_reads(const struct xt_reader *reader, const char *module,
                          const struct xt_read_value *value)
{
    size_t count = 0;
    for (size_t i = 0; i < reader->node_count; i++) {
        const struct xt_read_node *node = &reader->nodes[i];
        for (int k = 0; strcmp(module_of(reader, node), module) == 0 && k < node->input_count; k++)
            count += node->inputs[k] == value;
    }
    return count;
}

/* The parameters of the module that are left out: how many, and the last of them. */
static size_t count_left_out(struct xt_reader *reader, const char *module,
                             struct xt_read_target **last)
{
    struct xt_read_signature *signature = &reader->signature;
    size_t count = 0;
    for (size_t i = 0; i < signature->count; i++) {
        struct xt_read_target *target = &signature->targets[i];
        if (target->is_buffer || !xt_read_own_name(target->name, module) ||
            !is_left_out(reader, target))
            continue;
        count++;
        *last = target;
    }
    return count;
}

/* Whether not all that is left out of the module may be among its tensors without names. */
static bool lacks_more_than_names(struct xt_reader *reader, const char *module)
{
    struct xt_read_target *last = NULL;
    return count_left_out(reader, module, &last) > count_inputs(reader, module, is_made);
}

/* The parameter of the module that an Add or Mul reads as another module's: of the same name, where
 * that is no layer's, else the usual one, else the only one. NULL: it may be another. */
static struct xt_read_target *left_out_of(struct xt_reader *reader, const struct xt_read_node *node,
                                          const char *module, const struct xt_read_value *value)
{
    const char *dot = strrchr(value->name, '.');
    const char *usual = xt_read_is(node, "Add") ? "bias" : "weight";
    struct xt_read_target *last = NULL;
    if (!lacks_more_than_names(reader, module) || count_reads(reader, module, value) != 1)
        return NULL;
    struct xt_read_target *same = dot ? xt_read_target_of(reader, module, dot + 1) : NULL;
    struct xt_read_target *own = xt_read_target_of(reader, module, usual);
    bool is_layers = dot && (strcmp(dot, ".weight") == 0 || strcmp(dot, ".bias") == 0);
    if (!is_layers && is_left_out(reader, same))
        return same;
    if (is_left_out(reader, own))
        return own;
    return count_left_out(reader, module, &last) == 1 ? last : NULL;
}

/* The parameter that a layer's input i is by its place; NULL: none. The scale and shift of an
 * InstanceNormalization may be a group norm's ones and zeros, before its own ones in a Mul and Add.
 */
static struct xt_read_target *by_place(struct xt_reader *reader, const struct xt_read_node *node,
                                       int i)
{
    const struct role *role = role_of(node);
    const char *module = module_of(reader, node);
    if (!role || i >= ROLES || !role->own[i] ||
        (xt_read_is(node, "InstanceNormalization") && !lacks_more_than_names(reader, module)))
        return NULL;
    return xt_read_target_of(reader, module, role->own[i]);
}

/* The parameter that is input i of the node in PyTorch, where the file has stored it as another's;
 * NULL: it has its own, or that is not known. */
static struct xt_read_target *stored_as_other(struct xt_reader *reader,
                                              const struct xt_read_node *node, int i)
{
    const struct xt_read_value *value = node->inputs[i];
    const char *module = module_of(reader, node);
    if (!value || !value->initializer || value->readers < 2 || *module == '?')
        return NULL;
    enum xt_read_origin origin = xt_read_origin_of(reader, value->name);
    bool is_parameter = origin == XT_READ_PARAMETER;
    struct xt_read_target *target = NULL;
    if ((is_parameter || origin == XT_READ_BUFFER) && role_of(node))
        target = by_place(reader, node, i);
    else if (is_parameter && (xt_read_is(node, "Add") || xt_read_is(node, "Mul")) && *module &&
             !xt_read_lies_in(value->name, module))
        target = left_out_of(reader, node, module, value);
    return is_left_out(reader, target) ? target : NULL;
}

/* ---- what is put back ---- */

static struct xt_read_value *add(struct restore *restore, struct xt_read_target *target,
                                 const Onnx__TensorProto *like)
{
    struct xt_reader *reader = restore->reader;
    struct xt_read_value *value = xt_reader_take(reader, 1, sizeof *value);
    Onnx__TensorProto *tensor = xt_reader_take(reader, 1, sizeof *tensor);
    if (!value || !tensor)
        return NULL;
    *tensor = *like;
    tensor->name = (char *)(uintptr_t)target->name;
    value->name = target->name;
    value->initializer = tensor;
    target->restored = value;
    restore->added[restore->count++] = value;
    return value;
}

/* Whether a parameter of the module itself is not in the file. */
static bool lacks_any(const struct xt_reader *reader, const char *module)
{
    const struct xt_read_signature *signature = &reader->signature;
    for (size_t i = 0; i < signature->count; i++) {
        const struct xt_read_target *target = &signature->targets[i];
        if (!target->is_buffer && xt_read_own_name(target->name, module) && !target->restored &&
            !xt_read_is_initializer(reader, target->name))
            return true;
    }
    return false;
}

/* The first node that reads it and whose module lacks a parameter; else the first. */
static const struct xt_read_node *first_reader(const struct xt_reader *reader,
                                               const struct xt_read_value *value)
{
    const struct xt_read_node *first = NULL;
    for (size_t n = 0; n < reader->node_count; n++)
        for (int i = 0; i < reader->nodes[n].input_count; i++)
            if (reader->nodes[n].inputs[i] == value) {
                if (lacks_any(reader, module_of(reader, &reader->nodes[n])))
                    return &reader->nodes[n];
                first = first ? first : &reader->nodes[n];
            }
    return first;
}

/* Whether input i is a matrix that a linear layer multiplies by, turned, and so without its name,
 * which one of another module reads too. */
static bool is_shared_matrix(struct xt_reader *reader, const struct xt_read_node *node, int i)
{
    struct xt_read_value *value = node->inputs[i];
    bool multiplies = i == 1 && (xt_read_is(node, "MatMul") || xt_read_is(node, "Gemm"));
    return multiplies && is_made(reader, value) && value->readers > 1 &&
           lacks_any(reader, module_of(reader, node)) &&
           strcmp(module_of(reader, first_reader(reader, value)), module_of(reader, node)) != 0;
}

/* Whether the node reads a weight whose numbers were drawn, as another module's node does. */
static bool reads_tied(struct xt_reader *reader, const struct xt_read_node *node, int i)
{
    double number = 0;
    return (is_shared_matrix(reader, node, i) || stored_as_other(reader, node, i)) &&
           !xt_read_all_equal(reader, xt_read_constant_of(reader, node->inputs[i]), &number);
}

/* What is stored once may be one parameter then. */
static bool is_tied(struct xt_reader *reader)
{
    for (size_t n = 0; n < reader->node_count; n++)
        for (int i = 0; i < reader->nodes[n].input_count; i++)
            if (reads_tied(reader, &reader->nodes[n], i))
                return true;
    return false;
}

static void read_instead(struct xt_read_node *node, int i, struct xt_read_value *value)
{
    node->inputs[i]->readers--;
    node->inputs[i] = value;
    value->readers++;
}

/* A name that the signature does not have; NULL after a failure. */
static struct xt_read_target *make_name(struct xt_reader *reader, const char *first,
                                        const char *between, const char *last)
{
    size_t size = strlen(first) + strlen(between) + strlen(last) + 1;
    struct xt_read_target *out = xt_reader_take(reader, 1, sizeof *out);
    char *name = xt_reader_take(reader, size, 1);
    if (!out || !name)
        return NULL;
    snprintf(name, size, "%s%s%s", first, between, last);
    out->name = name;
    return out;
}

/* The module's copy of a tensor, under a name that tells as much. */
static struct xt_read_value *copy_for(struct restore *restore, const struct xt_read_value *of,
                                      const char *module)
{
    struct xt_read_target *copy = make_name(restore->reader, of->name, " of ", module);
    for (size_t i = 0; copy && i < restore->count; i++)
        if (strcmp(restore->added[i]->name, copy->name) == 0)
            return restore->added[i];
    return copy ? add(restore, copy, of->initializer) : NULL;
}

/* Whether input i of a layer of torch.nn is a constant, such as the ones of a norm without a scale,
 * that the file has stored as a parameter: the layer has none. */
static bool is_constant(struct xt_reader *reader, const struct xt_read_node *node, int i)
{
    const struct role *role = role_of(node);
    const struct xt_read_value *value = node->inputs[i];
    const char *module = module_of(reader, node);
    return role && i < ROLES && role->own[i] && *module && *module != '?' &&
           xt_read_is_of_torch(node) && !by_place(reader, node, i) && value && value->initializer &&
           value->readers > 1 && !xt_read_lies_in(value->name, module) &&
           xt_read_origin_of(reader, value->name) == XT_READ_PARAMETER;
}

static bool split(struct restore *restore, struct xt_read_node *node)
{
    struct xt_reader *reader = restore->reader;
    for (int i = 0; i < node->input_count; i++) {
        struct xt_read_target *target = stored_as_other(reader, node, i);
        struct xt_read_value *own = NULL;
        if (target && target->restored)
            own = target->restored;
        else if (target)
            own = add(restore, target, node->inputs[i]->initializer);
        else if (is_constant(reader, node, i))
            own = copy_for(restore, node->inputs[i], module_of(reader, node));
        else
            continue;
        if (!own)
            return false;
        read_instead(node, i, own);
    }
    return true;
}

/* Parameters of another shape that begin alike, such as the scales of several blocks: those of each
 * module but the first are its own. */
static bool split_made(struct restore *restore, struct xt_read_node *node)
{
    struct xt_reader *reader = restore->reader;
    const char *module = module_of(reader, node);
    double number = 0;
    for (int i = 0; i < node->input_count && *module != '?'; i++) {
        struct xt_read_value *value = node->inputs[i];
        if (!is_made(reader, value) || value->readers < 2 || !lacks_any(reader, module) ||
            !xt_read_all_equal(reader, xt_read_constant_of(reader, value), &number))
            continue;
        const struct xt_read_node *first = first_reader(reader, value);
        if (strcmp(module_of(reader, first), module) == 0)
            continue;
        struct xt_read_value *own = copy_for(restore, value, module);
        if (!own)
            return false;
        read_instead(node, i, own);
    }
    return true;
}

/* ---- what a batch of one does not repeat ---- */

/* Whether all that lies along an axis is the same. */
static bool repeats(struct xt_reader *reader, struct xt_read_constant *constant)
{
    const double *numbers = xt_read_numbers(reader, constant);
    size_t inner = 1;
    for (int axis = constant->ndims - 1; axis >= 0 && numbers && inner; axis--) {
        size_t dim = (size_t)constant->dims[axis];
        bool same = dim > 1;
        for (size_t i = inner; i < constant->count && same; i++)
            same = i / inner % dim == 0 || numbers[i] == numbers[i - inner];
        if (same)
            return true;
        inner *= dim;
    }
    return !numbers;
}

/* Whether it is a parameter that was expanded to the batch, which was one: the same numbers in the
 * same shape, under the name of that. */
static bool is_expanded(struct xt_reader *reader, struct xt_read_value *value)
{
    return reader->fixed_batch == 1 && is_made(reader, value) &&
           xt_str_starts(value->name, "expand") &&
           !repeats(reader, xt_read_constant_of(reader, value));
}

/* Of a module that lacks one parameter and expands one. */
static bool name_expanded(struct restore *restore, struct xt_read_node *node)
{
    struct xt_reader *reader = restore->reader;
    const char *module = module_of(reader, node);
    for (int i = 0; i < node->input_count && *module != '?'; i++) {
        struct xt_read_target *lost = NULL;
        if (!is_expanded(reader, node->inputs[i]) || count_left_out(reader, module, &lost) != 1 ||
            lost->restored || count_inputs(reader, module, is_expanded) != 1)
            continue;
        struct xt_read_value *own = add(restore, lost, node->inputs[i]->initializer);
        if (!own)
            return false;
        read_instead(node, i, own);
    }
    return true;
}

/* ---- biases of zeros ---- */

/* The output channels of a layer by the shape of its weight; 0: not known. */
static int64_t channels_of(const struct xt_read_node *node)
{
    const struct xt_read_value *weight = xt_read_input(node, 1);
    const Onnx__TensorProto *tensor = weight ? weight->initializer : NULL;
    int64_t channels = 0;
    if (!tensor || tensor->n_dims < 2)
        return 0;
    if (xt_read_is(node, "ConvTranspose")) {
        int64_t groups = xt_read_int(node, "group", 1);
        bool fits =
            groups > 0 && tensor->dims[1] > 0 && tensor->dims[1] <= XT_READ_STORED_MAX / groups;
        channels = fits ? tensor->dims[1] * groups : 0;
    } else {
        bool in_first = xt_read_is(node, "Gemm") && !xt_read_int(node, "transB", 0);
        channels = tensor->dims[in_first];
    }
    return channels > 0 && channels <= XT_READ_STORED_MAX ? channels : 0;
}

static struct xt_read_value *zeros(struct restore *restore, struct xt_read_target *target,
                                   int64_t count)
{
    Onnx__TensorProto tensor = ONNX__TENSOR_PROTO__INIT;
    int64_t *dims = xt_reader_take(restore->reader, 1, sizeof *dims);
    float *numbers = xt_reader_take(restore->reader, (size_t)count, sizeof *numbers);
    if (!dims || !numbers)
        return NULL;
    *dims = count;
    tensor.data_type = ONNX__TENSOR_PROTO__DATA_TYPE__FLOAT;
    tensor.n_dims = 1;
    tensor.dims = dims;
    tensor.n_float_data = (size_t)count;
    tensor.float_data = numbers;
    return add(restore, target, &tensor);
}

/* The bias that a layer without one had, by the name of its weight or by its module; or that a
 * batch norm became, which is the module then. NULL: it had none, or that is not known. */
static struct xt_read_target *bias_of(struct xt_reader *reader, const struct xt_read_node *node)
{
    const char *weight = node->inputs[1] ? node->inputs[1]->name : "";
    const char *module = module_of(reader, node);
    struct xt_read_target *own = xt_read_target_of(reader, module, "bias");
    char layer[XT_PARAM_NAME_MAX];
    if (!xt_str_ends(weight, ".weight") || strlen(weight) >= sizeof layer)
        return own;
    snprintf(layer, sizeof layer, "%.*s", (int)(strlen(weight) - strlen(".weight")), weight);
    struct xt_read_target *beside = xt_read_target_of(reader, layer, "bias");
    bool is_norm = own && xt_read_target_of(reader, module, "running_mean");
    return beside || !is_norm ? beside : make_name(reader, layer, ".", "bias");
}

static bool add_bias(struct restore *restore, struct xt_read_node *node)
{
    struct xt_reader *reader = restore->reader;
    bool is_layer =
        xt_read_is(node, "Conv") || xt_read_is(node, "ConvTranspose") || xt_read_is(node, "Gemm");
    if (!is_layer || xt_read_input(node, 2) || node->input_count < 2)
        return true;
    struct xt_read_target *target = bias_of(reader, node);
    int64_t channels = channels_of(node);
    if (!target || target->is_buffer || !is_left_out(reader, target) || !channels)
        return !xt_reader_fails(reader);
    struct xt_read_value *bias =
        target->restored ? target->restored : zeros(restore, target, channels);
    struct xt_read_value **inputs = xt_reader_take(reader, 3, sizeof *inputs);
    if (!bias || !inputs)
        return false;
    inputs[0] = node->inputs[0];
    inputs[1] = node->inputs[1];
    inputs[2] = bias;
    bias->readers++;
    node->inputs = inputs;
    node->input_count = 3;
    return true;
}

bool xt_read_restore(struct xt_reader *reader)
{
    struct restore restore = {.reader = reader};
    size_t inputs = 0;
    for (size_t i = 0; i < reader->node_count; i++)
        inputs += (size_t)reader->nodes[i].input_count;
    restore.added = xt_reader_take(reader, inputs + reader->signature.count, sizeof *restore.added);
    if (!restore.added)
        return false;
    bool tied = is_tied(reader);
    for (size_t i = 0; i < reader->node_count; i++)
        if (!tied &&
            (!split(&restore, &reader->nodes[i]) || !split_made(&restore, &reader->nodes[i])))
            return false;
    reader->signature.splits = restore.count > 0;
    for (size_t i = 0; i < reader->node_count; i++)
        if (!name_expanded(&restore, &reader->nodes[i]) || !add_bias(&restore, &reader->nodes[i]))
            return false;
    return xt_reader_add(reader, restore.added, restore.count);
}
