/* Normal random numbers for first weights, by Box and Muller (1958) in double: vectors compute them
 * to 2^-47, and where that leaves the float32 open the C library does, so that every build gives
 * the same. */
#include <string.h>

#include "engine/loops/table.h"

enum { BLOCK = 64 };
static const double two_pi = 2 * 3.14159265358979323846;

static float by_library(double u, double angle)
{
    return (float)(sqrt(-2 * log(u)) * cos(angle));
}

/* Not contracted with what reads it: the angle is rounded. */
static __attribute__((noinline)) void draw(struct xt_rng rng, size_t first, double *u,
                                           double *angle)
{
    for (size_t i = 0; i < BLOCK; i++) {
        struct xt_rng own = {rng.key, rng.counter + 2 * (first + i)};
        u[i] = ((double)(int64_t)(xt_rng_next(&own) >> 11) + 1) * 0x1p-53;
        angle[i] = two_pi * ((double)(int64_t)(xt_rng_next(&own) >> 11) * 0x1p-53);
    }
}

/* u = 2^e m with m from sqrt(1/2) to sqrt(2): log u = e log 2 + 2 atanh((m - 1) / (m + 1)). */
XT_INLINE double log_of(double u)
{
    const uint64_t least = 0x3fe6a09e667f3bcdu;
    const uint64_t ones = 0x3ff0000000000000u;
    uint64_t bits;
    double m;
    double e;
    memcpy(&bits, &u, sizeof bits);
    bits += ones - least;
    uint64_t exponent = (bits >> 52) + 0x4330000000000000u; /* 2^52 + e + 1023 */
    bits = (bits & 0xfffffffffffffu) + least;
    memcpy(&m, &bits, sizeof m);
    memcpy(&e, &exponent, sizeof e);
    double s = (m - 1) / (m + 1);
    double z = s * s;
    double sum = 1.0 / 21;
    for (int k = 19; k > 0; k -= 2)
        sum = sum * z + 1.0 / k;
    return (e - (0x1p52 + 1023)) * 0.69314718055994530942 + 2 * s * sum;
}

/* Of an angle from 0 to 2 pi; *rest: how far it is from a multiple of pi / 2. */
XT_INLINE double cos_of(double angle, double *rest)
{
    const double magic = 0x1.8p52;
    double t = angle * (2 / 3.14159265358979323846) + magic;
    double n = t - magic;
    double r = angle - n * 0x1.921fb544p0 - n * 0x1.0b4611a6p-34 - n * 0x1.3198a2e037073p-69;
    double z = r * r;
    double sine = 1;
    double cosine = 1;
    for (int k = 17; k > 0; k -= 2) {
        sine = 1 - z * (1.0 / ((k + 1) * (k + 2))) * sine;
        cosine = 1 - z * (1.0 / (k * (k + 1))) * cosine;
    }
    uint64_t quarter;
    memcpy(&quarter, &t, sizeof quarter);
    double value = quarter & 1 ? r * sine : cosine;
    *rest = r;
    return (quarter + 1) & 2 ? -value : value;
}

static void fill_block(struct xt_rng rng, size_t first, float *out)
{
    const double doubt = 0x1p-47;
    double u[BLOCK];
    double angle[BLOCK];
    float other[BLOCK];
    int open = 0;
    draw(rng, first, u, angle);
    for (int i = 0; i < BLOCK; i++) {
        double rest;
        double value = sqrt(-2 * log_of(u[i]));
        value *= cos_of(angle[i], &rest);
        out[i] = (float)(value - value * doubt);
        other[i] = (float)(value + value * doubt);
        open |= out[i] != other[i] || fabs(rest) < 0x1p-20;
    }
    for (int i = 0; open && i < BLOCK; i++)
        out[i] = by_library(u[i], angle[i]);
}

void XT_LOOPS_NAME(normal)(struct xt_rng rng, size_t first, size_t count, float scale, float *out)
{
    float block[BLOCK];
    for (size_t at = 0; at < count; at += BLOCK) {
        size_t some = count - at < BLOCK ? count - at : BLOCK;
        fill_block(rng, first + at, block);
        for (size_t i = 0; i < some; i++)
            out[at + i] = block[i] * scale;
    }
}
