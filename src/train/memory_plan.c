#include "train/memory_plan.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>

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

/* What the graph's device has, and what of it is taken. On an XPU what is taken is known where
 * Level Zero tells. */
struct budget {
    size_t limit; /* 0: not known */
    size_t used;
};

static struct budget budget_of(const struct xt_graph *graph)
{
    struct xt_device *device = graph->options.device;
    if (device->kind == XT_DEVICE_CPU)
        return (struct budget){(size_t)xt_thread_memory_limit(), (size_t)xt_thread_memory_used()};
    struct xt_telemetry telemetry;
    xt_device_read(device, &telemetry);
    struct budget budget = {.limit = (size_t)device->xpu.facts.memory};
    if (telemetry.memory_used.known)
        budget.used = (size_t)telemetry.memory_used.value;
    return budget;
}

/* Training: values, gradients and up to two states; on the CPU two working copies too (an XPU has
 * them in its arena), and a checkpoint's copies of values and states. Evaluation: values, and on
 * the CPU a working copy and the file that is being read. */
static size_t copies_of(const struct xt_graph *graph)
{
    bool on_cpu = graph->options.device->kind == XT_DEVICE_CPU;
    if (graph->options.training)
        return on_cpu ? 9 : 4;
    return on_cpu ? 3 : 1;
}

size_t xt_memory_plan_room(const struct xt_graph *graph, size_t slot_bytes)
{
    struct budget budget = budget_of(graph);
    if (!budget.limit)
        return 0;
    size_t used =
        budget.used + copies_of(graph) * described_bytes(graph->options.params) + slot_bytes;
    return used < budget.limit ? budget.limit - used : 1;
}

static const struct xt_buffer *largest_below(const struct xt_graph *graph, size_t bytes)
{
    const struct xt_buffer *largest = NULL;
    for (int i = 0; i < graph->buffer_count; i++) {
        const struct xt_buffer *b = graph->buffers[i];
        assert(b);
        if (b->bytes < bytes && (!largest || b->bytes > largest->bytes))
            largest = b;
    }
    return largest;
}

/* "backbone.1 (value) 133.2 MB, ...", the largest three. */
static void name_largest(const struct xt_graph *graph, char *text, size_t size)
{
    enum { NAMED = 3 };
    size_t before = SIZE_MAX;
    size_t at = 0;
    *text = '\0';
    for (int k = 0; k < NAMED; k++) {
        const struct xt_buffer *largest = largest_below(graph, before);
        if (!largest || at >= size)
            return;
        int wrote = snprintf(text + at, size - at, "%s%.40s (%s) %.1f MB", k ? ", " : "",
                             largest->tensor, largest->kind, (double)largest->bytes / 1e6);
        at += wrote > 0 ? (size_t)wrote : 0;
        before = largest->bytes;
    }
}

enum xt_status xt_memory_plan_refuse(const struct xt_graph *graph, size_t room, struct xt_err *err)
{
    char largest[256];
    char whose[96] = "this process may use";
    double limit = (double)budget_of(graph).limit;
    double need = limit - (double)room + (double)graph->arena_bytes;
    /* Activations grow with the batch; a little is left for what does not. */
    int fits = (int)(0.97 * graph->options.batch * (double)room / (double)graph->arena_bytes);
    name_largest(graph, largest, sizeof largest);
    if (graph->options.device->kind == XT_DEVICE_XPU)
        snprintf(whose, sizeof whose, "%.80s has", graph->options.device->name);
    if (fits >= 1)
        return xt_err_set(err, XT_ERR_MEMORY,
                          "--batch %d needs about %.1f GB of memory, and %s %.1f GB, of which %.1f "
                          "GB are free for activations (the largest: %s); give a smaller --batch: "
                          "about %d fits",
                          graph->options.batch, need / 1e9, whose, limit / 1e9, (double)room / 1e9,
                          largest, fits);
    return xt_err_set(
        err, XT_ERR_MEMORY,
        "the network needs about %.1f GB of memory at --batch %d, and %s %.1f GB: not "
        "even one image fits (the largest tensors: %s)",
        need / 1e9, graph->options.batch, whose, limit / 1e9, largest);
}
