/* What the machine's CPU packages have used of energy, as the kernel counts it (RAPL, under
 * /sys/class/powercap). Reading it is for root alone on most systems; then there is a reason and no
 * figure. One thread; owns nothing.
 */
#ifndef XT_BASE_SYSTEM_ENERGY_H
#define XT_BASE_SYSTEM_ENERGY_H

#include <stdbool.h>

enum { XT_ENERGY_ZONES_MAX = 16 };

struct xt_energy {
    char folders[XT_ENERGY_ZONES_MAX][160]; /* of the packages */
    double last[XT_ENERGY_ZONES_MAX];       /* microjoules, as last read */
    int count;                              /* 0: nothing is measured */
    double joules;                          /* since it was opened */
    char why[240];                          /* why nothing is; "" where something is */
};

/* `root` NULL: /sys/class/powercap; else a folder that looks like it, for tests. */
void xt_energy_open(struct xt_energy *energy, const char *root);
/* Brings `joules` up to now. Often enough: the counters begin again at 0 after some minutes under
 * load. */
void xt_energy_read(struct xt_energy *energy);

#endif
