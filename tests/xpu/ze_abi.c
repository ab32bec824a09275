/* Holds device/gpu/ze_abi.h against the official headers: sizes, offsets, constants. */
#include <stddef.h>

#include <level_zero/ze_api.h>
#include <level_zero/zes_api.h>

#include "device/gpu/ze_abi.h"

#define SIZE(ours, theirs) _Static_assert(sizeof(struct ours) == sizeof(theirs), #theirs)
#define FIELD(ours, field, theirs, official)                                                       \
    _Static_assert(offsetof(struct ours, field) == offsetof(theirs, official) &&                   \
                       sizeof(((struct ours *)0)->field) == sizeof(((theirs *)0)->official),       \
                   #theirs "." #official)
#define VALUE(ours, theirs) _Static_assert((unsigned)(ours) == (unsigned)(theirs), #theirs)

SIZE(xt_ze_driver, ze_driver_properties_t);
FIELD(xt_ze_driver, version, ze_driver_properties_t, driverVersion);
SIZE(xt_ze_device, ze_device_properties_t);
FIELD(xt_ze_device, next, ze_device_properties_t, pNext);
FIELD(xt_ze_device, type, ze_device_properties_t, type);
FIELD(xt_ze_device, vendor, ze_device_properties_t, vendorId);
FIELD(xt_ze_device, device, ze_device_properties_t, deviceId);
FIELD(xt_ze_device, flags, ze_device_properties_t, flags);
FIELD(xt_ze_device, allocation_max, ze_device_properties_t, maxMemAllocSize);
FIELD(xt_ze_device, eus_per_subslice, ze_device_properties_t, numEUsPerSubslice);
FIELD(xt_ze_device, subslices_per_slice, ze_device_properties_t, numSubslicesPerSlice);
FIELD(xt_ze_device, slices, ze_device_properties_t, numSlices);
FIELD(xt_ze_device, uuid, ze_device_properties_t, uuid);
FIELD(xt_ze_device, name, ze_device_properties_t, name);
SIZE(xt_ze_memory, ze_device_memory_properties_t);
FIELD(xt_ze_memory, bytes, ze_device_memory_properties_t, totalSize);
SIZE(xt_ze_allocation, ze_memory_allocation_properties_t);
FIELD(xt_ze_allocation, type, ze_memory_allocation_properties_t, type);
SIZE(xt_ze_module, ze_device_module_properties_t);
FIELD(xt_ze_module, flags, ze_device_module_properties_t, flags);
SIZE(xt_ze_pci, ze_pci_ext_properties_t);
FIELD(xt_ze_pci, address, ze_pci_ext_properties_t, address);
SIZE(xt_zes_device, zes_device_properties_t);
FIELD(xt_zes_device, core, zes_device_properties_t, core);
SIZE(xt_zes_pci, zes_pci_properties_t);
FIELD(xt_zes_pci, address, zes_pci_properties_t, address);
SIZE(xt_zes_bar, zes_pci_bar_properties_t);
FIELD(xt_zes_bar, type, zes_pci_bar_properties_t, type);
SIZE(xt_zes_bar_1_2, zes_pci_bar_properties_1_2_t);
FIELD(xt_zes_bar_1_2, resizable_supported, zes_pci_bar_properties_1_2_t, resizableBarSupported);
FIELD(xt_zes_bar_1_2, resizable_enabled, zes_pci_bar_properties_1_2_t, resizableBarEnabled);
SIZE(xt_zes_memory, zes_mem_properties_t);
SIZE(xt_zes_memory_state, zes_mem_state_t);
FIELD(xt_zes_memory_state, free_bytes, zes_mem_state_t, free);
FIELD(xt_zes_memory_state, bytes, zes_mem_state_t, size);
SIZE(xt_zes_engine, zes_engine_properties_t);
FIELD(xt_zes_engine, group, zes_engine_properties_t, type);
SIZE(xt_zes_activity, zes_engine_stats_t);
FIELD(xt_zes_activity, active_us, zes_engine_stats_t, activeTime);
SIZE(xt_zes_energy, zes_power_energy_counter_t);
FIELD(xt_zes_energy, microjoules, zes_power_energy_counter_t, energy);
SIZE(xt_zes_power_limit, zes_power_sustained_limit_t);
FIELD(xt_zes_power_limit, milliwatts, zes_power_sustained_limit_t, power);
SIZE(xt_zes_frequency, zes_freq_properties_t);
FIELD(xt_zes_frequency, domain, zes_freq_properties_t, type);
SIZE(xt_zes_frequency_state, zes_freq_state_t);
FIELD(xt_zes_frequency_state, actual_mhz, zes_freq_state_t, actual);

VALUE(XT_ZE_NO_PERMISSION, ZE_RESULT_ERROR_INSUFFICIENT_PERMISSIONS);
VALUE(XT_ZE_NOT_AVAILABLE, ZE_RESULT_ERROR_NOT_AVAILABLE);
VALUE(XT_ZE_DEPENDENCY_MISSING, ZE_RESULT_ERROR_DEPENDENCY_UNAVAILABLE);
VALUE(XT_ZE_UNINITIALIZED, ZE_RESULT_ERROR_UNINITIALIZED);
VALUE(XT_ZE_UNSUPPORTED, ZE_RESULT_ERROR_UNSUPPORTED_FEATURE);
VALUE(XT_ZE_GPU_ONLY, ZE_INIT_FLAG_GPU_ONLY);
VALUE(XT_ZE_TYPE_GPU, ZE_DEVICE_TYPE_GPU);
VALUE(XT_ZE_FLAG_INTEGRATED, ZE_DEVICE_PROPERTY_FLAG_INTEGRATED);
VALUE(XT_ZE_MODULE_FP16, ZE_DEVICE_MODULE_FLAG_FP16);
VALUE(XT_ZE_MODULE_FP64, ZE_DEVICE_MODULE_FLAG_FP64);
VALUE(XT_ZES_ENGINES_ALL, ZES_ENGINE_GROUP_ALL);
VALUE(XT_ZES_ENGINES_COMPUTE, ZES_ENGINE_GROUP_COMPUTE_ALL);
VALUE(XT_ZES_DOMAIN_GPU, ZES_FREQ_DOMAIN_GPU);
VALUE(XT_ZES_BAR_MEMORY, ZES_PCI_BAR_TYPE_MEM);
VALUE(XT_ZE_DRIVER, ZE_STRUCTURE_TYPE_DRIVER_PROPERTIES);
VALUE(XT_ZE_DEVICE, ZE_STRUCTURE_TYPE_DEVICE_PROPERTIES);
VALUE(XT_ZE_MODULE, ZE_STRUCTURE_TYPE_DEVICE_MODULE_PROPERTIES);
VALUE(XT_ZE_MEMORY, ZE_STRUCTURE_TYPE_DEVICE_MEMORY_PROPERTIES);
VALUE(XT_ZE_ALLOCATION, ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES);
VALUE(1, ZE_MEMORY_TYPE_HOST);
VALUE(2, ZE_MEMORY_TYPE_DEVICE);
VALUE(3, ZE_MEMORY_TYPE_SHARED);
VALUE(XT_ZE_PCI, ZE_STRUCTURE_TYPE_PCI_EXT_PROPERTIES);
VALUE(XT_ZES_DEVICE, ZES_STRUCTURE_TYPE_DEVICE_PROPERTIES);
VALUE(XT_ZES_PCI, ZES_STRUCTURE_TYPE_PCI_PROPERTIES);
VALUE(XT_ZES_BAR, ZES_STRUCTURE_TYPE_PCI_BAR_PROPERTIES);
VALUE(XT_ZES_BAR_1_2, ZES_STRUCTURE_TYPE_PCI_BAR_PROPERTIES_1_2);
VALUE(XT_ZES_ENGINE, ZES_STRUCTURE_TYPE_ENGINE_PROPERTIES);
VALUE(XT_ZES_FREQUENCY, ZES_STRUCTURE_TYPE_FREQ_PROPERTIES);
VALUE(XT_ZES_FREQUENCY_STATE, ZES_STRUCTURE_TYPE_FREQ_STATE);
VALUE(XT_ZES_MEMORY, ZES_STRUCTURE_TYPE_MEM_PROPERTIES);
VALUE(XT_ZES_MEMORY_STATE, ZES_STRUCTURE_TYPE_MEM_STATE);
