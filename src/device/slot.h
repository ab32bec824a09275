/* Batch slots: the memory that loader threads decode into and a step reads from. On the CPU device
 * a slot is the memory itself, aligned for vector loads and with no copy on the way.
 */
#ifndef XT_DEVICE_SLOT_H
#define XT_DEVICE_SLOT_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum { XT_SLOTS_MAX = 16 };

struct xt_slots {
    uint8_t *pixels[XT_SLOTS_MAX]; /* `bytes` each */
    int count;
    size_t bytes;
};

enum xt_status xt_slots_init(struct xt_slots *slots, int count, size_t bytes, struct xt_err *err);
void xt_slots_clear(struct xt_slots *slots);

#endif
