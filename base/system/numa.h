/* NUMA nodes and their CPUs from /sys, and binding of threads and pages to a node, without libnuma.
 * If there is one node or /sys cannot be read, nothing is bound. Thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { XT_NUMA_NODES_MAX = 64, XT_NUMA_CPUS = 4096 };

/* A set of CPUs, one bit each. */
struct xt_cpus {
    uint64_t bits[XT_NUMA_CPUS / 64];
};

static inline bool xt_cpus_have(const struct xt_cpus *cpus, int cpu)
{
    return cpus->bits[cpu / 64] >> (cpu % 64) & 1;
}

struct xt_numa_node {
    int number; /* the system's */
    struct xt_cpus cpus;
};

struct xt_numa {
    int count; /* nodes with CPUs that this process may use; at least 1 */
    struct xt_numa_node nodes[XT_NUMA_NODES_MAX];
};

/* Parses "0-3,8,10-11", the system's format; false on anything else, also an empty list. */
bool xt_numa_parse_cpus(const char *text, struct xt_cpus *out);

/* `folder` NULL: the system's, /sys/devices/system/node. */
void xt_numa_read(struct xt_numa *out, const char *folder);

/* Binds the calling thread to the node's CPUs; a refusal of the system is ignored. */
void xt_numa_bind_thread(const struct xt_numa_node *node);

/* Migrates the whole pages in the range to the node, best effort. */
void xt_numa_bind_memory(const struct xt_numa_node *node, void *start, size_t bytes);
