#include "train/memory_plan.h"

/* Found as peak memory less the arrays: 32 to 38 MB, whatever batch and type. */
#define PROGRAM_BYTES 35e6

struct xt_memory_plan xt_memory_plan(const struct xt_trainer *trainer)
{
    const struct xt_params *params = &trainer->network.params;
    const struct xt_graph *graph = trainer->network.graph;
    double floats = sizeof(float);
    double values = floats * (double)params->value_floats;
    struct xt_memory_plan plan = {
        .parameters = values + floats * (double)params->stat_floats,
        .gradients = values,
        .optimizer = values * xt_optim_states(trainer->optim.kind, trainer->optim.momentum),
        .working = (double)graph->working_bytes,
        .arena = (double)graph->arena_bytes,
        .slots = (double)trainer->slots.bytes * trainer->slots.count,
        .scratch = floats * (double)graph->loop_scratch_floats * trainer->network.device.threads,
        .program = PROGRAM_BYTES,
    };
    plan.all = plan.parameters + plan.gradients + plan.optimizer + plan.working + plan.arena +
               plan.slots + plan.scratch + plan.program;
    return plan;
}
