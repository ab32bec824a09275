/* OpenCL C kernels of this program's own, for ops that oneDNN's primitives compute in many
 * launches.
 *
 * They are launched on the queue below an XPU's stream, between oneDNN's, where that is an in-order
 * queue of OpenCL's: with oneDNN's SYCL runtime over OpenCL, and with its OpenCL runtime. Over
 * Level Zero there are none (xt_own_program is NULL), and oneDNN's primitives have to do. The
 * driver caches their machine code as it does oneDNN's.
 */
#pragma once

#include "device/memory.h"

/* Finds the queue of an open XPU; the device closes it before its stream. */
enum xt_status xt_own_kernels_open(struct xt_device *device, struct xt_err *err);
void xt_own_kernels_close(struct xt_device *device);

/* A program of the device, compiled once for each `source` (a constant, compared by address) and
 * `options` (it is OpenCL C 3.0); messages have `name`, a constant too. NULL if the device has none
 * of its own, or with a warning if its driver does not compile it. Not thread-safe. */
struct xt_own_program;
const struct xt_own_program *xt_own_program(struct xt_device *device, const char *name,
                                            const char *source, const char *options);

/* Counters for kernels whose last work-group does something: zeros, which kernels leave as zeros.
 * For a device that has a program. */
enum { XT_OWN_COUNTERS = 1024 };
const struct xt_device_memory *xt_own_counters(const struct xt_device *device);

/* One of its kernels, with arguments. The caller destroys it, before the device. */
struct xt_own_kernel;
enum xt_status xt_own_kernel_create(const struct xt_device *device,
                                    const struct xt_own_program *program, const char *name,
                                    struct xt_own_kernel **out, struct xt_err *err);
void xt_own_kernel_destroy(struct xt_own_kernel *kernel);
/* An address on the device; a 32-bit number. */
enum xt_status xt_own_kernel_point(struct xt_own_kernel *kernel, int index, void *address,
                                   struct xt_err *err);
enum xt_status xt_own_kernel_number(struct xt_own_kernel *kernel, int index, uint32_t number,
                                    struct xt_err *err);
/* Starts it on the device's stream; a failure loses the device. */
enum xt_status xt_own_kernel_launch(const struct xt_own_kernel *kernel, const size_t global[2],
                                    const size_t local[2], struct xt_err *err);

/* A mark behind what was launched on the device's stream so far, in place of the mark before; and a
 * wait for it, which what was launched behind it does not prolong. For a device that has a program;
 * a failure loses the device. */
enum xt_status xt_own_mark(struct xt_device *device, struct xt_err *err);
enum xt_status xt_own_wait(struct xt_device *device, struct xt_err *err);
