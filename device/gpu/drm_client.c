#include "device/gpu/drm_client.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"

enum { CLIENTS_MAX = 32 };

/* One open file of a GPU; several may be of one client, and then say the same. */
struct client {
    unsigned long long id;
    bool has_id, right; /* of this GPU */
    bool counts;        /* memory at all */
    double own, system; /* bytes: on the GPU; of the host */
};

static double bytes_of(const char *text)
{
    double value = 0;
    char unit[8] = "";
    if (sscanf(text, "%lf %7s", &value, unit) < 1)
        return 0;
    return strcmp(unit, "KiB") == 0   ? value * 1024
           : strcmp(unit, "MiB") == 0 ? value * 1024 * 1024
                                      : value;
}

static void read_line(struct client *client, char *line, const char *pdev)
{
    char *value = strchr(line, ':');
    if (!value)
        return;
    *value++ = '\0';
    value += strspn(value, " \t");
    value[strcspn(value, "\n")] = '\0';
    if (strcmp(line, "drm-pdev") == 0) {
        client->right = strcmp(value, pdev) == 0;
    } else if (strcmp(line, "drm-client-id") == 0) {
        client->has_id = sscanf(value, "%llu", &client->id) == 1;
    } else if (xt_str_starts(line, "drm-resident-")) {
        const char *region = line + strlen("drm-resident-");
        bool own = xt_str_starts(region, "vram") || xt_str_starts(region, "local");
        client->counts = true;
        *(own ? &client->own : &client->system) += bytes_of(value);
    }
}

static bool read_client(struct client *client, const char *path, const char *pdev)
{
    char line[256];
    FILE *file = fopen(path, "re");
    *client = (struct client){0};
    while (file && fgets(line, sizeof line, file))
        read_line(client, line, pdev);
    if (file)
        fclose(file);
    return client->right && client->has_id && client->counts;
}

bool xt_drm_memory_used(const char *root, const struct xt_pci_address *pci, double *bytes)
{
    char folder[512];
    unsigned long long seen[CLIENTS_MAX];
    int count = 0;
    double own = 0;
    double system = 0;
    const struct xt_pci_text pdev = xt_pci_format(pci);
    snprintf(folder, sizeof folder, "%.400s/proc/self/fdinfo", root);
    DIR *files = pci->known ? opendir(folder) : NULL;
    for (const struct dirent *entry; files && (entry = readdir(files)) && count < CLIENTS_MAX;) {
        struct client client;
        char path[800];
        bool again = false;
        snprintf(path, sizeof path, "%s/%s", folder, entry->d_name);
        if (*entry->d_name == '.' || !read_client(&client, path, pdev.text))
            continue;
        for (int i = 0; i < count; i++)
            again |= seen[i] == client.id;
        if (again)
            continue;
        seen[count++] = client.id;
        own += client.own;
        system += client.system;
    }
    if (files)
        closedir(files);
    *bytes = own > 0 ? own : system;
    return *bytes > 0;
}
