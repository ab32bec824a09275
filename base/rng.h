/* Counter-based random numbers: value = f(seed, stream, counter). They do not depend on order,
 * threads or resumption, and there is no state to save.
 *
 * The mixing function is splitmix64's finaliser (Steele, Lea, Flood 2014), applied to each of the
 * three.
 */
#pragma once

#include <stdint.h>

static inline uint64_t xt_rng_mix(uint64_t z)
{
    z += 0x9E3779B97F4A7C15u;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
    return z ^ (z >> 31);
}

/* 64 random bits. */
static inline uint64_t xt_rng_at(uint64_t seed, uint64_t stream, uint64_t counter)
{
    return xt_rng_mix(xt_rng_mix(xt_rng_mix(seed) ^ stream) ^ counter);
}

/* A generator for one purpose (such as one sample's augmentation): draws f(seed, stream, 0, 1,
 * 2...). */
struct xt_rng {
    uint64_t key;
    uint64_t counter;
};

static inline struct xt_rng xt_rng_begin(uint64_t seed, uint64_t stream)
{
    return (struct xt_rng){.key = xt_rng_mix(xt_rng_mix(seed) ^ stream)};
}

static inline uint64_t xt_rng_next(struct xt_rng *rng)
{
    return xt_rng_mix(rng->key ^ rng->counter++);
}

/* An integer in [0, below), below > 0; the bias is under below / 2^64. */
static inline uint64_t xt_rng_below(struct xt_rng *rng, uint64_t below)
{
    return (uint64_t)(((unsigned __int128)xt_rng_next(rng) * below) >> 64);
}

/* A float in [0, 1), of 24 bits. */
static inline float xt_rng_uniform(struct xt_rng *rng)
{
    return (float)(xt_rng_next(rng) >> 40) * 0x1p-24f;
}
