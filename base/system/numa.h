/* Which CPUs belong to which memory (NUMA nodes), as Linux shows it under /sys, and the two calls
 * that keep a thread beside its memory. No library is needed. On a machine of one node, or where
 * nothing can be read, there is one node and nothing is bound. Thread-safe.
 */
#ifndef XT_BASE_SYSTEM_NUMA_H
#define XT_BASE_SYSTEM_NUMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { XT_NUMA_NODES_MAX = 64, XT_NUMA_CPUS = 4096 };

/* A set of CPUs, a bit each. */
struct xt_cpus {
    uint64_t bits[XT_NUMA_CPUS / 64];
};

struct xt_numa_node {
    int number; /* the system's */
    struct xt_cpus cpus;
};

struct xt_numa {
    int count; /* of the nodes that have CPUs which this process may use; at least 1 */
    struct xt_numa_node nodes[XT_NUMA_NODES_MAX];
};

/* "0-3,8,10-11" as the system writes it; false where it is something else. An empty list is none.
 */
bool xt_numa_parse_cpus(const char *text, struct xt_cpus *out);

/* `folder` NULL: the system's, /sys/devices/system/node. */
void xt_numa_read(struct xt_numa *out, const char *folder);

/* Keeps the calling thread on the node's CPUs. What the system refuses is left as it is. */
void xt_numa_bind_thread(const struct xt_numa_node *node);

/* Brings the whole pages between to the node's memory, as far as the system does it. */
void xt_numa_bind_memory(const struct xt_numa_node *node, void *start, size_t bytes);

#endif
