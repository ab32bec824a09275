/* A network as a list of ops on tensors, while it is described.
 *
 * Order of use: executor.h's xt_graph_create; the functions here, which describe; then executor.h
 * again: xt_graph_plan, which computes its memory; xt_graph_build; any number of xt_graph_forward
 * and xt_graph_backward. All tensors are dense N, H, W, C; activations are float32, bf16 or fp16,
 * the taps, the context and the logits float32. The graph owns its memory: one arena, laid out from
 * the ops' lifetimes (plan.h). Parameters belong to the caller (params.h), so that two graphs, e.g.
 * of different batch sizes, can share them. One thread at a time; the ops themselves use the
 * device's threads.
 *
 * The first error is stored in the graph: describing functions then return NULL (or NULL outputs)
 * and accept NULL, so networks are described without checks. xt_graph_plan returns it.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/rows.h"
#include "device/device.h"
#include "engine/net/activation.h"
#include "engine/net/axis.h"
#include "engine/net/axis_map.h"
#include "engine/net/recurrence.h"
#include "engine/loops/loops.h"
#include "engine/params.h"
#include "engine/plan.h"
#include "engine/program.h"
#include "engine/tensor.h"

enum {
    XT_OPS_MAX = 8192,
    XT_TAPS_MAX = 8,
    XT_OP_INPUTS_MAX = 64, /* of a concatenation */
    XT_OP_OUTPUTS_MAX = 3,
    XT_OP_PARAMS_MAX = 6,
};

struct xt_graph;
struct xt_op_kind;
struct xt_override;
struct xt_backend;
struct xt_ranges;
struct xt_recording;
struct xt_pinned;

/* A tensor that an op reads, and the index of the tensor's gradient that the op writes. */
struct xt_op_input {
    struct xt_tensor *tensor;
    int reader;
};

/* Each kind of op embeds this as its first member (ops.h). */
struct xt_op {
    const struct xt_op_kind *kind;
    char name[64];
    char runs[96]; /* the net's nodes that run as this op: "batch norm + add + ReLU"; "": its kind
                      alone */
    int index;
    int input_count, output_count, param_count;
    struct xt_op_input inputs[XT_OP_INPUTS_MAX];
    struct xt_tensor *outputs[XT_OP_OUTPUTS_MAX]; /* NULL: output not requested */
    int params[XT_OP_PARAMS_MAX];                 /* indices in the graph's parameters */
    int recompute; /* the time before which its outputs are recomputed (recompute.c); 0: never */
    int segment[2][2];  /* slices.h: forward and backward, in which its two parts (or one, twice)
                           run; -1: none */
    int by_slices[2];   /* forward, backward: the samples of a slice; 0: it runs whole */
    bool frozen;        /* its parameters do not change and it has no backward pass */
    bool of_parameters; /* of those and constants alone; inference runs it when they have changed */
    enum xt_dtype dtype; /* of its outputs */
    const char *why_f32; /* why it stays float32 in a bf16 graph; NULL: it does not */
    size_t out_bytes;    /* of the tensors that it writes */
    double flops;        /* of one forward pass of the batch, multiply and add counted as two */
    double backward_flops;
    double bytes[2];    /* of the values and gradients read and written forward and backward, each
                           counted once */
    bool with_other[2]; /* some of that in another op's time, or some of another's in its own */
    double seconds[2];  /* spent forward and backward since the graph's profile was last cleared */
    /* How it runs, once planned: its program, unless overridden by the back end. */
    struct xt_program program;
    const struct xt_override *override; /* NULL: nothing */
    void *own;                          /* the override's state of the op; owned by the graph */
    const char *
        own_name[2]; /* name of what it runs forward and backward; NULL: the program's primitives */
};

/* Progress of creating an XPU's primitives, which can take minutes if no kernel is cached. */
struct xt_graph_observer {
    void (*created)(void *context, const struct xt_kernel_cache *cache, int done, int all);
    void *context;
};

/* Called after each op of a pass, before its buffers are reused. */
struct xt_graph_watch {
    void (*ran)(void *context, const struct xt_op *op, bool backward);
    void *context;
    int worker; /* whose part of a ring has been written */
};

/* How one pass runs; changed between passes by the trainer. */
struct xt_graph_pass {
    const uint8_t *pixels; /* [batch][h][w][3], the batch slot */
    const struct xt_device_memory
        *uploaded;       /* the same, already on an XPU; NULL: the pass uploads `pixels` */
    const float *floats; /* used where both are NULL: [batch][h][w][c], already normalised */
    int count;           /* valid samples; the rest of the batch is padding */
    int first; /* index among the step's samples, with several batches per step: dropout depends on
                  it */
    struct xt_rows rows; /* rows of the batch of all ranks, likewise; zeroed: the whole batch */
    bool training;       /* batch statistics, dropout; backward may follow */
    bool bn_frozen;      /* training with the running statistics */
    bool keeps_logits;   /* on the device, which computes the loss: no transfer, and no wait */
    double dropout;
    uint64_t seed;
    uint64_t step;
};

/* The processes that train the same network on other samples of the batch. Functions are
 * collective: all processes call them in the same order. */
struct xt_graph_communicator {
    void *context;
    int samples; /* of the batch, in all of them */
    /* All-reduce (sum) in place; the result has the same bits everywhere. NULL: norms are over this
     * process's samples. */
    enum xt_status (*sum)(void *context, double *values, size_t count, struct xt_err *err);
    /* The op has written the gradients of its parameters in this pass. NULL: not called. */
    enum xt_status (*learned)(void *context, const struct xt_op *op, struct xt_err *err);
};

/* What is quantised beside the outputs of convolutions. Only XT_INT8_OWN runs in int8; the others
 * are for calibration and export. */
enum xt_int8_layout {
    XT_INT8_OWN,
    XT_INT8_SUMS,     /* residuals are added by ops of their own, to int8 */
    XT_INT8_AVERAGES, /* that, and average pools' outputs */
};

struct xt_graph_options {
    struct xt_device *device;
    struct xt_params *params; /* empty: the graph's ops define and allocate it */
    int batch;
    bool training;       /* gradients and a backward pass */
    bool recompute;      /* training: outputs that are cheap to recompute are not stored */
    bool fuse;           /* inference: norms become part of the convolutions before them */
    enum xt_dtype dtype; /* of activations and working weights */
    /* Fused inference: convolutions run in int8, with these ranges (ranges.h); dtype is that of the
     * other ops. NULL: no int8. Outlives the building. */
    const struct xt_ranges *int8;
    enum xt_int8_layout int8_layout;
    bool int8_of_7_bits;               /* weights; else of 8 where products are added in 32 bits */
    struct xt_graph_observer observer; /* zeroed: none */
    /* xt_graph_convolutions_alone will be called; inference does not run by slices then. */
    bool lower_bound;
    bool by_slices; /* training, and fused inference: passes may run by slices (slices.h);
                     * intermediate tensors are then incomplete for observers, and no op runs alone
                     */
    bool bn_frozen; /* of the passes: programs are created for one of the two */
    const struct xt_backend *backend; /* NULL: the device's own; for tests, backend.h */
    const char *learn_from; /* the ops described before the first of this name, or within a layer of
                               this name, are frozen; NULL: none. Outlives the building */
};

/* Part of an op in a segment (slices.h): of a norm the sums, then the part that uses them. */
struct xt_piece {
    struct xt_op *op;
    bool second; /* the op's last one */
    int segment;
    int samples;    /* of a slice of the segment */
    double seconds; /* of the first worker, in the segment that is run and timed */
};

struct xt_slices {
    int workers;        /* 0: passes run op by op */
    int samples;        /* of a slice, at most */
    bool of_last_cache; /* slices are of one sample, which L2 need not hold */
    size_t bytes_most;  /* of what one op reads and writes in a slice */
    int worker_samples; /* of a worker; the last one may have fewer */
    bool even;          /* workers have about the same number of samples */
    int segments[2];    /* forward, backward */
    size_t count[2];
    struct xt_piece pieces[2][2 * XT_OPS_MAX];
};

/* The next part of a thread's share of an op, on a cache line of its own. */
struct xt_turn {
    _Alignas(64) atomic_int next;
};

struct xt_graph {
    struct xt_graph_options options;
    struct xt_err err; /* the first failure while describing and planning */
    const struct xt_backend *backend;
    const struct xt_loops *loops;
    struct xt_op *ops[XT_OPS_MAX];
    int op_count;
    struct xt_tensor *tensors[XT_TENSORS_MAX];
    int tensor_count;
    int range_count; /* of tensors that int8 calibration looks at */
    struct xt_buffer *buffers[3 * XT_TENSORS_MAX];
    int buffer_count;
    struct xt_tensor *logits;
    bool describing_frozen;
    int next_param;          /* where an existing params is walked */
    bool params_declared;    /* all are declared: ops find theirs by name */
    uint64_t params_version; /* that the working copies hold, */
    uint64_t copied_version; /* and those of the back end's copy_weights */
    bool computed;           /* inference: what is computed of parameters alone is there, */
    uint64_t computed_of;    /* of this version */
    bool planned;
    struct xt_slices slices;

    /* Memory, planned by xt_graph_plan and allocated by xt_graph_build. */
    struct xt_plan plan; /* of the arena */
    struct xt_device_memory arena[XT_PLAN_SEGMENTS_MAX];
    struct xt_buffer *scratchpad;  /* of oneDNN's primitives */
    struct xt_buffer *casts;       /* the parameters' values in the graph's type; NULL: not read */
    size_t cast_at[XT_PARAMS_MAX]; /* of each in it, as float32 numbers */
    struct xt_layouts *layouts;    /* the weights' copies that one kernel writes; NULL: none */
    /* Gradients of the output and the input, where those of slices are not whole, weights, and the
     * output, likewise. */
    struct xt_buffer *lower_bound_memory[4];
    size_t loop_scratch_floats; /* a thread's */
    float *loop_scratch;        /* [threads][loop_scratch_floats] */
    struct xt_turn *turns;      /* [threads] */
    struct xt_pinned *pinned;   /* the host memory requested by ops */
    size_t pinned_count, pinned_capacity;
    size_t pinned_bytes;             /* followed by as much on an XPU */
    struct xt_device_memory staging; /* where the host prepares weights, one op's at a time */
    size_t staging_floats;
    struct xt_device_memory scales; /* int8: of each tensor, by its index */
    size_t scale_at[XT_TENSORS_MAX];
    /* The running statistics of programs, all updated at once. Each array has the layout of the
     * parameters' statistics. */
    bool moves_statistics;
    /* running += part * (gain * batch_stats - running) */
    struct xt_device_memory batch_stats, part, gain;
    struct xt_program statistics;
    /* On a device with its own memory: the parameters cast before a pass, the logits down, their
     * gradient up. */
    struct xt_device_memory host_logits, host_logits_grad;
    struct xt_program transfer;

    struct xt_graph_pass pass;
    struct xt_graph_watch watch;                      /* zeroed: nobody */
    const struct xt_graph_communicator *communicator; /* NULL: a single process */
    struct xt_recording *recording; /* records the outputs of convolutions (ranges.h); NULL: off */
    bool profile;
    double refresh_seconds; /* spent on the working copies of the weights, as xt_op's seconds */
};

/* ---- describing; each function appends one op and returns its outputs ---- */

/* The normalisation of a byte v: (v - mean) * scale, per channel in the batch slot's order.
 */
struct xt_normalise {
    float mean[3], scale[3];
};
/* The same for all channels. */
bool xt_normalise_is_uniform(const struct xt_normalise *normalise);

/* The u8 batch slot, [n][h][w][3] (c 3: red, green and blue in the network's order), normalised; c
 * 1: its pixels' grey levels, from red, green and blue, normalised as the first channel. */
struct xt_tensor *xt_graph_input(struct xt_graph *graph, int h, int w, int c,
                                 const struct xt_normalise *normalise);
/* Of the batch slot, which has three for each pixel where the network reads grey levels too. */
size_t xt_graph_slot_bytes(const struct xt_graph *graph);

/* A part of a file's tensor: which of its rows (output channels) or columns (input channels) belong
 * here. */
struct xt_channel_map {
    int file_count; /* in the file; 0: the same as here */
    const int *map; /* NULL: identity */
};

/* A convolution's parameters, by their index in params; bias -1: none. */
struct xt_conv_params {
    int weight, bias;
};
struct xt_conv_spec {
    const char *name; /* of the parameters: NAME.weight, NAME.bias */
    int channels;     /* out */
    int kernel_h, kernel_w;
    int stride_h, stride_w;     /* 0 counts as 1 */
    int dilation_h, dilation_w; /* 0 counts as 1 */
    int pad_h, pad_w;           /* above and to the left */
    int more_h, more_w;         /* by how much more is padded below and to the right */
    int groups; /* 0 counts as 1; weights are [channels][in / groups][kernel_h][kernel_w] */
    bool bias;
    bool relu;
    const char *why_f32; /* why it stays float32 in a graph of any type; NULL: it does not */
    struct xt_channel_map out;
    struct xt_channel_map in;
    const struct xt_conv_params *params; /* declared ahead; NULL: added with the op */
};
struct xt_tensor *xt_graph_conv(struct xt_graph *graph, struct xt_tensor *in,
                                const struct xt_conv_spec *spec);
/* The same by weights that are a tensor of one sample, of a convolution's weight in the same order
 * (O, I, H, W): computed from parameters. Of the parameters it has the bias alone, no ReLU. */
struct xt_tensor *xt_graph_conv_by(struct xt_graph *graph, struct xt_tensor *in,
                                   struct xt_tensor *weights, const struct xt_conv_spec *spec);

/* The data gradient of a convolution that leads back from the output, with weights
 * [in][channels / groups][kernel_h][kernel_w]. Pairs are of h and w. */
struct xt_conv_transpose_spec {
    const char *name;
    int channels; /* out */
    int kernel[2];
    int stride[2], dilation[2]; /* 0 counts as 1 */
    int pad_before[2], pad_after[2];
    int more[2]; /* rows and columns behind, less than the stride */
    int groups;  /* 0 counts as 1 */
    bool bias;
    const struct xt_conv_params *params; /* declared ahead; NULL: added with the op */
};
struct xt_tensor *xt_graph_conv_transpose(struct xt_graph *graph, struct xt_tensor *in,
                                          const struct xt_conv_transpose_spec *spec);

/* A norm's parameters, by their index in params. */
struct xt_norm_params {
    int scale, shift, mean, var, count; /* -1: without scale and shift */
};
/* Batch normalisation (Ioffe & Szegedy 2015; the running variance is unbiased), then the residual,
 * ReLU and the pools that read it. In a fused graph the preceding convolution folds its scale and
 * shift into weights and bias, adds the residual and applies the ReLU; pools stay ops of their
 * own. */
struct xt_norm_spec {
    const char *name; /* NAME.weight, .bias, .running_mean, .running_var, .num_batches_tracked */
    double eps;       /* 0: XT_BN_EPS */
    double momentum;  /* 0: XT_BN_MOMENTUM */
    bool relu;
    /* Instead of ReLU, where xt_norm_can_activate; without residual and max pool, an average is
     * over the image. NULL: none. */
    const struct xt_activation *activation;
    struct xt_tensor *residual;
    bool full;                /* y itself is an output */
    bool keeps_in;            /* its input has other readers, also later ones: it is not folded */
    struct xt_window max;     /* kernel_h 0: none; out_h and out_w are filled in */
    struct xt_window average; /* float32 output; kernel_h must equal stride_h */
    struct xt_channel_map out;
    bool unscaled;                       /* without scale and shift */
    const struct xt_norm_params *params; /* declared ahead; NULL: added with the op */
};
struct xt_norm_outputs {
    struct xt_tensor *full;
    struct xt_tensor *max;
    struct xt_tensor *average;
};
/* Adds to num_batches_tracked of each norm whose statistics a training pass updates, once for each
 * time that it is applied; negative: after passes that are undone. */
void xt_graph_count_batches(const struct xt_graph *graph, int batches);
/* Whether a norm can have the activation in it. */
bool xt_norm_can_activate(const struct xt_activation *activation);
struct xt_norm_outputs xt_graph_norm(struct xt_graph *graph, struct xt_tensor *in,
                                     const struct xt_norm_spec *spec);

/* A function of each element. */
struct xt_tensor *xt_graph_eltwise(struct xt_graph *graph, struct xt_tensor *in,
                                   const struct xt_activation *activation, const char *name);

/* The elements start, start + step, ... along an axis. */
struct xt_slice_spec {
    const char *name;
    enum xt_axis axis;
    int start, step, count; /* step 0 counts as 1 */
};
struct xt_tensor *xt_graph_slice(struct xt_graph *graph, struct xt_tensor *in,
                                 const struct xt_slice_spec *spec);
/* Channels as [groups][c / groups] are transposed (Zhang et al. 2018). */
struct xt_tensor *xt_graph_shuffle(struct xt_graph *graph, struct xt_tensor *in, int groups,
                                   const char *name);
/* The output's axis i is the input's axis from[i]. */
struct xt_tensor *xt_graph_transpose(struct xt_graph *graph, struct xt_tensor *in,
                                     const enum xt_axis from[XT_AXES], const char *name);
/* The elements of each sample in the same order, h, w, c: usually a view. */
struct xt_tensor *xt_graph_reshape(struct xt_graph *graph, struct xt_tensor *in, int h, int w,
                                   int c, const char *name);
/* The same in another floating-point type; the tensor itself if it already has it. `name` NULL: the
 * tensor's, and the type. */
struct xt_tensor *xt_graph_cast(struct xt_graph *graph, struct xt_tensor *in, enum xt_dtype dtype,
                                const char *name);
/* An int8 tensor in the type that an op of it computes in, another one itself; NULL: none. */
struct xt_tensor *xt_graph_dequantise(struct xt_graph *graph, struct xt_tensor *in);

/* The map of one axis; it is copied. */
struct xt_tensor *xt_graph_axis_map(struct xt_graph *graph, struct xt_tensor *in, enum xt_axis axis,
                                    const struct xt_axis_map *map, const char *name);

/* Samples of an image at a grid's points, bilinear, as PyTorch's grid_sample. */
struct xt_grid_sample_spec {
    const char *name;
    bool border; /* outside lies the nearest pixel of the border; else zeros */
    bool
        align_corners; /* -1 and 1 are the centres of the first and last pixels, else their edges */
};
/* The grid is float32, [n][h][w][2]: x and y of each of the output's pixels. */
struct xt_tensor *xt_graph_grid_sample(struct xt_graph *graph, struct xt_tensor *image,
                                       struct xt_tensor *grid,
                                       const struct xt_grid_sample_spec *spec);

/* A recurrent layer's states (net/recurrence.h). */
struct xt_recurrence_spec {
    const char *name;
    enum xt_recurrence kind;
    bool backwards; /* the last step comes first */
    bool with_cell; /* of an LSTM: each state is followed by its cell */
};
/* Along w: gates by the input [n][h][w][gates * hidden] to states [n][h][w][hidden]. The weight
 * [1][1][gates * hidden][hidden] and the bias [1][1][1][gates * hidden] (NULL: none) are float32.
 */
struct xt_tensor *xt_graph_recurrence(struct xt_graph *graph, struct xt_tensor *gates,
                                      struct xt_tensor *weight, struct xt_tensor *bias,
                                      const struct xt_recurrence_spec *spec);

/* A parameter of the network's own, the same for all samples. */
struct xt_parameter_spec {
    const char *name; /* the parameter's */
    int h, w, c;
    int ndims, dims[4]; /* a file's shape, of as many elements in the same order; 0: [h][w][c] */
    struct xt_init init;
    bool f32;            /* in a graph of any type: more is computed from it before it is used */
    const int *declared; /* its index in params, ahead of the op; NULL: added with it */
};
struct xt_tensor *xt_graph_parameter(struct xt_graph *graph, const struct xt_parameter_spec *spec);
/* Numbers that do not change, the same for all samples. */
struct xt_constant_spec {
    const char *name;
    int h, w, c;
    const float *numbers; /* [h][w][c], copied */
    size_t count;         /* of them; 1: all are equal */
    bool f32;             /* in a graph of any type: weights are computed with it */
};
struct xt_tensor *xt_graph_constant(struct xt_graph *graph, const struct xt_constant_spec *spec);
/* A parameter's or constant's tensor among them is repeated for each sample. */
struct xt_tensor *xt_graph_concat(struct xt_graph *graph, struct xt_tensor *const *in, int count,
                                  enum xt_axis axis, const char *name);

/* The same tensor, for more readers than its op accepts gradients from: they are summed here. In
 * inference the tensor itself. */
struct xt_tensor *xt_graph_fan_out(struct xt_graph *graph, struct xt_tensor *in, const char *name);

/* Each axis, and the number of samples, is as long in both or 1 in one of them. */
struct xt_tensor *xt_graph_add(struct xt_graph *graph, struct xt_tensor *a, struct xt_tensor *b,
                               const char *name);
struct xt_tensor *xt_graph_mul(struct xt_graph *graph, struct xt_tensor *a, struct xt_tensor *b,
                               const char *name);

/* scale * a b, for each h: [h][rows][inner] by [h][inner][columns] gives [h][rows][columns]. */
struct xt_matmul_spec {
    const char *name;
    bool transpose; /* the second factor is [h][columns][inner] */
    float scale;    /* 0 counts as 1 */
};
struct xt_tensor *xt_graph_matmul(struct xt_graph *graph, struct xt_tensor *a, struct xt_tensor *b,
                                  const struct xt_matmul_spec *spec);
/* Over the channels. */
struct xt_tensor *xt_graph_softmax(struct xt_graph *graph, struct xt_tensor *in, const char *name);
/* Over the channels: [h][w][1]. */
struct xt_tensor *xt_graph_channel_mean(struct xt_graph *graph, struct xt_tensor *in,
                                        const char *name);

/* A layer norm's parameters, by their index in params. */
struct xt_layer_norm_params {
    int scale, shift;
};
/* Over the channels, with NAME.weight and NAME.bias. */
struct xt_layer_norm_spec {
    const char *name;
    float eps;                                 /* 0: 1e-6 */
    const struct xt_layer_norm_params *params; /* declared ahead; NULL: added with the op */
    bool unscaled;                             /* without parameters */
};
struct xt_tensor *xt_graph_layer_norm(struct xt_graph *graph, struct xt_tensor *in,
                                      const struct xt_layer_norm_spec *spec);

/* Windows are clipped to the image. */
struct xt_pool_spec {
    const char *name;
    bool average; /* max else */
    int kernel_h, kernel_w;
    int stride_h, stride_w; /* 0: the kernel's */
    int pad_top, pad_left, pad_bottom, pad_right;
    bool ceil_mode; /* as PyTorch: a window may begin only in the image or the padding before it */
    bool count_include_pad; /* average: padding counts in the divisor */
    bool f32;               /* average: the output is float32 in a graph of any type */
};
struct xt_tensor *xt_graph_window_pool(struct xt_graph *graph, struct xt_tensor *in,
                                       const struct xt_pool_spec *spec);

/* In training a sample is dropped whole with the probability p, the others are scaled up. */
struct xt_tensor *xt_graph_drop_path(struct xt_graph *graph, struct xt_tensor *in, float p,
                                     const char *name);
/* The same of a sample's channels, each separately. */
struct xt_tensor *xt_graph_drop_channels(struct xt_graph *graph, struct xt_tensor *in, float p,
                                         const char *name);
/* In place if the input has no other reader; each element is dropped with the probability p (0: the
 * pass's), the others are scaled up. */
struct xt_tensor *xt_graph_dropout(struct xt_graph *graph, struct xt_tensor *in, float p,
                                   const char *name);

/* LPRNet's global context: each tap (one or more tensors of [n][h][w][c], float32) is divided by
 * the mean of its squares, over the sample or over the batch; all are averaged over h and
 * concatenated: [n][1][w][sum of c]. */
struct xt_context_spec {
    int count;
    struct xt_tensor *taps[XT_TAPS_MAX];
    int group[XT_TAPS_MAX]; /* tensors of one group are one tap */
    bool over_batch;
};
struct xt_tensor *xt_graph_context(struct xt_graph *graph, const struct xt_context_spec *spec);
