#include "base/system/numa.h"

#include <dirent.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Of linux/mempolicy.h, which not every system has. */
enum { PREFERRED = 1, MOVE = 2 };

static bool has_any(const struct xt_cpus *cpus)
{
    uint64_t all = 0;
    for (size_t i = 0; i < XT_NUMA_CPUS / 64; i++)
        all |= cpus->bits[i];
    return all != 0;
}

/* A number below XT_NUMA_CPUS, or -1. */
static int parse_number(const char **text)
{
    int value = -1;
    for (; **text >= '0' && **text <= '9' && value < XT_NUMA_CPUS; ++*text)
        value = (value < 0 ? 0 : value) * 10 + (**text - '0');
    return value < XT_NUMA_CPUS ? value : -1;
}

bool xt_numa_parse_cpus(const char *text, struct xt_cpus *out)
{
    *out = (struct xt_cpus){{0}};
    while (*text && *text != '\n') {
        int first = parse_number(&text);
        int last = first;
        if (*text == '-') {
            text++;
            last = parse_number(&text);
        }
        if (first < 0 || last < first || (*text && *text != ',' && *text != '\n'))
            return false;
        for (int cpu = first; cpu <= last; cpu++)
            out->bits[cpu / 64] |= 1ULL << (cpu % 64);
        if (*text == ',' && (text[1] < '0' || text[1] > '9'))
            return false;
        text += *text == ',';
    }
    return true;
}

/* The CPUs that this process may run on; all if that cannot be read. */
static void read_allowed(struct xt_cpus *out)
{
    memset(out, 0xFF, sizeof *out);
    cpu_set_t *set = CPU_ALLOC(XT_NUMA_CPUS);
    if (set && sched_getaffinity(0, CPU_ALLOC_SIZE(XT_NUMA_CPUS), set) == 0)
        for (int cpu = 0; cpu < XT_NUMA_CPUS; cpu++)
            if (!CPU_ISSET_S((size_t)cpu, CPU_ALLOC_SIZE(XT_NUMA_CPUS), set))
                out->bits[cpu / 64] &= ~(1ULL << (cpu % 64));
    if (set)
        CPU_FREE(set);
}

/* The allowed CPUs of node `number`; false if there are none. */
static bool read_node(const char *folder, int number, const struct xt_cpus *allowed,
                      struct xt_cpus *out)
{
    char path[4096];
    char line[4096];
    snprintf(path, sizeof path, "%s/node%d/cpulist", folder, number);
    FILE *file = fopen(path, "re");
    bool good = file && fgets(line, sizeof line, file) && xt_numa_parse_cpus(line, out);
    if (file)
        fclose(file);
    for (size_t i = 0; good && i < XT_NUMA_CPUS / 64; i++)
        out->bits[i] &= allowed->bits[i];
    return good && has_any(out);
}

static int compare_nodes(const void *a, const void *b)
{
    return ((const struct xt_numa_node *)a)->number - ((const struct xt_numa_node *)b)->number;
}

void xt_numa_read(struct xt_numa *out, const char *folder)
{
    struct xt_cpus allowed;
    *out = (struct xt_numa){0};
    read_allowed(&allowed);
    if (!folder)
        folder = "/sys/devices/system/node";
    DIR *dir = opendir(folder);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        int number = 0;
        int end = 0;
        struct xt_numa_node *node = &out->nodes[out->count];
        if (sscanf(entry->d_name, "node%5d%n", &number, &end) != 1 || entry->d_name[end] ||
            number < 0 || out->count == XT_NUMA_NODES_MAX ||
            !read_node(folder, number, &allowed, &node->cpus))
            continue;
        node->number = number;
        out->count++;
    }
    if (dir)
        closedir(dir);
    qsort(out->nodes, (size_t)out->count, sizeof *out->nodes, compare_nodes);
    if (out->count)
        return;
    out->count = 1;
    out->nodes[0] = (struct xt_numa_node){.cpus = allowed};
}

void xt_numa_bind_thread(const struct xt_numa_node *node)
{
    cpu_set_t *set = CPU_ALLOC(XT_NUMA_CPUS);
    if (!set)
        return;
    CPU_ZERO_S(CPU_ALLOC_SIZE(XT_NUMA_CPUS), set);
    for (int cpu = 0; cpu < XT_NUMA_CPUS; cpu++)
        if (xt_cpus_have(&node->cpus, cpu))
            CPU_SET_S((size_t)cpu, CPU_ALLOC_SIZE(XT_NUMA_CPUS), set);
    /* 0 is the calling thread. */
    (void)sched_setaffinity(0, CPU_ALLOC_SIZE(XT_NUMA_CPUS), set);
    CPU_FREE(set);
}

void xt_numa_bind_memory(const struct xt_numa_node *node, void *start, size_t bytes)
{
    unsigned long mask[16] = {0}; /* of nodes */
    enum { BITS = 8 * (int)sizeof mask[0] };
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = ((uintptr_t)start + page - 1) / page * page;
    uintptr_t end = ((uintptr_t)start + bytes) / page * page;
    if (node->number >= (int)(sizeof mask / sizeof mask[0]) * BITS || end <= from)
        return;
    mask[node->number / BITS] = 1UL << (node->number % BITS);
    (void)syscall(SYS_mbind, from, end - from, PREFERRED, mask, 8 * sizeof mask, MOVE);
}
