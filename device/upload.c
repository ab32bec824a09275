#include "device/upload.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "device/kernels/copies.h"

static enum xt_status create_pageable_slots(struct xt_upload *upload, int count, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    while (upload->count < count && !status) {
        status =
            xt_mem_aligned(&upload->pixels[upload->count], upload->bytes, 1, "a batch slot", err);
        upload->count += !status;
    }
    return status;
}

static enum xt_status create_pinned_slots(struct xt_upload *upload, const_dnnl_memory_desc_t md,
                                          int count, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    while (upload->count < count && !status) {
        struct xt_device_memory *slot = &upload->host[upload->count];
        status = xt_device_memory_create(upload->device, md, XT_ON_HOST, "a pinned batch slot",
                                         slot, err);
        upload->pixels[upload->count] = slot->host;
        upload->count += !status;
    }
    return status;
}

/* Mapped memory is none that a queue's copies take. */
static enum xt_status create_queue(struct xt_upload *upload, struct xt_err *err)
{
    enum xt_status status =
        upload->host[0].backing ? XT_OK : xt_copies_create(upload->device, &upload->copies, err);
    if (status || upload->copies)
        return status;
    status = xt_transfer_create(upload->device, &upload->host[0], &upload->buffers[0],
                                XT_CAUSE_IMAGES, &upload->transfer, err);
    return status ? status
                  : xt_dnnl_check(xt_dnnl.stream_create(&upload->stream, upload->device->engine,
                                                        dnnl_stream_default_flags),
                                  "a stream for transfers", err);
}

/* Slots, buffers and the transfers between them. */
static enum xt_status create_way(struct xt_upload *upload, const struct xt_upload_config *config,
                                 struct xt_err *err)
{
    const dnnl_dims_t dims = {config->batch, 3, config->height, config->width};
    dnnl_memory_desc_t md = NULL;
    enum xt_status status =
        xt_dnnl_check(xt_dnnl.memory_desc_create_with_tag(&md, 4, dims, dnnl_u8, dnnl_acdb),
                      "the format of a batch slot", err);
    if (!status && upload->pageable) {
        status = create_pageable_slots(upload, config->slots, err);
        if (!status)
            status = xt_device_memory_create(upload->device, md, XT_ON_HOST,
                                             "the pinned memory that batches are copied through",
                                             &upload->host[0], err);
    } else if (!status) {
        status = create_pinned_slots(upload, md, config->slots, err);
    }
    for (int i = 0; i < XT_UPLOAD_BUFFERS && !status; i++)
        status =
            xt_device_memory_create(upload->device, md, XT_ON_DEVICE,
                                    "a batch's images on the device", &upload->buffers[i], err);
    if (!status)
        status = create_queue(upload, err);
    if (md)
        xt_dnnl.memory_desc_destroy(md);
    return status;
}

enum xt_status xt_upload_init(struct xt_upload *upload, const struct xt_upload_config *config,
                              struct xt_err *err)
{
    *upload = (struct xt_upload){
        .device = config->device,
        .bytes = (size_t)config->batch * (size_t)config->height * (size_t)config->width * 3,
        .transfers = config->device && (config->device->own_memory || config->copied),
    };
    upload->pageable = !upload->transfers || config->pageable;
    enum xt_status status = upload->transfers ? create_way(upload, config, err)
                                              : create_pageable_slots(upload, config->slots, err);
    if (status)
        xt_upload_clear(upload);
    return status;
}

void xt_upload_clear(struct xt_upload *upload)
{
    if (upload->stream)
        xt_dnnl.stream_destroy(upload->stream);
    xt_transfer_destroy(&upload->transfer);
    xt_copies_destroy(upload->copies);
    for (int i = 0; i < XT_UPLOAD_BUFFERS; i++)
        xt_device_memory_destroy(&upload->buffers[i]);
    for (int i = 0; i < XT_SLOTS_MAX; i++)
        xt_device_memory_destroy(&upload->host[i]);
    for (int i = 0; i < upload->count && upload->pageable; i++)
        free(upload->pixels[i]);
    *upload = (struct xt_upload){0};
}

static const struct xt_device_memory *fill(struct xt_upload *upload, int slot)
{
    if (upload->pageable)
        memcpy(upload->host[0].host, upload->pixels[slot], upload->bytes);
    return &upload->host[upload->pageable ? 0 : slot];
}

static enum xt_status move_by_stream(struct xt_upload *upload, int slot, int buffer,
                                     struct xt_err *err)
{
    /* All memories have the same format, so one transfer serves each pair of them. */
    struct xt_transfer transfer = upload->transfer;
    transfer.from = fill(upload, slot);
    transfer.to = &upload->buffers[buffer];
    enum xt_status status = xt_transfer_run(&transfer, upload->stream, err);
    if (!status)
        status = xt_dnnl_check(xt_dnnl.stream_wait(upload->stream), "the upload of a batch", err);
    return status;
}

enum xt_status xt_upload_start(struct xt_upload *upload, int slot, int buffer, struct xt_err *err)
{
    void *to = NULL;
    if (!upload->copies)
        return move_by_stream(upload, slot, buffer, err);
    enum xt_status status = xt_dnnl_check(
        xt_dnnl.memory_get_data_handle(upload->buffers[buffer].memory, &to), "a batch", err);
    if (status)
        return status;
    xt_traffic_add(upload->device, XT_CAUSE_IMAGES, true, upload->bytes);
    return xt_copy_start(upload->copies, buffer, to, fill(upload, slot)->host, upload->bytes, err);
}

enum xt_status xt_upload_order(struct xt_upload *upload, int buffer, struct xt_err *err)
{
    return upload->copies ? xt_copy_order(upload->copies, buffer, err) : XT_OK;
}

enum xt_status xt_upload_finish(struct xt_upload *upload, int buffer, struct xt_err *err)
{
    return upload->copies ? xt_copy_wait(upload->copies, buffer, err) : XT_OK;
}

enum xt_status xt_upload_move(struct xt_upload *upload, int slot, int buffer, struct xt_err *err)
{
    enum xt_status status = xt_upload_start(upload, slot, buffer, err);
    return status ? status : xt_upload_finish(upload, buffer, err);
}

const char *xt_upload_queue(const struct xt_upload *upload)
{
    return upload->copies ? xt_copies_family(upload->copies) : NULL;
}
