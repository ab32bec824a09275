#include "base/sha256.h"

#include <cpuid.h>
#include <immintrin.h>
#include <string.h>

#include "base/number.h"

static const uint32_t constants[64] = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2,
};

static uint32_t turn(uint32_t value, int by)
{
    return value >> by | value << (32 - by);
}

/* The compression function of section 6.2.2. */
static void compress(uint32_t state[8], const uint8_t block[64])
{
    uint32_t w[64];
    for (int t = 0; t < 16; t++)
        w[t] = xt_number_be32(block + 4 * t);
    for (int t = 16; t < 64; t++) {
        uint32_t s0 = turn(w[t - 15], 7) ^ turn(w[t - 15], 18) ^ w[t - 15] >> 3;
        uint32_t s1 = turn(w[t - 2], 17) ^ turn(w[t - 2], 19) ^ w[t - 2] >> 10;
        w[t] = s1 + w[t - 7] + s0 + w[t - 16];
    }
    uint32_t a = state[0], b = state[1], c = state[2], d = state[3];
    uint32_t e = state[4], f = state[5], g = state[6], h = state[7];
    for (int t = 0; t < 64; t++) {
        uint32_t sum1 = turn(e, 6) ^ turn(e, 11) ^ turn(e, 25);
        uint32_t choice = (e & f) ^ (~e & g);
        uint32_t first = h + sum1 + choice + constants[t] + w[t];
        uint32_t sum0 = turn(a, 2) ^ turn(a, 13) ^ turn(a, 22);
        uint32_t majority = (a & b) ^ (a & c) ^ (b & c);
        h = g;
        g = f;
        f = e;
        e = d + first;
        d = c;
        c = b;
        b = a;
        a = first + sum0 + majority;
    }
    const uint32_t v[8] = {a, b, c, d, e, f, g, h};
    for (int i = 0; i < 8; i++)
        state[i] += v[i];
}

/* The same by the CPU's SHA instructions, several blocks at once. They hold the state as ABEF and
 * CDGH, and do two rounds each. */
__attribute__((target("sha,sse4.1"))) static void compress_fast(uint32_t state[8],
                                                                const uint8_t *blocks, size_t count)
{
    const __m128i big_endian = _mm_set_epi64x(0x0c0d0e0f08090a0b, 0x0405060700010203);
    __m128i words[2];
    memcpy(words, state, sizeof words);
    const __m128i cdab = _mm_shuffle_epi32(words[0], 0xb1);
    const __m128i hgfe = _mm_shuffle_epi32(words[1], 0x1b);
    __m128i abef = _mm_alignr_epi8(cdab, hgfe, 8);
    __m128i cdgh = _mm_blend_epi16(hgfe, cdab, 0xf0);
    for (; count; count--, blocks += 64) {
        const __m128i before[2] = {abef, cdgh};
        __m128i w[16];
        memcpy(w, blocks, 64);
        for (int i = 0; i < 16; i++) {
            __m128i round;
            if (i < 4)
                w[i] = _mm_shuffle_epi8(w[i], big_endian);
            else
                w[i] = _mm_sha256msg2_epu32(_mm_add_epi32(_mm_sha256msg1_epu32(w[i - 4], w[i - 3]),
                                                          _mm_alignr_epi8(w[i - 1], w[i - 2], 4)),
                                            w[i - 1]);
            memcpy(&round, &constants[4 * i], sizeof round);
            round = _mm_add_epi32(round, w[i]);
            cdgh = _mm_sha256rnds2_epu32(cdgh, abef, round);
            abef = _mm_sha256rnds2_epu32(abef, cdgh, _mm_shuffle_epi32(round, 0x0e));
        }
        abef = _mm_add_epi32(abef, before[0]);
        cdgh = _mm_add_epi32(cdgh, before[1]);
    }
    const __m128i feba = _mm_shuffle_epi32(abef, 0x1b);
    const __m128i dchg = _mm_shuffle_epi32(cdgh, 0xb1);
    words[0] = _mm_blend_epi16(feba, dchg, 0xf0);
    words[1] = _mm_alignr_epi8(dchg, feba, 8);
    memcpy(state, words, sizeof words);
}

static bool has_instructions(void)
{
    enum { SHA = 1 << 29 };
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && b & SHA && __builtin_cpu_supports("sse4.1");
}

static void compress_all(struct xt_sha256 *hash, const uint8_t *blocks, size_t count)
{
    if (hash->fast) {
        compress_fast(hash->state, blocks, count);
        return;
    }
    for (; count; count--, blocks += 64)
        compress(hash->state, blocks);
}

void xt_sha256_begin(struct xt_sha256 *hash)
{
    *hash = (struct xt_sha256){.state = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f,
                                         0x9b05688c, 0x1f83d9ab, 0x5be0cd19},
                               .fast = has_instructions()};
}

void xt_sha256_add(struct xt_sha256 *hash, const void *bytes, size_t count)
{
    const uint8_t *next = bytes;
    size_t filled = hash->length % 64;
    if (!count)
        return;
    hash->length += count;
    if (filled) {
        size_t part = 64 - filled < count ? 64 - filled : count;
        memcpy(hash->block + filled, next, part);
        if (filled + part < 64)
            return;
        compress_all(hash, hash->block, 1);
        next += part;
        count -= part;
    }
    compress_all(hash, next, count / 64);
    if (count % 64)
        memcpy(hash->block, next + count / 64 * 64, count % 64);
}

struct xt_sha256_digest xt_sha256_end(struct xt_sha256 *hash)
{
    static const uint8_t padding[64] = {0x80};
    struct xt_sha256_digest digest;
    uint64_t bits = hash->length * 8;
    uint8_t length[8];
    for (int i = 0; i < 8; i++)
        length[i] = (uint8_t)(bits >> (56 - 8 * i));
    size_t filled = hash->length % 64;
    xt_sha256_add(hash, padding, filled < 56 ? 56 - filled : 120 - filled);
    xt_sha256_add(hash, length, sizeof length);
    for (size_t i = 0; i < 32; i++)
        digest.bytes[i] = (uint8_t)(hash->state[i / 4] >> (24 - 8 * (i % 4)));
    return digest;
}

struct xt_sha256_digest xt_sha256(const void *bytes, size_t count)
{
    struct xt_sha256 hash;
    xt_sha256_begin(&hash);
    xt_sha256_add(&hash, bytes, count);
    return xt_sha256_end(&hash);
}

struct xt_sha256_text xt_sha256_format(const struct xt_sha256_digest *digest)
{
    static const char digits[] = "0123456789abcdef";
    struct xt_sha256_text out = {""};
    for (size_t i = 0; i < 32; i++) {
        out.text[2 * i] = digits[digest->bytes[i] >> 4];
        out.text[2 * i + 1] = digits[digest->bytes[i] & 15];
    }
    return out;
}
