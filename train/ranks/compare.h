/* What ranks compare before they train or evaluate together: the network, the images, the initial
 * weights. Collective; a no-op for a single process. XT_ERR_USAGE on all ranks where something
 * differs (ranks/facts.h).
 */
#pragma once

#include "data/sources/source.h"
#include "infer/network/network.h"
#include "ranks/ranks.h"

/* Its text, symbols or classes, size of images and normalisation, and oneDNN's version. */
enum xt_status xt_ranks_compare_network(struct xt_ranks *ranks, const struct xt_network *network,
                                        struct xt_err *err);
/* The names and labels of all images, in their order, and the bytes as stored (of synthetic images
 * the pixels) of a sample: all of up to 256, else 256 that follow from the seed. `option` names
 * them ("--data"); NULL instead of a source is compared too. */
enum xt_status xt_ranks_compare_images(struct xt_ranks *ranks, const struct xt_source *source,
                                       const char *option, uint64_t seed, struct xt_err *err);
