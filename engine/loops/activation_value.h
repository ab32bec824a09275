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

/* e^-x for |x| <= 86, as 2^n * 2^t. */
XT_INLINE vec power_of_e(vec x, bool precise)
{
    const float rounder = 12582912; /* 1.5 * 2^23: the sum's last bits are a whole number */
    vec n = x * -1.44269502f + rounder;
    bits power = (bits)n << 23;
    n -= rounder;
    vec t = x * -1.44269502f - n;
    if (precise)
        t -= x * 1.92596299e-8f;
    return (vec)((bits)power_of_two(t, precise) + power);
}

/* 1 / (1 + e^-x). Of numbers beyond 86 that of 86. */
XT_INLINE vec sigmoid(vec x, enum xt_dtype dtype)
{
    bool precise = dtype == XT_F32;
    x = vec_most(vec_of(-86), vec_least(vec_of(86), x));
    return vec_reciprocal(1 + power_of_e(x, precise), precise);
}

/* The part of a normal distribution that is below x, and e^(-x^2 / 2). */
struct normal {
    vec below, bell;
};

/* The part beyond |x| is a polynomial of 1 / (1 + p |x|) times the bell, within 2.3e-4 or, if
 * precise, 1.5e-7 of it (fitted to the least relative error). */
XT_INLINE struct normal normal_at(vec x, enum xt_dtype dtype)
{
    bool precise = dtype == XT_F32;
    vec t = vec_reciprocal(1 + 0.3f * (vec)((bits)x & 0x7FFFFFFF), precise);
    vec bell = power_of_e(vec_least(vec_of(86), x * x * 0.5f), precise);
    vec p;
    if (precise) {
        p = 0.03567444243f * t - 0.15720160887f;
        p = p * t + 0.20635082175f;
        p = p * t - 0.05368105181f;
        p = p * t + 0.12856019714f;
        p = p * t + 0.09991394094f;
        p = p * t + 0.12075388191f;
        p = p * t + 0.11962930378f;
    } else {
        p = 0.20884119005f * t + 0.03559353500f;
        p = p * t + 0.13747531787f;
        p = p * t + 0.11820480617f;
    }
    vec beyond = p * t * bell;
    return (struct normal){where_above(x, vec_of(0), 1 - beyond, beyond), bell};
}

/* Of a clip. */
struct limits {
    vec least, most;
};

XT_INLINE struct limits limits_of(const struct xt_activation *activation)
{
    return (struct limits){vec_of(activation->alpha), vec_of(activation->beta)};
}

/* Of ReLU, of a clip, or none. */
XT_INLINE struct limits limits_behind(bool relu, const struct xt_activation *activation)
{
    if (activation && activation->kind == XT_ACT_CLIP)
        return limits_of(activation);
    return (struct limits){vec_of(relu ? 0 : -INFINITY), vec_of(INFINITY)};
}

XT_INLINE vec activation_value(vec x, enum xt_activation_kind kind, struct limits limits,
                               enum xt_dtype dtype)
{
    if (kind == XT_ACT_CLIP)
        return vec_least(limits.most, vec_most(limits.least, x));
    if (kind == XT_ACT_HARD_SWISH)
        return x * vec_least(vec_of(1), vec_most(vec_of(0), x * (1.0f / 6) + 0.5f));
    if (kind == XT_ACT_GELU)
        return x * normal_at(x, dtype).below;
    return x * sigmoid(x, dtype);
}

/* Hard swish, or SiLU. */
XT_INLINE vec swish_value(vec x, bool hard, enum xt_dtype dtype)
{
    const struct limits none = {0};
    return hard ? activation_value(x, XT_ACT_HARD_SWISH, none, dtype)
                : activation_value(x, XT_ACT_SILU, none, dtype);
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
    if (kind == XT_ACT_GELU) {
        struct normal normal = normal_at(x, dtype);
        return g * (normal.below + x * normal.bell * 0.398942280f);
    }
    vec s = sigmoid(x, dtype);
    return g * s * (x * (1 - s) + 1);
}
