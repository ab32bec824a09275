#include "infer/network/network_build.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"
#include "base/system/thread.h"
#include "device/faults/guard.h"
#include "infer/network/auto_batch.h"
#include "infer/network/head.h"
#include "infer/network/network_plan.h"
#include "infer/network/param_files.h"
#include "models/recognise.h"
#include "models/weights/weight_hash.h"

/* XT_ERR_MEMORY with advice: err names what is too large already, else the plan as a whole is. */
static enum xt_status refuse(struct xt_network *network, const struct xt_network_settings *settings,
                             const struct xt_network_draft *draft,
                             const struct xt_memory_plan *plan, struct xt_err *err)
{
    int fits = 0;
    int ranks = network->ranks > 1 ? network->ranks : 1;
    struct xt_err why = *err;
    char advice[128] = "not even one image fits";
    enum xt_status status = xt_auto_batch_find(network, settings, draft->training,
                                               (size_t)draft->batch - 1, &fits, err);
    if (status)
        return status;
    if (draft->batch < network->batch)
        snprintf(advice, sizeof advice,
                 "it is for fewer images than --batch %d: give a smaller one", network->batch);
    else if (fits)
        snprintf(advice, sizeof advice, "--batch %d fits%s", fits * ranks,
                 draft->training ? ", which --batch auto finds" : "");
    if (fits && ranks > 1)
        xt_str_append_to(advice, sizeof advice, ", %d on each of %d ranks", fits, ranks);
    if (plan)
        xt_memory_plan_refuse(plan, draft->graph, advice, err);
    else
        xt_err_set(err, XT_ERR_MEMORY, "%s; %s", why.text, advice);
    if (ranks > 1)
        xt_err_prefix(err, "each of %d ranks has its part of the batch: ", ranks);
    return err->status;
}

enum xt_status xt_network_advise_batch(struct xt_network *network,
                                       const struct xt_network_settings *settings, bool training,
                                       struct xt_err *err)
{
    struct xt_memory_plan plan;
    struct xt_memory_plan half;
    struct xt_err own;
    int batch = network->batch;
    if (err->status != XT_ERR_MEMORY || !network->device.own_memory || strstr(err->text, "--batch"))
        return err->status;
    if (batch > 1 && !xt_network_plan(network, settings, batch, training, &plan, &own) &&
        !xt_network_plan(network, settings, batch / 2, training, &half, &own))
        xt_str_append_to(err->text, sizeof err->text,
                         "; --batch %d takes %.1f MB of %s by the plan, --batch %d %.1f MB: the "
                         "driver or other processes hold the rest",
                         batch, xt_memory_need(&plan.device) / 1e6, network->device.place,
                         batch / 2, xt_memory_need(&half.device) / 1e6);
    return err->status;
}

/* That convolutions compute in float32 where their input is not int8 must not pass in silence. */
static void tell_int8(struct xt_network *network, const struct xt_graph *graph)
{
    const double nearly_all = 0.9;
    if (!graph->options.int8 || graph->options.lower_bound || network->int8_told)
        return;
    const char *type = xt_dtype_name(graph->options.dtype);
    double share = xt_ranges_share(graph);
    network->int8_told = true;
    if (share < nearly_all)
        xt_log_note("int8: %.0f %% of this network's multiplications are in int8, the others in %s "
                    "(inputs that are sums, products or activations of their own are not "
                    "quantised); xtrain bench infer --amp %s,int8 compares the speed",
                    100 * share, type, type);
}

/* Builds the described graph after checking that memory suffices. */
static enum xt_status build_within_memory(struct xt_network *network,
                                          const struct xt_network_settings *settings,
                                          const struct xt_network_draft *draft,
                                          const struct xt_network_draft *evaluation,
                                          struct xt_err *err)
{
    struct xt_memory_plan plan;
    enum xt_status status = xt_network_plan_drafts(network, draft, evaluation, &plan, err);
    /* On the CPU no single tensor is too large: here memory ran out in planning. */
    if (status == XT_ERR_MEMORY && network->device.own_memory)
        return refuse(network, settings, draft, NULL, err);
    if (!status && !xt_memory_plan_fits(&plan))
        return refuse(network, settings, draft, &plan, err);
    if (!status && network->device.own_memory && plan.device.limit > 0)
        xt_device_limit_memory(&network->device, plan.device.free);
    if (!status)
        status = xt_graph_build(draft->graph, draft->logits, err);
    if (!status && evaluation->graph)
        status = xt_graph_build(evaluation->graph, evaluation->logits, err);
    /* Other processes took the free memory, or it was unknown. */
    if (status == XT_ERR_MEMORY) {
        struct xt_err why = *err;
        xt_memory_plan_refuse(&plan, draft->graph, "a smaller --batch needs less", err);
        xt_err_prefix(err, "%s: ", why.text);
    }
    if (!status)
        tell_int8(network, draft->graph);
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

/* Whether the head of the weights is for other classes than these: it is then skipped. */
static enum xt_status is_other_head(const struct xt_network *network, bool *out, struct xt_err *err)
{
    *out = false;
    if (!network->model->head)
        return XT_OK;
    int own = xt_network_head_classes(network);
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

static void say_other_head(const struct xt_network *network, int classes)
{
    struct xt_str names = {0};
    const struct xt_class_layer *layers = network->model->class_layers;
    int count = 0;
    for (int i = 0; layers[i].name; i++) {
        const char *before = count == 0 ? "" : layers[i + 1].name ? ", " : " and ";
        if (layers[i].is_head)
            xt_str_printf(&names, NULL, "%s%s", before, layers[i].name);
        count += layers[i].is_head;
    }
    xt_log_note(
        "%s: its last layer%s %s %s %d classes, the data has %d: %s from random weights, all "
        "others are loaded",
        network->weights_name, count > 1 ? "s" : "", xt_str_get(&names), count > 1 ? "have" : "has",
        classes, network->classes, count > 1 ? "they start" : "it starts");
    xt_str_clear(&names);
}

static enum xt_status load(struct xt_network *network, const struct xt_network_settings *settings,
                           bool training, struct xt_err *err)
{
    struct xt_params *params = &network->params;
    bool other_head = false;
    bool adapted = false;
    enum xt_status status = XT_OK;
    if (network->has_weights && network->model->head)
        rename_head(network);
    if (network->has_weights)
        status = xt_head_adapt(network, settings, training, &adapted, err);
    if (!status && network->has_weights && training && !adapted)
        status = is_other_head(network, &other_head, err);
    if (!status && (!network->has_weights || settings->init_partial || other_head))
        status = xt_params_initialise(params, &network->device, network->seed,
                                      network->model->initial_bias, err);
    if (status || !network->has_weights)
        return status;
    /* A resumed run starts from its checkpoint. */
    int classes = xt_network_head_classes(network);
    if (other_head && classes > 0 && network->bn_before == XT_BN_AUTO)
        say_other_head(network, classes);
    struct xt_params_view view = {params->values, params->stats};
    return xt_params_from_file(params, &network->device, &view, &network->weights,
                               network->weights_name, settings->init_partial,
                               other_head ? network->model->class_layers : NULL, err);
}

/* Names the network that weights are of which do not fit this one. */
static enum xt_status fill(struct xt_network *network, const struct xt_network_settings *settings,
                           bool training, struct xt_err *err)
{
    const struct xt_model_info *other = NULL;
    struct xt_err why = {0};
    enum xt_status status = load(network, settings, training, err);
    if (status != XT_ERR_DATA || xt_model_recognise(&network->weights, &other, &why) || !other ||
        other == network->model)
        return status;
    return xt_err_prefix(err, "these look like weights of %.*s (--model %s): ",
                         (int)strcspn(other->title, ","), other->title, other->name);
}

/* Decides whether the statistics are frozen, with a log line where the weights decide. */
static void choose_bn(struct xt_network *network, const struct xt_network_settings *settings,
                      bool training)
{
    bool untouched = network->params.frozen_at_init;
    network->bn_frozen = xt_network_freezes_bn(network, settings);
    network->graph->options.bn_frozen = training && network->bn_frozen;
    if (!training || !untouched)
        return;
    if (settings->bn == XT_BN_AUTO && network->bn_before == XT_BN_AUTO)
        xt_log_note("%s: its batch norm statistics are still 0 and 1, so it was trained without "
                    "them; they stay frozen, scale and shift continue to learn (--bn frozen)",
                    network->weights_name);
    else if (settings->bn == XT_BN_BATCH)
        xt_log_warn("%s was trained without batch norm statistics (they are still 0 and 1); --bn "
                    "batch will undo much of what it knows",
                    network->weights_name);
}

/* Stored now, so that a run killed later does not lose its compiled kernels; failing to store them
 * stops no run. */
static void store_kernels(struct xt_network *network)
{
    struct xt_err why = {0};
    if (xt_device_record_cache(&network->device, &why))
        xt_log_warn("%s", why.text);
}

/* On the CPU the kernels decide the parameters' layout, so these are filled last. On an XPU the
 * layout is fixed, and the choice of kernels depends on the weights' statistics. */
static enum xt_status build_cpu(struct xt_network *network,
                                const struct xt_network_settings *settings, bool training,
                                struct xt_err *err)
{
    struct xt_network_draft draft = {&network->params, network->batch, training, NULL, NULL};
    enum xt_status status = xt_network_describe(network, settings, &draft, err);
    network->graph = network->inference = draft.graph;
    if (!status)
        status = build_within_memory(network, settings, &draft,
                                     &(struct xt_network_draft){.graph = NULL}, err);
    if (!status)
        status = fill(network, settings, training, err);
    if (!status)
        choose_bn(network, settings, training);
    return status;
}

static enum xt_status build_xpu(struct xt_network *network,
                                const struct xt_network_settings *settings, bool training,
                                struct xt_err *err)
{
    struct xt_network_draft draft = {&network->params, network->batch, training, NULL, NULL};
    struct xt_network_draft evaluation = {&network->params, network->batch, false, NULL, NULL};
    enum xt_status status = xt_network_describe(network, settings, &draft, err);
    network->graph = network->inference = draft.graph;
    if (!status)
        status = xt_params_allocate(&network->params, false, err);
    if (!status)
        status = fill(network, settings, training, err);
    if (status)
        return status;
    choose_bn(network, settings, training);
    if (xt_network_needs_evaluation(network, training)) {
        status = xt_network_describe(network, settings, &evaluation, err);
        network->inference = evaluation.graph;
    }
    return status ? status : build_within_memory(network, settings, &draft, &evaluation, err);
}

/* The ranges that the weights' metadata holds for int8. Its hashes, which reading has checked, say
 * that they were measured with these weights. */
static enum xt_status take_ranges(struct xt_network *network,
                                  const struct xt_network_settings *settings, struct xt_err *err)
{
    const char *text = xt_weight_file_meta(&network->weights, XT_RANGES_KEY);
    struct xt_network_settings fused = *settings;
    struct xt_network_draft draft = {.batch = 1};
    fused.amp = XT_AMP_INT8;
    fused.fuse = true;
    if (!text)
        return XT_OK;
    enum xt_status status =
        xt_weight_file_meta(&network->weights, XT_WEIGHT_HASH_KEY)
            ? xt_mem_calloc(&draft.params, 1, sizeof *draft.params, "the ranges for int8", err)
            : xt_err_set(err, XT_ERR_DATA,
                         "the hashes are gone that say of which weights they are: another program "
                         "wrote the file");
    if (!status)
        status = xt_network_describe(network, &fused, &draft, err);
    if (!status && draft.graph->err.status)
        status = xt_err_set(err, draft.graph->err.status, "%s", draft.graph->err.text);
    if (!status)
        status = xt_ranges_parse(text, draft.graph, &network->ranges, err);
    xt_graph_destroy(draft.graph);
    if (draft.params)
        xt_params_clear(draft.params);
    free(draft.params);
    return status == XT_ERR_DATA
               ? xt_err_prefix(err,
                               "%s: its ranges for int8 do not fit (xtrain export measures "
                               "them again): ",
                               network->weights_name)
               : status;
}

enum xt_status xt_network_build(struct xt_network *network,
                                const struct xt_network_settings *settings, int batch,
                                bool training, struct xt_err *err)
{
    struct xt_span start = xt_span_now();
    network->batch = batch;
    enum xt_status status = xt_network_check_classes(network, err);
    if (!status && !training)
        status = take_ranges(network, settings, err);
    if (status)
        return status;
    status = network->device.compiles ? build_xpu(network, settings, training, err)
                                      : build_cpu(network, settings, training, err);
    if (!status)
        store_kernels(network);
    xt_weight_file_clear(&network->weights);
    network->has_weights = false;
    network->build_span = xt_span_since(&start);
    return status;
}

enum xt_status xt_network_build_beside(struct xt_network *network,
                                       const struct xt_network_settings *settings, int batch,
                                       bool training, struct xt_graph **out, struct xt_err *err)
{
    struct xt_network_draft draft = {&network->params, batch, training, NULL, NULL};
    enum xt_status status = xt_network_describe(network, settings, &draft, err);
    *out = draft.graph;
    return status ? status
                  : build_within_memory(network, settings, &draft,
                                        &(struct xt_network_draft){.graph = NULL}, err);
}

enum xt_status xt_network_rebuild(struct xt_network *network,
                                  const struct xt_network_settings *settings, int batch,
                                  struct xt_err *err)
{
    enum xt_status status = xt_network_check_amp(network, settings, err);
    if (status)
        return status;
    bool training = network->graph && network->graph->options.training;
    xt_graph_destroy(network->graph);
    network->graph = network->inference = NULL;
    network->batch = batch;
    status = xt_network_build_beside(network, settings, batch, training, &network->graph, err);
    if (!status)
        network->graph->options.bn_frozen = training && network->bn_frozen;
    network->inference = network->graph;
    return status;
}

/* ---- the device check ---- */

struct check {
    struct xt_network *network;
    const struct xt_network_settings *settings;
    const struct xt_device_checker *more;
};

static enum xt_status check_graph(const struct check *check, struct xt_graph *graph,
                                  struct xt_device_verdict *out, struct xt_err *err)
{
    const struct xt_device_checker *more = graph->options.training ? check->more : NULL;
    enum xt_status status = xt_device_check_ops(graph, out, err);
    return status || !more ? status : more->check(more->context, graph, out, err);
}

/* Its graph is destroyed before the run begins. */
static enum xt_status check_smaller(const struct check *check, const struct xt_graph *graph,
                                    int batch, struct xt_device_verdict *out, struct xt_err *err)
{
    struct xt_graph *smaller = NULL;
    struct xt_err why = {0};
    enum xt_status status = batch ? xt_network_build_beside(check->network, check->settings, batch,
                                                            graph->options.training, &smaller, &why)
                                  : XT_ERR_MEMORY;
    if (!status)
        status = check_graph(check, smaller, out, err);
    else if (status != XT_ERR_MEMORY)
        xt_err_set(err, status, "%s", why.text);
    xt_graph_destroy(smaller);
    out->batch = batch;
    if (status != XT_ERR_MEMORY)
        return status;
    xt_log_warn("%s is not checked (--check-device): this machine has %.1f GB of memory left, too "
                "little for the references of --batch %d%s%s",
                check->network->device.name, (double)xt_thread_memory_available() / 1e9,
                graph->options.batch, *why.text ? ", and of fewer images: " : "", why.text);
    out->when = 0;
    return XT_OK;
}

static enum xt_status check_within_memory(void *context, struct xt_graph *graph,
                                          struct xt_device_verdict *out, struct xt_err *err)
{
    const struct check *check = context;
    int processes = check->network->processes > 1 ? check->network->processes : 1;
    int batch =
        xt_device_check_batch(graph, (double)xt_thread_memory_available() / (double)processes);
    return batch == graph->options.batch ? check_graph(check, graph, out, err)
                                         : check_smaller(check, graph, batch, out, err);
}

static void note_check(const struct xt_network *network, const struct xt_device_verdict *verdict)
{
    char step[64] = "";
    char batch[96] = "";
    if (verdict->step_seconds > 0)
        snprintf(step, sizeof step, ", %.1f of them for a whole step beside the CPU's",
                 verdict->step_seconds);
    if (verdict->batch)
        snprintf(batch, sizeof batch,
                 "; at batch %d, since there is no memory for references of %d", verdict->batch,
                 network->batch);
    if (verdict->passes)
        xt_log_note("%s computes this network's ops as references in double precision do: %d "
                    "passes of ops in %.1f s%s (--check-device)%s",
                    network->device.name, verdict->passes, verdict->seconds, step, batch);
    else if (verdict->when)
        xt_log_detail("the device check of this network is cached: 0 s");
}

enum xt_status xt_network_check_device(struct xt_network *network,
                                       const struct xt_network_settings *settings,
                                       const struct xt_device_settings *device,
                                       const struct xt_device_checker *more, bool afresh,
                                       struct xt_err *err)
{
    struct xt_device_verdict verdict = {.when = 0};
    struct check check = {network, settings, more};
    const struct xt_device_checker checker = {check_within_memory, &check, more ? more->what : ""};
    if (device->check == XT_CHECK_NEVER || !network->device.own_memory)
        return XT_OK;
    xt_guard_set_phase(afresh ? "in the device check at a checkpoint" : "in the device check");
    enum xt_status status = xt_device_check(network->graph, &checker, afresh, &verdict, err);
    int64_t first = verdict.when;
    if (!status && network->inference != network->graph)
        status = xt_device_check(network->inference, &checker, afresh, &verdict, err);
    verdict.when = first ? verdict.when : 0;
    xt_guard_set_phase(NULL);
    if (status && xt_guard_is_lost())
        xt_err_prefix(err, "the device was lost while it was checked: %s: ", network->device.name);
    network->device_checked = status ? 0 : verdict.when;
    if (!status)
        note_check(network, &verdict);
    return status;
}

enum xt_status xt_network_init(struct xt_network *network,
                               const struct xt_network_settings *settings,
                               const struct xt_device_settings *device, int batch, bool training,
                               struct xt_err *err)
{
    enum xt_status status = xt_network_open(network, settings, device, err);
    return status ? status : xt_network_build(network, settings, batch, training, err);
}
