/* The sums that a batch norm needs of a tensor, formed by the convolution that writes the tensor
 * while its numbers are in registers, instead of a pass of the norm's own over memory.
 */
#pragma once

#include <stdbool.h>

struct xt_norm_sums {
    /* [c], to which those of some pixels are added. Without `y`: of the output minus the pivot, and
     * of its square; the pivot is written, it is the first pixel. With it: of the gradient before
     * ReLU, which the output becomes, and of its product with z minus the pivot. */
    double *sums[2];
    float *pivot;  /* [c]; NULL: no sums, of a ReLU behind a convolution */
    const void *z; /* the norm's input */
    const void *y; /* its output, after ReLU */
};
