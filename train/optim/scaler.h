/* Dynamic loss scaling (Micikevicius et al. 2018, "Mixed Precision Training"): gradients in 16-bit
 * floats would become zero where they are small, so the logits' gradient is multiplied by a scale
 * that the update divides out again.
 *
 * The scale begins at 65536. Where a gradient comes back infinite or no number it was too large:
 * that step is skipped and the scale halved. After 2000 steps in a row that were fine it is
 * doubled. It stays between 1 and 2^24 and a power of two, so that scaling is exact. All in
 * float32. A plain value; not thread-safe.
 */
#ifndef XT_TRAIN_OPTIM_SCALER_H
#define XT_TRAIN_OPTIM_SCALER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct xt_scaler {
    float scale;     /* 1 where off */
    bool on;         /* off: nothing is scaled, and no step is skipped */
    int fine;        /* steps in a row since the scale last changed */
    int64_t skipped; /* steps, of the whole run */
};

void xt_scaler_init(struct xt_scaler *scaler, bool on);

/* Multiplies by the scale, in place. */
void xt_scaler_apply(const struct xt_scaler *scaler, float *gradient, size_t count);

/* Whether a smaller scale is still to be had, where gradients are not finite. */
bool xt_scaler_can_fall(const struct xt_scaler *scaler);

/* What became of a step: whether its gradients are all finite numbers. Adapts the scale. */
enum xt_scaler_verdict {
    XT_SCALER_USE,  /* update with them */
    XT_SCALER_SKIP, /* leave weights and optimizer as they are */
    XT_SCALER_FAIL, /* not finite, and not by the scale: it is off, or 1 already */
};
enum xt_scaler_verdict xt_scaler_judge(struct xt_scaler *scaler, bool finite);

#endif
