#include "train/losses/softmax.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "infer/answer/softmax.h"

/* The weight of XT_SOFTMAX_UNIFORM goes to every class. */
static void smooth(int *class, double *weight, double *every, int classes)
{
    if (*class != XT_SOFTMAX_UNIFORM)
        return;
    *every += *weight / classes;
    *weight = 0;
    *class = 0;
}

struct xt_softmax_target xt_softmax_target(const struct xt_softmax_targets *targets, int sample,
                                           int classes)
{
    double confidence = 1 - targets->smoothing;
    struct xt_softmax_target target = {.first = targets->labels[(size_t)sample * targets->stride],
                                       .first_weight = confidence,
                                       .every = targets->smoothing / classes};
    target.second = target.first;
    if (targets->seconds) {
        target.second = targets->seconds[sample];
        target.first_weight = confidence * (double)targets->share[sample];
        target.second_weight = confidence - target.first_weight;
    }
    smooth(&target.first, &target.first_weight, &target.every, classes);
    smooth(&target.second, &target.second_weight, &target.every, classes);
    assert(target.first < classes && target.second >= 0 && target.second < classes);
    return target;
}

static float sample_loss(const float *logits, int classes, const struct xt_softmax_target *target,
                         double scale, float *grad)
{
    struct xt_softmax_norm norm = xt_softmax_norm(logits, classes);
    double max = (double)norm.max;
    double expected = target->first_weight * ((double)logits[target->first] - max) +
                      target->second_weight * ((double)logits[target->second] - max);
    for (int k = 0; k < classes && target->every > 0; k++)
        expected += target->every * ((double)logits[k] - max);
    if (grad) {
        double factor = scale / norm.sum;
        for (int k = 0; k < classes; k++)
            grad[k] = (float)((double)expf(logits[k] - norm.max) * factor - target->every * scale);
        grad[target->first] -= (float)(target->first_weight * scale);
        grad[target->second] -= (float)(target->second_weight * scale);
    }
    return (float)(log(norm.sum) - expected);
}

double xt_softmax_weight(const struct xt_softmax_targets *targets, int n)
{
    int counted = 0;
    for (int i = 0; i < n; i++)
        counted += targets->labels[(size_t)i * targets->stride] != -1;
    return counted ? 1.0 / counted : 0;
}

double xt_softmax_mean(const float *losses, int n, double weight)
{
    double total = 0;
    for (int i = 0; i < n; i++)
        total += (double)losses[i];
    return total * weight;
}

double xt_softmax_loss(const float *logits, int n, int classes,
                       const struct xt_softmax_targets *targets, float *losses, float *grad)
{
    assert(classes > 0);
    double scale = xt_softmax_weight(targets, n);
#pragma omp parallel for schedule(static)
    for (int i = 0; i < n; i++) {
        size_t first = (size_t)i * (size_t)classes;
        if (targets->labels[(size_t)i * targets->stride] == -1) {
            losses[i] = 0;
            if (grad)
                memset(grad + first, 0, (size_t)classes * sizeof *grad);
            continue;
        }
        struct xt_softmax_target target = xt_softmax_target(targets, i, classes);
        losses[i] =
            sample_loss(logits + first, classes, &target, scale, grad ? grad + first : NULL);
    }
    return xt_softmax_mean(losses, n, scale);
}
