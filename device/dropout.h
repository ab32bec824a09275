/* oneDNN's dropout: an attribute of an element-wise primitive, with random numbers generated on the
 * device (Philox 4x32, Salmon et al. 2011) from a seed, an offset and an element's position in
 * memory. No mask is stored: the same three reproduce it for the gradient.
 *
 * Seed, offset and probability are host scalars passed with a launch, so nothing is transferred for
 * them. The offset is always set: without one oneDNN 3.13 uses one number for four consecutive
 * elements. The creator destroys it; one thread.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "device/dnnl.h"

/* The arguments of a primitive with dropout; the headers that are compiled against have no names
 * for them. */
enum {
    XT_ARG_DROPOUT_OFFSET = 507,
    XT_ARG_DROPOUT_PROBABILITY = 510,
    XT_ARG_DROPOUT_SEED = 511,
};

struct xt_device_dropout {
    dnnl_memory_t probability, seed, offset; /* NULL: no dropout */
};

/* False if the loaded oneDNN has no dropout with host scalars (added after 3.7, present in 3.13);
 * *out is empty then. */
bool xt_device_dropout_create(struct xt_device_dropout *out);
void xt_device_dropout_destroy(struct xt_device_dropout *dropout);

/* Enables dropout in primitives created with the attributes. */
dnnl_status_t xt_device_dropout_attr(dnnl_primitive_attr_t attr);

/* For the launches from now on: elements are dropped with that probability, below 1, and the others
 * are scaled by 1 / (1 - probability). */
enum xt_status xt_device_dropout_set(struct xt_device_dropout *dropout, double probability,
                                     uint64_t seed, uint64_t offset, struct xt_err *err);
