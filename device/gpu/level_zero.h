/* Level Zero: what oneDNN cannot say about an Intel GPU. Name, UUID, PCI address, execution units,
 * memory and driver version; and through Sysman, during a run, memory used, engine busy time, power
 * and frequency.
 *
 * The loader (libze_loader.so.1) is loaded at run time and may be missing. oneDNN's engine list
 * says what can run; Level Zero describes it, matched by UUID or PCI address. Specification:
 * https://oneapi-src.github.io/level-zero-spec. The caller owns a `struct xt_level_zero`; one
 * thread uses it at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct xt_pci_address {
    bool known;
    uint32_t domain;
    uint32_t bus;
    uint32_t device;
    uint32_t function;
};

struct xt_pci_text {
    char text[40]; /* "0000:03:00.0", "" where not known */
};
struct xt_pci_text xt_pci_format(const struct xt_pci_address *pci);

struct xt_uuid {
    bool known;
    uint8_t bytes[16];
};

struct xt_uuid_text {
    char text[40]; /* 8-4-4-4-12 hexadecimal digits, "" if unknown */
};
struct xt_uuid_text xt_uuid_format(const struct xt_uuid *uuid);

/* The constant properties of a device. */
struct xt_gpu_facts {
    char name[128];
    char driver[64]; /* its version */
    struct xt_uuid uuid;
    struct xt_pci_address pci;
    uint32_t vendor;
    uint32_t device_id;
    uint32_t ip_version; /* major << 22 | minor << 14 | revision; 0: unknown */
    int units;           /* execution units; 0: unknown */
    int tiles;           /* number of sub-devices; 0: it has none */
    bool integrated;
    bool fp16;
    bool fp64;
    uint64_t memory; /* bytes, of all tiles */
    uint64_t allocation_max;
};

/* A figure that can be missing, with the reason. */
struct xt_reading {
    bool known;
    double value;
    char why[96];       /* it is unknown */
    const char *source; /* if known: a constant: "fdinfo", "hwmon", "sysman", "driver" */
};

enum { XT_TILES_MAX = 8 };
/* A sub-device. Unknown figures are NaN. */
struct xt_tile {
    double memory_total, memory_used; /* bytes */
    double busy;                      /* 0 to 1 */
};

struct xt_telemetry {
    struct xt_reading memory_used;  /* bytes: from fdinfo of this process, else of all */
    struct xt_reading memory_free;  /* bytes not used by any process */
    struct xt_reading memory_total; /* bytes */
    struct xt_reading busy;         /* 0 to 1, since the last reading; as memory_used */
    struct xt_reading power;        /* watts, since the last reading */
    struct xt_reading power_limit;  /* watts, sustained */
    struct xt_reading energy;       /* joules, since the first reading */
    struct xt_reading frequency;    /* MHz, the mean of the tiles */
    struct xt_reading temperature;  /* degrees Celsius */
    struct xt_tile tiles[XT_TILES_MAX];
    int tile_count; /* 0: it has none, or unknown */
};

struct xt_level_zero;

/* Loads the loader, starts the drivers and lists the GPUs. XT_ERR_DEVICE says what is missing (the
 * loader, a driver) and how to install it; a machine whose drivers have no GPU gives an empty
 * list. */
enum xt_status xt_level_zero_open(struct xt_level_zero **zero, struct xt_err *err);
void xt_level_zero_close(struct xt_level_zero *zero);

int xt_level_zero_count(const struct xt_level_zero *zero);
const struct xt_gpu_facts *xt_level_zero_facts(const struct xt_level_zero *zero, int index);

/* The device with this UUID or, if that is unknown, PCI address; -1: not found. */
int xt_level_zero_find(const struct xt_level_zero *zero, const struct xt_uuid *uuid,
                       const struct xt_pci_address *pci);
/* The device of a ze_device_handle_t that another library got from the same loader; -1: not
 * found. */
int xt_level_zero_find_handle(const struct xt_level_zero *zero, uint64_t handle);

/* Reads the current values through Sysman. Busy time and power need a second reading. For the
 * kernel's own figures too, use xt_figures (figures.h). */
void xt_level_zero_read(struct xt_level_zero *zero, int index, struct xt_telemetry *out);

enum xt_yes_no { XT_NOT_KNOWN, XT_NO, XT_YES };
/* Whether the CPU can address all of the device's memory (Resizable BAR). `why` (may be NULL, 96
 * bytes) gets a reason if that is unknown. */
enum xt_yes_no xt_level_zero_resizable_bar(struct xt_level_zero *zero, int index, char *why);
