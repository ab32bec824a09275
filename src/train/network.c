#include "train/network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "models/weight_file.h"

static enum xt_status check_amp(const struct xt_settings *settings, struct xt_err *err)
{
    if (settings->amp == XT_AMP_FP16)
        return xt_err_set(err, XT_ERR_USAGE,
                          "--amp fp16: on this CPU oneDNN runs 16-bit float convolutions on its "
                          "reference kernels, which are hundreds of times slower; use --amp bf16");
    if (settings->amp == XT_AMP_BF16 && !xt_device_cpu_has_bf16())
        xt_log_warn(
            "--amp bf16: this CPU has no bf16 instructions (AVX512_BF16 or AMX); bf16 will be "
            "slower than --amp off");
    return XT_OK;
}

/* The alphabet: --alphabet, else the weights' own, else the model's default. */
static enum xt_status load_alphabet(struct xt_network *network, const struct xt_settings *settings,
                                    const struct xt_weight_file *weights, struct xt_err *err)
{
    const char *own = weights ? xt_weight_file_meta(weights, "alphabet") : NULL;
    if (settings->alphabet || !own)
        return xt_alphabet_load(&network->alphabet, settings->alphabet, err);
    return xt_alphabet_create(&network->alphabet, own, strlen(own), settings->init, err);
}

/* The context norm: --lprnet-norm, else the weights' own, else over the sample. */
static enum xt_status choose_norm(struct xt_network *network, const struct xt_settings *settings,
                                  const struct xt_weight_file *weights, struct xt_err *err)
{
    network->over_batch = settings->lprnet_norm == XT_CONTEXT_BATCH;
    const char *own = weights ? xt_weight_file_meta(weights, "lprnet_norm") : NULL;
    if (settings->lprnet_norm != XT_CONTEXT_AUTO || !own)
        return XT_OK;
    if (strcmp(own, "sample") != 0 && strcmp(own, "batch") != 0)
        return xt_err_set(
            err, XT_ERR_DATA,
            "%s: its metadata says lprnet_norm \"%.40s\", which is neither sample nor "
            "batch; say which with --lprnet-norm",
            settings->init, own);
    network->over_batch = strcmp(own, "batch") == 0;
    return XT_OK;
}

/* The network: --model, which the weights must agree with, else the weights' own. */
static enum xt_status choose_model(struct xt_network *network, const struct xt_settings *settings,
                                   const struct xt_weight_file *weights, struct xt_err *err)
{
    const char *own = weights ? xt_weight_file_meta(weights, "model") : NULL;
    if (!settings->model && !own)
        return xt_err_set(err, XT_ERR_USAGE,
                          "%s does not say which network it is of; say it with --model",
                          settings->init);
    if (settings->model && own && strcmp(own, settings->model) != 0)
        return xt_err_set(err, XT_ERR_DATA, "%s holds weights of the network \"%.40s\", not of %s",
                          settings->init, own, settings->model);
    if (settings->model)
        return xt_model_get(settings->model, &network->model, err);
    network->model = xt_model_find(own);
    if (network->model)
        return XT_OK;
    return xt_err_set(err, XT_ERR_DATA,
                      "%s holds weights of the network \"%.40s\", which this xtrain does not have",
                      settings->init, own);
}

static enum xt_status build(struct xt_network *network, const struct xt_settings *settings,
                            bool training, struct xt_err *err)
{
    struct xt_graph_options options = {
        .device = &network->device,
        .params = &network->params,
        .batch = network->batch,
        .training = training,
        .dtype = settings->amp == XT_AMP_BF16 ? XT_BF16 : XT_F32,
    };
    struct xt_model_options model_options = {
        .classes = xt_alphabet_count(network->alphabet),
        .context_over_batch = network->over_batch,
    };
    enum xt_status status = xt_graph_create(&network->graph, &options, err);
    if (status)
        return status;
    struct xt_tensor *logits = network->model->describe(network->graph, &model_options, err);
    return logits ? xt_graph_build(network->graph, logits, err) : err->status;
}

static enum xt_status fill(struct xt_network *network, const struct xt_settings *settings,
                           const struct xt_weight_file *weights, struct xt_err *err)
{
    struct xt_params *params = &network->params;
    enum xt_status status = XT_OK;
    if (!weights || settings->init_partial)
        status = xt_params_initialise(params, &network->device, settings->seed,
                                      network->model->initial_bias, err);
    struct xt_params_view view = {params->values, params->stats};
    if (!status && weights)
        status = xt_params_from_file(params, &network->device, &view, weights, settings->init,
                                     settings->init_partial, err);
    return status;
}

/* What freezing the statistics depends on, and says so where the weights decide. */
static void choose_bn(struct xt_network *network, const struct xt_settings *settings, bool training)
{
    bool untouched = network->params.frozen_at_init;
    network->bn_frozen = settings->bn == XT_BN_FROZEN || (settings->bn == XT_BN_AUTO && untouched);
    if (!training || !untouched)
        return;
    if (settings->bn == XT_BN_AUTO)
        xt_log_note("%s: its batch norm statistics are still 0 and 1, so it was trained without "
                    "them; they stay frozen, scale and shift go on learning (--bn frozen)",
                    settings->init);
    else if (settings->bn == XT_BN_BATCH)
        xt_log_warn("%s was trained without batch norm statistics (they are still 0 and 1); --bn "
                    "batch will undo much of what it knows",
                    settings->init);
}

static enum xt_status init_with(struct xt_network *network, const struct xt_settings *settings,
                                const struct xt_weight_file *weights, bool training,
                                struct xt_err *err)
{
    enum xt_status status = choose_model(network, settings, weights, err);
    if (!status)
        status = load_alphabet(network, settings, weights, err);
    if (!status)
        status = choose_norm(network, settings, weights, err);
    if (!status)
        status = build(network, settings, training, err);
    if (!status)
        status = fill(network, settings, weights, err);
    if (!status)
        choose_bn(network, settings, training);
    return status;
}

enum xt_status xt_network_init(struct xt_network *network, const struct xt_settings *settings,
                               int batch, bool training, struct xt_err *err)
{
    *network = (struct xt_network){.batch = batch};
    enum xt_status status =
        xt_device_open(&network->device, settings->device, settings->threads, err);
    if (!status)
        status = check_amp(settings, err);
    if (status)
        return status;
    if (!settings->init)
        return init_with(network, settings, NULL, training, err);
    struct xt_weight_file weights;
    status = xt_weight_file_read(&weights, settings->init, err);
    if (status)
        return status;
    status = init_with(network, settings, &weights, training, err);
    xt_weight_file_clear(&weights);
    return status;
}

void xt_network_clear(struct xt_network *network)
{
    xt_graph_destroy(network->graph);
    xt_params_clear(&network->params);
    xt_alphabet_destroy(network->alphabet);
    xt_device_close(&network->device);
    *network = (struct xt_network){0};
}

struct xt_source_options xt_network_source_options(const struct xt_network *network)
{
    return (struct xt_source_options){
        .alphabet = network->alphabet,
        .order = network->model->bgr ? XT_PIXEL_BGR : XT_PIXEL_RGB,
        .steps_max = network->model->time_steps,
    };
}

enum xt_status xt_network_save(struct xt_network *network, const char *path, struct xt_err *err)
{
    char size[32];
    char mean[32];
    char scale[32];
    snprintf(size, sizeof size, "%dx%d", network->model->width, network->model->height);
    snprintf(mean, sizeof mean, "%.9g", (double)network->model->mean);
    snprintf(scale, sizeof scale, "%.9g", (double)network->model->scale);
    const struct xt_file_meta meta[] = {
        {"format", "pt"},
        {"model", network->model->name},
        {"alphabet", xt_alphabet_text(network->alphabet)},
        {"lprnet_norm", network->over_batch ? "batch" : "sample"},
        {"input_size", size},
        {"pixel_order", network->model->bgr ? "BGR" : "RGB"},
        {"mean", mean},
        {"scale", scale},
        {"xtrain_version", XT_VERSION},
    };
    struct xt_params_view view = {network->params.values, network->params.stats};
    struct xt_params_tensors tensors;
    enum xt_status status =
        xt_params_to_tensors(&network->params, &network->device, &view, &tensors, err);
    if (status)
        return status;
    status = xt_weight_file_write(path, tensors.items, (size_t)tensors.count, meta,
                                  sizeof meta / sizeof meta[0], err);
    xt_params_free_tensors(&tensors);
    return status;
}

size_t xt_network_parameter_count(const struct xt_network *network)
{
    size_t count = 0;
    for (int i = 0; i < network->params.count; i++) {
        const struct xt_param *param = &network->params.items[i];
        size_t part = 1;
        for (int axis = 0; axis < param->ndims; axis++)
            part *= (size_t)param->dims[axis];
        count += xt_param_is_statistic(param) ? 0 : part;
    }
    return count;
}
