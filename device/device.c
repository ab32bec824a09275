#include "device/device.h"

#include <limits.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include "base/log.h"
#include "base/str.h"
#include "base/system/thread.h"
#include "device/faults/guard.h"
#include "device/faults/watchdog.h"
#include "device/kernels/ahead.h"
#include "device/kernels/engine_blob.h"
#include "device/kernels/own.h"
#include "device/gpu/back_end.h"
#include "device/gpu/host_gpu.h"
#include "device/gpu/opencl.h"
#include "device/primitive.h"
#include "device/probe.h"

void xt_device_cpu_name(char *out, size_t size)
{
    snprintf(out, size, "unknown CPU");
    FILE *file = fopen("/proc/cpuinfo", "re");
    if (!file)
        return;
    char line[512];
    while (fgets(line, sizeof line, file)) {
        char *colon = strchr(line, ':');
        if (!colon || !xt_str_starts(line, "model name"))
            continue;
        colon[strcspn(colon, "\n")] = '\0';
        snprintf(out, size, "%s", colon + 1 + strspn(colon + 1, " "));
        break;
    }
    fclose(file);
}

/* Best first. */
static const struct {
    dnnl_cpu_isa_t isa;
    const char *name;
    const char *variable; /* its name for ONEDNN_MAX_CPU_ISA */
} isas[] = {
    {dnnl_cpu_isa_avx512_core_amx_fp16, "AVX-512, AMX (bf16, fp16, int8)", "AVX512_CORE_AMX_FP16"},
    {dnnl_cpu_isa_avx512_core_amx, "AVX-512, AMX (bf16, int8)", "AVX512_CORE_AMX"},
    {dnnl_cpu_isa_avx512_core_fp16, "AVX-512 with bf16 and fp16", "AVX512_CORE_FP16"},
    {dnnl_cpu_isa_avx512_core_bf16, "AVX-512 with bf16", "AVX512_CORE_BF16"},
    {dnnl_cpu_isa_avx512_core_vnni, "AVX-512 with VNNI", "AVX512_CORE_VNNI"},
    {dnnl_cpu_isa_avx512_core, "AVX-512", "AVX512_CORE"},
    {dnnl_cpu_isa_avx2_vnni, "AVX2 with VNNI", "AVX2_VNNI"},
    {dnnl_cpu_isa_avx2, "AVX2", "AVX2"},
    {dnnl_cpu_isa_avx, "AVX", "AVX"},
    {dnnl_cpu_isa_sse41, "SSE4.1", "SSE41"},
};
enum { ISA_COUNT = sizeof isas / sizeof isas[0] };

const char *xt_device_cpu_isa(void)
{
    dnnl_cpu_isa_t isa = xt_dnnl.get_effective_cpu_isa();
    for (size_t i = 0; i < ISA_COUNT; i++)
        if (isas[i].isa == isa)
            return isas[i].name;
    return "not named";
}

const char *xt_device_cpu_isa_limit(const char *a, const char *b)
{
    for (size_t i = ISA_COUNT; i-- > 0;)
        if (strcmp(isas[i].name, a) == 0 || strcmp(isas[i].name, b) == 0)
            return isas[i].variable;
    return "AVX2";
}

bool xt_device_cpu_may(unsigned isa)
{
    return !xt_dnnl.get_effective_cpu_isa ||
           ((unsigned)xt_dnnl.get_effective_cpu_isa() & isa) == isa;
}

bool xt_device_cpu_has_bf16(void)
{
    return xt_device_cpu_may(dnnl_cpu_isa_avx512_core_bf16);
}

bool xt_device_cpu_runs_bf16(void)
{
    return xt_device_cpu_may(dnnl_cpu_isa_avx512_core) ||
           xt_device_cpu_may(dnnl_cpu_isa_avx2_vnni_2);
}

bool xt_device_cpu_has_fp16(void)
{
    return xt_device_cpu_may(dnnl_cpu_isa_avx512_core_fp16);
}

bool xt_device_cpu_has_tiles(void)
{
#ifdef __x86_64__
    enum { REQUEST = 0x1023, TILE_DATA = 18 }; /* ARCH_REQ_XCOMP_PERM, of arch_prctl(2) */
    unsigned isa = (unsigned)xt_dnnl.get_effective_cpu_isa();
    unsigned amx = (unsigned)dnnl_cpu_isa_avx512_core_amx;
    return (isa & amx) == amx && syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
#else
    return false;
#endif
}

bool xt_device_cpu_has_vnni(void)
{
    unsigned isa = (unsigned)xt_dnnl.get_effective_cpu_isa();
    unsigned avx512 = (unsigned)dnnl_cpu_isa_avx512_core_vnni;
    unsigned avx2 = (unsigned)dnnl_cpu_isa_avx2_vnni;
    return (isa & avx512) == avx512 || (isa & avx2) == avx2;
}

/* Flush denormals to zero in every compute thread. Weights that decay for long become denormal (the
 * published LPRNet's do), and each operation on one costs the CPU over a hundred cycles: evaluation
 * ran 20 times slower. */
static void flush_denormals(void)
{
#ifdef __SSE__
#pragma omp parallel
    _mm_setcsr(_mm_getcsr() | _MM_FLUSH_ZERO_ON | 0x0040 /* denormals are zero */);
#endif
}

static enum xt_status open_stream(struct xt_device *device, dnnl_engine_kind_t kind, size_t index,
                                  struct xt_err *err)
{
    const char *what = kind == dnnl_cpu ? "the CPU engine" : "the start of the GPU engine";
    enum xt_status status =
        xt_dnnl_check(xt_dnnl.engine_create(&device->engine, kind, index), what, err);
    if (!status)
        status = xt_dnnl_check(
            xt_dnnl.stream_create(&device->stream, device->engine, dnnl_stream_default_flags), what,
            err);
    return status;
}

/* The number of threads that OpenMP really gives: oneDNN's barriers would wait forever for one that
 * it does not (OMP_THREAD_LIMIT). */
static int take_threads(int wanted)
{
    int given = 1;
    omp_set_dynamic(0);
    omp_set_num_threads(wanted);
#pragma omp parallel
#pragma omp single
    given = omp_get_num_threads();
    omp_set_num_threads(given);
    return given;
}

void xt_device_make_for_threads(int threads)
{
    omp_set_num_threads(threads);
}

void xt_device_use_threads(const struct xt_device *device)
{
    if (device->threads > 0)
        omp_set_num_threads(device->threads);
}

static enum xt_status prepare_threads(struct xt_device *device, int asked, struct xt_err *err)
{
    int wanted = asked > 0 ? asked : xt_thread_available(NULL);
    enum xt_status status =
        xt_thread_check_room(wanted - 1, "a thread that computes (--threads)", err);
    if (status)
        return status;
    device->threads = take_threads(wanted);
    if (device->threads < wanted)
        xt_log_warn_here("OpenMP gives %d of the %d threads that were to compute "
                         "(OMP_THREAD_LIMIT, or libgomp.so.1 is not here): computing with %d",
                         device->threads, wanted, device->threads);
    flush_denormals();
    return XT_OK;
}

static enum xt_status open_cpu(struct xt_device *device, int threads, struct xt_err *err)
{
    char cpu[80];
    struct xt_span start = xt_span_now();
    enum xt_status status = xt_dnnl_load(XT_DNNL_CPU, err);
    device->library_span = xt_span_since(&start);
    if (status)
        return status;
    start = xt_span_now();
    status = prepare_threads(device, threads, err);
    if (!status)
        status = open_stream(device, dnnl_cpu, 0, err);
    device->engine_span = xt_span_since(&start);
    xt_device_cpu_name(cpu, sizeof cpu);
    snprintf(device->place, sizeof device->place, "cpu");
    snprintf(device->name, sizeof device->name, "cpu: %s, %s", cpu,
             xt_count((long long)device->threads, "thread").text);
    return status;
}

/* --- XPU
 * ----------------------------------------------------------------------------------------*/
/* Why no driver finds a GPU on this machine, whatever the selector. */
static void machines_reason(const char *no_zero, char *why, size_t size)
{
    struct xt_host_gpu host;
    xt_host_gpu_read(&host, "");
    if (host.count == 0 && !host.wsl)
        snprintf(why, size,
                 "the kernel shows none (no Intel render node under /dev/dri): there is no GPU, or "
                 "its kernel driver (i915, xe) is not loaded");
    else if (host.count > 0 && !host.nodes[0].usable)
        snprintf(why, size, "%s may not be opened by this user (it belongs to group %s): %s",
                 host.nodes[0].path, host.nodes[0].group, xt_host_gpu_join(&host.nodes[0]).text);
    else if (host.wsl && !host.wsl_usable)
        snprintf(why, size, "/dev/dxg may not be opened by this user");
    else
        snprintf(why, size, "%s",
                 *no_zero ? no_zero
                          : "its driver is not installed: install intel-opencl-icd and "
                            "libze-intel-gpu1 (Ubuntu, Debian from 14 on) or "
                            "intel-compute-runtime (Fedora); docs/xpu.md has others");
}

/* The selectors under which a driver here has a GPU: "level_zero:gpu or opencl:gpu"; "": none. */
static void list_selectors(const struct xt_device *device, char *out, size_t size)
{
    char name[64];
    char driver[64];
    int count = 0;
    *out = '\0';
    if (xt_level_zero_count(device->zero) > 0)
        xt_str_append_to(out, size, "level_zero:gpu");
    if (!xt_opencl_gpus(&count, name, driver, NULL) && count > 0)
        xt_str_append_to(out, size, "%sopencl:gpu", *out ? " or " : "");
}

static enum xt_status no_xpu(const struct xt_device *device, const char *spec, const char *said,
                             struct xt_err *err)
{
    char why[640];
    char others[32];
    const char *selector = getenv("ONEAPI_DEVICE_SELECTOR");
    const bool selects = selector && *selector && !device->chose_opencl;
    list_selectors(device, others, sizeof others);
    if (selects && *others)
        snprintf(why, sizeof why,
                 "ONEAPI_DEVICE_SELECTOR=%.64s leaves none%s%.256s; write %s there, or unset it",
                 selector, *said ? ": " : "", said, others);
    else if (*said && !selects)
        snprintf(why, sizeof why, "the runtime says: %.256s", said);
    else
        machines_reason(device->no_zero, why, sizeof why);
    return xt_err_set(
        err, XT_ERR_DEVICE,
        "--device %s: oneDNN finds no Intel GPU: %s%s; \"xtrain doctor\" checks each step", spec,
        why, selects && !*others ? ", and ONEAPI_DEVICE_SELECTOR changes nothing in that" : "");
}

/* Where no driver has a GPU a selector makes SYCL print lines of its own before it fails. */
static enum xt_status check_selector(const struct xt_device *device, const char *spec,
                                     struct xt_err *err)
{
    char others[32];
    const char *selector = getenv("ONEAPI_DEVICE_SELECTOR");
    if (!selector || !xt_str_ends(selector, ":gpu"))
        return XT_OK;
    list_selectors(device, others, sizeof others);
    return *others ? XT_OK : no_xpu(device, spec, "", err);
}

/* oneDNN with SYCL compiles its kernels through the OpenCL driver, also those that Level Zero
 * runs. */
static void warn_without_opencl(const struct xt_xpu *xpu)
{
    char name[64];
    char driver[64];
    int count = 0;
    if (strcmp(xpu->backend, "Level Zero") != 0 || strcmp(xt_dnnl_gpu_runtime(), "SYCL") != 0 ||
        (!xt_opencl_gpus(&count, name, driver, NULL) && count > 0))
        return;
    xt_log_warn_here("no OpenCL driver offers this GPU, and oneDNN compiles its kernels through "
                     "one, also for Level Zero: if a kernel cannot be created, install "
                     "intel-opencl-icd (Debian, Ubuntu) or intel-opencl (Fedora)");
}

static void say_choice(struct xt_device *device, const struct xt_xpus *list,
                       const struct xt_back_end_choice *back_end, const char *spec)
{
    char text[160];
    const struct xt_gpu_facts *facts = &device->xpu.facts;
    if (strcmp(spec, "xpu") == 0)
        snprintf(device->chosen, sizeof device->chosen, "%s, %.1f GB%s",
                 facts->integrated ? "an integrated GPU" : "a discrete GPU",
                 (double)facts->memory / 1e9,
                 xt_xpu_working(list) > 1 ? ", the best of those that oneDNN lists"
                 : list->count > 1        ? ", the only one that can be opened"
                                          : ", the only one");
    xt_back_end_say(back_end, device->xpu.backend, text, sizeof text);
    if (*text)
        xt_str_append_to(device->chosen, sizeof device->chosen, "%s%s", *device->chosen ? "; " : "",
                         text);
}

/* Without it SYCL cannot allocate, and reports that in unhelpful words. oneDNN's own OpenCL runtime
 * has other kinds of memory too. */
static enum xt_status check_shared_memory(const struct xt_xpu *xpu, const char *spec,
                                          struct xt_err *err)
{
    bool is_told = strcmp(xpu->backend, "OpenCL") == 0 && *xpu->facts.driver;
    if (!is_told || xpu->shared_memory || xt_dnnl_runs_opencl())
        return XT_OK;
    return xt_err_set(err, XT_ERR_DEVICE,
                      "--device %s: the OpenCL driver %s of %s has no unified shared memory "
                      "(cl_intel_unified_shared_memory), which is required; install a newer driver "
                      "(docs/xpu.md says where it is to be had), or use Level Zero, if available: "
                      "export ONEAPI_DEVICE_SELECTOR=level_zero:gpu",
                      spec, xpu->facts.driver, xpu->facts.name);
}

static enum xt_status choose_xpu(struct xt_device *device, const char *spec, struct xt_err *err)
{
    struct xt_xpus list;
    struct xt_back_end_choice back_end;
    int index = 0;
    device->chose_opencl = xt_back_end_choose(&back_end, device->zero);
    xt_xpu_list(&list, device->zero);
    if (list.count == 0)
        return no_xpu(device, spec, xt_guard_said(), err);
    enum xt_status status = xt_xpu_choose(&list, spec, &index, err);
    if (!status)
        status = check_shared_memory(&list.items[index], spec, err);
    if (status)
        return status;
    device->xpu = list.items[index];
    xt_xpu_better(&list, index, device->better, sizeof device->better);
    if (device->xpu.shared_memory)
        device->opencl_memory = xt_dnnl_find_opencl_memory();
    struct xt_pci_text pci = xt_pci_format(&device->xpu.facts.pci);
    snprintf(device->place, sizeof device->place, "xpu:%d", index);
    snprintf(device->name, sizeof device->name, "xpu:%d: %.72s%s%s", index, device->xpu.facts.name,
             *pci.text ? ", " : "", pci.text);
    say_choice(device, &list, &back_end, spec);
    warn_without_opencl(&device->xpu);
    return XT_OK;
}

/* Level Zero is opened before oneDNN starts the drivers: an old loader enables Sysman when its
 * drivers start, or never. */
static void open_level_zero(struct xt_device *device)
{
    struct xt_err why = {0};
    if (xt_level_zero_open(&device->zero, &why))
        snprintf(device->no_zero, sizeof device->no_zero, "%.255s", why.text);
}

/* Kernels that were compiled ahead of time; a process that compiles them has none to check. */
static enum xt_status check_kernels(struct xt_device *device, uint32_t for_gpu, struct xt_err *err)
{
    struct xt_str about = {0};
    if (for_gpu)
        return xt_capture_check(for_gpu, device->xpu.facts.device_id, device->xpu.facts.driver,
                                err);
    enum xt_status status = xt_device_about(device, &about, err);
    if (!status)
        status = xt_ahead_check(&device->cache, xt_str_get(&about), err);
    xt_str_clear(&about);
    return status;
}

static enum xt_status start_xpu(struct xt_device *device, const char *spec,
                                const struct xt_device_options *options, struct xt_err *err)
{
    char library[PATH_MAX];
    struct xt_span start = xt_span_now();
    device->kind = XT_DEVICE_XPU;
    device->own_memory = device->compiles = device->trains_fp16 = true;
    enum xt_status status = xt_dnnl_find(XT_DNNL_GPU, library, sizeof library, err);
    if (!status && options->for_gpu)
        status = xt_capture_begin(options->for_gpu, options->driver, err);
    if (!status)
        status = xt_kernel_cache_begin(&device->cache, options->cache_folder, options->no_cache,
                                       library, err);
    if (!status)
        open_level_zero(device);
    if (!status)
        status = xt_dnnl_load(XT_DNNL_GPU, err);
    if (!status && !options->for_gpu)
        status = check_selector(device, spec, err);
    /* OpenCL has cache blobs for all that it compiles; not every Level Zero runtime does. */
    if (!status && xt_dnnl_is_experimental())
        xt_kernel_cache_store_blobs(&device->cache, xt_dnnl_runs_opencl());
    device->library_span = xt_span_since(&start);
    start = xt_span_now();
    if (!status)
        xt_engine_blob_recall(&device->cache);
    if (!status)
        status = choose_xpu(device, spec, err);
    if (!status)
        status = check_kernels(device, options->for_gpu, err);
    if (status)
        return status;
    status = prepare_threads(device, options->threads, err);
    if (!status)
        status = open_stream(device, dnnl_gpu, (size_t)device->xpu.index, err);
    if (!status)
        xt_engine_blob_store(&device->cache, device->engine);
    if (!status)
        status = xt_own_kernels_open(device, err);
    device->deterministic = xt_dnnl_has_deterministic();
    device->engine_span = xt_span_since(&start);
    return status;
}

static enum xt_status open_xpu(struct xt_device *device, const char *spec,
                               const struct xt_device_options *options, struct xt_err *err)
{
    enum xt_status status = xt_watchdog_begin(err);
    if (status)
        return status;
    device->watched = true;
    xt_guard_set_device(spec);
    xt_guard_set_phase(xt_guard_opening);
    xt_guard_catch_crashes();
    const char *outer = xt_guard_enter("the start of its driver");
    status = start_xpu(device, spec, options, err);
    xt_guard_leave(outer);
    if (!status)
        xt_guard_set_device(device->name);
    xt_guard_set_phase(NULL);
    return status;
}

/* Resolves "auto" in a child process: a process can load only one oneDNN library. */
static enum xt_status open_auto(struct xt_device *device, const struct xt_device_options *options,
                                struct xt_err *err)
{
    struct xt_probe probe;
    enum xt_status status = xt_probe_xpus(&probe, err);
    if (status)
        return status;
    if (probe.status == XT_OK && xt_xpu_working(&probe.xpus) > 0)
        return open_xpu(device, "xpu", options, err);
    status = open_cpu(device, options->threads, err);
    snprintf(device->chosen, sizeof device->chosen, "no XPU: %s",
             probe.status            ? probe.why
             : probe.xpus.count == 0 ? "oneDNN finds no Intel GPU"
                                     : probe.xpus.items[0].broken);
    return status;
}

enum xt_status xt_device_open_with(struct xt_device *device,
                                   const struct xt_device_options *options, struct xt_err *err)
{
    const char *spec = options->spec ? options->spec : "cpu";
    *device = (struct xt_device){.cache = {.lock = -1}};
    enum xt_status status;
    if (strcmp(spec, "cpu") == 0)
        status = open_cpu(device, options->threads, err);
    else if (strcmp(spec, "auto") == 0)
        status = open_auto(device, options, err);
    else
        status = open_xpu(device, spec, options, err);
    if (status)
        xt_device_close(device);
    return status;
}

enum xt_status xt_device_open(struct xt_device *device, const char *spec, int threads,
                              struct xt_err *err)
{
    const struct xt_device_options options = {.spec = spec, .threads = threads};
    return xt_device_open_with(device, &options, err);
}

enum xt_status xt_device_about(const struct xt_device *device, struct xt_str *out,
                               struct xt_err *err)
{
    const struct xt_gpu_facts *facts = &device->xpu.facts;
    uint32_t told = 0;
    enum xt_status status = xt_str_printf(
        out, err,
        "# onednn: %s %.40s\n# runtime: %s, %s\n# device: %s\n# device id: 0x%04x\n# driver: %s\n",
        xt_dnnl_version_text().text, xt_dnnl.version()->hash, xt_dnnl_gpu_runtime(),
        *device->xpu.backend ? device->xpu.backend : "not told", facts->name,
        (unsigned)facts->device_id, facts->driver);
    bool captured = xt_capture_device(&told);
    if (status || !(captured || device->cache.ahead))
        return status;
    return xt_str_printf(out, err, "%s%s", xt_ahead_mark,
                         captured ? xt_ahead_never_run : xt_ahead_run);
}

enum xt_status xt_device_record_cache(struct xt_device *device, struct xt_err *err)
{
    struct xt_str about = {0};
    if (device->kind != XT_DEVICE_XPU || !xt_dnnl.version)
        return XT_OK;
    enum xt_status status = xt_device_about(device, &about, err);
    if (!status)
        status = xt_kernel_cache_record(&device->cache, xt_str_get(&about), err);
    xt_str_clear(&about);
    return status;
}

bool xt_device_computes_in(const struct xt_device *device, enum xt_dtype dtype)
{
    if (device->kind == XT_DEVICE_XPU)
        return true;
    return dtype == XT_BF16 ? xt_device_cpu_has_bf16()
                            : dtype != XT_F16 || xt_device_cpu_has_fp16();
}

bool xt_device_sums_int8_in_32(const struct xt_device *device)
{
    return device->kind == XT_DEVICE_XPU || xt_device_cpu_has_vnni();
}

void xt_device_read(struct xt_device *device, struct xt_telemetry *out)
{
    struct xt_figures *figures = &device->figures;
    if (!figures->readings)
        xt_figures_init(figures, device->zero,
                        device->kind == XT_DEVICE_XPU ? device->xpu.zero_index : -1,
                        &device->xpu.facts, figures->root);
    xt_figures_read(figures, out);
}

void xt_device_close(struct xt_device *device)
{
    struct xt_err why = {0};
    if (device->engine && device->kind == XT_DEVICE_XPU && xt_device_record_cache(device, &why))
        xt_log_warn("%s", why.text);
    xt_own_kernels_close(device);
    if (device->stream)
        xt_dnnl.stream_destroy(device->stream);
    if (device->engine)
        xt_dnnl.engine_destroy(device->engine);
    xt_level_zero_close(device->zero);
    if (device->kind == XT_DEVICE_XPU)
        xt_kernel_cache_end(&device->cache);
    if (device->chose_opencl)
        unsetenv("ONEAPI_DEVICE_SELECTOR");
    if (device->watched)
        xt_watchdog_end();
    *device = (struct xt_device){.cache = {.lock = -1}};
}

enum xt_status xt_device_reorder(struct xt_device *device, const_dnnl_memory_desc_t from_md,
                                 const void *from, const_dnnl_memory_desc_t to_md, void *to,
                                 struct xt_err *err)
{
    static const char what[] = "a change of memory format";
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_t primitive = NULL;
    dnnl_memory_t source = NULL;
    dnnl_memory_t target = NULL;
    enum xt_status status =
        xt_dnnl_check(xt_dnnl.reorder_primitive_desc_create(&pd, from_md, device->engine, to_md,
                                                            device->engine, NULL),
                      what, err);
    xt_guard_set_kernel("", what);
    if (!status)
        status = xt_primitive_create(device, pd, what, &primitive, err);
    /* oneDNN takes a non-const pointer for both reading and writing; the source is only read. */
    union {
        const void *in;
        void *out;
    } handle = {.in = from};
    if (!status)
        status = xt_memory_create(device, from_md, handle.out, what, &source, err);
    if (!status)
        status = xt_memory_create(device, to_md, to, what, &target, err);
    if (!status) {
        dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, source}, {DNNL_ARG_TO, target}};
        status =
            xt_dnnl_check(xt_dnnl.primitive_execute(primitive, device->stream, 2, args), what, err);
    }
    if (!status)
        status = xt_dnnl_check(xt_dnnl.stream_wait(device->stream), what, err);
    if (target)
        xt_dnnl.memory_destroy(target);
    if (source)
        xt_dnnl.memory_destroy(source);
    if (primitive)
        xt_dnnl.primitive_destroy(primitive);
    if (pd)
        xt_dnnl.primitive_desc_destroy(pd);
    return status;
}
