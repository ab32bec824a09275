#include "infer/machine.h"

#include <assert.h>
#include <png.h>
#include <stdarg.h>
#include <stdio.h>
#include <jpeglib.h>
#include <sys/utsname.h>

#include "device/types.h"

#define QUOTE(x) #x
#define TEXT_OF(macro) QUOTE(macro)

__attribute__((format(printf, 3, 4))) static void put(struct xt_machine *out, const char *key,
                                                      const char *format, ...)
{
    assert(out->count < XT_MACHINE_TEXTS);
    struct xt_machine_text *text = &out->texts[out->count++];
    va_list args;
    va_start(args, format);
    text->key = key;
    vsnprintf(text->value, sizeof text->value, format, args);
    va_end(args);
}

static void put_xpu(struct xt_machine *out, const struct xt_device *device)
{
    struct xt_types types;
    xt_types_ask(device->engine, &types);
    put(out, "name", "%s", device->xpu.facts.name);
    put(out, "driver", "%s", device->xpu.facts.driver);
    put(out, "runtime", "%s", xt_dnnl_gpu_runtime());
    put(out, "backend", "%s", *device->xpu.backend ? device->xpu.backend : "not told");
    put(out, "deterministic", "%s",
        device->deterministic ? "by oneDNN's attribute" : "not in this oneDNN");
    put(out, "kernels", "%s (%s)", types.machine_code ? "machine code" : "OpenCL C, slow",
        types.implementation);
}

void xt_machine_describe(struct xt_machine *out, const struct xt_device *device, enum xt_dtype type)
{
    struct utsname system;
    char cpu[96];
    xt_device_cpu_name(cpu, sizeof cpu);
    out->count = 0;
    put(out, "xtrain", "%s", XT_VERSION);
    put(out, "device", "%s", device->place);
    put(out, "type", "%s", xt_dtype_name(type));
    if (device->kind == XT_DEVICE_XPU)
        put_xpu(out, device);
    put(out, "onednn", "%s", xt_dnnl_version_text().text);
    put(out, "onednn_commit", "%.40s", xt_dnnl.version()->hash);
    put(out, "cpu", "%s", cpu);
    if (device->kind == XT_DEVICE_CPU) {
        put(out, "kernels", "%s", xt_device_cpu_isa());
        put(out, "threads", "%d", device->threads);
    }
    put(out, "linux", "%s", uname(&system) ? "not told" : system.release);
    put(out, "libjpeg_turbo", "%s", TEXT_OF(LIBJPEG_TURBO_VERSION));
    put(out, "libpng", "%s", png_get_libpng_ver(NULL));
}

void xt_machine_of_bits(struct xt_machine *out, const struct xt_device *device)
{
    char cpu[96];
    const dnnl_version_t *version = xt_dnnl.version();
    xt_device_cpu_name(cpu, sizeof cpu);
    out->count = 0;
    put(out, "cpu", "%s", cpu);
    put(out, "device", "%s", device->place);
    put(out, "library", "oneDNN %d.%d.%d %.12s", version->major, version->minor, version->patch,
        version->hash);
    put(out, "threads", "%d", device->threads);
}
