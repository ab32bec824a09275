/* Memory that a device's primitives work on, and host-device transfers.
 *
 * Three kinds:
 *   - on the device: operands of ops;
 *   - on the host, pinned: memory that both sides can access. On SYCL it is USM host memory, which
 * a transfer reads or writes over the bus (oneDNN's reorder: a copy by the driver if the format
 *     does not change), in the order of its stream and without a copy on the host;
 *   - on the CPU device both are ordinary memory, and a transfer between equal formats copies.
 *
 * The creator destroys a memory, before its device. Mapping and copying wait for the device's
 * stream; one thread maps a memory at a time. Transferred bytes are counted by cause in the
 * device's `traffic`, atomically; on the CPU nothing is transferred.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "device/dnnl.h"
#include "device/handle.h"

/* Counts transfers by a device's own primitives; nothing on the CPU. */
void xt_traffic_add(struct xt_device *device, enum xt_cause cause, bool up, size_t bytes);
/* Bytes transferred in some interval. */
struct xt_transfers {
    uint64_t up[XT_CAUSE_COUNT];
    uint64_t down[XT_CAUSE_COUNT];
};
/* All so far. */
void xt_transfers_read(const struct xt_device *device, struct xt_transfers *out);
/* Adds the transfers since `before` was read. */
void xt_transfers_add_since(const struct xt_device *device, const struct xt_transfers *before,
                            struct xt_transfers *sum);
/* "up images 433.2 kB, gradients 12.9 kB; down logits 12.9 kB", per step: the sum divided by the
 * number of steps; "" if nothing was transferred. */
void xt_transfers_format(const struct xt_transfers *sum, int64_t steps, char *text, size_t size);

enum xt_place { XT_ON_DEVICE, XT_ON_HOST };

struct xt_device_memory {
    struct xt_device *device;
    dnnl_memory_t memory;
    size_t bytes;
    enum xt_place place;
    void *host; /* if accessible by the host: XT_ON_HOST, or while mapped; else NULL */
    dnnl_memory_t
        backing;   /* XT_ON_HOST on an XPU: the memory whose mapping `host` is; NULL: none */
    bool borrowed; /* a view of another memory */
};

/* Creates an oneDNN memory for `md` at `handle`, or with its own storage (DNNL_MEMORY_ALLOCATE).
 * Every memory of a device is created here, since addressing differs between oneDNN's runtimes. The
 * creator destroys it. */
enum xt_status xt_memory_create(const struct xt_device *device, const_dnnl_memory_desc_t md,
                                void *handle, const char *what, dnnl_memory_t *out,
                                struct xt_err *err);

/* The largest single allocation of the device, or what kernels can address (4 GiB); a multiple of
 * 64; 0: no limit, as on the CPU. */
size_t xt_device_allocation_most(const struct xt_device *device);
/* XT_ERR_MEMORY if `bytes` exceeds it; `what` is their use. */
enum xt_status xt_device_refuse_piece(const struct xt_device *device, const char *what,
                                      size_t bytes, struct xt_err *err);

/* Allocations beyond `free` bytes from now on are XT_ERR_MEMORY: kernel drivers (xe, i915) move
 * memory to the host's instead of refusing, or lose the device. */
void xt_device_limit_memory(struct xt_device *device, double free);

/* Memory for `md`, contents undefined. `what` names it in errors ("batch slot 2"). Too little
 * device memory is XT_ERR_MEMORY. */
enum xt_status xt_device_memory_create(struct xt_device *device, const_dnnl_memory_desc_t md,
                                       enum xt_place place, const char *what,
                                       struct xt_device_memory *out, struct xt_err *err);
/* The same for that many bytes (0 counts as 1) without a format of their own. */
enum xt_status xt_device_memory_create_bytes(struct xt_device *device, size_t bytes,
                                             enum xt_place place, const char *what,
                                             struct xt_device_memory *out, struct xt_err *err);
/* A view of `bytes` bytes of the device at `address`, whose owner must keep them longer. */
enum xt_status xt_device_memory_view(struct xt_device *device, void *address, size_t bytes,
                                     struct xt_device_memory *out, struct xt_err *err);
void xt_device_memory_destroy(struct xt_device_memory *memory);

/* Makes the contents accessible at *data until unmap, which writes changes back. On an XPU's own
 * memory map copies all of it down, and unmap up if it has changed. */
enum xt_status xt_device_memory_map(struct xt_device_memory *memory, enum xt_cause cause,
                                    void **data, struct xt_err *err);
enum xt_status xt_device_memory_unmap(struct xt_device_memory *memory, bool changed,
                                      enum xt_cause cause, struct xt_err *err);

/* Copies its first `bytes` bytes, in that direction alone, and waits: not for use in every step. */
enum xt_status xt_device_memory_write(struct xt_device_memory *memory, const void *from,
                                      size_t bytes, enum xt_cause cause, struct xt_err *err);
enum xt_status xt_device_memory_read(struct xt_device_memory *memory, void *to, size_t bytes,
                                     enum xt_cause cause, struct xt_err *err);

/* A transfer created once and run in every step: between two memories of the same shape, converting
 * data type and layout. Both must outlive it. */
struct xt_transfer {
    struct xt_device *device;
    const struct xt_device_memory *from;
    const struct xt_device_memory *to;
    dnnl_primitive_t primitive;
    enum xt_cause cause;
};
enum xt_status xt_transfer_create(struct xt_device *device, const struct xt_device_memory *from,
                                  const struct xt_device_memory *to, enum xt_cause cause,
                                  struct xt_transfer *out, struct xt_err *err);
void xt_transfer_destroy(struct xt_transfer *transfer);
/* Starts it on `stream` (NULL: the device's). It is complete once the stream has been waited
 * for. */
enum xt_status xt_transfer_run(const struct xt_transfer *transfer, dnnl_stream_t stream,
                               struct xt_err *err);
