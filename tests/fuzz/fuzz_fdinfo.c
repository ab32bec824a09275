/* Any text as what the kernel counts of a GPU's file: whatever is in it, figures are finite, shares
 * are from 0 to 1. */
#include <math.h>
#include <stdlib.h>

#include "device/gpu/fdinfo.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct xt_fdinfo before, now;
    double value = 0;
    size_t half = size / 2;
    before.when = 1;
    now.when = 1 + size;
    before.count = xt_fdinfo_parse((const char *)data, half, &before.clients[0]);
    now.count = xt_fdinfo_parse((const char *)data + half, size - half, &now.clients[0]);
    if (xt_fdinfo_memory(&now, &value) && !(isfinite(value) && value > 0))
        abort();
    (void)xt_fdinfo_busy(&before, &now, &value);
    if (!(value >= 0 && value <= 1))
        abort();
    return 0;
}
