/* The optimizers of optim.h on an XPU: the same rules, as oneDNN primitives on the device's arenas.
 *
 * Stretches of the arena that are updated alike are one stretch, so an update is a few primitives
 * however many tensors there are. Gradients serve as scratch and are lost. The optimizer's state
 * lies on the device; its arrays on the host (xt_optim) are brought there before the first update,
 * and back when they are asked for. Not thread-safe.
 */
#ifndef XT_TRAIN_OPTIM_XPU_OPTIM_H
#define XT_TRAIN_OPTIM_XPU_OPTIM_H

#include "engine/params.h"
#include "train/optim/optim.h"

struct xt_xpu_optim;

/* Who looks at the gradients' norm between the backward pass and the update. */
struct xt_xpu_optim_norm {
    /* The device does, without a wait of the host: it clips, and leaves values as they are where
     * the norm is no finite number (then the optimizer's state is lost). Else the host, which has
     * xt_xpu_optim_update multiply gradients as it likes. */
    bool by_device;
    double clip; /* by the device: the greatest length of the gradients; 0: any */
};

/* `optim`, whose arrays are there, and `params`, which are on the device with their gradients,
 * outlive it; `ranges` are copied. Makes all primitives. */
enum xt_status xt_xpu_optim_create(struct xt_xpu_optim **out, struct xt_device *device,
                                   struct xt_optim *optim, struct xt_params *params,
                                   const struct xt_optim_range *ranges, size_t range_count,
                                   struct xt_xpu_optim_norm norm, struct xt_err *err);
void xt_xpu_optim_destroy(struct xt_xpu_optim *own);

/* Whether it was created so. */
bool xt_xpu_optim_norm_is_by_device(const struct xt_xpu_optim *own);
/* Starts to work the norm out, which is there once the device has been waited for. */
enum xt_status xt_xpu_optim_begin_norm(struct xt_xpu_optim *own, struct xt_err *err);
double xt_xpu_optim_norm_of(const struct xt_xpu_optim *own);
/* As xt_optim_grad_norm and xt_optim_update. The norm waits for the device. By the device: the norm
 * has been begun, and grad_scale is 1. */
enum xt_status xt_xpu_optim_grad_norm(struct xt_xpu_optim *own, double *norm, struct xt_err *err);
enum xt_status xt_xpu_optim_update(struct xt_xpu_optim *own, double lr, float grad_scale,
                                   struct xt_err *err);
/* By the device: whether it has applied the last update, which counts then. Once for each, after
 * the device has been waited for. */
bool xt_xpu_optim_judge(struct xt_xpu_optim *own);
/* The host's arrays have changed: the next update brings them to the device. */
void xt_xpu_optim_reload(struct xt_xpu_optim *own);
/* Brings the state to the host's arrays. */
enum xt_status xt_xpu_optim_pull(struct xt_xpu_optim *own, struct xt_err *err);

#endif
