#include "cli/bench/start.h"

#include <stdio.h>

#include "cli/bench/random_batch.h"

void xt_start_read(const struct xt_run_summary *run, struct xt_start *out)
{
    const struct xt_network *network = run->network;
    const struct xt_device *device = &network->device;
    *out = (struct xt_start){
        .dtype = network->graph->options.dtype,
        .library = device->library_span,
        .engine = device->engine_span,
        .network = {network->build_span.wall + run->times.prepare.wall,
                    network->build_span.cpu + run->times.prepare.cpu},
        .first_step = run->times.first_step,
        .has_cache = device->compiles && device->cache.folder,
        .cached = device->cache.valid,
    };
    snprintf(out->device, sizeof out->device, "%s", device->name);
    if (out->has_cache)
        out->compiled = xt_kernel_cache_count(&device->cache) - out->cached;
    else if (device->compiles)
        snprintf(out->no_cache, sizeof out->no_cache, "%s",
                 *device->cache.note ? device->cache.note : "it is switched off");
}

enum xt_status xt_start_measure(struct xt_start *out, const struct xt_train_settings *settings,
                                struct xt_err *err)
{
    struct xt_span start = xt_span_now();
    struct xt_trainer *trainer = NULL;
    struct xt_random_batch random = {.labels = NULL};
    double loss = 0;
    struct xt_train_settings one_step = *settings;
    one_step.run.steps = 1;
    one_step.recipe.sched = XT_SCHED_CONSTANT;
    one_step.recipe.warmup = 0;
    *out = (struct xt_start){.compiled = 0};
    enum xt_status status = xt_trainer_create(&trainer, &one_step, err);
    if (!status)
        status = xt_trainer_prepare(trainer, err);
    if (!status)
        status = xt_random_batch_init(&random, trainer, err);
    if (!status)
        status = xt_trainer_step(trainer, &random.batch, &loss, err);
    struct xt_span all = xt_span_since(&start);
    if (!status) {
        const struct xt_run_summary run = xt_trainer_summary(trainer);
        xt_start_read(&run, out);
    }
    out->all = all;
    xt_random_batch_clear(&random);
    xt_trainer_destroy(trainer);
    return status;
}

struct xt_start_phase xt_start_phase(const struct xt_start *start, int phase)
{
    const struct xt_start_phase phases[XT_START_PHASES + 1] = {
        {"library load", "library", start->library},
        {"device and engine", "engine", start->engine},
        {"network, primitives", "network", start->network},
        {"first step", "first_step", start->first_step},
        {"all else", "else", start->all},
        {"to the first step", "all", start->all},
    };
    struct xt_start_phase found = phases[phase];
    for (int i = 0; i < XT_START_PHASES - 1 && phase == XT_START_PHASES - 1; i++) {
        found.span.wall -= phases[i].span.wall;
        found.span.cpu -= phases[i].span.cpu;
    }
    return found;
}

void xt_start_print(const struct xt_start *start, double least, FILE *out)
{
    bool any = false;
    for (int i = 0; i < XT_START_PHASES - 1; i++) {
        struct xt_start_phase phase = xt_start_phase(start, i);
        if (phase.span.wall <= least)
            continue;
        fprintf(out, "start: %-20s %8.2f s, %8.2f s of CPU time\n", phase.name, phase.span.wall,
                phase.span.cpu);
        any = true;
    }
    if (any && start->has_cache)
        fprintf(out, "start: %s compiled, %d from the cache\n",
                xt_count((long long)start->compiled, "kernel").text, start->cached);
    else if (any && *start->no_cache)
        fprintf(out, "start: the number of compiled kernels is unknown: %s\n", start->no_cache);
}
