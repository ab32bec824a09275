/* A device that a graph runs on: its oneDNN engine and stream, and how many threads it computes
 * with.
 *
 * One device per process is open at a time; it outlives every graph and primitive made on it.
 */
#ifndef XT_DEVICE_DEVICE_H
#define XT_DEVICE_DEVICE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "device/dnnl.h"

enum xt_dtype { XT_F32, XT_BF16 };

static inline size_t xt_dtype_size(enum xt_dtype dtype)
{
    return dtype == XT_F32 ? 4 : 2;
}
const char *xt_dtype_name(enum xt_dtype dtype); /* "f32", "bf16" */
dnnl_data_type_t xt_dtype_dnnl(enum xt_dtype dtype);

struct xt_device {
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    int threads;
    char name[128]; /* "cpu: Intel(R) Xeon(R) ..., 2 threads" */
};

/* Opens what --device names ("cpu", NULL is "cpu") with `threads` compute threads (0: what the
 * process may use). There is no XPU in this build: asking for one is XT_ERR_DEVICE, never the CPU
 * instead. */
enum xt_status xt_device_open(struct xt_device *device, const char *spec, int threads,
                              struct xt_err *err);
void xt_device_close(struct xt_device *device);

/* Copies `from` (in format from_md) to `to` (in format to_md), converting data type and layout;
 * waits for the end. */
enum xt_status xt_device_reorder(struct xt_device *device, const_dnnl_memory_desc_t from_md,
                                 const void *from, const_dnnl_memory_desc_t to_md, void *to,
                                 struct xt_err *err);

/* The CPU's model name as the system gives it, and the widest instruction set that oneDNN uses on
 * it. */
void xt_device_cpu_name(char *out, size_t size);
const char *xt_device_cpu_isa(void); /* needs xt_dnnl_load; "AVX-512, AMX (bf16, int8)" */
/* Whether the CPU has bf16 instructions (AVX512_BF16 or AMX). */
bool xt_device_cpu_has_bf16(void);

#endif
