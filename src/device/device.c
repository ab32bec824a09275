#include "device/device.h"

#include <omp.h>
#include <stdio.h>
#include <string.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

#include "base/str.h"
#include "base/thread.h"

const char *xt_dtype_name(enum xt_dtype dtype)
{
    return dtype == XT_F32 ? "f32" : "bf16";
}

dnnl_data_type_t xt_dtype_dnnl(enum xt_dtype dtype)
{
    return dtype == XT_F32 ? dnnl_f32 : dnnl_bf16;
}

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

const char *xt_device_cpu_isa(void)
{
    static const struct {
        dnnl_cpu_isa_t isa;
        const char *name;
    } names[] = {
        {dnnl_cpu_isa_avx512_core_amx_fp16, "AVX-512, AMX (bf16, fp16, int8)"},
        {dnnl_cpu_isa_avx512_core_amx, "AVX-512, AMX (bf16, int8)"},
        {dnnl_cpu_isa_avx512_core_fp16, "AVX-512 with bf16 and fp16"},
        {dnnl_cpu_isa_avx512_core_bf16, "AVX-512 with bf16"},
        {dnnl_cpu_isa_avx512_core_vnni, "AVX-512 with VNNI"},
        {dnnl_cpu_isa_avx512_core, "AVX-512"},
        {dnnl_cpu_isa_avx2_vnni, "AVX2 with VNNI"},
        {dnnl_cpu_isa_avx2, "AVX2"},
        {dnnl_cpu_isa_avx, "AVX"},
        {dnnl_cpu_isa_sse41, "SSE4.1"},
    };
    dnnl_cpu_isa_t isa = xt_dnnl.get_effective_cpu_isa();
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (names[i].isa == isa)
            return names[i].name;
    return "not named";
}

bool xt_device_cpu_has_bf16(void)
{
    unsigned isa = (unsigned)xt_dnnl.get_effective_cpu_isa();
    return (isa & (unsigned)dnnl_cpu_isa_avx512_core_bf16) ==
           (unsigned)dnnl_cpu_isa_avx512_core_bf16;
}

/* Numbers too small for a normal float32 count as zero in every compute thread. Weights that decay
 * for long end up there (the published LPRNet's do), and each costs the CPU over a hundred cycles:
 * evaluation ran 20 times slower. */
static void flush_denormals(void)
{
#ifdef __SSE__
#pragma omp parallel
    _mm_setcsr(_mm_getcsr() | _MM_FLUSH_ZERO_ON | 0x0040 /* denormals are zero */);
#endif
}

enum xt_status xt_device_open(struct xt_device *device, const char *spec, int threads,
                              struct xt_err *err)
{
    *device = (struct xt_device){0};
    if (spec && strcmp(spec, "cpu") != 0)
        return xt_err_set(err, XT_ERR_DEVICE,
                          "--device %s: this build of xtrain runs on the CPU alone, and never runs "
                          "there when another device was asked for; write --device cpu",
                          spec);
    enum xt_status status = xt_dnnl_load(XT_DNNL_CPU, err);
    if (status)
        return status;
    device->threads = threads > 0 ? threads : xt_thread_available(NULL);
    omp_set_num_threads(device->threads);
    omp_set_dynamic(0);
    flush_denormals();
    status =
        xt_dnnl_check(xt_dnnl.engine_create(&device->engine, dnnl_cpu, 0), "the CPU engine", err);
    if (!status)
        status = xt_dnnl_check(
            xt_dnnl.stream_create(&device->stream, device->engine, dnnl_stream_default_flags),
            "the CPU stream", err);
    if (status) {
        xt_device_close(device);
        return status;
    }
    char cpu[96];
    xt_device_cpu_name(cpu, sizeof cpu);
    snprintf(device->name, sizeof device->name, "cpu: %s, %d thread%s", cpu, device->threads,
             device->threads == 1 ? "" : "s");
    return XT_OK;
}

void xt_device_close(struct xt_device *device)
{
    if (device->stream)
        xt_dnnl.stream_destroy(device->stream);
    if (device->engine)
        xt_dnnl.engine_destroy(device->engine);
    *device = (struct xt_device){0};
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
    if (!status)
        status = xt_dnnl_check(xt_dnnl.primitive_create(&primitive, pd), what, err);
    /* oneDNN takes a plain pointer for reading and writing alike; the source is only read. */
    union {
        const void *in;
        void *out;
    } handle = {.in = from};
    if (!status)
        status = xt_dnnl_check(xt_dnnl.memory_create(&source, from_md, device->engine, handle.out),
                               what, err);
    if (!status)
        status =
            xt_dnnl_check(xt_dnnl.memory_create(&target, to_md, device->engine, to), what, err);
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
