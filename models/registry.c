#include "models/registry.h"

#include <string.h>

#include "base/str.h"
#include "engine/net/fuse.h"

const struct xt_model_info *xt_model_at(size_t i)
{
    for (const struct xt_model_info *const *family = xt_models; *family; family++)
        for (const struct xt_model_info *model = *family; model->name; model++)
            if (i-- == 0)
                return model;
    return NULL;
}

const struct xt_model_info *xt_model_find(const char *name)
{
    const struct xt_model_info *model = NULL;
    for (size_t i = 0; (model = xt_model_at(i)); i++)
        if (xt_str_same_name(model->name, name))
            return model;
    return NULL;
}

const struct xt_class_layer *xt_class_layer_of(const struct xt_class_layer *layers,
                                               const char *tensor)
{
    for (const struct xt_class_layer *layer = layers; layer && layer->name; layer++)
        if (xt_str_starts(tensor, layer->name) && tensor[strlen(layer->name)] == '.')
            return layer;
    return NULL;
}

bool xt_is_of_head(const struct xt_class_layer *layers, const char *tensor)
{
    const struct xt_class_layer *layer = xt_class_layer_of(layers, tensor);
    return layer && layer->is_head;
}

enum xt_status xt_model_get(const char *name, const struct xt_model_info **out, struct xt_err *err)
{
    *out = xt_model_find(name);
    if (*out)
        return XT_OK;
    struct xt_str names = {0};
    for (size_t i = 0; xt_model_at(i); i++)
        xt_str_printf(&names, NULL, "%s%s", i ? ", " : "", xt_model_at(i)->name);
    enum xt_status status = xt_str_check(&names, err);
    if (!status)
        status = xt_err_set(err, XT_ERR_USAGE, "--model %s: there is no such network; there is %s",
                            name, xt_str_get(&names));
    xt_str_clear(&names);
    return status;
}

struct xt_normalise xt_model_normalise(const struct xt_model_info *model)
{
    return (struct xt_normalise){{model->mean, model->mean, model->mean},
                                 {model->scale, model->scale, model->scale}};
}

const char *xt_model_pixel_order(const struct xt_model_info *model)
{
    return model->grey ? "GREY" : model->bgr ? "BGR" : "RGB";
}

enum xt_status xt_model_net(const struct xt_model_info *model,
                            const struct xt_model_options *options, struct xt_net **out,
                            struct xt_err *err)
{
    *out = NULL;
    if (options->height < model->smallest || options->width < model->smallest)
        return xt_err_set(err, XT_ERR_USAGE, "--image-size: %s needs images of at least %dx%d",
                          model->name, model->smallest, model->smallest);
    struct xt_net *net = xt_net_create(err);
    if (!net)
        return err->status;
    enum xt_status status = xt_net_finish(net, model->describe(net, model, options), err);
    if (status)
        xt_net_destroy(net);
    else
        *out = net;
    return status;
}

static struct xt_tensor *lower(const struct xt_model_info *model, struct xt_graph *graph,
                               const struct xt_model_options *options)
{
    struct xt_net *net = NULL;
    struct xt_normalise normalise =
        options->normalise.scale[0] == 0 ? xt_model_normalise(model) : options->normalise;
    if (graph->err.status || xt_model_net(model, options, &net, &graph->err))
        return NULL;
    struct xt_tensor *logits = xt_net_lower(net, graph, &normalise);
    xt_net_destroy(net);
    return logits;
}

struct xt_tensor *xt_model_describe(const struct xt_model_info *model, struct xt_graph *graph,
                                    const struct xt_model_options *options)
{
    struct xt_tensor *logits = lower(model, graph, options);
    int columns = model->time_steps ? model->time_steps : 1;
    if (logits && (logits->n != graph->options.batch || logits->h != 1 || logits->w != columns ||
                   logits->c != options->classes))
        xt_err_set(&graph->err, XT_ERR_RUN,
                   "%s: the logits %s have %d rows, %d columns and %d classes, but the loss reads "
                   "1, %d and %d: the network's builder and its time_steps disagree",
                   model->name, logits->name, logits->h, logits->w, logits->c, columns,
                   options->classes);
    return graph->err.status ? NULL : logits;
}

const char *xt_model_title(const char *name)
{
    const struct xt_model_info *model = xt_model_find(name);
    return model ? model->title : name;
}

const char *xt_model_default_data(const char *name)
{
    const struct xt_model_info *model = xt_model_find(name);
    return model ? model->default_data : "synth:shapes?count=20000&seed=1";
}

/* For a network from a file. */
static const struct xt_recipe_item file_recipe[] = {
    {"batch", "32"},     {"epochs", "10"},    {"optim", "sgd"}, {"lr", "0.01"},
    {"momentum", "0.9"}, {"sched", "cosine"}, {NULL, NULL},
};

struct xt_recipes xt_model_recipes(const char *name)
{
    const struct xt_model_info *model = xt_model_find(name);
    if (xt_str_ends(name, ".onnx"))
        return (struct xt_recipes){file_recipe, NULL};
    return model ? model->recipes : (struct xt_recipes){NULL, NULL};
}
