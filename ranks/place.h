/* Which CPUs each of a host's ranks computes on: its share of the cores, within a NUMA node as far
 * as there are fewer nodes than ranks.
 */
#ifndef XT_RANKS_PLACE_H
#define XT_RANKS_PLACE_H

#include <stdbool.h>

#include "base/system/numa.h"

/* The CPUs of rank `rank` of `ranks`: those of some whole nodes where there are as many nodes, else
 * a part of one. CPUs of one core (core[cpu] is the same) stay together where there are as many
 * cores as ranks. At least one CPU, which ranks share where they are too many. */
void xt_place_share(const struct xt_numa *numa, const int *core, int rank, int ranks,
                    struct xt_cpus *out);

/* Keeps this process, and the threads that it starts from now on, on its share of what the host's
 * ranks may use together; where the launcher has bound each to CPUs of its own that stays, unless
 * `unbound`: nobody asked for it. */
void xt_place_rank(int rank, int ranks, bool unbound);

/* The CPUs that this process may use, as the system writes them ("0-3,8"), as far as there is room.
 */
void xt_place_describe(char *out, size_t size);

#endif
