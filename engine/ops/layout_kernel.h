/* One launch that writes all copies of a graph's weights, each in the type and the format that its
 * kernel wants, where the device has kernels of the program's own (device/kernels/own.h): oneDNN
 * has a launch for each, often inside the convolution.
 */
#pragma once

#include "engine/ops/ops.h"

/* Whether this graph's device has it. Trained weights then have the format in which their gradient
 * is computed, and kernels take theirs. */
bool xt_layout_kernel_is(const struct xt_graph *graph);
/* The copy of the parameter, which lies as `from` says, as `to` says; false, adding nothing, where
 * one is not a format that the kernel knows. `at` gets where it is: it holds until the graph is
 * destroyed. */
bool xt_layout_kernel_copy(struct xt_graph *graph, int param, const_dnnl_memory_desc_t from,
                           const_dnnl_memory_desc_t to, struct xt_location *at);
/* Adds the launch to graph->transfer, after all copies; writes its table, once parameters have
 * their places; gives it back. */
void xt_layout_kernel_describe(struct xt_graph *graph);
enum xt_status xt_layout_kernel_write(struct xt_graph *graph, struct xt_err *err);
void xt_layout_kernel_clear(struct xt_graph *graph);
