#include "device/kernels/copies.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/mem.h"
#include "device/faults/guard.h"
#include "device/kernels/own_queue.h"

/* Numbers of cl_intel_command_queue_families. */
enum {
    QUEUE_FAMILIES = 0x418B,
    QUEUE_FAMILY = 0x418C,
    QUEUE_INDEX = 0x418D,
    FAMILY_TELLS_OTHERS = 1 << 1, /* its events, to other queues */
    FAMILY_COPIES = 1 << 8,
    FAMILY_COMPUTES = 1 << 26,
};

struct family {
    uint64_t properties, capabilities;
    uint32_t count; /* of its queues */
    char name[64];
};

struct xt_copies {
    const struct xt_own_kernels *own;
    xt_cl_handle queue;
    char family[64];
    xt_cl_handle events[XT_COPIES]; /* of the last one started; NULL: none */
};

/* -1: the driver has none for copies alone, or does not tell. */
static int find_family(struct xt_copies *copies)
{
    enum { FAMILIES_MAX = 16, WANTED = FAMILY_COPIES | FAMILY_TELLS_OTHERS };
    struct family families[FAMILIES_MAX];
    size_t bytes = 0;
    if (copies->own->cl.get_device_info(copies->own->device, QUEUE_FAMILIES, sizeof families,
                                        families, &bytes))
        return -1;
    for (int i = 0; i < (int)(bytes / sizeof *families); i++)
        if (families[i].count && (families[i].capabilities & WANTED) == WANTED &&
            !(families[i].capabilities & FAMILY_COMPUTES)) {
            snprintf(copies->family, sizeof copies->family, "%.63s", families[i].name);
            return i;
        }
    return -1;
}

static dnnl_status_t create_queue(void *argument)
{
    struct xt_copies *copies = argument;
    const struct xt_own_kernels *own = copies->own;
    int family = find_family(copies);
    int32_t error = 0;
    const uint64_t of_family[] = {QUEUE_FAMILY, (uint64_t)family, QUEUE_INDEX, 0, 0};
    const uint64_t usual[] = {0};
    copies->queue =
        own->cl.create_queue(own->context, own->device, family < 0 ? usual : of_family, &error);
    return copies->queue ? dnnl_success : dnnl_unimplemented;
}

enum xt_status xt_copies_create(const struct xt_device *device, struct xt_copies **out,
                                struct xt_err *err)
{
    struct xt_copies *copies = NULL;
    *out = NULL;
    if (!device->own_kernels)
        return XT_OK;
    enum xt_status status = xt_mem_calloc(&copies, 1, sizeof *copies, "a queue for copies", err);
    if (status)
        return status;
    copies->own = device->own_kernels;
    if (xt_guard_run(create_queue, copies) != dnnl_success) {
        xt_copies_destroy(copies);
        return XT_OK;
    }
    *out = copies;
    return XT_OK;
}

const char *xt_copies_family(const struct xt_copies *copies)
{
    return copies->family;
}

static void forget_copy(struct xt_copies *copies, int which)
{
    if (copies->events[which] && !xt_guard_is_lost())
        copies->own->cl.release_event(copies->events[which]);
    copies->events[which] = NULL;
}

void xt_copies_destroy(struct xt_copies *copies)
{
    if (!copies)
        return;
    for (int i = 0; i < XT_COPIES; i++)
        forget_copy(copies, i);
    if (copies->queue && !xt_guard_is_lost())
        copies->own->cl.release_queue(copies->queue);
    free(copies);
}

struct copy {
    struct xt_copies *copies;
    int which;
    void *to;
    const void *from;
    size_t bytes;
};

static dnnl_status_t start_copy(void *argument)
{
    const struct copy *c = argument;
    struct xt_copies *copies = c->copies;
    const struct xt_cl_functions *cl = &copies->own->cl;
    forget_copy(copies, c->which);
    return cl->copy(copies->queue, 0, c->to, c->from, c->bytes, 0, NULL,
                    &copies->events[c->which]) ||
                   cl->flush(copies->queue)
               ? dnnl_runtime_error
               : dnnl_success;
}

static dnnl_status_t order_copy(void *argument)
{
    const struct copy *c = argument;
    const struct xt_own_kernels *own = c->copies->own;
    return own->cl.barrier(own->queue, 1, &c->copies->events[c->which], NULL) ? dnnl_runtime_error
                                                                              : dnnl_success;
}

static dnnl_status_t await_copy(void *argument)
{
    const struct copy *c = argument;
    return c->copies->own->cl.wait(1, &c->copies->events[c->which]) ? dnnl_runtime_error
                                                                    : dnnl_success;
}

enum xt_status xt_copy_start(struct xt_copies *copies, int which, void *to, const void *from,
                             size_t bytes, struct xt_err *err)
{
    struct copy copy = {copies, which, to, from, bytes};
    return xt_dnnl_check(xt_guard_submit(start_copy, &copy), "a copy", err);
}

enum xt_status xt_copy_order(struct xt_copies *copies, int which, struct xt_err *err)
{
    struct copy copy = {.copies = copies, .which = which};
    return xt_dnnl_check(xt_guard_submit(order_copy, &copy), "the work behind a copy", err);
}

enum xt_status xt_copy_wait(struct xt_copies *copies, int which, struct xt_err *err)
{
    struct copy copy = {.copies = copies, .which = which};
    return xt_dnnl_check(xt_guard_wait(await_copy, &copy), "a copy", err);
}
