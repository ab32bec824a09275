/* Activations that are computed within other loops, and their slopes, on vectors. `kind` and
 * `dtype` are constants wherever these are used; bf16 takes what its 8 bits show.
 */
#pragma once

#include "engine/net/activation.h"
#include "engine/loops/lanes.h"

/* 2^t for |t| <= 1/2, by minimax polynomials, within 8e-5 or, if precise, 1e-7 of it. */
XT_INLINE vec power_of_two(vec t, bool precise)
{
    if (!precise) {
        vec p = 0.0551716685f * t + 0.242611125f;
        p = p * t + 0.693260968f;
        return p * t + 0.999928057f;
    }
    vec p = 0.00132764725f * t + 0.00967554189f;
    p = p * t + 0.0555071309f;
    p = p * t + 0.240221202f;
    p = p * t + 0.693146944f;
    return p * t + 1.00000012f;
}

/* 1 / (1 + e^-x) by e^-x = 2^n * 2^t. Of numbers beyond 86 that of 86. */
XT_INLINE vec sigmoid(vec x, enum xt_dtype dtype)
{
    const float rounder = 12582912; /* 1.5 * 2^23: the sum's last bits are a whole number */
    bool precise = dtype == XT_F32;
    x = vec_most(vec_of(-86), vec_least(vec_of(86), x));
    vec n = x * -1.44269502f + rounder;
    bits power = (bits)n << 23;
    n -= rounder;
    vec t = x * -1.44269502f - n;
    if (precise)
        t -= x * 1.92596299e-8f;
    return vec_reciprocal(1 + (vec)((bits)power_of_two(t, precise) + power), precise);
}

/* Of a clip. */
struct limits {
    vec least, most;
};

XT_INLINE struct limits limits_of(const struct xt_activation *activation)
{
    return (struct limits){vec_of(activation->alpha), vec_of(activation->beta)};
}

XT_INLINE vec activation_value(vec x, enum xt_activation_kind kind, struct limits limits,
                               enum xt_dtype dtype)
{
    if (kind == XT_ACT_CLIP)
        return vec_least(limits.most, vec_most(limits.least, x));
    if (kind == XT_ACT_HARD_SWISH)
        return x * vec_least(vec_of(1), vec_most(vec_of(0), x * (1.0f / 6) + 0.5f));
    return x * sigmoid(x, dtype);
}

/* `g` times the slope. */
XT_INLINE vec activation_grad(vec x, vec g, enum xt_activation_kind kind, struct limits limits,
                              enum xt_dtype dtype)
{
    vec none = vec_of(0);
    if (kind == XT_ACT_CLIP)
        return where_above(x, limits.least, where_above(limits.most, x, g, none), none);
    if (kind == XT_ACT_HARD_SWISH) {
        vec inner = where_above(x, vec_of(-3), x * (1.0f / 3) + 0.5f, none);
        return g * where_above(vec_of(3), x, inner, vec_of(1));
    }
    vec s = sigmoid(x, dtype);
    return g * s * (x * (1 - s) + 1);
}
