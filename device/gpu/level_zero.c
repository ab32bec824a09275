#include "device/gpu/level_zero.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "device/gpu/ze_abi.h"

/* Functions of the loader; the optional ones are NULL in old loaders. */
struct functions {
    xt_ze_result (*zeInit)(uint32_t flags);
    xt_ze_result (*zeDriverGet)(uint32_t *count, xt_ze_handle *drivers);
    xt_ze_result (*zeDriverGetProperties)(xt_ze_handle driver, struct xt_ze_driver *out);
    xt_ze_result (*zeDeviceGet)(xt_ze_handle driver, uint32_t *count, xt_ze_handle *devices);
    xt_ze_result (*zeDeviceGetProperties)(xt_ze_handle device, struct xt_ze_device *out);
    xt_ze_result (*zeDeviceGetMemoryProperties)(xt_ze_handle device, uint32_t *count,
                                                struct xt_ze_memory *out);
    xt_ze_result (*zeDeviceGetModuleProperties)(xt_ze_handle device, struct xt_ze_module *out);
    xt_ze_result (*zeDevicePciGetPropertiesExt)(xt_ze_handle device, struct xt_ze_pci *out);
    xt_ze_result (*zeDeviceGetSubDevices)(xt_ze_handle device, uint32_t *count, xt_ze_handle *out);
    xt_ze_result (*zesInit)(uint32_t flags);
    xt_ze_result (*zesDriverGet)(uint32_t *count, xt_ze_handle *drivers);
    xt_ze_result (*zesDeviceGet)(xt_ze_handle driver, uint32_t *count, xt_ze_handle *devices);
    xt_ze_result (*zesDeviceGetProperties)(xt_ze_handle device, struct xt_zes_device *out);
    xt_ze_result (*zesDevicePciGetProperties)(xt_ze_handle device, struct xt_zes_pci *out);
    xt_ze_result (*zesDevicePciGetBars)(xt_ze_handle device, uint32_t *count,
                                        struct xt_zes_bar *out);
    xt_ze_result (*zesDeviceEnumMemoryModules)(xt_ze_handle device, uint32_t *count,
                                               xt_ze_handle *out);
    xt_ze_result (*zesMemoryGetProperties)(xt_ze_handle memory, struct xt_zes_memory *out);
    xt_ze_result (*zesMemoryGetState)(xt_ze_handle memory, struct xt_zes_memory_state *out);
    xt_ze_result (*zesDeviceEnumEngineGroups)(xt_ze_handle device, uint32_t *count,
                                              xt_ze_handle *out);
    xt_ze_result (*zesEngineGetProperties)(xt_ze_handle engine, struct xt_zes_engine *out);
    xt_ze_result (*zesEngineGetActivity)(xt_ze_handle engine, struct xt_zes_activity *out);
    xt_ze_result (*zesDeviceEnumPowerDomains)(xt_ze_handle device, uint32_t *count,
                                              xt_ze_handle *out);
    xt_ze_result (*zesPowerGetEnergyCounter)(xt_ze_handle power, struct xt_zes_energy *out);
    xt_ze_result (*zesPowerGetLimits)(xt_ze_handle power, struct xt_zes_power_limit *sustained,
                                      void *burst, void *peak);
    xt_ze_result (*zesDeviceEnumFrequencyDomains)(xt_ze_handle device, uint32_t *count,
                                                  xt_ze_handle *out);
    xt_ze_result (*zesFrequencyGetProperties)(xt_ze_handle domain, struct xt_zes_frequency *out);
    xt_ze_result (*zesFrequencyGetState)(xt_ze_handle domain, struct xt_zes_frequency_state *out);
};

enum { DEVICES_MAX = 32, HANDLES_MAX = 32 };

struct gpu {
    xt_ze_handle handle;
    xt_ze_handle sysman; /* NULL: none */
    struct xt_gpu_facts facts;
    struct { /* as last read, of each engine that is looked at */
        xt_ze_handle engine;
        struct xt_zes_activity last;
    } activity[XT_TILES_MAX];
    int activity_count;
    bool has_energy;
    struct xt_zes_energy energy, first_energy;
};

struct xt_level_zero {
    void *library;
    struct functions ze;
    struct gpu gpus[DEVICES_MAX];
    int count;
    char no_sysman[96]; /* why there is none; "" where there is */
};

struct xt_pci_text xt_pci_format(const struct xt_pci_address *pci)
{
    struct xt_pci_text out = {""};
    if (pci->known)
        snprintf(out.text, sizeof out.text, "%04x:%02x:%02x.%x", pci->domain, pci->bus, pci->device,
                 pci->function);
    return out;
}

struct xt_uuid_text xt_uuid_format(const struct xt_uuid *uuid)
{
    struct xt_uuid_text out = {""};
    size_t at = 0;
    for (size_t i = 0; uuid->known && i < 16; i++)
        at += (size_t)snprintf(out.text + at, sizeof out.text - at, "%s%02x",
                               i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "", uuid->bytes[i]);
    return out;
}

/* What a result means, for "not readable: ...". */
static const char *result_text(xt_ze_result result)
{
    switch (result) {
    case XT_ZE_NO_PERMISSION:
        return "no permission";
    case XT_ZE_NOT_AVAILABLE:
        return "not available now";
    case XT_ZE_DEPENDENCY_MISSING:
        return "the driver misses a library";
    case XT_ZE_UNINITIALIZED:
        return "Sysman is not started";
    case XT_ZE_UNSUPPORTED:
        return "not supported by this driver";
    default:
        return NULL;
    }
}

static void unreadable(struct xt_reading *reading, xt_ze_result result)
{
    const char *text = result_text(result);
    reading->known = false;
    if (text)
        snprintf(reading->why, sizeof reading->why, "%s", text);
    else
        snprintf(reading->why, sizeof reading->why, "Level Zero error 0x%x", result);
}

static void set(struct xt_reading *reading, double value)
{
    *reading = (struct xt_reading){.known = true, .value = value, .source = "sysman"};
}

/* What the driver answered makes no sense. */
static void impossible(struct xt_reading *reading)
{
    *reading = (struct xt_reading){.why = "the driver's figures cannot be"};
}

/* --- the loader
 * ---------------------------------------------------------------------------------*/
static void *symbol(void *library, const char *name)
{
    return dlsym(library, name);
}

static bool bind(struct xt_level_zero *zero, const char **missing)
{
#define BIND(name, optional)                                                                       \
    {                                                                                              \
        void *found = symbol(zero->library, #name);                                                \
        memcpy(&zero->ze.name, &found, sizeof found);                                              \
        if (!found && !(optional)) {                                                               \
            *missing = #name;                                                                      \
            return false;                                                                          \
        }                                                                                          \
    }
    BIND(zeInit, false)
    BIND(zeDriverGet, false)
    BIND(zeDriverGetProperties, false)
    BIND(zeDeviceGet, false)
    BIND(zeDeviceGetProperties, false)
    BIND(zeDeviceGetMemoryProperties, false)
    BIND(zeDeviceGetModuleProperties, false)
    BIND(zeDevicePciGetPropertiesExt, true)
    BIND(zeDeviceGetSubDevices, true)
    BIND(zesInit, true)
    BIND(zesDriverGet, true)
    BIND(zesDeviceGet, true)
    BIND(zesDeviceGetProperties, false)
    BIND(zesDevicePciGetProperties, false)
    BIND(zesDevicePciGetBars, false)
    BIND(zesDeviceEnumMemoryModules, false)
    BIND(zesMemoryGetProperties, false)
    BIND(zesMemoryGetState, false)
    BIND(zesDeviceEnumEngineGroups, false)
    BIND(zesEngineGetProperties, false)
    BIND(zesEngineGetActivity, false)
    BIND(zesDeviceEnumPowerDomains, false)
    BIND(zesPowerGetEnergyCounter, false)
    BIND(zesPowerGetLimits, false)
    BIND(zesDeviceEnumFrequencyDomains, false)
    BIND(zesFrequencyGetProperties, false)
    BIND(zesFrequencyGetState, false)
#undef BIND
    return true;
}

/* --- devices
 * ------------------------------------------------------------------------------------*/
static void read_facts(const struct xt_level_zero *zero, struct gpu *gpu, uint32_t driver,
                       const struct xt_ze_device *device)
{
    struct xt_gpu_facts *facts = &gpu->facts;
    snprintf(facts->name, sizeof facts->name, "%.127s", device->name);
    /* Intel's driver packs its version so; it is the version that its packages carry too. */
    snprintf(facts->driver, sizeof facts->driver, "%u.%u.%u", driver >> 24, driver >> 16 & 0xff,
             driver & 0xffff);
    facts->uuid.known = true;
    memcpy(facts->uuid.bytes, device->uuid, sizeof facts->uuid.bytes);
    facts->vendor = device->vendor;
    facts->device_id = device->device;
    facts->units = (int)(device->eus_per_subslice * device->subslices_per_slice * device->slices);
    facts->integrated = device->flags & XT_ZE_FLAG_INTEGRATED;
    facts->allocation_max = device->allocation_max;
    struct xt_ze_memory memory[8] = {0};
    uint32_t count = 8;
    for (int i = 0; i < 8; i++)
        memory[i].stype = XT_ZE_MEMORY;
    if (zero->ze.zeDeviceGetMemoryProperties(gpu->handle, &count, memory) == XT_ZE_SUCCESS)
        for (uint32_t i = 0; i < count && i < 8; i++)
            facts->memory += memory[i].bytes;
    uint32_t tiles = 0;
    if (zero->ze.zeDeviceGetSubDevices &&
        zero->ze.zeDeviceGetSubDevices(gpu->handle, &tiles, NULL) == XT_ZE_SUCCESS)
        facts->tiles = tiles <= XT_TILES_MAX ? (int)tiles : XT_TILES_MAX;
    struct xt_ze_module module = {.stype = XT_ZE_MODULE};
    if (zero->ze.zeDeviceGetModuleProperties(gpu->handle, &module) == XT_ZE_SUCCESS) {
        facts->fp16 = module.flags & XT_ZE_MODULE_FP16;
        facts->fp64 = module.flags & XT_ZE_MODULE_FP64;
    }
    struct xt_ze_pci pci = {.stype = XT_ZE_PCI};
    if (zero->ze.zeDevicePciGetPropertiesExt &&
        zero->ze.zeDevicePciGetPropertiesExt(gpu->handle, &pci) == XT_ZE_SUCCESS)
        facts->pci = (struct xt_pci_address){.known = true,
                                             .domain = pci.address.domain,
                                             .bus = pci.address.bus,
                                             .device = pci.address.device,
                                             .function = pci.address.function};
}

static void list_driver(struct xt_level_zero *zero, xt_ze_handle driver)
{
    struct xt_ze_driver properties = {.stype = XT_ZE_DRIVER};
    xt_ze_handle devices[DEVICES_MAX];
    uint32_t count = DEVICES_MAX;
    if (zero->ze.zeDriverGetProperties(driver, &properties) != XT_ZE_SUCCESS ||
        zero->ze.zeDeviceGet(driver, &count, devices) != XT_ZE_SUCCESS)
        return;
    for (uint32_t i = 0; i < count && zero->count < DEVICES_MAX; i++) {
        struct xt_ze_ip_version ip = {.stype = XT_ZE_IP_VERSION};
        struct xt_ze_device device = {.stype = XT_ZE_DEVICE, .next = &ip};
        if (zero->ze.zeDeviceGetProperties(devices[i], &device) != XT_ZE_SUCCESS ||
            device.type != XT_ZE_TYPE_GPU)
            continue;
        device.name[sizeof device.name - 1] = '\0';
        struct gpu *gpu = &zero->gpus[zero->count++];
        gpu->handle = devices[i];
        read_facts(zero, gpu, properties.version, &device);
        gpu->facts.ip_version = ip.version;
    }
}

/* --- Sysman
 * -------------------------------------------------------------------------------------*/
static bool same_pci(const struct xt_pci_address *a, const struct xt_pci_address *b)
{
    return a->known && b->known && a->domain == b->domain && a->bus == b->bus &&
           a->device == b->device && a->function == b->function;
}

static void match_sysman(struct xt_level_zero *zero, xt_ze_handle device)
{
    struct xt_zes_device properties = {.stype = XT_ZES_DEVICE, .core = {.stype = XT_ZE_DEVICE}};
    struct xt_zes_pci pci = {.stype = XT_ZES_PCI};
    struct xt_uuid uuid = {0};
    struct xt_pci_address address = {0};
    if (zero->ze.zesDeviceGetProperties(device, &properties) == XT_ZE_SUCCESS) {
        uuid.known = true;
        memcpy(uuid.bytes, properties.core.uuid, sizeof uuid.bytes);
    }
    if (zero->ze.zesDevicePciGetProperties(device, &pci) == XT_ZE_SUCCESS)
        address = (struct xt_pci_address){.known = true,
                                          .domain = pci.address.domain,
                                          .bus = pci.address.bus,
                                          .device = pci.address.device,
                                          .function = pci.address.function};
    int index = xt_level_zero_find(zero, &uuid, &address);
    if (index < 0)
        index = xt_level_zero_find(zero, &(struct xt_uuid){0}, &address);
    if (index < 0)
        return;
    zero->gpus[index].sysman = device;
    if (!zero->gpus[index].facts.pci.known)
        zero->gpus[index].facts.pci = address;
}

/* Loaders before 1.10 have no zesInit: there Sysman is switched on by a variable that zeInit looks
 * at, and its devices are the same handles. */
static void start_sysman(struct xt_level_zero *zero)
{
    if (!zero->ze.zesInit || !zero->ze.zesDriverGet || !zero->ze.zesDeviceGet) {
        for (int i = 0; i < zero->count; i++)
            match_sysman(zero, zero->gpus[i].handle);
        return;
    }
    xt_ze_handle drivers[HANDLES_MAX];
    uint32_t count = HANDLES_MAX;
    xt_ze_result result = zero->ze.zesInit(0);
    if (result == XT_ZE_SUCCESS)
        result = zero->ze.zesDriverGet(&count, drivers);
    if (result != XT_ZE_SUCCESS) {
        const char *text = result_text(result);
        snprintf(zero->no_sysman, sizeof zero->no_sysman, "Sysman does not start: %s (0x%x)",
                 text ? text : "error", result);
        return;
    }
    for (uint32_t d = 0; d < count; d++) {
        xt_ze_handle devices[DEVICES_MAX];
        uint32_t found = DEVICES_MAX;
        if (zero->ze.zesDeviceGet(drivers[d], &found, devices) != XT_ZE_SUCCESS)
            continue;
        for (uint32_t i = 0; i < found; i++)
            match_sysman(zero, devices[i]);
    }
}

static enum xt_status start(struct xt_level_zero *zero, struct xt_err *err)
{
    if (!zero->ze.zesInit)
        setenv("ZES_ENABLE_SYSMAN", "1", 0);
    xt_ze_handle drivers[HANDLES_MAX];
    uint32_t count = HANDLES_MAX;
    xt_ze_result result = zero->ze.zeInit(XT_ZE_GPU_ONLY);
    if (result == XT_ZE_UNINITIALIZED)
        return xt_err_set(err, XT_ERR_DEVICE,
                          "Level Zero has no driver for an Intel GPU (zeInit: 0x%x); install "
                          "libze-intel-gpu1 (Debian, Ubuntu) or intel-level-zero (Fedora, RHEL)",
                          result);
    if (result == XT_ZE_SUCCESS)
        result = zero->ze.zeDriverGet(&count, drivers);
    if (result != XT_ZE_SUCCESS)
        return xt_err_set(err, XT_ERR_DEVICE, "the Level Zero driver does not start: %s (0x%x)",
                          result_text(result) ? result_text(result) : "error", result);
    for (uint32_t i = 0; i < count; i++)
        list_driver(zero, drivers[i]);
    start_sysman(zero);
    return XT_OK;
}

/* Whoever leaves Level Zero out of oneDNN's choice may have a reason: its driver is not touched
 * then. */
static bool is_deselected(void)
{
    const char *selector = getenv("ONEAPI_DEVICE_SELECTOR");
    if (!selector || !*selector)
        return false;
    return strstr(selector, "!level_zero") ||
           (!strstr(selector, "level_zero") && !strstr(selector, "*:"));
}

enum xt_status xt_level_zero_open(struct xt_level_zero **out, struct xt_err *err)
{
    *out = NULL;
    struct xt_level_zero *zero = NULL;
    if (is_deselected())
        return xt_err_set(err, XT_ERR_DEVICE,
                          "Level Zero is not asked: ONEAPI_DEVICE_SELECTOR=%s leaves it out",
                          getenv("ONEAPI_DEVICE_SELECTOR"));
    enum xt_status status = xt_mem_calloc(&zero, 1, sizeof *zero, "the Level Zero devices", err);
    if (status)
        return status;
    const char *missing = NULL;
    zero->library = dlopen("libze_loader.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!zero->library)
        status = xt_err_set(err, XT_ERR_DEVICE,
                            "the Level Zero loader (libze_loader.so.1) is not here; install libze1 "
                            "(Debian, Ubuntu) or oneapi-level-zero (Fedora, RHEL)");
    else if (!bind(zero, &missing))
        status = xt_err_set(err, XT_ERR_DEVICE,
                            "the Level Zero loader has no function %s: it is too old", missing);
    else
        status = start(zero, err);
    if (status)
        xt_level_zero_close(zero);
    else
        *out = zero;
    return status;
}

/* The library stays loaded: drivers do not take it well when it goes. */
void xt_level_zero_close(struct xt_level_zero *zero)
{
    free(zero);
}

int xt_level_zero_count(const struct xt_level_zero *zero)
{
    return zero ? zero->count : 0;
}

const struct xt_gpu_facts *xt_level_zero_facts(const struct xt_level_zero *zero, int index)
{
    return &zero->gpus[index].facts;
}

int xt_level_zero_find(const struct xt_level_zero *zero, const struct xt_uuid *uuid,
                       const struct xt_pci_address *pci)
{
    for (int i = 0; zero && i < zero->count; i++) {
        const struct xt_gpu_facts *facts = &zero->gpus[i].facts;
        if (uuid->known ? facts->uuid.known && !memcmp(facts->uuid.bytes, uuid->bytes, 16)
                        : same_pci(&facts->pci, pci))
            return i;
    }
    return -1;
}

int xt_level_zero_find_handle(const struct xt_level_zero *zero, uint64_t handle)
{
    for (int i = 0; zero && i < zero->count; i++)
        if ((uint64_t)(uintptr_t)zero->gpus[i].handle == handle)
            return i;
    return -1;
}

/* --- figures
 * ------------------------------------------------------------------------------------*/
/* The tile that a handle of Sysman's is of; NULL: the whole device. */
static struct xt_tile *tile_of(struct xt_telemetry *out, uint8_t on_subdevice, uint32_t subdevice)
{
    if (!on_subdevice || subdevice >= XT_TILES_MAX)
        return NULL;
    for (; out->tile_count <= (int)subdevice; out->tile_count++)
        out->tiles[out->tile_count] = (struct xt_tile){NAN, NAN, NAN};
    return &out->tiles[subdevice];
}

static void add_to(double *sum, double value)
{
    *sum = isnan(*sum) ? value : *sum + value;
}

static xt_ze_result read_module(const struct xt_level_zero *zero, xt_ze_handle module,
                                struct xt_zes_memory_state *state, struct xt_telemetry *out)
{
    struct xt_zes_memory properties = {.stype = XT_ZES_MEMORY};
    *state = (struct xt_zes_memory_state){.stype = XT_ZES_MEMORY_STATE};
    xt_ze_result result = zero->ze.zesMemoryGetState(module, state);
    if (result != XT_ZE_SUCCESS || state->free_bytes > state->bytes ||
        zero->ze.zesMemoryGetProperties(module, &properties) != XT_ZE_SUCCESS)
        return result;
    struct xt_tile *tile = tile_of(out, properties.on_subdevice, properties.subdevice);
    if (tile) {
        add_to(&tile->memory_total, (double)state->bytes);
        if (state->free_bytes < state->bytes)
            add_to(&tile->memory_used, (double)(state->bytes - state->free_bytes));
    }
    return result;
}

/* Every tile has a module of its own. */
static void read_memory(struct xt_level_zero *zero, struct gpu *gpu, struct xt_telemetry *out)
{
    xt_ze_handle modules[HANDLES_MAX];
    uint32_t count = HANDLES_MAX;
    xt_ze_result result = zero->ze.zesDeviceEnumMemoryModules(gpu->sysman, &count, modules);
    uint64_t free_bytes = 0;
    uint64_t bytes = 0;
    bool odd = false;
    for (uint32_t i = 0; result == XT_ZE_SUCCESS && i < count; i++) {
        struct xt_zes_memory_state state;
        result = read_module(zero, modules[i], &state, out);
        odd |= state.free_bytes > state.bytes || bytes + state.bytes < bytes;
        free_bytes += state.free_bytes;
        bytes += state.bytes;
    }
    if (result == XT_ZE_SUCCESS && bytes == 0)
        result = XT_ZE_UNSUPPORTED;
    if (result != XT_ZE_SUCCESS) {
        unreadable(&out->memory_total, result);
    } else if (odd) {
        impossible(&out->memory_total);
    } else {
        set(&out->memory_total, (double)bytes);
        set(&out->memory_used, (double)(bytes - free_bytes));
        set(&out->memory_free, (double)free_bytes);
    }
    if (!out->memory_total.known)
        out->memory_used = out->memory_total;
    /* i915 says so to whoever may not look at all processes; a GPU that was opened is never empty.
     */
    else if (free_bytes == bytes)
        out->memory_used = (struct xt_reading){
            .why = "the driver says that nothing is used, as it does without CAP_PERFMON"};
    if (!out->memory_used.known)
        out->memory_free = out->memory_used;
}

/* One engine group that is looked at. */
struct engine {
    xt_ze_handle handle;
    struct xt_zes_engine properties;
};

/* All engines together where the driver counts that, else the compute engines; of each tile. */
static xt_ze_result find_engines(struct xt_level_zero *zero, struct gpu *gpu,
                                 struct engine engines[XT_TILES_MAX], int *found)
{
    xt_ze_handle handles[HANDLES_MAX];
    uint32_t count = HANDLES_MAX;
    uint32_t best = XT_ZES_ENGINES_COMPUTE;
    *found = 0;
    xt_ze_result result = zero->ze.zesDeviceEnumEngineGroups(gpu->sysman, &count, handles);
    for (uint32_t i = 0; result == XT_ZE_SUCCESS && i < count; i++) {
        struct engine engine = {handles[i], {.stype = XT_ZES_ENGINE}};
        if (zero->ze.zesEngineGetProperties(handles[i], &engine.properties) != XT_ZE_SUCCESS)
            continue;
        if (engine.properties.group == XT_ZES_ENGINES_ALL && best != XT_ZES_ENGINES_ALL) {
            best = XT_ZES_ENGINES_ALL;
            *found = 0;
        }
        if (engine.properties.group == best && *found < XT_TILES_MAX)
            engines[(*found)++] = engine;
    }
    return result == XT_ZE_SUCCESS && !*found ? XT_ZE_UNSUPPORTED : result;
}

static void first_reading(struct xt_reading *reading)
{
    reading->known = false;
    snprintf(reading->why, sizeof reading->why, "this is the first reading");
}

/* The share of the time since `before`; negative where the figures cannot be. */
static double activity_since(const struct xt_zes_activity *before,
                             const struct xt_zes_activity *now)
{
    uint64_t span = now->timestamp_us - before->timestamp_us;
    uint64_t active = now->active_us - before->active_us;
    if (span == 0 || active > 2 * span)
        return -1;
    return active > span ? 1 : (double)active / (double)span;
}

/* The mean of the tiles. */
static void read_busy(struct xt_level_zero *zero, struct gpu *gpu, struct xt_telemetry *out)
{
    struct engine engines[XT_TILES_MAX];
    int found = 0;
    double sum = 0;
    xt_ze_result result = find_engines(zero, gpu, engines, &found);
    bool same = found == gpu->activity_count;
    bool odd = false;
    for (int i = 0; i < found && result == XT_ZE_SUCCESS; i++) {
        struct xt_zes_activity now = {0};
        result = zero->ze.zesEngineGetActivity(engines[i].handle, &now);
        same = same && gpu->activity[i].engine == engines[i].handle;
        double share = same ? activity_since(&gpu->activity[i].last, &now) : 0;
        struct xt_tile *tile =
            tile_of(out, engines[i].properties.on_subdevice, engines[i].properties.subdevice);
        if (tile && same && share >= 0)
            tile->busy = share;
        odd |= share < 0;
        sum += share;
        gpu->activity[i].engine = engines[i].handle;
        gpu->activity[i].last = now;
    }
    gpu->activity_count = result == XT_ZE_SUCCESS ? found : 0;
    if (result != XT_ZE_SUCCESS)
        unreadable(&out->busy, result);
    else if (!same)
        first_reading(&out->busy);
    else if (odd)
        impossible(&out->busy);
    else
        set(&out->busy, sum / found);
}

static void read_power(struct xt_level_zero *zero, struct gpu *gpu, struct xt_telemetry *out)
{
    xt_ze_handle domains[HANDLES_MAX];
    uint32_t count = HANDLES_MAX;
    struct xt_zes_energy now = {0};
    struct xt_zes_power_limit limit = {0};
    xt_ze_result result = zero->ze.zesDeviceEnumPowerDomains(gpu->sysman, &count, domains);
    if (result == XT_ZE_SUCCESS && count == 0)
        result = XT_ZE_UNSUPPORTED;
    /* The first domain is the whole card. */
    xt_ze_result limit_result = result;
    if (result == XT_ZE_SUCCESS) {
        result = zero->ze.zesPowerGetEnergyCounter(domains[0], &now);
        limit_result = zero->ze.zesPowerGetLimits(domains[0], &limit, NULL, NULL);
    }
    uint64_t span = now.timestamp_us - gpu->energy.timestamp_us;
    if (!gpu->has_energy)
        gpu->first_energy = now;
    if (result != XT_ZE_SUCCESS)
        unreadable(&out->power, result);
    else if (!gpu->has_energy)
        first_reading(&out->power);
    else if (span == 0 || now.microjoules < gpu->energy.microjoules)
        impossible(&out->power);
    else
        set(&out->power, (double)(now.microjoules - gpu->energy.microjoules) / (double)span);
    if (result != XT_ZE_SUCCESS)
        unreadable(&out->energy, result);
    else if (now.microjoules < gpu->first_energy.microjoules)
        impossible(&out->energy);
    else
        set(&out->energy, (double)(now.microjoules - gpu->first_energy.microjoules) / 1e6);
    gpu->has_energy = result == XT_ZE_SUCCESS;
    gpu->energy = now;
    if (limit_result != XT_ZE_SUCCESS)
        unreadable(&out->power_limit, limit_result);
    else
        set(&out->power_limit, limit.milliwatts / 1000.0);
}

static void read_frequency(struct xt_level_zero *zero, struct gpu *gpu, struct xt_telemetry *out)
{
    xt_ze_handle domains[HANDLES_MAX];
    uint32_t count = HANDLES_MAX;
    xt_ze_result result = zero->ze.zesDeviceEnumFrequencyDomains(gpu->sysman, &count, domains);
    double sum = 0;
    int known = 0;
    for (uint32_t i = 0; result == XT_ZE_SUCCESS && i < count; i++) {
        struct xt_zes_frequency properties = {.stype = XT_ZES_FREQUENCY};
        struct xt_zes_frequency_state state = {.stype = XT_ZES_FREQUENCY_STATE};
        if (zero->ze.zesFrequencyGetProperties(domains[i], &properties) != XT_ZE_SUCCESS ||
            properties.domain != XT_ZES_DOMAIN_GPU)
            continue;
        result = zero->ze.zesFrequencyGetState(domains[i], &state);
        /* A negative frequency is the specification's "not known". */
        if (result == XT_ZE_SUCCESS && state.actual_mhz >= 0) {
            sum += state.actual_mhz;
            known++;
        }
    }
    if (known)
        set(&out->frequency, sum / known);
    else
        unreadable(&out->frequency, result == XT_ZE_SUCCESS ? XT_ZE_UNSUPPORTED : result);
}

static void nothing_readable(const char *why, struct xt_telemetry *out)
{
    struct xt_reading none = {.known = false};
    snprintf(none.why, sizeof none.why, "%s", why);
    *out = (struct xt_telemetry){
        .memory_used = none,
        .memory_free = none,
        .memory_total = none,
        .busy = none,
        .power = none,
        .power_limit = none,
        .energy = none,
        .frequency = none,
    };
}

void xt_level_zero_read(struct xt_level_zero *zero, int index, struct xt_telemetry *out)
{
    *out = (struct xt_telemetry){.tile_count = 0};
    if (!zero || index < 0 || index >= zero->count) {
        nothing_readable("no Level Zero device matches", out);
        return;
    }
    struct gpu *gpu = &zero->gpus[index];
    if (!gpu->sysman) {
        nothing_readable(*zero->no_sysman ? zero->no_sysman : "Sysman does not know this device",
                         out);
        return;
    }
    read_memory(zero, gpu, out);
    read_busy(zero, gpu, out);
    read_power(zero, gpu, out);
    read_frequency(zero, gpu, out);
}

enum xt_yes_no xt_level_zero_resizable_bar(struct xt_level_zero *zero, int index, char *why)
{
    struct xt_reading reading = {.why = "no Level Zero device matches"};
    struct xt_zes_bar bars[16] = {0};
    struct xt_zes_bar_1_2 more[16] = {0};
    uint32_t count = 16;
    /* The newer structure is chained to the older one; a driver that knows it overwrites its last
     * two fields. */
    enum { NOT_WRITTEN = 0xff };
    for (int i = 0; i < 16; i++) {
        more[i] =
            (struct xt_zes_bar_1_2){.stype = XT_ZES_BAR_1_2, .resizable_supported = NOT_WRITTEN};
        bars[i] = (struct xt_zes_bar){.stype = XT_ZES_BAR, .next = &more[i]};
    }
    if (zero && index >= 0 && index < zero->count && zero->gpus[index].sysman) {
        xt_ze_result result = zero->ze.zesDevicePciGetBars(zero->gpus[index].sysman, &count, bars);
        if (result == XT_ZE_SUCCESS)
            result = XT_ZE_UNSUPPORTED;
        else
            count = 0;
        unreadable(&reading, result);
    } else {
        count = 0;
        if (zero && *zero->no_sysman)
            snprintf(reading.why, sizeof reading.why, "%s", zero->no_sysman);
    }
    for (uint32_t i = 0; i < count && i < 16; i++)
        if (bars[i].type == XT_ZES_BAR_MEMORY && more[i].resizable_supported != NOT_WRITTEN)
            return more[i].resizable_enabled ? XT_YES : XT_NO;
    if (why)
        memcpy(why, reading.why, sizeof reading.why);
    return XT_NOT_KNOWN;
}
