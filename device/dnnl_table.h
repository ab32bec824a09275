/* The oneDNN functions that are used, as a table: a loaded library's (dnnl.h), or the wrappers
 * around them (guard.h). */
#pragma once

#include <oneapi/dnnl/dnnl.h>

/* Each name is a oneDNN function without its dnnl_ prefix. */
#define XT_DNNL_FUNCTIONS(X)                                                                       \
    X(version)                                                                                     \
    X(get_effective_cpu_isa)                                                                       \
    X(engine_get_count)                                                                            \
    X(engine_create)                                                                               \
    X(engine_destroy)                                                                              \
    X(engine_get_kind)                                                                             \
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
    X(memory_get_memory_desc)                                                                      \
    X(memory_map_data)                                                                             \
    X(memory_unmap_data)                                                                           \
    X(memory_destroy)                                                                              \
    X(primitive_attr_create)                                                                       \
    X(primitive_attr_destroy)                                                                      \
    X(primitive_attr_set_scratchpad_mode)                                                          \
    X(primitive_attr_set_post_ops)                                                                 \
    X(primitive_attr_set_scales_mask)                                                              \
    X(post_ops_create)                                                                             \
    X(post_ops_destroy)                                                                            \
    X(post_ops_append_eltwise)                                                                     \
    X(post_ops_append_sum)                                                                         \
    X(primitive_desc_query)                                                                        \
    X(primitive_desc_query_md)                                                                     \
    X(primitive_desc_next_impl)                                                                    \
    X(primitive_desc_destroy)                                                                      \
    X(primitive_create)                                                                            \
    X(primitive_create_from_cache_blob)                                                            \
    X(primitive_get_cache_blob)                                                                    \
    X(primitive_execute)                                                                           \
    X(primitive_destroy)                                                                           \
    X(convolution_forward_primitive_desc_create)                                                   \
    X(convolution_backward_data_primitive_desc_create)                                             \
    X(convolution_backward_weights_primitive_desc_create)                                          \
    X(memory_desc_create_with_strides)                                                             \
    X(memory_desc_create_submemory)                                                                \
    X(memory_get_data_handle)                                                                      \
    X(memory_set_data_handle)                                                                      \
    X(post_ops_append_binary)                                                                      \
    X(batch_normalization_forward_primitive_desc_create)                                           \
    X(batch_normalization_backward_primitive_desc_create)                                          \
    X(pooling_forward_primitive_desc_create)                                                       \
    X(pooling_backward_primitive_desc_create)                                                      \
    X(binary_primitive_desc_create)                                                                \
    X(eltwise_forward_primitive_desc_create)                                                       \
    X(eltwise_backward_primitive_desc_create)                                                      \
    X(matmul_primitive_desc_create)                                                                \
    X(softmax_forward_primitive_desc_create)                                                       \
    X(softmax_backward_primitive_desc_create)                                                      \
    X(layer_normalization_forward_primitive_desc_create)                                           \
    X(layer_normalization_backward_primitive_desc_create)                                          \
    X(concat_primitive_desc_create)                                                                \
    X(reorder_primitive_desc_create)

struct xt_dnnl_table {
#define XT_DNNL_FIELD(name) __typeof__(dnnl_##name) *name;
    XT_DNNL_FUNCTIONS(XT_DNNL_FIELD)
#undef XT_DNNL_FIELD
};
