/* Energy from the kernel's microjoule counters: the CPU packages (RAPL, under /sys/class/powercap;
 * readable only by root on most systems), or another counter in a file. If none is readable, `why`
 * says so. Not thread-safe; owns no memory.
 */
#pragma once

#include <stdbool.h>

enum { XT_ENERGY_COUNTERS_MAX = 16 };

struct xt_energy {
    char files[XT_ENERGY_COUNTERS_MAX][200]; /* that count microjoules */
    double last[XT_ENERGY_COUNTERS_MAX];     /* as last read */
    int count;                               /* 0: not measured */
    double joules;                           /* since opening */
    char why[240];                           /* why not measured; "" if it is */
};

/* The CPU packages. `root` NULL: /sys/class/powercap; else a folder of that layout, for tests. */
void xt_energy_open(struct xt_energy *energy, const char *root);
/* One counter. */
void xt_energy_open_file(struct xt_energy *energy, const char *path);
/* Updates `joules`. Call at least every minute or so: the packages' counters wrap after some
 * minutes under load. */
void xt_energy_read(struct xt_energy *energy);

/* The number in a sysfs file; false, with errno, if it holds no finite number. */
bool xt_energy_read_number(const char *path, double *out);
