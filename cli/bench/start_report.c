#include "cli/bench/start_report.h"

static const struct {
    const char *name;
    const char *key;
} phases[XT_START_PHASES] = {
    {"library load", "library"},
    {"device and engine", "engine"},
    {"network, primitives", "network"},
    {"first step", "first_step"},
    {"all else", "else"},
};

const char *xt_start_phase_name(int phase)
{
    return phases[phase].name;
}

struct xt_span xt_start_phase(const struct xt_start *start, int phase)
{
    const struct xt_span *const spans[] = {&start->library, &start->engine, &start->network,
                                           &start->first_step};
    if (phase < XT_START_PHASES - 1)
        return *spans[phase];
    struct xt_span rest = start->all;
    for (int i = 0; i < XT_START_PHASES - 1; i++) {
        rest.wall -= spans[i]->wall;
        rest.cpu -= spans[i]->cpu;
    }
    return rest;
}

void xt_start_describe_kernels(const struct xt_start *start, char *text, size_t size)
{
    if (start->has_cache)
        snprintf(text, size, "%d kernel%s compiled, %d from the cache", start->compiled,
                 start->compiled == 1 ? "" : "s", start->kept);
    else
        snprintf(text, size, "%s%s",
                 *start->no_cache ? "how many kernels were compiled is not known: " : "",
                 start->no_cache);
}

void xt_start_print(const struct xt_start *start, double least, FILE *out)
{
    char kernels[400];
    bool any = false;
    for (int i = 0; i < XT_START_PHASES - 1; i++) {
        struct xt_span span = xt_start_phase(start, i);
        if (span.wall <= least)
            continue;
        fprintf(out, "start: %-20s %8.2f s, %8.2f s of CPU time\n", phases[i].name, span.wall,
                span.cpu);
        any = true;
    }
    xt_start_describe_kernels(start, kernels, sizeof kernels);
    if (any && *kernels)
        fprintf(out, "start: %s\n", kernels);
}

static bool add_span(cJSON *to, const char *key, const struct xt_span *span)
{
    cJSON *object = cJSON_AddObjectToObject(to, key);
    return object && cJSON_AddNumberToObject(object, "wall_s", span->wall) &&
           cJSON_AddNumberToObject(object, "cpu_s", span->cpu);
}

cJSON *xt_start_to_json(const struct xt_start *start)
{
    cJSON *root = cJSON_CreateObject();
    bool ok = root && add_span(root, "all", &start->all);
    for (int i = 0; i < XT_START_PHASES && ok; i++) {
        struct xt_span span = xt_start_phase(start, i);
        ok = add_span(root, phases[i].key, &span);
    }
    if (ok && start->has_cache)
        ok = cJSON_AddNumberToObject(root, "kernels_compiled", start->compiled) &&
             cJSON_AddNumberToObject(root, "kernels_from_cache", start->kept);
    if (ok)
        return root;
    cJSON_Delete(root);
    return NULL;
}
