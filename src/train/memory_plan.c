#include "train/memory_plan.h"

#include "base/thread.h"
#include "train/trainer.h"

struct xt_memory_plan xt_memory_plan(const struct xt_trainer *trainer)
{
    const struct xt_params *params = &trainer->network.params;
    const struct xt_graph *graph = trainer->network.graph;
    double floats = sizeof(float);
    double values = floats * (double)params->value_floats;
    double used = (double)xt_thread_memory_used();
    struct xt_memory_plan plan = {
        .parameters = values + floats * (double)params->stat_floats,
        .gradients = values,
        .optimizer = values * xt_optim_states(trainer->optim.kind, trainer->optim.momentum),
        .working = (double)graph->working_bytes,
        .arena = (double)graph->arena_bytes,
        .slots = (double)trainer->upload.bytes * trainer->upload.count,
        .scratch = floats * (double)graph->loop_scratch_floats * trainer->network.device.threads,
        .limit = (double)xt_thread_memory_limit(),
    };
    double held = plan.parameters + plan.gradients + plan.optimizer + plan.working + plan.arena +
                  plan.slots + plan.scratch;
    plan.program = used > held ? used - held : 0;
    plan.saving = plan.parameters + plan.optimizer;
    /* A sample has its place in the order and a byte for being bad; evaluation has slots too. */
    double samples = (double)trainer->source->count;
    if (trainer->val) {
        samples += (double)trainer->val->count;
        plan.slots *= 2;
    }
    plan.slots += samples * (sizeof(size_t) + 1);
    plan.all = plan.parameters + plan.gradients + plan.optimizer + plan.working + plan.arena +
               plan.slots + plan.scratch + plan.saving + plan.program;
    return plan;
}

/* Trained values, as described: known before anything is allocated. */
static size_t described_bytes(const struct xt_params *params)
{
    size_t floats = 0;
    for (int i = 0; i < params->count; i++) {
        size_t part = 1;
        for (int axis = 0; axis < params->items[i].ndims; axis++)
            part *= (size_t)params->items[i].dims[axis];
        floats += part;
    }
    return floats * sizeof(float);
}

size_t xt_memory_plan_room(const struct xt_graph *graph, size_t slot_bytes)
{
    /* Training: values, gradients, up to two states, two working copies, and a checkpoint's copies
     * of values and states. Evaluation: values, a working copy, and the file that is being read. */
    enum { TRAINING_COPIES = 9, EVALUATION_COPIES = 3 };
    size_t limit = (size_t)xt_thread_memory_limit();
    if (!limit)
        return 0;
    size_t copies = graph->options.training ? TRAINING_COPIES : EVALUATION_COPIES;
    size_t used = (size_t)xt_thread_memory_used() +
                  copies * described_bytes(graph->options.params) + slot_bytes;
    return used < limit ? limit - used : 1;
}

enum xt_status xt_memory_plan_refuse(const struct xt_graph *graph, size_t room, struct xt_err *err)
{
    double limit = (double)xt_thread_memory_limit();
    double need = limit - (double)room + (double)graph->arena_bytes;
    /* Activations grow with the batch; a little is left for what does not. */
    int fits = (int)(0.97 * graph->options.batch * (double)room / (double)graph->arena_bytes);
    if (fits >= 1)
        return xt_err_set(err, XT_ERR_MEMORY,
                          "--batch %d needs about %.1f GB of memory, and this process may use "
                          "%.1f GB; give a smaller --batch: about %d fits",
                          graph->options.batch, need / 1e9, limit / 1e9, fits);
    return xt_err_set(err, XT_ERR_MEMORY,
                      "the network needs about %.1f GB of memory at --batch %d, and this process "
                      "may use %.1f GB: not even one image fits",
                      need / 1e9, graph->options.batch, limit / 1e9);
}
