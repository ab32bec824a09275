/* The optimizers of optim.h on an XPU: the same rules, as oneDNN primitives on the device's arenas.
 *
 * Adjacent ranges of the arena with the same rule are merged, so an update is a few primitives
 * whatever the number of tensors. Gradients serve as scratch and are lost. The optimizer's state is
 * on the device; its host arrays (xt_optim) are uploaded before the first update, and downloaded on
 * request. Not thread-safe.
 */
#pragma once

#include "engine/params.h"
#include "train/optim/optim.h"

struct xt_xpu_optim;

/* Where the gradients' norm is judged, between the backward pass and the update. */
struct xt_xpu_optim_norm {
    /* On the device, without a host wait: it clips, and leaves values unchanged if the norm is not
     * finite (then the optimizer's state is lost). Else on the host, which passes a factor for the
     * gradients to xt_xpu_optim_update. */
    bool by_device;
    double clip; /* by the device: largest norm of the gradients; 0: no limit */
};

/* `optim`, with its arrays allocated, and `params`, which are on the device with their gradients,
 * outlive it; `ranges` are copied. Creates all primitives. */
enum xt_status xt_xpu_optim_create(struct xt_xpu_optim **out, struct xt_device *device,
                                   struct xt_optim *optim, struct xt_params *params,
                                   const struct xt_optim_range *ranges, size_t range_count,
                                   struct xt_xpu_optim_norm norm, struct xt_err *err);
void xt_xpu_optim_destroy(struct xt_xpu_optim *own);

/* Whether it was created so. */
bool xt_xpu_optim_norm_is_by_device(const struct xt_xpu_optim *own);
/* Starts computing the norm; it is available after the next wait for the device. */
enum xt_status xt_xpu_optim_begin_norm(struct xt_xpu_optim *own, struct xt_err *err);
double xt_xpu_optim_norm_of(const struct xt_xpu_optim *own);
/* As xt_optim_grad_norm and xt_optim_update. The norm waits for the device. By the device:
 * xt_xpu_optim_begin_norm was called, and grad_scale is 1. */
enum xt_status xt_xpu_optim_grad_norm(struct xt_xpu_optim *own, double *norm, struct xt_err *err);
enum xt_status xt_xpu_optim_update(struct xt_xpu_optim *own, double lr, float grad_scale,
                                   struct xt_err *err);
/* By the device: whether it applied the last update, which then counts. Once per update, after a
 * wait for the device. */
bool xt_xpu_optim_judge(struct xt_xpu_optim *own);
/* The host's arrays have changed: the next update uploads them. */
void xt_xpu_optim_reload(struct xt_xpu_optim *own);
/* Downloads the state to the host's arrays. */
enum xt_status xt_xpu_optim_pull(struct xt_xpu_optim *own, struct xt_err *err);
