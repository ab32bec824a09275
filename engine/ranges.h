/* Calibration of an int8 network: the range of each convolution's output that is quantised. Found
 * by running the same network, fused and in float32, over sample images while graph->recording
 * points to a recording; the ranges that follow from it are then given to the int8 graph in its
 * options.
 *
 * A range need not reach the largest number seen: one outlier would leave few steps to all others.
 * Its limit minimises the squared error of rounding and clipping, each image's taken relative to
 * the image's own squares.
 *
 * Ranges go by xt_tensor.range, which is the same in every fused graph of a network. A recording
 * belongs to its creator; one graph writes to it at a time.
 */
#pragma once

#include <stdbool.h>

#include "base/err.h"
#include "base/str.h"
#include "engine/graph.h"

struct xt_ranges {
    int count;                   /* of the graph that was recorded; 0: none yet */
    float limit[XT_TENSORS_MAX]; /* by range - 1; magnitude; 0: not recorded, or never anything but
                                    0 */
};

struct xt_recording;

/* The op's output whose range calibration records; NULL: none. */
const struct xt_tensor *xt_ranged_by(const struct xt_op *op);

enum xt_status xt_recording_create(struct xt_recording **out, struct xt_err *err);
void xt_recording_destroy(struct xt_recording *recording);

/* Counts the tensor's values in the valid samples of the pass. The tensor is float32, and `values`
 * are its contents on the host. */
enum xt_status xt_recording_see(struct xt_recording *recording, const struct xt_graph *graph,
                                const struct xt_tensor *tensor, const float *values,
                                struct xt_err *err);

/* The resulting ranges. XT_ERR_DATA names a tensor with non-finite values, or reports that nothing
 * was recorded. */
enum xt_status xt_recording_ranges(const struct xt_recording *recording,
                                   const struct xt_graph *graph, struct xt_ranges *out,
                                   struct xt_err *err);

/* Their text in weights' metadata: a line for each recorded tensor of the graph, in its order, with
 * the limit and the tensor's name; and back. XT_ERR_DATA where they are of another network. */
#define XT_RANGES_KEY "int8_ranges"
enum xt_status xt_ranges_print(const struct xt_ranges *ranges, const struct xt_graph *graph,
                               struct xt_str *out, struct xt_err *err);
enum xt_status xt_ranges_parse(const char *text, const struct xt_graph *graph,
                               struct xt_ranges *out, struct xt_err *err);

/* Makes the tensor int8, with the step of its range: unsigned if it has no negative values. */
void xt_ranges_quantise(const struct xt_ranges *ranges, struct xt_tensor *tensor);

/* The part, 0 to 1, of the convolutions' multiplications that a planned graph computes in int8. */
double xt_ranges_share(const struct xt_graph *graph);
