#include "device/gpu/fdinfo.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "base/str.h"

enum { FILE_MAX = 64 << 10, LINE_MAX = 256 };
/* ---- one file ---- */

/* Digits and one of the units, each 1024 of the one before; false if the text has another form, or
 * the value does not fit. */
static bool read_value(const char *text, const char *const *units, int count, uint64_t *value)
{
    uint64_t read = 0;
    const char *end = text;
    for (; *end >= '0' && *end <= '9'; end++) {
        uint64_t digit = (uint64_t)(*end - '0');
        if (read > (UINT64_MAX - digit) / 10)
            return false;
        read = read * 10 + digit;
    }
    if (end == text)
        return false;
    end += strspn(end, " \t");
    for (int i = 0; i < count; i++) {
        if (strcmp(end, units[i]) == 0) {
            *value = read;
            return true;
        }
        if (read > UINT64_MAX / 1024)
            return false;
        read *= 1024;
    }
    return false;
}

static int index_of(const struct xt_fdinfo_counters *counters, const char *name)
{
    int i = 0;
    while (i < counters->count && strcmp(counters->items[i].name, name) != 0)
        i++;
    return i;
}

static const struct xt_fdinfo_counter *find(const struct xt_fdinfo_counters *counters,
                                            const char *name)
{
    int i = index_of(counters, name);
    return i < counters->count ? &counters->items[i] : NULL;
}

static void take(struct xt_fdinfo_counters *counters, const char *name, int which, uint64_t value)
{
    int i = index_of(counters, name);
    struct xt_fdinfo_counter *counter = &counters->items[i];
    size_t length = strlen(name);
    if (i == XT_FDINFO_COUNTERS_MAX || !length || length >= sizeof counter->name)
        return;
    if (i == counters->count) {
        counters->count++;
        memcpy(counter->name, name, length + 1);
    }
    counter->value[which] = value;
    counter->told[which] = true;
}

static void take_line(struct xt_fdinfo_client *client, const char *key, const char *value)
{
    static const char *const bytes[] = {"", "KiB", "MiB", "GiB"};
    static const char *const ns[] = {"ns"};
    const struct {
        const char *start;
        struct xt_fdinfo_counters *of;
        int which;
        const char *const *units;
        int unit_count;
    } keys[] = {
        {"drm-resident-", &client->regions, XT_FDINFO_RESIDENT, bytes, 4},
        {"drm-memory-", &client->regions, XT_FDINFO_MEMORY, bytes, 4},
        {"drm-total-cycles-", &client->engines, XT_FDINFO_ALL_CYCLES, bytes, 1},
        {"drm-total-", &client->regions, XT_FDINFO_TOTAL, bytes, 4},
        {"drm-cycles-", &client->engines, XT_FDINFO_CYCLES, bytes, 1},
        {"drm-engine-capacity-", &client->engines, XT_FDINFO_CAPACITY, bytes, 1},
        {"drm-engine-", &client->engines, XT_FDINFO_NS, ns, 1},
    };
    const uint64_t memory_most = (uint64_t)1 << 56; /* more than any machine has */
    uint64_t read = 0;
    if (strcmp(key, "drm-pdev") == 0)
        snprintf(client->pdev, sizeof client->pdev, "%.23s", value);
    else if (strcmp(key, "drm-client-id") == 0)
        client->has_id = read_value(value, bytes, 1, &client->id);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (xt_str_starts(key, keys[i].start)) {
            if (read_value(value, keys[i].units, keys[i].unit_count, &read) &&
                (keys[i].of == &client->engines || read <= memory_most))
                take(keys[i].of, key + strlen(keys[i].start), keys[i].which, read);
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

static const struct xt_fdinfo_client *find_client(const struct xt_fdinfo *info, uint64_t id)
{
    for (int i = 0; i < info->count; i++)
        if (info->clients[i].id == id)
            return &info->clients[i];
    return NULL;
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
        out->count += strcmp(client->pdev, pdev.text) == 0 && !find_client(out, client->id);
    }
    if (files)
        closedir(files);
    free(text);
}

/* ---- memory ---- */

/* Memory of the GPU itself: xe's vram0, i915's local0 and stolen-local0. */
static bool is_own(const struct xt_fdinfo_counter *region)
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
        for (int i = 0; i < info->clients[c].regions.count; i++) {
            const struct xt_fdinfo_counter *region = &info->clients[c].regions.items[i];
            int which = XT_FDINFO_RESIDENT;
            while (!region->told[which])
                which++;
            discrete |= is_own(region);
            *(is_own(region) ? &own : &system) += (double)region->value[which];
        }
    *bytes = discrete ? own : system;
    return *bytes > 0;
}

/* ---- engines ---- */

/* The increase since `before`; unknown if a counter was reset. */
static double since(uint64_t before, uint64_t now)
{
    return now > before ? (double)(now - before) : 0;
}

/* The busy share of one client in one class; a new client started at 0, but its clock did not. */
static double share_of(const struct xt_fdinfo *before, const struct xt_fdinfo *now, uint64_t id,
                       const struct xt_fdinfo_counter *engine)
{
    static const struct xt_fdinfo_counter none = {0};
    const struct xt_fdinfo_client *client = find_client(before, id);
    const struct xt_fdinfo_counter *known = client ? find(&client->engines, engine->name) : NULL;
    const struct xt_fdinfo_counter *was = known ? known : &none;
    const int busy = engine->told[XT_FDINFO_NS] ? XT_FDINFO_NS : XT_FDINFO_CYCLES;
    const uint64_t engines = engine->value[XT_FDINFO_CAPACITY];
    double span = 0;
    if (busy == XT_FDINFO_NS)
        span = since(before->when, now->when);
    else if (known)
        span = since(was->value[XT_FDINFO_ALL_CYCLES], engine->value[XT_FDINFO_ALL_CYCLES]);
    span *= engines ? (double)engines : 1;
    return span > 0 ? since(was->value[busy], engine->value[busy]) / span : 0;
}

bool xt_fdinfo_busy(const struct xt_fdinfo *before, const struct xt_fdinfo *now, double *share)
{
    static const char *const that_compute[] = {"compute", "render", "ccs", "rcs"};
    bool counted = false;
    *share = 0;
    for (size_t i = 0; i < sizeof that_compute / sizeof *that_compute; i++) {
        double all = 0;
        for (int c = 0; c < now->count; c++) {
            const struct xt_fdinfo_counter *engine =
                find(&now->clients[c].engines, that_compute[i]);
            if (!engine || !(engine->told[XT_FDINFO_NS] || engine->told[XT_FDINFO_ALL_CYCLES]))
                continue;
            counted |= engine->value[XT_FDINFO_NS] || engine->value[XT_FDINFO_CYCLES];
            all += share_of(before, now, now->clients[c].id, engine);
        }
        *share = all > *share ? all : *share;
    }
    *share = *share < 1 ? *share : 1;
    return counted && now->when > before->when;
}
