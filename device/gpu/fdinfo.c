#include "device/gpu/fdinfo.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/mem.h"
#include "base/str.h"

enum { FILE_MAX = 64 << 10, LINE_MAX = 256 };
enum { RESIDENT, MEMORY, TOTAL };

/* ---- one file ---- */

/* Digits, and then what `*rest` points to; false where there are none, or too many. */
static bool read_number(const char *text, uint64_t *value, const char **rest)
{
    const char *end = text;
    *value = 0;
    for (; *end >= '0' && *end <= '9'; end++) {
        uint64_t digit = (uint64_t)(*end - '0');
        if (*value > (UINT64_MAX - digit) / 10)
            return false;
        *value = *value * 10 + digit;
    }
    *rest = end + strspn(end, " \t");
    return end > text;
}

/* "2048 KiB"; more than any machine has is no figure. */
static bool read_bytes(const char *text, double *bytes)
{
    static const struct {
        const char *name;
        double bytes;
    } units[] = {{"", 1}, {"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}};
    const double most = 0x1p56;
    uint64_t value = 0;
    const char *unit = NULL;
    if (!read_number(text, &value, &unit))
        return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(unit, units[i].name) == 0) {
            *bytes = (double)value * units[i].bytes;
            return *bytes <= most;
        }
    return false;
}

static bool read_count(const char *text, const char *unit, uint64_t *value)
{
    const char *rest = NULL;
    uint64_t read = 0;
    if (!read_number(text, &read, &rest) || strcmp(rest, unit) != 0)
        return false;
    *value = read;
    return true;
}

static bool is_name(const char *name)
{
    size_t length = strlen(name);
    return length > 0 && length < sizeof((struct xt_fdinfo_region *)0)->name;
}

/* The one of that name, made where it is new; NULL where there is no room. */
static struct xt_fdinfo_region *region_of(struct xt_fdinfo_client *client, const char *name)
{
    for (int i = 0; i < client->region_count; i++)
        if (strcmp(client->regions[i].name, name) == 0)
            return &client->regions[i];
    if (!is_name(name) || client->region_count == XT_FDINFO_REGIONS_MAX)
        return NULL;
    struct xt_fdinfo_region *region = &client->regions[client->region_count++];
    xt_str_append_to(region->name, sizeof region->name, "%s", name);
    return region;
}

static struct xt_fdinfo_engine *engine_of(struct xt_fdinfo_client *client, const char *name)
{
    for (int i = 0; i < client->engine_count; i++)
        if (strcmp(client->engines[i].name, name) == 0)
            return &client->engines[i];
    if (!is_name(name) || client->engine_count == XT_FDINFO_ENGINES_MAX)
        return NULL;
    struct xt_fdinfo_engine *engine = &client->engines[client->engine_count++];
    xt_str_append_to(engine->name, sizeof engine->name, "%s", name);
    return engine;
}

static void take_memory(struct xt_fdinfo_client *client, int figure, const char *name,
                        const char *value)
{
    double bytes = 0;
    struct xt_fdinfo_region *region = read_bytes(value, &bytes) ? region_of(client, name) : NULL;
    if (!region)
        return;
    region->bytes[figure] = bytes;
    region->told[figure] = true;
}

enum counter { NS, CYCLES, ALL_CYCLES, CAPACITY };

static void take_engine(struct xt_fdinfo_client *client, enum counter counter, const char *name,
                        const char *value)
{
    uint64_t count = 0;
    struct xt_fdinfo_engine *engine =
        read_count(value, counter == NS ? "ns" : "", &count) ? engine_of(client, name) : NULL;
    if (!engine)
        return;
    if (counter == NS)
        engine->ns = count;
    else if (counter == CYCLES)
        engine->cycles = count;
    else if (counter == ALL_CYCLES)
        engine->all = count;
    else
        engine->capacity = count;
    engine->in_ns |= counter == NS;
    engine->in_cycles |= counter == ALL_CYCLES;
}

static void take_line(struct xt_fdinfo_client *client, const char *key, const char *value)
{
    static const struct {
        const char *start;
        bool memory;
        int what;
    } figures[] = {
        {"drm-resident-", true, RESIDENT},
        {"drm-memory-", true, MEMORY},
        {"drm-total-cycles-", false, ALL_CYCLES},
        {"drm-total-", true, TOTAL},
        {"drm-cycles-", false, CYCLES},
        {"drm-engine-capacity-", false, CAPACITY},
        {"drm-engine-", false, NS},
    };
    if (strcmp(key, "drm-driver") == 0)
        snprintf(client->driver, sizeof client->driver, "%.15s", value);
    else if (strcmp(key, "drm-pdev") == 0)
        snprintf(client->pdev, sizeof client->pdev, "%.23s", value);
    else if (strcmp(key, "drm-client-id") == 0)
        client->has_id = read_count(value, "", &client->id);
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
        if (xt_str_starts(key, figures[i].start)) {
            const char *name = key + strlen(figures[i].start);
            if (figures[i].memory)
                take_memory(client, figures[i].what, name, value);
            else
                take_engine(client, (enum counter)figures[i].what, name, value);
            return;
        }
}

bool xt_fdinfo_parse(const char *text, size_t size, struct xt_fdinfo_client *out)
{
    const char *end = text + size;
    *out = (struct xt_fdinfo_client){0};
    while (text < end) {
        char line[LINE_MAX];
        const char *stop = memchr(text, '\n', (size_t)(end - text));
        size_t length = (size_t)((stop ? stop : end) - text);
        if (length < sizeof line) {
            memcpy(line, text, length);
            line[length] = '\0';
            char *value = strchr(line, ':');
            if (value) {
                *value++ = '\0';
                take_line(out, line, value + strspn(value, " \t"));
            }
        }
        text += length + 1;
    }
    return out->has_id && *out->pdev;
}

/* ---- all files of the process ---- */

static bool is_known(const struct xt_fdinfo *info, const struct xt_fdinfo_client *client)
{
    for (int i = 0; i < info->count; i++)
        if (info->clients[i].id == client->id)
            return true;
    return false;
}

void xt_fdinfo_read(const char *root, const struct xt_pci_address *pci, struct xt_fdinfo *out)
{
    char folder[512];
    struct timespec now;
    uint8_t *text = NULL;
    size_t capacity = 0;
    const struct xt_pci_text pdev = xt_pci_format(pci);
    clock_gettime(CLOCK_MONOTONIC, &now);
    *out = (struct xt_fdinfo){.when = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec};
    snprintf(folder, sizeof folder, "%.400s/proc/self/fdinfo", root);
    DIR *files = pci->known ? opendir(folder) : NULL;
    for (const struct dirent *entry;
         files && out->count < XT_FDINFO_CLIENTS_MAX && (entry = readdir(files));) {
        struct xt_fdinfo_client *client = &out->clients[out->count];
        char path[800];
        size_t size = 0;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (*entry->d_name == '.' || xt_file_read(path, FILE_MAX, &text, &capacity, &size, NULL) ||
            !xt_fdinfo_parse((const char *)text, size, client))
            continue;
        out->count += strcmp(client->pdev, pdev.text) == 0 && !is_known(out, client);
    }
    if (files)
        closedir(files);
    free(text);
}

/* ---- memory ---- */

/* Of the GPU itself: xe's vram0, i915's local0 and stolen-local0. */
static bool is_own(const struct xt_fdinfo_region *region)
{
    return xt_str_starts(region->name, "vram") || xt_str_starts(region->name, "local") ||
           xt_str_starts(region->name, "stolen-local");
}

bool xt_fdinfo_memory(const struct xt_fdinfo *info, double *bytes)
{
    double own = 0;
    double system = 0;
    bool discrete = false;
    for (int c = 0; c < info->count; c++)
        for (int i = 0; i < info->clients[c].region_count; i++) {
            const struct xt_fdinfo_region *region = &info->clients[c].regions[i];
            int figure = region->told[RESIDENT] ? RESIDENT : region->told[MEMORY] ? MEMORY : TOTAL;
            discrete |= is_own(region);
            *(is_own(region) ? &own : &system) += region->bytes[figure];
        }
    *bytes = discrete ? own : system;
    return *bytes > 0;
}

/* ---- engines ---- */

static const struct xt_fdinfo_engine *find_engine(const struct xt_fdinfo *info, uint64_t id,
                                                  const char *name)
{
    for (int c = 0; c < info->count; c++)
        for (int i = 0; info->clients[c].id == id && i < info->clients[c].engine_count; i++)
            if (strcmp(info->clients[c].engines[i].name, name) == 0)
                return &info->clients[c].engines[i];
    return NULL;
}

static bool computes(const struct xt_fdinfo_engine *engine)
{
    static const char *const names[] = {"compute", "render", "ccs", "rcs"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strcmp(engine->name, names[i]) == 0)
            return engine->in_ns || engine->in_cycles;
    return false;
}

/* What was added since `before`; a counter that went back began anew, and nothing is known. */
static double since(uint64_t before, uint64_t now)
{
    return now > before ? (double)(now - before) : 0;
}

/* The share of one client in one class; a client that is new began at 0, but not its clock. */
static double share_of(const struct xt_fdinfo *before, const struct xt_fdinfo *now,
                       const struct xt_fdinfo_client *client, const struct xt_fdinfo_engine *engine)
{
    static const struct xt_fdinfo_engine none = {0};
    const struct xt_fdinfo_engine *was = find_engine(before, client->id, engine->name);
    double engines = engine->capacity ? (double)engine->capacity : 1;
    bool is_new = !was;
    was = was ? was : &none;
    if (engine->in_ns) {
        double span = since(before->when, now->when);
        return span > 0 ? since(was->ns, engine->ns) / span / engines : 0;
    }
    double span = is_new ? 0 : since(was->all, engine->all);
    return span > 0 ? since(was->cycles, engine->cycles) / span / engines : 0;
}

bool xt_fdinfo_busy(const struct xt_fdinfo *before, const struct xt_fdinfo *now, double *share)
{
    bool counted = false;
    *share = 0;
    for (int c = 0; c < now->count; c++)
        for (int i = 0; i < now->clients[c].engine_count; i++) {
            const struct xt_fdinfo_engine *engine = &now->clients[c].engines[i];
            double all = 0;
            if (!computes(engine))
                continue;
            counted |= engine->ns > 0 || engine->cycles > 0;
            for (int k = 0; k < now->count; k++) {
                const struct xt_fdinfo_engine *same =
                    find_engine(now, now->clients[k].id, engine->name);
                all += same ? share_of(before, now, &now->clients[k], same) : 0;
            }
            *share = all > *share ? all : *share;
        }
    *share = *share < 1 ? *share : 1;
    return counted && now->when > before->when;
}
