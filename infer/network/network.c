#include "infer/network/network.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/log.h"
#include "base/str.h"
#include "data/sources/registry.h"
#include "infer/network/param_files.h"
#include "models/recognise.h"

bool xt_network_freezes_bn(const struct xt_network *network,
                           const struct xt_network_settings *settings)
{
    enum xt_bn_mode mode = settings->bn == XT_BN_AUTO ? network->bn_before : settings->bn;
    return mode == XT_BN_FROZEN || (mode == XT_BN_AUTO && network->params.frozen_at_init);
}

enum xt_status xt_network_check_amp(const struct xt_network *network,
                                    const struct xt_network_settings *settings, struct xt_err *err)
{
    bool has_type = xt_device_computes_in(&network->device, xt_amp_dtype(settings->amp));
    if (settings->amp == XT_AMP_FP16 && !has_type)
        return xt_err_set(err, XT_ERR_USAGE,
                          "--amp fp16: this CPU has no fp16 arithmetic (AVX512_FP16); use bf16");
    bool on_cpu = network->device.kind == XT_DEVICE_CPU;
    if (settings->amp == XT_AMP_BF16 && on_cpu && !xt_device_cpu_runs_bf16())
        return xt_err_set(
            err, XT_ERR_USAGE,
            "--amp bf16: this CPU has no AVX-512, without which oneDNN computes nothing "
            "in bf16; use f32 (--amp off)");
    if (settings->amp == XT_AMP_BF16 && !has_type)
        xt_log_warn_once("--amp bf16: this CPU has no bf16 instructions (AVX512_BF16 or AMX); bf16 "
                         "will be slower than --amp f32");
    else if (settings->amp == XT_AMP_BF16 && on_cpu && !xt_device_cpu_has_tiles())
        xt_log_warn_once(
            "--amp bf16: this CPU has no matrix tiles (AMX), and with AVX512_BF16 alone bf16 "
            "may be slower than --amp f32; xtrain bench step --amp f32,bf16 measures both");
    return XT_OK;
}

enum xt_status xt_network_alphabet(const struct xt_network_settings *settings,
                                   struct xt_alphabet **out, struct xt_err *err)
{
    const char *own = settings->text_alphabet;
    if (settings->alphabet || !own)
        return xt_alphabet_load_blank(out, settings->alphabet,
                                      settings->alphabet ? settings->blank : XT_BLANK_AUTO, err);
    return xt_alphabet_create_blank(
        out, own, strlen(own), settings->blank == XT_BLANK_FIRST ? XT_BLANK_FIRST : XT_BLANK_LAST,
        "the weights of --model", err);
}

/* The alphabet: --alphabet, else the weights' own, else the model's default. */
static enum xt_status load_alphabet(struct xt_network *network,
                                    const struct xt_network_settings *settings,
                                    const struct xt_weight_file *weights, struct xt_err *err)
{
    const char *own = weights ? xt_weight_file_meta(weights, "alphabet") : settings->text_alphabet;
    const char *blank = weights ? xt_weight_file_meta(weights, "blank") : NULL;
    if (settings->alphabet || !own || !weights)
        return xt_network_alphabet(settings, &network->alphabet, err);
    return xt_alphabet_create_blank(&network->alphabet, own, strlen(own), xt_blank_of_meta(blank),
                                    network->weights_name, err);
}

/* The context norm: --lprnet-norm, else the weights' own, else over the sample. */
static enum xt_status choose_norm(struct xt_network *network,
                                  const struct xt_network_settings *settings,
                                  const struct xt_weight_file *weights, struct xt_err *err)
{
    network->over_batch = settings->lprnet_norm == XT_CONTEXT_BATCH;
    const char *own = weights ? xt_weight_file_meta(weights, "lprnet_norm") : NULL;
    if (settings->lprnet_norm != XT_CONTEXT_AUTO || !own)
        return XT_OK;
    if (strcmp(own, "sample") != 0 && strcmp(own, "batch") != 0)
        return xt_err_set(err, XT_ERR_DATA,
                          "%s: its metadata says lprnet_norm \"%.40s\", which is neither sample "
                          "nor batch; give --lprnet-norm",
                          network->weights_name, own);
    network->over_batch = strcmp(own, "batch") == 0;
    return XT_OK;
}

/* The network as stored in weights or in a checkpoint. */
static enum xt_status open_own_model(struct xt_network *network, const char *text, const char *name,
                                     struct xt_err *err)
{
    const char *where = network->weights_name ? network->weights_name : "the checkpoint";
    enum xt_status status = xt_model_open_text(&network->loaded, name, text, where, err);
    if (!status)
        network->model = &network->loaded->info;
    return status;
}

/* The network: --model, which must match the weights, else the weights' own. */
static enum xt_status choose_model(struct xt_network *network,
                                   const struct xt_network_settings *settings,
                                   const struct xt_weight_file *weights, struct xt_err *err)
{
    const char *own = weights ? xt_weight_file_meta(weights, "model") : NULL;
    const char *file = network->weights_name;
    if (network->loaded)
        return XT_OK;
    if (!settings->model && !own && weights &&
        (xt_model_recognise(weights, &network->model, err) || network->model))
        return network->model ? XT_OK : err->status;
    if (!settings->model && !own)
        return xt_err_set(err, XT_ERR_USAGE, "%s does not name its network; name it with --model",
                          file);
    if (settings->model && own && strcmp(own, settings->model) != 0)
        return xt_err_set(err, XT_ERR_DATA, "%s holds weights of the network \"%.40s\", not of %s",
                          file, own, settings->model);
    const char *text = own ? xt_weight_file_meta(weights, XT_NET_TEXT_KEY) : NULL;
    if (text)
        return open_own_model(network, text, own, err);
    if (settings->model)
        return xt_model_get(settings->model, &network->model, err);
    network->model = xt_model_find(own);
    if (network->model)
        return XT_OK;
    return xt_err_set(err, XT_ERR_DATA,
                      "%s holds weights of the network \"%.40s\", which this xtrain does not have",
                      file, own);
}

int xt_network_head_classes(const struct xt_network *network)
{
    static const char *const suffixes[] = {"weight", "0.weight"};
    for (int i = 0; i < 2 && network->model->head; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s.%s", network->model->head, suffixes[i]);
        const struct xt_file_tensor *tensor = xt_weight_file_find(&network->weights, name);
        if (tensor && tensor->ndims >= 2 && tensor->dims[0] > 0 &&
            tensor->dims[0] <= XT_CLASSES_MAX)
            return (int)tensor->dims[0];
    }
    return network->model->classes;
}

/* The classes by the weights; training may take others from its data. */
static enum xt_status load_classes(struct xt_network *network, struct xt_err *err)
{
    const char *names = xt_weight_file_meta(&network->weights, "class_names");
    enum xt_status status = XT_OK;
    if (names)
        status = xt_class_names_parse(&network->class_names, names, network->weights_name, err);
    network->classes = network->class_names.count ? network->class_names.count
                       : network->has_weights     ? xt_network_head_classes(network)
                                                  : network->model->classes;
    return status;
}

/* The size of the images: --image-size, else what the weights were trained at, else the model's. */
static enum xt_status choose_size(struct xt_network *network,
                                  const struct xt_network_settings *settings, struct xt_err *err)
{
    const struct xt_model_info *model = network->model;
    network->height = model->height;
    network->width = model->width;
    if (settings->image_size && !model->any_size && settings->image_size != model->height)
        return xt_err_set(err, XT_ERR_USAGE, "--image-size %d: %s reads images of %dx%d alone",
                          settings->image_size, model->name, model->width, model->height);
    if (!model->any_size)
        return XT_OK;
    int width = 0;
    int height = 0;
    const char *own = xt_weight_file_meta(&network->weights, "input_size");
    if (settings->image_size)
        network->height = network->width = settings->image_size;
    else if (own && sscanf(own, "%5dx%5d", &width, &height) == 2 && width > 0 && height > 0) {
        network->width = width;
        network->height = height;
    }
    return XT_OK;
}

/* Normalisation: --normalize, else by the weights' metadata, else that of published weights, else
 * the model's own. */
static enum xt_status choose_normalise(struct xt_network *network,
                                       const struct xt_network_settings *settings,
                                       const struct xt_weight_file *weights, struct xt_err *err)
{
    const struct xt_model_info *model = network->model;
    const char *mean = weights ? xt_weight_file_meta(weights, "mean") : NULL;
    const char *scale = weights ? xt_weight_file_meta(weights, "scale") : NULL;
    bool is_said = settings->normalize && strcmp(settings->normalize, "auto") != 0;
    enum xt_status status = XT_OK;
    network->normalise = xt_model_normalise(model);
    network->normalise_by = "the network's own";
    if (is_said) {
        network->normalise_by = "--normalize";
        status = xt_normalise_parse(&network->normalise, settings->normalize, model->bgr, err);
        if (!status && model->grey && !xt_normalise_is_uniform(&network->normalise))
            status = xt_err_set(err, XT_ERR_USAGE,
                                "--normalize %s: %s reads grey images, which take one number of "
                                "each, such as half or 0.45/0.25",
                                settings->normalize, model->name);
    } else if (mean && scale) {
        network->normalise_by = "as the weights say";
        status =
            xt_normalise_from_meta(&network->normalise, mean, scale, network->weights_name, err);
    } else if (weights && model->published) {
        network->normalise_by = network->loaded ? "assumed" : "as published weights read them";
        status = xt_normalise_parse(&network->normalise, model->published, model->bgr, err);
        if (network->loaded)
            xt_log_note("%s does not record its normalisation: --normalize %s is assumed; give the "
                        "one it was trained with",
                        network->weights_name, model->published);
        else
            xt_log_note("%s does not record its normalisation: --normalize %s is assumed, as "
                        "published weights of %s do",
                        network->weights_name, model->published, model->name);
    }
    if (!status)
        xt_normalise_print(&network->normalise, model->bgr, network->normalise_text);
    return status;
}

struct xt_device_options xt_network_device_options(const struct xt_device_settings *settings)
{
    return (struct xt_device_options){
        .spec = settings->own_xpu && settings->xpu && strcmp(settings->name, "xpu") == 0
                    ? settings->own_xpu
                    : settings->name,
        .threads = settings->threads ? settings->threads : settings->own_threads,
        .cache_folder = settings->cache_dir,
        .no_cache = !settings->kernel_cache,
        .for_gpu = settings->for_gpu,
        .driver = settings->driver,
    };
}

/* An ONNX file, which holds a network and its weights; --init accepts it too. */
static enum xt_status read_model(struct xt_network *network,
                                 const struct xt_network_settings *settings, const char *path,
                                 struct xt_err *err)
{
    enum xt_status status = xt_model_open(&network->loaded, path, settings->image_size, err);
    if (status)
        return status;
    network->model = &network->loaded->info;
    if (network->loaded->folded)
        xt_log_warn("%s: its batch norms are part of its convolutions, so it trains without them; "
                    "export it with torch.onnx.export(model.train(), x, path, dynamo=True, "
                    "optimize=False) to have them (networks of Keras with its backend torch)",
                    path);
    else if (network->loaded->may_be_folded)
        xt_log_note(
            "%s: it has no batch norms; if the network had some, its exporter has made them "
            "part of the convolutions, and it trains without them",
            path);
    else if (network->loaded->renamed)
        xt_log_warn(
            "%s: %zu of its parameters have lost PyTorch's names, under which "
            "load_state_dict would find what is trained here; an export with optimize=False "
            "or dynamo=False keeps them",
            path, network->loaded->renamed);
    else if (network->loaded->missing)
        xt_log_warn("%s: %zu of the network's parameters, %s first, are not in the file: its "
                    "exporter leaves out what is not used, changes nothing, or does the same as "
                    "another layer before training. They are not trained and not saved; an export "
                    "with optimize=False or dynamo=False has those that are used",
                    path, network->loaded->missing, network->loaded->first_missing);
    if (network->loaded->splits)
        xt_log_note("%s: parameters that begin with the same numbers are stored once; each is "
                    "trained by itself, under its own name",
                    path);
    if (settings->random_init || (settings->init && !xt_model_is_file(settings->init)))
        return XT_OK;
    network->weights = network->loaded->weights;
    network->loaded->weights = (struct xt_weight_file){0};
    network->weights_name = path;
    network->has_weights = true;
    return XT_OK;
}

/* The removed prefix of a wrapper is said, but for a network whose own names begin with it. */
static void settle_prefix(struct xt_network *network)
{
    struct xt_weight_file *file = &network->weights;
    const char *name = file->prefix_length ? file->tensors[0].name - file->prefix_length : NULL;
    char layer[128];
    if (!name)
        return;
    snprintf(layer, sizeof layer, "%s", name);
    char *last = strrchr(layer, '.');
    if (last)
        *last = '\0';
    if (network->loaded && strstr(network->loaded->text, layer)) {
        xt_weight_file_restore_prefix(file);
        return;
    }
    xt_log_note("%s: the names of its tensors begin with \"%.*s\", which is skipped",
                network->weights_name, (int)file->prefix_length, name);
}

enum xt_status xt_network_refuse_checkpoint(const struct xt_weight_file *file, const char *path,
                                            struct xt_err *err)
{
    if (!xt_weight_file_meta(file, XT_CHECKPOINT_KEY))
        return XT_OK;
    return xt_err_set(err, XT_ERR_DATA,
                      "%s is a checkpoint, which --resume continues from; the weights are "
                      "last.safetensors and best.safetensors beside it",
                      path);
}

/* Weights without metadata take that of others, with which they are compared. */
static enum xt_status describe_by(struct xt_network *network, const char *others,
                                  struct xt_err *err)
{
    struct xt_weight_file from = {0};
    if (!others || xt_model_is_file(others) || xt_weight_file_meta(&network->weights, "model"))
        return XT_OK;
    enum xt_status status = xt_weight_file_read(&from, others, XT_MODEL_BYTES_MAX, err);
    if (!status && xt_weight_file_meta(&from, "model"))
        status = xt_weight_store_copy_meta(&network->weights, &from, err);
    xt_weight_file_clear(&from);
    return status;
}

/* Reads --model where it is a file, and --init. */
static enum xt_status read_weights(struct xt_network *network,
                                   const struct xt_network_settings *settings, struct xt_err *err)
{
    const char *model = xt_model_is_file(settings->init)    ? settings->init
                        : xt_model_is_file(settings->model) ? settings->model
                                                            : NULL;
    enum xt_status status = XT_OK;
    if (settings->text)
        status = open_own_model(network, settings->text, xt_file_name(settings->model), err);
    else if (model)
        status = read_model(network, settings, model, err);
    if (status || !settings->init || network->has_weights || xt_model_is_file(settings->init))
        return status;
    network->weights_name = settings->init;
    status = xt_weight_file_read(&network->weights, settings->init, XT_MODEL_BYTES_MAX, err);
    network->has_weights = !status;
    if (!status)
        xt_run_mark_read(&network->mark, &network->weights);
    if (!status)
        status = xt_confidence_read(&network->confidence, &network->weights, err);
    if (!status)
        settle_prefix(network);
    if (!status)
        status = describe_by(network, settings->described_by, err);
    return status ? status : xt_network_refuse_checkpoint(&network->weights, settings->init, err);
}

enum xt_status xt_network_open(struct xt_network *network,
                               const struct xt_network_settings *settings,
                               const struct xt_device_settings *device, struct xt_err *err)
{
    *network = (struct xt_network){.pageable = !device->pin_memory};
    const struct xt_device_options options = xt_network_device_options(device);
    enum xt_status status = xt_device_open_with(&network->device, &options, err);
    if (!status && *network->device.chosen)
        xt_log_note("--device %s: %s (%s)", device->name, network->device.name,
                    network->device.chosen);
    if (!status && device->deterministic && network->device.own_memory &&
        !network->device.deterministic)
        status = xt_err_set(err, XT_ERR_DEVICE,
                            "--deterministic: oneDNN %s has no such attribute, so that a GPU may "
                            "add up gradients in another order each time; take a newer one (make "
                            "deps XPU=1), or leave the option out",
                            xt_dnnl_version_text().text);
    if (!status && network->device.own_memory && xt_dnnl_is_experimental())
        xt_log_note("oneDNN %s runs GPUs with %s here, which is experimental; SYCL is what is "
                    "tested",
                    xt_dnnl_version_text().text, xt_dnnl_gpu_runtime());
    if (!status)
        status = xt_network_check_amp(network, settings, err);
    if (!status)
        status = read_weights(network, settings, err);
    if (status)
        return status;
    const struct xt_weight_file *weights = network->has_weights ? &network->weights : NULL;
    status = choose_model(network, settings, weights, err);
    if (status)
        return status;
    network->task = network->model->time_steps ? XT_TASK_PLATES : XT_TASK_CLASSES;
    status = choose_size(network, settings, err);
    if (!status)
        status = choose_normalise(network, settings, weights, err);
    if (!status && network->task == XT_TASK_CLASSES)
        return load_classes(network, err);
    if (!status && settings->classes)
        return xt_err_set(err, XT_ERR_USAGE,
                          "--classes: %s reads plates, whose symbols --alphabet gives",
                          network->model->name);
    if (!status)
        status = load_alphabet(network, settings, weights, err);
    if (!status)
        status = choose_norm(network, settings, weights, err);
    if (!status)
        network->classes = xt_alphabet_count(network->alphabet);
    return status;
}

enum xt_status xt_network_take_classes(struct xt_network *network,
                                       const struct xt_network_settings *settings,
                                       const struct xt_source *source, struct xt_err *err)
{
    if (network->task != XT_TASK_CLASSES)
        return XT_OK;
    int count = xt_source_class_count(source);
    if (settings->classes && settings->classes < count)
        return xt_err_set(err, XT_ERR_USAGE, "--classes %d: the training images are of %d classes",
                          settings->classes, count);
    xt_class_names_clear(&network->class_names);
    network->classes = settings->classes ? settings->classes : count;
    return source->class_names ? xt_class_names_copy(&network->class_names, source->class_names,
                                                     count, network->classes, err)
                               : XT_OK;
}

enum xt_status xt_network_check_classes(const struct xt_network *network, struct xt_err *err)
{
    if (network->classes)
        return XT_OK;
    return xt_err_set(
        err, XT_ERR_DATA, "%s does not tell how many classes it is for: it has no %s.weight",
        network->weights_name ? network->weights_name : "--init", network->model->head);
}

struct xt_network_settings xt_network_found(const struct xt_network *network,
                                            const struct xt_network_settings *asked)
{
    struct xt_network_settings found = *asked;
    found.model = network->model->name;
    if (!found.batch)
        found.batch = network->batch;
    found.image_size = network->model->any_size ? network->height : 0;
    found.classes = network->task == XT_TASK_CLASSES ? network->classes : 0;
    found.normalize = network->normalise_text;
    found.bn = network->bn_frozen ? XT_BN_FROZEN : XT_BN_BATCH;
    found.lprnet_norm = network->over_batch ? XT_CONTEXT_BATCH : XT_CONTEXT_SAMPLE;
    return found;
}

void xt_network_clear(struct xt_network *network)
{
    if (network->inference != network->graph)
        xt_graph_destroy(network->inference);
    xt_graph_destroy(network->graph);
    xt_params_clear(&network->params);
    xt_alphabet_destroy(network->alphabet);
    xt_class_names_clear(&network->class_names);
    xt_weight_file_clear(&network->weights);
    xt_model_close(network->loaded);
    xt_device_close(&network->device);
    *network = (struct xt_network){0};
}

size_t xt_network_image_bytes(const struct xt_network *network)
{
    return (size_t)network->height * (size_t)network->width * 3;
}

struct xt_upload_config xt_network_upload_config(struct xt_network *network, int slots)
{
    return (struct xt_upload_config){
        .device = &network->device,
        .slots = slots,
        .batch = network->batch,
        .height = network->height,
        .width = network->width,
        .pageable = network->pageable,
    };
}

struct xt_source_options xt_network_source_options(const struct xt_network *network)
{
    return (struct xt_source_options){
        .task = network->task,
        .alphabet = network->alphabet,
        .order = network->model->bgr ? XT_PIXEL_BGR : XT_PIXEL_RGB,
        .steps_max = network->model->time_steps,
    };
}

enum xt_status xt_network_open_source(const struct xt_network *network, const char *spec,
                                      struct xt_source **out, struct xt_err *err)
{
    struct xt_source_options options = xt_network_source_options(network);
    options.class_names = (const char *const *)network->class_names.names;
    options.class_count = network->class_names.count;
    options.held_out = true;
    enum xt_status status = xt_source_open(out, spec, &options, err);
    if (!status && network->task == XT_TASK_CLASSES &&
        xt_source_class_count(*out) != network->classes) {
        status = xt_err_set(
            err, XT_ERR_DATA, "%s has images of %d classes, the network distinguishes %d",
            xt_source_specs_shown(spec).text, xt_source_class_count(*out), network->classes);
        xt_source_destroy(*out);
        *out = NULL;
    }
    return status;
}

enum xt_status xt_network_class_text(const struct xt_network *network, int index,
                                     struct xt_str *out, struct xt_err *err)
{
    if (index >= 0 && index < network->class_names.count)
        return xt_str_printf(out, err, "%s", network->class_names.names[index]);
    return xt_str_printf(out, err, "%d", index);
}

static void add_meta(struct xt_network_meta *meta, const char *key, const char *value)
{
    meta->items[meta->count++] = (struct xt_file_meta){key, value};
}

enum xt_status xt_network_meta(const struct xt_network *network, struct xt_network_meta *out,
                               struct xt_err *err)
{
    *out = (struct xt_network_meta){0};
    snprintf(out->size, sizeof out->size, "%dx%d", network->width, network->height);
    xt_normalise_to_meta(network->normalise.mean, out->mean);
    xt_normalise_to_meta(network->normalise.scale, out->scale);
    add_meta(out, "model", network->model->name);
    if (network->loaded)
        add_meta(out, XT_NET_TEXT_KEY, network->loaded->text);
    add_meta(out, "input_size", out->size);
    add_meta(out, "pixel_order", xt_model_pixel_order(network->model));
    add_meta(out, "mean", out->mean);
    add_meta(out, "scale", out->scale);
    add_meta(out, "xtrain_version", XT_VERSION);
    xt_confidence_meta(&network->confidence, &out->confidence);
    for (size_t i = 0; i < out->confidence.count; i++)
        out->items[out->count++] = out->confidence.items[i];
    if (network->task == XT_TASK_PLATES) {
        add_meta(out, "alphabet", xt_alphabet_text(network->alphabet));
        if (xt_alphabet_blank(network->alphabet) == 0)
            add_meta(out, "blank", "first");
        add_meta(out, "lprnet_norm", network->over_batch ? "batch" : "sample");
        return XT_OK;
    }
    if (!network->class_names.count)
        return XT_OK;
    enum xt_status status = xt_class_names_print(&network->class_names, &out->names, err);
    if (!status)
        add_meta(out, "class_names", xt_str_get(&out->names));
    return status;
}

void xt_network_meta_clear(struct xt_network_meta *meta)
{
    xt_str_clear(&meta->names);
    *meta = (struct xt_network_meta){0};
}

/* The hardware and library that the weights were computed with, and the date of the last passed
 * device check. */
struct origin {
    char on[256];
    char with[128];
    char check[32];
};

static void describe_origin(const struct xt_network *network, struct origin *out)
{
    const struct xt_device *device = &network->device;
    const struct xt_gpu_facts *facts = &device->xpu.facts;
    char cpu[96];
    struct tm day;
    time_t when = (time_t)network->device_checked;
    xt_device_cpu_name(cpu, sizeof cpu);
    if (device->own_memory)
        snprintf(out->on, sizeof out->on, "%s, driver %s", facts->name, facts->driver);
    else
        snprintf(out->on, sizeof out->on, "%s", cpu);
    snprintf(out->with, sizeof out->with, "oneDNN %s %.12s", xt_dnnl_version_text().text,
             xt_dnnl.version()->hash);
    snprintf(out->check, sizeof out->check, "not asked");
    if (when && gmtime_r(&when, &day))
        strftime(out->check, sizeof out->check, "passed %Y-%m-%d", &day);
}

enum xt_status xt_network_save(struct xt_network *network, const char *path, struct xt_err *err)
{
    struct xt_network_meta own;
    struct origin origin;
    struct xt_file_meta meta[5 + XT_RUN_MARK_META + sizeof own.items / sizeof *own.items] = {
        {"format", "pt"}};
    struct xt_params_view view = {network->params.values, network->params.stats};
    struct xt_params_tensors tensors = {0};
    struct xt_str ranges = {0};
    enum xt_status status = xt_network_meta(network, &own, err);
    size_t count = 1;
    if (!status && network->ranges.count)
        status = xt_ranges_print(&network->ranges, network->graph, &ranges, err);
    if (ranges.length)
        meta[count++] = (struct xt_file_meta){XT_RANGES_KEY, ranges.data};
    for (size_t i = 0; i < own.count; i++)
        meta[count++] = own.items[i];
    describe_origin(network, &origin);
    meta[count++] = (struct xt_file_meta){"made_on", origin.on};
    meta[count++] = (struct xt_file_meta){"made_with", origin.with};
    if (network->device.own_memory)
        meta[count++] = (struct xt_file_meta){"device_check", origin.check};
    count += xt_run_mark_meta(&network->mark, meta + count);
    if (!status)
        status = xt_params_pull(&network->params, err);
    if (!status)
        status = xt_params_to_tensors(&network->params, &network->device, &view, &tensors, err);
    if (!status)
        status = xt_weight_file_write(path, tensors.items, (size_t)tensors.count, meta, count, err);
    xt_params_free_tensors(&tensors);
    xt_network_meta_clear(&own);
    xt_str_clear(&ranges);
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
