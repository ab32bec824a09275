#include "runs/chain.h"

#include <string.h>

enum { DIGITS = 64 };
static const char mark[] = ",\"chain\":\"";
static const char close[] = "\"}\n";

struct xt_sha256_text xt_chain_next(const char *from, const char *text, size_t length)
{
    struct xt_sha256 hash;
    xt_sha256_begin(&hash);
    xt_sha256_add(&hash, from, strlen(from));
    xt_sha256_add(&hash, text, length);
    const struct xt_sha256_digest digest = xt_sha256_end(&hash);
    return xt_sha256_format(&digest);
}

bool xt_chain_split(const char *line, size_t length, size_t *covered, struct xt_sha256_text *hash)
{
    const size_t tail = sizeof mark - 1 + DIGITS + sizeof close - 1;
    if (length <= tail)
        return false;
    const char *at = line + length - tail;
    const char *digits = at + sizeof mark - 1;
    if (memcmp(at, mark, sizeof mark - 1) != 0 ||
        memcmp(digits + DIGITS, close, sizeof close - 1) != 0)
        return false;
    memcpy(hash->text, digits, DIGITS);
    hash->text[DIGITS] = '\0';
    *covered = (size_t)(at - line);
    return true;
}
