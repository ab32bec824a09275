/* A test double of a Level Zero driver, loaded by the loader through ZE_ENABLE_ALT_DRIVERS: it
 * answers the discovery and Sysman calls that device/gpu/level_zero.c makes, and nothing else (the
 * tables of ze_tables.c stay empty). XT_ZE_TEST says what it plays:
 *   two       a discrete and an integrated GPU (the default)
 *   one       the discrete one alone
 *   none      a driver without a device
 *   fail      a driver that does not start
 *   crash     one that ends the process
 *   refused   two, whose Sysman gives no permission
 *   odd       two, whose Sysman gives figures that cannot be
 *   tiles     two, of which the discrete one is made of two sub-devices
 */
#include <level_zero/ze_api.h>
#include <level_zero/ze_ddi.h>
#include <level_zero/zes_api.h>
#include <level_zero/zes_ddi.h>

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* A handle of a tile has an index from TILE on. */
enum { DEVICES = 2, TILES = 2, TILE = 100 };
#define GIB (1024ull * 1024 * 1024)

static const struct {
    const char *name;
    uint32_t id;
    uint32_t flags;
    uint32_t slices;
    uint32_t bus;
    uint32_t slot;
    uint64_t memory;
} gpus[DEVICES] = {
    {"Double of an Arc A770", 0x56a0, 0, 8, 3, 0, 16 * GIB},
    {"Double of an integrated GPU", 0x9a49, ZE_DEVICE_PROPERTY_FLAG_INTEGRATED, 1, 0, 2, 24 * GIB},
};
/* What handles point to: the loader may read their first word. */
static struct object {
    void *table;
    int index;
} driver, devices[DEVICES], memories[DEVICES], engines[DEVICES], powers[DEVICES], domains[DEVICES],
    tiles[TILES], tile_memories[TILES], tile_engines[TILES], tile_domains[TILES];

static bool plays(const char *what)
{
    const char *test = getenv("XT_ZE_TEST");
    return test && strcmp(test, what) == 0;
}

static int index_of(const void *handle)
{
    return ((const struct object *)handle)->index;
}

static ze_result_t init(ze_init_flags_t flags)
{
    (void)flags;
    if (plays("crash"))
        abort();
    if (plays("fail"))
        return ZE_RESULT_ERROR_DEPENDENCY_UNAVAILABLE;
    for (int i = 0; i < DEVICES; i++)
        devices[i].index = memories[i].index = engines[i].index = powers[i].index =
            domains[i].index = i;
    for (int i = 0; i < TILES; i++)
        tiles[i].index = tile_memories[i].index = tile_engines[i].index = tile_domains[i].index =
            TILE + i;
    return ZE_RESULT_SUCCESS;
}

/* The two calls of every list: how many, then the handles. */
static ze_result_t give(struct object *first, uint32_t available, uint32_t *count, void *out)
{
    if (*count == 0 || !out) {
        *count = available;
        return ZE_RESULT_SUCCESS;
    }
    if (*count > available)
        *count = available;
    for (uint32_t i = 0; i < *count; i++)
        ((void **)out)[i] = &first[i];
    return ZE_RESULT_SUCCESS;
}

static ze_result_t get_drivers(uint32_t *count, ze_driver_handle_t *out)
{
    return give(&driver, 1, count, out);
}

static ze_result_t get_driver_properties(ze_driver_handle_t handle, ze_driver_properties_t *out)
{
    (void)handle;
    out->driverVersion = 1u << 24 | 3u << 16 | 31294;
    return ZE_RESULT_SUCCESS;
}

static ze_result_t get_devices(ze_driver_handle_t handle, uint32_t *count, ze_device_handle_t *out)
{
    (void)handle;
    return give(devices, plays("none") ? 0 : plays("one") ? 1 : DEVICES, count, out);
}

static void fill_device(int i, ze_device_properties_t *out)
{
    out->type = ZE_DEVICE_TYPE_GPU;
    out->vendorId = 0x8086;
    out->deviceId = gpus[i].id;
    out->flags = gpus[i].flags;
    out->maxMemAllocSize = 4 * GIB;
    out->numSlices = gpus[i].slices;
    out->numSubslicesPerSlice = 4;
    out->numEUsPerSubslice = 16;
    memset(out->uuid.id, 0xa0 + i, sizeof out->uuid.id);
    strcpy(out->name, gpus[i].name);
}

static ze_result_t get_device_properties(ze_device_handle_t handle, ze_device_properties_t *out)
{
    fill_device(index_of(handle), out);
    return ZE_RESULT_SUCCESS;
}

static bool has_tiles(const void *handle)
{
    return plays("tiles") && index_of(handle) == 0;
}

static ze_result_t get_sub_devices(ze_device_handle_t handle, uint32_t *count,
                                   ze_device_handle_t *out)
{
    if (has_tiles(handle))
        return give(tiles, TILES, count, out);
    *count = 0;
    return ZE_RESULT_SUCCESS;
}

static ze_result_t get_memory_properties(ze_device_handle_t handle, uint32_t *count,
                                         ze_device_memory_properties_t *out)
{
    if (out && *count)
        out->totalSize = gpus[index_of(handle)].memory;
    *count = 1;
    return ZE_RESULT_SUCCESS;
}

static ze_result_t get_module_properties(ze_device_handle_t handle,
                                         ze_device_module_properties_t *out)
{
    (void)handle;
    out->flags = ZE_DEVICE_MODULE_FLAG_FP16;
    return ZE_RESULT_SUCCESS;
}

static ze_result_t get_pci(ze_device_handle_t handle, ze_pci_ext_properties_t *out)
{
    int i = index_of(handle);
    out->address = (ze_pci_address_ext_t){.bus = gpus[i].bus, .device = gpus[i].slot};
    return ZE_RESULT_SUCCESS;
}

/* --- Sysman
 * -------------------------------------------------------------------------------------*/
static ze_result_t refused(void)
{
    return plays("refused") ? ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS : ZE_RESULT_SUCCESS;
}

static ze_result_t sysman_properties(zes_device_handle_t handle, zes_device_properties_t *out)
{
    fill_device(index_of(handle), &out->core);
    return ZE_RESULT_SUCCESS;
}

static ze_result_t sysman_pci(zes_device_handle_t handle, zes_pci_properties_t *out)
{
    int i = index_of(handle);
    out->address = (zes_pci_address_t){.bus = gpus[i].bus, .device = gpus[i].slot};
    return ZE_RESULT_SUCCESS;
}

static ze_result_t sysman_bars(zes_device_handle_t handle, uint32_t *count,
                               zes_pci_bar_properties_t *out)
{
    *count = 1;
    if (out) {
        out->type = ZES_PCI_BAR_TYPE_MEM;
        zes_pci_bar_properties_1_2_t *more = out->pNext;
        if (more) {
            more->resizableBarSupported = true;
            more->resizableBarEnabled = index_of(handle) == 0;
        }
    }
    return refused();
}

static ze_result_t enum_memory(zes_device_handle_t handle, uint32_t *count, zes_mem_handle_t *out)
{
    if (has_tiles(handle))
        return give(tile_memories, TILES, count, out);
    return refused() ? refused() : give(&memories[index_of(handle)], 1, count, out);
}

static ze_result_t memory_properties(zes_mem_handle_t handle, zes_mem_properties_t *out)
{
    out->onSubdevice = index_of(handle) >= TILE;
    out->subdeviceId = out->onSubdevice ? (uint32_t)(index_of(handle) - TILE) : 0;
    return ZE_RESULT_SUCCESS;
}

static ze_result_t memory_state(zes_mem_handle_t handle, zes_mem_state_t *out)
{
    int i = index_of(handle);
    if (i >= TILE) { /* of 8 GiB each tile has another part in use */
        out->size = 8 * GIB;
        out->free = (7 - (uint64_t)(i - TILE)) * GIB;
        return ZE_RESULT_SUCCESS;
    }
    out->size = gpus[i].memory;
    out->free = plays("odd")            ? 2 * gpus[i].memory
                : plays("unprivileged") ? gpus[i].memory
                                        : gpus[i].memory - 3 * GIB;
    return ZE_RESULT_SUCCESS;
}

static ze_result_t enum_engines(zes_device_handle_t handle, uint32_t *count,
                                zes_engine_handle_t *out)
{
    if (has_tiles(handle))
        return give(tile_engines, TILES, count, out);
    return refused() ? refused() : give(&engines[index_of(handle)], 1, count, out);
}

static ze_result_t engine_properties(zes_engine_handle_t handle, zes_engine_properties_t *out)
{
    out->onSubdevice = index_of(handle) >= TILE;
    out->subdeviceId = out->onSubdevice ? (uint32_t)(index_of(handle) - TILE) : 0;
    out->type = ZES_ENGINE_GROUP_COMPUTE_ALL;
    return ZE_RESULT_SUCCESS;
}

/* Between one reading and the next a second passes, a quarter of it busy, 50 J. */
static ze_result_t engine_activity(zes_engine_handle_t handle, zes_engine_stats_t *out)
{
    static uint64_t readings;
    if (index_of(handle) >= TILE) { /* the second tile is busy twice as long */
        static uint64_t of_tile[TILES];
        uint64_t tile = (uint64_t)(index_of(handle) - TILE);
        of_tile[tile]++;
        out->timestamp = of_tile[tile] * 1000000;
        out->activeTime = of_tile[tile] * 300000 * (tile + 1);
        return ZE_RESULT_SUCCESS;
    }
    readings++;
    out->timestamp = readings * 1000000;
    out->activeTime = plays("odd") ? 5000000 / readings : readings * 250000;
    return ZE_RESULT_SUCCESS;
}

static ze_result_t enum_power(zes_device_handle_t handle, uint32_t *count, zes_pwr_handle_t *out)
{
    return refused() ? refused() : give(&powers[index_of(handle)], 1, count, out);
}

static ze_result_t power_energy(zes_pwr_handle_t handle, zes_power_energy_counter_t *out)
{
    static uint64_t readings;
    (void)handle;
    readings++;
    out->timestamp = readings * 1000000;
    out->energy = readings * 50000000;
    return ZE_RESULT_SUCCESS;
}

static ze_result_t power_limits(zes_pwr_handle_t handle, zes_power_sustained_limit_t *sustained,
                                zes_power_burst_limit_t *burst, zes_power_peak_limit_t *peak)
{
    (void)handle;
    (void)burst;
    (void)peak;
    *sustained = (zes_power_sustained_limit_t){.enabled = true, .power = 190000};
    return ZE_RESULT_SUCCESS;
}

static ze_result_t enum_domains(zes_device_handle_t handle, uint32_t *count, zes_freq_handle_t *out)
{
    if (has_tiles(handle))
        return give(tile_domains, TILES, count, out);
    return refused() ? refused() : give(&domains[index_of(handle)], 1, count, out);
}

static ze_result_t domain_properties(zes_freq_handle_t handle, zes_freq_properties_t *out)
{
    (void)handle;
    out->type = ZES_FREQ_DOMAIN_GPU;
    return ZE_RESULT_SUCCESS;
}

static ze_result_t domain_state(zes_freq_handle_t handle, zes_freq_state_t *out)
{
    out->actual = plays("odd") ? -1 : index_of(handle) == TILE + 1 ? 1900 : 2100;
    return ZE_RESULT_SUCCESS;
}

/* --- the tables
 * ---------------------------------------------------------------------------------*/
ze_result_t zeGetGlobalProcAddrTable(ze_api_version_t version, ze_global_dditable_t *table)
{
    (void)version;
    table->pfnInit = init;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zeGetDriverProcAddrTable(ze_api_version_t version, ze_driver_dditable_t *table)
{
    (void)version;
    table->pfnGet = get_drivers;
    table->pfnGetProperties = get_driver_properties;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zeGetDeviceProcAddrTable(ze_api_version_t version, ze_device_dditable_t *table)
{
    (void)version;
    table->pfnGet = get_devices;
    table->pfnGetProperties = get_device_properties;
    table->pfnGetMemoryProperties = get_memory_properties;
    table->pfnGetModuleProperties = get_module_properties;
    table->pfnPciGetPropertiesExt = get_pci;
    table->pfnGetSubDevices = get_sub_devices;
    return ZE_RESULT_SUCCESS;
}

#ifdef HAVE_ZES_INIT
static ze_result_t sysman_init(zes_init_flags_t flags)
{
    return init(flags);
}

static ze_result_t sysman_drivers(uint32_t *count, zes_driver_handle_t *out)
{
    return give(&driver, 1, count, out);
}

static ze_result_t sysman_devices(zes_driver_handle_t handle, uint32_t *count,
                                  zes_device_handle_t *out)
{
    (void)handle;
    return give(devices, DEVICES, count, out);
}

ze_result_t zesGetGlobalProcAddrTable(ze_api_version_t version, zes_global_dditable_t *table)
{
    (void)version;
    table->pfnInit = sysman_init;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zesGetDriverProcAddrTable(ze_api_version_t version, zes_driver_dditable_t *table)
{
    (void)version;
    table->pfnGet = sysman_drivers;
    return ZE_RESULT_SUCCESS;
}
#endif

ze_result_t zesGetDeviceProcAddrTable(ze_api_version_t version, zes_device_dditable_t *table)
{
    (void)version;
#ifdef HAVE_ZES_INIT
    table->pfnGet = sysman_devices;
#endif
    table->pfnGetProperties = sysman_properties;
    table->pfnPciGetProperties = sysman_pci;
    table->pfnPciGetBars = sysman_bars;
    table->pfnEnumMemoryModules = enum_memory;
    table->pfnEnumEngineGroups = enum_engines;
    table->pfnEnumPowerDomains = enum_power;
    table->pfnEnumFrequencyDomains = enum_domains;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zesGetMemoryProcAddrTable(ze_api_version_t version, zes_memory_dditable_t *table)
{
    (void)version;
    table->pfnGetState = memory_state;
    table->pfnGetProperties = memory_properties;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zesGetEngineProcAddrTable(ze_api_version_t version, zes_engine_dditable_t *table)
{
    (void)version;
    table->pfnGetProperties = engine_properties;
    table->pfnGetActivity = engine_activity;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zesGetPowerProcAddrTable(ze_api_version_t version, zes_power_dditable_t *table)
{
    (void)version;
    table->pfnGetEnergyCounter = power_energy;
    table->pfnGetLimits = power_limits;
    return ZE_RESULT_SUCCESS;
}

ze_result_t zesGetFrequencyProcAddrTable(ze_api_version_t version, zes_frequency_dditable_t *table)
{
    (void)version;
    table->pfnGetProperties = domain_properties;
    table->pfnGetState = domain_state;
    return ZE_RESULT_SUCCESS;
}
