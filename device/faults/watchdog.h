/* Watches for a device that does not respond: a call to its driver that takes many times as long as
 * a step. First a warning names the call and the last submitted work; later the process is ended
 * (guard.h).
 *
 * A thread of its own, which polls guard.h's calls. It starts after the first step is complete,
 * which may compile kernels for minutes. Thread-safe as noted below.
 */
#ifndef XT_DEVICE_FAULTS_WATCHDOG_H
#define XT_DEVICE_FAULTS_WATCHDOG_H

#include "base/err.h"
#include "device/handle.h"

/* Seconds until the warning, and until the run is ended. */
struct xt_watchdog_limits {
    double say, end;
};
/* `median` of the steps' seconds; `given` by the user: seconds until the run is ended, 0: ten
 * minutes, or 100 steps if those take longer. */
struct xt_watchdog_limits xt_watchdog_limits(double median, double given);

struct xt_watchdog;

/* A device that computes in this process (the CPU) is not watched: *out is NULL. */
enum xt_status xt_watchdog_start(struct xt_watchdog **out, const struct xt_device *device,
                                 double given, struct xt_err *err);
void xt_watchdog_stop(struct xt_watchdog *watchdog);
/* A step is complete; called by the training thread. NULL: does nothing. */
void xt_watchdog_step(struct xt_watchdog *watchdog, double seconds);

#endif
