/* Opening the device that a graph runs on.
 *
 * One device per process is open at a time; it outlives every graph, memory and primitive made on
 * it. What a user asked for is what opens, or an error says why not: nothing runs elsewhere
 * instead.
 */
#ifndef XT_DEVICE_DEVICE_H
#define XT_DEVICE_DEVICE_H

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
    int threads;              /* of the host; 0: what the process may use */
    const char *cache_folder; /* the base of the kernel cache; NULL: the default */
    bool no_cache;
    enum xt_capture_gpu for_gpu; /* kernels are made for this one, which is not here */
};

/* Opens the device. "auto" takes the XPU that "xpu" would, else the CPU. XT_ERR_DEVICE names what
 * is missing and the command that installs it. */
enum xt_status xt_device_open_with(struct xt_device *device,
                                   const struct xt_device_options *options, struct xt_err *err);
/* The same with the default cache. */
enum xt_status xt_device_open(struct xt_device *device, const char *spec, int threads,
                              struct xt_err *err);
void xt_device_close(struct xt_device *device);

/* What kernels follow from, a line each: oneDNN, its runtime, the device, the driver, and whether
 * that is a GPU at all. Of an XPU. */
enum xt_status xt_device_about(const struct xt_device *device, struct xt_str *out,
                               struct xt_err *err);

/* Records what the driver compiled since in the kernel cache; also done by close. */
enum xt_status xt_device_record_cache(struct xt_device *device, struct xt_err *err);

/* Whether it has instructions for the type; what an XPU has not is seen when kernels are made. */
bool xt_device_computes_in(const struct xt_device *device, enum xt_dtype dtype);
/* Whether products of 8-bit numbers are added up in 32 bits; on a CPU without VNNI in 16. */
bool xt_device_sums_int8_in_32(const struct xt_device *device);

/* What can be read of the device's state now; on the CPU nothing. */
void xt_device_read(struct xt_device *device, struct xt_telemetry *out);

/* OpenMP computes with this device's number of threads in the caller's thread from now on,
 * whichever device was opened there last: primitives are made for a number, and loops have so many
 * scratches.
 */
void xt_device_use_threads(const struct xt_device *device);
/* Primitives that are described from now on, on the CPU, are made for so many threads, which are
 * the device's own or fewer. */
void xt_device_make_for_threads(int threads);

/* Copies `from` (in format from_md) to `to` (in format to_md), converting data type and layout;
 * waits for the end. */
enum xt_status xt_device_reorder(struct xt_device *device, const_dnnl_memory_desc_t from_md,
                                 const void *from, const_dnnl_memory_desc_t to_md, void *to,
                                 struct xt_err *err);

/* The CPU's model name as the system gives it, and the widest instruction set that oneDNN uses on
 * it. */
void xt_device_cpu_name(char *out, size_t size);
const char *xt_device_cpu_isa(void); /* needs xt_dnnl_load; "AVX-512, AMX (bf16, int8)" */
/* The weaker of two such names, as ONEDNN_MAX_CPU_ISA takes it: "AVX512_CORE". */
const char *xt_device_cpu_isa_limit(const char *a, const char *b);
/* Whether the CPU has bf16 instructions (AVX512_BF16 or AMX). */
bool xt_device_cpu_has_bf16(void);
/* Whether it has fp16 arithmetic (AVX512_FP16), with which oneDNN infers in fp16. */
bool xt_device_cpu_has_fp16(void);
/* Whether it has AVX-512, of the generation that oneDNN's kernels want. */
bool xt_device_cpu_has_avx512(void);
/* Whether it multiplies matrix tiles of bf16 (AMX), and this process may; asks the kernel for that,
 * for all threads. */
bool xt_device_cpu_has_tiles(void);
/* Whether it multiplies 8-bit numbers and adds them up in 32 bits (VNNI or AMX). */
bool xt_device_cpu_has_vnni(void);

#endif
