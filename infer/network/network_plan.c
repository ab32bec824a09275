#include "infer/network/network_plan.h"

#include <stdlib.h>

#include "base/mem.h"
#include "infer/feed.h"

static enum xt_status check_int8(bool training, struct xt_err *err)
{
    if (!training)
        return XT_OK;
    return xt_err_set(err, XT_ERR_USAGE,
                      "--amp int8 is for trained networks: train with --amp f32 or bf16, then give "
                      "--amp int8 to eval or predict");
}

/* On the CPU fp16 is for fused inference: oneDNN computes gradients in fp16 by reference kernels.
 */
static enum xt_status check_fp16(const struct xt_network *network,
                                 const struct xt_network_settings *settings, bool training,
                                 struct xt_err *err)
{
    if (settings->amp != XT_AMP_FP16 || network->device.trains_fp16)
        return XT_OK;
    if (training)
        return xt_err_set(err, XT_ERR_USAGE,
                          "--amp fp16: oneDNN trains in 16-bit floats on the CPU only by its "
                          "reference kernels, which are far slower than float32; use --amp bf16");
    if (!settings->fuse)
        return xt_err_set(err, XT_ERR_USAGE,
                          "--amp fp16 runs fused on the CPU; leave --no-fuse out, or use bf16");
    return XT_OK;
}

enum xt_status xt_network_describe(struct xt_network *network,
                                   const struct xt_network_settings *settings,
                                   struct xt_network_draft *draft, struct xt_err *err)
{
    bool int8 = settings->amp == XT_AMP_INT8;
    bool training = draft->training;
    bool shows_ranges = int8 && !network->ranges.count; /* of the tensors between ops */
    enum xt_status status =
        int8 ? check_int8(training, err) : check_fp16(network, settings, training, err);
    if (!status && training && settings->recompute && network->device.own_memory)
        status = xt_err_set(
            err, XT_ERR_USAGE,
            "--recompute is for the CPU so far: an XPU's kernels are created for passes that store "
            "all activations; a smaller --batch with --accumulate needs less memory");
    if (status)
        return status;
    struct xt_graph_options options = {
        .device = &network->device,
        .params = draft->params,
        .batch = draft->batch,
        .training = training,
        .dtype = xt_amp_dtype(settings->amp),
        .recompute = training && settings->recompute,
        .fuse = !training && settings->fuse,
        .int8 = int8 && network->ranges.count ? &network->ranges : NULL,
        .int8_layout = settings->int8_layout,
        .int8_of_7_bits = settings->int8_of_7_bits,
        .bn_frozen = training && xt_network_freezes_bn(network, settings),
        .learn_from = training ? settings->freeze_until : NULL,
        .by_slices = training || (settings->fuse && !shows_ranges),
        .lower_bound = settings->lower_bound,
    };
    if (settings->kernels)
        options.observer = *settings->kernels;
    struct xt_model_options model_options = {
        .classes = network->classes,
        .height = network->height,
        .width = network->width,
        .normalise = network->normalise,
        .context_over_batch = network->over_batch,
    };
    status = xt_graph_create(&draft->graph, &options, err);
    if (status)
        return status;
    draft->logits = xt_model_describe(network->model, draft->graph, &model_options);
    return XT_OK;
}

/* Without the order of the samples, a few bytes each, which is unknown here. */
enum xt_status xt_network_plan_drafts(struct xt_network *network,
                                      const struct xt_network_draft *draft,
                                      const struct xt_network_draft *evaluation,
                                      struct xt_memory_plan *plan, struct xt_err *err)
{
    struct xt_memory_use use = {
        .states = draft->training ? network->training.states : 0,
        .averages = draft->training ? network->training.averages : 0,
        .sums = draft->training ? network->training.sums : 0,
        .slot_bytes = (size_t)draft->batch * xt_network_image_bytes(network),
        .slots = draft->training ? network->training.slots : XT_FEED_EVALUATION_SLOTS,
        .evaluation_slots = draft->training ? XT_FEED_EVALUATION_SLOTS : 0,
        .pinned = !network->pageable,
        .processes = network->processes,
        .held = network->checkpoint_bytes,
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

bool xt_network_needs_evaluation(const struct xt_network *network, bool training)
{
    return training && network->device.compiles;
}

enum xt_status xt_network_plan(struct xt_network *network,
                               const struct xt_network_settings *settings, int batch, bool training,
                               struct xt_memory_plan *plan, struct xt_err *err)
{
    struct xt_params *params = NULL;
    enum xt_status status = xt_mem_calloc(&params, 2, sizeof *params, "a plan's parameters", err);
    if (status)
        return status;
    struct xt_network_draft draft = {.params = &params[0], .batch = batch, .training = training};
    struct xt_network_draft evaluation = {.params = &params[1], .batch = batch};
    status = xt_network_describe(network, settings, &draft, err);
    if (!status && xt_network_needs_evaluation(network, training))
        status = xt_network_describe(network, settings, &evaluation, err);
    if (!status)
        status = xt_network_plan_drafts(network, &draft, &evaluation, plan, err);
    xt_graph_destroy(draft.graph);
    xt_graph_destroy(evaluation.graph);
    xt_params_clear(&params[0]);
    xt_params_clear(&params[1]);
    free(params);
    return status;
}
