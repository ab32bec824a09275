/* What the control groups of this process allow: its own group's limits, and those of each group
 * above it, which bind it as well (v2, and v1 where v2 says nothing).
 *
 * `root` is put before /proc and /sys: "" for the machine's. Every function is thread-safe; no
 * limit, and one that cannot be read, is INFINITY.
 */
#ifndef XT_BASE_SYSTEM_CGROUP_H
#define XT_BASE_SYSTEM_CGROUP_H

/* CPUs' worth of time: 1.5 is three half of the time. */
double xt_cgroup_cpus(const char *root);

/* Bytes. */
double xt_cgroup_memory_limit(const char *root);
/* Bytes that can be had until the first of these limits is met, whichever process took the rest.
 * Pages of files that were not used of late count as free: the kernel gives them up. */
double xt_cgroup_memory_left(const char *root);

#endif
