#include "infer/network/memory_plan.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>

#include "base/system/thread.h"
#include "device/pinned.h"
#include "device/upload.h"

const char *xt_memory_part_name(enum xt_memory_part part)
{
    static const char *const names[XT_MEMORY_PARTS] = {
        [XT_MEMORY_PARAMETERS] = "parameters, float32",
        [XT_MEMORY_GRADIENTS] = "their gradients, float32",
        [XT_MEMORY_OPTIMIZER] = "optimizer state, float32",
        [XT_MEMORY_AVERAGE] = "moving average, float32",
        [XT_MEMORY_WORKING] = "working copies of weights",
        [XT_MEMORY_ACTIVATIONS] = "activations and gradients",
        [XT_MEMORY_EVALUATION] = "activations of evaluation",
        [XT_MEMORY_SLOTS] = "batch slots, the loader",
        [XT_MEMORY_CACHE] = "images cached by --image-cache",
        [XT_MEMORY_PINNED] = "behind pinned memory",
        [XT_MEMORY_SCRATCH] = "the loops' scratch",
        [XT_MEMORY_FILES] = "a checkpoint's copies",
        [XT_MEMORY_PROGRAM] = "program and libraries",
    };
    return names[part];
}

/* ---- memory needed ---- */

/* Batch slots, of evaluation too. */
static double slots_of(const struct xt_memory_use *use)
{
    double slots = use->slots + use->evaluation_slots;
    return slots * (double)use->slot_bytes;
}

/* For each sample its place in the order and a byte that marks it bad. */
static double order_of(const struct xt_memory_use *use)
{
    return (double)use->samples * (sizeof(size_t) + 1);
}

static void add_up(struct xt_memory_side *side)
{
    side->all = 0;
    for (int i = 0; i < XT_MEMORY_PARTS; i++)
        side->all += side->parts[i];
}

static void plan_cpu(const struct xt_graph *graph, const struct xt_memory_use *use,
                     struct xt_memory_plan *plan)
{
    const struct xt_params *params = graph->options.params;
    double values = (double)(params->value_floats * sizeof(float));
    double *parts = plan->host.parts;
    parts[XT_MEMORY_PARAMETERS] = values + (double)(params->stat_floats * sizeof(float));
    parts[XT_MEMORY_WORKING] = (double)xt_graph_working_bytes(graph);
    parts[XT_MEMORY_ACTIVATIONS] = (double)graph->plan.bytes - parts[XT_MEMORY_WORKING];
    parts[XT_MEMORY_SLOTS] = slots_of(use) + order_of(use);
    parts[XT_MEMORY_CACHE] = use->cache;
    parts[XT_MEMORY_SCRATCH] =
        (double)(graph->loop_scratch_floats * sizeof(float)) * graph->options.device->threads;
    parts[XT_MEMORY_FILES] = parts[XT_MEMORY_PARAMETERS];
    if (!graph->options.training)
        return;
    parts[XT_MEMORY_GRADIENTS] = values * (1 + use->sums);
    parts[XT_MEMORY_OPTIMIZER] = values * use->states;
    parts[XT_MEMORY_AVERAGE] = parts[XT_MEMORY_PARAMETERS] * use->averages;
    parts[XT_MEMORY_FILES] += parts[XT_MEMORY_OPTIMIZER] + parts[XT_MEMORY_AVERAGE];
}

/* Where the runtime has no host-only pinned memory, a mapped device buffer is used, which takes
 * memory on both sides. Unpinned slots are copied through one pinned buffer. */
static void plan_xpu(const struct xt_graph *graph, const struct xt_graph *evaluation,
                     const struct xt_memory_use *use, struct xt_memory_plan *plan)
{
    const struct xt_params *params = graph->options.params;
    double values = (double)(params->value_floats * sizeof(float));
    double stats = (double)(params->stat_floats * sizeof(float));
    double ways = use->evaluation_slots ? 2 : 1;
    double slot = (double)use->slot_bytes;
    double graphs =
        (double)graph->pinned_bytes + (evaluation ? (double)evaluation->pinned_bytes : 0);
    double pinned = use->pinned ? slots_of(use) : ways * slot;
    double *host = plan->host.parts;
    double *device = plan->device.parts;
    host[XT_MEMORY_PARAMETERS] = device[XT_MEMORY_PARAMETERS] = values + stats;
    host[XT_MEMORY_SLOTS] = slots_of(use) + (use->pinned ? 0 : pinned) + order_of(use) + graphs;
    host[XT_MEMORY_FILES] = host[XT_MEMORY_PARAMETERS];
    host[XT_MEMORY_CACHE] = use->cache;
    device[XT_MEMORY_ACTIVATIONS] = (double)graph->plan.bytes;
    device[XT_MEMORY_EVALUATION] = evaluation ? (double)evaluation->plan.bytes : 0;
    device[XT_MEMORY_SLOTS] = ways * XT_UPLOAD_BUFFERS * slot;
    device[XT_MEMORY_PINNED] = xt_pinned_is_there() ? 0 : pinned + graphs;
    if (!graph->options.training)
        return;
    /* A batch's statistics, and the momentum of the running ones. */
    device[XT_MEMORY_PARAMETERS] += 3 * stats;
    device[XT_MEMORY_GRADIENTS] = values * (1 + use->sums);
    device[XT_MEMORY_AVERAGE] = (values + stats) * use->averages;
    host[XT_MEMORY_OPTIMIZER] = device[XT_MEMORY_OPTIMIZER] = values * use->states;
    /* Plus its copy on the host while a checkpoint is written. */
    host[XT_MEMORY_FILES] += host[XT_MEMORY_OPTIMIZER] + 2 * device[XT_MEMORY_AVERAGE];
}

/* ---- memory available ---- */

static double at_least_0(double bytes)
{
    return bytes > 0 ? bytes : 0;
}

/* Processes of one run need the same at the same time; `ulimit -v` is each one's own. */
static void read_host(int processes, struct xt_memory_side *host)
{
    int parts = processes > 1 && !xt_thread_address_left() ? processes : 1;
    host->limit = (double)xt_thread_memory_limit() / parts;
    host->free = at_least_0(host->limit - (double)xt_thread_memory_used());
    host->available = (double)xt_thread_memory_available() / parts;
}

/* An XPU's used memory is known where its driver reports it; this process's share, from the kernel.
 */
static void read_device(struct xt_device *device, struct xt_memory_side *out)
{
    struct xt_telemetry now;
    xt_device_read(device, &now);
    out->limit = (double)device->xpu.facts.memory;
    out->own = !now.memory_free.known && now.memory_used.known ? now.memory_used.value : 0;
    out->free = at_least_0(out->limit - out->own);
    if (now.memory_free.known && now.memory_free.value < out->free)
        out->free = now.memory_free.value;
    if (!now.memory_free.known)
        snprintf(out->why, sizeof out->why, "%s", now.memory_free.why);
    out->available = out->free;
}

static struct xt_memory_plan make(const struct xt_graph *graph, const struct xt_graph *evaluation,
                                  const struct xt_memory_use *use)
{
    struct xt_memory_plan plan = {.shared = false};
    read_host(use->processes, &plan.host);
    if (graph->options.device->own_memory) {
        read_device(graph->options.device, &plan.device);
        plan.shared = graph->options.device->xpu.facts.integrated;
        plan_xpu(graph, evaluation, use, &plan);
    } else {
        plan_cpu(graph, use, &plan);
    }
    add_up(&plan.host);
    add_up(&plan.device);
    return plan;
}

static void count_program(struct xt_memory_plan *plan, double bytes)
{
    plan->host.parts[XT_MEMORY_PROGRAM] = at_least_0(bytes);
    add_up(&plan->host);
}

struct xt_memory_plan xt_memory_plan_ahead(const struct xt_graph *graph,
                                           const struct xt_graph *evaluation,
                                           const struct xt_memory_use *use)
{
    struct xt_memory_plan plan = make(graph, evaluation, use);
    plan.host.free += use->held;
    plan.host.available += use->held;
    count_program(&plan, (double)xt_thread_memory_used() - use->held);
    return plan;
}

struct xt_memory_plan xt_memory_plan_built(const struct xt_graph *graph,
                                           const struct xt_graph *evaluation,
                                           const struct xt_memory_use *now,
                                           const struct xt_memory_use *use)
{
    struct xt_memory_plan plan = make(graph, evaluation, now);
    double held =
        plan.host.all - plan.host.parts[XT_MEMORY_FILES] - (double)xt_graph_untouched_bytes(graph);
    plan = make(graph, evaluation, use);
    count_program(&plan, (double)xt_thread_memory_used() - held);
    return plan;
}

/* ---- whether it fits ---- */

double xt_memory_need(const struct xt_memory_side *side)
{
    return side->all - side->parts[XT_MEMORY_PROGRAM];
}

static bool side_fits(const struct xt_memory_side *side, double need, double room)
{
    return side->limit <= 0 || need <= room;
}

bool xt_memory_plan_fits(const struct xt_memory_plan *plan)
{
    double device = xt_memory_need(&plan->device);
    double host = xt_memory_need(&plan->host) + (plan->shared ? device : 0);
    return side_fits(&plan->host, host, plan->host.free) &&
           side_fits(&plan->device, device, plan->device.free);
}

bool xt_memory_plan_fits_well(const struct xt_memory_plan *plan)
{
    const double part = 0.9;
    const double device_part = *plan->device.why ? 0.8 : part;
    double device = xt_memory_need(&plan->device);
    double host = xt_memory_need(&plan->host) + (plan->shared ? device : 0);
    return side_fits(&plan->host, host, part * plan->host.available) &&
           side_fits(&plan->device, device, device_part * plan->device.available);
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
    *text = '\0';
    for (int k = 0; k < NAMED; k++) {
        const struct xt_buffer *largest = largest_below(graph, before);
        if (!largest)
            return;
        bool large = largest->bytes >= 1000000000;
        xt_str_append_to(text, size, "%s%.40s (%s) %.1f %s", k ? ", " : "", largest->tensor,
                         largest->kind, (double)largest->bytes / (large ? 1e9 : 1e6),
                         large ? "GB" : "MB");
        before = largest->bytes;
    }
}

enum xt_status xt_memory_plan_refuse(const struct xt_memory_plan *plan,
                                     const struct xt_graph *graph, const char *advice,
                                     struct xt_err *err)
{
    double device = xt_memory_need(&plan->device);
    bool of_device = !side_fits(&plan->device, device, plan->device.free);
    const struct xt_memory_side *side = of_device ? &plan->device : &plan->host;
    double need = xt_memory_need(side) + (!of_device && plan->shared ? device : 0);
    char whose[96] = "this process may use";
    char largest[256];
    if (of_device)
        snprintf(whose, sizeof whose, "%.80s has", graph->options.device->name);
    name_largest(graph, largest, sizeof largest);
    return xt_err_set(err, XT_ERR_MEMORY,
                      "--batch %d needs about %.2f GB of memory, and %s %.2f GB, of which %.2f GB "
                      "are free (the largest tensors: %s); %s",
                      graph->options.batch, need / 1e9, whose, side->limit / 1e9, side->free / 1e9,
                      largest, advice);
}
