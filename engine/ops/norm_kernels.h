/* A batch norm with residual and ReLU as two kernels forward and two backward, where the device has
 * kernels of the program's own (device/kernels/own.h): oneDNN's primitive has four or five each.
 *
 * The first kernel of each pass adds up over the pixels; its last work-group for some channels
 * turns the work-groups' sums into the results, in an order that is always the same. The second one
 * computes each element. All sums are float32.
 */
#pragma once

#include "engine/ops/ops.h"

struct xt_norm_kernels {
    const struct xt_own_program *code; /* NULL: the device has none */
    struct xt_op *op;
    struct xt_graph *graph;
    const struct xt_tensor *in;
    const struct xt_buffer *residual; /* NULL: none */
    const struct xt_buffer *out;
    float eps;
    bool own_stats; /* the batch's statistics, which the forward pass writes */
    bool relu;      /* after the residual; with one, `out` is stored until the backward pass */
    struct xt_location scale, shift, mean, variance;
    /* Backward: the gradient of the output, which becomes the residual's; and the results. */
    const struct xt_buffer *out_grad, *in_grad;
    struct xt_location scale_grad, shift_grad;
};

/* For this device, type and number of channels; NULL: none. */
const struct xt_own_program *xt_norm_kernels_code(const struct xt_graph *graph,
                                                  const struct xt_tensor *in);
void xt_norm_kernels_forward(const struct xt_norm_kernels *norm, const char *what);
void xt_norm_kernels_backward(const struct xt_norm_kernels *norm, const char *what);

/* The gradient of a convolution's ReLU, in place of its output's, and of its bias, by the same
 * sums: oneDNN's weight gradient may set the bias's to zero first, in a launch of its own. Where
 * xt_norm_kernels_code has a program for the output. */
void xt_relu_kernel_backward(struct xt_op *op, struct xt_graph *graph, struct xt_location bias_grad,
                             const char *what);
