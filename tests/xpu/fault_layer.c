/* An OpenCL layer that makes calls fail as a driver does whose GPU was reset, is out of memory or
 * hangs. Put over gpu_layer.c by the tests that want it (common.sh); never installed.
 *
 * XT_FAULT="CALL N": the N-th call of that kind in a process, and all after it, fail.
 *   launch    a kernel's launch: CL_OUT_OF_RESOURCES
 *   finish    a wait of the first thread for a queue or an event: CL_OUT_OF_RESOURCES
 *   alloc     an allocation: CL_OUT_OF_RESOURCES
 *   abort     a launch ends the process by abort, as Intel's driver does when it is at a loss
 *   nodevmem, nohostmem  a launch: CL_MEM_OBJECT_ALLOCATION_FAILURE, CL_OUT_OF_HOST_MEMORY
 *   hang      a wait never ends
 *   hang-device, hang-context, hang-build, hang-launch, hang-copy  a search for devices, the
 *             creation of a context, the build of a program, a launch, a copy never ends
 *   queue     a queue that does not say whether it is in order
 *   slow      no failure: each launch takes N milliseconds of the host
 *   nothing   a kernel's launch is taken and does nothing; with XT_FAULT_KERNEL=TEXT only of
 *             kernels with that in their names, with XT_FAULT_BYTES=N only of those with a pointer
 *             into an allocation of that size; so also the following, which spoil float32 results:
 *   turn      every number with the other sign
 *   hole      a part of 32 is 0
 *   swap      neighbours are exchanged
 *   group     one number in a thousand is 0, as a work-group that writes nothing leaves it
 *   flush     NaN becomes 0
 *   twice     a launch runs twice, no failure else: what it adds to a sum is added twice
 *   stale     what was launched before with the same pointers does nothing
 *   deep      a queue that overflows: launches beyond the N-th since the last wait do nothing
 * XT_FAULT_ONCE=FILE: not where there is such a file, which the first failure makes.
 */
#include "layer.h"

#include <CL/cl_ext.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *wanted_kind;
static char kind_text[16];
static int wanted_number;
static atomic_int calls;
static atomic_bool failing;

/* Whether this call is one that fails. */
static bool fails(const char *kind)
{
    if (!wanted_kind || strcmp(kind, wanted_kind) != 0)
        return false;
    if (failing)
        return true;
    if (atomic_fetch_add(&calls, 1) + 1 != wanted_number)
        return false;
    const char *once = getenv("XT_FAULT_ONCE");
    if (once) {
        int fd = open(once, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
        if (fd < 0)
            return false;
        close(fd);
    }
    failing = true;
    return true;
}

/* ---- wrong results ---- */

enum { ARGUMENTS_MAX = 32, KERNELS_MAX = 16384 };

static struct kernel {
    cl_kernel handle;
    const void *pointers[ARGUMENTS_MAX];
} kernels[KERNELS_MAX];
static int kernel_count;
static uint64_t launched[KERNELS_MAX];
static int launched_count;
static cl_context last_context;
static clGetMemAllocInfoINTEL_fn alloc_info;
static clSetKernelArgMemPointerINTEL_fn set_pointer;

static struct kernel *kernel_of(cl_kernel handle)
{
    for (int i = kernel_count - 1; i >= 0; i--)
        if (kernels[i].handle == handle)
            return &kernels[i];
    if (kernel_count == KERNELS_MAX)
        abort();
    kernels[kernel_count] = (struct kernel){.handle = handle};
    return &kernels[kernel_count++];
}

static cl_int CL_API_CALL give_pointer(cl_kernel handle, cl_uint index, const void *pointer)
{
    if (index < ARGUMENTS_MAX)
        kernel_of(handle)->pointers[index] = pointer;
    return set_pointer(handle, index, pointer);
}

/* Whether it was launched before with the same pointers. */
static bool is_repeated(cl_kernel handle)
{
    const struct kernel *kernel = kernel_of(handle);
    char name[128] = "";
    uint64_t key = 0;
    real->clGetKernelInfo(handle, CL_KERNEL_FUNCTION_NAME, sizeof name, name, NULL);
    for (const char *at = name; *at; at++)
        key = key * 31 + (unsigned char)*at;
    for (int i = 0; i < ARGUMENTS_MAX; i++)
        key = key * 1000003 + (uintptr_t)kernel->pointers[i];
    for (int i = 0; i < launched_count; i++)
        if (launched[i] == key)
            return true;
    if (launched_count < KERNELS_MAX)
        launched[launched_count++] = key;
    return false;
}

/* The device's memory that a kernel reaches, and what is in it. */
struct memory {
    uint32_t *words, *before;
    size_t count;
};

static int remember(cl_kernel handle, struct memory *memories)
{
    const struct kernel *kernel = kernel_of(handle);
    int count = 0;
    for (int i = 0; i < ARGUMENTS_MAX; i++) {
        void *base = NULL;
        size_t size = 0;
        int known = 0;
        if (!kernel->pointers[i] || !alloc_info || !last_context)
            continue;
        alloc_info(last_context, kernel->pointers[i], CL_MEM_ALLOC_BASE_PTR_INTEL, sizeof base,
                   &base, NULL);
        alloc_info(last_context, kernel->pointers[i], CL_MEM_ALLOC_SIZE_INTEL, sizeof size, &size,
                   NULL);
        while (known < count && (void *)memories[known].words != base)
            known++;
        if (!base || known < count)
            continue;
        memories[count] = (struct memory){base, malloc(size), size / 4};
        memcpy(memories[count++].before, base, size / 4 * 4);
    }
    return count;
}

static bool is_nan(uint32_t word)
{
    return (word & 0x7F800000) == 0x7F800000 && (word & 0x007FFFFF);
}

/* Spoils what has changed, between the first and the last word that did. */
static void spoil(const struct memory *memory)
{
    size_t first = 0;
    size_t last = memory->count;
    while (first < last && memory->words[first] == memory->before[first])
        first++;
    while (last > first && memory->words[last - 1] == memory->before[last - 1])
        last--;
    size_t middle = first + (last - first) / 2;
    size_t part = (last - first) / (strcmp(wanted_kind, "hole") == 0 ? 32 : 1000) + 1;
    for (size_t i = first; i < last; i++) {
        uint32_t *word = &memory->words[i];
        if (strcmp(wanted_kind, "turn") == 0)
            *word ^= 0x80000000;
        if (strcmp(wanted_kind, "flush") == 0 && is_nan(*word))
            *word = 0;
        if (strcmp(wanted_kind, "swap") == 0 && (i - first) % 2) {
            uint32_t other = word[-1];
            word[-1] = *word;
            *word = other;
        }
        if ((strcmp(wanted_kind, "hole") == 0 || strcmp(wanted_kind, "group") == 0) &&
            i >= middle && i < middle + part)
            *word = 0;
    }
}

/* A wait of the process's first thread: others wait at times of their own. */
static bool wait_fails(void)
{
    return getpid() == gettid() && fails("finish");
}

/* Since the last wait. */
static atomic_int waiting;

static bool overflows(void)
{
    int before = atomic_fetch_add(&waiting, 1);
    return wanted_kind && strcmp(wanted_kind, "deep") == 0 && before >= wanted_number;
}

/* Whether one of its pointers is to an allocation of that size. */
static bool reaches(cl_kernel handle, size_t bytes)
{
    const struct kernel *kernel = kernel_of(handle);
    bool found = false;
    for (int i = 0; i < ARGUMENTS_MAX && !found; i++) {
        size_t size = 0;
        if (kernel->pointers[i] && alloc_info && last_context)
            alloc_info(last_context, kernel->pointers[i], CL_MEM_ALLOC_SIZE_INTEL, sizeof size,
                       &size, NULL);
        found = size == bytes;
    }
    return found;
}

static bool is_meant(cl_kernel kernel)
{
    char name[128] = "";
    const char *part = getenv("XT_FAULT_KERNEL");
    const char *bytes = getenv("XT_FAULT_BYTES");
    real->clGetKernelInfo(kernel, CL_KERNEL_FUNCTION_NAME, sizeof name, name, NULL);
    return (!part || strstr(name, part)) && (!bytes || reaches(kernel, strtoul(bytes, NULL, 10)));
}

static void hang_at(const char *kind)
{
    while (fails(kind))
        pause();
}

static cl_int CL_API_CALL device_ids(cl_platform_id platform, cl_device_type type, cl_uint room,
                                     cl_device_id *devices, cl_uint *count)
{
    hang_at("hang-device");
    return real->clGetDeviceIDs(platform, type, room, devices, count);
}

typedef void CL_CALLBACK context_notify(const char *text, const void *data, size_t size, void *own);

static cl_context CL_API_CALL create_context(const cl_context_properties *properties, cl_uint count,
                                             const cl_device_id *devices, context_notify *notify,
                                             void *own, cl_int *error)
{
    hang_at("hang-context");
    return real->clCreateContext(properties, count, devices, notify, own, error);
}

typedef void CL_CALLBACK program_notify(cl_program program, void *own);

static cl_int CL_API_CALL build(cl_program program, cl_uint count, const cl_device_id *devices,
                                const char *options, program_notify *notify, void *own)
{
    hang_at("hang-build");
    return real->clBuildProgram(program, count, devices, options, notify, own);
}

static cl_int CL_API_CALL launch(cl_command_queue queue, cl_kernel kernel, cl_uint dims,
                                 const size_t *offset, const size_t *global, const size_t *local,
                                 cl_uint waits, const cl_event *wait, cl_event *event)
{
    hang_at("hang-launch");
    if (fails("launch"))
        return CL_OUT_OF_RESOURCES;
    if (fails("nodevmem"))
        return CL_MEM_OBJECT_ALLOCATION_FAILURE;
    if (fails("nohostmem"))
        return CL_OUT_OF_HOST_MEMORY;
    if (fails("abort"))
        abort();
    if (wanted_kind && strcmp(wanted_kind, "slow") == 0)
        usleep(1000U * (useconds_t)wanted_number);
    if (overflows() ||
        (is_meant(kernel) && (fails("nothing") || (fails("stale") && is_repeated(kernel)))))
        return real->clEnqueueMarkerWithWaitList(queue, waits, wait, event);
    if (is_meant(kernel) && fails("twice"))
        real->clEnqueueNDRangeKernel(queue, kernel, dims, offset, global, local, waits, wait, NULL);
    bool spoils = is_meant(kernel) && (fails("turn") || fails("hole") || fails("swap") ||
                                       fails("group") || fails("flush"));
    struct memory memories[ARGUMENTS_MAX];
    if (spoils)
        real->clFinish(queue);
    int count = spoils ? remember(kernel, memories) : 0;
    cl_int status = real->clEnqueueNDRangeKernel(queue, kernel, dims, offset, global, local, waits,
                                                 wait, event);
    if (spoils)
        real->clFinish(queue);
    for (int i = 0; i < count; i++) {
        spoil(&memories[i]);
        free(memories[i].before);
    }
    return status;
}

static cl_int CL_API_CALL queue_info(cl_command_queue queue, cl_command_queue_info what,
                                     size_t room, void *out, size_t *needed)
{
    return what == CL_QUEUE_PROPERTIES && fails("queue")
               ? CL_INVALID_VALUE
               : real->clGetCommandQueueInfo(queue, what, room, out, needed);
}

static cl_int CL_API_CALL finish(cl_command_queue queue)
{
    hang_at("hang");
    atomic_store(&waiting, 0);
    return wait_fails() ? CL_OUT_OF_RESOURCES : real->clFinish(queue);
}

static cl_int CL_API_CALL wait_for_events(cl_uint count, const cl_event *events)
{
    hang_at("hang");
    atomic_store(&waiting, 0);
    return wait_fails() ? CL_OUT_OF_RESOURCES : real->clWaitForEvents(count, events);
}

static clDeviceMemAllocINTEL_fn device_alloc;
static clHostMemAllocINTEL_fn host_alloc;
static clEnqueueMemcpyINTEL_fn copy;

static cl_int CL_API_CALL copy_memory(cl_command_queue queue, cl_bool blocking, void *to,
                                      const void *from, size_t size, cl_uint waits,
                                      const cl_event *wait, cl_event *event)
{
    hang_at("hang-copy");
    return copy(queue, blocking, to, from, size, waits, wait, event);
}

static void *CL_API_CALL alloc_on_device(cl_context context, cl_device_id device,
                                         const cl_mem_properties_intel *properties, size_t size,
                                         cl_uint alignment, cl_int *error)
{
    last_context = context;
    if (!fails("alloc"))
        return device_alloc(context, device, properties, size, alignment, error);
    if (error)
        *error = CL_OUT_OF_RESOURCES;
    return NULL;
}

static void *CL_API_CALL alloc_on_host(cl_context context,
                                       const cl_mem_properties_intel *properties, size_t size,
                                       cl_uint alignment, cl_int *error)
{
    if (!fails("alloc"))
        return host_alloc(context, properties, size, alignment, error);
    if (error)
        *error = CL_OUT_OF_RESOURCES;
    return NULL;
}

static void *CL_API_CALL extension(cl_platform_id platform, const char *name)
{
    void *found = real->clGetExtensionFunctionAddressForPlatform(platform, name);
    union {
        void *object;
        clDeviceMemAllocINTEL_fn device;
        clHostMemAllocINTEL_fn host;
        clEnqueueMemcpyINTEL_fn copy;
        clSetKernelArgMemPointerINTEL_fn pointer;
        clGetMemAllocInfoINTEL_fn info;
    } function = {.object = found};
    if (found && strcmp(name, "clDeviceMemAllocINTEL") == 0) {
        device_alloc = function.device;
        function.device = alloc_on_device;
    } else if (found && strcmp(name, "clHostMemAllocINTEL") == 0) {
        host_alloc = function.host;
        function.host = alloc_on_host;
    } else if (found && strcmp(name, "clEnqueueMemcpyINTEL") == 0) {
        copy = function.copy;
        function.copy = copy_memory;
    } else if (found && strcmp(name, "clSetKernelArgMemPointerINTEL") == 0) {
        set_pointer = function.pointer;
        function.pointer = give_pointer;
    } else if (found && strcmp(name, "clGetMemAllocInfoINTEL") == 0) {
        alloc_info = function.info;
    }
    return function.object;
}

const char layer_name[] = "xtrain's faults";

void layer_fill(struct _cl_icd_dispatch *ours)
{
    const char *fault = getenv("XT_FAULT");
    if (fault && sscanf(fault, "%15s %d", kind_text, &wanted_number) == 2)
        wanted_kind = kind_text;
    ours->clEnqueueNDRangeKernel = launch;
    ours->clGetDeviceIDs = device_ids;
    ours->clCreateContext = create_context;
    ours->clBuildProgram = build;
    ours->clGetCommandQueueInfo = queue_info;
    ours->clFinish = finish;
    ours->clWaitForEvents = wait_for_events;
    ours->clGetExtensionFunctionAddressForPlatform = extension;
}
