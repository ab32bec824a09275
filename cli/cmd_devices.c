/* xtrain devices and --version: what this machine has, and which libraries the program runs on. */
#include <archive.h>
#include <cjson/cJSON.h>
#include <dlfcn.h>
#include <limits.h>
#include <png.h>
#include <stdio.h>
#include <jpeglib.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "base/mem.h"
#include "base/thread.h"
#include "cli/commands.h"
#include "cli/options/options.h"
#include "device/device.h"
#include "device/probe.h"

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

#define QUOTE(x) #x
#define TEXT_OF(macro) QUOTE(macro)

/* libjpeg-turbo tells its version to the compiler alone. */
static void print_libjpeg(void)
{
    print_library("libjpeg-turbo", TEXT_OF(LIBJPEG_TURBO_VERSION),
                  library_of(ADDRESS_OF(jpeg_std_error)));
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
    char path[PATH_MAX];
    if (xt_dnnl_find(XT_DNNL_GPU, path, sizeof path, &why) == XT_OK && *path == '/')
        print_library("oneDNN (XPU)", "", path);
    print_libjpeg();
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

/* --- as text
 * ------------------------------------------------------------------------------------*/
struct cpu {
    char name[96];
    const char *why; /* of the number of threads */
    int threads;
    bool bf16;
    double memory;
};

static void print_cpu(const struct cpu *cpu)
{
    printf("cpu    %s\n", cpu->name);
    printf("       %d threads for this process (by %s), %.1f GB of memory\n", cpu->threads,
           cpu->why, cpu->memory / 1e9);
    printf("       instructions: %s\n", xt_device_cpu_isa());
    printf("       trains in f32%s\n",
           cpu->bf16 ? " and bf16" : "; bf16 runs too, but slower than f32");
    printf("       infers in f32, bf16%s%s\n", xt_device_cpu_has_fp16() ? ", fp16" : "",
           xt_device_cpu_has_vnni() ? " and int8" : "; int8 runs too, but slower");
    printf("       oneDNN %s, %s\n", xt_dnnl_version_text().text, xt_dnnl_path());
}

static const char *types_text(const struct xt_types *types, char text[64])
{
    snprintf(text, 64, "%s%s%s%s", types->trains_f32 ? "f32" : "nothing",
             types->trains_bf16 ? ", bf16" : "", types->trains_fp16 ? ", fp16" : "",
             types->infers_int8 ? "; infers in int8 too" : "");
    return text;
}

/* Whether the version is an older one than `since` ("3.6"). */
static bool is_before(const char *version, const char *since)
{
    int have[2] = {0};
    int need[2] = {0};
    return sscanf(version, "%d.%d", &have[0], &have[1]) == 2 &&
           sscanf(since, "%d.%d", &need[0], &need[1]) == 2 &&
           (have[0] < need[0] || (have[0] == need[0] && have[1] < need[1]));
}

/* Machine code is many times quicker than what oneDNN has for every GPU. */
static void print_kernels(const struct xt_probe *probe, int i)
{
    const struct xt_types *types = &probe->types[i];
    struct xt_architecture is = xt_xpu_architecture(&probe->xpus.items[i].facts);
    printf("       kernels: %s (%s)\n", types->machine_code ? "machine code" : "OpenCL C, slow",
           types->implementation);
    if (!types->machine_code && is.since && is_before(probe->version, is.since))
        printf("       oneDNN %s has no machine code for it; oneDNN has from %s on\n",
               probe->version, is.since);
}

static void print_xpu(const struct xt_probe *probe, int i)
{
    const struct xt_xpu *xpu = &probe->xpus.items[i];
    const struct xt_gpu_facts *facts = &xpu->facts;
    struct xt_architecture is = xt_xpu_architecture(facts);
    char text[64];
    printf("xpu:%-2d %s\n", i, facts->name);
    printf("       %s, %s, %d execution units, %.1f GB of memory", is.name ? is.name : "Intel GPU",
           facts->integrated ? "integrated" : "discrete", facts->units,
           (double)facts->memory / 1e9);
    if (probe->memory_free[i] >= 0)
        printf(", %.1f GB free", probe->memory_free[i] / 1e9);
    else
        printf(", free: not readable: %s", probe->memory_why[i]);
    if (facts->allocation_max)
        printf("; at most %.1f GB in one allocation", (double)facts->allocation_max / 1e9);
    printf("\n");
    printf("       PCI %s, UUID %s\n",
           facts->pci.known ? xt_pci_format(&facts->pci).text : "not told",
           facts->uuid.known ? xt_uuid_format(&facts->uuid).text : "not told");
    printf("       trains in %s\n", types_text(&probe->types[i], text));
    print_kernels(probe, i);
    printf("       driver %s, through %s\n", facts->driver,
           *xpu->backend ? xpu->backend : "not told");
    printf("       oneDNN %s, %s%s, %s\n", probe->version, probe->runtime,
           probe->experimental ? " (experimental)" : "", probe->library);
}

static void print_text(const struct cpu *cpu, const struct xt_probe *probe, const char *masks)
{
    print_cpu(cpu);
    for (int i = 0; i < probe->xpus.count; i++)
        print_xpu(probe, i);
    if (probe->status)
        printf("xpu    none: %s\n", probe->why);
    else if (probe->xpus.count == 0)
        printf("xpu    none: oneDNN %s finds no Intel GPU; \"xtrain doctor\" looks at each step\n",
               probe->version);
    if (*masks)
        printf("environment: %s\n", masks);
}

/* --- as JSON
 * ------------------------------------------------------------------------------------*/
static bool add_cpu(cJSON *devices, const struct cpu *cpu)
{
    cJSON *device = cJSON_CreateObject();
    return cJSON_AddItemToArray(devices, device) &&
           cJSON_AddStringToObject(device, "device", "cpu") &&
           cJSON_AddStringToObject(device, "name", cpu->name) &&
           cJSON_AddStringToObject(device, "instructions", xt_device_cpu_isa()) &&
           cJSON_AddNumberToObject(device, "threads", cpu->threads) &&
           cJSON_AddNumberToObject(device, "memory_bytes", cpu->memory) &&
           cJSON_AddBoolToObject(device, "fast_bf16", cpu->bf16) &&
           cJSON_AddBoolToObject(device, "infers_fp16", xt_device_cpu_has_fp16()) &&
           cJSON_AddBoolToObject(device, "fast_int8", xt_device_cpu_has_vnni()) &&
           cJSON_AddStringToObject(device, "onednn", xt_dnnl_version_text().text) &&
           cJSON_AddStringToObject(device, "library", xt_dnnl_path());
}

static bool add_types(cJSON *device, const struct xt_types *types)
{
    const struct {
        bool has;
        const char *name;
    } all[] = {
        {types->trains_f32, "f32"}, {types->trains_bf16, "bf16"}, {types->trains_fp16, "fp16"}};
    cJSON *trains = cJSON_AddArrayToObject(device, "trains");
    cJSON *infers = trains ? cJSON_AddArrayToObject(device, "infers") : NULL;
    bool ok = infers != NULL;
    for (size_t i = 0; i < sizeof all / sizeof *all && ok; i++)
        if (all[i].has)
            ok = cJSON_AddItemToArray(trains, cJSON_CreateString(all[i].name)) &&
                 cJSON_AddItemToArray(infers, cJSON_CreateString(all[i].name));
    if (ok && types->infers_int8)
        ok = cJSON_AddItemToArray(infers, cJSON_CreateString("int8"));
    return ok;
}

/* A text, or null where there is none. */
static bool add_text(cJSON *object, const char *key, const char *text)
{
    return *text ? cJSON_AddStringToObject(object, key, text) != NULL
                 : cJSON_AddNullToObject(object, key) != NULL;
}

static bool add_xpu(cJSON *devices, const struct xt_probe *probe, int i)
{
    const struct xt_xpu *xpu = &probe->xpus.items[i];
    const struct xt_gpu_facts *facts = &xpu->facts;
    struct xt_architecture is = xt_xpu_architecture(facts);
    char spec[16];
    snprintf(spec, sizeof spec, "xpu:%d", i);
    cJSON *device = cJSON_CreateObject();
    bool ok = cJSON_AddItemToArray(devices, device) &&
              cJSON_AddStringToObject(device, "device", spec) &&
              cJSON_AddStringToObject(device, "name", facts->name) &&
              add_text(device, "architecture", is.name ? is.name : "") &&
              cJSON_AddBoolToObject(device, "machine_code", probe->types[i].machine_code) &&
              add_text(device, "machine_code_since", is.since ? is.since : "") &&
              cJSON_AddStringToObject(device, "implementation", probe->types[i].implementation) &&
              add_text(device, "pci", xt_pci_format(&facts->pci).text) &&
              add_text(device, "uuid", xt_uuid_format(&facts->uuid).text) &&
              cJSON_AddNumberToObject(device, "execution_units", facts->units) &&
              cJSON_AddBoolToObject(device, "integrated", facts->integrated) &&
              cJSON_AddNumberToObject(device, "memory_bytes", (double)facts->memory) &&
              cJSON_AddStringToObject(device, "driver", facts->driver) &&
              add_text(device, "backend", xpu->backend) &&
              cJSON_AddStringToObject(device, "onednn", probe->version) &&
              cJSON_AddStringToObject(device, "runtime", probe->runtime) &&
              cJSON_AddBoolToObject(device, "experimental", probe->experimental) &&
              cJSON_AddStringToObject(device, "library", probe->library) &&
              add_types(device, &probe->types[i]);
    if (ok && facts->allocation_max)
        ok = cJSON_AddNumberToObject(device, "allocation_max_bytes", (double)facts->allocation_max);
    else if (ok)
        ok = cJSON_AddNullToObject(device, "allocation_max_bytes") != NULL;
    if (!ok || probe->memory_free[i] >= 0)
        return ok && cJSON_AddNumberToObject(device, "memory_free_bytes", probe->memory_free[i]);
    return cJSON_AddNullToObject(device, "memory_free_bytes") &&
           cJSON_AddStringToObject(device, "memory_free_why", probe->memory_why[i]);
}

static enum xt_status print_json(const struct cpu *cpu, const struct xt_probe *probe,
                                 const char *masks, struct xt_err *err)
{
    cJSON *root = cJSON_CreateObject();
    cJSON *devices = root ? cJSON_AddArrayToObject(root, "devices") : NULL;
    bool ok = devices && add_cpu(devices, cpu);
    for (int i = 0; i < probe->xpus.count && ok; i++)
        ok = add_xpu(devices, probe, i);
    ok = ok && add_text(root, "xpu_error", probe->status ? probe->why : "") &&
         add_text(root, "environment", masks);
    char *text = ok ? cJSON_Print(root) : NULL;
    if (text)
        printf("%s\n", text);
    cJSON_free(text);
    cJSON_Delete(root);
    return text ? XT_OK : xt_err_no_memory(err, "the list of devices", 0);
}

enum xt_status xt_cmd_devices(struct xt_options *options, struct xt_err *err)
{
    struct xt_probe *probe = NULL;
    struct xt_str masks = {0};
    struct cpu cpu = {0};
    enum xt_status status = xt_mem_calloc(&probe, 1, sizeof *probe, "the list of XPUs", err);
    /* In a process of its own, and before this one loads the CPU build. */
    if (!status)
        status = xt_probe_xpus(probe, err);
    if (!status)
        status = xt_xpu_masks(&masks, err);
    if (!status)
        status = xt_dnnl_load(XT_DNNL_CPU, err);
    if (!status) {
        xt_device_cpu_name(cpu.name, sizeof cpu.name);
        cpu.threads = xt_thread_available(&cpu.why);
        cpu.bf16 = xt_device_cpu_has_bf16();
        cpu.memory = (double)xt_thread_memory_limit();
    }
    if (!status && options->values.json)
        status = print_json(&cpu, probe, xt_str_get(&masks), err);
    else if (!status)
        print_text(&cpu, probe, xt_str_get(&masks));
    xt_str_clear(&masks);
    free(probe);
    return status;
}
