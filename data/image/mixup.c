#include "data/image/mixup.h"

#include <math.h>

#include "base/rng.h"

/* A stream of its own, distinct from the loader's. */
enum { STREAM_MIXUP = 16 };

/* In (0, 1]. */
static double uniform(struct xt_rng *rng)
{
    return ((double)(xt_rng_next(rng) >> 11) + 1) * 0x1p-53;
}

/* Box and Muller 1958. */
static double normal(struct xt_rng *rng)
{
    double radius = sqrt(-2 * log(uniform(rng)));
    return radius * cos(2 * M_PI * uniform(rng));
}

/* The logarithm of a draw from Gamma(shape), since the draw may underflow a double (Marsaglia and
 * Tsang 2000). */
static double log_gamma(struct xt_rng *rng, double shape)
{
    if (shape < 1) {
        double less = log(uniform(rng)) / shape;
        return log_gamma(rng, shape + 1) + less;
    }
    double d = shape - 1.0 / 3;
    double c = 1 / sqrt(9 * d);
    for (;;) {
        double x = normal(rng);
        double root = 1 + c * x;
        if (root <= 0)
            continue;
        double log_v = 3 * log(root);
        if (log(uniform(rng)) < x * x / 2 + d * (1 - root * root * root + log_v))
            return log(d) + log_v;
    }
}

struct xt_mix xt_mixup_row(const struct xt_mixup *mixup, int row)
{
    struct xt_mix mix = {.other = mixup->count - 1 - row, .own = XT_MIXUP_ONE};
    if (mixup->alpha <= 0)
        mix.other = row;
    if (mix.other == row)
        return mix;
    uint64_t pair = (uint64_t)mixup->first + (uint64_t)(row < mix.other ? row : mix.other);
    struct xt_rng rng = xt_rng_begin(mixup->seed, xt_rng_at(STREAM_MIXUP, mixup->step, pair));
    double a = log_gamma(&rng, mixup->alpha);
    double b = log_gamma(&rng, mixup->alpha);
    /* A Beta draw, as the ratio of one of two Gamma draws to their sum. */
    mix.own = (int)(XT_MIXUP_ONE / (1 + exp(b - a)) + 0.5);
    return mix;
}

/* Each keeps the share `own` of itself and takes the rest from the other. */
static void mix_images(uint8_t *restrict first, uint8_t *restrict second, int own, size_t bytes)
{
    const uint16_t mine = (uint16_t)own;
    const uint16_t theirs = (uint16_t)(XT_MIXUP_ONE - own);
#pragma omp simd
    for (size_t i = 0; i < bytes; i++) {
        uint16_t a = (uint16_t)(first[i] * mine + second[i] * theirs + XT_MIXUP_ONE / 2);
        uint16_t b = (uint16_t)(second[i] * mine + first[i] * theirs + XT_MIXUP_ONE / 2);
        first[i] = (uint8_t)(a / XT_MIXUP_ONE);
        second[i] = (uint8_t)(b / XT_MIXUP_ONE);
    }
}

void xt_mixup_pixels(const struct xt_mixup *mixup, uint8_t *pixels, size_t bytes)
{
    for (int row = 0; row < mixup->count; row++) {
        struct xt_mix mix = xt_mixup_row(mixup, row);
        if (row < mix.other)
            mix_images(pixels + (size_t)row * bytes, pixels + (size_t)mix.other * bytes, mix.own,
                       bytes);
    }
}
