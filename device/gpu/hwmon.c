#include "device/gpu/hwmon.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "base/system/thread.h"

static const char source[] = "hwmon";

static bool read_file(const char *folder, const char *name, double *out)
{
    char path[200];
    return (size_t)snprintf(path, sizeof path, "%s/%s", folder, name) < sizeof path &&
           xt_energy_read_number(path, out);
}

/* The whole card's: of one tile it is called i915_gt0. */
static bool is_the_cards(struct xt_hwmon *hwmon, const char *folder)
{
    char path[200];
    char line[32] = "";
    snprintf(path, sizeof path, "%.180s/name", folder);
    FILE *file = fopen(path, "re");
    if (!file)
        return false;
    bool fine = fgets(line, sizeof line, file) != NULL;
    fclose(file);
    line[strcspn(line, "\n")] = '\0';
    fine = fine && (strcmp(line, "i915") == 0 || strcmp(line, "xe") == 0);
    if (fine)
        snprintf(hwmon->name, sizeof hwmon->name, "%.15s", line);
    return fine;
}

static bool find_folder(struct xt_hwmon *hwmon, const char *root, const struct xt_pci_address *pci)
{
    char all[160];
    const struct xt_pci_text pdev = xt_pci_format(pci);
    if (!pci->known || (size_t)snprintf(all, sizeof all, "%s/sys/bus/pci/devices/%s/hwmon", root,
                                        pdev.text) >= sizeof all)
        return false;
    DIR *dir = opendir(all);
    bool found = false;
    for (const struct dirent *entry; dir && !found && (entry = readdir(dir));) {
        char *folder = hwmon->folder;
        found = *entry->d_name != '.' &&
                (size_t)snprintf(folder, sizeof hwmon->folder, "%s/%s", all, entry->d_name) <
                    sizeof hwmon->folder &&
                is_the_cards(hwmon, folder);
    }
    if (dir)
        closedir(dir);
    if (!found)
        *hwmon->folder = '\0';
    return found;
}

/* The first counter is the card, the second its package alone; some cards have the second only. */
void xt_hwmon_open(struct xt_hwmon *hwmon, const char *root, const struct xt_pci_address *pci)
{
    *hwmon = (struct xt_hwmon){0};
    if (!find_folder(hwmon, root, pci))
        return;
    for (int i = 1; i <= 2 && !hwmon->energy.count; i++) {
        char path[200];
        snprintf(path, sizeof path, "%s/energy%d_input", hwmon->folder, i);
        xt_energy_open_file(&hwmon->energy, path);
    }
}

static void set(struct xt_reading *reading, double value)
{
    *reading = (struct xt_reading){.known = true, .value = value, .source = source};
}

static void read_energy(struct xt_hwmon *hwmon, struct xt_telemetry *out)
{
    double now = xt_thread_seconds();
    double span = now - hwmon->when;
    xt_energy_read(&hwmon->energy);
    set(&out->energy, hwmon->energy.joules);
    if (hwmon->when > 0 && span > 0)
        set(&out->power, (hwmon->energy.joules - hwmon->counted) / span);
    hwmon->when = now;
    hwmon->counted = hwmon->energy.joules;
}

/* In their units; a card is neither colder than ice can be nor hotter than its solder. */
static void read_temperature(struct xt_hwmon *hwmon, struct xt_telemetry *out)
{
    static const char *const names[] = {"temp1_input", "temp2_input"};
    double value = 0;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (read_file(hwmon->folder, names[i], &value) && value > -60e3 && value < 200e3) {
            set(&out->temperature, value / 1e3);
            return;
        }
}

void xt_hwmon_read(struct xt_hwmon *hwmon, struct xt_telemetry *out)
{
    double value = 0;
    if (!*hwmon->folder)
        return;
    if (hwmon->energy.count)
        read_energy(hwmon, out);
    /* 0: the limit is switched off. */
    if (read_file(hwmon->folder, "power1_max", &value) && value > 0 && value < 1e10)
        set(&out->power_limit, value / 1e6);
    read_temperature(hwmon, out);
}
