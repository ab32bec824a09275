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

enum { SHOWN = 7 };

/* Those that are named by one text, of which `of` tells it (NULL: none), in groups. */
static void describe_groups(const struct xt_telemetry *now,
                            const char *(*of)(const struct xt_reading *reading),
                            const char *between, char *text, size_t size)
{
    const struct {
        const char *name;
        const struct xt_reading *reading;
    } all[SHOWN] = {
        {"memory", &now->memory_used},      {"free memory", &now->memory_free},
        {"busy time", &now->busy},          {"power", &now->power},
        {"energy", &now->energy},           {"frequency", &now->frequency},
        {"temperature", &now->temperature},
    };
    bool said[SHOWN] = {false};
    for (int i = 0; i < SHOWN; i++) {
        const char *tells = of(all[i].reading);
        const char *start = *text ? "; " : "";
        if (!tells || said[i])
            continue;
        for (int k = i; k < SHOWN; k++) {
            const char *same = of(all[k].reading);
            said[k] |= same && strcmp(same, tells) == 0;
            if (same && strcmp(same, tells) == 0)
                xt_str_append_to(text, size, "%s%s", k == i ? start : ", ", all[k].name);
        }
        xt_str_append_to(text, size, "%s%s", between, tells);
    }
}

static const char *source_of(const struct xt_reading *reading)
{
    const char *source = reading->known ? reading->source : NULL;
    return source == by_fdinfo ? "fdinfo, of this process alone" : source;
}

static const char *why_not(const struct xt_reading *reading)
{
    return reading->known ? NULL : *reading->why ? reading->why : "nobody tells it here";
}

void xt_figures_describe_sources(const struct xt_telemetry *now, char *text, size_t size)
{
    *text = '\0';
    describe_groups(now, source_of, " by ", text, size);
}

void xt_figures_describe_all(const struct xt_telemetry *now, char *text, size_t size)
{
    xt_figures_describe_sources(now, text, size);
    describe_groups(now, why_not, " not readable: ", text, size);
}
