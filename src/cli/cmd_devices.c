/* xtrain devices and --version: what this machine has, and which libraries the program runs on. */
#include <archive.h>
#include <cjson/cJSON.h>
#include <dlfcn.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <turbojpeg.h>
#include <yaml.h>

#include "base/thread.h"
#include "cli/commands.h"
#include "cli/options.h"
#include "device/device.h"

/* The file that holds a function. */
static const char *library_of(const void *function)
{
    Dl_info info;
    return dladdr(function, &info) && info.dli_fname ? info.dli_fname : "not known";
}

static void print_library(const char *name, const char *version, const char *path)
{
    printf("  %-14s %-12s %s\n", name, version, path);
}

/* A function's address as dladdr wants it; C has no cast for that. */
#define ADDRESS_OF(function)                                                                       \
    __extension__({                                                                                \
        __typeof__(&(function)) pointer_ = &(function);                                            \
        void *address_;                                                                            \
        memcpy(&address_, &pointer_, sizeof address_);                                             \
        address_;                                                                                  \
    })

/* libjpeg-turbo before 3.0 does not say its version at run time; its file's name does. */
static void print_turbojpeg(void)
{
    const char *path = library_of(ADDRESS_OF(tjInitDecompress));
    char *real = realpath(path, NULL);
    const char *so = real ? strstr(real, ".so.") : NULL;
    print_library("TurboJPEG", so ? so + 4 : "not known", path);
    free(real);
}

enum xt_status xt_cmd_version(struct xt_options *options, struct xt_err *err)
{
    (void)options;
    printf("xtrain %s\n", XT_VERSION);
    char version[64];
    struct xt_err why = {0};
    if (xt_dnnl_load(XT_DNNL_CPU, &why) == XT_OK) {
        const dnnl_version_t *v = xt_dnnl.version();
        snprintf(version, sizeof version, "%d.%d.%d", v->major, v->minor, v->patch);
        print_library("oneDNN", version, xt_dnnl_path());
    } else {
        printf("  %-14s not loaded: %s\n", "oneDNN", why.text);
    }
    print_turbojpeg();
    print_library("libpng", png_get_libpng_ver(NULL), library_of(ADDRESS_OF(png_get_libpng_ver)));
    print_library("libyaml", yaml_get_version_string(),
                  library_of(ADDRESS_OF(yaml_get_version_string)));
    print_library("cJSON", cJSON_Version(), library_of(ADDRESS_OF(cJSON_Version)));
    snprintf(version, sizeof version, "%d.%d.%d", archive_version_number() / 1000000,
             archive_version_number() / 1000 % 1000, archive_version_number() % 1000);
    print_library("libarchive", version, library_of(ADDRESS_OF(archive_version_number)));
    (void)err;
    return XT_OK;
}

static enum xt_status print_json(const char *cpu, const char *isa, int threads, bool bf16,
                                 double memory, struct xt_err *err)
{
    const dnnl_version_t *v = xt_dnnl.version();
    char version[32];
    snprintf(version, sizeof version, "%d.%d.%d", v->major, v->minor, v->patch);
    cJSON *root = cJSON_CreateObject();
    cJSON *devices = root ? cJSON_AddArrayToObject(root, "devices") : NULL;
    cJSON *device = cJSON_CreateObject();
    bool ok = devices && cJSON_AddItemToArray(devices, device) &&
              cJSON_AddStringToObject(device, "device", "cpu") &&
              cJSON_AddStringToObject(device, "name", cpu) &&
              cJSON_AddStringToObject(device, "instructions", isa) &&
              cJSON_AddNumberToObject(device, "threads", threads) &&
              cJSON_AddNumberToObject(device, "memory_bytes", memory) &&
              cJSON_AddBoolToObject(device, "fast_bf16", bf16) &&
              cJSON_AddStringToObject(device, "onednn", version) &&
              cJSON_AddStringToObject(device, "library", xt_dnnl_path());
    char *text = ok ? cJSON_Print(root) : NULL;
    if (text)
        printf("%s\n", text);
    cJSON_free(text);
    cJSON_Delete(root);
    return text ? XT_OK : xt_err_no_memory(err, "the list of devices", 0);
}

enum xt_status xt_cmd_devices(struct xt_options *options, struct xt_err *err)
{
    enum xt_status status = xt_dnnl_load(XT_DNNL_CPU, err);
    if (status)
        return status;
    char cpu[96];
    const char *why = NULL;
    xt_device_cpu_name(cpu, sizeof cpu);
    int threads = xt_thread_available(&why);
    bool bf16 = xt_device_cpu_has_bf16();
    double memory = (double)xt_thread_memory_limit();
    if (options->values.json)
        return print_json(cpu, xt_device_cpu_isa(), threads, bf16, memory, err);
    const dnnl_version_t *v = xt_dnnl.version();
    printf("cpu   %s\n", cpu);
    printf("      %d threads for this process (by %s), %.1f GB of memory\n", threads, why,
           memory / 1e9);
    printf("      instructions: %s\n", xt_device_cpu_isa());
    printf("      trains in f32%s\n", bf16 ? " and bf16" : "; bf16 runs too, but slower than f32");
    printf("      oneDNN %d.%d.%d, %s\n", v->major, v->minor, v->patch, xt_dnnl_path());
    printf("xpu   none: this version of xtrain runs on the CPU\n");
    return XT_OK;
}
