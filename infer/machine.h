/* What computes in this process, as texts for records: program, device and driver, oneDNN, CPU,
 * kernels, libraries.
 */
#ifndef XT_INFER_MACHINE_H
#define XT_INFER_MACHINE_H

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

/* All of it, of a device that works in this type. */
void xt_machine_describe(struct xt_machine *out, const struct xt_device *device,
                         enum xt_dtype type);
/* What the last bits of a run depend on: cpu, device, library, threads. */
void xt_machine_of_bits(struct xt_machine *out, const struct xt_device *device);

#endif
