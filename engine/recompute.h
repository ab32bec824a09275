/* What a training graph need not keep from its forward to its backward pass, since it is cheap to
 * make again from what is kept anyway (Chen et al. 2016, arXiv:1604.06174): outputs of batch norms
 * with their ReLUs and pools, from the convolution's output. Its place in the arena is free in
 * between; what is made again has the same bits.
 */
#ifndef XT_ENGINE_RECOMPUTE_H
#define XT_ENGINE_RECOMPUTE_H

#include "engine/graph.h"

/* Once all ops are described, before memory is laid out. An op that reads what is made again is not
 * made again itself, so that one pass over it does. */
void xt_graph_plan_recompute(struct xt_graph *graph);
/* Makes what is due before `time`; an op's. */
void xt_graph_recompute(struct xt_graph *graph, int time);
void xt_op_recompute(struct xt_op *op, struct xt_graph *graph);

/* Ops whose outputs are made again, and the bytes of those. */
int xt_graph_count_recomputed(const struct xt_graph *graph, size_t *bytes);

#endif
