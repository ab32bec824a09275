/* The figures of a GPU's state, in one table: first what the kernel tells everybody, by fdinfo
 * (fdinfo.h) and by the card's hwmon folder (i915, xe), and where it does not, what the driver
 * tells through Sysman (level_zero.h), which may want CAP_PERFMON. Each figure says which of them
 * it is from, or why it is not known. The caller owns the value; one thread.
 */
#ifndef XT_DEVICE_GPU_FIGURES_H
#define XT_DEVICE_GPU_FIGURES_H

#include "base/system/energy.h"
#include "device/gpu/fdinfo.h"
#include "device/gpu/level_zero.h"

struct xt_figures {
    struct xt_level_zero *zero; /* may be NULL; not owned */
    int index;                  /* there; -1: it is not in the list */
    struct xt_pci_address pci;
    uint64_t memory;  /* bytes, as the driver told when it was opened; 0: not known */
    const char *root; /* before the paths of /proc and /sys */

    int readings;    /* 0: the fields below are not in use yet */
    char hwmon[160]; /* the card's folder; "": there is none */
    struct xt_energy energy;
    struct { /* of the two newest readings */
        struct xt_fdinfo fdinfo;
        double seconds, joules;
    } now, before;
};

/* `facts`: of the GPU, for its address and memory. `root`: "" for the machine itself. */
void xt_figures_init(struct xt_figures *figures, struct xt_level_zero *zero, int index,
                     const struct xt_gpu_facts *facts, const char *root);

/* Reads what can be read now. Busy and power need a second reading. */
void xt_figures_read(struct xt_figures *figures, struct xt_telemetry *out);

/* In a few words where the figures are from: "memory of this process by fdinfo, power by hwmon";
 * "" where nothing is known. */
void xt_figures_describe_sources(const struct xt_telemetry *now, char *text, size_t size);
/* And of those that are not known why. */
void xt_figures_describe_all(const struct xt_telemetry *now, char *text, size_t size);
/* Why those that a run is told by are not known: memory, busy time, power, frequency; "" where all
 * of them are. */
void xt_figures_describe_unreadable(const struct xt_telemetry *now, char *text, size_t size);

#endif
