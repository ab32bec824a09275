/* Threads: starting them, how many this process may use, its memory and clocks. */
#pragma once

#include <pthread.h>

#include "base/err.h"

/* Starts a thread with all signals blocked: the main thread handles them. `what` names it in the
 * error ("the transfer thread"). */
enum xt_status xt_thread_start(pthread_t *thread, void *(*work)(void *argument), void *argument,
                               const char *what, struct xt_err *err);
/* Whether this many threads can be started now, for a library that ends the process if it cannot
 * start its own (libgomp). XT_ERR_MEMORY if not, from xt_thread_start too. */
enum xt_status xt_thread_check_room(int count, const char *what, struct xt_err *err);

/* The number of CPUs this process may use: the least of its affinity, the cgroup's CPU limit (v1 or
 * v2, rounded up) and SLURM_CPUS_PER_TASK; at least 1. *why (may be NULL) is set to a constant
 * string that names the least. */
int xt_thread_available(const char **why);

/* The least of the cgroup's memory limit, the machine's memory and `ulimit -v`, in bytes; 0 if none
 * can be read. */
unsigned long long xt_thread_memory_limit(void);

/* The address space that `ulimit -v` leaves, in bytes; 0 if it is unlimited. */
unsigned long long xt_thread_address_left(void);

/* This process's resident memory in bytes; 0 if it cannot be read. */
unsigned long long xt_thread_memory_used(void);

/* The memory that this process can still allocate without swapping, in bytes: the least of
 * MemAvailable and what the cgroup's limit and `ulimit -v` leave; 0 if none can be read. */
unsigned long long xt_thread_memory_available(void);

/* CPU time of the calling thread, in seconds. */
double xt_thread_cpu_seconds(void);

/* Seconds since some fixed moment, monotonic. */
double xt_thread_seconds(void);
