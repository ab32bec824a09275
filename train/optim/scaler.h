/* Dynamic loss scaling (Micikevicius et al. 2018, "Mixed Precision Training"): small gradients
 * underflow in 16-bit floats, so the logits' gradient is multiplied by a scale that the update
 * divides out.
 *
 * The scale begins at 65536. If a gradient is not finite, the step is skipped and the scale halved.
 * After 2000 finite steps in a row it is doubled. It is a power of two from 1 to 2^24, so that
 * scaling is exact. All in float32. Copyable by value; not thread-safe.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct xt_scaler {
    float scale;     /* 1 if off */
    bool on;         /* off: nothing is scaled, and no step is skipped */
    int fine;        /* steps in a row since the scale last changed */
    int64_t skipped; /* steps, of the whole run */
};

void xt_scaler_init(struct xt_scaler *scaler, bool on);

/* Multiplies by the scale, in place. */
void xt_scaler_apply(const struct xt_scaler *scaler, float *gradient, size_t count);

/* Whether the scale can still be lowered. */
bool xt_scaler_can_fall(const struct xt_scaler *scaler);

/* What to do with a step's gradients, given whether they are finite. Adapts the scale. */
enum xt_scaler_verdict {
    XT_SCALER_USE,  /* update with them */
    XT_SCALER_SKIP, /* leave weights and optimizer unchanged */
    XT_SCALER_FAIL, /* not finite, and the scale cannot be lowered */
};
enum xt_scaler_verdict xt_scaler_judge(struct xt_scaler *scaler, bool finite);
