#include "device/gpu/figures.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "base/system/thread.h"

void xt_figures_init(struct xt_figures *figures, struct xt_level_zero *zero, int index,
                     const struct xt_gpu_facts *facts, const char *root)
{
    *figures = (struct xt_figures){.zero = zero,
                                   .index = index,
                                   .pci = facts->pci,
                                   .memory = facts->memory,
                                   .root = root ? root : ""};
}

/* ---- the kernel's figures ---- */

/* The whole card's: a tile's is named i915_gt0. */
static bool is_the_cards(const char *name_file)
{
    char name[16] = "";
    FILE *file = fopen(name_file, "re");
    bool fine = file && fscanf(file, "%15s", name) == 1;
    if (file)
        fclose(file);
    return fine && (strcmp(name, "i915") == 0 || strcmp(name, "xe") == 0);
}

static bool read_hwmon(const struct xt_figures *figures, const char *name, double *value)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", figures->hwmon, name);
    return *figures->hwmon && xt_energy_read_number(path, value);
}

/* The first counter of energy is the card, the second its package; some cards have only the
 * second. */
static void find_hwmon(struct xt_figures *figures)
{
    char path[200];
    glob_t found = {0};
    const struct xt_pci_text pdev = xt_pci_format(&figures->pci);
    size_t length = (size_t)snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s/hwmon/*/name",
                                     figures->root, pdev.text);
    if (!figures->pci.known || length >= sizeof path || glob(path, 0, NULL, &found))
        return;
    for (size_t i = 0; i < found.gl_pathc && !*figures->hwmon; i++) {
        const char *name = strrchr(found.gl_pathv[i], '/');
        length = (size_t)(name - found.gl_pathv[i]);
        if (is_the_cards(found.gl_pathv[i]) && length < sizeof figures->hwmon)
            memcpy(figures->hwmon, found.gl_pathv[i], length);
    }
    globfree(&found);
    for (int i = 1; i <= 2 && *figures->hwmon && !figures->energy.count; i++) {
        snprintf(path, sizeof path, "%s/energy%d_input", figures->hwmon, i);
        xt_energy_open_file(&figures->energy, path);
    }
}

static bool own_memory(const struct xt_figures *figures, double *bytes)
{
    return xt_fdinfo_memory(&figures->now.fdinfo, bytes);
}

static bool own_busy(const struct xt_figures *figures, double *share)
{
    return figures->readings &&
           xt_fdinfo_busy(&figures->before.fdinfo, &figures->now.fdinfo, share);
}

static bool card_energy(const struct xt_figures *figures, double *joules)
{
    *joules = figures->now.joules;
    return figures->energy.count > 0;
}

static bool card_power(const struct xt_figures *figures, double *watts)
{
    double span = figures->now.seconds - figures->before.seconds;
    *watts = (figures->now.joules - figures->before.joules) / span;
    return figures->energy.count > 0 && figures->readings && span > 0;
}

/* 0: the limit is disabled. */
static bool card_power_limit(const struct xt_figures *figures, double *watts)
{
    bool told = read_hwmon(figures, "power1_max", watts) && *watts > 0 && *watts < 1e10;
    *watts /= 1e6;
    return told;
}

/* A plausible temperature: neither below freezing nor above the melting point of solder. */
static bool card_temperature(const struct xt_figures *figures, double *degrees)
{
    static const char *const names[] = {"temp1_input", "temp2_input"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (read_hwmon(figures, names[i], degrees) && *degrees > -60e3 && *degrees < 200e3) {
            *degrees /= 1e3;
            return true;
        }
    return false;
}

static bool opened_memory(const struct xt_figures *figures, double *bytes)
{
    *bytes = (double)figures->memory;
    return figures->memory > 0;
}

/* ---- the table ---- */

static const char by_fdinfo[] = "fdinfo";

static const struct figure {
    const char *name; /* for the user; NULL: it is not reported */
    size_t at;        /* in struct xt_telemetry */
    bool (*read)(const struct xt_figures *figures, double *value); /* NULL: only from Sysman */
    const char *source;                                            /* its origin */
    bool sysman_first; /* it is read only if Sysman does not have it */
    bool of_run;       /* it is reported during a run */
} table[] = {
#define AT(figure) offsetof(struct xt_telemetry, figure)
    {"memory", AT(memory_used), own_memory, by_fdinfo, false, true},
    {"free memory", AT(memory_free), NULL, NULL, false, false},
    {NULL, AT(memory_total), opened_memory, "driver", true, false},
    {"busy time", AT(busy), own_busy, by_fdinfo, false, true},
    {"power", AT(power), card_power, "hwmon", false, true},
    {NULL, AT(power_limit), card_power_limit, "hwmon", false, false},
    {"energy", AT(energy), card_energy, "hwmon", false, false},
    {"frequency", AT(frequency), NULL, NULL, false, true},
    {"temperature", AT(temperature), card_temperature, "hwmon", false, false},
#undef AT
};
enum { FIGURES = sizeof table / sizeof *table };

static const struct xt_reading *reading_of(const struct xt_telemetry *now,
                                           const struct figure *figure)
{
    return (const struct xt_reading *)((const char *)now + figure->at);
}

/* This process's own memory is a lower bound of the memory in use: a driver that reports less is
 * wrong. */
static void doubt_free_memory(const struct xt_figures *figures, struct xt_telemetry *out)
{
    double own = 0;
    if (out->memory_free.known && own_memory(figures, &own) && out->memory_used.value < own)
        out->memory_free = (struct xt_reading){
            .why = "the driver reports less memory in use than this process has"};
}

void xt_figures_read(struct xt_figures *figures, struct xt_telemetry *out)
{
    if (!figures->readings)
        find_hwmon(figures);
    xt_fdinfo_read(figures->root, &figures->pci, &figures->now.fdinfo);
    xt_energy_read(&figures->energy);
    figures->now.seconds = xt_thread_seconds();
    figures->now.joules = figures->energy.joules;
    xt_level_zero_read(figures->zero, figures->index, out);
    doubt_free_memory(figures, out);
    for (int i = 0; i < FIGURES; i++) {
        struct xt_reading *reading = (struct xt_reading *)((char *)out + table[i].at);
        double value = 0;
        if (table[i].read && !(table[i].sysman_first && reading->known) &&
            table[i].read(figures, &value))
            *reading =
                (struct xt_reading){.known = true, .value = value, .source = table[i].source};
    }
    figures->before = figures->now;
    figures->readings++;
}

/* ---- in words ---- */

/* A text by which figures are grouped; NULL: not reported. */
typedef const char *grouping(const struct figure *figure, const struct xt_reading *reading);

static void describe_groups(const struct xt_telemetry *now, grouping *of, const char *between,
                            char *text, size_t size)
{
    bool said[FIGURES] = {false};
    for (int i = 0; i < FIGURES; i++) {
        const char *tells = table[i].name ? of(&table[i], reading_of(now, &table[i])) : NULL;
        const char *start = *text ? "; " : "";
        if (!tells || said[i])
            continue;
        for (int k = i; k < FIGURES; k++) {
            const char *same = table[k].name ? of(&table[k], reading_of(now, &table[k])) : NULL;
            if (!same || strcmp(same, tells) != 0)
                continue;
            said[k] = true;
            xt_str_append_to(text, size, "%s%s", k == i ? start : ", ", table[k].name);
        }
        xt_str_append_to(text, size, "%s%s", between, tells);
    }
}

static const char *source_of(const struct figure *figure, const struct xt_reading *reading)
{
    (void)figure;
    const char *source = reading->known ? reading->source : NULL;
    return source == by_fdinfo ? "fdinfo, only this process" : source;
}

static const char *why_not(const struct figure *figure, const struct xt_reading *reading)
{
    (void)figure;
    return reading->known ? NULL : *reading->why ? reading->why : "nobody tells it here";
}

static const char *why_not_of_run(const struct figure *figure, const struct xt_reading *reading)
{
    return figure->of_run && !reading->known ? reading->why : NULL;
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

void xt_figures_describe_unreadable(const struct xt_telemetry *now, char *text, size_t size)
{
    *text = '\0';
    describe_groups(now, why_not_of_run, ": not readable: ", text, size);
}
