/* The oneDNN library, loaded at run time: one libdnnl.so.3 per process and a table of the functions
 * used.
 *
 * The CPU build and the GPU build of oneDNN are different libraries, so the device picks the
 * library and one binary serves every node. Compiled against the v3 C API (3.2 headers); its ABI is
 * stable within v3. xt_dnnl is written once, by xt_dnnl_load, before threads start; reading it is
 * thread-safe.
 */
#ifndef XT_DEVICE_DNNL_H
#define XT_DEVICE_DNNL_H

#include <oneapi/dnnl/dnnl.h>

#include "base/err.h"

/* Each name is a oneDNN function without its dnnl_ prefix. */
#define XT_DNNL_FUNCTIONS(X)                                                                       \
    X(version)                                                                                     \
    X(get_effective_cpu_isa)                                                                       \
    X(engine_get_count)                                                                            \
    X(engine_create)                                                                               \
    X(engine_destroy)                                                                              \
    X(stream_create)                                                                               \
    X(stream_wait)                                                                                 \
    X(stream_destroy)                                                                              \
    X(memory_desc_create_with_tag)                                                                 \
    X(memory_desc_clone)                                                                           \
    X(memory_desc_destroy)                                                                         \
    X(memory_desc_get_size)                                                                        \
    X(memory_desc_equal)                                                                           \
    X(memory_desc_query)                                                                           \
    X(memory_create)                                                                               \
    X(memory_destroy)                                                                              \
    X(primitive_attr_create)                                                                       \
    X(primitive_attr_destroy)                                                                      \
    X(primitive_attr_set_scratchpad_mode)                                                          \
    X(primitive_attr_set_post_ops)                                                                 \
    X(post_ops_create)                                                                             \
    X(post_ops_destroy)                                                                            \
    X(post_ops_append_eltwise)                                                                     \
    X(primitive_desc_query)                                                                        \
    X(primitive_desc_query_md)                                                                     \
    X(primitive_desc_destroy)                                                                      \
    X(primitive_create)                                                                            \
    X(primitive_execute)                                                                           \
    X(primitive_destroy)                                                                           \
    X(convolution_forward_primitive_desc_create)                                                   \
    X(convolution_backward_data_primitive_desc_create)                                             \
    X(convolution_backward_weights_primitive_desc_create)                                          \
    X(reorder_primitive_desc_create)

struct xt_dnnl_table {
#define XT_DNNL_FIELD(name) __typeof__(dnnl_##name) *name;
    XT_DNNL_FUNCTIONS(XT_DNNL_FIELD)
#undef XT_DNNL_FIELD
};

extern struct xt_dnnl_table xt_dnnl;

/* Loads the CPU build: $XTRAIN_DNNL where set, else lib/xtrain beside the program's folder, else
 * the build tree's, else the system's. Does nothing where it is loaded. XT_ERR_DEVICE says where it
 * looked and how to install it. */
enum xt_status xt_dnnl_load(struct xt_err *err);

/* The loaded library's file, "" before. */
const char *xt_dnnl_path(void);

/* A oneDNN status as an error about `what`; XT_OK for success. Out of memory becomes XT_ERR_MEMORY.
 */
enum xt_status xt_dnnl_check(dnnl_status_t status, const char *what, struct xt_err *err);

/* "jit:avx512_core_amx" and the like; a constant of the library. "" where it cannot be asked. */
const char *xt_dnnl_implementation(const_dnnl_primitive_desc_t pd);

#endif
