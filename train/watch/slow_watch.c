#include "train/watch/slow_watch.h"

#include <math.h>
#include <stdio.h>

#include "base/log.h"
#include "base/system/thread.h"
#include "device/types.h"
#include "engine/ops/ops.h"

/* ---- before the first step ---- */

static bool multiplies(const struct xt_graph *graph, const struct xt_op *op)
{
    for (int i = 0; i < op->param_count; i++)
        if (graph->options.params->items[op->params[i]].role == XT_PARAM_WEIGHT)
            return true;
    return op->kind == &xt_kind_conv_by;
}

static void see_kernel(struct xt_slow_facts *facts, const struct xt_graph *graph,
                       const struct xt_op *op, const char *name)
{
    /* oneDNN has no other kernels for dropout on a GPU; they pass over the tensor once, which no
     * other kernel would do faster. */
    bool reference = xt_types_is_reference(name) && op->kind != &xt_kind_dropout;
    bool convolution = multiplies(graph, op);
    bool slow = reference || (convolution && !xt_types_is_machine_code(name));
    facts->kernels++;
    facts->convolutions += convolution;
    facts->reference += reference;
    facts->opencl += convolution && slow && !reference;
    /* The first of the kind that is reported: reference ones, if any. */
    bool first_reference = reference && facts->reference == 1;
    if (slow && (!*facts->first || first_reference))
        snprintf(facts->first, sizeof facts->first, "%s, %s", op->name, name);
}

static void see_kernels(struct xt_slow_facts *facts, const struct xt_graph *graph)
{
    for (int i = 0; i < graph->op_count; i++)
        for (int backward = 0; backward <= (graph->options.training ? 1 : 0); backward++) {
            const char *name = xt_op_implementation(graph->ops[i], backward);
            if (*name)
                see_kernel(facts, graph, graph->ops[i], name);
        }
}

static void see_architecture(struct xt_slow_facts *facts, const struct xt_gpu_facts *gpu)
{
    struct xt_architecture is = xt_xpu_architecture(gpu);
    const struct xt_dnnl_version_text version = xt_dnnl_version_text();
    facts->matrix = is.matrix;
    if (!is.matrix)
        snprintf(facts->why[XT_SLOW_TYPE], sizeof facts->why[0],
                 "it is not known whether this GPU has matrix engines");
    snprintf(facts->architecture, sizeof facts->architecture, "%s", is.name ? is.name : "");
    if (is.since && xt_xpu_is_before(version.text, is.since))
        snprintf(facts->newer, sizeof facts->newer,
                 "oneDNN %s has machine code for %s, and this is %s", is.since, is.name,
                 version.text);
}

static void see_bar(struct xt_slow_facts *facts, const struct xt_device *device)
{
    char *why = facts->why[XT_SLOW_BAR];
    char reason[96] = "";
    if (device->xpu.facts.integrated)
        snprintf(why, sizeof facts->why[0], "an integrated GPU has none");
    else if (!device->zero || device->xpu.zero_index < 0)
        snprintf(why, sizeof facts->why[0], "%.100s",
                 *device->no_zero ? device->no_zero : "Level Zero does not list this GPU");
    else
        facts->bar = xt_level_zero_resizable_bar(device->zero, device->xpu.zero_index, reason);
    if (*reason)
        snprintf(why, sizeof facts->why[0], "%s", reason);
}

void xt_slow_watch_begin(struct xt_slow_watch *watch, struct xt_network *network)
{
    const struct xt_device *device = &network->device;
    const double unknown = (double)NAN;
    *watch = (struct xt_slow_watch){.is_xpu = device->own_memory, .mixed = true};
    struct xt_slow_facts *facts = &watch->facts;
    facts->type = network->graph->options.dtype;
    facts->step = facts->launches = facts->waits = facts->loader = facts->loss = facts->busy =
        unknown;
    if (watch->is_xpu) {
        see_kernels(facts, network->graph);
        see_architecture(facts, &device->xpu.facts);
        snprintf(facts->better, sizeof facts->better, "%.127s", device->better);
        facts->discrete = *device->better ? XT_YES : XT_NO;
        see_bar(facts, device);
    }
    xt_slow_judge(facts, &watch->slow);
}

/* ---- steps ---- */

void xt_slow_watch_step(struct xt_slow_watch *watch, double loading)
{
    const double pause = 0.1;
    watch->began = xt_thread_seconds();
    watch->spent = xt_guard_spent();
    watch->loading = loading;
    watch->mixed = watch->mixed || watch->began - watch->ended > pause;
}

static void see_busy(struct xt_slow_watch *watch, const struct xt_monitor_figures *device)
{
    if (device->readings == watch->readings)
        return;
    watch->readings = device->readings;
    if (!watch->mixed && device->now.busy.known) {
        watch->busy += device->now.busy.value;
        watch->busy_count++;
    }
    if (!device->now.busy.known)
        snprintf(watch->facts.why[XT_SLOW_IDLE], sizeof watch->facts.why[0], "%s",
                 device->now.busy.why);
    watch->mixed = false;
}

enum { STEPS = 100, FEW = 5, SETTLED = 64 };

void xt_slow_watch_end_step(struct xt_slow_watch *watch, double loading, double loss,
                            const struct xt_monitor_figures *device)
{
    const struct xt_guard_spent now = xt_guard_spent();
    watch->ended = xt_thread_seconds();
    watch->steps++;
    watch->step += watch->ended - watch->began;
    watch->launches += now.launches - watch->spent.launches;
    watch->waits += now.waits - watch->spent.waits;
    /* Until then the loader may add threads, which fixes it. */
    if (watch->steps == SETTLED) {
        watch->loader = 0;
        watch->loader_steps = 0;
    }
    watch->loader += loading - watch->loading;
    watch->loader_steps++;
    watch->loss += loss;
    see_busy(watch, device);
}

bool xt_slow_watch_judge(struct xt_slow_watch *watch, bool now)
{
    const double seconds = 3;
    struct xt_slow_facts *facts = &watch->facts;
    bool enough = watch->steps >= STEPS && watch->step >= seconds;
    if (watch->judged || !(enough || (now && watch->steps >= FEW)))
        return false;
    double steps = (double)watch->steps;
    facts->step = watch->step / steps;
    facts->loader =
        watch->loader_steps < FEW ? (double)NAN : watch->loader / (double)watch->loader_steps;
    facts->loss = watch->loss / steps;
    if (watch->is_xpu) {
        facts->launches = watch->launches / steps;
        facts->waits = watch->waits / steps;
    }
    if (watch->busy_count)
        facts->busy = watch->busy / watch->busy_count;
    else if (watch->is_xpu && !*facts->why[XT_SLOW_IDLE])
        snprintf(facts->why[XT_SLOW_IDLE], sizeof facts->why[0],
                 "the steps took too little time to read it");
    xt_slow_judge(facts, &watch->slow);
    return watch->judged = true;
}

void xt_slow_watch_say(struct xt_slow_watch *watch)
{
    for (int i = 0; i < watch->slow.count; i++) {
        const struct xt_slow_finding *finding = &watch->slow.found[i];
        if (!watch->said[finding->cause])
            xt_log_note("slow because %s; %s", finding->because, finding->remedy);
        watch->said[finding->cause] = true;
    }
}
