#include "base/system/energy.h"

#include <errno.h>
#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

/* The number in a zone's file; false, with errno, where there is none. */
static bool read_number(const char *folder, const char *name, double *out)
{
    char path[200];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool fine = fscanf(file, "%lf", out) == 1;
    fclose(file);
    return fine;
}

/* "intel-rapl:0" is a package (AMD's too), "intel-rapl:0:1" a part of one. */
static bool is_package(const char *name)
{
    return xt_str_starts(name, "intel-rapl:") && strchr(name, ':') == strrchr(name, ':');
}

static void add_zone(struct xt_energy *energy, const char *root, const char *name)
{
    char *folder = energy->folders[energy->count];
    size_t room = sizeof energy->folders[0];
    if ((size_t)snprintf(folder, room, "%s/%s", root, name) >= room)
        return;
    if (read_number(folder, "energy_uj", &energy->last[energy->count]))
        energy->count++;
    else
        snprintf(energy->why, sizeof energy->why, "%.150s/energy_uj cannot be read (%s)", folder,
                 strerror(errno));
}

void xt_energy_open(struct xt_energy *energy, const char *root)
{
    root = root ? root : "/sys/class/powercap";
    *energy = (struct xt_energy){0};
    snprintf(energy->why, sizeof energy->why, "%.150s names no CPU package", root);
    DIR *dir = opendir(root);
    for (struct dirent *entry; dir && (entry = readdir(dir));)
        if (is_package(entry->d_name) && energy->count < XT_ENERGY_ZONES_MAX)
            add_zone(energy, root, entry->d_name);
    if (dir)
        closedir(dir);
    if (energy->count)
        energy->why[0] = '\0';
}

void xt_energy_read(struct xt_energy *energy)
{
    for (int i = 0; i < energy->count; i++) {
        double now = 0;
        double range = 0;
        if (!read_number(energy->folders[i], "energy_uj", &now))
            continue;
        double used = now - energy->last[i];
        if (used < 0 && read_number(energy->folders[i], "max_energy_range_uj", &range))
            used += range;
        energy->joules += used > 0 ? used / 1e6 : 0;
        energy->last[i] = now;
    }
}
