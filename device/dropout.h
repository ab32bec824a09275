/* oneDNN's dropout: what an element-wise primitive does to its result besides, with numbers that
 * the device draws (Philox 4x32, Salmon et al. 2011) from a seed, an offset and an element's place
 * in memory. No mask is kept: the same three make the same mask again, for the gradient.
 *
 * Seed, offset and probability are numbers of the host that a launch takes along, so nothing
 * crosses the bus for them. The offset is always given: without one oneDNN 3.13 has four elements
 * in a row share a number. Whoever creates one destroys it; one thread.
 */
#ifndef XT_DEVICE_DROPOUT_H
#define XT_DEVICE_DROPOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "device/dnnl.h"

/* The arguments of a primitive that drops; the headers that are compiled against have no names. */
enum {
    XT_ARG_DROPOUT_OFFSET = 507,
    XT_ARG_DROPOUT_PROBABILITY = 510,
    XT_ARG_DROPOUT_SEED = 511,
};

struct xt_device_dropout {
    dnnl_memory_t probability, seed, offset; /* NULL: there are none */
};

/* False where the loaded oneDNN has no dropout that takes such numbers (it came after 3.7, and is
 * in 3.13); *out is empty then. */
bool xt_device_dropout_create(struct xt_device_dropout *out);
void xt_device_dropout_destroy(struct xt_device_dropout *dropout);

/* Has what is made with the attributes drop. */
dnnl_status_t xt_device_dropout_attr(dnnl_primitive_attr_t attr);

/* For the launches from now on: elements fall with that probability, below 1, and the others are
 * divided by what it leaves of 1. */
enum xt_status xt_device_dropout_set(struct xt_device_dropout *dropout, double probability,
                                     uint64_t seed, uint64_t offset, struct xt_err *err);

#endif
