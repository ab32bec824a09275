/* The moving average of a network's weights and running statistics (Polyak & Juditsky 1992): after
 * each update average = d * average + (1 - d) * weights, in float32, on the weights' device.
 *
 * d is the smaller of the decay and (1 + n) / (10 + n) at update n, so that the first steps do not
 * dominate a short run's average. Between updates the average can be exchanged with the weights,
 * for evaluation and for files. Not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "engine/params.h"

struct xt_ema;

/* `params`, which are on the device, outlive it. The average has no value before begin or take. */
enum xt_status xt_ema_create(struct xt_ema **out, struct xt_device *device,
                             struct xt_params *params, double decay, struct xt_err *err);
void xt_ema_destroy(struct xt_ema *ema);

/* Initialises the average with the weights. */
enum xt_status xt_ema_begin(struct xt_ema *ema, struct xt_err *err);
/* After an update of the weights. Asynchronous. */
enum xt_status xt_ema_update(struct xt_ema *ema, struct xt_err *err);
/* Swaps average and weights. */
enum xt_status xt_ema_exchange(struct xt_ema *ema, struct xt_err *err);

/* Maps the average to the host, in the layout of the parameters' arrays; unmapping writes changes
 * to the device, if there are any. */
enum xt_status xt_ema_map(struct xt_ema *ema, struct xt_params_view *view, struct xt_err *err);
enum xt_status xt_ema_unmap(struct xt_ema *ema, bool changed, struct xt_err *err);

/* Updates of the average so far. */
int64_t xt_ema_updates(const struct xt_ema *ema);
void xt_ema_set_updates(struct xt_ema *ema, int64_t updates);
