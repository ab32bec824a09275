/* A digest of a set of images, for records: says that two runs had the same set, not what is in it.
 * Thread-safe.
 */
#ifndef XT_DATA_DIGEST_H
#define XT_DATA_DIGEST_H

#include "base/sha256.h"
#include "data/sources/source.h"

/* SHA-256 of the number of samples, of names (without folders) and labels of up to 4096 of them,
 * and of the bytes as stored of up to 64; evenly spread over the set. Samples that cannot be read
 * count by their name alone. */
struct xt_sha256_text xt_source_digest(const struct xt_source *source);

#endif
