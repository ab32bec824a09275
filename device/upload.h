/* Batch slots, the memory that loader threads decode into, and the upload of their pixels to the
 * device.
 *
 * On the CPU, or without a device, a slot is ordinary memory, aligned for vector loads, that a step
 * reads in place. On an XPU a slot is pinned host memory, and a batch is copied from it into one of
 * a few buffers of the device: on a separate queue, so that one thread uploads the next batch
 * while another one's step computes. Not pinned: slots are pageable memory, and each batch is
 * copied into one pinned buffer first.
 *
 * The caller owns a `struct xt_upload` and clears it before the device is closed. xt_upload_move is
 * for one thread at a time; the caller tracks which slots and buffers are in use.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "device/memory.h"

enum { XT_SLOTS_MAX = 16, XT_UPLOAD_BUFFERS = 2 };

struct xt_upload_config {
    struct xt_device *device; /* NULL: the CPU */
    int slots;                /* at most XT_SLOTS_MAX */
    int batch;
    int height;
    int width;
    bool pageable; /* an XPU's slots are not pinned */
    bool copied;   /* upload on the CPU too, for tests */
};

struct xt_upload {
    struct xt_device *device;
    uint8_t *pixels[XT_SLOTS_MAX]; /* [batch][height][width][3] each */
    int count;
    size_t bytes;   /* of a slot */
    bool transfers; /* steps read the buffers, not the slots */
    bool pageable;  /* pixels[] are pageable memory */
    struct xt_device_memory
        host[XT_SLOTS_MAX]; /* the slots; if pageable [0] is the staging buffer */
    struct xt_device_memory buffers[XT_UPLOAD_BUFFERS]; /* u8, {batch, 3, height, width} as NHWC */
    struct xt_transfer transfer;
    dnnl_stream_t stream;
    struct xt_copies *copies; /* in place of transfer and stream, where the device has one */
};

/* XT_ERR_MEMORY if host or device has too little. */
enum xt_status xt_upload_init(struct xt_upload *upload, const struct xt_upload_config *config,
                              struct xt_err *err);
void xt_upload_clear(struct xt_upload *upload);

/* Copies a slot's pixels into a buffer and blocks until it is done: the slot may be refilled then.
 * For an upload that transfers. */
enum xt_status xt_upload_move(struct xt_upload *upload, int slot, int buffer, struct xt_err *err);

/* The family of its queue for copies, "" for the usual one; NULL: it has none. */
const char *xt_upload_queue(const struct xt_upload *upload);
/* Its parts: starts the copy; then what is launched on the device's stream runs behind it, by the
 * thread that launches; then the host waits, and the slot may be refilled. Where the device has no
 * queue for copies the first does all. */
enum xt_status xt_upload_start(struct xt_upload *upload, int slot, int buffer, struct xt_err *err);
enum xt_status xt_upload_order(struct xt_upload *upload, int buffer, struct xt_err *err);
enum xt_status xt_upload_finish(struct xt_upload *upload, int buffer, struct xt_err *err);
