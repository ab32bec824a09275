/* What the kernel's driver counts for this process on a GPU: /proc/self/fdinfo, in the words of the
 * kernel's drm-usage-stats, which needs no privilege. Memory by region (i915: local0, system0; xe:
 * vram0, gtt), and the time of the engines (i915: nanoseconds; xe: cycles and all cycles).
 *
 * The text comes from outside: what does not read as the document says is no figure. Values a
 * caller owns; stateless, thread-safe.
 */
#ifndef XT_DEVICE_GPU_FDINFO_H
#define XT_DEVICE_GPU_FDINFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "device/gpu/level_zero.h"

enum { XT_FDINFO_CLIENTS_MAX = 32, XT_FDINFO_COUNTERS_MAX = 8 };

/* What is counted of a kind of memory (in bytes; a driver tells one or more, of which the first
 * counts) and of a class of engines. */
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

/* One open file of a GPU. Several may be of one client, and then say the same. */
struct xt_fdinfo_client {
    char pdev[24]; /* "0000:03:00.0" */
    uint64_t id;
    bool has_id;
    struct xt_fdinfo_counters regions, engines;
};

/* All that this process has open of one GPU, each client once. */
struct xt_fdinfo {
    int count;
    uint64_t when; /* CLOCK_MONOTONIC, nanoseconds */
    struct xt_fdinfo_client clients[XT_FDINFO_CLIENTS_MAX];
};

/* The text of one file, NUL or not. False where it is none of a GPU's. */
bool xt_fdinfo_parse(const char *text, size_t size, struct xt_fdinfo_client *out);

/* `root` is put before the path ("" for the machine itself). */
void xt_fdinfo_read(const char *root, const struct xt_pci_address *pci, struct xt_fdinfo *out);

/* Bytes of the GPU's own memory, of all its tiles, or of an integrated one of the host's, that this
 * process has there; false where the kernel does not count them, or counts nothing. */
bool xt_fdinfo_memory(const struct xt_fdinfo *info, double *bytes);

/* The share of the time from one reading to the next, 0 to 1, in which this process kept the
 * engines busy that compute: of the class (compute or render) that was busiest, of all engines of
 * it. False where the kernel does not count that, or has not counted anything yet. */
bool xt_fdinfo_busy(const struct xt_fdinfo *before, const struct xt_fdinfo *now, double *share);

#endif
