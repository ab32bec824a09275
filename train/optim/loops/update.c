/* SGD, Adam and RMSprop on host memory, in PyTorch's forms; the files of their names say whose they
 * are and have them as primitives. */
#include "train/optim/loops/update.h"

#include <math.h>
#include <string.h>

#include "engine/loops/element.h"

static void sgd(const struct xt_optim_rule *rule, size_t count, float *restrict values,
                const float *restrict grads)
{
    const float scale = rule->grad_scale;
    const float decay = rule->decay;
    const float lr = rule->lr;
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        values[i] -= lr * (scale * grads[i] + decay * values[i]);
}

static void sgd_momentum(const struct xt_optim_rule *rule, size_t count, float *restrict values,
                         const float *restrict grads, float *restrict velocity)
{
    const float scale = rule->grad_scale;
    const float decay = rule->decay;
    const float lr = rule->lr;
    const float momentum = rule->momentum;
    /* Nesterov's step is g + momentum * v, the standard one v. */
    const float of_grad = rule->nesterov ? 1 : 0;
    const float of_velocity = rule->nesterov ? momentum : 1;
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float g = scale * grads[i] + decay * values[i];
        float v = momentum * velocity[i] + g;
        velocity[i] = v;
        values[i] -= lr * (of_grad * g + of_velocity * v);
    }
}

static void update_sgd(const struct xt_optim_rule *rule, size_t count, float *restrict values,
                       const float *restrict grads, float *restrict const state[2])
{
    if (state[0])
        sgd_momentum(rule, count, values, grads, state[0]);
    else
        sgd(rule, count, values, grads);
}

static void update_adam(const struct xt_optim_rule *rule, size_t count, float *restrict values,
                        const float *restrict grads, float *restrict const state[2])
{
    float *restrict mean = state[0];
    float *restrict square = state[1];
    const float scale = rule->grad_scale;
    const float decay = rule->decay;
    const float keep = rule->keep;
    const float lr = rule->lr;
    const float root_scale = rule->root_scale;
    const float new_mean = (float)(1 - XT_ADAM_BETA1);
    const float old_square = (float)XT_ADAM_BETA2;
    const float new_square = (float)(1 - XT_ADAM_BETA2);
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float g = scale * grads[i] + decay * values[i];
        float m = mean[i] + new_mean * (g - mean[i]);
        float s = old_square * square[i] + new_square * g * g;
        mean[i] = m;
        square[i] = s;
        values[i] = keep * values[i] - lr * (m / (sqrtf(s) * root_scale + XT_OPTIM_EPS));
    }
}

XT_INLINE void rmsprop(const struct xt_optim_rule *rule, size_t count, float *restrict values,
                       const float *restrict grads, float *restrict square,
                       float *restrict velocity)
{
    const float scale = rule->grad_scale;
    const float decay = rule->decay;
    const float lr = rule->lr;
    const float momentum = rule->momentum;
    const float old_square = (float)XT_RMSPROP_ALPHA;
    const float new_square = (float)(1 - XT_RMSPROP_ALPHA);
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float g = scale * grads[i] + decay * values[i];
        float s = old_square * square[i] + new_square * g * g;
        float step = g / (sqrtf(s) + XT_OPTIM_EPS);
        square[i] = s;
        if (velocity)
            step = velocity[i] = momentum * velocity[i] + step;
        values[i] -= lr * step;
    }
}

static void update_rmsprop(const struct xt_optim_rule *rule, size_t count, float *restrict values,
                           const float *restrict grads, float *restrict const state[2])
{
    if (state[1])
        rmsprop(rule, count, values, grads, state[0], state[1]);
    else
        rmsprop(rule, count, values, grads, state[0], NULL);
}

typedef double octet __attribute__((vector_size(64)));

/* Eight running sums in registers. Prefetches across page boundaries, where the hardware prefetcher
 * stops. */
static double square_sum(const float *values, size_t count)
{
    enum { WIDTH = 8, AHEAD = 2048 };
    typedef float eight __attribute__((vector_size(32)));
    octet sums = {0};
    size_t i = 0;
    for (; i + WIDTH <= count; i += WIDTH) {
        eight narrow;
        memcpy(&narrow, values + i, sizeof narrow);
        octet v = __builtin_convertvector(narrow, octet);
        __builtin_prefetch(values + i + AHEAD);
        sums += v * v;
    }
    for (; i < count; i++)
        sums[0] += (double)values[i] * (double)values[i];
    double sum = 0;
    for (int k = 0; k < WIDTH; k++)
        sum += sums[k];
    return sum;
}

extern const struct xt_update_loops XT_LOOPS_NAME(update);
const struct xt_update_loops XT_LOOPS_NAME(update) = {
    .update = {[XT_OPTIM_SGD] = update_sgd,
               [XT_OPTIM_ADAM] = update_adam,
               [XT_OPTIM_ADAMW] = update_adam,
               [XT_OPTIM_RMSPROP] = update_rmsprop},
    .square_sum = square_sum,
};
