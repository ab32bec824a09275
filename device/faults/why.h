/* Why oneDNN opens no GPU, in the words of those below it: its engine is started in a process of
 * its own, with the logs of oneDNN, SYCL, the drivers' adapters and the driver switched on, and the
 * line that tells is taken from what they write. Call it before threads start. */
#ifndef XT_DEVICE_FAULTS_WHY_H
#define XT_DEVICE_FAULTS_WHY_H

#include <stddef.h>

/* Of engine `index`. "" where nothing they write tells. */
void xt_why_no_engine(int index, char *out, size_t size);

#endif
