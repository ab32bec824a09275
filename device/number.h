/* Arrays of numbers between float32 and a tensor's type, on the host: for what is not done in every
 * step. Rounds to nearest, ties to even; beyond fp16's range is infinity (IEEE 754), beyond an
 * 8-bit type's its end. Thread-safe.
 */
#ifndef XT_DEVICE_NUMBER_H
#define XT_DEVICE_NUMBER_H

#include <stddef.h>

#include "device/device.h"

void xt_number_from_float(enum xt_dtype dtype, const float *from, size_t count, void *to);
void xt_number_to_float(enum xt_dtype dtype, const void *from, size_t count, float *to);

#endif
