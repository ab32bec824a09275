#include "device/gpu/level_zero.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <level_zero/ze_api.h>
#include <level_zero/zes_api.h>

#include "base/mem.h"

/* ze_device_ip_version_ext_t, which the headers of Debian 12 do not have. */
struct ip_version {
    uint32_t stype;
    const void *next;
    uint32_t version;
};
enum { STRUCTURE_IP_VERSION = 0x1000f };

/* The loader's functions that are used, and whether every loader has them. */
#define FUNCTIONS(X)                                                                               \
    X(zeInit, true)                                                                                \
    X(zeDriverGet, true)                                                                           \
    X(zeDriverGetProperties, true)                                                                 \
    X(zeDeviceGet, true)                                                                           \
    X(zeDeviceGetProperties, true)                                                                 \
    X(zeDeviceGetMemoryProperties, true)                                                           \
    X(zeDeviceGetModuleProperties, true)                                                           \
    X(zeDevicePciGetPropertiesExt, false)                                                          \
    X(zeDeviceGetSubDevices, false)                                                                \
    X(zesDeviceGetProperties, true)                                                                \
    X(zesDevicePciGetProperties, true)                                                             \
    X(zesDevicePciGetBars, true)                                                                   \
    X(zesDeviceEnumMemoryModules, true)                                                            \
    X(zesMemoryGetProperties, true)                                                                \
    X(zesMemoryGetState, true)                                                                     \
    X(zesDeviceEnumEngineGroups, true)                                                             \
    X(zesEngineGetProperties, true)                                                                \
    X(zesEngineGetActivity, true)                                                                  \
    X(zesDeviceEnumPowerDomains, true)                                                             \
    X(zesPowerGetEnergyCounter, true)                                                              \
    X(zesPowerGetLimits, true)                                                                     \
    X(zesDeviceEnumFrequencyDomains, true)                                                         \
    X(zesFrequencyGetProperties, true)                                                             \
    X(zesFrequencyGetState, true)

/* NULL: this loader lacks it. */
struct functions {
#define MEMBER(name, needed) __typeof__(name) *name;
    FUNCTIONS(MEMBER)
#undef MEMBER
    /* Sysman's initialisation, missing in these headers too; it uses the core's types. */
    __typeof__(zeInit) *zesInit;
    __typeof__(zeDriverGet) *zesDriverGet;
    __typeof__(zeDeviceGet) *zesDeviceGet;
};

enum { DEVICES_MAX = 32, HANDLES_MAX = 32 };

struct gpu {
    ze_device_handle_t handle;
    zes_device_handle_t sysman; /* NULL: none */
    struct xt_gpu_facts facts;
    struct { /* the last reading of each monitored engine */
        zes_engine_handle_t engine;
        zes_engine_stats_t last;
    } activity[XT_TILES_MAX];
    int activity_count;
    bool has_energy;
    zes_power_energy_counter_t energy, first_energy;
};

struct xt_level_zero {
    struct functions ze;
    struct gpu gpus[DEVICES_MAX];
    int count;
    char no_sysman[96]; /* why there is none; "" if there is */
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

/* The meaning of a result, for "not readable: ..."; "error" for rare ones. */
static const char *result_text(ze_result_t result)
{
    switch ((uint32_t)result) {
    case ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS:
        return "no permission";
    case ZE_RESULT_ERROR_NOT_AVAILABLE:
        return "not available now";
    case ZE_RESULT_ERROR_DEPENDENCY_UNAVAILABLE:
        return "the driver misses a library";
    case ZE_RESULT_ERROR_UNINITIALIZED:
        return "Sysman is not started";
    case ZE_RESULT_ERROR_UNSUPPORTED_FEATURE:
        return "not supported by this driver";
    default:
        return "error";
    }
}

/* Converts a result of the driver to a reading; `possible`: whether its figures are plausible. */
static struct xt_reading answer(ze_result_t result, bool possible, double value)
{
    struct xt_reading reading = {.known = false};
    const char *text = result_text(result);
    if (result == ZE_RESULT_SUCCESS && possible)
        reading = (struct xt_reading){.known = true, .value = value, .source = "sysman"};
    else if (result == ZE_RESULT_SUCCESS)
        snprintf(reading.why, sizeof reading.why, "the driver's figures cannot be");
    else if (strcmp(text, "error") != 0)
        snprintf(reading.why, sizeof reading.why, "%s", text);
    else
        snprintf(reading.why, sizeof reading.why, "Level Zero error 0x%x", (unsigned)result);
    return reading;
}

/* --- the loader
 * ---------------------------------------------------------------------------------*/
/* False if the loader lacks a required function: `*missing`. */
static bool bind(struct functions *ze, void *library, const char **missing)
{
    static const struct {
        const char *name;
        size_t at;
        bool needed;
    } all[] = {
#define ROW(name, needed) {#name, offsetof(struct functions, name), needed},
        FUNCTIONS(ROW) ROW(zesInit, false) ROW(zesDriverGet, false) ROW(zesDeviceGet, false)
#undef ROW
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        void *found = dlsym(library, all[i].name);
        memcpy((char *)ze + all[i].at, &found, sizeof found);
        *missing = all[i].name;
        if (!found && all[i].needed)
            return false;
    }
    return true;
}

/* --- devices
 * ------------------------------------------------------------------------------------*/
/* The core's and Sysman's addresses are two types with the same fields. */
#define PCI_ADDRESS(of)                                                                            \
    (struct xt_pci_address)                                                                        \
    {                                                                                              \
        .known = true, .domain = (of).domain, .bus = (of).bus, .device = (of).device,              \
        .function = (of).function                                                                  \
    }

static void read_facts(const struct xt_level_zero *zero, struct gpu *gpu, uint32_t driver,
                       const ze_device_properties_t *device)
{
    enum { MODULES = 8 };
    struct xt_gpu_facts *facts = &gpu->facts;
    ze_device_memory_properties_t memory[MODULES] = {0};
    ze_device_module_properties_t module = {.stype = ZE_STRUCTURE_TYPE_DEVICE_MODULE_PROPERTIES};
    ze_pci_ext_properties_t pci = {.stype = ZE_STRUCTURE_TYPE_PCI_EXT_PROPERTIES};
    uint32_t count = MODULES;
    uint32_t tiles = 0;
    snprintf(facts->name, sizeof facts->name, "%.127s", device->name);
    /* The version as packed by Intel's driver; it is also that of its packages. */
    snprintf(facts->driver, sizeof facts->driver, "%u.%u.%u", driver >> 24, driver >> 16 & 0xff,
             driver & 0xffff);
    facts->uuid.known = true;
    memcpy(facts->uuid.bytes, device->uuid.id, sizeof facts->uuid.bytes);
    facts->vendor = device->vendorId;
    facts->device_id = device->deviceId;
    facts->units =
        (int)(device->numEUsPerSubslice * device->numSubslicesPerSlice * device->numSlices);
    facts->integrated = device->flags & ZE_DEVICE_PROPERTY_FLAG_INTEGRATED;
    facts->allocation_max = device->maxMemAllocSize;
    for (int i = 0; i < MODULES; i++)
        memory[i].stype = ZE_STRUCTURE_TYPE_DEVICE_MEMORY_PROPERTIES;
    if (zero->ze.zeDeviceGetMemoryProperties(gpu->handle, &count, memory) == ZE_RESULT_SUCCESS)
        for (uint32_t i = 0; i < count && i < MODULES; i++)
            facts->memory += memory[i].totalSize;
    if (zero->ze.zeDeviceGetSubDevices &&
        zero->ze.zeDeviceGetSubDevices(gpu->handle, &tiles, NULL) == ZE_RESULT_SUCCESS)
        facts->tiles = tiles <= XT_TILES_MAX ? (int)tiles : XT_TILES_MAX;
    if (zero->ze.zeDeviceGetModuleProperties(gpu->handle, &module) == ZE_RESULT_SUCCESS) {
        facts->fp16 = module.flags & ZE_DEVICE_MODULE_FLAG_FP16;
        facts->fp64 = module.flags & ZE_DEVICE_MODULE_FLAG_FP64;
    }
    if (zero->ze.zeDevicePciGetPropertiesExt &&
        zero->ze.zeDevicePciGetPropertiesExt(gpu->handle, &pci) == ZE_RESULT_SUCCESS)
        facts->pci = PCI_ADDRESS(pci.address);
}

static void list_driver(struct xt_level_zero *zero, ze_driver_handle_t driver)
{
    ze_driver_properties_t properties = {.stype = ZE_STRUCTURE_TYPE_DRIVER_PROPERTIES};
    ze_device_handle_t devices[DEVICES_MAX];
    uint32_t count = DEVICES_MAX;
    if (zero->ze.zeDriverGetProperties(driver, &properties) != ZE_RESULT_SUCCESS ||
        zero->ze.zeDeviceGet(driver, &count, devices) != ZE_RESULT_SUCCESS)
        return;
    for (uint32_t i = 0; i < count && zero->count < DEVICES_MAX; i++) {
        struct ip_version ip = {.stype = STRUCTURE_IP_VERSION};
        ze_device_properties_t device = {.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES,
                                         .pNext = &ip};
        if (zero->ze.zeDeviceGetProperties(devices[i], &device) != ZE_RESULT_SUCCESS ||
            device.type != ZE_DEVICE_TYPE_GPU)
            continue;
        device.name[sizeof device.name - 1] = '\0';
        struct gpu *gpu = &zero->gpus[zero->count++];
        gpu->handle = devices[i];
        read_facts(zero, gpu, properties.driverVersion, &device);
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

static void match_sysman(struct xt_level_zero *zero, zes_device_handle_t device)
{
    zes_device_properties_t properties = {.stype = ZES_STRUCTURE_TYPE_DEVICE_PROPERTIES,
                                          .core = {.stype = ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES}};
    zes_pci_properties_t pci = {.stype = ZES_STRUCTURE_TYPE_PCI_PROPERTIES};
    struct xt_uuid uuid = {0};
    struct xt_pci_address address = {0};
    if (zero->ze.zesDeviceGetProperties(device, &properties) == ZE_RESULT_SUCCESS) {
        uuid.known = true;
        memcpy(uuid.bytes, properties.core.uuid.id, sizeof uuid.bytes);
    }
    if (zero->ze.zesDevicePciGetProperties(device, &pci) == ZE_RESULT_SUCCESS)
        address = PCI_ADDRESS(pci.address);
    int index = xt_level_zero_find(zero, &uuid, &address);
    if (index < 0)
        index = xt_level_zero_find(zero, &(struct xt_uuid){0}, &address);
    if (index < 0)
        return;
    zero->gpus[index].sysman = device;
    if (!zero->gpus[index].facts.pci.known)
        zero->gpus[index].facts.pci = address;
}

/* Loaders before 1.10 have no zesInit: there Sysman is enabled by a variable that zeInit reads, and
 * its devices have the same handles. */
static void start_sysman(struct xt_level_zero *zero)
{
    if (!zero->ze.zesInit || !zero->ze.zesDriverGet || !zero->ze.zesDeviceGet) {
        for (int i = 0; i < zero->count; i++)
            match_sysman(zero, (zes_device_handle_t)zero->gpus[i].handle);
        return;
    }
    zes_driver_handle_t drivers[HANDLES_MAX];
    uint32_t count = HANDLES_MAX;
    ze_result_t result = zero->ze.zesInit(0);
    if (result == ZE_RESULT_SUCCESS)
        result = zero->ze.zesDriverGet(&count, drivers);
    if (result != ZE_RESULT_SUCCESS) {
        snprintf(zero->no_sysman, sizeof zero->no_sysman, "Sysman does not start: %s (0x%x)",
                 result_text(result), (unsigned)result);
        return;
    }
    for (uint32_t d = 0; d < count; d++) {
        zes_device_handle_t devices[DEVICES_MAX];
        uint32_t found = DEVICES_MAX;
        if (zero->ze.zesDeviceGet(drivers[d], &found, devices) != ZE_RESULT_SUCCESS)
            continue;
        for (uint32_t i = 0; i < found; i++)
            match_sysman(zero, devices[i]);
    }
}

static enum xt_status start(struct xt_level_zero *zero, struct xt_err *err)
{
    if (!zero->ze.zesInit)
        setenv("ZES_ENABLE_SYSMAN", "1", 0);
    ze_driver_handle_t drivers[HANDLES_MAX];
    uint32_t count = HANDLES_MAX;
    ze_result_t result = zero->ze.zeInit(ZE_INIT_FLAG_GPU_ONLY);
    if (result == ZE_RESULT_ERROR_UNINITIALIZED)
        return xt_err_set(err, XT_ERR_DEVICE,
                          "Level Zero has no driver for an Intel GPU (zeInit: 0x%x); install "
                          "libze-intel-gpu1 (Ubuntu, Debian from 14 on) or intel-level-zero "
                          "(Fedora, RHEL); docs/xpu.md has others",
                          (unsigned)result);
    if (result == ZE_RESULT_SUCCESS)
        result = zero->ze.zeDriverGet(&count, drivers);
    if (result != ZE_RESULT_SUCCESS)
        return xt_err_set(err, XT_ERR_DEVICE, "the Level Zero driver does not start: %s (0x%x)",
                          result_text(result), (unsigned)result);
    for (uint32_t i = 0; i < count; i++)
        list_driver(zero, drivers[i]);
    start_sysman(zero);
    return XT_OK;
}

/* A user who excludes Level Zero from oneDNN's choice may have a reason: its driver is not touched
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
    void *library = dlopen("libze_loader.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        status = xt_err_set(err, XT_ERR_DEVICE,
                            "the Level Zero loader (libze_loader.so.1) is not here; install libze1 "
                            "(Debian, Ubuntu) or oneapi-level-zero (Fedora, RHEL)");
    else if (!bind(&zero->ze, library, &missing))
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

/* The library stays loaded: drivers may crash when it is unloaded. */
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
/* The tile of a Sysman handle; NULL: the whole device. */
static struct xt_tile *tile_of(struct xt_telemetry *out, ze_bool_t on_subdevice, uint32_t subdevice)
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

static ze_result_t read_module(const struct xt_level_zero *zero, zes_mem_handle_t module,
                               zes_mem_state_t *state, struct xt_telemetry *out)
{
    zes_mem_properties_t properties = {.stype = ZES_STRUCTURE_TYPE_MEM_PROPERTIES};
    *state = (zes_mem_state_t){.stype = ZES_STRUCTURE_TYPE_MEM_STATE};
    ze_result_t result = zero->ze.zesMemoryGetState(module, state);
    if (result != ZE_RESULT_SUCCESS || state->free > state->size ||
        zero->ze.zesMemoryGetProperties(module, &properties) != ZE_RESULT_SUCCESS)
        return result;
    struct xt_tile *tile = tile_of(out, properties.onSubdevice, properties.subdeviceId);
    if (tile) {
        add_to(&tile->memory_total, (double)state->size);
        if (state->free < state->size)
            add_to(&tile->memory_used, (double)(state->size - state->free));
    }
    return result;
}

/* Every tile has its own module. */
static void read_memory(struct xt_level_zero *zero, struct gpu *gpu, struct xt_telemetry *out)
{
    zes_mem_handle_t modules[HANDLES_MAX];
    uint32_t count = HANDLES_MAX;
    ze_result_t result = zero->ze.zesDeviceEnumMemoryModules(gpu->sysman, &count, modules);
    uint64_t unused = 0;
    uint64_t size = 0;
    bool odd = false;
    for (uint32_t i = 0; result == ZE_RESULT_SUCCESS && i < count; i++) {
        zes_mem_state_t state;
        result = read_module(zero, modules[i], &state, out);
        odd |= state.free > state.size || size + state.size < size;
        unused += state.free;
        size += state.size;
    }
    if (result == ZE_RESULT_SUCCESS && size == 0)
        result = ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
    out->memory_total = answer(result, !odd, (double)size);
    out->memory_used = answer(result, !odd, (double)(size - unused));
    /* i915 reports zero to users who may not see all processes; a GPU that was opened always uses
     * some. */
    if (out->memory_used.known && unused == size)
        out->memory_used = (struct xt_reading){
            .why = "the driver reports no memory in use, as it does without CAP_PERFMON"};
    out->memory_free =
        out->memory_used.known ? answer(result, true, (double)unused) : out->memory_used;
}

/* A monitored engine group. */
struct engine {
    zes_engine_handle_t handle;
    zes_engine_properties_t properties;
};

/* All engines together if the driver counts that, else the compute engines; per tile. */
static ze_result_t find_engines(struct xt_level_zero *zero, struct gpu *gpu,
                                struct engine engines[XT_TILES_MAX], int *found)
{
    static const zes_engine_group_t groups[] = {ZES_ENGINE_GROUP_ALL, ZES_ENGINE_GROUP_COMPUTE_ALL};
    zes_engine_handle_t handles[HANDLES_MAX];
    uint32_t count = HANDLES_MAX;
    *found = 0;
    ze_result_t result = zero->ze.zesDeviceEnumEngineGroups(gpu->sysman, &count, handles);
    if (result != ZE_RESULT_SUCCESS)
        return result;
    for (int g = 0; g < 2 && !*found; g++)
        for (uint32_t i = 0; i < count && *found < XT_TILES_MAX; i++) {
            struct engine engine = {handles[i], {.stype = ZES_STRUCTURE_TYPE_ENGINE_PROPERTIES}};
            if (!zero->ze.zesEngineGetProperties(handles[i], &engine.properties) &&
                engine.properties.type == groups[g])
                engines[(*found)++] = engine;
        }
    return *found ? result : ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
}

static const struct xt_reading first_reading = {.why = "this is the first reading"};

/* The share of the time since `before`; negative if the figures are implausible. */
static double activity_since(const zes_engine_stats_t *before, const zes_engine_stats_t *now)
{
    uint64_t span = now->timestamp - before->timestamp;
    uint64_t active = now->activeTime - before->activeTime;
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
    ze_result_t result = find_engines(zero, gpu, engines, &found);
    bool same = found == gpu->activity_count;
    bool odd = false;
    for (int i = 0; i < found && result == ZE_RESULT_SUCCESS; i++) {
        zes_engine_stats_t now = {0};
        result = zero->ze.zesEngineGetActivity(engines[i].handle, &now);
        same = same && gpu->activity[i].engine == engines[i].handle;
        double share = same ? activity_since(&gpu->activity[i].last, &now) : 0;
        struct xt_tile *tile =
            tile_of(out, engines[i].properties.onSubdevice, engines[i].properties.subdeviceId);
        if (tile && same && share >= 0)
            tile->busy = share;
        odd |= share < 0;
        sum += share;
        gpu->activity[i].engine = engines[i].handle;
        gpu->activity[i].last = now;
    }
    gpu->activity_count = result == ZE_RESULT_SUCCESS ? found : 0;
    out->busy =
        result == ZE_RESULT_SUCCESS && !same ? first_reading : answer(result, !odd, sum / found);
}

/* The first domain is the whole card. */
static void read_power(struct xt_level_zero *zero, struct gpu *gpu, struct xt_telemetry *out)
{
    zes_pwr_handle_t domains[HANDLES_MAX];
    uint32_t count = HANDLES_MAX;
    zes_power_energy_counter_t now = {0};
    zes_power_sustained_limit_t limit = {0};
    ze_result_t result = zero->ze.zesDeviceEnumPowerDomains(gpu->sysman, &count, domains);
    if (result == ZE_RESULT_SUCCESS && count == 0)
        result = ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
    ze_result_t limit_result = result;
    if (result == ZE_RESULT_SUCCESS) {
        result = zero->ze.zesPowerGetEnergyCounter(domains[0], &now);
        limit_result = zero->ze.zesPowerGetLimits(domains[0], &limit, NULL, NULL);
    }
    if (!gpu->has_energy)
        gpu->first_energy = now;
    /* Microjoules in microseconds. */
    uint64_t span = now.timestamp - gpu->energy.timestamp;
    out->power = answer(result, span > 0 && now.energy >= gpu->energy.energy,
                        (double)(now.energy - gpu->energy.energy) / (double)span);
    if (result == ZE_RESULT_SUCCESS && !gpu->has_energy)
        out->power = first_reading;
    out->energy = answer(result, now.energy >= gpu->first_energy.energy,
                         (double)(now.energy - gpu->first_energy.energy) / 1e6);
    out->power_limit = answer(limit_result, true, limit.power / 1000.0);
    gpu->has_energy = result == ZE_RESULT_SUCCESS;
    gpu->energy = now;
}

static void read_frequency(struct xt_level_zero *zero, struct gpu *gpu, struct xt_telemetry *out)
{
    zes_freq_handle_t domains[HANDLES_MAX];
    uint32_t count = HANDLES_MAX;
    ze_result_t result = zero->ze.zesDeviceEnumFrequencyDomains(gpu->sysman, &count, domains);
    double sum = 0;
    int known = 0;
    for (uint32_t i = 0; result == ZE_RESULT_SUCCESS && i < count; i++) {
        zes_freq_properties_t properties = {.stype = ZES_STRUCTURE_TYPE_FREQ_PROPERTIES};
        zes_freq_state_t state = {.stype = ZES_STRUCTURE_TYPE_FREQ_STATE};
        if (zero->ze.zesFrequencyGetProperties(domains[i], &properties) != ZE_RESULT_SUCCESS ||
            properties.type != ZES_FREQ_DOMAIN_GPU)
            continue;
        result = zero->ze.zesFrequencyGetState(domains[i], &state);
        /* A negative frequency means unknown in the specification. */
        if (result == ZE_RESULT_SUCCESS && state.actual >= 0) {
            sum += state.actual;
            known++;
        }
    }
    if (known)
        result = ZE_RESULT_SUCCESS;
    else if (result == ZE_RESULT_SUCCESS)
        result = ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
    out->frequency = answer(result, true, sum / known);
}

/* Why Sysman has no data for a device; NULL if it has. */
static const char *no_sysman(const struct xt_level_zero *zero, int index)
{
    if (!zero || index < 0 || index >= zero->count)
        return "no Level Zero device matches";
    if (zero->gpus[index].sysman)
        return NULL;
    return *zero->no_sysman ? zero->no_sysman : "Sysman does not know this device";
}

void xt_level_zero_read(struct xt_level_zero *zero, int index, struct xt_telemetry *out)
{
    const char *why = no_sysman(zero, index);
    struct xt_reading none = {.known = false};
    snprintf(none.why, sizeof none.why, "%s", why ? why : "");
    *out = (struct xt_telemetry){.memory_used = none,
                                 .memory_free = none,
                                 .memory_total = none,
                                 .busy = none,
                                 .power = none,
                                 .power_limit = none,
                                 .energy = none,
                                 .frequency = none};
    if (why)
        return;
    struct gpu *gpu = &zero->gpus[index];
    read_memory(zero, gpu, out);
    read_busy(zero, gpu, out);
    read_power(zero, gpu, out);
    read_frequency(zero, gpu, out);
}

enum xt_yes_no xt_level_zero_resizable_bar(struct xt_level_zero *zero, int index, char *why)
{
    enum { BARS = 16, NOT_WRITTEN = 0xff };
    zes_pci_bar_properties_t bars[BARS] = {0};
    zes_pci_bar_properties_1_2_t more[BARS] = {0};
    uint32_t count = BARS;
    const char *none = no_sysman(zero, index);
    ze_result_t result = ZE_RESULT_SUCCESS;
    /* The newer structure is chained to the older one; a driver that supports it overwrites its
     * last two fields. */
    for (int i = 0; i < BARS; i++) {
        more[i].stype = ZES_STRUCTURE_TYPE_PCI_BAR_PROPERTIES_1_2;
        more[i].resizableBarSupported = NOT_WRITTEN;
        bars[i] = (zes_pci_bar_properties_t){.stype = ZES_STRUCTURE_TYPE_PCI_BAR_PROPERTIES,
                                             .pNext = &more[i]};
    }
    if (!none)
        result = zero->ze.zesDevicePciGetBars(zero->gpus[index].sysman, &count, bars);
    for (uint32_t i = 0; !none && !result && i < count && i < BARS; i++)
        if (bars[i].type == ZES_PCI_BAR_TYPE_MEM && more[i].resizableBarSupported != NOT_WRITTEN)
            return more[i].resizableBarEnabled ? XT_YES : XT_NO;
    if (result == ZE_RESULT_SUCCESS)
        result = ZE_RESULT_ERROR_UNSUPPORTED_FEATURE;
    if (why)
        snprintf(why, sizeof((struct xt_reading *)0)->why, "%s",
                 none ? none : answer(result, true, 0).why);
    return XT_NOT_KNOWN;
}
