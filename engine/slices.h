/* A pass by slices: a few samples at a time go through several ops, while what they leave stays in
 * a core's second-level cache.
 *
 * A segment is a run of ops in which each sample depends on itself alone; it ends where a batch
 * norm has to know all samples. So a norm has two parts: one that adds up and ends a segment, and
 * one that goes by the sums and is in the next one. Lanes, one a thread, share out the samples, and
 * each takes its own through the segment, slice by slice. A gradient that is written and read
 * within one segment is kept for the samples of a slice alone: a ring.
 *
 * Which ops are in a segment follows from the network alone, so that all processes of a team go
 * through the same ones in the same order. An op that cannot go by slices runs whole in its place.
 *
 * In fused inference no op has to know all samples, but for a context over the batch: a pass is one
 * segment, or goes op by op where some op cannot go by slices. Each worker has an arena of its own
 * there, in which ops share memory as they do when they run whole.
 */
#ifndef XT_ENGINE_SLICES_H
#define XT_ENGINE_SLICES_H

#include "engine/graph.h"

/* Plans segments before the ops are described, and says of ops and tensors what they go by;
 * nothing where the options or the back end do not want any. */
void xt_slices_plan(struct xt_graph *graph);
/* Buffers live as long as the segments in which they are used. */
void xt_slices_extend(const struct xt_graph *graph, struct xt_plan_item *items, size_t count);

/* Whether what a norm writes, or backward its input's gradient, is read in the same segment. */
bool xt_slices_read_at_once(const struct xt_graph *graph, const struct xt_op *norm, bool backward);

/* An op that runs whole is run by this. */
typedef enum xt_status xt_slices_whole(struct xt_graph *graph, struct xt_op *op, bool backward,
                                       struct xt_err *err);
enum xt_status xt_slices_run(struct xt_graph *graph, bool backward, xt_slices_whole *whole,
                             struct xt_err *err);

#endif
