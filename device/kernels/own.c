#include "device/kernels/own.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "device/faults/guard.h"
#include "device/gpu/opencl.h"
#include "device/kernels/own_queue.h"

/* Numbers of the OpenCL 3.0 specification. */
enum {
    QUEUE_CONTEXT = 0x1090,
    QUEUE_DEVICE = 0x1091,
    QUEUE_PROPERTIES = 0x1093,
    QUEUE_OUT_OF_ORDER = 1,
    DEVICE_PLATFORM = 0x1031,
    PROGRAM_BUILD_LOG = 0x1183,
    MEM_OBJECT_ALLOCATION_FAILURE = -4,
    OUT_OF_RESOURCES = -5,
    OUT_OF_HOST_MEMORY = -6,
};

enum { OPTIONS_MAX = 512 };
struct xt_own_program {
    struct xt_own_program *next;
    const char *source;
    char options[OPTIONS_MAX];
    xt_cl_handle program; /* NULL: the driver does not compile it */
};

struct xt_own_kernel {
    struct xt_own_kernels *own;
    const char *name;
    xt_cl_handle kernel;
};

/* ---- the queue ---- */

static bool find_functions(struct xt_cl_functions *cl)
{
    const struct {
        const char *name;
        void *function;
    } wanted[] = {
        {"clGetCommandQueueInfo", &cl->get_queue_info},
        {"clReleaseCommandQueue", &cl->release_queue},
        {"clGetDeviceInfo", &cl->get_device_info},
        {"clGetExtensionFunctionAddressForPlatform", &cl->get_extension},
        {"clCreateProgramWithSource", &cl->create_program},
        {"clBuildProgram", &cl->build_program},
        {"clGetProgramBuildInfo", &cl->get_build_info},
        {"clReleaseProgram", &cl->release_program},
        {"clCreateKernel", &cl->create_kernel},
        {"clReleaseKernel", &cl->release_kernel},
        {"clSetKernelArg", &cl->set_argument},
        {"clEnqueueNDRangeKernel", &cl->launch},
        {"clEnqueueMarkerWithWaitList", &cl->mark},
        {"clWaitForEvents", &cl->wait},
        {"clReleaseEvent", &cl->release_event},
        {"clFlush", &cl->flush},
        {"clCreateCommandQueueWithProperties", &cl->create_queue},
        {"clEnqueueBarrierWithWaitList", &cl->barrier},
    };
    for (size_t i = 0; i < sizeof wanted / sizeof *wanted; i++) {
        void *symbol = xt_opencl_symbol(wanted[i].name);
        if (!symbol)
            return false;
        memcpy(wanted[i].function, &symbol, sizeof symbol);
    }
    return true;
}

/* sycl::queue's own method, called by its mangled name as in xpu.c; the caller releases the queue
 * that it returns. */
static xt_cl_handle queue_of_sycl(dnnl_stream_t stream)
{
    union {
        void *symbol;
        dnnl_status_t (*get)(dnnl_stream_t stream, void **queue);
    } interop = {.symbol = xt_dnnl_symbol("dnnl_sycl_interop_stream_get_queue")};
    union {
        void *symbol;
        xt_cl_handle (*get)(const void *queue, int32_t *kind);
    } native = {.symbol = xt_dnnl_symbol("_ZNK4sycl3_V15queue9getNativeERi")};
    void *queue = NULL;
    int32_t kind = 0;
    bool found = interop.symbol && native.symbol && interop.get(stream, &queue) == dnnl_success;
    return found && queue ? native.get(queue, &kind) : NULL;
}

struct request {
    struct xt_device *device;
    struct xt_own_kernels *own;
};

/* All that can throw or call the driver. */
static dnnl_status_t find_queue(void *argument)
{
    const struct request *request = argument;
    struct xt_own_kernels *own = request->own;
    xt_cl_handle platform = NULL;
    uint64_t properties = QUEUE_OUT_OF_ORDER;
    own->queue = queue_of_sycl(request->device->stream);
    if (!own->queue ||
        own->cl.get_queue_info(own->queue, QUEUE_PROPERTIES, sizeof properties, &properties,
                               NULL) ||
        (properties & QUEUE_OUT_OF_ORDER) ||
        own->cl.get_queue_info(own->queue, QUEUE_CONTEXT, sizeof own->context, &own->context,
                               NULL) ||
        own->cl.get_queue_info(own->queue, QUEUE_DEVICE, sizeof own->device, &own->device, NULL) ||
        own->cl.get_device_info(own->device, DEVICE_PLATFORM, sizeof platform, &platform, NULL))
        return dnnl_unimplemented;
    void *pointer = own->cl.get_extension(platform, "clSetKernelArgMemPointerINTEL");
    void *copy = own->cl.get_extension(platform, "clEnqueueMemcpyINTEL");
    memcpy(&own->cl.set_pointer, &pointer, sizeof pointer);
    memcpy(&own->cl.copy, &copy, sizeof copy);
    return pointer && copy ? dnnl_success : dnnl_unimplemented;
}

enum xt_status xt_own_kernels_open(struct xt_device *device, struct xt_err *err)
{
    struct request request = {.device = device};
    if (strcmp(device->xpu.backend, "OpenCL") != 0 || !device->xpu.shared_memory)
        return XT_OK;
    enum xt_status status =
        xt_mem_calloc(&request.own, 1, sizeof *request.own, "the program's own kernels", err);
    if (status)
        return status;
    device->own_kernels = request.own;
    if (!find_functions(&request.own->cl) || xt_guard_run(find_queue, &request) != dnnl_success)
        xt_own_kernels_close(device);
    return XT_OK;
}

/* A lost device is left as it is, as guard.h says. */
static void release_mark(struct xt_own_kernels *own)
{
    if (own->mark && !xt_guard_is_lost())
        own->cl.release_event(own->mark);
    own->mark = NULL;
}

void xt_own_kernels_close(struct xt_device *device)
{
    struct xt_own_kernels *own = device->own_kernels;
    if (!own)
        return;
    xt_device_memory_destroy(&own->counters);
    release_mark(own);
    while (own->programs) {
        struct xt_own_program *program = own->programs;
        own->programs = program->next;
        if (program->program && !xt_guard_is_lost())
            own->cl.release_program(program->program);
        free(program);
    }
    if (own->queue && !xt_guard_is_lost())
        own->cl.release_queue(own->queue);
    free(own);
    device->own_kernels = NULL;
}

const struct xt_device_memory *xt_own_counters(const struct xt_device *device)
{
    return &device->own_kernels->counters;
}

/* ---- programs ---- */

static enum xt_status zero_counters(struct xt_device *device, struct xt_device_memory *counters,
                                    struct xt_err *err)
{
    static const uint32_t zeros[XT_OWN_COUNTERS];
    enum xt_status status = xt_device_memory_create_bytes(device, sizeof zeros, XT_ON_DEVICE,
                                                          "the kernels' counters", counters, err);
    if (!status)
        status = xt_device_memory_write(counters, zeros, sizeof zeros, XT_CAUSE_OTHER, err);
    return status;
}

struct compilation {
    const struct xt_own_kernels *own;
    struct xt_own_program *program;
};

static dnnl_status_t compile(void *argument)
{
    const struct compilation *c = argument;
    const struct xt_cl_functions *cl = &c->own->cl;
    const char *text = c->program->source;
    char log[1024] = "";
    char options[OPTIONS_MAX + 16];
    xt_cl_handle program = cl->create_program(c->own->context, 1, &text, NULL, NULL);
    snprintf(options, sizeof options, "-cl-std=CL3.0 %s", c->program->options);
    if (program && !cl->build_program(program, 1, &c->own->device, options, NULL, NULL)) {
        c->program->program = program;
        return dnnl_success;
    }
    if (program) {
        cl->get_build_info(program, c->own->device, PROGRAM_BUILD_LOG, sizeof log - 1, log, NULL);
        cl->release_program(program);
    }
    xt_log_warn("the driver does not compile a kernel of xtrain's, so oneDNN's are used in its "
                "place: %s",
                log);
    return dnnl_unimplemented;
}

static struct xt_own_program *find_program(const struct xt_own_kernels *own, const char *source,
                                           const char *options)
{
    struct xt_own_program *program = own->programs;
    while (program && (program->source != source || strcmp(program->options, options) != 0))
        program = program->next;
    return program;
}

const struct xt_own_program *xt_own_program(struct xt_device *device, const char *name,
                                            const char *source, const char *options)
{
    struct xt_own_kernels *own = device->own_kernels;
    struct xt_own_program *program = own ? find_program(own, source, options) : NULL;
    if (!own || program)
        return program && program->program ? program : NULL;
    if ((!own->counters.memory && zero_counters(device, &own->counters, NULL)) ||
        xt_mem_calloc(&program, 1, sizeof *program, "a kernel", NULL))
        return NULL;
    *program = (struct xt_own_program){.next = own->programs, .source = source};
    snprintf(program->options, sizeof program->options, "%s", options);
    own->programs = program;
    struct compilation compilation = {own, program};
    xt_guard_set_kernel(name, "a kernel of xtrain's");
    return xt_guard_compile(compile, &compilation) == dnnl_success ? program : NULL;
}

/* ---- kernels ---- */

static enum xt_status check(int32_t result, const char *name, struct xt_err *err)
{
    char said[48];
    if (!result)
        return XT_OK;
    snprintf(said, sizeof said, "OpenCL's error %d%s", (int)result,
             result == OUT_OF_RESOURCES ? ", CL_OUT_OF_RESOURCES" : "");
    return xt_dnnl_failed(said, dnnl_runtime_error, name, err);
}

enum xt_status xt_own_kernel_create(const struct xt_device *device,
                                    const struct xt_own_program *program, const char *name,
                                    struct xt_own_kernel **out, struct xt_err *err)
{
    int32_t error = 0;
    enum xt_status status = xt_mem_calloc(out, 1, sizeof **out, name, err);
    if (status)
        return status;
    **out = (struct xt_own_kernel){
        .own = device->own_kernels,
        .name = name,
        .kernel = device->own_kernels->cl.create_kernel(program->program, name, &error),
    };
    return check((*out)->kernel ? 0 : error ? error : -1, name, err);
}

void xt_own_kernel_destroy(struct xt_own_kernel *kernel)
{
    if (kernel && kernel->kernel && !xt_guard_is_lost())
        kernel->own->cl.release_kernel(kernel->kernel);
    free(kernel);
}

enum xt_status xt_own_kernel_point(struct xt_own_kernel *kernel, int index, void *address,
                                   struct xt_err *err)
{
    return check(kernel->own->cl.set_pointer(kernel->kernel, (uint32_t)index, address),
                 kernel->name, err);
}

enum xt_status xt_own_kernel_number(struct xt_own_kernel *kernel, int index, uint32_t number,
                                    struct xt_err *err)
{
    return check(
        kernel->own->cl.set_argument(kernel->kernel, (uint32_t)index, sizeof number, &number),
        kernel->name, err);
}

/* ---- running ---- */

/* What the queue is told, and OpenCL's answer. */
struct command {
    struct xt_own_kernels *own;
    const struct xt_own_kernel *kernel;
    const size_t *global, *local;
    int32_t error;
};

static dnnl_status_t meant(int32_t error)
{
    bool memory = error == MEM_OBJECT_ALLOCATION_FAILURE || error == OUT_OF_HOST_MEMORY;
    return memory ? dnnl_out_of_memory : error ? dnnl_runtime_error : dnnl_success;
}

static enum xt_status ended(const struct command *c, dnnl_status_t status, const char *what,
                            struct xt_err *err)
{
    return c->error && status == dnnl_runtime_error ? check(c->error, what, err)
                                                    : xt_dnnl_check(status, what, err);
}

static dnnl_status_t launch(void *argument)
{
    struct command *c = argument;
    c->error = c->own->cl.launch(c->own->queue, c->kernel->kernel, 2, NULL, c->global, c->local, 0,
                                 NULL, NULL);
    return meant(c->error);
}

enum xt_status xt_own_kernel_launch(const struct xt_own_kernel *kernel, const size_t global[2],
                                    const size_t local[2], struct xt_err *err)
{
    struct command c = {kernel->own, kernel, global, local, 0};
    return ended(&c, xt_guard_launch(launch, &c), kernel->name, err);
}

static dnnl_status_t mark(void *argument)
{
    struct command *c = argument;
    c->error = c->own->cl.mark(c->own->queue, 0, NULL, &c->own->mark);
    return meant(c->error);
}

static dnnl_status_t await(void *argument)
{
    struct command *c = argument;
    c->error = c->own->cl.wait(1, &c->own->mark);
    return meant(c->error);
}

enum xt_status xt_own_mark(struct xt_device *device, struct xt_err *err)
{
    struct command c = {.own = device->own_kernels};
    release_mark(c.own);
    return ended(&c, xt_guard_submit(mark, &c), "a mark", err);
}

enum xt_status xt_own_wait(struct xt_device *device, struct xt_err *err)
{
    struct command c = {.own = device->own_kernels};
    enum xt_status status = ended(&c, xt_guard_wait(await, &c), "the device", err);
    release_mark(c.own);
    return status;
}
