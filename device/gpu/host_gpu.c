#include "device/gpu/host_gpu.h"

#include <dirent.h>
#include <fcntl.h>
#include <grp.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

static FILE *open_under(const char *root, const char *folder, const char *name)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s%s/%s", root, folder, name);
    return fopen(path, "re");
}

/* A hexadecimal number; 0 if it cannot be read. */
static uint32_t read_number(const char *root, const char *folder, const char *name)
{
    unsigned value = 0;
    FILE *file = open_under(root, folder, name);
    if (file && fscanf(file, "%x", &value) != 1)
        value = 0;
    if (file)
        fclose(file);
    return value;
}

/* DRIVER and PCI_SLOT_NAME from the device's uevent. */
static void read_uevent(const char *root, const char *folder, struct xt_render_node *node)
{
    char line[128];
    FILE *file = open_under(root, folder, "uevent");
    while (file && fgets(line, sizeof line, file)) {
        sscanf(line, "DRIVER=%23s", node->kernel);
        sscanf(line, "PCI_SLOT_NAME=%23s", node->pci);
    }
    if (file)
        fclose(file);
}

/* The file `resource` has a line for each region: first and last address, and flags. */
static uint64_t largest_region(const char *root, const char *folder)
{
    char line[128];
    uint64_t largest = 0;
    FILE *file = open_under(root, folder, "resource");
    uint64_t first = 0;
    uint64_t last = 0;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "%" SCNx64 " %" SCNx64, &first, &last) == 2 && last > first &&
            last - first + 1 > largest)
            largest = last - first + 1;
    if (file)
        fclose(file);
    return largest;
}

enum { INTEL = 0x8086, DISPLAY_CONTROLLER = 0x03 /* the first byte of a PCI class code */ };

static void read_node(const char *root, const char *name, struct xt_host_gpu *out)
{
    char folder[96];
    char path[PATH_MAX];
    struct stat st;
    snprintf(folder, sizeof folder, "/sys/class/drm/%.40s/device", name);
    uint32_t vendor = read_number(root, folder, "vendor");
    if (vendor != INTEL || out->count == XT_RENDER_NODES_MAX) {
        out->others++;
        return;
    }
    struct xt_render_node *node = &out->nodes[out->count++];
    *node = (struct xt_render_node){.vendor = vendor,
                                    .device = read_number(root, folder, "device"),
                                    .largest = largest_region(root, folder)};
    read_uevent(root, folder, node);
    snprintf(node->path, sizeof node->path, "/dev/dri/%.40s", name);
    snprintf(path, sizeof path, "%s%s", root, node->path);
    node->usable = access(path, R_OK | W_OK) == 0;
    if (stat(path, &st) == 0) {
        struct group entry;
        struct group *found = NULL;
        char buffer[4096];
        if (getgrgid_r(st.st_gid, &entry, buffer, sizeof buffer, &found) == 0 && found)
            snprintf(node->group, sizeof node->group, "%.47s", found->gr_name);
        else
            snprintf(node->group, sizeof node->group, "%u", (unsigned)st.st_gid);
    }
}

static int is_render_node(const struct dirent *entry)
{
    return strncmp(entry->d_name, "renderD", 7) == 0;
}

static bool has_node(const struct xt_host_gpu *host, const char *pci)
{
    for (int i = 0; i < host->count; i++)
        if (strcmp(host->nodes[i].pci, pci) == 0)
            return true;
    return false;
}

/* GPUs that the bus has and no kernel driver offers. */
static void read_bus(const char *root, struct xt_host_gpu *out)
{
    static const char bus[] = "/sys/bus/pci/devices";
    char path[PATH_MAX];
    char folder[96];
    snprintf(path, sizeof path, "%s%s", root, bus);
    DIR *dir = opendir(path);
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        snprintf(folder, sizeof folder, "%s/%.40s", bus, entry->d_name);
        if (read_number(root, folder, "vendor") != INTEL ||
            read_number(root, folder, "class") >> 16 != DISPLAY_CONTROLLER ||
            has_node(out, entry->d_name) || out->without_node++)
            continue;
        out->bare =
            (struct xt_render_node){.vendor = INTEL, .device = read_number(root, folder, "device")};
        read_uevent(root, folder, &out->bare);
        snprintf(out->bare.pci, sizeof out->bare.pci, "%.23s", entry->d_name);
    }
    if (dir)
        closedir(dir);
}

void xt_host_gpu_read(struct xt_host_gpu *out, const char *root)
{
    char path[PATH_MAX];
    struct dirent **entries = NULL;
    *out = (struct xt_host_gpu){0};
    snprintf(path, sizeof path, "%s/dev/dri", root);
    int count = scandir(path, &entries, is_render_node, alphasort);
    for (int i = 0; i < count; i++) {
        read_node(root, entries[i]->d_name, out);
        free(entries[i]);
    }
    free(entries);
    read_bus(root, out);
    snprintf(path, sizeof path, "%s/dev/dxg", root);
    out->wsl = access(path, F_OK) == 0;
    out->wsl_usable = access(path, R_OK | W_OK) == 0;
}

/* --- driver files
 * -------------------------------------------------------------------------------*/
static bool has_line(const struct xt_str *text, const char *line)
{
    size_t length = strlen(line);
    for (const char *at = xt_str_get(text); *at;) {
        size_t here = strcspn(at, "\n");
        if (here == length && memcmp(at, line, length) == 0)
            return true;
        at += here + (at[here] != '\0');
    }
    return false;
}

static void add_file(struct xt_str *out, const char *path)
{
    struct stat st;
    char line[512];
    char *real = realpath(path, NULL);
    if (real && stat(real, &st) == 0 && S_ISREG(st.st_mode)) {
        snprintf(line, sizeof line, "%.480s %lld", xt_file_name(real), (long long)st.st_size);
        if (!has_line(out, line))
            xt_str_printf(out, NULL, "%s\n", line);
    }
    free(real);
}

static const char *const folders[] = {
    "/usr/lib/x86_64-linux-gnu", "/usr/lib64",       "/usr/lib", "/usr/local/lib",
    "/usr/local/lib64",          "/usr/lib/wsl/lib",
};

static void add_libraries(const char *root, const char *name, struct xt_str *out)
{
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        char path[PATH_MAX];
        snprintf(path, sizeof path, "%s%s/%s", root, folders[i], name);
        add_file(out, path);
    }
}

bool xt_host_gpu_find_library(const char *root, const char *name, char *path, size_t size)
{
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++)
        if ((size_t)snprintf(path, size, "%s%s/%s", root, folders[i], name) < size &&
            access(path, R_OK) == 0)
            return true;
    return false;
}

/* A colon-separated list of files in an environment variable. */
static void add_listed(const char *variable, struct xt_str *out)
{
    const char *next = getenv(variable);
    while (next && *next) {
        char path[PATH_MAX];
        size_t length = strcspn(next, ":,");
        snprintf(path, sizeof path, "%.*s", (int)(length < sizeof path ? length : 0), next);
        add_file(out, path);
        next += length + (next[length] != '\0');
    }
}

enum xt_status xt_host_gpu_driver_files(const char *root, struct xt_str *out, struct xt_err *err)
{
    static const char *const libraries[] = {
        "libze_intel_gpu.so.1",
        "libze_intel_gpu_legacy1.so.1",
        "intel-opencl/libigdrcl.so",
        "intel-opencl/libigdrcl_legacy1.so",
        "libigc.so.1",
        "libigc.so.2",
    };
    static const char *const variables[] = {"ZE_ENABLE_ALT_DRIVERS", "OCL_ICD_FILENAMES",
                                            "OPENCL_LAYERS"};
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        add_libraries(root, libraries[i], out);
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        add_listed(variables[i], out);
    return xt_str_check(out, err);
}

struct xt_host_gpu_hint xt_host_gpu_join(const struct xt_render_node *node)
{
    struct xt_host_gpu_hint hint;
    const char *group = *node->group ? node->group : "render";
    snprintf(hint.text, sizeof hint.text,
             "sudo usermod -aG %s $USER, then log in again (in a container: --group-add %s)", group,
             group);
    return hint;
}
