#include "device/gpu/figures.h"

#include <stdio.h>
#include <string.h>

#include "base/str.h"

static const char by_fdinfo[] = "fdinfo";

void xt_figures_init(struct xt_figures *figures, struct xt_level_zero *zero, int index,
                     const struct xt_gpu_facts *facts, const char *root)
{
    *figures = (struct xt_figures){
        .zero = zero, .index = index, .pci = facts->pci, .memory = facts->memory, .root = root};
}

static void set(struct xt_reading *reading, double value, const char *source)
{
    *reading = (struct xt_reading){.known = true, .value = value, .source = source};
}

/* What this process has is the least that is used: a driver that says less does not know. */
static void take_memory(const struct xt_fdinfo *now, struct xt_telemetry *out)
{
    double own = 0;
    if (!xt_fdinfo_memory(now, &own))
        return;
    if (out->memory_free.known && out->memory_used.value < own)
        out->memory_free = (struct xt_reading){
            .why = "the driver says that less is used than this process has alone"};
    set(&out->memory_used, own, by_fdinfo);
}

void xt_figures_read(struct xt_figures *figures, struct xt_telemetry *out)
{
    struct xt_fdinfo now;
    double share = 0;
    if (!figures->open)
        xt_hwmon_open(&figures->hwmon, figures->root ? figures->root : "", &figures->pci);
    xt_level_zero_read(figures->zero, figures->index, out);
    xt_fdinfo_read(figures->root ? figures->root : "", &figures->pci, &now);
    take_memory(&now, out);
    if (figures->open && xt_fdinfo_busy(&figures->before, &now, &share))
        set(&out->busy, share, by_fdinfo);
    if (!out->memory_total.known && figures->memory)
        set(&out->memory_total, (double)figures->memory, "driver");
    xt_hwmon_read(&figures->hwmon, out);
    figures->before = now;
    figures->open = true;
}

void xt_figures_describe_sources(const struct xt_telemetry *now, char *text, size_t size)
{
    const struct {
        const char *name;
        const struct xt_reading *reading;
    } all[] = {
        {"memory", &now->memory_used},  {"busy time", &now->busy},
        {"power", &now->power},         {"energy", &now->energy},
        {"frequency", &now->frequency}, {"temperature", &now->temperature},
    };
    enum { COUNT = sizeof all / sizeof *all };
    bool said[COUNT] = {false};
    *text = '\0';
    for (int i = 0; i < COUNT; i++) {
        const char *source = all[i].reading->known ? all[i].reading->source : NULL;
        bool first = true;
        for (int k = i; source && !said[i] && k < COUNT; k++) {
            bool same = all[k].reading->known && all[k].reading->source &&
                        strcmp(all[k].reading->source, source) == 0;
            if (!same)
                continue;
            xt_str_append_to(text, size, "%s%s", first ? (*text ? "; " : "") : ", ", all[k].name);
            said[k] = k > i;
            first = false;
        }
        if (!first)
            xt_str_append_to(text, size, " by %s%s", source,
                             strcmp(source, by_fdinfo) == 0 ? ", of this process alone" : "");
    }
}
