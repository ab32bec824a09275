/* What an int8 network needs to know beside its weights: up to where the numbers that each
 * convolution writes are told apart. Found by running the same network, fused and in float32, over
 * sample images while graph->recording points to a recording; the ranges that follow from it are
 * then given to the int8 graph in its options.
 *
 * A range need not reach the largest number seen: one outlier would leave all others few steps. It
 * ends where the squared error of rounding and of cutting off is least, each image's taken relative
 * to the image's own squares.
 *
 * Tensors go by their index, which is the same in every fused graph of a network. A recording
 * belongs to its creator; one graph writes to it at a time.
 */
#ifndef XT_ENGINE_RANGES_H
#define XT_ENGINE_RANGES_H

#include <stdbool.h>

#include "base/err.h"
#include "engine/graph.h"

struct xt_ranges {
    int tensors;                 /* of the graph that was recorded; 0: none yet */
    float limit[XT_TENSORS_MAX]; /* magnitude; 0: not recorded, or never anything but 0 */
};

struct xt_recording;

enum xt_status xt_recording_create(struct xt_recording **out, struct xt_err *err);
void xt_recording_destroy(struct xt_recording *recording);

/* Counts the tensor's values in the samples of the pass that matter. The tensor is float32, and
 * `values` are what it holds, on the host. */
enum xt_status xt_recording_see(struct xt_recording *recording, const struct xt_graph *graph,
                                const struct xt_tensor *tensor, const float *values,
                                struct xt_err *err);

/* The ranges that follow. XT_ERR_DATA names a tensor that held something that is no number, or says
 * that nothing was recorded. */
enum xt_status xt_recording_ranges(const struct xt_recording *recording,
                                   const struct xt_graph *graph, struct xt_ranges *out,
                                   struct xt_err *err);

/* Makes the tensor int8, with the step that its range asks for: without a sign where nothing in it
 * is negative. */
void xt_ranges_quantise(const struct xt_ranges *ranges, struct xt_tensor *tensor);

#endif
