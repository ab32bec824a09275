/* The part of the Level Zero interface that is used, declared here so that building needs no Level
 * Zero package. Level Zero specification 1.4 (core "ze", Sysman "zes"); its ABI only grows, by new
 * functions and by structures chained to `next`. tests/xpu/test_ze_abi.c holds the sizes and
 * offsets against the official headers.
 */
#ifndef XT_DEVICE_GPU_ZE_ABI_H
#define XT_DEVICE_GPU_ZE_ABI_H

#include <stdint.h>

typedef uint32_t xt_ze_result;
typedef void *xt_ze_handle; /* of drivers, devices, memory modules, engines, power, frequency */

enum {
    XT_ZE_SUCCESS = 0,
    XT_ZE_NO_PERMISSION = 0x70010000,
    XT_ZE_NOT_AVAILABLE = 0x70010001,
    XT_ZE_DEPENDENCY_MISSING = 0x70020000,
    XT_ZE_UNINITIALIZED = 0x78000001,
    XT_ZE_UNSUPPORTED = 0x78000003,

    XT_ZE_GPU_ONLY = 1, /* a flag of zeInit */
    XT_ZE_TYPE_GPU = 1,
    XT_ZE_FLAG_INTEGRATED = 1,
    XT_ZE_MODULE_FP16 = 1,
    XT_ZE_MODULE_FP64 = 2,
    XT_ZES_ENGINES_ALL = 0,
    XT_ZES_ENGINES_COMPUTE = 1,
    XT_ZES_DOMAIN_GPU = 0,
    XT_ZES_BAR_MEMORY = 2,

    /* What goes into `stype`. */
    XT_ZE_DRIVER = 0x1,
    XT_ZE_DEVICE = 0x3,
    XT_ZE_MODULE = 0x5,
    XT_ZE_MEMORY = 0x7,
    XT_ZE_ALLOCATION = 0x17,
    XT_ZE_PCI = 0x10008,
    XT_ZE_IP_VERSION = 0x1000f, /* since 1.6 */
    XT_ZES_DEVICE = 0x1,
    XT_ZES_PCI = 0x2,
    XT_ZES_BAR = 0x3,
    XT_ZES_ENGINE = 0x5,
    XT_ZES_FREQUENCY = 0x9,
    XT_ZES_MEMORY = 0xb,
    XT_ZES_FREQUENCY_STATE = 0x1b,
    XT_ZES_MEMORY_STATE = 0x1e,
    XT_ZES_BAR_1_2 = 0x24,
};

struct xt_ze_driver {
    uint32_t stype;
    void *next;
    uint8_t uuid[16];
    uint32_t version;
};

struct xt_ze_device {
    uint32_t stype;
    void *next;
    uint32_t type;
    uint32_t vendor;
    uint32_t device;
    uint32_t flags;
    uint32_t subdevice;
    uint32_t clock_mhz;
    uint64_t allocation_max;
    uint32_t contexts_max;
    uint32_t queue_priority_max;
    uint32_t threads_per_eu;
    uint32_t simd_width;
    uint32_t eus_per_subslice;
    uint32_t subslices_per_slice;
    uint32_t slices;
    uint64_t timer_resolution;
    uint32_t timestamp_bits;
    uint32_t kernel_timestamp_bits;
    uint8_t uuid[16];
    char name[256];
};

struct xt_ze_ip_version {
    uint32_t stype;
    const void *next;
    uint32_t version;
};

struct xt_ze_memory {
    uint32_t stype;
    void *next;
    uint32_t flags;
    uint32_t clock;
    uint32_t bus_width;
    uint64_t bytes;
    char name[256];
};

/* ze_memory_allocation_properties_t; type: 0 not known, 1 host, 2 device, 3 shared. */
struct xt_ze_allocation {
    uint32_t stype;
    void *next;
    uint32_t type;
    uint64_t id;
    uint64_t page_size;
};

struct xt_ze_module {
    uint32_t stype;
    void *next;
    uint32_t spirv;
    uint32_t flags;
    uint32_t fp16;
    uint32_t fp32;
    uint32_t fp64;
    uint32_t arguments_max;
    uint32_t printf_bytes;
    uint8_t native_kernel[16];
};

struct xt_ze_address {
    uint32_t domain;
    uint32_t bus;
    uint32_t device;
    uint32_t function;
};

struct xt_ze_speed {
    int32_t generation;
    int32_t width;
    int64_t bandwidth;
};

struct xt_ze_pci {
    uint32_t stype;
    void *next;
    struct xt_ze_address address;
    struct xt_ze_speed speed;
};

struct xt_zes_device {
    uint32_t stype;
    void *next;
    struct xt_ze_device core;
    uint32_t subdevices;
    char serial[64];
    char board[64];
    char brand[64];
    char model[64];
    char vendor[64];
    char driver[64];
};

struct xt_zes_pci {
    uint32_t stype;
    void *next;
    struct xt_ze_address address;
    struct xt_ze_speed speed;
    uint8_t counters[3];
};

struct xt_zes_bar_1_2 {
    uint32_t stype;
    void *next;
    uint32_t type;
    uint32_t index;
    uint64_t base;
    uint64_t bytes;
    uint8_t resizable_supported;
    uint8_t resizable_enabled;
};

struct xt_zes_bar {
    uint32_t stype;
    void *next;
    uint32_t type;
    uint32_t index;
    uint64_t base;
    uint64_t bytes;
};

struct xt_zes_memory {
    uint32_t stype;
    void *next;
    uint32_t type;
    uint8_t on_subdevice;
    uint32_t subdevice;
    uint32_t location;
    uint64_t bytes;
    int32_t bus_width;
    int32_t channels;
};

struct xt_zes_memory_state {
    uint32_t stype;
    const void *next;
    uint32_t health;
    uint64_t free_bytes;
    uint64_t bytes;
};

struct xt_zes_engine {
    uint32_t stype;
    void *next;
    uint32_t group;
    uint8_t on_subdevice;
    uint32_t subdevice;
};

struct xt_zes_activity {
    uint64_t active_us;
    uint64_t timestamp_us;
};

struct xt_zes_energy {
    uint64_t microjoules;
    uint64_t timestamp_us;
};

struct xt_zes_power_limit {
    uint8_t enabled;
    int32_t milliwatts;
    int32_t interval_ms;
};

struct xt_zes_frequency {
    uint32_t stype;
    void *next;
    uint32_t domain;
    uint8_t on_subdevice;
    uint32_t subdevice;
    uint8_t can_control;
    uint8_t has_throttle_event;
    double min_mhz;
    double max_mhz;
};

struct xt_zes_frequency_state {
    uint32_t stype;
    const void *next;
    double voltage;
    double request_mhz;
    double tdp_mhz;
    double efficient_mhz;
    double actual_mhz;
    uint32_t throttle_reasons;
};

#endif
