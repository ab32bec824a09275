#include "device/gpu/pointer.h"

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include <level_zero/ze_api.h>

#include "device/gpu/opencl.h"

const char *xt_pointer_kind_name(enum xt_pointer_kind kind)
{
    static const char *const names[] = {
        [XT_POINTER_NOT_KNOWN] = "not known: the driver cannot be asked",
        [XT_POINTER_PAGEABLE] = "pageable",
        [XT_POINTER_PINNED] = "pinned",
        [XT_POINTER_DEVICE] = "the device's",
        [XT_POINTER_SHARED] = "shared between host and device",
    };
    return names[kind];
}

static enum xt_pointer_kind ask_level_zero(void *context, const void *pointer)
{
    static const enum xt_pointer_kind kinds[] = {XT_POINTER_PAGEABLE, XT_POINTER_PINNED,
                                                 XT_POINTER_DEVICE, XT_POINTER_SHARED};
    void *library = dlopen("libze_loader.so.1", RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "zeMemGetAllocProperties") : NULL;
    __typeof__(zeMemGetAllocProperties) *get = NULL;
    ze_memory_allocation_properties_t properties = {
        .stype = ZE_STRUCTURE_TYPE_MEMORY_ALLOCATION_PROPERTIES};
    if (!symbol)
        return XT_POINTER_NOT_KNOWN;
    memcpy(&get, &symbol, sizeof get);
    if (get((ze_context_handle_t)context, pointer, &properties, NULL) != ZE_RESULT_SUCCESS ||
        (size_t)properties.type >= sizeof kinds / sizeof *kinds)
        return XT_POINTER_NOT_KNOWN;
    return kinds[properties.type];
}

static enum xt_pointer_kind ask_opencl(void *context, const void *pointer)
{
    switch (xt_opencl_allocation((uintptr_t)context, pointer)) {
    case XT_OPENCL_ALLOCATION_NONE:
        return XT_POINTER_PAGEABLE;
    case XT_OPENCL_ALLOCATION_HOST:
        return XT_POINTER_PINNED;
    case XT_OPENCL_ALLOCATION_DEVICE:
        return XT_POINTER_DEVICE;
    case XT_OPENCL_ALLOCATION_SHARED:
        return XT_POINTER_SHARED;
    default:
        return XT_POINTER_NOT_KNOWN;
    }
}

/* sycl::context's own methods, by the names that the C++ ABI gives them. */
static enum xt_pointer_kind ask_sycl(void *context, const void *pointer)
{
    enum { SYCL_OPENCL = 1, SYCL_LEVEL_ZERO = 2 }; /* of sycl::backend, an enum of type char */
    typedef uint64_t get_native(const void *of);
    typedef unsigned char get_backend(const void *of);
    void *native_symbol = xt_dnnl_symbol("_ZNK4sycl3_V17context9getNativeEv");
    void *backend_symbol = xt_dnnl_symbol("_ZNK4sycl3_V17context11get_backendEv");
    get_native *native = NULL;
    get_backend *backend = NULL;
    if (!native_symbol || !backend_symbol)
        return XT_POINTER_NOT_KNOWN;
    memcpy(&native, &native_symbol, sizeof native);
    memcpy(&backend, &backend_symbol, sizeof backend);
    unsigned kind = backend(context);
    void *of_backend = (void *)(uintptr_t)native(context);
    if (kind == SYCL_OPENCL)
        return ask_opencl(of_backend, pointer);
    return kind == SYCL_LEVEL_ZERO ? ask_level_zero(of_backend, pointer) : XT_POINTER_NOT_KNOWN;
}

enum xt_pointer_kind xt_pointer_ask(dnnl_engine_t engine, const void *pointer)
{
    typedef dnnl_status_t get_context(dnnl_engine_t of, void **context);
    static const struct {
        const char *function; /* of the one runtime in the library */
        enum xt_pointer_kind (*ask)(void *context, const void *pointer);
    } ways[] = {
        {"dnnl_sycl_interop_engine_get_context", ask_sycl},
        {"dnnl_ocl_interop_engine_get_context", ask_opencl},
        {"dnnl_ze_interop_engine_get_context", ask_level_zero},
    };
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        void *symbol = xt_dnnl_symbol(ways[i].function);
        get_context *get = NULL;
        void *context = NULL;
        memcpy(&get, &symbol, sizeof get);
        if (get && get(engine, &context) == dnnl_success && context)
            return ways[i].ask(context, pointer);
    }
    return XT_POINTER_NOT_KNOWN;
}
