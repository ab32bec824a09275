#include "base/system/cgroup.h"

#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One of a list like "cpu,cpuacct"; "" matches the empty list, which is v2's. */
static bool is_listed(const char *list, const char *controller)
{
    size_t length = strlen(controller);
    for (;;) {
        size_t next = strcspn(list, ",");
        if (next == length && strncmp(list, controller, length) == 0)
            return true;
        if (!list[next])
            return false;
        list += next + 1;
    }
}

/* This process's group in a controller's hierarchy ("" is v2's), as /proc/self/cgroup gives it:
 * lines of NUMBER:CONTROLLERS:PATH. */
static void read_group(const char *root, const char *controller, char *out, size_t size)
{
    char text[4096];
    out[0] = '\0';
    snprintf(text, sizeof text, "%s/proc/self/cgroup", root);
    FILE *file = fopen(text, "re");
    if (!file)
        return;
    while (fgets(text, sizeof text, file)) {
        text[strcspn(text, "\n")] = '\0';
        char *list = strchr(text, ':');
        char *path = list ? strchr(list + 1, ':') : NULL;
        if (!path)
            continue;
        *path = '\0';
        if (is_listed(list + 1, controller)) {
            snprintf(out, size, "%s", path + 1);
            break;
        }
    }
    fclose(file);
}

/* The least value of `read_one` over this process's group and its ancestors. */
static double least_up_the_tree(const char *root, const char *mount, const char *controller,
                                double (*read_one)(const char *folder))
{
    char group[4096];
    double least = INFINITY;
    read_group(root, controller, group, sizeof group);
    for (;;) {
        char folder[8300];
        snprintf(folder, sizeof folder, "%s%s%s", root, mount, group);
        least = fmin(least, read_one(folder));
        char *slash = strrchr(group, '/');
        if (!slash)
            return least;
        *slash = '\0';
    }
}

/* The number at the start of the line that begins with `key` ("": the first line); NAN if there is
 * no number, as in "max". */
static double number_in(const char *folder, const char *name, const char *key)
{
    char path[8400];
    char line[256];
    double number = NAN;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (strncmp(line, key, strlen(key)) == 0) {
            char *end = NULL;
            number = strtod(line + strlen(key), &end);
            if (end == line + strlen(key))
                number = NAN;
            break;
        }
    if (file)
        fclose(file);
    return number;
}

static double number_or(double number, double other)
{
    return isnan(number) ? other : number;
}

static double cpus_v2(const char *folder)
{
    char path[8400];
    double quota = 0;
    double period = 0;
    snprintf(path, sizeof path, "%s/cpu.max", folder);
    FILE *file = fopen(path, "re");
    bool limited = file && fscanf(file, "%lf %lf", &quota, &period) == 2 && quota > 0 && period > 0;
    if (file)
        fclose(file);
    return limited ? quota / period : INFINITY;
}

static double cpus_v1(const char *folder)
{
    double quota = number_in(folder, "cpu.cfs_quota_us", "");
    double period = number_in(folder, "cpu.cfs_period_us", "");
    return quota > 0 && period > 0 ? quota / period : INFINITY;
}

static double limit_v2(const char *folder)
{
    return number_or(number_in(folder, "memory.max", ""), INFINITY);
}

static double limit_v1(const char *folder)
{
    return number_or(number_in(folder, "memory.limit_in_bytes", ""), INFINITY);
}

static double left(double limit, double taken, double idle)
{
    return fmax(limit - number_or(taken, 0) + number_or(idle, 0), 0);
}

static double left_v2(const char *folder)
{
    return left(limit_v2(folder), number_in(folder, "memory.current", ""),
                number_in(folder, "memory.stat", "inactive_file "));
}

static double left_v1(const char *folder)
{
    return left(limit_v1(folder), number_in(folder, "memory.usage_in_bytes", ""),
                number_in(folder, "memory.stat", "total_inactive_file "));
}

static double memory(const char *root, double (*v2)(const char *folder),
                     double (*v1)(const char *folder))
{
    double bytes = least_up_the_tree(root, "/sys/fs/cgroup", "", v2);
    return isfinite(bytes) ? bytes : least_up_the_tree(root, "/sys/fs/cgroup/memory", "memory", v1);
}

double xt_cgroup_cpus(const char *root)
{
    double cpus = least_up_the_tree(root, "/sys/fs/cgroup", "", cpus_v2);
    return isfinite(cpus) ? cpus : least_up_the_tree(root, "/sys/fs/cgroup/cpu", "cpu", cpus_v1);
}

double xt_cgroup_memory_limit(const char *root)
{
    return memory(root, limit_v2, limit_v1);
}

double xt_cgroup_memory_left(const char *root)
{
    return memory(root, left_v2, left_v1);
}
