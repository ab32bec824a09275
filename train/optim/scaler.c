#include "train/optim/scaler.h"

static const float first_scale = 65536;
static const float least_scale = 1;
static const float most_scale = 16777216;

enum { GROW_AFTER = 2000 };

void xt_scaler_init(struct xt_scaler *scaler, bool on)
{
    *scaler = (struct xt_scaler){.scale = on ? first_scale : 1, .on = on};
}

void xt_scaler_apply(const struct xt_scaler *scaler, float *gradient, size_t count)
{
    const float scale = scaler->scale;
    if (!scaler->on)
        return;
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        gradient[i] *= scale;
}

bool xt_scaler_can_fall(const struct xt_scaler *scaler)
{
    return scaler->on && scaler->scale > least_scale;
}

enum xt_scaler_verdict xt_scaler_judge(struct xt_scaler *scaler, bool finite)
{
    if (!scaler->on || (!finite && !xt_scaler_can_fall(scaler)))
        return finite ? XT_SCALER_USE : XT_SCALER_FAIL;
    if (!finite) {
        scaler->scale /= 2;
        scaler->fine = 0;
        scaler->skipped++;
        return XT_SCALER_SKIP;
    }
    if (++scaler->fine == GROW_AFTER) {
        scaler->scale = scaler->scale < most_scale ? 2 * scaler->scale : most_scale;
        scaler->fine = 0;
    }
    return XT_SCALER_USE;
}
