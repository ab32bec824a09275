#include "device/memory.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/str.h"
#include "device/faults/guard.h"
#include "device/pinned.h"
#include "device/primitive.h"

static const char *cause_name(enum xt_cause cause)
{
    static const char *const names[XT_CAUSE_COUNT] = {
        [XT_CAUSE_IMAGES] = "images",       [XT_CAUSE_LOGITS] = "logits",
        [XT_CAUSE_GRADIENTS] = "gradients", [XT_CAUSE_LABELS] = "labels",
        [XT_CAUSE_LOSSES] = "losses",       [XT_CAUSE_WEIGHTS] = "weights",
        [XT_CAUSE_MASKS] = "masks",         [XT_CAUSE_SCALARS] = "scalars",
        [XT_CAUSE_OTHER] = "other",
    };
    return names[cause];
}

void xt_transfers_read(const struct xt_device *device, struct xt_transfers *out)
{
    for (int i = 0; i < XT_CAUSE_COUNT; i++) {
        out->up[i] = atomic_load(&device->traffic.up[i]);
        out->down[i] = atomic_load(&device->traffic.down[i]);
    }
}

void xt_transfers_add_since(const struct xt_device *device, const struct xt_transfers *before,
                            struct xt_transfers *sum)
{
    struct xt_transfers now;
    xt_transfers_read(device, &now);
    for (int i = 0; i < XT_CAUSE_COUNT; i++) {
        sum->up[i] += now.up[i] - before->up[i];
        sum->down[i] += now.down[i] - before->down[i];
    }
}

static void append_way(const char *way, const uint64_t *bytes, int64_t steps, char *text,
                       size_t size)
{
    const char *before = way;
    for (int i = 0; i < XT_CAUSE_COUNT; i++) {
        double each = (double)bytes[i] / (double)steps;
        if (bytes[i] == 0)
            continue;
        xt_str_append_to(text, size, "%s%s%s ", before == way && *text ? "; " : "", before,
                         cause_name((enum xt_cause)i));
        if (each < 1e3)
            xt_str_append_to(text, size, each < 10 ? "%.1f B" : "%.0f B", each);
        else
            xt_str_append_to(text, size, each < 1e6 ? "%.1f kB" : "%.1f MB",
                             each / (each < 1e6 ? 1e3 : 1e6));
        before = ", ";
    }
}

void xt_transfers_format(const struct xt_transfers *sum, int64_t steps, char *text, size_t size)
{
    *text = '\0';
    if (steps <= 0)
        return;
    append_way("up ", sum->up, steps, text, size);
    append_way("down ", sum->down, steps, text, size);
}

static bool needs_transfer(const struct xt_device *device)
{
    return device->own_memory;
}

static void count_up(struct xt_device *device, enum xt_cause cause, size_t bytes)
{
    if (needs_transfer(device))
        atomic_fetch_add(&device->traffic.up[cause], bytes);
}

static void count_down(struct xt_device *device, enum xt_cause cause, size_t bytes)
{
    if (needs_transfer(device))
        atomic_fetch_add(&device->traffic.down[cause], bytes);
}

void xt_traffic_add(struct xt_device *device, enum xt_cause cause, bool up, size_t bytes)
{
    if (up)
        count_up(device, cause, bytes);
    else
        count_down(device, cause, bytes);
}

enum xt_status xt_memory_create(const struct xt_device *device, const_dnnl_memory_desc_t md,
                                void *handle, const char *what, dnnl_memory_t *out,
                                struct xt_err *err)
{
    enum { SHARED = 0 /* dnnl_ocl_interop_usm; a memory without it is a cl_mem, a handle */ };
    return xt_dnnl_check(device->opencl_memory
                             ? device->opencl_memory(out, md, device->engine, SHARED, handle)
                             : xt_dnnl.memory_create(out, md, device->engine, handle),
                         what, err);
}

/* Drivers refuse more than their limit, 4 GB by default on an Arc; and oneDNN's OpenCL kernels are
 * compiled for buffers with 32-bit offsets. */
size_t xt_device_allocation_most(const struct xt_device *device)
{
    const uint64_t addressed = (uint64_t)1 << 32;
    uint64_t driver = device->xpu.facts.allocation_max;
    if (!needs_transfer(device))
        return 0;
    return (size_t)(driver && driver < addressed ? driver : addressed) / 64 * 64;
}

enum xt_status xt_device_refuse_piece(const struct xt_device *device, const char *what,
                                      size_t bytes, struct xt_err *err)
{
    return xt_err_set(err, XT_ERR_MEMORY, "%s: %.2f GB in one piece, and %s takes at most %.2f GB",
                      what, (double)bytes / 1e9, device->name,
                      (double)xt_device_allocation_most(device) / 1e9);
}

void xt_device_limit_memory(struct xt_device *device, double free)
{
    device->memory_most = atomic_load(&device->memory_used) + (size_t)free;
}

/* In the device's memory, beside the host's part. */
static enum xt_status allocate(struct xt_device *device, const_dnnl_memory_desc_t md, size_t bytes,
                               const char *what, dnnl_memory_t *out, struct xt_err *err)
{
    size_t used = atomic_fetch_add(&device->memory_used, bytes);
    enum xt_status status =
        device->memory_most && used + bytes > device->memory_most
            ? xt_err_set(
                  err, XT_ERR_MEMORY,
                  "%s: %.2f GB, beside the %.2f GB of %s that this process has already, are "
                  "more than the %.2f GB that were free for it; a smaller --batch needs less",
                  what, (double)bytes / 1e9, (double)used / 1e9, device->name,
                  (double)device->memory_most / 1e9)
            : xt_memory_create(device, md, DNNL_MEMORY_ALLOCATE, what, out, err);
    if (status)
        atomic_fetch_sub(&device->memory_used, bytes);
    return status;
}

/* Pinned host memory on an XPU, as a memory of the engine. If the runtime cannot allocate it alone
 * it is a device memory that stays mapped. */
static enum xt_status create_shared(struct xt_device *device, const_dnnl_memory_desc_t md,
                                    const char *what, struct xt_device_memory *out,
                                    struct xt_err *err)
{
    enum xt_status status = XT_OK;
    out->host = xt_pinned_alloc(device, out->bytes ? out->bytes : 1);
    if (out->host)
        return xt_memory_create(device, md, out->host, what, &out->memory, err);
    status = allocate(device, md, out->bytes, what, &out->backing, err);
    /* The host part is allocated here, and the runtime does not report why that failed. */
    if (!status && xt_dnnl.memory_map_data(out->backing, &out->host) != dnnl_success) {
        out->host = NULL;
        status = xt_err_set(err, XT_ERR_MEMORY,
                            "%s: %.1f MB of pinned memory could not be allocated by the host", what,
                            (double)out->bytes / 1e6);
    }
    if (!status)
        status = xt_memory_create(device, md, out->host, what, &out->memory, err);
    return status;
}

/* Activations are not touched at allocation: the compute threads do that when they first write
 * them. */
enum { MAPPED_FROM = 8 << 20 };

static enum xt_status create_on_cpu(struct xt_device *device, const_dnnl_memory_desc_t md,
                                    const char *what, struct xt_device_memory *out,
                                    struct xt_err *err)
{
    enum xt_status status = out->bytes >= MAPPED_FROM
                                ? xt_mem_map(&out->host, out->bytes, what, err)
                                : xt_mem_aligned(&out->host, out->bytes, 1, what, err);
    if (!status)
        status = xt_memory_create(device, md, out->host, what, &out->memory, err);
    return status;
}

enum xt_status xt_device_memory_create(struct xt_device *device, const_dnnl_memory_desc_t md,
                                       enum xt_place place, const char *what,
                                       struct xt_device_memory *out, struct xt_err *err)
{
    *out = (struct xt_device_memory){
        .device = device, .bytes = xt_dnnl.memory_desc_get_size(md), .place = place};
    size_t most = xt_device_allocation_most(device);
    enum xt_status status = XT_OK;
    if (!needs_transfer(device))
        status = create_on_cpu(device, md, what, out, err);
    else if (out->bytes > most)
        status = xt_device_refuse_piece(device, what, out->bytes, err);
    else if (place == XT_ON_HOST)
        status = create_shared(device, md, what, out, err);
    else
        status = allocate(device, md, out->bytes, what, &out->memory, err);
    if (status)
        xt_device_memory_destroy(out);
    return status;
}

static enum xt_status describe_bytes(size_t bytes, const char *what, dnnl_memory_desc_t *md,
                                     struct xt_err *err)
{
    dnnl_dims_t dims = {(int64_t)bytes};
    return xt_dnnl_check(xt_dnnl.memory_desc_create_with_tag(md, 1, dims, dnnl_u8, dnnl_a), what,
                         err);
}

enum xt_status xt_device_memory_create_bytes(struct xt_device *device, size_t bytes,
                                             enum xt_place place, const char *what,
                                             struct xt_device_memory *out, struct xt_err *err)
{
    dnnl_memory_desc_t md = NULL;
    enum xt_status status = describe_bytes(bytes ? bytes : 1, what, &md, err);
    if (!status)
        status = xt_device_memory_create(device, md, place, what, out, err);
    if (md)
        xt_dnnl.memory_desc_destroy(md);
    return status;
}

enum xt_status xt_device_memory_view(struct xt_device *device, void *address, size_t bytes,
                                     struct xt_device_memory *out, struct xt_err *err)
{
    *out = (struct xt_device_memory){
        .device = device, .bytes = bytes, .place = XT_ON_DEVICE, .borrowed = true};
    if (!needs_transfer(device))
        out->host = address;
    dnnl_memory_desc_t md = NULL;
    enum xt_status status = describe_bytes(bytes, "a view", &md, err);
    if (!status)
        status = xt_memory_create(device, md, address, "a view", &out->memory, err);
    if (md)
        xt_dnnl.memory_desc_destroy(md);
    if (status)
        xt_device_memory_destroy(out);
    return status;
}

void xt_device_memory_destroy(struct xt_device_memory *memory)
{
    if (!memory->device)
        return;
    bool inside = memory->backing || (memory->memory && memory->place == XT_ON_DEVICE);
    if (needs_transfer(memory->device) && inside && !memory->borrowed)
        atomic_fetch_sub(&memory->device->memory_used, memory->bytes);
    bool mapped = memory->host && !memory->backing && needs_transfer(memory->device);
    bool pinned = mapped && memory->place == XT_ON_HOST;
    if (mapped && !pinned)
        free(memory->host);
    if (memory->memory)
        xt_dnnl.memory_destroy(memory->memory);
    if (pinned)
        xt_pinned_free(memory->device, memory->host);
    if (memory->backing) {
        if (memory->host)
            xt_dnnl.memory_unmap_data(memory->backing, memory->host);
        xt_dnnl.memory_destroy(memory->backing);
    }
    if (!needs_transfer(memory->device) && !memory->borrowed && memory->bytes >= MAPPED_FROM)
        xt_mem_unmap(memory->host, memory->bytes);
    else if (!needs_transfer(memory->device) && !memory->borrowed)
        free(memory->host);
    *memory = (struct xt_device_memory){0};
}

static bool is_reachable(const struct xt_device_memory *memory)
{
    return memory->place == XT_ON_HOST || !needs_transfer(memory->device);
}

/* --- transfers
 * ----------------------------------------------------------------------------------*/
static enum xt_status desc_of(const struct xt_device_memory *memory, const_dnnl_memory_desc_t *md,
                              struct xt_err *err)
{
    return xt_dnnl_check(xt_dnnl.memory_get_memory_desc(memory->memory, md), "a transfer", err);
}

enum xt_status xt_transfer_create(struct xt_device *device, const struct xt_device_memory *from,
                                  const struct xt_device_memory *to, enum xt_cause cause,
                                  struct xt_transfer *out, struct xt_err *err)
{
    *out = (struct xt_transfer){.device = device, .from = from, .to = to, .cause = cause};
    const_dnnl_memory_desc_t from_md = NULL;
    const_dnnl_memory_desc_t to_md = NULL;
    dnnl_primitive_desc_t pd = NULL;
    enum xt_status status = desc_of(from, &from_md, err);
    if (!status)
        status = desc_of(to, &to_md, err);
    if (!status)
        status = xt_dnnl_check(xt_dnnl.reorder_primitive_desc_create(&pd, from_md, device->engine,
                                                                     to_md, device->engine, NULL),
                               "a transfer", err);
    xt_guard_set_kernel("", "a transfer");
    if (!status)
        status = xt_primitive_create(device, pd, "a transfer", &out->primitive, err);
    if (pd)
        xt_dnnl.primitive_desc_destroy(pd);
    if (status)
        xt_transfer_destroy(out);
    return status;
}

void xt_transfer_destroy(struct xt_transfer *transfer)
{
    if (transfer->primitive)
        xt_dnnl.primitive_destroy(transfer->primitive);
    *transfer = (struct xt_transfer){0};
}

enum xt_status xt_transfer_run(const struct xt_transfer *transfer, dnnl_stream_t stream,
                               struct xt_err *err)
{
    struct xt_device *device = transfer->device;
    const dnnl_exec_arg_t args[] = {{DNNL_ARG_FROM, transfer->from->memory},
                                    {DNNL_ARG_TO, transfer->to->memory}};
    if (transfer->from->place == XT_ON_HOST && transfer->to->place == XT_ON_DEVICE)
        count_up(device, transfer->cause, transfer->from->bytes);
    else if (transfer->from->place == XT_ON_DEVICE && transfer->to->place == XT_ON_HOST)
        count_down(device, transfer->cause, transfer->to->bytes);
    return xt_dnnl_check(
        xt_dnnl.primitive_execute(transfer->primitive, stream ? stream : device->stream, 2, args),
        "a transfer", err);
}

/* ---- whole contents, one way ---- */

/* The host's side of a copy is pinned memory of at most this size. */
enum { STAGING_MOST = 32 << 20 };

/* A view of pinned host memory. */
static enum xt_status view_host(struct xt_device *device, void *address, size_t bytes,
                                struct xt_device_memory *out, struct xt_err *err)
{
    enum xt_status status = xt_device_memory_view(device, address, bytes, out, err);
    out->place = XT_ON_HOST;
    return status;
}

/* `bytes` of the device's memory at `there`, through `staging`. */
static enum xt_status copy_piece(struct xt_device_memory *staging, uint8_t *there, uint8_t *here,
                                 size_t bytes, bool up, enum xt_cause cause, struct xt_err *err)
{
    struct xt_device *device = staging->device;
    struct xt_device_memory inside = {0};
    struct xt_device_memory outside = {0};
    struct xt_transfer transfer = {0};
    if (up)
        memcpy(staging->host, here, bytes);
    enum xt_status status = xt_device_memory_view(device, there, bytes, &inside, err);
    if (!status)
        status = view_host(device, staging->host, bytes, &outside, err);
    if (!status)
        status = xt_transfer_create(device, up ? &outside : &inside, up ? &inside : &outside, cause,
                                    &transfer, err);
    if (!status)
        status = xt_transfer_run(&transfer, NULL, err);
    if (!status)
        status = xt_dnnl_check(xt_dnnl.stream_wait(device->stream), "a copy", err);
    if (!status && !up)
        memcpy(here, staging->host, bytes);
    xt_transfer_destroy(&transfer);
    xt_device_memory_destroy(&inside);
    xt_device_memory_destroy(&outside);
    return status;
}

static enum xt_status copy_pieces(struct xt_device_memory *memory, uint8_t *here, size_t bytes,
                                  bool up, enum xt_cause cause, struct xt_err *err)
{
    struct xt_device_memory staging;
    void *there = NULL;
    size_t most = bytes < STAGING_MOST ? bytes : STAGING_MOST;
    enum xt_status status =
        xt_dnnl_check(xt_dnnl.memory_get_data_handle(memory->memory, &there), "a copy", err);
    if (!status)
        status = xt_device_memory_create_bytes(memory->device, most, XT_ON_HOST,
                                               "the pinned memory of a copy", &staging, err);
    if (status)
        return status;
    for (size_t at = 0; at < bytes && !status; at += most)
        status = copy_piece(&staging, (uint8_t *)there + at, here + at,
                            bytes - at < most ? bytes - at : most, up, cause, err);
    xt_device_memory_destroy(&staging);
    return status;
}

/* oneDNN's mapping, where the runtime has no pinned memory of the host's own, copies both ways. */
static enum xt_status copy_mapped(struct xt_device_memory *memory, uint8_t *here, size_t bytes,
                                  bool up, enum xt_cause cause, struct xt_err *err)
{
    void *data = NULL;
    enum xt_status status = xt_dnnl_check(xt_dnnl.memory_map_data(memory->memory, &data),
                                          "the mapping of device memory", err);
    if (status)
        return status;
    memcpy(up ? data : here, up ? here : data, bytes);
    count_down(memory->device, cause, memory->bytes);
    count_up(memory->device, cause, memory->bytes);
    return xt_dnnl_check(xt_dnnl.memory_unmap_data(memory->memory, data),
                         "the end of a mapping of device memory", err);
}

static enum xt_status copy(struct xt_device_memory *memory, uint8_t *here, size_t bytes, bool up,
                           enum xt_cause cause, struct xt_err *err)
{
    if (!is_reachable(memory) && xt_pinned_is_there())
        return copy_pieces(memory, here, bytes, up, cause, err);
    enum xt_status status =
        xt_dnnl_check(xt_dnnl.stream_wait(memory->device->stream), "the work before a copy", err);
    if (!status && !is_reachable(memory))
        return copy_mapped(memory, here, bytes, up, cause, err);
    if (!status)
        memcpy(up ? memory->host : here, up ? here : memory->host, bytes);
    return status;
}

enum xt_status xt_device_memory_map(struct xt_device_memory *memory, enum xt_cause cause,
                                    void **data, struct xt_err *err)
{
    enum xt_status status =
        is_reachable(memory)
            ? xt_dnnl_check(xt_dnnl.stream_wait(memory->device->stream),
                            "the work before a mapping", err)
            : xt_mem_aligned(&memory->host, memory->bytes, 1, "a copy of device memory", err);
    if (!status && !is_reachable(memory))
        status = copy(memory, memory->host, memory->bytes, false, cause, err);
    *data = memory->host;
    return status;
}

enum xt_status xt_device_memory_unmap(struct xt_device_memory *memory, bool changed,
                                      enum xt_cause cause, struct xt_err *err)
{
    if (is_reachable(memory) || !memory->host)
        return XT_OK;
    enum xt_status status =
        changed ? copy(memory, memory->host, memory->bytes, true, cause, err) : XT_OK;
    free(memory->host);
    memory->host = NULL;
    return status;
}

enum xt_status xt_device_memory_write(struct xt_device_memory *memory, const void *from,
                                      size_t bytes, enum xt_cause cause, struct xt_err *err)
{
    /* It is only read. */
    union {
        const void *in;
        uint8_t *out;
    } handle = {.in = from};
    return copy(memory, handle.out, bytes, true, cause, err);
}

enum xt_status xt_device_memory_read(struct xt_device_memory *memory, void *to, size_t bytes,
                                     enum xt_cause cause, struct xt_err *err)
{
    return copy(memory, to, bytes, false, cause, err);
}
