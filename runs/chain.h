/* The chain of a run's record. Each line of metrics.jsonl ends in
 *
 *   ,"chain":"H"}   H = SHA-256 of the H before it (64 hexadecimal digits) and of the line up to
 * the comma
 *
 * so that no line can be changed, added or removed without a break. proof.json holds the links that
 * are no lines: of each start, what it was made of; and where a start or rollback has replaced
 * lines, which continues the chain of the replaced ones. A link follows the line whose hash is
 * `after` ("": none), continues the hash `from`, and has the hash `head`: SHA-256 of `from` and its
 * facts, or `from` where it has none. Weights and checkpoints carry the hash that was the newest
 * when they were written, and proof.json the one at the last save.
 *
 * Thread-safe: no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/sha256.h"

/* The hash of a line, up to its comma, or of a link's facts. */
struct xt_sha256_text xt_chain_next(const char *from, const char *text, size_t length);

/* Whether the line, with its newline, ends in a hash; *covered bytes are before the comma. */
bool xt_chain_split(const char *line, size_t length, size_t *covered, struct xt_sha256_text *hash);
