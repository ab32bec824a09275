#include "train/network.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "data/sources/registry.h"
#include "models/weights/weight_file.h"
#include "train/auto_batch.h"
#include "train/feed.h"
#include "train/optim/optim.h"

static enum xt_status check_int8(bool training, struct xt_err *err)
{
    if (!training)
        return XT_OK;
    return xt_err_set(err, XT_ERR_USAGE,
                      "--amp int8 is for networks that are trained: train with --amp off or bf16, "
                      "then give --amp int8 to eval or predict");
}

static enum xt_status check_amp(const struct xt_network *network,
                                const struct xt_settings *settings, struct xt_err *err)
{
    if (network->device.kind == XT_DEVICE_XPU)
        return XT_OK;
    if (settings->amp == XT_AMP_FP16 && !xt_device_cpu_has_fp16())
        return xt_err_set(err, XT_ERR_USAGE,
                          "--amp fp16: this CPU has no fp16 arithmetic (AVX512_FP16); use bf16");
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

static enum xt_dtype dtype_of(const struct xt_settings *settings)
{
    switch (settings->amp) {
    case XT_AMP_BF16:
        return XT_BF16;
    case XT_AMP_FP16:
        return XT_F16;
    case XT_AMP_INT8:
    case XT_AMP_OFF:
        break;
    }
    return XT_F32;
}

/* On the CPU fp16 is for fused inference: oneDNN's gradients in fp16 are by reference kernels. */
static enum xt_status check_fp16(const struct xt_network *network,
                                 const struct xt_settings *settings, bool training,
                                 struct xt_err *err)
{
    if (settings->amp != XT_AMP_FP16 || network->device.kind == XT_DEVICE_XPU)
        return XT_OK;
    if (training)
        return xt_err_set(err, XT_ERR_USAGE,
                          "--amp fp16: oneDNN trains in 16-bit floats on the CPU by its reference "
                          "kernels alone, which are far slower than float32; use --amp bf16");
    if (!settings->fuse)
        return xt_err_set(err, XT_ERR_USAGE,
                          "--amp fp16 runs fused on the CPU; leave --no-fuse out, or use bf16");
    return XT_OK;
}

/* What a graph is described with beside the settings, and the graph. */
struct draft {
    struct xt_params *params;
    int batch;
    bool training;
    struct xt_graph *graph; /* NULL: none yet */
    struct xt_tensor *logits;
};

static enum xt_status describe(struct xt_network *network, const struct xt_settings *settings,
                               struct draft *draft, struct xt_err *err)
{
    bool int8 = settings->amp == XT_AMP_INT8;
    bool training = draft->training;
    enum xt_status status =
        int8 ? check_int8(training, err) : check_fp16(network, settings, training, err);
    if (status)
        return status;
    struct xt_graph_options options = {
        .device = &network->device,
        .params = draft->params,
        .batch = draft->batch,
        .training = training,
        .dtype = dtype_of(settings),
        .fuse = !training && settings->fuse,
        .int8 = int8 && network->ranges.tensors ? &network->ranges : NULL,
        .bn_frozen = training && network->bn_frozen,
        .learn_from = training ? settings->freeze_until : NULL,
    };
    if (settings->kernels)
        options.observer = *settings->kernels;
    struct xt_model_options model_options = {
        .classes = network->classes,
        .height = network->height,
        .width = network->width,
        .context_over_batch = network->over_batch,
    };
    status = xt_graph_create(&draft->graph, &options, err);
    if (status)
        return status;
    draft->logits = network->model->describe(draft->graph, &model_options, err);
    return draft->logits ? XT_OK : err->status;
}

/* ---- memory ---- */

static size_t slot_bytes(const struct xt_network *network, int batch)
{
    return (size_t)batch * (size_t)network->height * (size_t)network->width * 3;
}

/* Plans what is described, and a batch slot. `evaluation` may have no graph. The order of the
 * samples, a few bytes each, is not known here. */
static enum xt_status plan_memory(struct xt_network *network, const struct xt_settings *settings,
                                  const struct draft *draft, const struct draft *evaluation,
                                  struct xt_memory_plan *plan, struct xt_err *err)
{
    int slots = xt_feed_slots(settings);
    struct xt_memory_use use = {
        .states = draft->training ? xt_optim_states(settings->optim, settings->momentum) : 0,
        .slot_bytes = slot_bytes(network, draft->batch),
        .slots = slots,
        .evaluation_slots = draft->training ? slots : 0,
        .pinned = settings->pin_memory,
    };
    size_t most = xt_device_allocation_most(&network->device);
    enum xt_status status = xt_graph_plan(draft->graph, draft->logits, err);
    if (!status && evaluation->graph)
        status = xt_graph_plan(evaluation->graph, evaluation->logits, err);
    if (!status && most && use.slot_bytes > most)
        status = xt_device_refuse_piece(&network->device, "a batch slot", use.slot_bytes, err);
    if (!status)
        *plan = xt_memory_plan_ahead(draft->graph, evaluation->graph, &use);
    return status;
}

/* An XPU's kernels are made for training or for evaluation. */
static bool needs_evaluation(const struct xt_network *network, bool training)
{
    return training && network->device.kind == XT_DEVICE_XPU;
}

enum xt_status xt_network_plan(struct xt_network *network, const struct xt_settings *settings,
                               int batch, bool training, struct xt_memory_plan *plan,
                               struct xt_err *err)
{
    struct xt_params *params = NULL;
    enum xt_status status = xt_mem_calloc(&params, 2, sizeof *params, "a plan's parameters", err);
    if (status)
        return status;
    struct draft draft = {.params = &params[0], .batch = batch, .training = training};
    struct draft evaluation = {.params = &params[1], .batch = batch};
    status = describe(network, settings, &draft, err);
    if (!status && needs_evaluation(network, training))
        status = describe(network, settings, &evaluation, err);
    if (!status)
        status = plan_memory(network, settings, &draft, &evaluation, plan, err);
    xt_graph_destroy(draft.graph);
    xt_graph_destroy(evaluation.graph);
    xt_params_clear(&params[0]);
    xt_params_clear(&params[1]);
    free(params);
    return status;
}

/* XT_ERR_MEMORY with what to do: err says what is too large already, or the plan as a whole is. */
static enum xt_status refuse(struct xt_network *network, const struct xt_settings *settings,
                             const struct draft *draft, const struct xt_memory_plan *plan,
                             struct xt_err *err)
{
    int fits = 0;
    struct xt_err why = *err;
    char advice[96] = "not even one image fits";
    enum xt_status status = xt_auto_batch_find(network, settings, draft->training,
                                               (size_t)draft->batch - 1, &fits, err);
    if (status)
        return status;
    if (fits)
        snprintf(advice, sizeof advice, "--batch %d fits, which --batch auto finds", fits);
    return plan ? xt_memory_plan_refuse(plan, draft->graph, advice, err)
                : xt_err_set(err, XT_ERR_MEMORY, "%s; %s", why.text, advice);
}

/* Builds what is described once it is known that there is memory for it. */
static enum xt_status build_within_memory(struct xt_network *network,
                                          const struct xt_settings *settings,
                                          const struct draft *draft, const struct draft *evaluation,
                                          struct xt_err *err)
{
    struct xt_memory_plan plan;
    enum xt_status status = plan_memory(network, settings, draft, evaluation, &plan, err);
    /* On the CPU nothing is too large in itself: then memory ran out in planning. */
    if (status == XT_ERR_MEMORY && network->device.kind == XT_DEVICE_XPU)
        return refuse(network, settings, draft, NULL, err);
    if (!status && !xt_memory_plan_fits(&plan))
        return refuse(network, settings, draft, &plan, err);
    if (!status)
        status = xt_graph_build(draft->graph, draft->logits, err);
    if (!status && evaluation->graph)
        status = xt_graph_build(evaluation->graph, evaluation->logits, err);
    /* Others took what was free, or nobody could say what was. */
    if (status == XT_ERR_MEMORY) {
        struct xt_err why = *err;
        xt_memory_plan_refuse(&plan, draft->graph, "a smaller --batch needs less", err);
        xt_err_prefix(err, "%s: ", why.text);
    }
    return status;
}

/* Some state_dicts have the head as "fc.0": its tensors get the network's names. */
static void rename_head(struct xt_network *network)
{
    char before[64];
    snprintf(before, sizeof before, "%s.0.", network->model->head);
    for (size_t i = 0; i < network->weights.count; i++) {
        struct xt_file_tensor *tensor = &network->weights.tensors[i];
        if (!xt_str_starts(tensor->name, before))
            continue;
        for (int k = 0; k < network->params.count; k++) {
            const char *name = network->params.items[k].name;
            if (xt_str_starts(name, network->model->head) &&
                xt_str_ends(name, tensor->name + strlen(before)))
                tensor->name = name;
        }
    }
}

/* The weights' own number of classes, 0 where they do not tell. */
static int head_classes(const struct xt_network *network)
{
    static const char *const suffixes[] = {"weight", "0.weight"};
    for (int i = 0; i < 2 && network->model->head; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s.%s", network->model->head, suffixes[i]);
        const struct xt_file_tensor *tensor = xt_weight_file_find(&network->weights, name);
        if (tensor && tensor->ndims == 2 && tensor->dims[0] > 0 &&
            tensor->dims[0] <= XT_CLASSES_MAX)
            return (int)tensor->dims[0];
    }
    return 0;
}

/* Whether the head of the weights is for other classes than these: it is then left out. */
static enum xt_status is_other_head(const struct xt_network *network, bool *out, struct xt_err *err)
{
    *out = false;
    if (!network->model->head)
        return XT_OK;
    int own = head_classes(network);
    *out = own != network->classes;
    const char *names = xt_weight_file_meta(&network->weights, "class_names");
    if (*out || !names)
        return XT_OK;
    struct xt_class_names own_names;
    enum xt_status status = xt_class_names_parse(&own_names, names, "--init", err);
    if (!status)
        *out = !xt_class_names_equal(&own_names, &network->class_names);
    xt_class_names_clear(&own_names);
    return status;
}

static enum xt_status fill(struct xt_network *network, const struct xt_settings *settings,
                           bool training, struct xt_err *err)
{
    struct xt_params *params = &network->params;
    bool other_head = false;
    enum xt_status status =
        network->has_weights && training ? is_other_head(network, &other_head, err) : XT_OK;
    if (!status && (!network->has_weights || settings->init_partial || other_head))
        status = xt_params_initialise(params, &network->device, settings->seed,
                                      network->model->initial_bias, err);
    if (status || !network->has_weights)
        return status;
    char head[64];
    snprintf(head, sizeof head, "%s.", network->model->head ? network->model->head : "");
    if (other_head)
        xt_log_note("%s: its last layer %s is of %d classes, other than the %d of the data: it "
                    "starts from random weights, all else is taken",
                    settings->init, network->model->head, head_classes(network), network->classes);
    if (network->model->head)
        rename_head(network);
    struct xt_params_view view = {params->values, params->stats};
    return xt_params_from_file(params, &network->device, &view, &network->weights, settings->init,
                               settings->init_partial, other_head ? head : NULL, err);
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

/* What the weights say about classes; training may learn of others from its data. */
static enum xt_status load_classes(struct xt_network *network, const struct xt_settings *settings,
                                   struct xt_err *err)
{
    const char *names = xt_weight_file_meta(&network->weights, "class_names");
    enum xt_status status = XT_OK;
    if (names)
        status = xt_class_names_parse(&network->class_names, names, settings->init, err);
    network->classes = network->class_names.count ? network->class_names.count
                       : network->has_weights     ? head_classes(network)
                                                  : 0;
    return status;
}

/* The size of the images: --image-size, else what the weights were trained at, else the model's. */
static enum xt_status choose_size(struct xt_network *network, const struct xt_settings *settings,
                                  struct xt_err *err)
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

struct xt_device_options xt_network_device_options(const struct xt_settings *settings)
{
    return (struct xt_device_options){
        .spec = settings->device,
        .threads = settings->threads,
        .cache_folder = settings->cache_dir,
        .no_cache = !settings->kernel_cache,
    };
}

enum xt_status xt_network_open(struct xt_network *network, const struct xt_settings *settings,
                               struct xt_err *err)
{
    *network = (struct xt_network){0};
    const struct xt_device_options device = xt_network_device_options(settings);
    enum xt_status status = xt_device_open_with(&network->device, &device, err);
    if (!status && *network->device.chosen)
        xt_log_note("--device %s: %s (%s)", settings->device, network->device.name,
                    network->device.chosen);
    if (!status && network->device.kind == XT_DEVICE_XPU && xt_dnnl_is_experimental())
        xt_log_note("oneDNN %s runs GPUs with %s here, which is experimental; SYCL is what is "
                    "tested",
                    xt_dnnl_version_text().text, xt_dnnl_gpu_runtime());
    if (!status)
        status = check_amp(network, settings, err);
    if (!status && settings->init) {
        status = xt_weight_file_read(&network->weights, settings->init, err);
        network->has_weights = !status;
    }
    if (status)
        return status;
    const struct xt_weight_file *weights = network->has_weights ? &network->weights : NULL;
    status = choose_model(network, settings, weights, err);
    if (status)
        return status;
    network->task = network->model->time_steps ? XT_TASK_PLATES : XT_TASK_CLASSES;
    status = choose_size(network, settings, err);
    if (!status && network->task == XT_TASK_CLASSES)
        return load_classes(network, settings, err);
    if (!status && settings->classes)
        return xt_err_set(err, XT_ERR_USAGE,
                          "--classes: %s reads plates, whose symbols --alphabet gives",
                          network->model->name);
    if (!status && settings->mixup > 0)
        return xt_err_set(err, XT_ERR_USAGE,
                          "--mixup: %s reads plates, whose labels cannot be mixed; leave it out",
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
                                       const struct xt_settings *settings,
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

/* So that a run that is killed later has not compiled for nothing; a cache that cannot be kept
 * stops no run. */
static void keep_kernels(struct xt_network *network)
{
    struct xt_err why = {0};
    if (xt_device_record_cache(&network->device, &why))
        xt_log_warn("%s", why.text);
}

/* On the CPU the kernels decide how parameters lie, so these are filled last. On an XPU parameters
 * are plain, and which kernels there are depends on what the weights say about the statistics. */
static enum xt_status build_cpu(struct xt_network *network, const struct xt_settings *settings,
                                bool training, struct xt_err *err)
{
    struct draft draft = {&network->params, network->batch, training, NULL, NULL};
    enum xt_status status = describe(network, settings, &draft, err);
    network->graph = network->inference = draft.graph;
    if (!status)
        status =
            build_within_memory(network, settings, &draft, &(struct draft){.graph = NULL}, err);
    if (!status)
        status = fill(network, settings, training, err);
    if (!status)
        choose_bn(network, settings, training);
    return status;
}

static enum xt_status build_xpu(struct xt_network *network, const struct xt_settings *settings,
                                bool training, struct xt_err *err)
{
    struct draft draft = {&network->params, network->batch, training, NULL, NULL};
    struct draft evaluation = {&network->params, network->batch, false, NULL, NULL};
    enum xt_status status = describe(network, settings, &draft, err);
    network->graph = network->inference = draft.graph;
    if (!status)
        status = xt_params_allocate(&network->params, false, err);
    if (!status)
        status = fill(network, settings, training, err);
    if (status)
        return status;
    choose_bn(network, settings, training);
    network->graph->options.bn_frozen = training && network->bn_frozen;
    if (needs_evaluation(network, training)) {
        status = describe(network, settings, &evaluation, err);
        network->inference = evaluation.graph;
    }
    return status ? status : build_within_memory(network, settings, &draft, &evaluation, err);
}

enum xt_status xt_network_check_classes(const struct xt_network *network,
                                        const struct xt_settings *settings, struct xt_err *err)
{
    if (network->classes)
        return XT_OK;
    return xt_err_set(err, XT_ERR_DATA,
                      "%s does not tell how many classes it is for: it has no %s.weight",
                      settings->init ? settings->init : "--init", network->model->head);
}

enum xt_status xt_network_build(struct xt_network *network, const struct xt_settings *settings,
                                int batch, bool training, struct xt_err *err)
{
    struct xt_span start = xt_span_now();
    network->batch = batch;
    enum xt_status status = xt_network_check_classes(network, settings, err);
    if (status)
        return status;
    status = network->device.kind == XT_DEVICE_XPU ? build_xpu(network, settings, training, err)
                                                   : build_cpu(network, settings, training, err);
    if (!status)
        keep_kernels(network);
    xt_weight_file_clear(&network->weights);
    network->has_weights = false;
    network->build_span = xt_span_since(&start);
    return status;
}

enum xt_status xt_network_rebuild(struct xt_network *network, const struct xt_settings *settings,
                                  int batch, struct xt_err *err)
{
    enum xt_status status = check_amp(network, settings, err);
    if (status)
        return status;
    xt_graph_destroy(network->graph);
    network->graph = network->inference = NULL;
    network->batch = batch;
    struct draft draft = {&network->params, batch, false, NULL, NULL};
    status = describe(network, settings, &draft, err);
    network->graph = network->inference = draft.graph;
    return status ? status
                  : build_within_memory(network, settings, &draft, &(struct draft){.graph = NULL},
                                        err);
}

enum xt_status xt_network_init(struct xt_network *network, const struct xt_settings *settings,
                               int batch, bool training, struct xt_err *err)
{
    enum xt_status status = xt_network_open(network, settings, err);
    return status ? status : xt_network_build(network, settings, batch, training, err);
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
    xt_device_close(&network->device);
    *network = (struct xt_network){0};
}

struct xt_upload_config xt_network_upload_config(struct xt_network *network,
                                                 const struct xt_settings *settings, int slots)
{
    return (struct xt_upload_config){
        .device = &network->device,
        .slots = slots,
        .batch = network->batch,
        .height = network->height,
        .width = network->width,
        .pageable = !settings->pin_memory,
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
        status =
            xt_err_set(err, XT_ERR_DATA, "%s has images of %d classes, the network tells %d apart",
                       spec, xt_source_class_count(*out), network->classes);
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

/* Adds the metadata that a task has beside what all networks have; `text` holds it. */
static enum xt_status task_meta(const struct xt_network *network, struct xt_file_meta *meta,
                                size_t *count, struct xt_str *text, struct xt_err *err)
{
    if (network->task == XT_TASK_PLATES) {
        meta[(*count)++] = (struct xt_file_meta){"alphabet", xt_alphabet_text(network->alphabet)};
        meta[(*count)++] =
            (struct xt_file_meta){"lprnet_norm", network->over_batch ? "batch" : "sample"};
        return XT_OK;
    }
    if (!network->class_names.count)
        return XT_OK;
    enum xt_status status = xt_class_names_print(&network->class_names, text, err);
    if (!status)
        meta[(*count)++] = (struct xt_file_meta){"class_names", xt_str_get(text)};
    return status;
}

enum xt_status xt_network_save(struct xt_network *network, const char *path, struct xt_err *err)
{
    char size[32];
    char mean[32];
    char scale[32];
    snprintf(size, sizeof size, "%dx%d", network->width, network->height);
    snprintf(mean, sizeof mean, "%.9g", (double)network->model->mean);
    snprintf(scale, sizeof scale, "%.9g", (double)network->model->scale);
    struct xt_file_meta meta[16] = {
        {"format", "pt"},
        {"model", network->model->name},
        {"input_size", size},
        {"pixel_order", network->model->bgr ? "BGR" : "RGB"},
        {"mean", mean},
        {"scale", scale},
        {"xtrain_version", XT_VERSION},
    };
    size_t meta_count = 7;
    struct xt_str text = {0};
    struct xt_params_view view = {network->params.values, network->params.stats};
    struct xt_params_tensors tensors = {0};
    enum xt_status status = task_meta(network, meta, &meta_count, &text, err);
    if (!status)
        status = xt_params_pull(&network->params, err);
    if (!status)
        status = xt_params_to_tensors(&network->params, &network->device, &view, &tensors, err);
    if (!status)
        status =
            xt_weight_file_write(path, tensors.items, (size_t)tensors.count, meta, meta_count, err);
    xt_params_free_tensors(&tensors);
    xt_str_clear(&text);
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
