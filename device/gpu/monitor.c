#include "device/gpu/monitor.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "base/mem.h"
#include "base/str.h"
#include "base/system/thread.h"

struct xt_monitor {
    struct xt_device *device;
    double interval;
    pthread_t thread;
    bool running;

    pthread_mutex_t lock; /* guards all fields below */
    pthread_cond_t wake;
    bool stop;
    struct xt_monitor_figures figures;
    int busy, power, frequency; /* readings that gave a figure */
    double energy_before;       /* joules, at the first reading */
};

/* The `count` readings before this one gave the mean. */
static void add(int *count, const struct xt_reading *now, struct xt_reading *mean)
{
    double before = *count ? mean->value : 0;
    if (now->known || !*count)
        *mean = *now;
    if (now->known)
        mean->value = before + (now->value - before) / ++*count;
}

static void update_peak(const struct xt_reading *now, struct xt_reading *peak)
{
    if (!peak->known || (now->known && now->value > peak->value))
        *peak = *now;
}

/* The device may have been read before the run. */
static void update_energy(struct xt_monitor *monitor, const struct xt_reading *now)
{
    struct xt_reading *energy = &monitor->figures.run.energy;
    if (energy->known && !now->known)
        return;
    if (!energy->known)
        monitor->energy_before = now->value;
    *energy = *now;
    energy->value -= monitor->energy_before;
}

/* A reading may take the driver a while, so it is done outside the lock. A difference to a reading
 * before the run does not count. */
static void take_reading(struct xt_monitor *monitor)
{
    struct xt_telemetry now;
    xt_device_read(monitor->device, &now);
    pthread_mutex_lock(&monitor->lock);
    struct xt_telemetry *run = &monitor->figures.run;
    monitor->figures.now = now;
    update_peak(&now.memory_used, &run->memory_used);
    update_peak(&now.temperature, &run->temperature);
    update_energy(monitor, &now.energy);
    if (monitor->figures.readings++) {
        add(&monitor->busy, &now.busy, &run->busy);
        add(&monitor->power, &now.power, &run->power);
    }
    add(&monitor->frequency, &now.frequency, &run->frequency);
    pthread_mutex_unlock(&monitor->lock);
}

/* False if the monitor is to stop. */
static bool sleep_on(struct xt_monitor *monitor)
{
    struct timespec until;
    clock_gettime(CLOCK_MONOTONIC, &until);
    double nanoseconds = (double)until.tv_nsec + 1e9 * monitor->interval;
    until.tv_sec += (time_t)(nanoseconds / 1e9);
    until.tv_nsec = (long)(nanoseconds - 1e9 * (double)(time_t)(nanoseconds / 1e9));
    pthread_mutex_lock(&monitor->lock);
    int error = 0;
    while (!monitor->stop && !error)
        error = pthread_cond_timedwait(&monitor->wake, &monitor->lock, &until);
    bool stop = monitor->stop;
    pthread_mutex_unlock(&monitor->lock);
    return !stop;
}

static void *watch(void *argument)
{
    struct xt_monitor *monitor = argument;
    while (sleep_on(monitor))
        take_reading(monitor);
    take_reading(monitor);
    return NULL;
}

enum xt_status xt_monitor_start(struct xt_monitor **out, struct xt_device *device, double interval,
                                struct xt_err *err)
{
    *out = NULL;
    struct xt_monitor *monitor = NULL;
    if (device->kind == XT_DEVICE_CPU)
        return XT_OK;
    enum xt_status status = xt_mem_calloc(&monitor, 1, sizeof *monitor, "a monitor", err);
    if (status)
        return status;
    monitor->device = device;
    monitor->interval = interval;
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&monitor->wake, &clock);
    pthread_condattr_destroy(&clock);
    pthread_mutex_init(&monitor->lock, NULL);
    take_reading(monitor);
    status = xt_thread_start(&monitor->thread, watch, monitor, "the thread that watches the device",
                             err);
    monitor->running = !status;
    if (status)
        xt_monitor_destroy(monitor);
    else
        *out = monitor;
    return status;
}

void xt_monitor_read(struct xt_monitor *monitor, struct xt_monitor_figures *out)
{
    *out = (struct xt_monitor_figures){.readings = 0};
    if (!monitor)
        return;
    pthread_mutex_lock(&monitor->lock);
    *out = monitor->figures;
    pthread_mutex_unlock(&monitor->lock);
}

void xt_monitor_stop(struct xt_monitor *monitor)
{
    if (!monitor || !monitor->running)
        return;
    pthread_mutex_lock(&monitor->lock);
    monitor->stop = true;
    pthread_cond_signal(&monitor->wake);
    pthread_mutex_unlock(&monitor->lock);
    pthread_join(monitor->thread, NULL);
    monitor->running = false;
}

void xt_monitor_destroy(struct xt_monitor *monitor)
{
    if (!monitor)
        return;
    xt_monitor_stop(monitor);
    pthread_cond_destroy(&monitor->wake);
    pthread_mutex_destroy(&monitor->lock);
    free(monitor);
}

/* ---- in words ---- */

void xt_monitor_describe_unreadable(const struct xt_monitor_figures *figures, char *text,
                                    size_t size)
{
    char which[400];
    xt_figures_describe_unreadable(&figures->run, which, sizeof which);
    snprintf(text, size, "%s%s", *which ? "the device's " : "", which);
}

void xt_monitor_format_run(const struct xt_monitor_figures *figures, char *text, size_t size)
{
    struct xt_telemetry shown = figures->run;
    char sources[160];
    const struct {
        const char *before, *unit;
        double scale;
        const struct xt_reading *reading;
    } parts[] = {
        {"", "% busy", 100, &shown.busy},
        {"", "W", 1, &shown.power},
        {"", "MHz", 1, &shown.frequency},
        {"at most ", "degrees", 1, &shown.temperature},
    };
    shown.energy.known = false;
    *text = '\0';
    if (shown.memory_used.known && figures->now.memory_total.known)
        xt_str_append_to(text, size, "memory at most %.1f of %.1f GB",
                         shown.memory_used.value / 1e9, figures->now.memory_total.value / 1e9);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].reading->known)
            xt_str_append_to(text, size, "%s%s%.0f %s", *text ? ", " : "", parts[i].before,
                             parts[i].scale * parts[i].reading->value, parts[i].unit);
    xt_figures_describe_sources(&shown, sources, sizeof sources);
    if (*text && *sources)
        xt_str_append_to(text, size, " (%s)", sources);
}
