#include "models/recognise.h"

#include <string.h>

#include "base/str.h"

/* Whether the file has the parameter; of a layer of classes the number of dimensions is enough. */
static bool has(const struct xt_weight_file *weights, const struct xt_model_info *model,
                const struct xt_net_param *param)
{
    const struct xt_file_tensor *tensor = xt_weight_file_find(weights, param->name);
    if (!tensor || tensor->ndims != param->ndims)
        return false;
    if (xt_class_layer_of(model->class_layers, param->name)) /* other classes in the file */
        return true;
    for (int i = 0; i < param->ndims; i++)
        if (tensor->dims[i] != param->dims[i])
            return false;
    return true;
}

static size_t count_without_counters(const struct xt_weight_file *weights)
{
    size_t count = 0;
    for (size_t i = 0; i < weights->count; i++)
        count += !xt_str_ends(weights->tensors[i].name, ".num_batches_tracked");
    return count;
}

/* All parameters and no others, but for the counters of batches, which old files do not have. */
static bool fits(const struct xt_weight_file *weights, const struct xt_model_info *model,
                 const struct xt_net *net)
{
    size_t count = 0;
    for (size_t i = 0; i < net->param_count; i++) {
        if (net->params[i].role == XT_PARAM_BN_COUNT)
            continue;
        if (!has(weights, model, &net->params[i]))
            return false;
        count++;
    }
    return count == count_without_counters(weights);
}

enum xt_status xt_model_recognise(const struct xt_weight_file *weights,
                                  const struct xt_model_info **out, struct xt_err *err)
{
    enum { CLASSES = 1000 };
    enum xt_status status = XT_OK;
    const struct xt_model_info *model = NULL;
    *out = NULL;
    for (size_t i = 0; !*out && (model = xt_model_at(i)) && !status; i++) {
        const struct xt_model_options options = {
            .classes = CLASSES, .height = model->height, .width = model->width};
        struct xt_net *net = NULL;
        status = xt_model_net(model, &options, &net, err);
        if (!status && fits(weights, model, net))
            *out = model;
        xt_net_destroy(net);
    }
    return status;
}
