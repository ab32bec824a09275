#include "cli/bench/start_report.h"

#include <stdbool.h>

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
