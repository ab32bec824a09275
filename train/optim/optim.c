/* Ranges are cut into chunks of a fixed size, and chunks dealt out to a fixed number of hands,
 * which the threads share: so neither sums nor the vector code's ends depend on how many threads
 * there are. */
#include "train/optim/optim.h"

#include <assert.h>
#include <math.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

/* A block is what one inner loop is given: its scratch stays in the first cache. */
enum { CHUNK = 16384, BLOCK = 1024, HANDS = 64, LANES = 8 };

/* The next chunk that a hand has in the ranges. Start with a zeroed walk. */
struct walk {
    size_t range;
    size_t at; /* in the range */
    size_t seen;
};

static bool next_chunk(struct walk *walk, size_t hand, const struct xt_optim_range *ranges,
                       size_t range_count, size_t *offset, size_t *count)
{
    for (; walk->range < range_count; walk->range++, walk->at = 0) {
        const struct xt_optim_range *range = &ranges[walk->range];
        if (range->lr_factor == 0)
            continue;
        while (walk->at < range->count) {
            size_t left = range->count - walk->at;
            *offset = range->offset + walk->at;
            *count = left < CHUNK ? left : CHUNK;
            walk->at += *count;
            if (walk->seen++ % HANDS == hand)
                return true;
        }
    }
    return false;
}

const char *const xt_optim_names[] = {
    [XT_OPTIM_SGD] = "sgd",
    [XT_OPTIM_ADAM] = "adam",
    [XT_OPTIM_ADAMW] = "adamw",
    [XT_OPTIM_RMSPROP] = "rmsprop",
    NULL,
};

int xt_optim_states(enum xt_optim_kind kind, double momentum)
{
    switch (kind) {
    case XT_OPTIM_SGD:
        return momentum != 0;
    case XT_OPTIM_ADAM:
    case XT_OPTIM_ADAMW:
        return 2;
    case XT_OPTIM_RMSPROP:
        return momentum != 0 ? 2 : 1;
    }
    return 0;
}

const char *xt_optim_state_name(enum xt_optim_kind kind, int index)
{
    bool square_first = kind == XT_OPTIM_RMSPROP;
    return (index == 0) == square_first ? "square" : "momentum";
}

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
    /* Nesterov's step is g + momentum * v, the plain one v. */
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

/* sqrtf may set errno, and a loop that calls it does not become vector code: so the roots of a
 * block are taken here, to the same bits. */
static void take_roots(float *values, size_t count)
{
    size_t i = 0;
#ifdef __SSE__
    for (; i + 4 <= count; i += 4)
        _mm_storeu_ps(values + i, _mm_sqrt_ps(_mm_loadu_ps(values + i)));
#endif
    for (; i < count; i++)
        values[i] = sqrtf(values[i]);
}

static void adam(const struct xt_optim_rule *rule, size_t count, float *restrict values,
                 const float *restrict grads, float *restrict mean, float *restrict square)
{
    const float scale = rule->grad_scale;
    const float decay = rule->decay;
    const float keep = rule->keep;
    const float lr = rule->lr;
    const float root_scale = rule->root_scale;
    const float new_mean = (float)(1 - XT_ADAM_BETA1);
    const float old_square = (float)XT_ADAM_BETA2;
    const float new_square = (float)(1 - XT_ADAM_BETA2);
    float roots[BLOCK];
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float g = scale * grads[i] + decay * values[i];
        mean[i] += new_mean * (g - mean[i]);
        roots[i] = square[i] = old_square * square[i] + new_square * g * g;
    }
    take_roots(roots, count);
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        values[i] = keep * values[i] - lr * (mean[i] / (roots[i] * root_scale + XT_OPTIM_EPS));
}

/* `velocity` is NULL where there is no momentum. */
static void rmsprop(const struct xt_optim_rule *rule, size_t count, float *restrict values,
                    const float *restrict grads, float *restrict square, float *restrict velocity)
{
    const float scale = rule->grad_scale;
    const float decay = rule->decay;
    const float lr = rule->lr;
    const float momentum = rule->momentum;
    const float old_square = (float)XT_RMSPROP_ALPHA;
    const float new_square = (float)(1 - XT_RMSPROP_ALPHA);
    float roots[BLOCK];
    float steps[BLOCK];
#pragma omp simd
    for (size_t i = 0; i < count; i++) {
        float g = scale * grads[i] + decay * values[i];
        steps[i] = g;
        roots[i] = square[i] = old_square * square[i] + new_square * g * g;
    }
    take_roots(roots, count);
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        steps[i] /= roots[i] + XT_OPTIM_EPS;
    if (velocity)
#pragma omp simd
        for (size_t i = 0; i < count; i++)
            steps[i] = velocity[i] = momentum * velocity[i] + steps[i];
#pragma omp simd
    for (size_t i = 0; i < count; i++)
        values[i] -= lr * steps[i];
}

struct xt_optim_rule xt_optim_rule_of(const struct xt_optim *optim,
                                      const struct xt_optim_range *range, double lr,
                                      float grad_scale)
{
    double decay = range->decay ? optim->weight_decay : 0;
    lr *= (double)range->lr_factor;
    struct xt_optim_rule rule = {
        .grad_scale = grad_scale,
        .decay = (float)decay,
        .keep = 1,
        .lr = (float)lr,
        .momentum = (float)optim->momentum,
        .nesterov = optim->nesterov,
    };
    if (optim->kind == XT_OPTIM_ADAMW) {
        rule.decay = 0;
        rule.keep = (float)(1 - lr * decay);
    }
    if (optim->kind == XT_OPTIM_ADAM || optim->kind == XT_OPTIM_ADAMW) {
        double step = (double)optim->step + 1;
        rule.lr = (float)(lr / (1 - pow(XT_ADAM_BETA1, step)));
        rule.root_scale = (float)(1 / sqrt(1 - pow(XT_ADAM_BETA2, step)));
    }
    return rule;
}

static void update_block(const struct xt_optim *optim, const struct xt_optim_rule *rule,
                         size_t offset, size_t count, float *values, const float *grads)
{
    float *state[2];
    for (int i = 0; i < 2; i++)
        state[i] = optim->state[i] ? optim->state[i] + offset : NULL;
    values += offset;
    grads += offset;
    switch (optim->kind) {
    case XT_OPTIM_SGD:
        if (state[0])
            sgd_momentum(rule, count, values, grads, state[0]);
        else
            sgd(rule, count, values, grads);
        break;
    case XT_OPTIM_ADAM:
    case XT_OPTIM_ADAMW:
        assert(state[0] && state[1]);
        adam(rule, count, values, grads, state[0], state[1]);
        break;
    case XT_OPTIM_RMSPROP:
        assert(state[0]);
        rmsprop(rule, count, values, grads, state[0], state[1]);
        break;
    }
}

static void update_chunk(const struct xt_optim *optim, const struct xt_optim_rule *rule,
                         size_t offset, size_t count, float *values, const float *grads)
{
    for (size_t done = 0; done < count; done += BLOCK) {
        size_t left = count - done;
        update_block(optim, rule, offset + done, left < BLOCK ? left : BLOCK, values, grads);
    }
}

void xt_optim_update(struct xt_optim *optim, float *values, const float *grads,
                     const struct xt_optim_range *ranges, size_t range_count, double lr,
                     float grad_scale)
{
#pragma omp parallel for schedule(static)
    for (size_t hand = 0; hand < HANDS; hand++) {
        struct walk walk = {0};
        size_t offset = 0;
        size_t count = 0;
        while (next_chunk(&walk, hand, ranges, range_count, &offset, &count)) {
            struct xt_optim_rule rule =
                xt_optim_rule_of(optim, &ranges[walk.range], lr, grad_scale);
            update_chunk(optim, &rule, offset, count, values, grads);
        }
    }
    optim->step++;
}

static double square_sum(const float *values, size_t count)
{
    double lanes[LANES] = {0};
    size_t i = 0;
    for (; i + LANES <= count; i += LANES)
#pragma omp simd
        for (size_t j = 0; j < LANES; j++)
            lanes[j] += (double)values[i + j] * (double)values[i + j];
    for (; i < count; i++)
        lanes[0] += (double)values[i] * (double)values[i];
    double sum = 0;
    for (size_t j = 0; j < LANES; j++)
        sum += lanes[j];
    return sum;
}

double xt_optim_grad_norm(const float *grads, const struct xt_optim_range *ranges,
                          size_t range_count)
{
    double sums[HANDS] = {0};
#pragma omp parallel for schedule(static)
    for (size_t hand = 0; hand < HANDS; hand++) {
        struct walk walk = {0};
        size_t offset = 0;
        size_t count = 0;
        double sum = 0;
        while (next_chunk(&walk, hand, ranges, range_count, &offset, &count))
            sum += square_sum(grads + offset, count);
        sums[hand] = sum;
    }
    double total = 0;
    for (size_t hand = 0; hand < HANDS; hand++)
        total += sums[hand];
    return sqrt(total);
}
