/* The descriptions of a convolution's primitives, as several kinds of ops have them. The program
 * owns them from xt_program_add or xt_program_keep on. NULL where the program fails.
 */
#pragma once

#include "engine/ops/ops.h"

struct xt_conv_primitives {
    struct xt_program *program;
    const int64_t *strides, *dilates, *pads, *pads_after; /* of two axes, as oneDNN counts */
    dnnl_memory_desc_t in, weights, bias, out;            /* `bias` NULL: none */
    dnnl_primitive_attr_t attr;                           /* of the gradients */
    dnnl_primitive_desc_t forward;                        /* which the gradients follow */
};

/* Without layouts; the attribute has no post-ops. */
struct xt_conv_primitives xt_conv_primitives_of(struct xt_program *program,
                                                const struct xt_conv_op *conv);
/* Sets `forward` too. */
dnnl_primitive_desc_t xt_conv_forward(struct xt_conv_primitives *of, dnnl_prop_kind_t kind,
                                      const_dnnl_primitive_attr_t attr, const char *what);
dnnl_primitive_desc_t xt_conv_backward_data(const struct xt_conv_primitives *of, const char *what);
/* Of the weights and, but for NULL, the bias; no kernel that is known to be wrong. */
dnnl_primitive_desc_t xt_conv_backward_weights(const struct xt_conv_primitives *of,
                                               dnnl_memory_desc_t weights_grad,
                                               dnnl_memory_desc_t bias_grad, const char *what);
