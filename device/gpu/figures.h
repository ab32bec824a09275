/* The figures of a GPU's state, in one table: first what the kernel reports to every user, by
 * fdinfo (fdinfo.h) and by the card's hwmon folder (i915, xe), then what the driver reports through
 * Sysman (level_zero.h), which may need CAP_PERFMON. Each figure has its origin, or the reason why
 * it is unknown. The caller owns the value; one thread.
 */
#pragma once

#include "base/system/energy.h"
#include "device/gpu/fdinfo.h"
#include "device/gpu/level_zero.h"

struct xt_figures {
    struct xt_level_zero *zero; /* may be NULL; not owned */
    int index;                  /* index in its list; -1: not in it */
    struct xt_pci_address pci;
    uint64_t memory;  /* bytes, reported by the driver when it was opened; 0: unknown */
    const char *root; /* prefix of the paths in /proc and /sys */

    int readings;    /* 0: the fields below are unused */
    char hwmon[160]; /* the card's folder; "": it has none */
    struct xt_energy energy;
    struct { /* the two newest readings */
        struct xt_fdinfo fdinfo;
        double seconds, joules;
    } now, before;
};

/* `facts`: the GPU's address and memory. `root`: "" for the machine itself. */
void xt_figures_init(struct xt_figures *figures, struct xt_level_zero *zero, int index,
                     const struct xt_gpu_facts *facts, const char *root);

/* Reads the current values. Busy time and power need a second reading. */
void xt_figures_read(struct xt_figures *figures, struct xt_telemetry *out);

/* The origin of the figures in a few words: "memory of this process by fdinfo, power by hwmon"; ""
 * if none is known. */
void xt_figures_describe_sources(const struct xt_telemetry *now, char *text, size_t size);
/* The reasons for those that are unknown. */
void xt_figures_describe_all(const struct xt_telemetry *now, char *text, size_t size);
/* The reasons for the unknown ones among those reported in a run: memory, busy time, power,
 * frequency; "" if all of them are known. */
void xt_figures_describe_unreadable(const struct xt_telemetry *now, char *text, size_t size);
