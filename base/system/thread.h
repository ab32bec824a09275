/* Threads: how many this process may use, and a few tasks run side by side. */
#ifndef XT_BASE_SYSTEM_THREAD_H
#define XT_BASE_SYSTEM_THREAD_H

#include <pthread.h>

#include "base/err.h"

/* Starts a thread that no signal is delivered to: they stay the main thread's. `what` names it in
 * the error ("the transfer thread"). */
enum xt_status xt_thread_start(pthread_t *thread, void *(*work)(void *argument), void *argument,
                               const char *what, struct xt_err *err);

/* How many threads this process may keep busy: the least of its CPU affinity, the cgroup's CPU
 * limit (v1 or v2, rounded up) and SLURM_CPUS_PER_TASK; at least 1. *why (may be NULL) gets a
 * constant string that names the least. */
int xt_thread_available(const char **why);

/* The memory limit of the cgroup in bytes, or of the machine or of `ulimit -v` where that is less;
 * 0 if none can be read. */
unsigned long long xt_thread_memory_limit(void);

/* The memory that this process occupies now, in bytes; 0 if it cannot be read. */
unsigned long long xt_thread_memory_used(void);

/* The memory that this process can still have without swapping, in bytes: what the machine can give
 * (MemAvailable), or what its cgroup's limit or `ulimit -v` leaves where that is less; 0 if none
 * can be read. */
unsigned long long xt_thread_memory_available(void);

/* CPU time of the calling thread, in seconds. */
double xt_thread_cpu_seconds(void);

/* Seconds since some fixed moment, monotonic. */
double xt_thread_seconds(void);

#endif
