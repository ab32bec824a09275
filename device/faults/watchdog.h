/* Looks out for a device that does not answer: a call to its driver that takes many times as long
 * as a step. First it is said what the call is and what the device was given last; later the last
 * words are (guard.h), which end the process.
 *
 * A thread of its own, which looks at guard.h's calls. It watches from the first step on that
 * ended: a first one may compile kernels for minutes. Thread-safe as said below.
 */
#ifndef XT_DEVICE_FAULTS_WATCHDOG_H
#define XT_DEVICE_FAULTS_WATCHDOG_H

#include "base/err.h"
#include "device/handle.h"

/* After how many seconds it is said, and after how many the run ends. */
struct xt_watchdog_limits {
    double say, end;
};
/* `median` of the steps' seconds; `given` by the user: when the run ends, 0: ten minutes, or 100
 * steps where those take longer. */
struct xt_watchdog_limits xt_watchdog_limits(double median, double given);

struct xt_watchdog;

/* On a device that computes in this process (the CPU) there is nothing to watch: *out is NULL. */
enum xt_status xt_watchdog_start(struct xt_watchdog **out, const struct xt_device *device,
                                 double given, struct xt_err *err);
void xt_watchdog_stop(struct xt_watchdog *watchdog);
/* A step ended, by the thread that trains. NULL: nothing is watched. */
void xt_watchdog_step(struct xt_watchdog *watchdog, double seconds);

#endif
