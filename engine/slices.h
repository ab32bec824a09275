/* A pass by slices: a few samples at a time go through several ops, so that intermediate results
 * stay in a core's L2 cache.
 *
 * A segment is a sequence of ops in which each sample depends only on itself; it ends where a batch
 * norm needs all samples. So a norm has two parts: the sums, which end a segment, and their use,
 * which begins the next one. Workers, one per thread, divide the samples, and each runs its own
 * through the segment, slice by slice. A gradient that is written and read within one segment is
 * stored for the samples of one slice only: a ring.
 *
 * What another op of the segment reads at once, and the backward pass again, is written twice: past
 * the caches, and to a ring that stays in them.
 *
 * Segments follow from the network alone, so that all ranks run the same ones in the same order. An
 * op that cannot run by slices runs whole in its place.
 *
 * In fused inference no op needs all samples, except a context over the batch: a pass is one
 * segment, or runs op by op if some op cannot run by slices. Each worker has its own arena there,
 * which ops share as they do when they run whole.
 */
#pragma once

#include "engine/graph.h"

/* Plans segments before the ops are described, and marks ops and tensors accordingly; a no-op if
 * the options or the back end disable slices. */
void xt_slices_plan(struct xt_graph *graph);
/* Buffers live as long as the segments in which they are used. */
void xt_slices_extend(const struct xt_graph *graph, struct xt_plan_item *items, size_t count);

/* Whether a norm's output, or backward its input's gradient, is read in the same segment. */
bool xt_slices_read_at_once(const struct xt_graph *graph, const struct xt_op *norm, bool backward);

/* Where an op that runs by slices forward finds its input's samples. */
const struct xt_buffer *xt_slices_value(const struct xt_op *op, const struct xt_tensor *in);

/* Runs an op whole. */
typedef enum xt_status xt_slices_whole(struct xt_graph *graph, struct xt_op *op, bool backward,
                                       struct xt_err *err);
enum xt_status xt_slices_run(struct xt_graph *graph, bool backward, xt_slices_whole *whole,
                             struct xt_err *err);
