/* What the tensors of a file are in PyTorch: by the signature that its newer exporter writes into
 * the graph's metadata, else by their names. Lines of a signature are "NAME: PARAMETER
 * target='fc.weight'" or "NAME: BUFFER target='pe' persistent=True".
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "models/onnx/read/reader.h"

static const char unknown[] = "?"; /* a module */

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct xt_read_target *)a)->name,
                  ((const struct xt_read_target *)b)->name);
}

static struct xt_read_target *find(const struct xt_read_signature *signature,
                                   const struct xt_read_target *wanted)
{
    return bsearch(wanted, signature->targets, signature->count, sizeof *signature->targets,
                   compare);
}

/* Takes the target of a line; false: it names none. */
static bool take_target(char *line, struct xt_read_target *out)
{
    static const char *const kinds[] = {": PARAMETER target=\'", ": BUFFER target=\'"};
    for (int is_buffer = 0; is_buffer < 2; is_buffer++) {
        char *at = strstr(line, kinds[is_buffer]);
        char *name = at ? at + strlen(kinds[is_buffer]) : NULL;
        char *end = name ? strchr(name, '\'') : NULL;
        if (!end)
            continue;
        *end = 0;
        *out = (struct xt_read_target){name, is_buffer};
        return true;
    }
    return false;
}

bool xt_read_is_initializer(const struct xt_reader *reader, const char *name)
{
    const struct xt_read_value *value = xt_read_named(reader, name);
    return value && value->initializer;
}

/* Whether the parameter is of a batch norm, which exporters fold into the convolution before it. */
static bool is_of_norm(const struct xt_read_signature *signature, const char *name)
{
    char beside[XT_PARAM_NAME_MAX];
    const char *dot = strrchr(name, '.');
    int length =
        snprintf(beside, sizeof beside, "%.*srunning_mean", dot ? (int)(dot + 1 - name) : 0, name);
    return length < (int)sizeof beside &&
           find(signature, &(struct xt_read_target){.name = beside}) != NULL;
}

/* Numbers that an export of this program writes beside the parameters, by their names. */
static bool is_of_own_export(const struct xt_reader *reader, const char *name)
{
    return xt_read_is_own_export(reader) && (strchr(name, '/') || xt_str_starts(name, "constant "));
}

enum xt_read_origin xt_read_origin_of(const struct xt_reader *reader, const char *name)
{
    if (is_of_own_export(reader, name) || xt_read_is_foreign_number(reader, name))
        return XT_READ_MADE;
    if (!reader->signature.count)
        return XT_READ_UNKNOWN;
    const struct xt_read_target *target =
        find(&reader->signature, &(struct xt_read_target){.name = name});
    return !target ? XT_READ_MADE : target->is_buffer ? XT_READ_BUFFER : XT_READ_PARAMETER;
}

bool xt_read_is_made_up(const struct xt_reader *reader, const char *name)
{
    enum xt_read_origin origin = xt_read_origin_of(reader, name);
    return origin == XT_READ_UNKNOWN ? strstr(name, "::") || xt_str_starts(name, "val_") ||
                                           xt_str_starts(name, "_val_") || *name == '/' ||
                                           (*name && name[strspn(name, "0123456789")] == 0)
                                     : origin == XT_READ_MADE;
}

bool xt_read_is_lost(const struct xt_reader *reader, const char *name)
{
    return reader->is_foreign || xt_read_is_made_up(reader, name);
}

/* ---- names that are lost ---- */

bool xt_read_lies_in(const char *parameter, const char *module)
{
    return xt_str_starts(parameter, module) && parameter[strlen(module)] == '.';
}

/* The last but one of "['', 'stem', 'stem.1', 'group_norm']", in which no name has quotes; "": the
 * network itself. */
static bool take_module(const char *scopes, char *out, size_t size)
{
    const char *parts[2] = {NULL, NULL}; /* that one and the last */
    for (const char *at = scopes; (at = strchr(at, '\''));) {
        const char *end = strchr(at + 1, '\'');
        if (!end)
            return false;
        parts[0] = parts[1];
        parts[1] = at + 1;
        at = end + 1;
    }
    size_t length = parts[0] ? (size_t)(strchr(parts[0], '\'') - parts[0]) : 0;
    if (!parts[0] || length >= size)
        return false;
    snprintf(out, size, "%.*s", (int)length, parts[0]);
    return true;
}

/* What the metadata of PyTorch's newer exporter say of the module that a node is of: field 9, which
 * not every schema has. */
static bool told_of_module(const struct xt_read_node *node, const char *key, char *out, size_t size)
{
    enum { METADATA = 9 };
    bool found = false;
    const ProtobufCMessage *base = &node->proto->base;
    for (unsigned i = 0; i < base->n_unknown_fields && !found; i++) {
        const ProtobufCMessageUnknownField *field = &base->unknown_fields[i];
        size_t prefix = 0; /* its length */
        if (field->tag != METADATA || field->wire_type != PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED)
            continue;
        while (prefix < field->len && field->data[prefix] & 0x80)
            prefix++;
        prefix++;
        Onnx__StringStringEntryProto *entry =
            prefix < field->len ? onnx__string_string_entry_proto__unpack(NULL, field->len - prefix,
                                                                          field->data + prefix)
                                : NULL;
        found = entry && entry->key && entry->value && strcmp(entry->key, key) == 0 &&
                take_module(entry->value, out, size);
        if (entry)
            onnx__string_string_entry_proto__free_unpacked(entry, NULL);
    }
    return found;
}

static bool module_of(const struct xt_read_node *node, char *out, size_t size)
{
    return told_of_module(node, "pkg.torch.onnx.name_scopes", out, size);
}

/* The class of the module that a node is of, such as "torch.nn.modules.linear.Linear". */
static bool class_of(const struct xt_read_node *node, char out[XT_PARAM_NAME_MAX])
{
    return told_of_module(node, "pkg.torch.onnx.class_hierarchy", out, XT_PARAM_NAME_MAX);
}

bool xt_read_is_of_torch(const struct xt_read_node *node)
{
    char class[XT_PARAM_NAME_MAX];
    return class_of(node, class) && xt_str_starts(class, "torch.nn.");
}

/* Whether the module is a layer that reads its weight as it is, by its class if that is told: what
 * the network's own classes do with theirs is not known. */
static bool is_of_layer(const struct xt_read_node *node)
{
    char class[XT_PARAM_NAME_MAX];
    return !class_of(node, class) || xt_str_ends(class, ".Linear") ||
           (xt_str_starts(class, "torch.nn.") && !xt_str_ends(class, ".Bilinear"));
}

int xt_read_place_in_module(const struct xt_reader *reader, const struct xt_read_node *node)
{
    char module[XT_PARAM_NAME_MAX];
    char other[XT_PARAM_NAME_MAX];
    int place = 0;
    if (!module_of(node, module, sizeof module))
        return -1;
    for (const struct xt_read_node *before = reader->nodes; before < node; before++)
        place += xt_read_is(before, node->op) && module_of(before, other, sizeof other) &&
                 strcmp(module, other) == 0;
    return place;
}

static bool is_lost(const struct xt_reader *reader, const struct xt_read_target *target)
{
    return !target->is_buffer && !xt_read_is_initializer(reader, target->name) &&
           !is_of_norm(&reader->signature, target->name);
}

bool xt_read_is_missing(const struct xt_reader *reader, const struct xt_read_target *target)
{
    bool missing = is_lost(reader, target);
    for (size_t i = 0; i < reader->net->param_count && missing; i++)
        missing = strcmp(reader->net->params[i].name, target->name) != 0;
    return missing;
}

const char *xt_read_own_name(const char *parameter, const char *module)
{
    size_t length = strlen(module);
    if (length && !xt_read_lies_in(parameter, module))
        return NULL;
    const char *own = length ? parameter + length + 1 : parameter;
    return strchr(own, '.') ? NULL : own;
}

/* Parameters of the module itself that are lost: how many, and the last of them. */
static size_t count_lost(const struct xt_reader *reader, const char *module, const char **last)
{
    size_t count = 0;
    for (size_t i = 0; i < reader->signature.count; i++) {
        const struct xt_read_target *target = &reader->signature.targets[i];
        if (!xt_read_own_name(target->name, module) || !is_lost(reader, target))
            continue;
        count++;
        *last = target->name;
    }
    return count;
}

/* The module of all nodes that read a tensor; NULL: of several, or not known. */
static const char *only_module(const struct xt_reader *reader, const struct xt_read_value *value)
{
    const char *first = NULL;
    for (size_t n = 0; n < reader->node_count; n++)
        for (int i = 0; i < reader->nodes[n].input_count; i++) {
            const char *module = reader->signature.modules[n];
            if (reader->nodes[n].inputs[i] != value)
                continue;
            if (module[0] == unknown[0] || (first && strcmp(first, module) != 0))
                return NULL;
            first = module;
        }
    return first;
}

bool xt_read_is_one(const struct xt_reader *reader, const struct xt_read_value *value)
{
    const struct xt_read_signature *signature = &reader->signature;
    if (!signature->modules) /* nothing is lost, so nothing was stored as another's */
        return signature->count && !signature->lost && !signature->folded;
    const char *module = only_module(reader, value);
    const char *last = NULL;
    bool is_made = xt_read_origin_of(reader, value->name) == XT_READ_MADE;
    return module && count_lost(reader, module, &last) <= is_made;
}

/* Whether the module has lost another parameter than its weight and bias. */
static bool lacks_others(const struct xt_reader *reader, const char *module)
{
    size_t length = strlen(module);
    for (size_t i = 0; i < reader->signature.count; i++) {
        const struct xt_read_target *target = &reader->signature.targets[i];
        if (!xt_read_lies_in(target->name, module))
            continue;
        const char *own = target->name + length + 1;
        if (!strchr(own, '.') && strcmp(own, "weight") != 0 && strcmp(own, "bias") != 0 &&
            is_lost(reader, target))
            return true;
    }
    return false;
}

struct xt_read_target *xt_read_target_of(const struct xt_reader *reader, const char *module,
                                         const char *own)
{
    char name[XT_PARAM_NAME_MAX];
    const char *dot = *module ? "." : "";
    if (snprintf(name, sizeof name, "%s%s%s", module, dot, own) >= (int)sizeof name)
        return NULL;
    return find(&reader->signature, &(struct xt_read_target){.name = name});
}

static const char *lost_in(const struct xt_reader *reader, const char *module, const char *own)
{
    const struct xt_read_target *target = xt_read_target_of(reader, module, own);
    return target && is_lost(reader, target) ? target->name : NULL;
}

const char *xt_read_lost_name(const struct xt_reader *reader, const struct xt_read_node *node,
                              const char *own)
{
    char module[XT_PARAM_NAME_MAX];
    return reader->signature.lost && module_of(node, module, sizeof module) &&
                   !lacks_others(reader, module)
               ? lost_in(reader, module, own)
               : NULL;
}

const char *xt_read_only_lost(const struct xt_reader *reader, const struct xt_read_node *node)
{
    const struct xt_read_signature *signature = &reader->signature;
    const char *module = signature->modules ? signature->modules[node - reader->nodes] : unknown;
    const char *last = NULL;
    bool is_only = *module && module[0] != unknown[0] && count_lost(reader, module, &last) == 1;
    return is_only && !xt_str_ends(last, ".weight") && !xt_str_ends(last, ".bias") ? last : NULL;
}

const char *xt_read_lost_of(const struct xt_reader *reader, const struct xt_read_node *node,
                            const char *own)
{
    char module[XT_PARAM_NAME_MAX];
    return reader->signature.lost && module_of(node, module, sizeof module)
               ? lost_in(reader, module, own)
               : NULL;
}

static bool begins_with_one(const char *name, const char *const prefixes[])
{
    for (; *prefixes; prefixes++)
        if (xt_str_starts(name, *prefixes))
            return true;
    return false;
}

/* A number of the network's code, by the names that the exporter gives. One that has axes may be a
 * parameter of one number, shaped for images. */
static bool is_literal(const struct xt_read_constant *constant)
{
    static const char *const prefixes[] = {"scalar_tensor", "value_", "lifted_tensor",
                                           "_tensor_constant", NULL};
    return constant->count == 1 &&
           (begins_with_one(constant->name, prefixes) || xt_str_ends(constant->name, "_cast") ||
            (xt_str_starts(constant->name, "val_") && !constant->ndims));
}

/* A number for each channel of images, as norms' scales are shaped when an export takes them apart.
 */
static bool is_vector_for_images(const struct xt_read_node *node,
                                 const struct xt_read_constant *constant)
{
    if (!xt_read_is_vector(constant->dims, constant->ndims))
        return false;
    for (int i = 0; i < node->input_count; i++)
        if (node->inputs[i] && node->inputs[i]->view && !node->inputs[i]->view->value->of_parameter)
            return true;
    return false;
}

/* Whether a matrix that the node reads may be a lost weight: its module has lost one and is a
 * layer, or a module in that does which is not run itself, since this one reads its weight. */
static bool may_read_weight(const struct xt_reader *reader, const struct xt_read_node *node)
{
    const struct xt_read_signature *signature = &reader->signature;
    const char *module = signature->modules ? signature->modules[node - reader->nodes] : unknown;
    size_t length = strlen(module);
    if (module[0] == unknown[0])
        return true;
    bool is_layer = is_of_layer(node);
    for (size_t i = 0; i < signature->count; i++) {
        const struct xt_read_target *target = &signature->targets[i];
        bool inside = !length || xt_read_lies_in(target->name, module);
        const char *own = target->name + (inside && length ? length + 1 : 0);
        bool is_read = strchr(own, '.') ? !target->runs : is_layer;
        if (inside && xt_str_ends(own, "weight") && is_read && is_lost(reader, target))
            return true;
    }
    return false;
}

/* A linear layer's weight that the exporter transposed: what the network's own code computes is
 * called after its operator. */
static bool is_transposed(const struct xt_reader *reader, const struct xt_read_node *node,
                          const struct xt_read_constant *constant)
{
    const char *name = constant->name;
    bool is_linear =
        xt_read_is(node, "Gemm") || xt_read_is(node, "MatMul") || xt_read_is(node, "(linear)");
    bool is_turned =
        xt_str_starts(name, "val_") || xt_str_starts(name, "t_") || strcmp(name, "t") == 0;
    return is_linear && is_turned && constant->ndims == 2 && may_read_weight(reader, node);
}

/* What the exporter calls what it did with a parameter's axes. */
static const char *const reshapes[] = {"unsqueeze", "squeeze",   "view", "reshape",
                                       "permute",   "transpose", NULL};

static int compare_numbers(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static bool has_few_distinct(const double *numbers, size_t all)
{
    enum { SAMPLE = 4096, FEW = 16 };
    double sorted[SAMPLE];
    size_t count = all < SAMPLE ? all : SAMPLE;
    size_t distinct = 1;
    if (!numbers || count <= FEW)
        return false;
    memcpy(sorted, numbers, count * sizeof *numbers);
    qsort(sorted, count, sizeof *sorted, compare_numbers);
    for (size_t i = 1; i < count; i++)
        distinct += sorted[i] != sorted[i - 1];
    return distinct > 1 && distinct < count / 2;
}

/* Whether most of its numbers are there several times, as in a table of biases that were picked by
 * pairs of positions; not all alike, as a parameter may begin. */
static bool is_gathered(struct xt_reader *reader, struct xt_read_constant *constant)
{
    if (!constant->is_counted)
        constant->is_gathered =
            has_few_distinct(xt_read_numbers(reader, constant), constant->count);
    constant->is_counted = true;
    return constant->is_gathered;
}

/* A parameter of another shape, by the name of what the exporter did with it, or since it can be
 * nothing else. A convolution's weight needs no other shape: the last that was done with one that
 * is computed may well be. */
static bool is_reshaped(struct xt_reader *reader, const struct xt_read_node *node,
                        struct xt_read_constant *constant)
{
    if (xt_read_is(node, "Conv") || xt_read_is(node, "ConvTranspose") ||
        is_gathered(reader, constant))
        return false;
    return xt_read_is(node, "PRelu") || is_transposed(reader, node, constant) ||
           begins_with_one(constant->name, reshapes) ||
           (xt_str_starts(constant->name, "val_") && is_vector_for_images(node, constant));
}

/* ---- the signature ---- */

/* Whether the node reads a lost parameter in another shape, as far as names say. */
static int count_reshaped(struct xt_reader *reader, const struct xt_read_node *node, bool is_usual)
{
    static const char *const operators[] = {"Mul", "Add", "Sub", "Div", NULL};
    int count = 0;
    for (int i = 0; i < node->input_count; i++) {
        struct xt_read_value *value = xt_read_input(node, i);
        if (!value || !value->initializer || xt_read_origin_of(reader, value->name) != XT_READ_MADE)
            continue;
        struct xt_read_constant *constant = xt_read_constant_of(reader, value);
        bool is_vector = constant && is_usual && xt_str_starts(constant->name, "val_") &&
                         xt_read_is_vector(constant->dims, constant->ndims) &&
                         begins_with_one(node->op, operators);
        count +=
            constant && constant->is_float && (is_vector || is_reshaped(reader, node, constant));
    }
    return count;
}

/* Whether as many tensors that are reshaped parameters are read in the module of a lost one as it
 * has lost. */
static bool is_explained(struct xt_reader *reader, const char *name)
{
    char(*modules)[XT_PARAM_NAME_MAX] = reader->signature.modules;
    size_t length = strrchr(name, '.') ? (size_t)(strrchr(name, '.') - name) : 0;
    const char *own = name + length + 1;
    bool is_usual = strcmp(own, "weight") == 0 || strcmp(own, "bias") == 0;
    int lost = 0;
    int found = 0;
    for (size_t i = 0; length && i < reader->signature.count; i++) {
        const struct xt_read_target *target = &reader->signature.targets[i];
        lost += strncmp(target->name, name, length + 1) == 0 &&
                !strchr(target->name + length + 1, '.') && is_lost(reader, target);
    }
    for (size_t i = 0; length && i < reader->node_count; i++)
        if (strncmp(modules[i], name, length) == 0 && !modules[i][length])
            found += count_reshaped(reader, &reader->nodes[i], is_usual);
    return length && found >= lost;
}

/* Whether nodes are of the parameter's own module. */
static bool runs(const struct xt_reader *reader, const char *parameter)
{
    const char *dot = strrchr(parameter, '.');
    size_t length = dot ? (size_t)(dot - parameter) : 0;
    for (size_t i = 0; i < reader->node_count; i++)
        if (strncmp(reader->signature.modules[i], parameter, length) == 0 &&
            !reader->signature.modules[i][length])
            return true;
    return false;
}

/* Looks for the lost parameters among the tensors of their modules. */
static void explain_lost(struct xt_reader *reader)
{
    struct xt_read_signature *signature = &reader->signature;
    for (size_t i = 0; i < signature->count; i++)
        signature->targets[i].runs = runs(reader, signature->targets[i].name);
    for (size_t i = 0; i < signature->count; i++) {
        struct xt_read_target *target = &signature->targets[i];
        target->unexplained = is_lost(reader, target) && !is_explained(reader, target->name);
        if (target->unexplained && !signature->unexplained)
            signature->unexplained = target->name;
    }
}

/* The first that is lost, and whether one of a batch norm's is not in the file: its statistics,
 * where it has no parameters. Instance norms have those too, and do not use them. */
static void find_lost(struct xt_reader *reader)
{
    struct xt_read_signature *signature = &reader->signature;
    bool has_instance_norms = false;
    signature->lost = NULL;
    signature->folded = false;
    for (size_t i = 0; i < reader->node_count; i++)
        has_instance_norms =
            has_instance_norms || xt_read_is(&reader->nodes[i], "InstanceNormalization");
    for (size_t i = 0; i < signature->count; i++) {
        const struct xt_read_target *target = &signature->targets[i];
        bool is_statistic = xt_str_ends(target->name, ".running_mean") && !has_instance_norms;
        if ((target->is_buffer && !is_statistic) || xt_read_is_initializer(reader, target->name))
            continue;
        if (is_of_norm(signature, target->name))
            signature->folded = true;
        else if (!signature->lost)
            signature->lost = target->name;
    }
}

static bool read_targets(struct xt_reader *reader)
{
    struct xt_read_signature *signature = &reader->signature;
    char *text = reader->file.signature;
    size_t lines = 1;
    for (const char *at = text; *at; at++)
        lines += *at == '\n';
    signature->targets = xt_reader_take(reader, lines, sizeof *signature->targets);
    if (!signature->targets)
        return false;
    for (char *line; (line = strsep(&text, "\n"));)
        signature->count += take_target(line, &signature->targets[signature->count]);
    if (signature->count)
        qsort(signature->targets, signature->count, sizeof *signature->targets, compare);
    return true;
}

static bool find_modules(struct xt_reader *reader)
{
    struct xt_read_signature *signature = &reader->signature;
    signature->modules = xt_reader_take(reader, reader->node_count + 1, sizeof *signature->modules);
    if (!signature->modules)
        return false;
    for (size_t i = 0; i < reader->node_count; i++)
        if (!module_of(&reader->nodes[i], signature->modules[i], sizeof signature->modules[i]))
            snprintf(signature->modules[i], sizeof signature->modules[i], "%s", unknown);
    return true;
}

bool xt_read_take_signature(struct xt_reader *reader)
{
    enum { ALL_MAX = 20000 }; /* each is looked for among all */
    struct xt_read_signature *signature = &reader->signature;
    if (!reader->file.signature)
        return true;
    if (!read_targets(reader))
        return false;
    find_lost(reader);
    if (!signature->lost && !signature->folded)
        return true;
    if (signature->count + reader->node_count > ALL_MAX) {
        signature->unexplained = signature->lost;
        return true;
    }
    if (!find_modules(reader) || !xt_read_restore(reader))
        return false;
    find_lost(reader);
    explain_lost(reader);
    return !xt_reader_fails(reader);
}

/* ---- what is trained ---- */

/* Whether the exporter made a tensor of a file that lacks parameters. */
static bool may_be_learned(const struct xt_reader *reader, const struct xt_read_constant *constant)
{
    return reader->signature.lost && xt_read_origin_of(reader, constant->name) == XT_READ_MADE &&
           !is_literal(constant);
}

bool xt_read_is_learned(const struct xt_reader *reader, const struct xt_read_constant *constant)
{
    return constant->of_weights || (constant->tensor && constant->is_float && !constant->is_fixed &&
                                    xt_read_origin_of(reader, constant->name) != XT_READ_BUFFER &&
                                    !xt_read_is_made_up(reader, constant->name));
}

/* A made-up name of several numbers may be a weight's, which an exporter computed from another. */
bool xt_read_is_numbers(const struct xt_reader *reader, const struct xt_read_constant *constant)
{
    if (!constant->tensor || !constant->is_float || constant->is_fixed)
        return !constant->of_weights;
    enum xt_read_origin origin = xt_read_origin_of(reader, constant->name);
    return origin == XT_READ_BUFFER ||
           (origin == XT_READ_MADE && !may_be_learned(reader, constant)) ||
           (origin == XT_READ_UNKNOWN && constant->count == 1 &&
            xt_read_is_made_up(reader, constant->name));
}

/* ---- what was computed from a parameter that is still there ---- */

static double same(double x)
{
    return x;
}
static double negative(double x)
{
    return -x;
}
static double inverse(double x)
{
    return 1 / x;
}
static double decay(double x)
{
    return exp(-x);
}
static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}
static double softplus(double x)
{
    return log1p(exp(x));
}
static double relu(double x)
{
    return x > 0 ? x : 0;
}
static double square(double x)
{
    return x * x;
}

/* What networks usually make of a parameter by itself: temperatures, gates, a state of zeros times
 * a weight plus a bias. */
static const struct {
    double (*of)(double);
    bool likely; /* of one number too, where nothing tells what is a parameter */
} functions[] = {{exp, true},   {decay, false},   {sigmoid, false}, {softplus, false},
                 {tanh, false}, {negative, true}, {same, false},    {inverse, true},
                 {relu, false}, {fabs, false},    {square, false},  {sqrt, false},
                 {log, false}};

/* Whether each of these numbers is the function's of the parameter's. */
static bool is_function_of(double (*function)(double), const double *of, const double *numbers,
                           size_t count)
{
    bool is = true;
    for (size_t i = 0; i < count && is; i++) {
        double wanted = function(of[i]);
        is = fabs(numbers[i] - wanted) <= 1e-6 * fabs(wanted);
    }
    return is;
}

/* By the signature, else by its name. */
static bool may_be_parameter(const struct xt_reader *reader, const char *name)
{
    return reader->signature.count ? xt_read_origin_of(reader, name) == XT_READ_PARAMETER
                                   : !xt_read_is_made_up(reader, name);
}

/* The parameter whose function an exporter's tensor is; NULL: none that is known. A parameter of
 * zeros or ones says nothing, and one number only as much as it is likely where nothing tells what
 * is a parameter. */
static const char *computed_of(struct xt_reader *reader, struct xt_read_constant *constant)
{
    bool is_told = reader->signature.count > 0;
    const double *numbers = xt_read_numbers(reader, constant);
    for (size_t i = 0; i < reader->value_count && numbers; i++) {
        struct xt_read_value *value = reader->by_name[i];
        double first = 0;
        if (!value->initializer || !may_be_parameter(reader, value->name))
            continue;
        struct xt_read_constant *parameter = xt_read_constant_of(reader, value);
        if (!parameter || parameter->count != constant->count || !parameter->is_float)
            continue;
        bool is_equal = xt_read_all_equal(reader, parameter, &first);
        const double *of = xt_read_numbers(reader, parameter);
        if (!of || (is_equal && (first == 0 || first == 1)))
            continue;
        for (size_t k = 0; k < sizeof functions / sizeof *functions; k++)
            if ((is_told || constant->count > 1 || functions[k].likely) &&
                (functions[k].of != same || !is_equal) &&
                is_function_of(functions[k].of, of, numbers, constant->count))
                return value->name;
    }
    return NULL;
}

/* Whether the node's module lacks a parameter that nothing is left of, or one in it does: others
 * read none of those. */
static bool may_read_lost(const struct xt_reader *reader, const struct xt_read_node *node)
{
    const struct xt_read_signature *signature = &reader->signature;
    const char *module = signature->modules ? signature->modules[node - reader->nodes] : unknown;
    bool may = !*module || strcmp(module, unknown) == 0;
    if (!signature->unexplained)
        return false;
    for (size_t i = 0; i < signature->count && !may; i++)
        may = signature->targets[i].unexplained &&
              xt_read_lies_in(signature->targets[i].name, module);
    return may;
}

/* Whether it may have been computed from a lost parameter, and is none that has another shape. */
static bool is_suspect(struct xt_reader *reader, const struct xt_read_node *node,
                       struct xt_read_constant *constant)
{
    return constant->tensor && constant->is_float && may_be_learned(reader, constant) &&
           !is_reshaped(reader, node, constant);
}

void xt_read_note_fixed(struct xt_reader *reader, const struct xt_read_node *node,
                        struct xt_read_constant *constant)
{
    if (!may_read_lost(reader, node) && is_suspect(reader, node, constant))
        constant->is_fixed = true;
}

bool xt_read_check_origin(struct xt_reader *reader, const struct xt_read_node *node,
                          struct xt_read_constant *constant)
{
    bool is_made = constant->tensor && constant->is_float && !reader->is_foreign &&
                   xt_read_is_made_up(reader, constant->name);
    const char *of = is_made && !is_literal(constant) ? computed_of(reader, constant) : NULL;
    if (of)
        return xt_reader_refuse(
            reader, node,
            "reads %s, whose numbers are what the exporter computed from the "
            "parameter %s, which would not be trained through it: export with %s",
            xt_str_quote(constant->name, strlen(constant->name)).text, of,
            reader->signature.count ? "dynamo=False or optimize=False"
                                    : "do_constant_folding=False");
    if (!is_suspect(reader, node, constant))
        return true;
    xt_read_note_fixed(reader, node, constant);
    return constant->is_fixed ||
           xt_reader_refuse(reader, node,
                            "reads %s, which the exporter may have computed from a parameter that "
                            "is not in the file any more, such as %s: export with dynamo=False "
                            "or optimize=False, which keep it",
                            xt_str_quote(constant->name, strlen(constant->name)).text,
                            reader->signature.unexplained);
}

bool xt_read_check_inputs(struct xt_reader *reader, const struct xt_read_node *node)
{
    for (int i = 0; i < node->input_count; i++) {
        struct xt_read_value *value = xt_read_input(node, i);
        struct xt_read_constant *constant = value ? xt_read_constant_of(reader, value) : NULL;
        if (constant && !xt_read_check_origin(reader, node, constant))
            return false;
    }
    return true;
}
