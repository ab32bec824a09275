#include "ranks/place.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

static void add_cpu(struct xt_cpus *cpus, int cpu)
{
    cpus->bits[cpu / 64] |= 1ULL << (cpu % 64);
}

struct place {
    int core, cpu;
};

static int compare_places(const void *a, const void *b)
{
    const struct place *one = a;
    const struct place *other = b;
    return one->core != other->core ? one->core - other->core : one->cpu - other->cpu;
}

/* A node's CPUs, those of a core adjacent; returns their number. */
static int list_by_core(const struct xt_cpus *cpus, const int *core, struct place *list)
{
    int count = 0;
    for (int cpu = 0; cpu < XT_NUMA_CPUS; cpu++)
        if (xt_cpus_have(cpus, cpu))
            list[count++] = (struct place){.core = core[cpu], .cpu = cpu};
    qsort(list, (size_t)count, sizeof *list, compare_places);
    return count;
}

static bool begins_core(const struct place *list, int i)
{
    return i == 0 || list[i].core != list[i - 1].core;
}

static int count_cores(const struct place *list, int count)
{
    int cores = 0;
    for (int i = 0; i < count; i++)
        cores += begins_core(list, i);
    return cores;
}

/* Share `part` of `parts` of a list, by whole cores if there are enough. */
static void take_part(const struct place *list, int count, int part, int parts, struct xt_cpus *out)
{
    int cores = count_cores(list, count);
    bool by_core = cores >= parts;
    long all = by_core ? cores : count;
    long first = all * part / parts;
    long end = all * (part + 1) / parts;
    if (end == first) /* more ranks than CPUs */
        end = first + 1;
    long at = -1;
    for (int i = 0; i < count; i++) {
        at += !by_core || begins_core(list, i);
        if (at >= first && at < end)
            add_cpu(out, list[i].cpu);
    }
}

void xt_place_share(const struct xt_numa *numa, const int *core, int rank, int ranks,
                    struct xt_cpus *out)
{
    *out = (struct xt_cpus){{0}};
    int nodes = numa->count;
    if (ranks <= nodes) {
        for (int node = nodes * rank / ranks; node < nodes * (rank + 1) / ranks; node++)
            for (size_t i = 0; i < XT_NUMA_CPUS / 64; i++)
                out->bits[i] |= numa->nodes[node].cpus.bits[i];
        return;
    }
    /* Rank r is on node r * nodes / ranks, which it shares with others. */
    struct place list[XT_NUMA_CPUS];
    int node = (int)((long)rank * nodes / ranks);
    int first = (int)(((long)node * ranks + nodes - 1) / nodes);
    int end = (int)(((long)(node + 1) * ranks + nodes - 1) / nodes);
    int count = list_by_core(&numa->nodes[node].cpus, core, list);
    take_part(list, count, rank - first, end - first, out);
}

/* The first CPU of each CPU's core; the CPU itself if that cannot be read. */
static void read_cores(int *core)
{
    for (int cpu = 0; cpu < XT_NUMA_CPUS; cpu++) {
        char path[96];
        core[cpu] = cpu;
        snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list",
                 cpu);
        FILE *file = fopen(path, "re");
        if (!file)
            continue;
        int first = 0;
        if (fscanf(file, "%d", &first) == 1 && first >= 0 && first < XT_NUMA_CPUS)
            core[cpu] = first;
        fclose(file);
    }
}

static bool read_affinity(struct xt_cpus *out)
{
    *out = (struct xt_cpus){{0}};
    return sched_getaffinity(0, sizeof out->bits, (cpu_set_t *)(void *)out->bits) == 0;
}

static void set_affinity(const struct xt_cpus *cpus)
{
    /* A refusal of the system is ignored. */
    (void)sched_setaffinity(0, sizeof cpus->bits, (const cpu_set_t *)(const void *)cpus->bits);
}

/* The CPUs that the kernel lets this process take: the system's, or those of its cgroup. */
static bool read_allowed(const struct xt_cpus *before, struct xt_cpus *out)
{
    struct xt_cpus all;
    memset(&all, 0xFF, sizeof all);
    set_affinity(&all);
    bool read = read_affinity(out);
    set_affinity(before);
    return read;
}

static int count_cpus(const struct xt_cpus *cpus)
{
    int count = 0;
    for (size_t i = 0; i < XT_NUMA_CPUS / 64; i++)
        count += __builtin_popcountll(cpus->bits[i]);
    return count;
}

struct xt_rank_cpus xt_place_read(void)
{
    struct xt_rank_cpus place;
    _Static_assert(sizeof(unsigned long) == sizeof place.own.bits[0],
                   "a kernel's CPU set is longs");
    if (!read_affinity(&place.own) || !read_allowed(&place.own, &place.allowed))
        return (struct xt_rank_cpus){{{0}}, {{0}}};
    return place;
}

static bool is_same(const struct xt_cpus *a, const struct xt_cpus *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

bool xt_place_is_free(const struct xt_rank_cpus *places, int ranks)
{
    for (int i = 0; i < ranks; i++)
        if (!is_same(&places[i].own, &places[i].allowed))
            return false;
    return true;
}

int xt_place_threads(const struct xt_rank_cpus *places, int ranks, int rank)
{
    int sharers = 1;
    for (int i = 0; i < ranks; i++)
        sharers += i != rank && is_same(&places[i].own, &places[rank].own);
    int threads = count_cpus(&places[rank].own) / sharers;
    return threads ? threads : 1;
}

int xt_place_idle(const struct xt_rank_cpus *places, int ranks)
{
    struct xt_cpus used = {{0}};
    for (int i = 0; i < ranks; i++)
        for (size_t k = 0; k < XT_NUMA_CPUS / 64; k++)
            used.bits[k] |= places[i].own.bits[k];
    return count_cpus(&places[0].allowed) - count_cpus(&used);
}

void xt_place_bind(int rank, int ranks)
{
    struct xt_cpus own;
    struct xt_numa numa;
    int core[XT_NUMA_CPUS];
    read_cores(core);
    xt_numa_read(&numa, NULL);
    xt_place_share(&numa, core, rank, ranks, &own);
    set_affinity(&own);
}

void xt_place_describe(char *out, size_t size)
{
    struct xt_cpus cpus;
    *out = '\0';
    if (!read_affinity(&cpus))
        return;
    for (int cpu = 0; cpu < XT_NUMA_CPUS; cpu++) {
        if (!xt_cpus_have(&cpus, cpu))
            continue;
        int last = cpu;
        while (last + 1 < XT_NUMA_CPUS && xt_cpus_have(&cpus, last + 1))
            last++;
        if (last == cpu)
            xt_str_append_to(out, size, "%s%d", *out ? "," : "", cpu);
        else
            xt_str_append_to(out, size, "%s%d-%d", *out ? "," : "", cpu, last);
        cpu = last;
    }
}
