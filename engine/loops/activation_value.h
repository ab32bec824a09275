/* Activations that are computed within other loops, and their slopes, as plain arithmetic that
 * vectorises. `kind` is a constant wherever these are used. */
#pragma once

#include "engine/net/activation.h"
#include "engine/loops/element.h"

/* e^x within 2 units of the last place; 0 and infinity beyond what float32 holds. */
XT_INLINE float exponential(float x)
{
    const float rounder = 12582912; /* 1.5 * 2^23: the sum's last bits are a whole number */
    x = x < -87 ? -87 : x;
    x = x > 88 ? 88 : x;
    float n = x * 1.44269504f + rounder;
    uint32_t power = xt_float_bits(n) << 23;
    n -= rounder;
    float r = x - n * 0.693359375f;
    r -= n * -2.12194440e-4f;
    float p = 1.9875691500e-4f;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * (r * r) + r + 1;
    return xt_float_of_bits(xt_float_bits(p) + power);
}

XT_INLINE float sigmoid(float x)
{
    return 1 / (1 + exponential(-x));
}

/* NaN stays NaN. */
XT_INLINE float clip(float x, float least, float most)
{
    x = x < least ? least : x;
    return x > most ? most : x;
}

XT_INLINE float activation_value(float x, enum xt_activation_kind kind, float alpha, float beta)
{
    if (kind == XT_ACT_CLIP)
        return clip(x, alpha, beta);
    if (kind == XT_ACT_HARD_SWISH)
        return x * clip(x * (1.0f / 6) + 0.5f, 0, 1);
    return x * sigmoid(x);
}

XT_INLINE float activation_slope(float x, enum xt_activation_kind kind, float alpha, float beta)
{
    if (kind == XT_ACT_CLIP)
        return x > alpha && x < beta ? 1 : 0;
    if (kind == XT_ACT_HARD_SWISH) {
        float slope = x * (1.0f / 3) + 0.5f;
        slope = x <= -3 ? 0 : slope;
        return x >= 3 ? 1 : slope;
    }
    float s = sigmoid(x);
    return s * (1 + x * (1 - s));
}
