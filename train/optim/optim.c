/* Ranges are split into chunks of a fixed size, distributed over a fixed number of hands that the
 * threads share: so neither the order of sums nor the tails of vector code depend on the number of
 * threads. */
#include "train/optim/optim.h"

#include <assert.h>
#include <math.h>

#include "train/optim/loops/update.h"

enum { CHUNK = XT_OPTIM_CHUNK, HANDS = 64 };

/* The next chunk of a hand in the ranges. Start with a zeroed walk. */
struct walk {
    size_t range;
    size_t at; /* in the range */
    size_t seen;
};

static bool is_known(const struct xt_optim_range *range)
{
    return range->square && !isnan(*range->square);
}

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

static const struct xt_optim_class *const classes[] = {
    [XT_OPTIM_SGD] = &xt_optim_sgd,
    [XT_OPTIM_ADAM] = &xt_optim_adam,
    [XT_OPTIM_ADAMW] = &xt_optim_adamw,
    [XT_OPTIM_RMSPROP] = &xt_optim_rmsprop,
};

const struct xt_optim_class *xt_optim_class_of(enum xt_optim_kind kind)
{
    return classes[kind];
}

int xt_optim_states(enum xt_optim_kind kind, double momentum)
{
    const struct xt_optim_class *class = classes[kind];
    int count = (class->states[0] != NULL) + (class->states[1] != NULL);
    return class->last_is_momentum && momentum == 0 ? count - 1 : count;
}

const char *xt_optim_state_name(enum xt_optim_kind kind, int index)
{
    return classes[kind]->states[index];
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
    const struct xt_optim_class *class = classes[optim->kind];
    if (class->decoupled) {
        rule.decay = 0;
        rule.keep = (float)(1 - lr * decay);
    }
    if (class->correct)
        class->correct(optim, lr, &rule);
    return rule;
}

static void update_chunk(const struct xt_optim *optim, xt_update_loop *loop,
                         const struct xt_optim_rule *rule, size_t offset, size_t count,
                         float *values, const float *grads)
{
    float *state[2];
    for (int i = 0; i < 2; i++)
        state[i] = optim->state[i] ? optim->state[i] + offset : NULL;
    loop(rule, count, values + offset, grads + offset, state);
}

void xt_optim_update(struct xt_optim *optim, float *values, const float *grads,
                     const struct xt_optim_range *ranges, size_t range_count, double lr,
                     float grad_scale)
{
    xt_update_loop *loop = xt_update_loops_get()->update[optim->kind];
    assert(xt_optim_states(optim->kind, optim->momentum) == 0 || optim->state[0]);
#pragma omp parallel for schedule(static)
    for (size_t hand = 0; hand < HANDS; hand++) {
        struct walk walk = {0};
        size_t offset = 0;
        size_t count = 0;
        while (next_chunk(&walk, hand, ranges, range_count, &offset, &count)) {
            struct xt_optim_rule rule =
                xt_optim_rule_of(optim, &ranges[walk.range], lr, grad_scale);
            update_chunk(optim, loop, &rule, offset, count, values, grads);
            if (optim->updated)
                optim->updated(optim->context, offset, count);
        }
    }
    optim->step++;
}

double xt_optim_grad_norm(const float *grads, const struct xt_optim_range *ranges,
                          size_t range_count)
{
    const struct xt_update_loops *loops = xt_update_loops_get();
    double sums[HANDS] = {0};
#pragma omp parallel for schedule(static)
    for (size_t hand = 0; hand < HANDS; hand++) {
        struct walk walk = {0};
        size_t offset = 0;
        size_t count = 0;
        double sum = 0;
        while (next_chunk(&walk, hand, ranges, range_count, &offset, &count))
            if (!is_known(&ranges[walk.range]))
                sum += loops->square_sum(grads + offset, count);
        sums[hand] = sum;
    }
    double total = 0;
    for (size_t hand = 0; hand < HANDS; hand++)
        total += sums[hand];
    for (size_t i = 0; i < range_count; i++)
        if (ranges[i].lr_factor != 0 && is_known(&ranges[i]))
            total += *ranges[i].square;
    return sqrt(total);
}
