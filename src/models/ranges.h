/* What an int8 network needs to know beside its weights: how large the numbers get that each
 * convolution writes. Found by running the same network, fused and in float32, over sample images
 * while graph->recording points here; then given to the int8 graph in its options.
 *
 * Zeroed is empty. Tensors go by their index, which is the same in every fused graph of a network.
 * One graph records at a time.
 */
#ifndef XT_MODELS_RANGES_H
#define XT_MODELS_RANGES_H

#include "base/err.h"
#include "models/graph.h"

struct xt_ranges {
    int tensors;                   /* of the graph that was recorded; 0: none yet */
    float largest[XT_TENSORS_MAX]; /* magnitude; 0: not recorded, or never anything but 0 */
};

/* Adds the tensor's value in the samples of the pass that matter. The tensor is float32. */
void xt_ranges_see(struct xt_ranges *ranges, const struct xt_graph *graph,
                   const struct xt_tensor *tensor);

/* Whether the ranges can serve: XT_ERR_DATA names a tensor that held something that is no number,
 * or says that nothing was recorded. */
enum xt_status xt_ranges_check(const struct xt_ranges *ranges, const struct xt_graph *recorded,
                               struct xt_err *err);

/* Makes the tensor int8, with the step that its range asks for: without a sign where nothing in it
 * is negative. */
void xt_ranges_quantise(const struct xt_ranges *ranges, struct xt_tensor *tensor, bool negative);

#endif
