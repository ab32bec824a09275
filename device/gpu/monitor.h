/* Monitors an XPU while it works: a thread reads its memory, busy time, power, energy, frequency
 * and temperature at intervals (figures.h).
 *
 * A value that cannot be read is unknown, with a reason; nothing is estimated. The CPU has nothing
 * to monitor. While a monitor runs no other thread may call xt_device_read; it must be stopped
 * before the device is closed. xt_monitor_read may be called from any thread.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "device/device.h"

/* Seconds between readings in a run. */
#define XT_MONITOR_INTERVAL 1.0

struct xt_monitor_figures {
    int readings;            /* 0: nothing to monitor */
    struct xt_telemetry now; /* as last read */
    /* Over all readings: the maxima of memory_used and temperature, the means of busy, power and
     * frequency where they were known, the energy since the monitor was started. */
    struct xt_telemetry run;
};

struct xt_monitor;

/* Takes a first reading and starts the thread. *out is NULL on the CPU; NULL is allowed below. */
enum xt_status xt_monitor_start(struct xt_monitor **out, struct xt_device *device, double interval,
                                struct xt_err *err);
void xt_monitor_read(struct xt_monitor *monitor, struct xt_monitor_figures *out);
/* Takes a last reading and stops the thread; the figures stay. */
void xt_monitor_stop(struct xt_monitor *monitor);
/* Stops it if it is running. */
void xt_monitor_destroy(struct xt_monitor *monitor);

/* One sentence on the figures of a run that cannot be read and why, for the user; "" if all can.
 * After two readings, since some figures are differences. */
void xt_monitor_describe_unreadable(const struct xt_monitor_figures *figures, char *text,
                                    size_t size);

/* "memory at most 3.4 of 16.0 GB, 85 % busy, 118 W, 2090 MHz (memory, busy time by fdinfo, ...)":
 * over the whole run. */
void xt_monitor_format_run(const struct xt_monitor_figures *figures, char *text, size_t size);
