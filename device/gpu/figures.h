/* The figures of a GPU's state: first what the kernel tells everybody (fdinfo.h, hwmon.h), and
 * where it does not, what the driver tells through Sysman (level_zero.h), which may want
 * CAP_PERFMON. Each figure says which of them it is from. The caller owns the value; one thread.
 */
#ifndef XT_DEVICE_GPU_FIGURES_H
#define XT_DEVICE_GPU_FIGURES_H

#include "device/gpu/fdinfo.h"
#include "device/gpu/hwmon.h"
#include "device/gpu/level_zero.h"

struct xt_figures {
    struct xt_level_zero *zero; /* may be NULL; not owned */
    int index;                  /* there; -1: it is not in the list */
    struct xt_pci_address pci;
    uint64_t memory;  /* bytes, as the driver told when it was opened; 0: not known */
    const char *root; /* before the paths of /proc and /sys */
    bool open;        /* the fields below are in use */
    struct xt_hwmon hwmon;
    struct xt_fdinfo before; /* the reading before */
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

#endif
