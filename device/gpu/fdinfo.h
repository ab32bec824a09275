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

enum { XT_FDINFO_CLIENTS_MAX = 32, XT_FDINFO_REGIONS_MAX = 8, XT_FDINFO_ENGINES_MAX = 8 };

/* One kind of memory. A driver tells one or more of three figures. */
struct xt_fdinfo_region {
    char name[24]; /* "vram0" */
    double bytes[3];
    bool told[3]; /* drm-resident-, drm-memory-, drm-total-: the first that is told counts */
};

/* One class of engines. */
struct xt_fdinfo_engine {
    char name[24];     /* "compute" (i915), "ccs" (xe) */
    uint64_t ns;       /* drm-engine- */
    uint64_t cycles;   /* drm-cycles- */
    uint64_t all;      /* drm-total-cycles- */
    uint64_t capacity; /* how many of them there are; 0: not told, which is one */
    bool in_ns, in_cycles;
};

/* One open file of a GPU. Several may be of one client, and then say the same. */
struct xt_fdinfo_client {
    char driver[16]; /* "i915", "xe" */
    char pdev[24];   /* "0000:03:00.0" */
    uint64_t id;
    bool has_id;
    int region_count, engine_count;
    struct xt_fdinfo_region regions[XT_FDINFO_REGIONS_MAX];
    struct xt_fdinfo_engine engines[XT_FDINFO_ENGINES_MAX];
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
