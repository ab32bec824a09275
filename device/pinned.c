#include "device/pinned.h"

#include "device/faults/guard.h"

/* sycl::detail::code_location of nowhere: file, function, line, column. */
struct place {
    const char *file, *function;
    unsigned long line, column;
};
static const struct place nowhere;

typedef dnnl_status_t get_context(dnnl_engine_t engine, void **context);
typedef void *aligned_alloc_host(size_t alignment, size_t bytes, const void *context,
                                 const struct place *from);
typedef void free_memory(void *memory, const void *context, const struct place *from);

union function {
    void *symbol;
    get_context *context;
    aligned_alloc_host *alloc;
    free_memory *free;
};

static union function find(const char *name)
{
    return (union function){.symbol = xt_dnnl_symbol(name)};
}

static const char context_name[] = "dnnl_sycl_interop_engine_get_context";
static const char alloc_name[] =
    "_ZN4sycl3_V118aligned_alloc_hostEmmRKNS0_7contextERKNS0_6detail13code_locationE";
static const char free_name[] = "_ZN4sycl3_V14freeEPvRKNS0_7contextERKNS0_6detail13code_locationE";

bool xt_pinned_is_there(void)
{
    return find(context_name).symbol && find(alloc_name).symbol && find(free_name).symbol;
}

/* The C++ calls, which may throw. */
struct request {
    dnnl_engine_t engine;
    size_t bytes;
    void *memory;
};

static dnnl_status_t alloc(void *argument)
{
    enum { LINE = 64 };
    struct request *request = argument;
    void *context = NULL;
    dnnl_status_t status = find(context_name).context(request->engine, &context);
    if (status == dnnl_success)
        request->memory = find(alloc_name).alloc(LINE, request->bytes, context, &nowhere);
    return status;
}

static dnnl_status_t give_back(void *argument)
{
    const struct request *request = argument;
    void *context = NULL;
    dnnl_status_t status = find(context_name).context(request->engine, &context);
    if (status == dnnl_success)
        find(free_name).free(request->memory, context, &nowhere);
    return status;
}

void *xt_pinned_alloc(const struct xt_device *device, size_t bytes)
{
    struct request request = {.engine = device->engine, .bytes = bytes};
    bool fine = xt_pinned_is_there() && xt_guard_run(alloc, &request) == dnnl_success;
    return fine ? request.memory : NULL;
}

void xt_pinned_free(const struct xt_device *device, void *memory)
{
    struct request request = {.engine = device->engine, .memory = memory};
    xt_guard_run(give_back, &request);
}
