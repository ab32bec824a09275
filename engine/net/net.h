/* A network as data, without a device, memory or batch. It runs as a graph (graph.h), to which
 * fuse.h lowers it.
 *
 * A net is a list of nodes on values, appended by the functions here in topological order. Each
 * node is one operation and has one output; a value may have any number of readers. Parameters are
 * declared with their nodes: the order of the nodes is the order of the parameters in a file. Nodes
 * that name the same parameter share it.
 *
 * A value is one sample's [h][w][c]: an image; a vector as [1][1][c], tokens as [1][tokens][c], the
 * heads of an attention as [heads][tokens][c]. The batch is implied, but for values of parameters
 * and constants, which are the same for all samples. Elements lie as h, w, c.
 *
 * The first error is stored in the net: functions then return NULL, and accept it, so networks are
 * described without checks. xt_net_finish returns it.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "engine/net/activation.h"
#include "engine/net/axis.h"
#include "engine/net/axis_map.h"
#include "engine/net/recurrence.h"
#include "engine/params.h"

enum xt_node_kind {
    XT_NODE_INPUT,
    XT_NODE_PARAMETER,
    XT_NODE_CONSTANT,
    XT_NODE_CONV,
    XT_NODE_CONV_TRANSPOSE,
    XT_NODE_CONV_BY, /* computed weights */
    XT_NODE_LINEAR,
    XT_NODE_BATCH_NORM,
    XT_NODE_LAYER_NORM,
    XT_NODE_ACTIVATION,
    XT_NODE_ADD,
    XT_NODE_MUL,
    XT_NODE_CONCAT,
    XT_NODE_SLICE,
    XT_NODE_CHANNEL_SHUFFLE,
    XT_NODE_MAX_POOL,
    XT_NODE_AVG_POOL,
    XT_NODE_DROPOUT,
    XT_NODE_DROP_PATH,
    XT_NODE_DROP_CHANNELS,
    XT_NODE_MATMUL,
    XT_NODE_SOFTMAX,
    XT_NODE_CHANNEL_MEAN,
    XT_NODE_TRANSPOSE,
    XT_NODE_RESHAPE,
    XT_NODE_AXIS_MAP,
    XT_NODE_GRID_SAMPLE,
    XT_NODE_RECURRENCE,
    XT_NODE_GLOBAL_CONTEXT,
    XT_NODE_KINDS
};

enum xt_side { XT_SIDE_TOP, XT_SIDE_LEFT, XT_SIDE_BOTTOM, XT_SIDE_RIGHT, XT_SIDES };

struct xt_node;

struct xt_value {
    int index; /* in the net */
    int h, w, c;
    bool of_parameter;  /* the same for all samples */
    int readers;        /* number of reads; the net's output does not count */
    struct xt_node *of; /* the node that computes it */
};

/* ---- attributes of each kind; names are those of PyTorch's parameters ----
 *
 * `name` is the layer's: parameters are NAME.weight, NAME.bias and so on. NULL, if the node has no
 * parameters: it is named by its kind and number.
 */

struct xt_net_conv {
    const char *name;
    const char *weight, *bias_name; /* the whole names of parameters; NULL: by `name` */
    int channels;                   /* out */
    int kernel[2];
    int stride[2], dilation[2]; /* 0 counts as 1 */
    int pad[XT_SIDES];
    int groups; /* 0 counts as 1; the weight is [channels][in / groups][kernel h][kernel w], of a
                   transposed one [in][channels / groups][kernel h][kernel w] */
    int output_pad[2]; /* of a transposed one: rows and columns behind, less than its stride */
    bool bias;
    struct xt_init weight_init, bias_init;
};

/* On the last axis: the weight is [channels][in]. */
struct xt_net_linear {
    const char *name;
    const char *weight, *bias_name;
    int channels;
    bool bias;
    bool in_first; /* the weight is [in][channels], of a network that multiplies by it */
    struct xt_init weight_init, bias_init;
};

/* Batch norm: NAME.weight, .bias, .running_mean, .running_var, .num_batches_tracked. */
struct xt_net_norm {
    const char *name;
    double eps;      /* 0: 1e-5 of a batch norm, 1e-6 of a layer norm */
    double momentum; /* batch norm; 0: 0.1 */
    bool unscaled;   /* without weight and bias */
    struct xt_init weight_init;
};

struct xt_net_pool {
    const char *name;
    int kernel[2];
    int stride[2]; /* 0: the kernel's */
    int pad[XT_SIDES];
    bool ceil_mode; /* as PyTorch: a window may begin only in the image or the left padding */
    bool count_include_pad; /* average: padding counts in the divisor */
};

struct xt_net_slice {
    const char *name;
    enum xt_axis axis;
    int start, step, count; /* step 0 counts as 1 */
};

/* A tensor of the network's own: a class token, a position embedding, a layer scale; or what a
 * weight is computed of, which by its shape, [O][I][h][w], has a weight's role and initial values.
 */
struct xt_net_parameter {
    const char *name; /* the parameter's own */
    int h, w, c;
    int ndims, dims[4]; /* the file's shape, of as many elements in the same order */
    struct xt_init init;
};

/* Numbers that do not change, the same for all samples. */
struct xt_net_constant {
    const char *name;
    int h, w, c;
    const float *numbers; /* [h][w][c]; a node owns its own */
    size_t count;         /* of them; 1: all are equal */
};

struct xt_net_matmul {
    const char *name;
    bool transpose; /* the second factor is [h][columns][inner], else [h][inner][columns] */
    float scale;    /* of the product; 0 counts as 1 */
};

/* LPRNet's global context: see xt_graph_context. */
struct xt_net_context {
    const char *name;
    bool over_batch;
};

struct xt_net_dropout {
    const char *name;
    float p; /* of dropping; 0: the run's */
};

struct xt_net_reshape {
    int h, w, c;
};

struct xt_net_transpose {
    enum xt_axis from[XT_AXES]; /* the output's axis i is the input's axis from[i] */
};

struct xt_net_axis_map {
    const char *name;
    enum xt_axis axis;
    struct xt_axis_map map; /* of a node: `picked` is the node's own */
};

/* As struct xt_grid_sample_spec in graph.h. */
struct xt_net_grid_sample {
    const char *name;
    bool border, align_corners;
};

/* As struct xt_recurrence_spec in graph.h. */
struct xt_net_recurrence {
    const char *name;
    enum xt_recurrence kind;
    bool backwards, with_cell;
};

/* ---- nodes ---- */

struct xt_net_param {
    char name[XT_PARAM_NAME_MAX];
    enum xt_param_role role;
    int ndims, dims[4]; /* as in a file */
    int groups;         /* of a convolution's weight; else 0 */
    bool in_first;      /* see struct xt_net_linear */
    bool transposed;    /* of a transposed convolution */
    struct xt_init init;
    float *initial; /* initial value, overrides the rule, row-major; NULL: not given; owned */
};

enum { XT_NODE_PARAMS_MAX = 5, XT_NODE_NAME_MAX = XT_PARAM_NAME_MAX };

/* The params of a node, in this order (a file's); -1: there is none. */
enum { XT_NODE_WEIGHT, XT_NODE_BIAS, XT_NODE_MEAN, XT_NODE_VAR, XT_NODE_TRACKED };

struct xt_node {
    enum xt_node_kind kind;
    char name[XT_NODE_NAME_MAX];
    int index; /* in the net */
    struct xt_value **inputs;
    int input_count;
    struct xt_value *output;
    int params[XT_NODE_PARAMS_MAX]; /* indices in the net's */
    union {                         /* selected by kind; ignore the names in it */
        struct xt_net_conv conv;    /* transposed, or by computed weights, too */
        struct xt_net_linear linear;
        struct xt_net_norm norm; /* both norms */
        struct xt_activation activation;
        struct xt_net_constant constant; /* numbers are owned */
        struct xt_net_slice slice;
        int shuffle_groups;
        enum xt_axis axis; /* of a concatenation */
        struct xt_net_pool pool;
        struct xt_net_dropout dropout; /* of elements, samples, channels */
        struct xt_net_matmul matmul;
        struct xt_net_transpose transpose;
        struct xt_net_context context;
        struct xt_net_axis_map axis_map;
        struct xt_net_grid_sample grid_sample;
        struct xt_net_recurrence recurrence;
    } as;
};

struct xt_net {
    struct xt_err err; /* the first failure */
    char layer[64];    /* that nodes without a name of their own are parts of; "": none */
    struct xt_node **nodes;
    size_t node_count, node_capacity;
    struct xt_value **values;
    size_t value_count, value_capacity;
    struct xt_net_param *params;
    size_t param_count, param_capacity;
    struct xt_value *output; /* the logits */
};

/* NULL if out of memory. */
struct xt_net *xt_net_create(struct xt_err *err);
void xt_net_destroy(struct xt_net *net); /* NULL: nothing */

bool xt_net_fails(const struct xt_net *net);
/* Stores the error, and returns NULL. */
void *xt_net_refuse(struct xt_net *net, enum xt_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Sets the network's output, removes what leads to nothing, and refuses it if it has parameters;
 * returns the first error, if any. */
enum xt_status xt_net_finish(struct xt_net *net, struct xt_value *output, struct xt_err *err);

/* ---- describing ---- */

/* Nodes that are given no name are called "LAYER: slice 3" from now on: tables show them as one.
 * NULL: by themselves again. */
void xt_net_begin_layer(struct xt_net *net, const char *layer);

struct xt_value *xt_net_input(struct xt_net *net, int h, int w, int c);
struct xt_value *xt_net_parameter(struct xt_net *net, const struct xt_net_parameter *spec);
/* The numbers are copied. */
struct xt_value *xt_net_constant(struct xt_net *net, const struct xt_net_constant *spec);
struct xt_value *xt_net_conv(struct xt_net *net, struct xt_value *in,
                             const struct xt_net_conv *spec);
struct xt_value *xt_net_conv_transpose(struct xt_net *net, struct xt_value *in,
                                       const struct xt_net_conv *spec);
/* The same by weights that are computed from parameters, a value of [1][O][I h w] numbers in a
 * weight's order. */
struct xt_value *xt_net_conv_by(struct xt_net *net, struct xt_value *in, struct xt_value *weights,
                                const struct xt_net_conv *spec);
struct xt_value *xt_net_linear(struct xt_net *net, struct xt_value *in,
                               const struct xt_net_linear *spec);
struct xt_value *xt_net_batch_norm(struct xt_net *net, struct xt_value *in,
                                   const struct xt_net_norm *spec);
struct xt_value *xt_net_layer_norm(struct xt_net *net, struct xt_value *in,
                                   const struct xt_net_norm *spec);
struct xt_value *xt_net_activation(struct xt_net *net, struct xt_value *in,
                                   struct xt_activation activation, const char *name);
struct xt_value *xt_net_relu(struct xt_net *net, struct xt_value *in);
/* Each axis has the same length in both, or 1 in one of them. */
struct xt_value *xt_net_add(struct xt_net *net, struct xt_value *a, struct xt_value *b,
                            const char *name);
struct xt_value *xt_net_mul(struct xt_net *net, struct xt_value *a, struct xt_value *b,
                            const char *name);
struct xt_value *xt_net_concat(struct xt_net *net, struct xt_value *const *in, int count,
                               enum xt_axis axis, const char *name);
struct xt_value *xt_net_slice(struct xt_net *net, struct xt_value *in,
                              const struct xt_net_slice *spec);
/* Channels as [groups][c / groups] are transposed. */
struct xt_value *xt_net_channel_shuffle(struct xt_net *net, struct xt_value *in, int groups,
                                        const char *name);
struct xt_value *xt_net_max_pool(struct xt_net *net, struct xt_value *in,
                                 const struct xt_net_pool *spec);
struct xt_value *xt_net_avg_pool(struct xt_net *net, struct xt_value *in,
                                 const struct xt_net_pool *spec);
/* A pool whose window is the whole image. */
struct xt_value *xt_net_global_max_pool(struct xt_net *net, struct xt_value *in, const char *name);
struct xt_value *xt_net_global_avg_pool(struct xt_net *net, struct xt_value *in, const char *name);
struct xt_value *xt_net_dropout(struct xt_net *net, struct xt_value *in,
                                const struct xt_net_dropout *spec);
/* Stochastic depth (Huang et al. 2016): whole samples are dropped, the others are scaled up. */
struct xt_value *xt_net_drop_path(struct xt_net *net, struct xt_value *in,
                                  const struct xt_net_dropout *spec);
/* Dropout of whole channels of a sample (Tompson et al. 2015), PyTorch's Dropout2d. */
struct xt_value *xt_net_drop_channels(struct xt_net *net, struct xt_value *in,
                                      const struct xt_net_dropout *spec);
/* [h][rows][inner] by [h][inner][columns] gives [h][rows][columns], for each h. */
struct xt_value *xt_net_matmul(struct xt_net *net, struct xt_value *a, struct xt_value *b,
                               const struct xt_net_matmul *spec);
struct xt_value *xt_net_softmax(struct xt_net *net, struct xt_value *in, const char *name);
/* Over the channels: [h][w][1]. */
struct xt_value *xt_net_channel_mean(struct xt_net *net, struct xt_value *in, const char *name);
struct xt_value *xt_net_transpose(struct xt_net *net, struct xt_value *in,
                                  const enum xt_axis from[XT_AXES], const char *name);
/* The elements in the same order, h, w, c. */
struct xt_value *xt_net_reshape(struct xt_net *net, struct xt_value *in,
                                const struct xt_net_reshape *shape, const char *name);
struct xt_value *xt_net_axis_map(struct xt_net *net, struct xt_value *in,
                                 const struct xt_net_axis_map *spec);
/* Samples of an image at the points of a grid [h][w][2] of x and y, bilinear: the values that lead
 * to points alone are float32 in a graph of any type. */
struct xt_value *xt_net_grid_sample(struct xt_net *net, struct xt_value *image,
                                    struct xt_value *grid, const struct xt_net_grid_sample *spec);
/* The states of a recurrent layer along w, [h][w][hidden], from its gates by the input
 * [h][w][gates * hidden]; each row begins with zeros. The weight [1][gates * hidden][hidden] and
 * the bias [1][1][gates * hidden] (NULL: none) by the state are computed from parameters alone. */
struct xt_value *xt_net_recurrence(struct xt_net *net, struct xt_value *gates,
                                   struct xt_value *weight, struct xt_value *bias,
                                   const struct xt_net_recurrence *spec);
/* A vector in PyTorch's order: c, h, w. */
struct xt_value *xt_net_flatten(struct xt_net *net, struct xt_value *in, const char *name);
struct xt_value *xt_net_context(struct xt_net *net, struct xt_value *const *in, int count,
                                const struct xt_net_context *spec);

/* The parameter's initial value, [dims] row-major, copied. */
enum xt_status xt_net_param_set(struct xt_net *net, int param, const float *values,
                                struct xt_err *err);

/* ---- walking ---- */

const char *xt_node_kind_name(enum xt_node_kind kind); /* "convolution" */
/* The i-th reader of the value in node order, once per read; NULL: no more. */
struct xt_node *xt_net_reader(const struct xt_net *net, const struct xt_value *value, int i);
/* The parameter of that name; -1: there is none. */
int xt_net_find_param(const struct xt_net *net, const char *name);
size_t xt_net_param_elements(const struct xt_net_param *param);
/* A node's parameter; NULL where it has none. */
const struct xt_net_param *xt_node_param(const struct xt_net *net, const struct xt_node *node,
                                         int which);
/* Of one sample's forward pass, multiply and add counted as two; of convolutions and matrix
 * products, 0 else. */
double xt_node_flops(const struct xt_node *node);
