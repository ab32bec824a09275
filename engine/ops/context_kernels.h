/* LPRNet's global context as five kernels and the products of its means, where the device has
 * kernels of the program's own (device/kernels/own.h): oneDNN's primitives need several for each
 * tap.
 */
#pragma once

#include "engine/ops/ops.h"

struct xt_context_kernels {
    const struct xt_own_program *code;
    struct xt_context_op *context;
};

/* For this device and these shapes; `code` is NULL if there are none. */
struct xt_context_kernels xt_context_kernels(struct xt_context_op *context,
                                             const struct xt_graph *graph);

/* sums [taps][n] of the squares; the output, by inverse [groups][n]. */
void xt_context_kernels_sums(const struct xt_context_kernels *kernels, struct xt_location sums);
void xt_context_kernels_out(const struct xt_context_kernels *kernels, struct xt_location inverse);
/* slopes [taps][n]: the products of the output's gradient and the averages; then the taps'
 * gradients, by inverse and `through` [groups][n], the factors of the taps themselves. */
void xt_context_kernels_slopes(const struct xt_context_kernels *kernels, struct xt_location slopes);
void xt_context_kernels_grads(const struct xt_context_kernels *kernels, struct xt_location inverse,
                              struct xt_location through);
