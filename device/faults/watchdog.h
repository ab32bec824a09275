/* Watches for a device that does not respond: a call to its driver that takes too long, from the
 * first query of the drivers to the end of the device. First a warning names the call and the last
 * submitted work; later the process is ended (guard.h).
 *
 * A thread of its own, which polls guard.h's calls. One of the program's pieces of global state, as
 * the calls are; thread-safe.
 */
#pragma once

#include "base/err.h"

/* Seconds until the warning, and until the process is ended. */
struct xt_watchdog_limits {
    double say, end;
};
/* `median` of the steps' seconds, 0 before the first; `given` by the user: seconds until the
 * process is ended, 0: ten minutes, or 100 steps if those take longer. */
struct xt_watchdog_limits xt_watchdog_limits(double median, double given);

/* The user's limit for each call, for this process and its children; 0: the usual one. Call before
 * the first device is opened. */
void xt_watchdog_set_timeout(double seconds);
/* A limit of `usual` seconds for all work of a child process that is watched too: longer, if one
 * call may take longer. */
unsigned xt_watchdog_seconds(unsigned usual);

/* Watches from now on, until as many ends. */
enum xt_status xt_watchdog_begin(struct xt_err *err);
void xt_watchdog_end(void);
/* The same for a child process that only queries drivers, in a phase of guard.h; its end is given
 * what its begin returned. Without threads nothing is watched. */
const char *xt_watchdog_begin_query(const char *phase);
void xt_watchdog_end_query(const char *outer);
/* A step is complete, in which a call may take as long as in others. */
void xt_watchdog_step(double seconds);
