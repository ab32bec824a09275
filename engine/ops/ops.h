/* Kinds of ops, and declarations shared by the ops (one file each, beside this one), back ends and
 * the executor; otherwise included only by the self-test and the exporter.
 *
 * A kind describes its op once: shapes and parameters when it is added to a graph, its oneDNN
 * primitives as a program, and the reference in double precision. Back ends run the program; a back
 * end with something faster for a kind has it in its overrides.
 *
 * As in graph.h the first failure is stored in the graph; after it these functions do nothing.
 */
#pragma once

#include "engine/graph.h"
#include "engine/ops/reference_op.h"

/* A host memory, allocated when the graph is built. */
struct xt_pinned {
    struct xt_operand operand;
    const char *what;
    struct xt_device_memory *memory;
};

struct xt_op_kind {
    const char *name; /* "convolution" */
    size_t size;      /* of the struct that embeds xt_op */
    /* Records which buffers are used when (xt_graph_use), and appends the primitives to
     * op->program. */
    void (*describe)(struct xt_op *op, struct xt_graph *graph);
    /* Host computations on changed parameters, before the program's BEFORE; NULL: none. */
    enum xt_status (*refresh)(struct xt_op *op, struct xt_graph *graph, struct xt_err *err);
    /* Host work before the program runs; NULL: none. *runs is true at the call; setting it to false
     * skips the program in this pass. */
    enum xt_status (*before)(struct xt_op *op, struct xt_graph *graph, bool backward, bool *runs,
                             struct xt_err *err);
    const char *what[2]; /* its steps in the placement table, forward and backward; NULL backward:
                            no backward pass */
    struct xt_reference_op_kind reference;
    void (*destroy)(struct xt_op *op);
};

/* ---- adding an op ---- */

bool xt_graph_fails(const struct xt_graph *graph);
/* Stores the first failure; returns NULL. */
void *xt_graph_refuse(struct xt_graph *graph, enum xt_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Appends an op of the kind, owned by the graph; NULL after a failure. */
void *xt_graph_add_op(struct xt_graph *graph, const struct xt_op_kind *kind, const char *name);
/* Adds an input; in training the op writes one of the tensor's gradients. False after a failure,
 * and for a NULL tensor (of an op that failed). */
bool xt_op_read(struct xt_op *op, struct xt_graph *graph, struct xt_tensor *tensor);
/* Adds an output; NULL after a failure, or if a size is below 1. */
struct xt_tensor *xt_op_write(struct xt_op *op, struct xt_graph *graph, const char *name, int n,
                              int h, int w, int c, enum xt_dtype dtype);
/* Skips an output. */
void xt_op_write_none(struct xt_op *op);
/* Adds a parameter, new or found in existing params: its index, or -1 after a failure. */
int xt_op_param(struct xt_op *op, struct xt_graph *graph, const struct xt_param *param);
/* Adds a parameter that may be another op's too; it is frozen if the op is. */
int xt_graph_param(struct xt_graph *graph, const struct xt_param *param);
void xt_op_take_param(struct xt_op *op, struct xt_graph *graph, int param);
/* Ops that have a parameter in common run in the graph's order forward, and the other way round
 * backward: the last one of the graph writes its gradient, the others add theirs. */
bool xt_op_takes(const struct xt_op *op, int param);
bool xt_param_is_shared(const struct xt_graph *graph, int param);
bool xt_op_adds_grad(const struct xt_graph *graph, const struct xt_op *op, int param);
/* Whether the parameter's gradient is whole once this op has run backward. */
bool xt_op_ends_grad(const struct xt_graph *graph, const struct xt_op *op, int param);

/* The op that writes the tensor. */
const struct xt_op *xt_graph_writer(const struct xt_graph *graph, const struct xt_tensor *tensor);

/* Moves an op after all that have been added so far. */
void xt_graph_run_last(struct xt_graph *graph, struct xt_op *op);

static inline struct xt_tensor *xt_op_in(const struct xt_op *op, int i)
{
    return op->inputs[i].tensor;
}
static inline struct xt_tensor *xt_op_out(const struct xt_op *op, int i)
{
    return op->outputs[i];
}

/* ---- describing its buffers and program ---- */

/* Whether a backward pass of the op follows. */
bool xt_op_learns(const struct xt_op *op, const struct xt_graph *graph);
int xt_op_forward_time(const struct xt_op *op);
int xt_op_backward_time(const struct xt_graph *graph, const struct xt_op *op);

/* The values and gradients of the op's inputs and outputs are alive while it runs; values whose bit
 * is set in the masks until its backward pass. */
void xt_graph_use(struct xt_op *op, struct xt_graph *graph, uint64_t saved_inputs,
                  uint64_t saved_outputs);
/* The same for one tensor, for ops with shared buffers; creates a missing buffer. */
void xt_graph_use_value(struct xt_graph *graph, struct xt_tensor *tensor, int time);
void xt_graph_use_grad(struct xt_graph *graph, struct xt_tensor *tensor, int reader, int time);
void xt_graph_use_inputs(struct xt_op *op, struct xt_graph *graph, uint64_t saved);
void xt_graph_use_outputs(struct xt_op *op, struct xt_graph *graph, uint64_t saved);
/* For an op whose output has its input's shape and type: in training the input's gradient shares
 * the output's gradient's memory; with `in_place` the output shares the input's, if nobody else
 * reads that. */
void xt_op_share_memory(struct xt_op *op, struct xt_graph *graph, bool in_place);
/* The buffers' name for working copies of the parameters. */
#define XT_WORKING_WEIGHTS "working weights"
/* The gradient that the op writes for its input. */
struct xt_buffer *xt_op_in_grad(const struct xt_op *op, int i);

/* The type an op computes in: the tensor's, or the graph's if that is int8. */
enum xt_dtype xt_op_numbers_type(const struct xt_graph *graph, const struct xt_tensor *in);
/* The input as an operand; int8 is dequantised to float32 first. And the output. Of a slice if the
 * op runs by slices forward. */
struct xt_operand xt_op_numbers(struct xt_op *op, struct xt_graph *graph, int i);
struct xt_operand xt_op_output(const struct xt_op *op, const struct xt_graph *graph, int i);

/* The index of an axis in a tensor's operand, and its length. */
static inline int xt_axis_dimension(enum xt_axis axis)
{
    return axis == XT_AXIS_C ? 1 : axis == XT_AXIS_H ? 2 : 3;
}
static inline int xt_axis_size(const struct xt_tensor *t, enum xt_axis axis)
{
    return axis == XT_AXIS_C ? t->c : axis == XT_AXIS_H ? t->h : t->w;
}

/* ops/reduce.c, on dense operands n, h, w, c: a tensor as one; memory for one in a phase. */
enum { XT_DENSE_AXES = 4 };
struct xt_operand xt_operand_channels_last(const struct xt_tensor *t,
                                           const struct xt_buffer *buffer);
struct xt_operand xt_op_room(struct xt_op *op, struct xt_graph *graph, enum xt_phase phase,
                             dnnl_data_type_t dtype, const int64_t *dims);
/* A row of that many ones. */
struct xt_operand xt_op_ones(struct xt_op *op, struct xt_graph *graph, size_t count,
                             dnnl_data_type_t dtype);
/* `to` is the sum of `from` over the axes of length 1 in `to`. */
void xt_op_sum(struct xt_op *op, struct xt_graph *graph, enum xt_phase phase,
               const struct xt_operand *from, const struct xt_operand *to);
/* Repeats the single sample of `from` for each sample of `to`. */
void xt_op_expand(struct xt_op *op, struct xt_graph *graph, enum xt_phase phase,
                  const struct xt_operand *from, const struct xt_operand *to);

struct xt_buffer *xt_graph_add_buffer(struct xt_graph *graph, const char *owner, const char *kind,
                                      size_t bytes);
/* Buffers alive at `time` only; from the op's forward to its backward pass; always. NULL after a
 * failure. */
struct xt_buffer *xt_graph_temporary(struct xt_graph *graph, const struct xt_tensor *tensor,
                                     size_t bytes, int time);
struct xt_buffer *xt_graph_saved(struct xt_graph *graph, const struct xt_op *op, const char *kind,
                                 size_t bytes);
struct xt_buffer *xt_graph_permanent(struct xt_graph *graph, const char *owner, const char *kind,
                                     size_t bytes);
/* Requests pinned host memory with the operand's layout: *out, which must not move and is the
 * caller's to destroy, is set when the graph is built. `what` names it in errors and is a
 * constant. */
void xt_graph_pin(struct xt_graph *graph, const struct xt_operand *operand, const char *what,
                  struct xt_device_memory *out);
/* `count` numbers computed by the host, in pinned memory as from xt_graph_pin, and the device's
 * copy, updated by BEFORE. */
struct xt_location xt_op_follow_host(struct xt_op *op, struct xt_graph *graph, const char *kind,
                                     size_t count, struct xt_device_memory *host);
/* float32 numbers that the host computes for one op at a time, in its refresh. */
struct xt_location xt_graph_staging(struct xt_graph *graph, size_t count);

/* A parameter's value, statistic or gradient on the device. */
struct xt_location xt_graph_value_of(const struct xt_graph *graph, int param);
struct xt_location xt_graph_grad_of(const struct xt_graph *graph, int param);
/* Its value in the graph's type, cast with all others before a pass; parameters are laid out. */
struct xt_location xt_graph_cast_of(struct xt_graph *graph, int param);
/* A channel vector's batch statistic; in training the running one follows it. */
struct xt_location xt_graph_batch_stat_of(struct xt_graph *graph, int param);
/* An int8 tensor's scale. */
struct xt_location xt_graph_scale_of(const struct xt_graph *graph, const struct xt_tensor *tensor);

/* Synchronised batch norm: sums the numbers over all ranks, and returns the number of samples; with
 * one rank no change, and the samples of `own`. */
enum xt_status xt_graph_add_up(struct xt_graph *graph, double *values, size_t count,
                               struct xt_err *err);
int xt_graph_samples(const struct xt_graph *graph, int own);

/* This thread's scratch for the loops: `floats` of it, requested while describing. */
void xt_graph_want_scratch(struct xt_graph *graph, size_t floats);
float *xt_graph_loop_scratch(const struct xt_graph *graph);

/* ---- the kinds' structs, for back ends and checks ---- */

extern const struct xt_op_kind xt_kind_input, xt_kind_conv, xt_kind_norm, xt_kind_pool,
    xt_kind_eltwise, xt_kind_dropout, xt_kind_context, xt_kind_slice, xt_kind_shuffle,
    xt_kind_transpose, xt_kind_reshape, xt_kind_cast, xt_kind_parameter, xt_kind_constant,
    xt_kind_concat, xt_kind_fan_out, xt_kind_window_pool, xt_kind_add, xt_kind_mul, xt_kind_matmul,
    xt_kind_softmax, xt_kind_layer_norm, xt_kind_drop_path, xt_kind_drop_channels, xt_kind_axis_map,
    xt_kind_conv_transpose, xt_kind_channel_mean, xt_kind_conv_by, xt_kind_grid_sample,
    xt_kind_recurrence;

struct xt_input_op {
    struct xt_op op;
    struct xt_normalise normalise;
    struct xt_device_memory pixels;  /* pinned, for images that are not on the device yet */
    struct xt_device_memory shift;   /* int8: the zero point of bytes */
    struct xt_device_memory factors; /* per channel: scales, and offsets added then */
};
/* A pixel's grey level by these parts of its red, green and blue. */
enum { XT_PIXEL_BYTES = 3 };
extern const float xt_input_luma[XT_PIXEL_BYTES];
uint8_t xt_input_grey(const uint8_t *pixel);
/* int8: the quantised value of x. */
float xt_input_quantised(const struct xt_input_op *input, float x);

#define XT_BN_EPS 1e-5
#define XT_BN_MOMENTUM 0.1

/* A norm folded into the preceding convolution. */
struct xt_fold {
    struct xt_norm_params params;
    double eps;
    struct xt_tensor *residual;
    bool relu;
    const struct xt_activation *activation; /* instead of ReLU; NULL: none */
};

/* Also by computed weights (conv_by.c), its second input: it has the bias and the sizes alone. */
enum { XT_WEIGHT_COPIES_MAX = 4 };
struct xt_conv_op {
    struct xt_op op;
    int weight; /* index in params; -1: computed */
    int bias;   /* -1: none */
    int groups;
    bool relu;
    bool folded;                     /* a norm is folded in */
    struct xt_fold fold;             /* if folded */
    struct xt_activation activation; /* that fold.activation points to */
    dnnl_dims_t strides, kernel;
    dnnl_dims_t dilates;          /* as oneDNN counts: 0 is no dilation */
    dnnl_dims_t pads, pads_after; /* above and to the left; below and to the right */
    /* If the back end computes the weight gradient without a primitive: its format, set before the
     * op is described, and its destination, set by describing. */
    bool own_weight_grad;
    dnnl_format_tag_t weight_grad_format;
    struct xt_location weight_grad;
    /* The back end computes the output, or the input's gradient, without a primitive; set before
     * the op is described. */
    bool own[2];
    bool own_weights; /* the same, from weights staged on the host; set before */
    /* The norm behind it, whose statistics the back end computes with the output; the norm before
     * it, for which it makes the gradient before ReLU of the input's gradient, with its sums. Set
     * by preparing the norms. NULL: none. */
    const struct xt_op *sums_for[2];
    bool adds_grad; /* with either: to the gradient of another reader, whose memory it shares */
    /* Its input's gradient is the one before the ReLU of the convolution that writes its input,
     * which makes none of its own. Set by preparing that one. */
    bool masks_grad, is_masked;
    /* Of a strided 1x1: the input's gradient at the pixels that it reads, between which the back
     * end inserts zeros; set before the op is described. NULL: the primitive writes all of it. */
    struct xt_buffer *read_grad;
    /* Copies of the weights that the back end writes without a primitive, and their
     * destinations. */
    int copy_count;
    struct xt_weight_copy copies[XT_WEIGHT_COPIES_MAX];
    struct xt_location copied_from, copied_to[XT_WEIGHT_COPIES_MAX];
    struct xt_device_memory host_bias; /* [out->c] of own weights */
    struct xt_device_memory
        host_scales; /* int8: [out->c] scales of each output channel's weights */
};
/* O, I, H, W; with groups oneDNN wants G, O / G, I / G, H, W, which is the same memory. Returns the
 * number of dimensions. */
int xt_conv_weight_dims(const struct xt_conv_op *conv, dnnl_dims_t dims);
/* Its sizes, of the input that it reads already, and the output's height and width; refuses those
 * that no kernel has. */
bool xt_conv_set(struct xt_conv_op *conv, struct xt_graph *graph, const struct xt_conv_spec *spec,
                 int size[2]);
struct xt_reference_conv xt_conv_reference(const struct xt_conv_op *conv);
/* Symmetric padding and no dilation: assumed by a back end's own loops. */
bool xt_conv_is_even(const struct xt_conv_op *conv);
/* ops/conv.c: whether a norm can be folded: `out` is the unread output of a convolution without
 * ReLU, and the residual (NULL: none) is not its input, which must not be overwritten. */
bool xt_conv_can_absorb(const struct xt_graph *graph, const struct xt_tensor *out,
                        const struct xt_tensor *residual);
/* Folds the norm into the convolution's weights and bias; the residual (NULL: none) is added in its
 * own memory, which is `out` from then on; the convolution runs after all ops added so far. */
void xt_conv_absorb(struct xt_graph *graph, struct xt_tensor *out, const struct xt_fold *fold);
/* The largest weights of int8. Those of 7 bits cannot overflow where two products are added in 16
 * bits. */
enum { XT_INT8_MOST = 127, XT_INT8_OF_7_BITS_MOST = 63 };
/* Effective weights [out][in / groups][kernel_h][kernel_w] and bias [out] (zeros if absent) from
 * the host's parameters, with the folded norm; for an int8 source quantised to integers up to
 * `most` with scales [out] (else unused), and the source's zero point folded into the bias. */
enum xt_status xt_conv_weights(const struct xt_conv_op *conv, const struct xt_graph *graph,
                               int most, float *weights, float *bias, float *scales,
                               struct xt_err *err);

enum xt_norm_output { XT_NORM_FULL, XT_NORM_MAX, XT_NORM_AVERAGE };
struct xt_norm_op {
    struct xt_op op;                 /* inputs: the normalised tensor, then the residual if any */
    struct xt_norm_spec spec;        /* eps and momentum are set */
    struct xt_activation activation; /* what spec.activation refers to */
    struct xt_norm_params param;
};
/* As the op's last parameters: scale and shift, where there are any, then the statistics. */
void xt_norm_take_params(struct xt_op *op, struct xt_graph *graph,
                         const struct xt_norm_params *params);
/* The buffers of a norm. y's gradient is overwritten by the gradient before ReLU, which is the
 * residual's gradient if any, else becomes the input's in place: they share memory, unless the
 * input's gradient exists only for a slice. */
void xt_norm_use(struct xt_norm_op *norm, struct xt_graph *graph, uint64_t saved_inputs);
/* The buffer that accumulates the gradient of y, then holds the one before the ReLU. */
struct xt_buffer *xt_norm_sums(const struct xt_norm_op *norm);

struct xt_pool_op {
    struct xt_op op;
    struct xt_window window;
    bool average; /* max else */
};
/* ops/pool.c: a separate pool in inference; the window's out_h and out_w are set. An average is in
 * float32. */
struct xt_tensor *xt_graph_pool(struct xt_graph *graph, struct xt_tensor *in,
                                const struct xt_window *window, bool average, const char *name);
/* Any other pool. */
struct xt_window_pool_op {
    struct xt_op op;
    struct xt_window window;
    bool average;
    int pad_bottom, pad_right;
    bool counts_padding;            /* in an average's divisor */
    struct xt_device_memory shares; /* pinned, [h][w]: xt_window_pool_share */
};
/* The fraction of a window's divisor that is inside the input. */
double xt_window_pool_share(const struct xt_window_pool_op *pool, int oy, int ox);
/* Trailing padding along h and w that gives the window's output size. */
struct xt_window_ends {
    int h, w;
};
struct xt_window_ends xt_window_ends(const struct xt_window *window, int h, int w);
/* Appends a pool of `in` (values at `from`) to another op's program; *workspace is created for a
 * training graph's max pool. */
struct xt_pooling {
    const struct xt_tensor *in;
    const struct xt_buffer *from;
    const struct xt_tensor *out; /* an average is in float32 */
    const struct xt_window *window;
    bool average;
    bool training;
    int forward, backward; /* times */
    struct xt_buffer *workspace;
};
void xt_pooling_forward(struct xt_op *op, struct xt_graph *graph, struct xt_pooling *pool);
/* The gradient at `to`, of the type of `in`. */
void xt_pooling_backward(struct xt_op *op, struct xt_graph *graph, const struct xt_pooling *pool,
                         const struct xt_buffer *grad, const struct xt_buffer *to);

struct xt_eltwise_op {
    struct xt_op op;
    struct xt_activation activation;
};
/* Declares the use of its buffers. */
void xt_eltwise_use(struct xt_op *op, struct xt_graph *graph);
/* An activation for oneDNN. */
struct xt_eltwise_algorithm {
    dnnl_alg_kind_t forward, backward;
    float alpha, beta;
    bool from_output; /* the gradient follows from what came out */
};
struct xt_eltwise_algorithm xt_eltwise_algorithm(const struct xt_activation *a,
                                                 enum xt_dtype dtype);
/* A sum or product of two tensors, without its backward pass. */
void xt_binary_describe_forward(struct xt_op *op, struct xt_graph *graph);
/* In double precision: its value, and its slope. Nothing of what comes out is negative. */
double xt_activation_value(const struct xt_activation *a, double x);
double xt_activation_slope(const struct xt_activation *a, double x);
bool xt_activation_is_above_0(const struct xt_activation *a);

struct xt_matmul_op {
    struct xt_op op;
    bool transpose;
    float scale;
};

struct xt_layer_norm_op {
    struct xt_op op; /* params: scale, shift */
    float eps;
};

struct xt_drop_path_op {
    struct xt_op op;
    float p;
    bool by_channel;                 /* channels of a sample are dropped, not samples */
    struct xt_device_memory factors; /* pinned, one per sample, or per channel of each */
};

struct xt_concat_op {
    struct xt_op op;
    enum xt_axis axis;
};

struct xt_constant_op {
    struct xt_op op;
    float *numbers;               /* of the output; owned */
    struct xt_device_memory host; /* pinned, the same */
};

/* Each element of the output is one of the input's. */
struct xt_rearrange_op {
    struct xt_op op;
    enum xt_axis axis, from[XT_AXES]; /* of a slice; of a transposition */
    int start, step, groups;
};

/* The geometry is that of the convolution that leads back. */
struct xt_conv_transpose_op {
    struct xt_op op;
    int weight, bias; /* indices in params; bias -1: none */
    int groups;
    dnnl_dims_t kernel, strides, pads, pads_after;
    dnnl_dims_t dilates; /* as oneDNN counts: 0 is no dilation */
};

struct xt_axis_map_op {
    struct xt_op op;
    enum xt_axis axis;
    struct xt_axis_map map;        /* without `picked` */
    struct xt_sparse_rows rows[2]; /* of the matrix and of its transpose */
    float *fill;                   /* [rows[0].count] */
    bool is_exact;                 /* in the tensor's type: the matrix in that gives the same */
    bool is_filled;                /* the matrix is; it never changes */
    struct xt_device_memory matrix, added; /* pinned: [out][in], [out] */
};
/* The axis between what lies outside of it and inside. */
struct xt_axis_parts {
    size_t outer, count, inner;
};
struct xt_axis_parts xt_axis_parts(const struct xt_tensor *t, enum xt_axis axis);

struct xt_grid_sample_op {
    struct xt_op op; /* inputs: the image, the grid */
    struct xt_grid_sample_spec spec;
    struct xt_device_memory numbers; /* pinned: 0, 1, 2, ... */
    struct xt_operand image;         /* the back end's: what its loops read */
};
/* From a coordinate to pixels: coordinate * scale + offset. Axis 0 is x. */
struct xt_grid_axis {
    int length;
    float scale, offset;
};
struct xt_grid_axis xt_grid_axis(const struct xt_grid_sample_op *sample, int axis);

struct xt_recurrence_op {
    struct xt_op op; /* inputs: the gates by the input; the weight and the bias by the state */
    struct xt_recurrence_spec spec;
    /* The back end's: what its loops read, and what they keep or use. */
    struct xt_operand gates;
    struct xt_buffer *activated, *cells, *packed[2], *before, *dgates, *dstate;
};
enum { XT_RECURRENCE_IN_GATES, XT_RECURRENCE_IN_WEIGHT, XT_RECURRENCE_IN_BIAS };
/* Describes the gradients of the weight and the bias, where they are wanted, from the gradient
 * behind the products with the states, [rows][gates], those states, [rows][hidden], and a row of as
 * many ones. `adds`: they are added to. */
void xt_recurrence_add_gradients(struct xt_recurrence_op *recurrence,
                                 const struct xt_operand *behind, const struct xt_operand *states,
                                 const struct xt_operand *ones, bool adds);
/* Where along w the step is. */
int xt_recurrence_at(const struct xt_recurrence_op *op, int step);

struct xt_dropout_op {
    struct xt_op op;
    float p;                          /* of being dropped; 0: the pass's */
    struct xt_device_dropout numbers; /* the seed of the device's mask */
    bool draws;                       /* the device generates the mask; else the host: */
    struct xt_device_memory keep;     /* pinned, u8, 1: retained */
    struct xt_device_memory factor;   /* pinned, one number */
};
/* The gradients share memory; so do the values, if the input has no other reader. */
void xt_dropout_use(struct xt_op *op, struct xt_graph *graph);
/* Sample n's mask in this pass: an element is dropped if its hash with the key is below the
 * threshold. */
uint32_t xt_dropout_key(const struct xt_op *op, const struct xt_graph_pass *pass, int n);
uint32_t xt_dropout_threshold(double probability);
double xt_dropout_probability(const struct xt_op *op, const struct xt_graph_pass *pass);

/* Keeps an all-zero tap finite. */
#define XT_CONTEXT_EPS 1e-12
struct xt_context_op {
    struct xt_op op; /* inputs: the taps */
    struct xt_context_spec spec;
    int first_channel[XT_TAPS_MAX];
    int groups;
    double group_count[XT_TAPS_MAX]; /* elements of a group in one sample */
    struct xt_device_memory shares; /* pinned, [groups][taps]: a tap's weight in its group's mean */
    struct xt_device_memory means;  /* pinned, [n][n]: of samples in means over the batch */
    int means_of;                   /* samples that the weights are for; 0: not filled yet */
    size_t first_float[XT_TAPS_MAX]; /* as first_channel */
    size_t row[XT_TAPS_MAX];         /* offset of the i-th row of n floats */
};
