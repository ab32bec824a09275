/* Mixup (Zhang et al. 2018, arXiv:1710.09412): each training image is blended with another one of
 * its batch, and so is its label.
 *
 * Row i is mixed with row count - 1 - i, which is as good as a random one, since batches are
 * shuffled; both keep the same share of themselves, drawn from Beta(alpha, alpha) for each pair.
 * The share is a function of seed, step and pair alone, so whoever has the batch can ask for it,
 * and a resumed run mixes the same. Shares are whole in 1 / XT_MIXUP_ONE, so that pixels, which
 * stay bytes, and labels are mixed alike. Stateless, thread-safe.
 */
#ifndef XT_DATA_IMAGE_MIXUP_H
#define XT_DATA_IMAGE_MIXUP_H

#include <stddef.h>
#include <stdint.h>

enum { XT_MIXUP_ONE = 128 };

/* How a batch is mixed. Zeroed: not at all. */
struct xt_mixup {
    double alpha; /* 0: not at all */
    uint64_t seed;
    uint64_t step;
    int first; /* pair of the batch that row 0 is of, where these rows are a part (base/rows.h) */
    int count; /* rows */
};

/* What a row is made of. */
struct xt_mix {
    int other; /* the row that it is mixed with; itself in the middle of an odd batch */
    int own;   /* its share of itself, in 1 / XT_MIXUP_ONE; the other row has the rest */
};

struct xt_mix xt_mixup_row(const struct xt_mixup *mixup, int row);

/* Mixes a batch of images of `bytes` each, in place. */
void xt_mixup_pixels(const struct xt_mixup *mixup, uint8_t *pixels, size_t bytes);

#endif
