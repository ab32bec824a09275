/* The hashes that weights carry in their metadata, so that a flipped bit is refused on reading:
 *
 *   xtrain_sha256_tensors   SHA-256 of each tensor (type, shape, bytes), in the order of their
 *                           names, 64 hexadecimal digits each
 *   xtrain_sha256           SHA-256 of the tensors' names, those hashes and all other metadata
 *
 * Neither depends on the order in the file. Files without them, which other programs write, are not
 * checked.
 */
#pragma once

#include "base/sha256.h"
#include "base/str.h"
#include "models/weights/weight_store.h"

#define XT_WEIGHT_HASH_KEY "xtrain_sha256"
#define XT_WEIGHT_TENSORS_KEY "xtrain_sha256_tensors"

/* Whether a metadata key is one of these two. */
bool xt_weight_hash_is_key(const char *key);

struct xt_weight_hash {
    struct xt_sha256_text whole;
    struct xt_str tensors;
};

/* Of a file's content; its own two keys in the metadata are skipped. Clear it also after a failure.
 */
enum xt_status xt_weight_hash_make(struct xt_weight_hash *out, const struct xt_weight_file *file,
                                   struct xt_err *err);
void xt_weight_hash_clear(struct xt_weight_hash *hash);

/* XT_ERR_DATA names the tensor that differs from what was written, or the metadata; leaves the
 * file's name to the caller. */
enum xt_status xt_weight_hash_check(const struct xt_weight_file *file, struct xt_err *err);
