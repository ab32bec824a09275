#include "base/system/thread.h"

#include <limits.h>
#include <math.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/system/cgroup.h"

static int from_affinity(void)
{
    /* More than CPU_SETSIZE, for machines of more than 1024 CPUs. */
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

static int from_cgroup(void)
{
    double cpus = ceil(xt_cgroup_cpus(""));
    return cpus < INT_MAX ? (int)cpus : INT_MAX;
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
    const char *name = "one, as their number cannot be read";
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        if (limits[i].count < count) {
            count = limits[i].count;
            name = limits[i].why;
        }
    if (why)
        *why = name;
    return count == INT_MAX ? 1 : count;
}

/* 0 for INFINITY, which is unknown. */
static unsigned long long known(double bytes)
{
    return bytes < 0x1p63 ? (unsigned long long)bytes : 0;
}

/* The limit of `ulimit -v`. */
static double address_limit(void)
{
    struct rlimit limit;
    return getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY ? INFINITY
                                                                           : (double)limit.rlim_cur;
}

unsigned long long xt_thread_memory_limit(void)
{
    double machine = (double)sysconf(_SC_PHYS_PAGES) * (double)sysconf(_SC_PAGE_SIZE);
    double limit = fmin(xt_cgroup_memory_limit(""), machine > 0 ? machine : INFINITY);
    return known(fmin(limit, address_limit()));
}

/* Mapped and resident pages; 0 if they cannot be read. */
static void count_pages(unsigned long long *addressed, unsigned long long *resident)
{
    FILE *file = fopen("/proc/self/statm", "re");
    *addressed = *resident = 0;
    if (file && fscanf(file, "%llu %llu", addressed, resident) != 2)
        *addressed = *resident = 0;
    if (file)
        fclose(file);
}

unsigned long long xt_thread_memory_used(void)
{
    unsigned long long addressed;
    unsigned long long resident;
    count_pages(&addressed, &resident);
    return resident * (unsigned long long)sysconf(_SC_PAGE_SIZE);
}

static double address_left(void)
{
    unsigned long long addressed;
    unsigned long long resident;
    if (isinf(address_limit()))
        return INFINITY;
    count_pages(&addressed, &resident);
    return fmax(1, address_limit() - (double)addressed * (double)sysconf(_SC_PAGE_SIZE));
}

unsigned long long xt_thread_address_left(void)
{
    return known(address_left());
}

static double machine_available(void)
{
    char line[128];
    double kilobytes = INFINITY;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %lf kB", &kilobytes) == 1)
            break;
    if (file)
        fclose(file);
    return kilobytes * 1024;
}

unsigned long long xt_thread_memory_available(void)
{
    return known(fmin(fmin(machine_available(), xt_cgroup_memory_left("")), address_left()));
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
        return xt_err_set(err, XT_ERR_MEMORY,
                          "%s cannot be started: %s; memory, or the number of threads and "
                          "processes, is limited (ulimit -v, ulimit -u, the cgroup's pids.max)",
                          what, strerror(error));
    return XT_OK;
}

/* Until the gate opens. */
static void *wait_at(void *gate)
{
    pthread_mutex_lock(gate);
    pthread_mutex_unlock(gate);
    return NULL;
}

enum xt_status xt_thread_check_room(int count, const char *what, struct xt_err *err)
{
    pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
    pthread_t *threads = NULL;
    int started = 0;
    enum xt_status status =
        xt_mem_calloc(&threads, (size_t)(count > 0 ? count : 0), sizeof *threads, what, err);
    pthread_mutex_lock(&gate);
    for (int i = 0; i < count && !status; i++) {
        status = xt_thread_start(&threads[i], wait_at, &gate, what, err);
        started += !status;
    }
    pthread_mutex_unlock(&gate);
    for (int i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    free(threads);
    return status;
}

double xt_thread_cpu_seconds(void)
{
    struct timespec used = {0};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec * 1e-9;
}
