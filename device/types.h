/* The capabilities of an engine, determined by asking oneDNN for a small convolution of each kind,
 * not from a table of devices. Stateless. */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "device/dnnl.h"
#include "device/handle.h"

struct xt_types {
    bool trains_f32; /* forward, and backward by data and by weights */
    bool trains_bf16;
    bool trains_fp16;
    bool infers_int8;
    bool machine_code;       /* convolutions are generated code, not OpenCL C or reference loops */
    char implementation[64]; /* of the forward convolution in f32: "jit:ir", "ocl:simple:any" */
};

/* Whether oneDNN's name of a kernel means generated code ("jit:ir"), or a reference implementation
 * ("ocl:ref:any"). */
bool xt_types_is_machine_code(const char *implementation);
bool xt_types_is_reference(const char *implementation);

void xt_types_ask(dnnl_engine_t engine, struct xt_types *out);
