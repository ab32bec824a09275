#include "device/slot.h"

#include <stdlib.h>

#include "base/mem.h"

enum xt_status xt_slots_init(struct xt_slots *slots, int count, size_t bytes, struct xt_err *err)
{
    *slots = (struct xt_slots){.bytes = bytes};
    enum xt_status status = XT_OK;
    while (slots->count < count && !status) {
        status = xt_mem_aligned(&slots->pixels[slots->count], bytes, 1, "a batch slot", err);
        if (!status)
            slots->count++;
    }
    if (status)
        xt_slots_clear(slots);
    return status;
}

void xt_slots_clear(struct xt_slots *slots)
{
    for (int i = 0; i < slots->count; i++)
        free(slots->pixels[i]);
    *slots = (struct xt_slots){0};
}
