#include "device/faults/watchdog.h"

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/system/thread.h"
#include "device/faults/guard.h"

enum { STEPS = 31, SHORTEST = 600 /* seconds */ };

static struct {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    int users; /* that began and have not ended */
    bool ends;
    double given;
    double cpu, checked; /* the process' CPU time at the newest check, and when that was */
    double computed;     /* when it had last computed since the check before */
    double steps[STEPS]; /* the newest */
    size_t count;
} watchdog = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct xt_watchdog_limits xt_watchdog_limits(double median, double given)
{
    double end = given > 0 ? given : fmax(SHORTEST, 100 * median);
    return (struct xt_watchdog_limits){.say = fmin(end, fmax(end / 10, 1)), .end = end};
}

static int by_size(const void *a, const void *b)
{
    double x = *(const double *)a;
    double y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median_of_steps(void)
{
    double sorted[STEPS];
    size_t count = watchdog.count < STEPS ? watchdog.count : STEPS;
    memcpy(sorted, watchdog.steps, count * sizeof *sorted);
    qsort(sorted, count, sizeof *sorted, by_size);
    return count ? sorted[count / 2] : 0;
}

static void warn(const struct xt_guard_pending *pending, const struct xt_watchdog_limits *limits)
{
    char name[128];
    char what[256];
    char ops[512];
    xt_guard_device(name, sizeof name);
    xt_guard_describe(pending, what, sizeof what);
    xt_guard_last_ops(ops, sizeof ops);
    xt_log_warn(
        "%s has not responded for %.0f s, in %s%s%s; after %.0f s the run ends (--device-timeout)",
        name, pending->seconds, what, *ops ? "; last work submitted: " : "", ops, limits->end);
}

static const char *remedy_for(const struct xt_guard_pending *pending)
{
    if (xt_guard_is_opening())
        return "";
    return *pending->kernel
               ? "; if it only takes long, --device-timeout gives more time; else ONEAPI_DEVICE_"
                 "SELECTOR may name the other back end, and \"xtrain doctor\" tries both"
               : "; \"sudo dmesg\" says whether the GPU was reset; if it is only slow, "
                 "--device-timeout gives more time";
}

static void end(const struct xt_guard_pending *pending)
{
    char why[640];
    char what[256];
    char since[16];
    struct tm local;
    time_t then = time(NULL) - (time_t)pending->seconds;
    localtime_r(&then, &local);
    strftime(since, sizeof since, "%H:%M:%S", &local);
    xt_guard_describe(pending, what, sizeof what);
    snprintf(why, sizeof why, "it has not answered for %.0f s, since %s, in %s%s", pending->seconds,
             since, what, remedy_for(pending));
    xt_guard_give_up(why);
}

/* The seconds, up to now, in which the process has hardly computed: less than a fiftieth of the
 * time since the check before, which is more than this thread takes and less than a busy machine
 * gives. */
static double idle_seconds(void)
{
    struct timespec time;
    const double now = xt_thread_seconds();
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    const double cpu = (double)time.tv_sec + (double)time.tv_nsec / 1e9;
    if (cpu - watchdog.cpu > 0.02 * (now - watchdog.checked))
        watchdog.computed = now;
    watchdog.cpu = cpu;
    watchdog.checked = now;
    return now - watchdog.computed;
}

/* Under the lock. A compiler that computes is not taken for one that hangs before ten minutes. */
static void check(bool *warned)
{
    struct xt_guard_pending pending;
    xt_guard_longest(&pending);
    struct xt_watchdog_limits limits = xt_watchdog_limits(median_of_steps(), watchdog.given);
    if (idle_seconds() < limits.end && *pending.kernel)
        limits = xt_watchdog_limits(0, fmax(limits.end, SHORTEST));
    if (!pending.what || pending.seconds < limits.say) {
        *warned = false;
    } else if (pending.seconds >= limits.end) {
        end(&pending);
        watchdog.ends = true; /* a library's handler returns */
    } else if (!*warned) {
        warn(&pending, &limits);
        *warned = true;
    }
}

static void *watch(void *argument)
{
    bool warned = false;
    (void)argument;
    pthread_mutex_lock(&watchdog.lock);
    while (!watchdog.ends) {
        struct timespec until;
        clock_gettime(CLOCK_MONOTONIC, &until);
        until.tv_nsec += 250000000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
        pthread_cond_timedwait(&watchdog.changed, &watchdog.lock, &until);
        if (!watchdog.ends)
            check(&warned);
    }
    pthread_mutex_unlock(&watchdog.lock);
    return NULL;
}

void xt_watchdog_set_timeout(double seconds)
{
    watchdog.given = seconds;
}

unsigned xt_watchdog_seconds(unsigned usual)
{
    return watchdog.given > usual ? (unsigned)watchdog.given + 1 : usual;
}

static enum xt_status start(struct xt_err *err)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&watchdog.changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    watchdog.ends = false;
    watchdog.count = 0;
    return xt_thread_start(&watchdog.thread, watch, NULL, "the watchdog", err);
}

enum xt_status xt_watchdog_begin(struct xt_err *err)
{
    enum xt_status status = XT_OK;
    pthread_mutex_lock(&watchdog.lock);
    if (watchdog.users == 0)
        status = start(err);
    if (!status)
        watchdog.users++;
    pthread_mutex_unlock(&watchdog.lock);
    return status;
}

void xt_watchdog_end(void)
{
    pthread_mutex_lock(&watchdog.lock);
    bool last = watchdog.users > 0 && --watchdog.users == 0;
    if (last) {
        watchdog.ends = true;
        pthread_cond_signal(&watchdog.changed);
    }
    pthread_mutex_unlock(&watchdog.lock);
    if (!last)
        return;
    pthread_join(watchdog.thread, NULL);
    pthread_cond_destroy(&watchdog.changed);
}

const char *xt_watchdog_begin_query(const char *phase)
{
    xt_watchdog_begin(NULL);
    xt_guard_set_device("the GPU's driver");
    xt_guard_set_phase(phase);
    xt_guard_catch_crashes();
    return xt_guard_enter("the start of the driver");
}

void xt_watchdog_end_query(const char *outer)
{
    xt_guard_leave(outer);
    xt_guard_set_phase(NULL);
    xt_watchdog_end();
}

void xt_watchdog_step(double seconds)
{
    pthread_mutex_lock(&watchdog.lock);
    watchdog.steps[watchdog.count++ % STEPS] = seconds;
    pthread_mutex_unlock(&watchdog.lock);
}
