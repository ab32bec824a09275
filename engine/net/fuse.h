/* The fusion pass: a net (what a network is) becomes the ops of a graph (how it runs). What has a
 * fused form runs as one op: a convolution with its ReLU; a batch norm with the residual that is
 * added, ReLU and pools. Parameters are those of the net in its order, whatever order ops run in.
 */
#pragma once

#include "engine/graph.h"
#include "engine/net/net.h"

/* Appends the net's ops to a fresh graph, whose input is normalised so. Gives the logits, or NULL
 * with the failure in the graph. The net is not needed afterwards. */
struct xt_tensor *xt_net_lower(const struct xt_net *net, struct xt_graph *graph,
                               const struct xt_normalise *normalise);
