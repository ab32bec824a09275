/* The oneDNN library, loaded at run time: one libdnnl.so.3 per process and a table of the functions
 * used.
 *
 * The CPU build and the GPU build of oneDNN are different libraries, so the device selects the
 * library and one binary serves every node; nothing of the GPU build is needed unless it is
 * requested. Compiled against the v3 C API (3.2 headers); its ABI is stable within v3. xt_dnnl is
 * written once, by the first xt_dnnl_load, which precedes every use; all of it is thread-safe.
 */
#pragma once

#include <oneapi/dnnl/dnnl.h>
#include <stdbool.h>

#include "base/dtype.h"
#include "base/err.h"
#include "device/dnnl_table.h"

extern struct xt_dnnl_table xt_dnnl;

/* The two builds: without and with kernels for Intel GPUs. */
enum xt_dnnl_build { XT_DNNL_CPU, XT_DNNL_GPU };

/* Loads a build, the first found of
 *   CPU: $XTRAIN_DNNL, lib/xtrain beside the folder of the program or libxtrain, the build tree's
 * deps/dnnl, the system's; GPU: $XTRAIN_DNNL_XPU, lib/xtrain-xpu, the build tree's deps/xpu,
 * $DNNLROOT and /opt/intel of oneAPI, the system's where it has a GPU runtime. What it needs is
 * loaded from its folder. Does nothing where that build is loaded. XT_ERR_DEVICE says where it
 * looked and how to install it, or that the other build is loaded: a process has one. Environment
 * variables that oneDNN or a driver reads are to be set before. */
enum xt_status xt_dnnl_load(enum xt_dnnl_build build, struct xt_err *err);

/* What oneDNN's CPU build, which is C++, is to do where it runs out of memory in a way that ends
 * the process; it does not return. For the program, not for libxtrain: it is of the whole process.
 * Before xt_dnnl_load. */
void xt_dnnl_on_no_memory(void (*handler)(void));

/* The file that xt_dnnl_load would load, without loading it; "libdnnl.so.3" if it would leave the
 * search to the dynamic linker. */
enum xt_status xt_dnnl_find(enum xt_dnnl_build build, char *path, size_t room, struct xt_err *err);

/* The loaded library's file, "" if none is loaded. */
const char *xt_dnnl_path(void);

/* "3.13.2"; "" before a library is loaded. */
struct xt_dnnl_version_text {
    char text[32];
};
struct xt_dnnl_version_text xt_dnnl_version_text(void);

/* The GPU runtime of the loaded library: "none", "SYCL", "OpenCL", "Level Zero". */
const char *xt_dnnl_gpu_runtime(void);
/* True for the GPU runtimes that are supported but hardly tested: OpenCL and Level Zero. */
bool xt_dnnl_is_experimental(void);

bool xt_dnnl_runs_opencl(void);

/* The OpenCL runtime's dnnl_ocl_interop_memory_create; NULL for every other runtime, whose
 * dnnl_memory_create uses addresses. */
typedef dnnl_status_t xt_dnnl_opencl_memory(dnnl_memory_t *out, const_dnnl_memory_desc_t md,
                                            dnnl_engine_t engine, int kind, void *handle);
xt_dnnl_opencl_memory *xt_dnnl_find_opencl_memory(void);

/* A function that not every build has ("dnnl_sycl_interop_engine_get_device"), or one of a library
 * loaded with it; NULL if there is none. */
void *xt_dnnl_symbol(const char *name);

/* oneDNN's attribute that every run of a primitive has the same bits: whether this build has it
 * (3.5), and sets it. */
bool xt_dnnl_has_deterministic(void);
dnnl_status_t xt_dnnl_set_deterministic(dnnl_primitive_attr_t attr);

/* A oneDNN status as an error about `what`; XT_OK for success. Out of memory becomes XT_ERR_MEMORY.
 */
enum xt_status xt_dnnl_check(dnnl_status_t status, const char *what, struct xt_err *err);
/* The error of a driver that says that; where the device is lost with it, with the last op. */
enum xt_status xt_dnnl_failed(const char *said, dnnl_status_t failure, const char *what,
                              struct xt_err *err);

/* oneDNN's name of a type; dnnl_data_type_undef for one that networks do not compute in. */
dnnl_data_type_t xt_dtype_dnnl(enum xt_dtype dtype);

/* "jit:avx512_core_amx" and the like; a constant of the library. "" if unknown. */
const char *xt_dnnl_implementation(const_dnnl_primitive_desc_t pd);
