/* Images that two sets share, found without decoding them: evaluating on training images measures
 * nothing.
 *
 * Files are equal if they are one inode (in very large sets, and inside tars and batches: if they
 * have one path), or if their bytes are equal, as far as reading them is cheap. Synthetic pictures
 * are not compared. Thread-safe.
 */
#pragma once

#include "data/sources/source.h"

struct xt_overlap {
    size_t count;    /* samples of the first set that are also in the second */
    char first[256]; /* the name of the first of them */
};

/* Only XT_ERR_MEMORY is an error: a file that cannot be read is not shared. */
enum xt_status xt_overlap_find(struct xt_overlap *out, const struct xt_source *one,
                               const struct xt_source *other, struct xt_err *err);
