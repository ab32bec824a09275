#include "base/thread.h"

#include <limits.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static int from_affinity(void)
{
    /* Larger than CPU_SETSIZE serves machines of more than 1024 CPUs. */
    enum { CPUS = 8192 };
    cpu_set_t *set = CPU_ALLOC(CPUS);
    if (!set)
        return INT_MAX;
    int count = INT_MAX;
    if (sched_getaffinity(0, CPU_ALLOC_SIZE(CPUS), set) == 0)
        count = CPU_COUNT_S(CPU_ALLOC_SIZE(CPUS), set);
    CPU_FREE(set);
    return count;
}

/* The first line of `path` into `line`; 0 where it cannot be read. */
static int first_line(const char *path, char *line, int size)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return 0;
    int ok = fgets(line, size, file) != NULL;
    fclose(file);
    return ok;
}

/* This process's cgroup path for a controller ("" is the v2 hierarchy), as /proc/self/cgroup gives
 * it. */
static void cgroup_path(const char *controller, char *out, size_t size)
{
    out[0] = '\0';
    FILE *file = fopen("/proc/self/cgroup", "re");
    if (!file)
        return;
    char line[4096];
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = '\0';
        char *name = strchr(line, ':');
        char *path = name ? strchr(name + 1, ':') : NULL;
        if (!path)
            continue;
        *path++ = '\0';
        name++;
        if (controller[0] ? strstr(name, controller) != NULL : name[0] == '\0') {
            snprintf(out, size, "%s", path);
            break;
        }
    }
    fclose(file);
}

/* Calls read_one for the process's own group and each group above it (a limit anywhere above
 * binds). */
static double least_up_the_tree(const char *mount, const char *controller,
                                double (*read_one)(const char *folder))
{
    char group[4096];
    cgroup_path(controller, group, sizeof group);
    double least = 0;
    for (;;) {
        char folder[4200];
        snprintf(folder, sizeof folder, "%s%s", mount, group);
        double value = read_one(folder);
        if (value > 0 && (least <= 0 || value < least))
            least = value;
        char *slash = strrchr(group, '/');
        if (!slash)
            return least;
        *slash = '\0';
    }
}

static double cpus_v2(const char *folder)
{
    char path[4300];
    char line[128];
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    double quota = 0;
    double period = 0;
    if (first_line(path, line, sizeof line) && sscanf(line, "%lf %lf", &quota, &period) == 2 &&
        period > 0)
        return quota / period;
    return 0;
}

static double cpus_v1(const char *folder)
{
    char path[4300];
    char quota[128];
    char period[128];
    snprintf(path, sizeof path, "%s/cpu.cfs_quota_us", folder);
    if (!first_line(path, quota, sizeof quota))
        return 0;
    snprintf(path, sizeof path, "%s/cpu.cfs_period_us", folder);
    if (!first_line(path, period, sizeof period))
        return 0;
    double used = strtod(quota, NULL);
    double whole = strtod(period, NULL);
    return used > 0 && whole > 0 ? used / whole : 0;
}

static double number_in(const char *folder, const char *name)
{
    char path[4300];
    char line[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return first_line(path, line, sizeof line) ? strtod(line, NULL) : 0;
}

static double memory_v2(const char *folder)
{
    return number_in(folder, "memory.max");
}

static double memory_v1(const char *folder)
{
    return number_in(folder, "memory.limit_in_bytes");
}

static int from_cgroup(void)
{
    double cpus = least_up_the_tree("/sys/fs/cgroup", "", cpus_v2);
    if (cpus <= 0)
        cpus = least_up_the_tree("/sys/fs/cgroup/cpu", "cpu", cpus_v1);
    if (cpus <= 0 || cpus > INT_MAX)
        return INT_MAX;
    int whole = (int)cpus;
    return whole < cpus ? whole + 1 : whole;
}

static int from_slurm(void)
{
    const char *text = getenv("SLURM_CPUS_PER_TASK");
    long count = text ? strtol(text, NULL, 10) : 0;
    return count > 0 && count < INT_MAX ? (int)count : INT_MAX;
}

int xt_thread_available(const char **why)
{
    struct {
        int count;
        const char *why;
    } limits[] = {
        {from_affinity(), "CPU affinity"},
        {from_cgroup(), "the cgroup's CPU limit"},
        {from_slurm(), "SLURM_CPUS_PER_TASK"},
    };
    int count = INT_MAX;
    const char *name = "one, as nothing says how many";
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        if (limits[i].count < count) {
            count = limits[i].count;
            name = limits[i].why;
        }
    if (why)
        *why = name;
    return count == INT_MAX ? 1 : count;
}

unsigned long long xt_thread_memory_limit(void)
{
    double limit = least_up_the_tree("/sys/fs/cgroup", "", memory_v2);
    if (limit <= 0)
        limit = least_up_the_tree("/sys/fs/cgroup/memory", "memory", memory_v1);
    double machine = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGE_SIZE);
    if (machine > 0 && (limit <= 0 || machine < limit))
        limit = machine;
    return limit > 0 ? (unsigned long long)limit : 0;
}

unsigned long long xt_thread_memory_used(void)
{
    char line[128];
    unsigned long long resident = 0;
    if (!first_line("/proc/self/statm", line, sizeof line) ||
        sscanf(line, "%*u %llu", &resident) != 1)
        return 0;
    return resident * (unsigned long long)sysconf(_SC_PAGE_SIZE);
}

static unsigned long long machine_available(void)
{
    char line[128];
    unsigned long long kilobytes = 0;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %llu kB", &kilobytes) == 1)
            break;
    if (file)
        fclose(file);
    return kilobytes * 1024;
}

unsigned long long xt_thread_memory_available(void)
{
    unsigned long long machine = machine_available();
    unsigned long long limit = xt_thread_memory_limit();
    unsigned long long used = xt_thread_memory_used();
    unsigned long long left = limit > used ? limit - used : 0;
    return !machine || (limit && left < machine) ? left : machine;
}

double xt_thread_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

enum xt_status xt_thread_start(pthread_t *thread, void *(*work)(void *argument), void *argument,
                               const char *what, struct xt_err *err)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int error = pthread_create(thread, NULL, work, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (error)
        return xt_err_set(err, XT_ERR_RUN, "%s cannot be started: %s", what, strerror(error));
    return XT_OK;
}
