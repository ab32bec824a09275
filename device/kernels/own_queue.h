/* What own.c and copies.c share: OpenCL's functions, and the queue below an XPU's stream. */
#pragma once

#include "device/memory.h"

/* An object of OpenCL's. */
typedef void *xt_cl_handle;

struct xt_cl_functions {
    int32_t (*get_queue_info)(xt_cl_handle queue, uint32_t what, size_t room, void *out,
                              size_t *needed);
    int32_t (*release_queue)(xt_cl_handle queue);
    int32_t (*get_device_info)(xt_cl_handle device, uint32_t what, size_t room, void *out,
                               size_t *needed);
    void *(*get_extension)(xt_cl_handle platform, const char *name);
    xt_cl_handle (*create_program)(xt_cl_handle context, uint32_t count, const char **texts,
                                   const size_t *lengths, int32_t *error);
    int32_t (*build_program)(xt_cl_handle program, uint32_t count, const xt_cl_handle *devices,
                             const char *options, void *notify, void *user);
    int32_t (*get_build_info)(xt_cl_handle program, xt_cl_handle device, uint32_t what, size_t room,
                              void *out, size_t *needed);
    int32_t (*release_program)(xt_cl_handle program);
    xt_cl_handle (*create_kernel)(xt_cl_handle program, const char *name, int32_t *error);
    int32_t (*release_kernel)(xt_cl_handle kernel);
    int32_t (*set_argument)(xt_cl_handle kernel, uint32_t index, size_t size, const void *value);
    int32_t (*launch)(xt_cl_handle queue, xt_cl_handle kernel, uint32_t dims, const size_t *offset,
                      const size_t *global, const size_t *local, uint32_t waits,
                      const xt_cl_handle *wait, xt_cl_handle *event);
    int32_t (*set_pointer)(xt_cl_handle kernel, uint32_t index, const void *pointer);
    int32_t (*mark)(xt_cl_handle queue, uint32_t waits, const xt_cl_handle *wait,
                    xt_cl_handle *event);
    int32_t (*wait)(uint32_t count, const xt_cl_handle *events);
    int32_t (*release_event)(xt_cl_handle event);
    int32_t (*flush)(xt_cl_handle queue);
    xt_cl_handle (*create_queue)(xt_cl_handle context, xt_cl_handle device,
                                 const uint64_t *properties, int32_t *error);
    int32_t (*barrier)(xt_cl_handle queue, uint32_t waits, const xt_cl_handle *wait,
                       xt_cl_handle *event);
    int32_t (*copy)(xt_cl_handle queue, uint32_t blocking, void *to, const void *from, size_t bytes,
                    uint32_t waits, const xt_cl_handle *wait, xt_cl_handle *event);
};

struct xt_own_kernels {
    struct xt_cl_functions cl;
    xt_cl_handle queue, context, device;
    struct xt_device_memory counters; /* since the first program */
    struct xt_own_program *programs;
    xt_cl_handle mark; /* NULL: none that has not been waited for */
};
