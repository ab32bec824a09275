/* The kernel driver's counters for this process on a GPU: /proc/self/fdinfo, in the format of the
 * kernel's drm-usage-stats, which needs no privilege. Memory by region (i915: local0, system0; xe:
 * vram0, gtt), and the time of the engines (i915: nanoseconds; xe: cycles and total cycles).
 *
 * The text comes from outside: a line that does not conform is ignored. The caller owns the values;
 * stateless, thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/gpu/level_zero.h"

enum { XT_FDINFO_CLIENTS_MAX = 32, XT_FDINFO_COUNTERS_MAX = 8 };

/* Counters of a kind of memory (bytes; the first one that a driver reports is used) and of a class
 * of engines. */
enum { XT_FDINFO_RESIDENT, XT_FDINFO_MEMORY, XT_FDINFO_TOTAL };
enum { XT_FDINFO_NS, XT_FDINFO_CYCLES, XT_FDINFO_ALL_CYCLES, XT_FDINFO_CAPACITY, XT_FDINFO_VALUES };

struct xt_fdinfo_counter {
    char name[24]; /* "vram0"; "compute" (i915), "ccs" (xe) */
    uint64_t value[XT_FDINFO_VALUES];
    bool told[XT_FDINFO_VALUES];
};

struct xt_fdinfo_counters {
    int count;
    struct xt_fdinfo_counter items[XT_FDINFO_COUNTERS_MAX];
};

/* One open file of a GPU. Several may belong to one client, and then have the same counters. */
struct xt_fdinfo_client {
    char pdev[24]; /* "0000:03:00.0" */
    uint64_t id;
    bool has_id;
    struct xt_fdinfo_counters regions, engines;
};

/* All files that this process has open on one GPU, each client once. */
struct xt_fdinfo {
    int count;
    uint64_t when; /* CLOCK_MONOTONIC, nanoseconds */
    struct xt_fdinfo_client clients[XT_FDINFO_CLIENTS_MAX];
};

/* Parses the text of one file, zero-terminated or not. False if it is not a GPU's. */
bool xt_fdinfo_parse(const char *text, size_t size, struct xt_fdinfo_client *out);

/* `root` is a prefix of the path ("" for the machine itself). */
void xt_fdinfo_read(const char *root, const struct xt_pci_address *pci, struct xt_fdinfo *out);

/* Bytes of the GPU's own memory, over all its tiles (for an integrated one: of the host's memory),
 * that this process has there; false if the kernel does not count them, or counts nothing. */
bool xt_fdinfo_memory(const struct xt_fdinfo *info, double *bytes);

/* The share of the time between two readings, 0 to 1, in which this process kept the compute
 * engines busy: of the busiest class (compute or render), over all its engines. False if the kernel
 * does not count that, or has not counted anything yet. */
bool xt_fdinfo_busy(const struct xt_fdinfo *before, const struct xt_fdinfo *now, double *share);
