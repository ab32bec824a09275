/* A queue for copies beside the device's stream: on an engine that copies alone, where the driver
 * has a family of queues for it (cl_intel_command_queue_families), else one of the usual kind. The
 * addresses are of unified shared memory, which belongs to the context of all queues and not to
 * one. *out is NULL if the device has no kernels of the program's own.
 */
#pragma once

#include <stddef.h>

#include "base/err.h"
#include "device/handle.h"

struct xt_copies;
enum xt_status xt_copies_create(const struct xt_device *device, struct xt_copies **out,
                                struct xt_err *err);
/* Once the copies have been waited for, before the device is closed. */
void xt_copies_destroy(struct xt_copies *copies);
const char *xt_copies_family(const struct xt_copies *copies); /* "bcs"; "": the usual */

/* The copy `which`, in place of the one before, which has been waited for and ordered. */
enum { XT_COPIES = 2 };
enum xt_status xt_copy_start(struct xt_copies *copies, int which, void *to, const void *from,
                             size_t bytes, struct xt_err *err);
/* What is launched on the stream from now on runs behind it; and the host's wait for it. Each by
 * any thread. */
enum xt_status xt_copy_order(struct xt_copies *copies, int which, struct xt_err *err);
enum xt_status xt_copy_wait(struct xt_copies *copies, int which, struct xt_err *err);
