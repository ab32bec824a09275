/* What the ops of each kind are, as the describing functions leave them. Shared by those who run
 * them: op_*.c on the CPU, xpu_*.c on an XPU, where `program` holds what runs; nobody else but the
 * self-test includes it.
 */
#ifndef XT_MODELS_OPS_H
#define XT_MODELS_OPS_H

#include "models/graph_ops.h"

struct input {
    struct xt_op op;
    struct xt_tensor *out;
    float mean;
    float scale;
};

/* One primitive with its arguments. */
struct step {
    dnnl_primitive_desc_t pd;
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t args[8];
    int arg_count;
};

/* A copy of the weights in the format of one kernel; data NULL where the master serves as it is. */
struct working {
    dnnl_memory_t memory;
    void *data;
    struct step reorder;
};

struct conv {
    struct xt_op op;
    struct xt_tensor *in;
    struct xt_tensor *out;
    int reader;
    int weight; /* index in params */
    int bias;   /* -1: none */
    bool relu;
    bool folded;          /* a norm is part of weights and bias */
    struct xt_fold fold;  /* where folded */
    float *own_bias;      /* [out->c] with the norm in it; NULL: the parameter itself */
    float *weight_scales; /* int8: [out->c] what a step of each output channel's weights is worth */
    dnnl_dims_t strides, dilates, pads, kernel;
    struct step forward;
    struct step backward_data;
    struct step backward_weights;
    struct working forward_weights;
    struct working backward_weights_copy;
    dnnl_memory_t memories[16];
    int memory_count;
};

struct norm {
    struct xt_op op;
    struct xt_norm_spec spec;
    struct xt_tensor *in;
    struct xt_tensor *full;
    struct xt_tensor *max;
    struct xt_tensor *average;
    int reader;
    int residual_reader;
    struct xt_norm_params param;
    struct xt_buffer *winners;
    float *mean; /* [c] of the statistics used in this pass, and so on */
    float *invstd;
    float *scale;
    float *shift;
    float *factors; /* [3][c] of the backward's second pass */
    double *sums;   /* [n][2][c] */
};

struct dropout {
    struct xt_op op;
    struct xt_tensor *in;
    struct xt_tensor *out;
    int reader;
};

struct context {
    struct xt_op op;
    struct xt_context_spec spec;
    int reader[XT_TAPS_MAX];
    int first_channel[XT_TAPS_MAX];
    int groups;
    double group_count[XT_TAPS_MAX]; /* elements of a group in one sample */
    struct xt_tensor *out;
    double *square; /* [n][groups] mean square that divides */
    double *slope;  /* [n][groups] sum of gradient times tap, over what the mean runs over */
};

struct pool {
    struct xt_op op;
    struct xt_window window;
    bool average; /* max else */
    struct xt_tensor *in;
    struct xt_tensor *out;
};

#endif
