/* Hardware and software that this process computes with, as texts for records: program, device and
 * driver, oneDNN, CPU, kernels, libraries.
 */
#pragma once

#include "base/dtype.h"
#include "device/device.h"

enum { XT_MACHINE_TEXTS = 16 };

struct xt_machine_text {
    const char *key;
    char value[256];
};
struct xt_machine {
    struct xt_machine_text texts[XT_MACHINE_TEXTS];
    int count;
};

/* All of it, for a device that computes in this type. */
void xt_machine_describe(struct xt_machine *out, const struct xt_device *device,
                         enum xt_dtype type);
/* What a run's bit-exact results depend on: cpu, device, library, threads. */
void xt_machine_of_bits(struct xt_machine *out, const struct xt_device *device);
