/* A network as a list of ops on tensors: described once by a model's builder, then built for a
 * device and run.
 *
 * Order of use: xt_graph_create; the builder's xt_graph_conv, _norm, _dropout, _context;
 * xt_graph_plan, which says what memory it takes; xt_graph_build; then any number of
 * xt_graph_forward and xt_graph_backward. All tensors are dense
 * N, H, W, C; activations are float32, bf16 or fp16, the taps, the context and the logits float32.
 * The graph owns its memory: one arena, laid out from the ops' lifetimes (plan.h). Parameters
 * belong to the caller (params.h), so that two graphs, of other batch sizes say, can share them.
 * One thread at a time; the ops themselves use the device's threads.
 */
#ifndef XT_MODELS_GRAPH_GRAPH_H
#define XT_MODELS_GRAPH_GRAPH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "device/device.h"
#include "models/graph/loops/loops.h"
#include "models/graph/params.h"
#include "models/graph/plan.h"

enum { XT_READERS_MAX = 2, XT_TENSORS_MAX = 512, XT_OPS_MAX = 512 };

/* A stretch of the arena with a lifetime in steps of the schedule: op i runs forward at time i and
 * backward at 2 * ops - i; the loss stands between. */
struct xt_buffer {
    const char *tensor; /* the name of the tensor it belongs to */
    const char *kind;   /* "value", "gradient", "winners" */
    size_t bytes;
    int first;
    int last;
    size_t segment; /* of the arena, and where in it; once planned */
    size_t offset;
    void *data; /* once built; an address on `device` */
    const struct xt_device *device;
};

struct xt_tensor {
    char name[64];
    int n, h, w, c;
    enum xt_dtype dtype;
    float scale;  /* int8: what is held, q, stands for (q + offset) * scale; else 1 */
    float offset; /* 0 but for the image's bytes */
    int index;    /* in the graph */
    bool wants_grad;
    bool one_reader;  /* its op's backward takes one gradient: a second reader is refused */
    bool overwritten; /* an op writes its output over it: no op described later may read it */
    int readers;      /* ops that read it, each with a gradient of its own */
    struct xt_buffer *value;
    struct xt_buffer *grad[XT_READERS_MAX]; /* the producer's backward adds them up as it reads */
};

size_t xt_tensor_count(const struct xt_tensor *tensor); /* elements */
size_t xt_tensor_bytes(const struct xt_tensor *tensor);

struct xt_graph;
struct xt_op;
struct xt_ranges;
struct xt_recording;
struct xt_xpu_program;
struct xt_xpu_graph;

struct xt_op_class {
    const char *kind;
    /* Creates primitives and says which buffers are used when. */
    enum xt_status (*prepare)(struct xt_op *op, struct xt_graph *graph, struct xt_err *err);
    /* Once buffers and parameters have addresses. */
    enum xt_status (*bind)(struct xt_op *op, struct xt_graph *graph, struct xt_err *err);
    enum xt_status (*forward)(struct xt_op *op, struct xt_graph *graph, struct xt_err *err);
    enum xt_status (*backward)(struct xt_op *op, struct xt_graph *graph, struct xt_err *err);
    /* Follows a change of the parameters; NULL where nothing is copied. */
    enum xt_status (*refresh)(struct xt_op *op, struct xt_graph *graph, struct xt_err *err);
    /* For the placement table: "jit:avx512_core_amx" or "xtrain loops (avx512)". */
    const char *(*implementation)(const struct xt_op *op, bool backward);
    void (*destroy)(struct xt_op *op);
};

/* Each op kind embeds this as its first member. */
struct xt_op {
    const struct xt_op_class *class;
    const struct xt_device *device; /* where it runs and all its memory is */
    char name[64];
    int index;
    bool frozen;         /* keeps its parameters and has no backward pass */
    enum xt_dtype dtype; /* of what it writes */
    const char *why_f32; /* why it stays float32 in a bf16 graph; NULL where it does not */
    size_t out_bytes;    /* of the tensors that it writes */
    double flops;        /* of one forward pass of the batch, multiply and add counted as two */
    double backward_flops;
    double bytes[2]; /* of the values and gradients read and written forward and backward, each
                        counted once */
    struct xt_xpu_program *program; /* what it runs on an XPU; NULL on the CPU */
    double seconds[2]; /* spent forward and backward since the graph's profile was last cleared */
};

/* Told while an XPU's primitives are made, which can take minutes where no kernel is cached. */
struct xt_graph_observer {
    void (*made)(void *context, int done, int all);
    void *context;
};

/* How one pass runs; changed between passes by the trainer. */
struct xt_graph_pass {
    const uint8_t *pixels; /* [batch][h][w][3], the batch slot */
    const struct xt_device_memory
        *uploaded;       /* the same, already on an XPU; NULL: the pass uploads `pixels` */
    const float *floats; /* used where both are NULL: the same, already normalised */
    int count;           /* samples that matter; the rest of the batch is padding */
    bool training;       /* batch statistics, dropout; backward may follow */
    bool bn_frozen;      /* training with the running statistics */
    double dropout;
    uint64_t seed;
    uint64_t step;
};

struct xt_graph_options {
    struct xt_device *device;
    struct xt_params *params; /* empty: the graph's ops define and allocate it */
    int batch;
    bool training;       /* gradients and a backward pass */
    bool fuse;           /* inference: norms become part of the convolutions before them */
    enum xt_dtype dtype; /* of activations and working weights */
    /* Fused inference: convolutions run in int8, with these ranges (ranges.h); dtype is what is
     * left. NULL: none does. Outlives the building. */
    const struct xt_ranges *int8;
    struct xt_graph_observer observer; /* zeroed: nobody */
    bool bn_frozen; /* what the passes will say: an XPU's kernels are made for the one or the other
                     */
    const char *learn_from; /* the ops described before the first of this name, or within a layer of
                               this name, are frozen; NULL: none. Outlives the building */
};

struct xt_graph {
    struct xt_graph_options options;
    const struct xt_loops *loops;
    struct xt_op *ops[XT_OPS_MAX];
    int op_count;
    struct xt_tensor *tensors[XT_TENSORS_MAX];
    int tensor_count;
    struct xt_buffer *buffers[3 * XT_TENSORS_MAX];
    int buffer_count;
    struct xt_tensor *logits;
    bool describing_frozen;
    int next_param;          /* where an existing params is walked */
    uint64_t params_version; /* that the working copies hold */
    bool planned;
    struct xt_plan plan; /* of the arena */
    uint8_t *arena;      /* on the CPU, where it is of one segment */
    size_t scratchpad_bytes;
    size_t loop_scratch_floats; /* a thread's */
    struct xt_buffer *scratchpad;
    float *loop_scratch;      /* [threads][loop_scratch_floats] */
    size_t pinned_bytes;      /* on the host, with as much behind it on the XPU */
    size_t working_bytes;     /* working copies of weights, kept outside the arena */
    struct xt_xpu_graph *xpu; /* NULL on the CPU */
    struct xt_graph_pass pass;
    struct xt_recording
        *recording; /* where passes note what convolutions write (ranges.h); NULL: nowhere */
    bool profile;
    double refresh_seconds; /* spent on the working copies of the weights, as xt_op's seconds */
};

enum xt_status xt_graph_create(struct xt_graph **out, const struct xt_graph_options *options,
                               struct xt_err *err);
void xt_graph_destroy(struct xt_graph *graph);

/* ---- describing; each function appends one op and gives its outputs; the first failure is kept in
 * err ---- */

/* The u8 batch slot, [n][h][w][3], as (v - mean) * scale. */
struct xt_tensor *xt_graph_input(struct xt_graph *graph, int h, int w, float mean, float scale,
                                 struct xt_err *err);

/* A part of a file's tensor: which of its rows (output channels) or columns (input channels) belong
 * here. */
struct xt_channel_map {
    int file_count; /* in the file; 0: the same as here */
    const int *map; /* NULL: identity */
};

struct xt_conv_spec {
    const char *name; /* of the parameters: NAME.weight, NAME.bias */
    int channels;     /* out */
    int kernel_h, kernel_w;
    int stride_h, stride_w; /* 0 counts as 1 */
    int pad_h, pad_w;
    bool bias;
    bool relu;
    const char *why_f32;  /* why it stays float32 whatever the graph's type; NULL: it does not */
    bool fully_connected; /* a 1x1 convolution whose weight a file holds as [channels][in] */
    struct xt_channel_map out;
    struct xt_channel_map in;
};
struct xt_tensor *xt_graph_conv(struct xt_graph *graph, struct xt_tensor *in,
                                const struct xt_conv_spec *spec, struct xt_err *err);

/* A norm's parameters, by their index in params. */
struct xt_norm_params {
    int scale, shift, mean, var;
};
/* Adds a norm's parameters ahead of its op, where a file has them before those of ops that run
 * earlier. */
enum xt_status xt_graph_norm_params(struct xt_graph *graph, const char *name, int channels,
                                    const struct xt_channel_map *map, struct xt_norm_params *out,
                                    struct xt_err *err);

/* Batch normalisation (Ioffe & Szegedy 2015; eps 1e-5, momentum 0.1, running variance unbiased),
 * then the residual, ReLU and the pools that read it. In a fused graph the convolution before takes
 * its scale and shift into weights and bias, adds the residual in its place and applies the ReLU;
 * pools stay ops of their own. */
struct xt_norm_spec {
    const char *name; /* NAME.weight, .bias, .running_mean, .running_var, .num_batches_tracked */
    bool relu;
    struct xt_tensor *residual;
    bool full;                /* y itself is an output */
    struct xt_window max;     /* kernel_h 0: none; out_h and out_w are filled in */
    struct xt_window average; /* float32 output; kernel_h must equal stride_h */
    struct xt_channel_map out;
    const struct xt_norm_params *params; /* NULL: added with the op */
};
struct xt_norm_outputs {
    struct xt_tensor *full;
    struct xt_tensor *max;
    struct xt_tensor *average;
};
enum xt_status xt_graph_norm(struct xt_graph *graph, struct xt_tensor *in,
                             const struct xt_norm_spec *spec, struct xt_norm_outputs *out,
                             struct xt_err *err);

/* In place; each element is dropped with the pass's probability, the others are scaled up. */
struct xt_tensor *xt_graph_dropout(struct xt_graph *graph, struct xt_tensor *in, const char *name,
                                   struct xt_err *err);

/* LPRNet's global context: each tap (one or more tensors of [n][h][w][c], float32) is divided by
 * the mean of its squares, over the sample or over the batch; all are averaged over h and
 * concatenated: [n][1][w][sum of c]. */
enum { XT_TAPS_MAX = 8 };
struct xt_context_spec {
    int count;
    struct xt_tensor *taps[XT_TAPS_MAX];
    int group[XT_TAPS_MAX]; /* tensors of one group are one tap */
    bool over_batch;
};
struct xt_tensor *xt_graph_context(struct xt_graph *graph, const struct xt_context_spec *spec,
                                   struct xt_err *err);

/* ---- building and running ---- */

/* Prepares every op and lays out memory, of which nothing is allocated. `logits` is the last
 * tensor, whose gradient the loss writes. A tensor that is too large for one allocation of the
 * device is XT_ERR_MEMORY. */
enum xt_status xt_graph_plan(struct xt_graph *graph, struct xt_tensor *logits, struct xt_err *err);
/* Plans, where that was not done, and allocates. */
enum xt_status xt_graph_build(struct xt_graph *graph, struct xt_tensor *logits, struct xt_err *err);

/* The pass is graph->pass, set by the caller. */
enum xt_status xt_graph_forward(struct xt_graph *graph, struct xt_err *err);
/* After a forward pass with pass.training and after the loss has written the logits' gradient. */
enum xt_status xt_graph_backward(struct xt_graph *graph, struct xt_err *err);

/* Runs the convolutions' primitives alone, forward and backward, on whatever the memory holds: the
 * floor of a step. */
enum xt_status xt_graph_convolutions_alone(struct xt_graph *graph, bool training,
                                           struct xt_err *err);

float *xt_graph_logits(struct xt_graph *graph);      /* [n][h * w][c], on the host */
float *xt_graph_logits_grad(struct xt_graph *graph); /* the same shape */

/* ---- one op alone, for tests: all its buffers are alive while it runs, so what it reads can be
 * written before, and what it writes read after ---- */

/* Runs op `index` as a pass would; forward, index op_count is what follows the last op. */
enum xt_status xt_graph_run_op(struct xt_graph *graph, int index, bool backward,
                               struct xt_err *err);
/* A buffer's `count` elements of type dtype from and to float32. */
enum xt_status xt_graph_write(struct xt_graph *graph, const struct xt_buffer *buffer,
                              enum xt_dtype dtype, const float *from, size_t count,
                              struct xt_err *err);
enum xt_status xt_graph_read_back(struct xt_graph *graph, const struct xt_buffer *buffer,
                                  enum xt_dtype dtype, float *to, size_t count, struct xt_err *err);

#endif
