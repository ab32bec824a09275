#include "models/loaded.h"

#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "models/net_text.h"
#include "models/onnx/read/read.h"

bool xt_model_is_file(const char *name)
{
    return name && xt_str_ends(name, ".onnx");
}

/* Layers whose outputs become the logits. */
struct heads {
    const struct xt_node *layers[XT_CLASS_LAYERS_MAX];
    int count;
};

/* Classes are rows of its weight, NAME.weight. */
static bool is_head(const struct xt_net *net, const struct xt_node *node)
{
    const struct xt_net_param *weight = xt_node_param(net, node, XT_NODE_WEIGHT);
    size_t length = strlen(node->name);
    bool is_layer =
        node->kind == XT_NODE_CONV || (node->kind == XT_NODE_LINEAR && !node->as.linear.in_first);
    return is_layer && weight && strncmp(weight->name, node->name, length) == 0 &&
           strcmp(weight->name + length, ".weight") == 0;
}

/* The same for all samples and classes: a factor of a mean's. */
static bool is_number(const struct xt_value *value)
{
    return value->of_parameter && value->h == 1 && value->w == 1 && value->c == 1;
}

/* The classifier heads: what comes after them moves, scales or averages channels, and those of
 * several (of distilled networks) are added or averaged. False: there are none, or too many. */
static bool find_heads(const struct xt_net *net, const struct xt_node *node, int depth,
                       struct heads *out)
{
    enum { DEPTH_MAX = 32 };
    bool found = depth < DEPTH_MAX;
    if (is_head(net, node)) {
        if (out->count == XT_CLASS_LAYERS_MAX)
            return false;
        out->layers[out->count++] = node;
        return true;
    }
    switch (node->kind) {
    case XT_NODE_RESHAPE:
    case XT_NODE_AVG_POOL:
    case XT_NODE_MAX_POOL:
    case XT_NODE_ACTIVATION:
    case XT_NODE_DROPOUT:
    case XT_NODE_DROP_CHANNELS:
    case XT_NODE_ADD:
        break;
    case XT_NODE_CONCAT: /* of which the mean is taken */
        found = found && node->as.axis != XT_AXIS_C;
        break;
    case XT_NODE_MUL:
        found = found && (is_number(node->inputs[0]) || is_number(node->inputs[1]));
        break;
    default:
        return false;
    }
    for (int i = 0; i < node->input_count && found; i++) {
        const struct xt_value *value = node->inputs[i];
        found = is_number(value) || (value->c == node->output->c && value->readers == 1 &&
                                     find_heads(net, value->of, depth + 1, out));
    }
    return found;
}

static const struct xt_node *input_of(const struct xt_net *net)
{
    for (size_t i = 0; i < net->node_count; i++)
        if (net->nodes[i]->kind == XT_NODE_INPUT)
            return net->nodes[i];
    return NULL;
}

static enum xt_status take_heads(struct xt_loaded_model *model, const struct xt_net *net,
                                 struct xt_err *err)
{
    struct heads heads = {.count = 0};
    enum xt_status status = XT_OK;
    if (!find_heads(net, net->output->of, 0, &heads))
        return XT_OK;
    for (int i = 0; i < heads.count && !status; i++) {
        status = xt_mem_strdup(&model->heads[i], heads.layers[i]->name, err);
        model->info.class_layers[i] =
            (struct xt_class_layer){.name = model->heads[i], .is_head = true};
    }
    model->info.head = model->heads[0];
    return status;
}

static struct xt_value *parse(struct xt_net *net, const struct xt_model_info *model,
                              const struct xt_model_options *options)
{
    const struct xt_net_text_options text = {.height = options->height,
                                             .width = options->width,
                                             .layers = model->class_layers,
                                             .classes = options->classes};
    struct xt_value *logits = xt_net_parse(net, model->variant, &text);
    if (logits && options->classes && logits->c != options->classes)
        return xt_net_refuse(
            net, XT_ERR_USAGE,
            "%s distinguishes %d classes, not %d, and does not end in one convolution "
            "or linear layer, or the mean of some, that others could replace: create it for %d "
            "classes "
            "before you export it",
            model->name, logits->c, options->classes, options->classes);
    return logits;
}

static enum xt_status describe(struct xt_loaded_model *model, const struct xt_net *net,
                               bool reads_bytes, struct xt_err *err)
{
    static const char title[] = "the network of ";
    const struct xt_node *input = input_of(net);
    struct xt_str text = {0};
    if (!input)
        return xt_err_set(err, XT_ERR_DATA, "%s reads no images", model->name);
    model->info = (struct xt_model_info){
        .name = model->name,
        .height = input->output->h,
        .width = input->output->w,
        .any_size = input->output->h == input->output->w, /* --image-size is of squares */
        .smallest = 1,
        .mean = 127.5f,
        .scale = 1 / 127.5f,
        .grey = input->output->c == 1,
        .published = reads_bytes             ? "bytes"
                     : input->output->c == 1 ? "half"
                                             : "imagenet",
        .time_steps = net->output->w > 1 ? net->output->w : 0,
        .classes = net->output->c,
        .variant = model->text,
        .describe = parse,
    };
    bool is_plates = model->info.time_steps > 0;
    model->info.default_data =
        is_plates ? "synth:plates?count=20000&seed=1" : "synth:shapes?count=20000&seed=1";
    model->info.default_val =
        is_plates ? "synth:plates?count=1000&seed=2" : "synth:shapes?count=1000&seed=2";
    enum xt_status status = xt_str_printf(&text, err, "%s%s", title, model->name);
    model->title = text.data;
    model->info.title = text.data;
    return status ? status : take_heads(model, net, err);
}

enum xt_status xt_model_open(struct xt_loaded_model **out, const char *path, int side,
                             struct xt_err *err)
{
    struct xt_onnx_net read;
    struct xt_str text = {0};
    struct xt_loaded_model *model = NULL;
    enum xt_status status = xt_onnx_read(&read, path, side, err);
    if (!status)
        status = xt_mem_calloc(&model, 1, sizeof *model, "a network", err);
    if (!status)
        status = xt_mem_strdup(&model->name, xt_file_name(path), err);
    if (!status)
        status = xt_net_print(read.net, &text, err);
    if (!status) {
        model->text = text.data;
        text = (struct xt_str){0};
        status = describe(model, read.net, read.reads_bytes, err);
    }
    if (!status) {
        model->weights = read.weights;
        read.weights = (struct xt_weight_file){0};
        model->folded = read.folded;
        model->may_be_folded = read.may_be_folded;
        model->renamed = read.renamed;
        model->splits = read.splits;
        model->missing = read.missing;
        memcpy(model->first_missing, read.first_missing, sizeof read.first_missing);
        if (read.ends_in_softmax)
            xt_log_note("%s: the softmax at its end is skipped: the loss and predict apply it",
                        path);
        if (read.normalises)
            xt_log_note(
                "%s: it normalises pixels itself, by numbers that training leaves as they are",
                path);
    }
    xt_str_clear(&text);
    xt_onnx_net_clear(&read);
    if (status)
        xt_model_close(model);
    *out = status ? NULL : model;
    return status;
}

enum xt_status xt_model_open_text(struct xt_loaded_model **out, const char *name, const char *text,
                                  const char *where, struct xt_err *err)
{
    static const struct xt_net_text_options as_it_is = {0};
    struct xt_loaded_model *model = NULL;
    struct xt_err why = {0};
    struct xt_net *net = xt_net_create(&why);
    if (!net)
        return xt_err_no_memory(err, "a network", 0);
    enum xt_status status = xt_net_finish(net, xt_net_parse(net, text, &as_it_is), &why);
    if (!status)
        status = xt_mem_calloc(&model, 1, sizeof *model, "a network", &why);
    if (!status)
        status = xt_mem_strdup(&model->name, name, &why);
    if (!status)
        status = xt_mem_strdup(&model->text, text, &why);
    if (!status)
        status = describe(model, net, false, &why);
    xt_net_destroy(net);
    if (status)
        xt_model_close(model);
    *out = status ? NULL : model;
    return status ? xt_err_set(err, status, "%s: %s", where, why.text) : XT_OK;
}

void xt_model_close(struct xt_loaded_model *model)
{
    if (!model)
        return;
    xt_weight_file_clear(&model->weights);
    free(model->name);
    free(model->title);
    free(model->text);
    for (int i = 0; i < XT_CLASS_LAYERS_MAX; i++)
        free(model->heads[i]);
    free(model);
}

enum xt_status xt_model_choose(const char *name, int side, struct xt_loaded_model **loaded,
                               const struct xt_model_info **out, struct xt_err *err)
{
    *loaded = NULL;
    if (!xt_model_is_file(name))
        return xt_model_get(name, out, err);
    enum xt_status status = xt_model_open(loaded, name, side, err);
    *out = status ? NULL : &(*loaded)->info;
    return status;
}
