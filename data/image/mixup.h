/* Mixup (Zhang et al. 2018, arXiv:1710.09412): each training image, and its label, is blended with
 * another one of its batch.
 *
 * Row i is mixed with row count - 1 - i, which is as good as a random one, since batches are
 * shuffled; both have the same share of themselves, drawn from Beta(alpha, alpha) for each pair.
 * The share is a function of seed, step and pair alone, so it can be computed anywhere, and a
 * resumed run mixes the same. Shares are multiples of 1 / XT_MIXUP_ONE, so that pixels, which stay
 * bytes, and labels are mixed alike. Stateless, thread-safe.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { XT_MIXUP_ONE = 128 };

/* Parameters of a batch's mixup. Zeroed: off. */
struct xt_mixup {
    double alpha; /* 0: off */
    uint64_t seed;
    uint64_t step;
    int first; /* index of row 0's pair in the whole batch, if these rows are a part of it
                  (base/rows.h) */
    int count; /* rows */
};

/* The components of a row. */
struct xt_mix {
    int other; /* the row that it is mixed with; itself in the middle of an odd batch */
    int own;   /* its share of itself, in 1 / XT_MIXUP_ONE; the other row has the rest */
};

struct xt_mix xt_mixup_row(const struct xt_mixup *mixup, int row);

/* Mixes a batch of images of `bytes` each, in place. */
void xt_mixup_pixels(const struct xt_mixup *mixup, uint8_t *pixels, size_t bytes);
