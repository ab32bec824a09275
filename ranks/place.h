/* CPU placement of a host's ranks. An affinity mask that the launcher or the user gave a rank
 * holds. Where all ranks have all CPUs each is bound to its share of the cores, within one NUMA
 * node if there are more ranks than nodes.
 */
#pragma once

#include <stdbool.h>

#include "base/system/numa.h"

/* The CPUs of rank `rank` of `ranks`: whole nodes if there are at least as many nodes as ranks,
 * else a part of one. CPUs of one core (equal core[cpu]) stay together if there are as many cores
 * as ranks. At least one CPU, shared if there are more ranks than CPUs. */
void xt_place_share(const struct xt_numa *numa, const int *core, int rank, int ranks,
                    struct xt_cpus *out);

/* A rank's affinity mask, and the CPUs that it could be given: the host's or its cgroup's. Empty if
 * they cannot be read. */
struct xt_rank_cpus {
    struct xt_cpus own, allowed;
};

struct xt_rank_cpus xt_place_read(void);

/* Of the ranks of one host. */
/* Whether none is bound: each may use all CPUs that it could be given. */
bool xt_place_is_free(const struct xt_rank_cpus *places, int ranks);
/* The CPUs of a rank divided by the ranks that have the same; at least 1. */
int xt_place_threads(const struct xt_rank_cpus *places, int ranks, int rank);
/* The number of CPUs that no rank may use. */
int xt_place_idle(const struct xt_rank_cpus *places, int ranks);

/* Binds this process, and threads it starts from now on, to its share of the CPUs that it may use.
 */
void xt_place_bind(int rank, int ranks);

/* The CPUs that this process may use, in the system's format ("0-3,8"), truncated to the buffer. */
void xt_place_describe(char *out, size_t size);
