#include "device/gpu/opencl.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "device/dnnl.h"
#include "device/gpu/neighbours.h"

/* Numbers of the OpenCL 3.0 specification and of the extensions cl_khr_device_uuid,
 * cl_khr_pci_bus_info and cl_intel_device_attribute_query. */
enum {
    TYPE_GPU = 4,
    DEVICE_VENDOR_ID = 0x1001,
    DEVICE_MAX_COMPUTE_UNITS = 0x1002,
    DEVICE_MAX_MEM_ALLOC_SIZE = 0x1010,
    DEVICE_GLOBAL_MEM_SIZE = 0x101F,
    DEVICE_NAME = 0x102B,
    DRIVER_VERSION = 0x102D,
    DEVICE_VERSION = 0x102F,
    DEVICE_EXTENSIONS = 0x1030,
    DEVICE_DOUBLE_FP_CONFIG = 0x1032,
    DEVICE_HOST_UNIFIED_MEMORY = 0x1035,
    DEVICE_UUID = 0x106A,
    DEVICE_PCI_BUS_INFO = 0x410F,
    DEVICE_PLATFORM = 0x1031,
    CONTEXT_DEVICES = 0x1081,
    ALLOCATION_TYPE = 0x419A,
    DEVICE_IP_VERSION = 0x4250,
    DEVICE_ID = 0x4251,
    PLATFORMS_MAX = 16,
    DEVICES_MAX = 32,
};

typedef void *handle;
typedef int32_t get_device_info(handle device, uint32_t what, size_t room, void *out,
                                size_t *needed);
typedef int32_t get_platforms(uint32_t room, handle *out, uint32_t *count);
typedef int32_t get_devices(handle platform, uint64_t type, uint32_t room, handle *out,
                            uint32_t *count);

struct functions {
    get_device_info *device_info;
    get_platforms *platforms;
    get_devices *devices;
};

/* The loader that is loaded already, the one beside oneDNN's GPU build, which that will use, or the
 * system's. */
static void *load_loader(void)
{
    static const char name[] = "libOpenCL.so.1";
    char path[PATH_MAX];
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    if (library)
        return library;
    char *slash = xt_dnnl_find(XT_DNNL_GPU, path, sizeof path - sizeof name, NULL)
                      ? NULL
                      : strrchr(path, '/');
    if (slash) {
        memcpy(slash + 1, name, sizeof name);
        xt_neighbours_load(path, NULL);
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    return library ? library : dlopen(name, RTLD_NOW | RTLD_LOCAL);
}

void *xt_opencl_symbol(const char *name)
{
    void *library = load_loader();
    return library ? dlsym(library, name) : NULL;
}

static enum xt_status load(struct functions *cl, struct xt_err *err)
{
    void *info = xt_opencl_symbol("clGetDeviceInfo");
    void *platforms = xt_opencl_symbol("clGetPlatformIDs");
    void *devices = xt_opencl_symbol("clGetDeviceIDs");
    if (!info || !platforms || !devices)
        return xt_err_set(err, XT_ERR_DEVICE,
                          "the OpenCL loader (libOpenCL.so.1) is not here; install "
                          "ocl-icd-libopencl1 (Debian, Ubuntu) or ocl-icd (Fedora, RHEL)");
    memcpy(&cl->device_info, &info, sizeof info);
    memcpy(&cl->platforms, &platforms, sizeof platforms);
    memcpy(&cl->devices, &devices, sizeof devices);
    return XT_OK;
}

static void text(const struct functions *cl, handle device, uint32_t what, char *out, size_t room)
{
    size_t length = 0;
    char value[1024];
    *out = '\0';
    if (cl->device_info(device, what, sizeof value, value, &length) || length == 0)
        return;
    value[length < sizeof value ? length - 1 : sizeof value - 1] = '\0';
    size_t fits = strnlen(value, room - 1);
    memcpy(out, value, fits);
    out[fits] = '\0';
}

static bool has_extension(const struct functions *cl, handle device, const char *name)
{
    size_t length = 0;
    if (cl->device_info(device, DEVICE_EXTENSIONS, 0, NULL, &length) || length == 0 ||
        length > 1u << 20)
        return false;
    char *all = malloc(length + 1);
    bool found = all && cl->device_info(device, DEVICE_EXTENSIONS, length, all, NULL) == 0;
    if (found) {
        all[length] = '\0';
        found = strstr(all, name) != NULL;
    }
    free(all);
    return found;
}

static void describe(const struct functions *cl, handle device, struct xt_gpu_facts *facts)
{
    uint32_t units = 0;
    uint32_t pci[4] = {0};
    uint32_t unified = 0;
    uint64_t doubles = 0;
    *facts = (struct xt_gpu_facts){0};
    text(cl, device, DEVICE_NAME, facts->name, sizeof facts->name);
    text(cl, device, DRIVER_VERSION, facts->driver, sizeof facts->driver);
    cl->device_info(device, DEVICE_VENDOR_ID, sizeof facts->vendor, &facts->vendor, NULL);
    cl->device_info(device, DEVICE_ID, sizeof facts->device_id, &facts->device_id, NULL);
    cl->device_info(device, DEVICE_IP_VERSION, sizeof facts->ip_version, &facts->ip_version, NULL);
    cl->device_info(device, DEVICE_GLOBAL_MEM_SIZE, sizeof facts->memory, &facts->memory, NULL);
    cl->device_info(device, DEVICE_MAX_MEM_ALLOC_SIZE, sizeof facts->allocation_max,
                    &facts->allocation_max, NULL);
    if (cl->device_info(device, DEVICE_MAX_COMPUTE_UNITS, sizeof units, &units, NULL) == 0)
        facts->units = (int)units;
    if (cl->device_info(device, DEVICE_HOST_UNIFIED_MEMORY, sizeof unified, &unified, NULL) == 0)
        facts->integrated = unified != 0;
    if (cl->device_info(device, DEVICE_UUID, sizeof facts->uuid.bytes, facts->uuid.bytes, NULL) ==
        0)
        facts->uuid.known = true;
    if (cl->device_info(device, DEVICE_PCI_BUS_INFO, sizeof pci, pci, NULL) == 0)
        facts->pci = (struct xt_pci_address){true, pci[0], pci[1], pci[2], pci[3]};
    cl->device_info(device, DEVICE_DOUBLE_FP_CONFIG, sizeof doubles, &doubles, NULL);
    facts->fp64 = doubles != 0;
    facts->fp16 = has_extension(cl, device, "cl_khr_fp16");
}

static handle pointer_of(uint64_t value)
{
    uintptr_t number = (uintptr_t)value;
    handle out = NULL;
    memcpy(&out, &number, sizeof out);
    return out;
}

enum xt_status xt_opencl_describe(uint64_t value, struct xt_gpu_facts *facts, char *version,
                                  struct xt_err *err)
{
    struct functions cl;
    enum xt_status status = load(&cl, err);
    if (status)
        return status;
    describe(&cl, pointer_of(value), facts);
    text(&cl, pointer_of(value), DEVICE_VERSION, version, 64);
    return XT_OK;
}

static bool has_shared_memory(const struct functions *cl, handle device)
{
    return has_extension(cl, device, "cl_intel_unified_shared_memory");
}

bool xt_opencl_has_shared_memory(uint64_t value)
{
    struct functions cl;
    return load(&cl, NULL) == XT_OK && has_shared_memory(&cl, pointer_of(value));
}

/* The GPUs of all platforms, at most `room`; their number into *count. */
static void list_gpus(const struct functions *cl, handle *out, uint32_t room, uint32_t *count)
{
    handle platforms[PLATFORMS_MAX];
    uint32_t platform_count = 0;
    *count = 0;
    if (cl->platforms(PLATFORMS_MAX, platforms, &platform_count))
        return;
    for (uint32_t i = 0; i < platform_count && i < PLATFORMS_MAX && *count < room; i++) {
        uint32_t found = 0;
        if (cl->devices(platforms[i], TYPE_GPU, room - *count, out + *count, &found) == 0)
            *count += found < room - *count ? found : room - *count;
    }
}

enum xt_status xt_opencl_gpus(int *count, char *name, char *driver, struct xt_err *err)
{
    struct functions cl;
    handle devices[DEVICES_MAX];
    uint32_t found = 0;
    *count = 0;
    *name = *driver = '\0';
    enum xt_status status = load(&cl, err);
    if (status)
        return status;
    list_gpus(&cl, devices, DEVICES_MAX, &found);
    *count = (int)found;
    if (found) {
        text(&cl, devices[0], DEVICE_NAME, name, 64);
        text(&cl, devices[0], DRIVER_VERSION, driver, 64);
    }
    return XT_OK;
}

int xt_opencl_shared_count(void)
{
    struct functions cl;
    handle devices[DEVICES_MAX];
    uint32_t found = 0;
    int count = 0;
    if (load(&cl, NULL))
        return 0;
    list_gpus(&cl, devices, DEVICES_MAX, &found);
    for (uint32_t i = 0; i < found; i++)
        count += has_shared_memory(&cl, devices[i]);
    return count;
}

void xt_opencl_visit_gpus(void (*visit)(void *argument, void *device, void *context),
                          void *argument)
{
    typedef handle create(const intptr_t *properties, uint32_t count, const handle *devices,
                          void *notify, void *user, int32_t *error);
    typedef int32_t release(handle context);
    struct functions cl;
    create *create_context = NULL;
    release *release_context = NULL;
    handle devices[DEVICES_MAX];
    uint32_t count = 0;
    if (load(&cl, NULL))
        return;
    void *library = load_loader();
    void *symbols[2] = {dlsym(library, "clCreateContext"), dlsym(library, "clReleaseContext")};
    memcpy(&create_context, &symbols[0], sizeof create_context);
    memcpy(&release_context, &symbols[1], sizeof release_context);
    if (!create_context || !release_context)
        return;
    list_gpus(&cl, devices, DEVICES_MAX, &count);
    for (uint32_t i = 0; i < count; i++) {
        handle context = create_context(NULL, 1, &devices[i], NULL, NULL, NULL);
        if (!context)
            continue;
        visit(argument, devices[i], context);
        release_context(context);
    }
}

enum xt_opencl_allocation xt_opencl_allocation(uint64_t context, const void *pointer)
{
    typedef int32_t get_context_info(handle of, uint32_t what, size_t room, void *out,
                                     size_t *needed);
    typedef void *get_extension(handle platform, const char *name);
    typedef int32_t get_allocation(handle of, const void *at, uint32_t what, size_t room, void *out,
                                   size_t *needed);
    struct functions cl;
    get_context_info *context_info = NULL;
    get_extension *extension = NULL;
    get_allocation *allocation = NULL;
    handle devices[DEVICES_MAX];
    handle platform = NULL;
    uint32_t kind = 0;
    size_t length = 0;
    if (load(&cl, NULL))
        return XT_OPENCL_ALLOCATION_NOT_TOLD;
    void *library = load_loader();
    void *symbols[2] = {dlsym(library, "clGetContextInfo"),
                        dlsym(library, "clGetExtensionFunctionAddressForPlatform")};
    memcpy(&context_info, &symbols[0], sizeof context_info);
    memcpy(&extension, &symbols[1], sizeof extension);
    handle of = (handle)(uintptr_t)context;
    if (!context_info || !extension ||
        context_info(of, CONTEXT_DEVICES, sizeof devices, devices, &length) || length == 0 ||
        cl.device_info(devices[0], DEVICE_PLATFORM, sizeof platform, &platform, NULL))
        return XT_OPENCL_ALLOCATION_NOT_TOLD;
    void *found = extension(platform, "clGetMemAllocInfoINTEL");
    memcpy(&allocation, &found, sizeof allocation);
    if (!allocation || allocation(of, pointer, ALLOCATION_TYPE, sizeof kind, &kind, NULL))
        return XT_OPENCL_ALLOCATION_NOT_TOLD;
    return kind >= XT_OPENCL_ALLOCATION_NONE && kind <= XT_OPENCL_ALLOCATION_SHARED
               ? (enum xt_opencl_allocation)kind
               : XT_OPENCL_ALLOCATION_NOT_TOLD;
}
