#include "device/faults/watchdog.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/system/thread.h"
#include "device/faults/guard.h"

enum { STEPS = 31 };

struct xt_watchdog {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool ends;
    char device[128];
    double given;
    double steps[STEPS]; /* the newest */
    size_t count;
};

struct xt_watchdog_limits xt_watchdog_limits(double median, double given)
{
    const double shortest = 600;
    double end = given > 0 ? given : fmax(shortest, 100 * median);
    return (struct xt_watchdog_limits){.say = end / 10, .end = end};
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of(const struct xt_watchdog *watchdog)
{
    double sorted[STEPS];
    size_t count = watchdog->count < STEPS ? watchdog->count : STEPS;
    memcpy(sorted, watchdog->steps, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_size);
    return sorted[count / 2];
}

static void warn(const struct xt_watchdog *watchdog, const char *what, double seconds,
                 const struct xt_watchdog_limits *limits)
{
    char ops[512];
    xt_guard_last_ops(ops, sizeof ops);
    xt_log_warn("%s has not responded for %.0f s, in %s; last work submitted: %s; after %.0f s "
                "the run ends (--device-timeout)",
                watchdog->device, seconds, what, *ops ? ops : "nothing", limits->end);
}

static void check(const struct xt_watchdog *watchdog, bool *warned)
{
    const char *what = "";
    double seconds = xt_guard_waiting(&what);
    if (watchdog->count == 0)
        return;
    struct xt_watchdog_limits limits = xt_watchdog_limits(median_of(watchdog), watchdog->given);
    if (seconds >= limits.end) {
        char why[128];
        snprintf(why, sizeof why, "it has not answered for %.0f s, in %s", seconds, what);
        xt_guard_give_up(why);
    } else if (seconds >= limits.say && !*warned) {
        warn(watchdog, what, seconds, &limits);
        *warned = true;
    } else if (seconds < limits.say) {
        *warned = false;
    }
}

static void *watch(void *argument)
{
    struct xt_watchdog *watchdog = argument;
    bool warned = false;
    pthread_mutex_lock(&watchdog->lock);
    while (!watchdog->ends) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += 500000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&watchdog->changed, &watchdog->lock, &until);
        if (!watchdog->ends)
            check(watchdog, &warned);
    }
    pthread_mutex_unlock(&watchdog->lock);
    return NULL;
}

enum xt_status xt_watchdog_start(struct xt_watchdog **out, const struct xt_device *device,
                                 double given, struct xt_err *err)
{
    pthread_condattr_t monotonic;
    *out = NULL;
    if (!device->own_memory)
        return XT_OK;
    struct xt_watchdog *watchdog = NULL;
    enum xt_status status = xt_mem_calloc(&watchdog, 1, sizeof *watchdog, "the watchdog", err);
    if (status)
        return status;
    watchdog->given = given;
    snprintf(watchdog->device, sizeof watchdog->device, "%s", device->name);
    pthread_mutex_init(&watchdog->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&watchdog->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    status = xt_thread_start(&watchdog->thread, watch, watchdog, "the watchdog", err);
    if (!status) {
        *out = watchdog;
        return XT_OK;
    }
    pthread_cond_destroy(&watchdog->changed);
    pthread_mutex_destroy(&watchdog->lock);
    free(watchdog);
    return status;
}

void xt_watchdog_stop(struct xt_watchdog *watchdog)
{
    if (!watchdog)
        return;
    pthread_mutex_lock(&watchdog->lock);
    watchdog->ends = true;
    pthread_cond_signal(&watchdog->changed);
    pthread_mutex_unlock(&watchdog->lock);
    pthread_join(watchdog->thread, NULL);
    pthread_cond_destroy(&watchdog->changed);
    pthread_mutex_destroy(&watchdog->lock);
    free(watchdog);
}

void xt_watchdog_step(struct xt_watchdog *watchdog, double seconds)
{
    if (!watchdog)
        return;
    pthread_mutex_lock(&watchdog->lock);
    watchdog->steps[watchdog->count++ % STEPS] = seconds;
    pthread_mutex_unlock(&watchdog->lock);
}
