/* What the ops of each kind are, as the describing functions leave them. Shared by those who run
 * them: op_*.c on the CPU, xpu_*.c on an XPU, where `program` holds what runs; nobody else but the
 * self-test includes it.
 */
#ifndef XT_MODELS_GRAPH_OPS_H
#define XT_MODELS_GRAPH_OPS_H

#include "models/graph/graph_ops.h"

struct input {
    struct xt_op op;
    struct xt_tensor *out;
    float mean;
    float scale;
    struct xt_device_memory pixels; /* on an XPU: pinned, for those that are not there yet */
    struct xt_device_memory shift;  /* on an XPU, int8: one number, what a byte is moved by */
};

/* int8: the number that is held for x. */
float xt_input_quantised(const struct input *input, float x);

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
    float *own_bias;      /* [out->c] of own weights; NULL: the parameter itself */
    float *weight_scales; /* int8: [out->c] what a step of each output channel's weights is worth */
    dnnl_dims_t strides, dilates, pads, kernel;
    struct step forward;
    struct step backward_data;
    struct step backward_weights;
    struct working forward_weights;
    struct working backward_weights_copy;
    dnnl_memory_t memories[16];
    int memory_count;
    /* On an XPU, where weights are made: the device reads them there. */
    struct xt_device_memory host_weights, host_bias, host_scales;
};

/* The descriptors of the primitives, and the buffers that they use. */
enum xt_status xt_conv_describe(struct conv *conv, const struct xt_graph *graph,
                                struct xt_err *err);
enum xt_status xt_conv_use_buffers(struct conv *conv, struct xt_graph *graph, struct xt_err *err);
bool xt_conv_reads_int8(const struct conv *conv);
bool xt_conv_has_bias(const struct conv *conv);
/* Whether weights and bias are made in float32 from the parameters, and then brought to the
 * kernel's type. */
bool xt_conv_has_own_weights(const struct conv *conv);
/* Makes them: `weights`, plain, are the parameter, and become what the kernel's copy is made of:
 * with the norm in them, and of int8 whole numbers. own_bias and weight_scales go with them. */
enum xt_status xt_conv_make_weights(struct conv *conv, struct xt_params *params, float *weights,
                                    struct xt_err *err);
/* On an XPU what is added in place has to be of the output's own type, whatever oneDNN is told
 * (3.13): a residual with a sign below an output without one is added from a float32 copy. */
bool xt_conv_copies_residual(const struct conv *conv);
/* The largest whole number that an int8 weight becomes. */
int xt_conv_weight_most(const struct conv *conv);
bool xt_is_conv(const struct xt_op *op);

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
    float *factors;                                 /* [3][c] of the backward's second pass */
    struct xt_buffer *forward_sums, *backward_sums; /* each sample's, double [n][2][c] */
};

/* A norm's gradients, of which some share memory, and what it writes. */
enum xt_status xt_norm_share_gradients(struct norm *norm, struct xt_graph *graph,
                                       struct xt_err *err);
enum xt_status xt_norm_use_outputs(struct norm *norm, struct xt_graph *graph, struct xt_err *err);

struct dropout {
    struct xt_op op;
    struct xt_tensor *in;
    struct xt_tensor *out;
    int reader;
    struct xt_device_memory keep;   /* on an XPU: pinned, u8, 1 where an element stays */
    struct xt_device_memory factor; /* on an XPU: pinned, one number */
};

enum xt_status xt_dropout_use_buffers(struct dropout *dropout, struct xt_graph *graph,
                                      struct xt_err *err);
/* Sample n's mask in this pass: elements whose hash with the key is below the threshold fall. */
uint32_t xt_dropout_key(const struct dropout *dropout, const struct xt_graph_pass *pass, int n);
uint32_t xt_dropout_threshold(const struct xt_graph_pass *pass);

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
    struct xt_device_memory means[XT_TAPS_MAX]; /* on an XPU, of each group: xpu_context.c */
    int means_of;                               /* samples that they are for; 0: not filled yet */
    size_t first_float[XT_TAPS_MAX];            /* as first_channel */
};

enum xt_status xt_context_use_buffers(struct context *context, struct xt_graph *graph,
                                      struct xt_err *err);

struct pool {
    struct xt_op op;
    struct xt_window window;
    bool average; /* max else */
    struct xt_tensor *in;
    struct xt_tensor *out;
};

#endif
