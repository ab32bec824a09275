/* Energy as the kernel counts it, in microjoules that only grow: of the machine's CPU packages
 * (RAPL, under /sys/class/powercap; for root alone on most systems), or of whatever else has such a
 * counter in a file. Where none can be read there is a reason and no figure. One thread; owns
 * nothing.
 */
#ifndef XT_BASE_SYSTEM_ENERGY_H
#define XT_BASE_SYSTEM_ENERGY_H

#include <stdbool.h>

enum { XT_ENERGY_COUNTERS_MAX = 16 };

struct xt_energy {
    char files[XT_ENERGY_COUNTERS_MAX][200]; /* that count microjoules */
    double last[XT_ENERGY_COUNTERS_MAX];     /* as last read */
    int count;                               /* 0: nothing is measured */
    double joules;                           /* since it was opened */
    char why[240];                           /* why nothing is; "" where something is */
};

/* Of the CPU packages. `root` NULL: /sys/class/powercap; else a folder that looks like it, for
 * tests. */
void xt_energy_open(struct xt_energy *energy, const char *root);
/* Of one counter. */
void xt_energy_open_file(struct xt_energy *energy, const char *path);
/* Brings `joules` up to now. Often enough: the packages' counters begin again at 0 after some
 * minutes under load. */
void xt_energy_read(struct xt_energy *energy);

/* The number in a file of the kernel's, which has one; false, with errno, where there is none, or
 * no finite one. */
bool xt_energy_read_number(const char *path, double *out);

#endif
