#include "base/system/energy.h"

#include <errno.h>
#include <dirent.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

static const char counter_name[] = "energy_uj";

bool xt_energy_read_number(const char *path, double *out)
{
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    errno = EINVAL;
    bool fine = fscanf(file, "%lf", out) == 1 && isfinite(*out);
    fclose(file);
    return fine;
}

/* "intel-rapl:0" is a package (AMD's too), "intel-rapl:0:1" a part of one. */
static bool is_package(const char *name)
{
    return xt_str_starts(name, "intel-rapl:") && strchr(name, ':') == strrchr(name, ':');
}

/* The kernel's counters have 64 bits. */
static bool read_counter(const char *path, double *microjoules)
{
    if (!xt_energy_read_number(path, microjoules))
        return false;
    errno = ERANGE;
    return *microjoules >= 0 && *microjoules < 0x1p64;
}

static void add_file(struct xt_energy *energy, const char *path)
{
    char *file = energy->files[energy->count];
    size_t room = sizeof energy->files[0];
    if ((size_t)snprintf(file, room, "%s", path) >= room)
        return;
    if (read_counter(file, &energy->last[energy->count]))
        energy->count++;
    else
        snprintf(energy->why, sizeof energy->why, "%.190s cannot be read (%s)", file,
                 strerror(errno));
}

void xt_energy_open(struct xt_energy *energy, const char *root)
{
    char path[512];
    root = root ? root : "/sys/class/powercap";
    *energy = (struct xt_energy){0};
    snprintf(energy->why, sizeof energy->why, "%.150s names no CPU package", root);
    DIR *dir = opendir(root);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        if (!is_package(entry->d_name) || energy->count == XT_ENERGY_COUNTERS_MAX)
            continue;
        snprintf(path, sizeof path, "%.200s/%s/%s", root, entry->d_name, counter_name);
        add_file(energy, path);
    }
    if (dir)
        closedir(dir);
    if (energy->count)
        energy->why[0] = '\0';
}

void xt_energy_open_file(struct xt_energy *energy, const char *path)
{
    *energy = (struct xt_energy){0};
    add_file(energy, path);
}

/* The value at which a package's counter wraps; false for a counter that does not wrap. */
static bool read_range(const char *file, double *range)
{
    char path[256];
    size_t folder = strlen(file) - strlen(xt_str_ends(file, counter_name) ? counter_name : "");
    snprintf(path, sizeof path, "%.*smax_energy_range_uj", (int)folder, file);
    return file[folder] && xt_energy_read_number(path, range);
}

void xt_energy_read(struct xt_energy *energy)
{
    for (int i = 0; i < energy->count; i++) {
        double now = 0;
        double range = 0;
        if (!read_counter(energy->files[i], &now))
            continue;
        double used = now - energy->last[i];
        if (used < 0 && read_range(energy->files[i], &range))
            used += range;
        energy->joules += used > 0 ? used / 1e6 : 0;
        energy->last[i] = now;
    }
}
