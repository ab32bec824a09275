/* Images that two sets share, found without decoding them: who evaluates on what was trained on
 * measures nothing.
 *
 * Files are the same where they are one inode, and in sets of very many, and inside of tars and
 * batches, where they have one path; and where they hold the same bytes, as far as reading that
 * costs little. Made pictures are not compared. Thread-safe.
 */
#ifndef XT_DATA_OVERLAP_H
#define XT_DATA_OVERLAP_H

#include "data/sources/source.h"

struct xt_overlap {
    size_t count;    /* of the first set's samples that the second one has */
    char first[256]; /* what the first of them is called */
};

/* XT_ERR_MEMORY alone is an error: what cannot be read is not shared. */
enum xt_status xt_overlap_find(struct xt_overlap *out, const struct xt_source *one,
                               const struct xt_source *other, struct xt_err *err);

#endif
