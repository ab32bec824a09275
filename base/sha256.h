/* SHA-256 (FIPS 180-4). A zeroed struct is not ready: begin first. Thread-safe, stateless. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct xt_sha256 {
    bool fast; /* by the CPU's SHA instructions */
    uint32_t state[8];
    uint64_t length;
    uint8_t block[64];
};

struct xt_sha256_digest {
    uint8_t bytes[32];
};

struct xt_sha256_text {
    char text[65];
};

void xt_sha256_begin(struct xt_sha256 *hash);
/* `bytes` may be NULL where `count` is 0. */
void xt_sha256_add(struct xt_sha256 *hash, const void *bytes, size_t count);
struct xt_sha256_digest xt_sha256_end(struct xt_sha256 *hash);
struct xt_sha256_digest xt_sha256(const void *bytes, size_t count);
/* In lower-case hexadecimal. */
struct xt_sha256_text xt_sha256_format(const struct xt_sha256_digest *digest);
