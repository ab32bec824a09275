/* Opening the device that a graph runs on.
 *
 * One device per process is open at a time; it outlives every graph, memory and primitive created
 * on it. Either the requested device opens, or an error says why not: there is no silent fallback
 * to another.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/dtype.h"
#include "base/err.h"
#include "base/str.h"
#include "device/dnnl.h"
#include "device/gpu/capture.h"
#include "device/handle.h"
#include "device/memory.h"

struct xt_device_options {
    const char *spec;         /* "cpu" (also NULL), "auto", or what xt_xpu_choose takes */
    int threads;              /* threads of the host; 0: all that the process may use */
    const char *cache_folder; /* the base folder of the kernel cache; NULL: the default */
    bool no_cache;
    uint32_t for_gpu;   /* the PCI device id of a GPU that is compiled for; 0: the present one */
    const char *driver; /* for_gpu: of these unpacked packages; NULL: the installed one */
};

/* Opens the device. "auto" opens the XPU that "xpu" would, else the CPU. XT_ERR_DEVICE names what
 * is missing and the command that installs it. */
enum xt_status xt_device_open_with(struct xt_device *device,
                                   const struct xt_device_options *options, struct xt_err *err);
/* The same with the default cache. */
enum xt_status xt_device_open(struct xt_device *device, const char *spec, int threads,
                              struct xt_err *err);
void xt_device_close(struct xt_device *device);

/* What kernels depend on, one line each: oneDNN, its runtime, the device, the driver, and whether
 * that is a GPU at all. XPU only. */
enum xt_status xt_device_about(const struct xt_device *device, struct xt_str *out,
                               struct xt_err *err);

/* Records what the driver has compiled since in the kernel cache; also done by close. */
enum xt_status xt_device_record_cache(struct xt_device *device, struct xt_err *err);

/* Whether it has instructions for the type; an XPU's lack shows only when kernels are compiled. */
bool xt_device_computes_in(const struct xt_device *device, enum xt_dtype dtype);
/* Whether products of 8-bit numbers are accumulated in 32 bits; a CPU without VNNI uses 16. */
bool xt_device_sums_int8_in_32(const struct xt_device *device);

/* Reads the device's current state; nothing on the CPU. */
void xt_device_read(struct xt_device *device, struct xt_telemetry *out);

/* Makes OpenMP use this device's number of threads in the calling thread, whichever device was
 * opened there last: primitives are created for a number of threads, and loops have one scratch
 * buffer per thread. */
void xt_device_use_threads(const struct xt_device *device);
/* Primitives that are described from now on, on the CPU, are created for this many threads: the
 * device's own number or fewer. */
void xt_device_make_for_threads(int threads);

/* Converts `from` (in format from_md) to `to` (in format to_md), data type and layout; blocks until
 * it is done. */
enum xt_status xt_device_reorder(struct xt_device *device, const_dnnl_memory_desc_t from_md,
                                 const void *from, const_dnnl_memory_desc_t to_md, void *to,
                                 struct xt_err *err);

/* The CPU's model name according to the system, and the widest instruction set that oneDNN uses on
 * it. */
void xt_device_cpu_name(char *out, size_t size);
const char *xt_device_cpu_isa(void); /* needs xt_dnnl_load; "AVX-512, AMX (bf16, int8)" */
/* The weaker of two such names, in the form of ONEDNN_MAX_CPU_ISA: "AVX512_CORE". */
const char *xt_device_cpu_isa_limit(const char *a, const char *b);
/* Whether the CPU has bf16 instructions (AVX512_BF16 or AMX). */
bool xt_device_cpu_has_bf16(void);
/* Whether oneDNN has kernels in bf16 for it: with AVX-512, or AVX2 with conversions. */
bool xt_device_cpu_runs_bf16(void);
/* Whether it has fp16 arithmetic (AVX512_FP16), needed by oneDNN for inference in fp16. */
bool xt_device_cpu_has_fp16(void);
/* Whether the CPU has these instructions (dnnl_cpu_isa_...) and ONEDNN_MAX_CPU_ISA allows them;
 * true while oneDNN is not loaded. */
bool xt_device_cpu_may(unsigned isa);
/* Whether it multiplies matrix tiles of bf16 (AMX), and this process may use them; requests the
 * permission from the kernel, for all threads. */
bool xt_device_cpu_has_tiles(void);
/* Whether it multiplies 8-bit numbers with accumulation in 32 bits (VNNI or AMX). */
bool xt_device_cpu_has_vnni(void);
