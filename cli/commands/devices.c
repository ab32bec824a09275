/* xtrain devices and --version: the devices of this machine and the libraries in use. */
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
#include "base/system/thread.h"
#include "cli/commands.h"
#include "cli/json/result.h"
#include "cli/report.h"
#include "device/device.h"
#include "device/probe.h"

/* The file that contains a function. */
static const char *library_of(const void *function)
{
    Dl_info info;
    return dladdr(function, &info) && info.dli_fname ? info.dli_fname : "not known";
}

struct libraries {
    struct xt_report *report;
    struct xt_report *list;
};

static void add_library(struct libraries *to, const char *name, const char *version,
                        const char *path)
{
    struct xt_report *row = xt_report_group(to->list, NULL);
    xt_report_values(row, "name=%s version=%s path=%s", name, *version ? version : NULL, path);
    xt_report_line(to->report, "  %-14s %-12s %s", name, version, path);
}

/* A function's address as dladdr takes it; C has no cast for that. */
#define ADDRESS_OF(function)                                                                       \
    __extension__({                                                                                \
        __typeof__(&(function)) pointer_ = &(function);                                            \
        void *address_;                                                                            \
        memcpy(&address_, &pointer_, sizeof address_);                                             \
        address_;                                                                                  \
    })

#define QUOTE(x) #x
/* libjpeg-turbo has its version in a macro only. */
#define TEXT_OF(macro) QUOTE(macro)

/* oneDNN is loaded at run time. */
static void add_onednn(struct libraries *to)
{
    char version[64];
    char path[PATH_MAX];
    struct xt_err why = {0};
    if (xt_dnnl_load(XT_DNNL_CPU, &why) == XT_OK) {
        const dnnl_version_t *v = xt_dnnl.version();
        snprintf(version, sizeof version, "%d.%d.%d", v->major, v->minor, v->patch);
        add_library(to, "oneDNN", version, xt_dnnl_path());
    } else {
        xt_report_line(to->report, "  %-14s not loaded: %s", "oneDNN", why.text);
    }
    if (xt_dnnl_find(XT_DNNL_GPU, path, sizeof path, &why) == XT_OK && *path == '/')
        add_library(to, "oneDNN (XPU)", "", path);
}

enum xt_status xt_cmd_version(struct xt_options *options, struct xt_err *err)
{
    (void)options;
    struct libraries to = {.report = xt_report_create()};
    char archive[64];
    snprintf(archive, sizeof archive, "%d.%d.%d", archive_version_number() / 1000000,
             archive_version_number() / 1000 % 1000, archive_version_number() % 1000);
    xt_report_line(to.report, "xtrain %s", XT_VERSION);
    xt_report_add(to.report, "xtrain", NULL, "%s", XT_VERSION);
    to.list = xt_report_list(to.report, "libraries");
    add_onednn(&to);
    add_library(&to, "libjpeg-turbo", TEXT_OF(LIBJPEG_TURBO_VERSION),
                library_of(ADDRESS_OF(jpeg_std_error)));
    add_library(&to, "libpng", png_get_libpng_ver(NULL),
                library_of(ADDRESS_OF(png_get_libpng_ver)));
    add_library(&to, "libyaml", yaml_get_version_string(),
                library_of(ADDRESS_OF(yaml_get_version_string)));
    add_library(&to, "cJSON", cJSON_Version(), library_of(ADDRESS_OF(cJSON_Version)));
    add_library(&to, "libarchive", archive, library_of(ADDRESS_OF(archive_version_number)));
    return xt_result_put(to.report, err);
}

/* ---- devices ---- */

struct cpu {
    char name[96];
    const char *why; /* why this number of threads */
    int threads;
    bool bf16;
    double memory;
};

static void describe_cpu(struct xt_report *devices, const struct cpu *cpu)
{
    struct xt_report *to = xt_report_group(devices, NULL);
    xt_report_add(to, "device", NULL, "%s", "cpu");
    xt_report_add(to, "name", "cpu", "%s", cpu->name);
    xt_report_add(to, "threads", "  threads", "%d for this process", cpu->threads);
    xt_report_add(to, NULL, "", ", by %s", cpu->why);
    xt_report_scaled(to, "memory_bytes", "  memory", 1e-9, "%.1f GB", cpu->memory);
    xt_report_add(to, "instructions", "  instructions", "%s", xt_device_cpu_isa());
    xt_report_add(to, NULL, "  trains in", "%s", "f32");
    xt_report_flag(to, "fast_bf16", "", cpu->bf16, " and bf16",
                   xt_device_cpu_runs_bf16() ? "; bf16 works, but slower than f32"
                                             : "; not in bf16, which needs AVX-512");
    xt_report_add(to, NULL, "  infers in", "%s", "f32");
    xt_report_flag(to, "runs_bf16", "", xt_device_cpu_runs_bf16(), ", bf16", "");
    xt_report_flag(to, "infers_fp16", "", xt_device_cpu_has_fp16(), ", fp16", "");
    xt_report_flag(to, "fast_int8", "", xt_device_cpu_has_vnni(), " and int8",
                   "; int8 works, without instructions of its own (VNNI)");
    xt_report_add(to, "onednn", "  oneDNN", "%s", xt_dnnl_version_text().text);
    xt_report_add(to, "library", "", ", %s", xt_dnnl_path());
}

/* NULL for "", which JSON shows as null. */
static const char *or_null(const char *text)
{
    return text && *text ? text : NULL;
}

static void describe_types(struct xt_report *to, const char *key, const char *label,
                           const struct xt_types *types, bool int8)
{
    const struct {
        bool has;
        const char *name;
    } all[] = {{types->trains_f32, "f32"},
               {types->trains_bf16, "bf16"},
               {types->trains_fp16, "fp16"},
               {int8, "int8"}};
    struct xt_report *list = xt_report_list(to, key);
    bool any = false;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].has) {
            xt_report_add(list, NULL, any ? "" : label, any ? ", %s" : "%s", all[i].name);
            any = true;
        }
    if (!any)
        xt_report_add(to, NULL, label, "%s", "nothing");
}

/* JIT-compiled kernels are much faster than oneDNN's OpenCL reference kernels. */
static void describe_kernels(struct xt_report *to, const struct xt_probe *probe, int i)
{
    const struct xt_types *types = &probe->types[i];
    struct xt_architecture is = xt_xpu_architecture(&probe->xpus.items[i].facts);
    bool newer_has = !types->machine_code && is.since && xt_xpu_is_before(probe->version, is.since);
    xt_report_flag(to, "machine_code", "  kernels", types->machine_code, "machine code",
                   "OpenCL C, slow");
    xt_report_add(to, "implementation", "", " (%s)", types->implementation);
    xt_report_add(to, "machine_code_since", newer_has ? "" : NULL,
                  "; oneDNN has machine code for it from %s on", or_null(is.since));
}

static void describe_free(struct xt_report *to, const struct xt_reading *left)
{
    if (left->known) {
        xt_report_scaled(to, "memory_free_bytes", "", 1e-9, ", %.1f GB free", left->value);
        xt_report_add(to, "memory_free_source", "", " (%s)", left->source);
        return;
    }
    xt_report_null(to, "memory_free_bytes");
    xt_report_add(to, "memory_free_why", "", ", free: not readable: %s", left->why);
}

static void describe_tiles(struct xt_report *to, const struct xt_probe *probe, int i)
{
    struct xt_report *list = probe->tile_counts[i] ? xt_report_list(to, "tiles") : NULL;
    for (int t = 0; t < probe->tile_counts[i]; t++) {
        const struct xt_tile *tile = &probe->tiles[i][t];
        struct xt_report *one = xt_report_group(list, NULL);
        xt_report_add(one, NULL, "  tile", "%d:", t);
        xt_report_scaled(one, "memory_bytes", "", 1e-9, " %.1f GB", tile->memory_total);
        xt_report_scaled(one, "memory_used_bytes", "", 1e-9, ", %.1f GB used", tile->memory_used);
    }
}

static void describe_memory(struct xt_report *to, const struct xt_probe *probe, int i)
{
    const struct xt_gpu_facts *facts = &probe->xpus.items[i].facts;
    xt_report_scaled(to, "memory_bytes", "  memory", 1e-9, "%.1f GB", (double)facts->memory);
    describe_free(to, &probe->memory_free[i]);
    if (facts->allocation_max)
        xt_report_scaled(to, "allocation_max_bytes", "", 1e-9,
                         "; at most %.1f GB in one allocation", (double)facts->allocation_max);
    else
        xt_report_null(to, "allocation_max_bytes");
    describe_tiles(to, probe, i);
}

static void describe_xpu(struct xt_report *devices, const struct xt_probe *probe, int i)
{
    const struct xt_xpu *xpu = &probe->xpus.items[i];
    const struct xt_gpu_facts *facts = &xpu->facts;
    struct xt_architecture is = xt_xpu_architecture(facts);
    struct xt_report *to = xt_report_group(devices, NULL);
    char spec[16];
    snprintf(spec, sizeof spec, "xpu:%d", i);
    xt_report_add(to, "device", NULL, "%s", spec);
    xt_report_add(to, "name", spec, "%s", facts->name);
    xt_report_add(to, "broken", *xpu->broken ? "  why" : NULL, "%s", or_null(xpu->broken));
    if (*xpu->broken)
        return;
    if (!is.name)
        xt_report_null(to, "architecture");
    xt_report_add(to, is.name ? "architecture" : NULL, "  is", "%s",
                  is.name ? is.name : "Intel GPU");
    xt_report_flag(to, "integrated", "", facts->integrated, ", integrated", ", discrete");
    xt_report_add(to, "execution_units", "", ", %d execution units", facts->units);
    describe_memory(to, probe, i);
    xt_report_add(to, "pci", "  PCI", "%s", or_null(xt_pci_format(&facts->pci).text));
    xt_report_add(to, "uuid", "  UUID", "%s", or_null(xt_uuid_format(&facts->uuid).text));
    describe_types(to, "trains", "  trains in", &probe->types[i], false);
    describe_types(to, "infers", "  infers in", &probe->types[i], probe->types[i].infers_int8);
    describe_kernels(to, probe, i);
    xt_report_add(to, "driver", "  driver", "%s", facts->driver);
    xt_report_add(to, "backend", "", ", through %s", or_null(xpu->backend));
    xt_report_add(to, "onednn", "  oneDNN", "%s", probe->version);
    xt_report_add(to, "runtime", "", ", %s", probe->runtime);
    xt_report_flag(to, "experimental", "", probe->experimental, " (experimental)", "");
    xt_report_add(to, "library", "", ", %s", probe->library);
}

static enum xt_status report(const struct cpu *cpu, const struct xt_probe *probe, const char *masks,
                             struct xt_err *err)
{
    struct xt_report *report = xt_report_create();
    struct xt_report *devices = xt_report_list(report, "devices");
    describe_cpu(devices, cpu);
    for (int i = 0; i < probe->xpus.count; i++)
        describe_xpu(devices, probe, i);
    xt_report_add(report, "xpu_error", probe->status ? "xpu" : NULL, "none: %s",
                  probe->status ? or_null(probe->why) : NULL);
    if (!probe->status && probe->xpus.count == 0)
        xt_report_add(
            report, NULL, "xpu",
            "none: oneDNN %s finds no Intel GPU; \"xtrain doctor\" checks each requirement",
            probe->version);
    xt_report_add(report, "environment", *masks ? "environment" : NULL, "%s", or_null(masks));
    return xt_result_put(report, err);
}

enum xt_status xt_cmd_devices(struct xt_options *options, struct xt_err *err)
{
    (void)options;
    struct xt_probe *probe = NULL;
    struct xt_str masks = {0};
    struct cpu cpu = {0};
    enum xt_status status = xt_mem_calloc(&probe, 1, sizeof *probe, "the list of XPUs", err);
    /* In a child process, before this one loads the CPU build. */
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
    if (!status)
        status = report(&cpu, probe, xt_str_get(&masks), err);
    xt_str_clear(&masks);
    free(probe);
    return status;
}
