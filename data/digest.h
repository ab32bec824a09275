/* Digests of a set of images: of its list, of single images, and of both for records, which says
 * that two runs had the same set, not what is in it. Ranks compare by the same functions.
 * Thread-safe.
 */
#pragma once

#include "base/sha256.h"
#include "data/sources/source.h"

/* Of an image's bytes as stored, or of its pixels where it is not stored. */
struct xt_image_digest {
    struct xt_sha256_digest hash;
    size_t bytes;
    bool unreadable; /* then the others are 0 */
};

/* Of the names, without folders, and labels of the samples from `begin` to `end`. */
struct xt_sha256_digest xt_source_digest_list(const struct xt_source *source, size_t begin,
                                              size_t end);
struct xt_image_digest xt_source_digest_image(const struct xt_source *source, size_t index,
                                              struct xt_decoder *decoder);
/* Of the number of samples, the list, and up to 64 images, evenly spread over the set. */
struct xt_sha256_text xt_source_digest(const struct xt_source *source);
