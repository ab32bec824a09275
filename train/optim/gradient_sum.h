/* The sum of several batches' gradients (--accumulate), on their device, in float32 and in the
 * order of the batches. Not thread-safe.
 */
#pragma once

#include <stdbool.h>

#include "engine/params.h"

struct xt_gradient_sum;

/* `params`, which are on the device with their gradients, outlive it. */
enum xt_status xt_gradient_sum_create(struct xt_gradient_sum **out, struct xt_device *device,
                                      struct xt_params *params, struct xt_err *err);
void xt_gradient_sum_destroy(struct xt_gradient_sum *sum);

/* Adds the parameters' gradients; the first call after a take starts a new sum. */
enum xt_status xt_gradient_sum_add(struct xt_gradient_sum *sum, bool first, struct xt_err *err);
/* Moves the sum into the parameters' gradients. */
enum xt_status xt_gradient_sum_take(struct xt_gradient_sum *sum, struct xt_err *err);
