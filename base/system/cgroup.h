/* Limits of this process's control group and of its ancestors (v2, else v1).
 *
 * `root` is prepended to /proc and /sys: "" outside tests. Thread-safe; INFINITY if there is no
 * limit or it cannot be read.
 */
#pragma once

/* CPU time per wall-clock time: 1.5 is one and a half CPUs. */
double xt_cgroup_cpus(const char *root);

/* Bytes. */
double xt_cgroup_memory_limit(const char *root);
/* Bytes until the first of these limits is reached. Inactive file pages count as free, since the
 * kernel reclaims them. */
double xt_cgroup_memory_left(const char *root);
