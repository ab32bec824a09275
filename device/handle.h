/* An open device: its oneDNN engine and stream, and the number of compute threads of the host.
 * Memories and primitives are created on it; device.h opens and closes it.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/span.h"
#include "device/dnnl.h"
#include "device/gpu/figures.h"
#include "device/gpu/level_zero.h"
#include "device/kernels/kernel_cache.h"
#include "device/xpu.h"

/* The causes of host-device transfers. */
enum xt_cause {
    XT_CAUSE_IMAGES,
    XT_CAUSE_LOGITS,
    XT_CAUSE_GRADIENTS, /* of the logits */
    XT_CAUSE_LABELS,    /* for a loss that the device computes, */
    XT_CAUSE_LOSSES,    /* and each sample's */
    XT_CAUSE_WEIGHTS,
    XT_CAUSE_MASKS,   /* of dropout */
    XT_CAUSE_SCALARS, /* learning rates, norms, flags */
    XT_CAUSE_OTHER,
    XT_CAUSE_COUNT,
};

struct xt_traffic {
    _Atomic uint64_t up[XT_CAUSE_COUNT]; /* host to device, bytes */
    _Atomic uint64_t down[XT_CAUSE_COUNT];
};

enum xt_device_kind { XT_DEVICE_CPU, XT_DEVICE_XPU };

struct xt_device {
    enum xt_device_kind kind; /* for opening and for messages only */
    /* The properties that other code queries instead: */
    bool deterministic; /* primitives are created with oneDNN's attribute of that name */
    bool own_memory;  /* separate from the host's: parameters, images and logits are transferred */
    bool compiles;    /* kernels are compiled at creation, for one kind of pass and one shape */
    bool trains_fp16; /* with fast kernels */
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    int threads;
    struct xt_span library_span; /* seconds to load oneDNN */
    struct xt_span engine_span;  /* seconds to find and open the device */
    char place[16];              /* "cpu", "xpu:0" */
    char name[128];    /* "cpu: Intel(R) Xeon(R) ..., 2 threads"; "xpu:0: Intel(R) Arc(TM) ..." */
    char chosen[1088]; /* why this one, and this back end, where there was a choice; else "" */
    /* XPU only: */
    struct xt_xpu xpu;
    char better[160];           /* of xt_xpu_better */
    struct xt_level_zero *zero; /* NULL: not available */
    char no_zero[256];          /* why it is not available */
    struct xt_figures figures;  /* as last read */
    struct xt_kernel_cache cache;
    bool watched;      /* its end ends the watchdog */
    bool chose_opencl; /* by ONEAPI_DEVICE_SELECTOR, where the user has not (gpu/back_end.h) */
    struct xt_traffic traffic;
    _Atomic size_t memory_used; /* bytes of its memory that were allocated here */
    size_t memory_most;         /* that may be; 0: no limit (xt_device_limit_memory) */
    /* Creates memories on oneDNN's OpenCL runtime, if the device has unified shared memory. */
    xt_dnnl_opencl_memory *opencl_memory;
    struct xt_own_kernels *own_kernels; /* NULL: its stream is not OpenCL's, or not in order */
};
