/* What a kind of op is, and what the files of ops (one an op, beside this one), back ends and the
 * executor share; nobody else but the self-test and the exporter includes it.
 *
 * A kind says once what its op is: shapes and parameters when it is added to a graph, its oneDNN
 * primitives as a program, and the op in double precision, element by element. Back ends run the
 * program; where one has something better for a kind, that stands in the back end's overrides.
 *
 * As in graph.h the first failure stays in the graph; after it these functions do nothing.
 */
#ifndef XT_ENGINE_OPS_OPS_H
#define XT_ENGINE_OPS_OPS_H

#include "engine/graph.h"
#include "engine/ops/reference_op.h"

/* One memory of the host that is to be. */
struct xt_pinned {
    struct xt_operand operand;
    const char *what;
    struct xt_device_memory *memory;
};

struct xt_op_kind {
    const char *name; /* "convolution" */
    size_t size;      /* of the struct that embeds xt_op */
    /* Says which buffers are used when (xt_graph_use), and appends the primitives to op->program.
     */
    void (*describe)(struct xt_op *op, struct xt_graph *graph);
    /* Makes what the host makes of the parameters, before the program's BEFORE; NULL: nothing. */
    enum xt_status (*refresh)(struct xt_op *op, struct xt_graph *graph, struct xt_err *err);
    /* What the host does before the program runs; NULL: nothing. *runs is true; false: the program
     * is left out in this pass. */
    enum xt_status (*before)(struct xt_op *op, struct xt_graph *graph, bool backward, bool *runs,
                             struct xt_err *err);
    const char *what[2]; /* the steps that stand for it in the placement table, forward, backward;
                            NULL backward: it has no backward pass */
    struct xt_reference_op_kind reference;
    bool ranged; /* its outputs are what int8's ranges are recorded of */
    void (*destroy)(struct xt_op *op);
};

/* ---- adding an op ---- */

bool xt_graph_fails(const struct xt_graph *graph);
/* Keeps the failure, and gives NULL. */
void *xt_graph_refuse(struct xt_graph *graph, enum xt_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Appends an op of the kind, which the graph owns; NULL after a failure. */
void *xt_graph_add_op(struct xt_graph *graph, const struct xt_op_kind *kind, const char *name);
/* The op reads the tensor; in training it writes one of the tensor's gradients. False after a
 * failure, a tensor that is NULL (one of an op that failed) among them. */
bool xt_op_read(struct xt_op *op, struct xt_graph *graph, struct xt_tensor *tensor);
/* Its next output; NULL after a failure, and where a size is below 1. */
struct xt_tensor *xt_op_write(struct xt_op *op, struct xt_graph *graph, const char *name, int n,
                              int h, int w, int c, enum xt_dtype dtype);
/* Leaves out the next output. */
void xt_op_write_none(struct xt_op *op);
/* Its next parameter, added or found in an existing params: its index; -1 after a failure. */
int xt_op_param(struct xt_op *op, struct xt_graph *graph, const struct xt_param *param);
/* A parameter that no op has yet, or that another has; the op keeps it frozen as it is itself. */
int xt_graph_param(struct xt_graph *graph, const struct xt_param *param);
void xt_op_take_param(struct xt_op *op, struct xt_graph *graph, int param);

/* Moves an op behind all that have been described so far. */
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

/* The values and gradients of what the op reads and writes are alive while it runs. The values of
 * inputs and outputs whose bit is set in these masks are read by the backward pass too. */
void xt_graph_use(struct xt_op *op, struct xt_graph *graph, uint64_t kept_inputs,
                  uint64_t kept_outputs);
/* The same one by one, for ops whose buffers are shared; a buffer is created where there is none.
 */
void xt_graph_use_value(struct xt_graph *graph, struct xt_tensor *tensor, int time);
void xt_graph_use_grad(struct xt_graph *graph, struct xt_tensor *tensor, int reader, int time);
void xt_graph_use_inputs(struct xt_op *op, struct xt_graph *graph, uint64_t kept);
void xt_graph_use_outputs(struct xt_op *op, struct xt_graph *graph, uint64_t kept);
/* Of an op with one input and one output of its shape and type, between the two before: in training
 * the gradient takes the memory of the one behind it, and the output that of the input, where
 * nobody else reads that and `in_place` says that the op itself does not. */
void xt_op_share_memory(struct xt_op *op, struct xt_graph *graph, bool in_place);
/* What working copies of the parameters are called among the buffers. */
#define XT_WORKING_WEIGHTS "working weights"
/* The gradient that the op writes for its input. */
struct xt_buffer *xt_op_in_grad(const struct xt_op *op, int i);

/* What an op computes from the tensor is of this type: the tensor's own, or the graph's where that
 * is int8. */
enum xt_dtype xt_op_numbers_type(const struct xt_graph *graph, const struct xt_tensor *in);
/* The input as numbers to compute with: int8 becomes what it stands for first, in float32. */
struct xt_operand xt_op_numbers(struct xt_op *op, struct xt_graph *graph, int i);

/* Where a tensor's operand has an axis, and how long that is. */
static inline int xt_axis_dimension(enum xt_axis axis)
{
    return axis == XT_AXIS_C ? 1 : axis == XT_AXIS_H ? 2 : 3;
}
static inline int xt_axis_size(const struct xt_tensor *t, enum xt_axis axis)
{
    return axis == XT_AXIS_C ? t->c : axis == XT_AXIS_H ? t->h : t->w;
}

/* ops/reduce.c, of dense operands n, h, w, c: a tensor as one; room for one in a phase. */
enum { XT_DENSE_AXES = 4 };
struct xt_operand xt_operand_channels_last(const struct xt_tensor *t,
                                           const struct xt_buffer *buffer);
struct xt_operand xt_op_room(struct xt_op *op, struct xt_graph *graph, enum xt_phase phase,
                             dnnl_data_type_t dtype, const int64_t *dims);
/* `to` is the sum of `from` over the axes where it has 1. */
void xt_op_sum(struct xt_op *op, struct xt_graph *graph, enum xt_phase phase,
               const struct xt_operand *from, const struct xt_operand *to);
/* Each sample of `to` is the one of `from`. */
void xt_op_expand(struct xt_op *op, struct xt_graph *graph, enum xt_phase phase,
                  const struct xt_operand *from, const struct xt_operand *to);

struct xt_buffer *xt_graph_add_buffer(struct xt_graph *graph, const char *owner, const char *kind,
                                      size_t bytes);
/* Alive at `time` alone; from the op's forward to its backward pass; always. NULL after a failure.
 */
struct xt_buffer *xt_graph_temporary(struct xt_graph *graph, const struct xt_tensor *tensor,
                                     size_t bytes, int time);
struct xt_buffer *xt_graph_kept(struct xt_graph *graph, const struct xt_op *op, const char *kind,
                                size_t bytes);
struct xt_buffer *xt_graph_permanent(struct xt_graph *graph, const char *owner, const char *kind,
                                     size_t bytes);
/* Asks for memory of the host that the device reaches, laid out as the operand is, wherever that
 * is: *out, which stays where it is and is the caller's to destroy, has it once the graph is built.
 * `what` names it in errors and is a constant. */
void xt_graph_pin(struct xt_graph *graph, const struct xt_operand *operand, const char *what,
                  struct xt_device_memory *out);
/* `count` numbers that the host works out, in pinned memory as xt_graph_pin gives it, and where the
 * device has its copy of them, which BEFORE brings. */
struct xt_location xt_op_follow_host(struct xt_op *op, struct xt_graph *graph, const char *kind,
                                     size_t count, struct xt_device_memory *host);
/* float32 numbers that the host makes for one op at a time, in its refresh. */
struct xt_location xt_graph_staging(struct xt_graph *graph, size_t count);

/* Where a parameter's value, statistic or gradient lies on the device. */
struct xt_location xt_graph_value_of(const struct xt_graph *graph, int param);
struct xt_location xt_graph_grad_of(const struct xt_graph *graph, int param);
/* A channel vector's batch statistic; in training the running one follows it. */
struct xt_location xt_graph_batch_stat_of(struct xt_graph *graph, int param);
/* What a step of an int8 tensor is worth. */
struct xt_location xt_graph_scale_of(const struct xt_graph *graph, const struct xt_tensor *tensor);

/* Of a team whose norms are over all its samples: the numbers of all added up, and how many samples
 * they are of; alone what is there already, and the samples of `own`. */
enum xt_status xt_graph_add_up(struct xt_graph *graph, double *values, size_t count,
                               struct xt_err *err);
int xt_graph_samples(const struct xt_graph *graph, int own);

/* This thread's scratch for the loops: `floats` of it, asked for while describing. */
void xt_graph_want_scratch(struct xt_graph *graph, size_t floats);
float *xt_graph_loop_scratch(const struct xt_graph *graph);

/* ---- the kinds, as those need them who run or check them otherwise ---- */

extern const struct xt_op_kind xt_kind_input, xt_kind_conv, xt_kind_norm, xt_kind_pool,
    xt_kind_eltwise, xt_kind_dropout, xt_kind_context, xt_kind_slice, xt_kind_shuffle,
    xt_kind_transpose, xt_kind_reshape, xt_kind_cast, xt_kind_parameter, xt_kind_concat,
    xt_kind_fan_out, xt_kind_window_pool, xt_kind_add, xt_kind_mul, xt_kind_matmul, xt_kind_softmax,
    xt_kind_layer_norm, xt_kind_drop_path;

struct xt_input_op {
    struct xt_op op;
    struct xt_normalise normalise;
    struct xt_device_memory pixels;  /* pinned, for those that are not on the device yet */
    struct xt_device_memory shift;   /* int8: one number, what a byte is moved by */
    struct xt_device_memory factors; /* of the channels: scales, and what is added then */
};
/* int8: the number that is held for x. */
float xt_input_quantised(const struct xt_input_op *input, float x);

#define XT_BN_EPS 1e-5
#define XT_BN_MOMENTUM 0.1

/* A norm as part of the convolution before it. */
struct xt_fold {
    struct xt_norm_params params;
    double eps;
    struct xt_tensor *residual;
    bool relu;
};

enum { XT_WEIGHT_COPIES_MAX = 4 };
struct xt_conv_op {
    struct xt_op op;
    int weight; /* index in params */
    int bias;   /* -1: none */
    int groups;
    bool relu;
    bool folded;         /* a norm is part of weights and bias */
    struct xt_fold fold; /* where folded */
    dnnl_dims_t strides, kernel;
    dnnl_dims_t dilates;          /* as oneDNN counts: 0 is none */
    dnnl_dims_t pads, pads_after; /* above and to the left; below and to the right */
    /* Where the back end makes the weight gradient without a primitive: its format, set before the
     * op is described, and where it belongs, which describing says. */
    bool own_weight_grad;
    dnnl_format_tag_t weight_grad_format;
    struct xt_location weight_grad;
    /* The back end makes the output, and the input's gradient, without a primitive; said before the
     * op is described. */
    bool own[2];
    /* Of a 1x1 with strides: the input's gradient at the pixels that it reads, which the back end
     * spreads over the others' zeros; set before the op is described. NULL: the primitive writes
     * all of it. */
    struct xt_buffer *read_grad;
    /* Copies of the weights that the back end makes without a primitive, and where they lie. */
    int copy_count;
    struct xt_weight_copy copies[XT_WEIGHT_COPIES_MAX];
    struct xt_location copied_from, copied_to[XT_WEIGHT_COPIES_MAX];
    struct xt_device_memory host_bias;   /* [out->c] of own weights */
    struct xt_device_memory host_scales; /* int8: [out->c] what a step of each output channel's
                                            weights is worth */
};
/* Padded alike on all sides, and without gaps in the kernel: what a back end's own loops may take
 * for granted. */
bool xt_conv_is_even(const struct xt_conv_op *conv);
/* ops/conv.c: whether `out` is the output of a convolution without ReLU, and not read yet; and the
 * residual (NULL: none) is not what that convolution reads, since it could not be written over. */
bool xt_conv_can_absorb(const struct xt_graph *graph, const struct xt_tensor *out,
                        const struct xt_tensor *residual);
/* The convolution takes the norm into its weights and bias and adds the residual (NULL: none) in
 * the residual's own memory, which is `out` from then on; it runs behind all ops described so far.
 */
void xt_conv_absorb(struct xt_graph *graph, struct xt_tensor *out, const struct xt_fold *fold);
/* Weights [out][in / groups][kernel_h][kernel_w] and bias [out] (zeros where there is none) as the
 * arithmetic takes them, from the parameters on the host: with the norm that was taken in; of an
 * int8 source whole numbers up to `most`, whose steps go to scales [out] (else unused), and what
 * the source's offset adds in the bias. */
enum xt_status xt_conv_weights(const struct xt_conv_op *conv, const struct xt_graph *graph,
                               int most, float *weights, float *bias, float *scales,
                               struct xt_err *err);

enum xt_norm_output { XT_NORM_FULL, XT_NORM_MAX, XT_NORM_AVERAGE };
struct xt_norm_op {
    struct xt_op op;          /* inputs: what is normalised, then the residual where there is one */
    struct xt_norm_spec spec; /* eps and momentum are set */
    struct xt_norm_params param;
};
/* y's gradient is overwritten by the gradient before ReLU, which is the residual's gradient where
 * there is one, else what the input's gradient is made from in place: so they share memory, unless
 * the input's gradient is there for a slice alone. The buffers of a norm with that. */
void xt_norm_use(struct xt_norm_op *norm, struct xt_graph *graph, uint64_t kept_inputs);
/* The buffer that gathers the gradient of y, and holds the one before the ReLU after it. */
struct xt_buffer *xt_norm_sums(const struct xt_norm_op *norm);

struct xt_pool_op {
    struct xt_op op;
    struct xt_window window;
    bool average; /* max else */
};
/* ops/pool.c: a pool by itself, in inference; the window's out_h and out_w are set. An average is
 * in float32. */
struct xt_tensor *xt_graph_pool(struct xt_graph *graph, struct xt_tensor *in,
                                const struct xt_window *window, bool average, const char *name);
/* Any other. */
struct xt_window_pool_op {
    struct xt_op op;
    struct xt_window window;
    bool average;
    int pad_bottom, pad_right;
    bool counts_padding;            /* in an average's divisor */
    struct xt_device_memory shares; /* pinned, [h][w]: xt_window_pool_share */
};
/* What is there in a window, of all that it counts. */
double xt_window_pool_share(const struct xt_window_pool_op *pool, int oy, int ox);
/* Padding behind the input, along h and w, with which the window is as often there as it says. */
struct xt_window_ends {
    int h, w;
};
struct xt_window_ends xt_window_ends(const struct xt_window *window, int h, int w);
/* A pool of `in` (values at `from`) as part of another op's program; *workspace is created for a
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
/* The buffers of an element-wise op. */
void xt_eltwise_use(struct xt_op *op, struct xt_graph *graph);

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
    struct xt_device_memory factors; /* pinned, one of each sample */
};

struct xt_concat_op {
    struct xt_op op;
    enum xt_axis axis;
};

/* Each element of the output is one of the input's. */
struct xt_rearrange_op {
    struct xt_op op;
    enum xt_axis axis, from[XT_AXES]; /* of a slice; of a transposition */
    int start, step, groups;
};

struct xt_dropout_op {
    struct xt_op op;
    float p;                          /* of being dropped; 0: the pass's */
    struct xt_device_dropout numbers; /* what the device draws its own mask from */
    bool draws;                       /* the device does; else the host makes the mask: */
    struct xt_device_memory keep;     /* pinned, u8, 1 where an element stays */
    struct xt_device_memory factor;   /* pinned, one number */
};
/* The gradients are one memory; so are the values, where nobody else needs the input's. */
void xt_dropout_use(struct xt_op *op, struct xt_graph *graph);
/* Sample n's mask in this pass: elements whose hash with the key is below the threshold fall. */
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
    struct xt_device_memory shares;  /* pinned, [groups][taps]: a tap's in its group's mean */
    struct xt_device_memory means;   /* pinned, [n][n], of one group's over the batch */
    int means_of;                    /* samples that they are for; 0: not filled yet */
    size_t first_float[XT_TAPS_MAX]; /* as first_channel */
    size_t row[XT_TAPS_MAX];         /* where the i-th row of n floats begins */
};

#endif
