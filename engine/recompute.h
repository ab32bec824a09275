/* Activation recomputation (Chen et al. 2016, arXiv:1604.06174): outputs of batch norms with their
 * ReLUs and pools are not stored from the forward to the backward pass, but recomputed from the
 * convolution's output, bit for bit. Their arena memory is free in between.
 */
#pragma once

#include "engine/graph.h"

/* Once all ops are described, before memory is laid out. An op that reads a recomputed tensor is
 * not recomputed itself, so that a single pass suffices. */
void xt_graph_plan_recompute(struct xt_graph *graph);
/* Recomputes what is due before `time`, the time of an op. */
void xt_graph_recompute(struct xt_graph *graph, int time);
void xt_op_recompute(struct xt_op *op, struct xt_graph *graph);

/* Number of ops whose outputs are recomputed, and the outputs' bytes. */
int xt_graph_count_recomputed(const struct xt_graph *graph, size_t *bytes);
