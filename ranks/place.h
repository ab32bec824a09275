/* CPU placement of a host's ranks: each has its share of the cores, within one NUMA node if there
 * are more ranks than nodes.
 */
#ifndef XT_RANKS_PLACE_H
#define XT_RANKS_PLACE_H

#include <stdbool.h>

#include "base/system/numa.h"

/* The CPUs of rank `rank` of `ranks`: whole nodes if there are at least as many nodes as ranks,
 * else a part of one. CPUs of one core (equal core[cpu]) stay together if there are as many cores
 * as ranks. At least one CPU, shared if there are more ranks than CPUs. */
void xt_place_share(const struct xt_numa *numa, const int *core, int rank, int ranks,
                    struct xt_cpus *out);

/* Binds this process, and threads it starts from now on, to its share of the CPUs that the host's
 * ranks may use. A launcher's binding to disjoint CPUs is respected, unless `unbound`: it is the
 * launcher's default. */
void xt_place_rank(int rank, int ranks, bool unbound);

/* The CPUs that this process may use, in the system's format ("0-3,8"), truncated to the buffer. */
void xt_place_describe(char *out, size_t size);

#endif
