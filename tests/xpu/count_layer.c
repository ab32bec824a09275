/* An OpenCL layer that counts what a process asks of its driver: kernels, waits, and bytes that
 * cross. Loaded over gpu_layer.c or over Intel's driver by the test that wants it; never installed.
 *
 * XT_COUNT_FILE: a file that gets the counts when the process ends, "NAME NUMBER" a line:
 *   launches        kernels
 *   waits           of the process's first thread, which trains; other_waits: of all others
 *   copies          commands that move memory; up, down: their bytes, from and to the host's
 *   reached         bytes of the host's memory that kernels were given, to read or write there
 *   kernel NAME     launches of the kernels of that name
 */
#include "layer.h"

#include <CL/cl_ext.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { NAMES_MAX = 512, RANGES_MAX = 1024, KERNELS_MAX = 8192, ARGUMENTS_MAX = 32 };

static struct {
    atomic_ulong launches, waits, other_waits, copies, up, down, reached;
} counted;

/* Guarded by the lock: kernels by name, the host's memory, and what each kernel object was given.
 */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    char name[64];
    unsigned long launches;
} names[NAMES_MAX];
static int name_count;
static struct range {
    uintptr_t from;
    size_t bytes;
} host[RANGES_MAX];
static int host_count;
static struct kernel {
    cl_kernel handle;
    size_t bytes[ARGUMENTS_MAX];
} kernels[KERNELS_MAX];
static int kernel_count;

static void count_wait(void)
{
    atomic_fetch_add(getpid() == gettid() ? &counted.waits : &counted.other_waits, 1);
}

/* The bytes from there to the end of the host's memory; 0 where it is the device's. */
static size_t host_bytes(const void *pointer)
{
    uintptr_t at = (uintptr_t)pointer;
    for (int i = 0; i < host_count; i++)
        if (at >= host[i].from && at < host[i].from + host[i].bytes)
            return host[i].from + host[i].bytes - at;
    return 0;
}

/* A pointer that is nobody's allocation is the host's too. */
static clGetMemAllocInfoINTEL_fn alloc_info;
static cl_context last_context;

static bool is_on_device(const void *pointer)
{
    cl_unified_shared_memory_type_intel type = 0;
    return alloc_info &&
           alloc_info(last_context, pointer, CL_MEM_ALLOC_TYPE_INTEL, sizeof type, &type, NULL) ==
               CL_SUCCESS &&
           type == CL_MEM_TYPE_DEVICE_INTEL;
}

static void count_copy(const void *to, const void *from, size_t bytes)
{
    bool down = !is_on_device(to);
    bool up = !is_on_device(from);
    atomic_fetch_add(&counted.copies, 1);
    if (up != down)
        atomic_fetch_add(up ? &counted.up : &counted.down, bytes);
}

/* ---- kernels ---- */

static struct kernel *kernel_of(cl_kernel handle)
{
    for (int i = 0; i < kernel_count; i++)
        if (kernels[i].handle == handle)
            return &kernels[i];
    if (kernel_count == KERNELS_MAX)
        return NULL;
    kernels[kernel_count] = (struct kernel){.handle = handle};
    return &kernels[kernel_count++];
}

static void count_name(cl_kernel handle)
{
    char name[64] = "";
    real->clGetKernelInfo(handle, CL_KERNEL_FUNCTION_NAME, sizeof name, name, NULL);
    int i = 0;
    while (i < name_count && strcmp(names[i].name, name) != 0)
        i++;
    if (i == NAMES_MAX)
        return;
    if (i == name_count)
        memcpy(names[name_count++].name, name, sizeof name);
    names[i].launches++;
}

static cl_int CL_API_CALL launch(cl_command_queue queue, cl_kernel handle, cl_uint dims,
                                 const size_t *offset, const size_t *global, const size_t *local,
                                 cl_uint waits, const cl_event *wait, cl_event *event)
{
    atomic_fetch_add(&counted.launches, 1);
    pthread_mutex_lock(&lock);
    count_name(handle);
    struct kernel *kernel = kernel_of(handle);
    for (int i = 0; kernel && i < ARGUMENTS_MAX; i++)
        atomic_fetch_add(&counted.reached, kernel->bytes[i]);
    pthread_mutex_unlock(&lock);
    return real->clEnqueueNDRangeKernel(queue, handle, dims, offset, global, local, waits, wait,
                                        event);
}

static clSetKernelArgMemPointerINTEL_fn set_pointer;

static cl_int CL_API_CALL give_pointer(cl_kernel handle, cl_uint index, const void *pointer)
{
    pthread_mutex_lock(&lock);
    struct kernel *kernel = kernel_of(handle);
    if (kernel && index < ARGUMENTS_MAX)
        kernel->bytes[index] = host_bytes(pointer);
    pthread_mutex_unlock(&lock);
    return set_pointer(handle, index, pointer);
}

/* ---- the host's memory, and copies ---- */

static clHostMemAllocINTEL_fn host_alloc;
static clMemFreeINTEL_fn mem_free, mem_free_blocking;
static clEnqueueMemcpyINTEL_fn copy;

static void *CL_API_CALL alloc_on_host(cl_context context,
                                       const cl_mem_properties_intel *properties, size_t bytes,
                                       cl_uint alignment, cl_int *error)
{
    void *pointer = host_alloc(context, properties, bytes, alignment, error);
    pthread_mutex_lock(&lock);
    last_context = context;
    if (pointer && host_count < RANGES_MAX)
        host[host_count++] = (struct range){(uintptr_t)pointer, bytes};
    pthread_mutex_unlock(&lock);
    return pointer;
}

static void forget(const void *pointer)
{
    pthread_mutex_lock(&lock);
    for (int i = 0; i < host_count; i++)
        if (host[i].from == (uintptr_t)pointer)
            host[i--] = host[--host_count];
    pthread_mutex_unlock(&lock);
}

static cl_int CL_API_CALL free_memory(cl_context context, void *pointer)
{
    forget(pointer);
    return mem_free(context, pointer);
}

static cl_int CL_API_CALL free_memory_blocking(cl_context context, void *pointer)
{
    forget(pointer);
    return mem_free_blocking(context, pointer);
}

static cl_int CL_API_CALL copy_memory(cl_command_queue queue, cl_bool blocking, void *to,
                                      const void *from, size_t bytes, cl_uint waits,
                                      const cl_event *wait, cl_event *event)
{
    if (!last_context)
        real->clGetCommandQueueInfo(queue, CL_QUEUE_CONTEXT, sizeof last_context,
                                    (void *)&last_context, NULL);
    count_copy(to, from, bytes);
    if (blocking)
        count_wait();
    return copy(queue, blocking, to, from, bytes, waits, wait, event);
}

static void *CL_API_CALL extension(cl_platform_id platform, const char *name)
{
    union {
        void *object;
        clHostMemAllocINTEL_fn host;
        clMemFreeINTEL_fn free;
        clEnqueueMemcpyINTEL_fn copy;
        clSetKernelArgMemPointerINTEL_fn pointer;
        clGetMemAllocInfoINTEL_fn info;
    } function = {.object = real->clGetExtensionFunctionAddressForPlatform(platform, name)};
    if (!function.object)
        return NULL;
    if (strcmp(name, "clHostMemAllocINTEL") == 0) {
        host_alloc = function.host;
        function.host = alloc_on_host;
    } else if (strcmp(name, "clMemFreeINTEL") == 0) {
        mem_free = function.free;
        function.free = free_memory;
    } else if (strcmp(name, "clMemBlockingFreeINTEL") == 0) {
        mem_free_blocking = function.free;
        function.free = free_memory_blocking;
    } else if (strcmp(name, "clEnqueueMemcpyINTEL") == 0) {
        union {
            void *object;
            clGetMemAllocInfoINTEL_fn info;
        } info = {.object = real->clGetExtensionFunctionAddressForPlatform(
                      platform, "clGetMemAllocInfoINTEL")};
        alloc_info = info.info;
        copy = function.copy;
        function.copy = copy_memory;
    } else if (strcmp(name, "clSetKernelArgMemPointerINTEL") == 0) {
        set_pointer = function.pointer;
        function.pointer = give_pointer;
    }
    return function.object;
}

/* ---- waits ---- */

static cl_int CL_API_CALL finish(cl_command_queue queue)
{
    count_wait();
    return real->clFinish(queue);
}

static cl_int CL_API_CALL wait_for_events(cl_uint count, const cl_event *events)
{
    count_wait();
    return real->clWaitForEvents(count, events);
}

__attribute__((destructor)) static void write_counts(void)
{
    const char *path = getenv("XT_COUNT_FILE");
    FILE *file = path && counted.launches ? fopen(path, "we") : NULL;
    if (!file)
        return;
    fprintf(file, "launches %lu\nwaits %lu\nother_waits %lu\ncopies %lu\nup %lu\ndown %lu\n",
            counted.launches, counted.waits, counted.other_waits, counted.copies, counted.up,
            counted.down);
    fprintf(file, "reached %lu\n", counted.reached);
    for (int i = 0; i < name_count; i++)
        fprintf(file, "kernel:%s %lu\n", names[i].name, names[i].launches);
    fclose(file);
}

const char layer_name[] = "xtrain's counts";

void layer_fill(struct _cl_icd_dispatch *ours)
{
    ours->clEnqueueNDRangeKernel = launch;
    ours->clFinish = finish;
    ours->clWaitForEvents = wait_for_events;
    ours->clGetExtensionFunctionAddressForPlatform = extension;
}
