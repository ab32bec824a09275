/* The operators of ONNX that are read, each a function: from the views of what the node reads to
 * the view of what it gives. */
#pragma once

#include "models/onnx/read/reader.h"

/* Gives the node's first output; false after a failure. */
bool xt_read_give(struct xt_read_node *node, struct xt_read_view *view);
/* A copy of the view of input i; refuses a node whose input is not there or depends on no image. */
struct xt_read_view *xt_read_data(struct xt_reader *reader, struct xt_read_node *node, int i);

/* ---- layers.c: what has parameters ---- */
bool xt_read_conv(struct xt_reader *reader, struct xt_read_node *node);
bool xt_read_conv_transpose(struct xt_reader *reader, struct xt_read_node *node);
bool xt_read_linear(struct xt_reader *reader, struct xt_read_node *node); /* Gemm too */
bool xt_read_batch_norm(struct xt_reader *reader, struct xt_read_node *node);
bool xt_read_layer_norm(struct xt_reader *reader, struct xt_read_node *node);
bool xt_read_filled(struct xt_reader *reader, struct xt_read_node *node); /* ConstantOfShape */
/* Gives a tensor of that number, also for several images of each sample. */
bool xt_read_give_filled(struct xt_reader *reader, struct xt_read_node *node, float number,
                         int count, const int64_t dims[]);
/* The module that a node is of, from the node's name: "/layer1/layer1.0/conv1/Conv" is of
 * layer1.0.conv1. False where the name does not say. */
bool xt_read_module_of(const struct xt_read_node *node, char *out, size_t size);
/* An initializer as a value of the net. */
struct xt_read_view *xt_read_parameter(struct xt_reader *reader, const struct xt_read_node *node,
                                       struct xt_read_value *value);

/* A parameter that the exporter stored in another order, under its own name: [rows][columns], or
 * with columns 0 [rows]. The numbers are the reader's. */
struct xt_value *xt_read_restored(struct xt_reader *reader, const char *name, const float *numbers,
                                  int rows, int columns);

/* ---- weights.c: what is computed of parameters ---- */

/* Refuses vectors that would be taken for parameters: those of spectral normalisation. */
bool xt_read_check_weights(struct xt_reader *reader);
/* An input that is such a value, of this node; NULL: it is none, or (refused) of the images. */
struct xt_read_view *xt_read_computed_weight(struct xt_reader *reader, struct xt_read_node *node,
                                             int i, int ndims);
/* It laid out for xt_net_conv_by: that axis is the output channels, the others are a row in their
 * order. */
struct xt_value *xt_read_weight_rows(struct xt_reader *reader, struct xt_read_node *node,
                                     struct xt_read_view *weight, int channels);
/* The products with a weight's rows, [out][in], along that axis, which is `out` long then; with
 * groups each as many rows by a part of the axis, [groups][in]. */
struct xt_read_view *xt_read_contract(struct xt_reader *reader, struct xt_read_node *node,
                                      struct xt_read_view *view, int axis, int groups,
                                      struct xt_read_view *weight);
/* A matrix of numbers that do not change, for xt_read_contract. */
struct xt_read_view *xt_read_matrix(struct xt_reader *reader, int rows, int columns,
                                    const float *numbers);
/* The mean over these axes, which stay as axes of length 1. */
struct xt_read_view *xt_read_parameter_mean(struct xt_reader *reader,
                                            const struct xt_read_node *node,
                                            const struct xt_read_view *view, const bool goes[]);

/* ---- shapes.c: what only moves elements ---- */
bool xt_read_transpose(struct xt_reader *reader, struct xt_read_node *node);
bool xt_read_reshape_op(struct xt_reader *reader, struct xt_read_node *node);
bool xt_read_flatten(struct xt_reader *reader, struct xt_read_node *node);
bool xt_read_squeeze(struct xt_reader *reader, struct xt_read_node *node);
bool xt_read_unsqueeze(struct xt_reader *reader, struct xt_read_node *node);
bool xt_read_expand(struct xt_reader *reader, struct xt_read_node *node);
bool xt_read_tile(struct xt_reader *reader, struct xt_read_node *node);
/* Makes an axis of length 1 the batch, of a parameter, which is the same for all of it. */
bool xt_read_repeat_for_batch(struct xt_read_view *view, int axis);
bool xt_read_same(struct xt_reader *reader, struct xt_read_node *node); /* Identity, Cast */
bool xt_read_if(struct xt_reader *reader, struct xt_read_node *node);
bool xt_read_slice(struct xt_reader *reader, struct xt_read_node *node);
bool xt_read_reverse_sequence(struct xt_reader *reader, struct xt_read_node *node);
bool xt_read_split(struct xt_reader *reader, struct xt_read_node *node);
bool xt_read_gather(struct xt_reader *reader, struct xt_read_node *node);
bool xt_read_concat(struct xt_reader *reader, struct xt_read_node *node);

/* ---- pools.c ---- */
bool xt_read_pool(struct xt_reader *reader, struct xt_read_node *node);
bool xt_read_reduce(struct xt_reader *reader, struct xt_read_node *node);
bool xt_read_response_norm(struct xt_reader *reader, struct xt_read_node *node); /* LRN */
/* The mean or the largest over these axes, which stay with length 1. */
struct xt_read_view *xt_read_reduced(struct xt_reader *reader, const struct xt_read_node *node,
                                     const struct xt_read_view *in, const bool goes[], bool is_max);
bool xt_read_log_softmax(struct xt_reader *reader, struct xt_read_node *node);

/* ---- choose.c ---- */
bool xt_read_compare(struct xt_reader *reader, struct xt_read_node *node); /* Greater and its kin */
bool xt_read_logic(struct xt_reader *reader, struct xt_read_node *node);   /* And, Or, Not */
bool xt_read_sign(struct xt_reader *reader, struct xt_read_node *node);
bool xt_read_condition(struct xt_reader *reader, struct xt_read_node *node); /* Cast to BOOL */
/* Of an infinite number one that has its effect in a mask before a softmax, in each type, and
 * gives no NaN where it is not chosen. */
double xt_read_finite(double number);
bool xt_read_where(struct xt_reader *reader, struct xt_read_node *node);

/* ---- math.c: the rest ---- */
bool xt_read_activation(struct xt_reader *reader, struct xt_read_node *node);
bool xt_read_power(struct xt_reader *reader, struct xt_read_node *node);
bool xt_read_binary(struct xt_reader *reader, struct xt_read_node *node); /* Add, Sub, Mul, Div */
/* A number and no parameter: one of a node, or that an exporter made. */
bool xt_read_is_number(struct xt_reader *reader, const struct xt_read_node *node,
                       struct xt_read_value *value, double *out);
bool xt_read_dropout(struct xt_reader *reader, struct xt_read_node *node);
bool xt_read_matmul(struct xt_reader *reader, struct xt_read_node *node);
bool xt_read_softmax(struct xt_reader *reader, struct xt_read_node *node);
bool xt_read_attention(struct xt_reader *reader, struct xt_read_node *node);
/* The axis of a Softmax or LogSoftmax; -1, refused: there is none. */
int xt_read_softmax_axis(struct xt_reader *reader, const struct xt_read_node *node,
                         const struct xt_read_view *view);

/* ---- recurrent.c ---- */
bool xt_read_recurrent(struct xt_reader *reader, struct xt_read_node *node); /* LSTM, GRU, RNN */

/* ---- einsum.c ---- */
bool xt_read_einsum(struct xt_reader *reader, struct xt_read_node *node);
/* A MatMul of a value and a stack of a parameter's matrices, which is that input. */
bool xt_read_stack_product(struct xt_reader *reader, struct xt_read_node *node, int parameter);

/* The activation of a view; NULL after a failure. */
struct xt_read_view *xt_read_activate(struct xt_reader *reader, const struct xt_read_node *node,
                                      const struct xt_read_view *in,
                                      struct xt_activation activation);
/* The view times a number; NULL: it is NULL, or after a failure. */
struct xt_read_view *xt_read_times(struct xt_reader *reader, const struct xt_read_view *view,
                                   double factor);
/* The product or the sum of two views, with broadcasting. */
struct xt_read_view *xt_read_combine(struct xt_reader *reader, const struct xt_read_node *node,
                                     struct xt_read_view *a, struct xt_read_view *b, bool multiply);

/* ---- composed.c: what becomes several nodes ---- */
bool xt_read_prelu(struct xt_reader *reader, struct xt_read_node *node);
bool xt_read_scaled_elu(struct xt_reader *reader, struct xt_read_node *node); /* Selu, Celu */
/* max(a, b) = a + relu(b - a), or min(a, b) = a - relu(a - b). */
struct xt_read_view *xt_read_extreme_of(struct xt_reader *reader, const struct xt_read_node *node,
                                        struct xt_read_view *a, struct xt_read_view *b,
                                        bool is_max);
bool xt_read_extreme(struct xt_reader *reader, struct xt_read_node *node); /* Max, Min */
/* A batch norm of weights: each output channel's are normalised. */
bool xt_read_weight_norm(struct xt_reader *reader, struct xt_read_node *node);
bool xt_read_instance_norm(struct xt_reader *reader, struct xt_read_node *node);
bool xt_read_group_norm(struct xt_reader *reader, struct xt_read_node *node);
bool xt_read_blocks(struct xt_reader *reader,
                    struct xt_read_node *node); /* DepthToSpace and back */

/* ---- axis_maps.c: maps of one axis ---- */
bool xt_read_resize(struct xt_reader *reader, struct xt_read_node *node); /* Upsample too */
bool xt_read_pad(struct xt_reader *reader, struct xt_read_node *node);
struct xt_read_view *xt_read_map(struct xt_reader *reader, const struct xt_read_node *node,
                                 struct xt_read_view *view, int axis,
                                 const struct xt_axis_map *map);
struct xt_read_view *xt_read_reverse(struct xt_reader *reader, const struct xt_read_node *node,
                                     struct xt_read_view *view, int axis);
/* The elements at these indices, counted from the end where they are negative. */
struct xt_read_view *xt_read_pick(struct xt_reader *reader, const struct xt_read_node *node,
                                  struct xt_read_view *view, int axis, const double *at,
                                  size_t count);
/* The view with the zeros around it that wait, unless this node takes them. */
struct xt_read_view *xt_read_padded(struct xt_reader *reader, struct xt_read_node *node,
                                    struct xt_read_view *view);

bool xt_read_adaptive_pool(struct xt_reader *reader, struct xt_read_node *node);
bool xt_read_running_sum(struct xt_reader *reader, struct xt_read_node *node); /* CumSum */

/* ---- stacks.c: several images of a sample as one ---- */
struct xt_read_stack {
    int count, rows,
        period; /* of the output: of the images, an image's rows, from one to the next */
};
/* What a kernel reads of an image's height. */
struct xt_read_rows {
    int kernel, stride, dilation, before, behind;
};
/* How many images of each sample there are; 1: one, or it is no stack of images. */
int xt_read_stack_of(const struct xt_read_view *view);
/* Below one another, with that padding around each of `out->count`; the kernel has none then. */
struct xt_read_view *xt_read_below_one_another(struct xt_reader *reader,
                                               const struct xt_read_node *node,
                                               struct xt_read_view *view, struct xt_read_stack *out,
                                               const struct xt_read_rows *rows, float fill);
/* What the kernel made of it as a stack again. */
struct xt_read_view *xt_read_as_stack(struct xt_reader *reader, const struct xt_read_node *node,
                                      struct xt_read_view *view, const struct xt_read_stack *stack);

/* ---- assign.c ---- */
/* Of a node that writes into a tensor: the input that is read by itself, its indices; else -1. */
int xt_read_begin_write(struct xt_read_node *node);
bool xt_read_scatter(struct xt_reader *reader, struct xt_read_node *node); /* ScatterND */
bool xt_read_scatter_elements(struct xt_reader *reader, struct xt_read_node *node);

/* ---- points.c ---- */
bool xt_read_affine_grid(struct xt_reader *reader, struct xt_read_node *node);
bool xt_read_grid_sample(struct xt_reader *reader, struct xt_read_node *node);

/* The vector of input i along that axis of `ndims`; NULL, refused: it is none. */
struct xt_read_view *xt_read_vector(struct xt_reader *reader, struct xt_read_node *node, int i,
                                    int axis, int ndims);
/* Whether input i is this number, made by an exporter, or is not given. */
bool xt_read_is_neutral(struct xt_reader *reader, struct xt_read_node *node, int i, double neutral);

/* ---- homes ---- */

/* Those of an image, [n][c][h][w], [n][c][w] or [n][c]; false: of no such rank. */
bool xt_read_image_homes(const struct xt_read_view *view, int homes[]);
/* Also for one image that is the same for all samples: positions, a prompt. */
bool xt_read_layer_homes(const struct xt_read_view *view, int homes[]);
/* Those in which this axis is the channels, and the others lie as they do where they can. */
void xt_read_channel_homes(const struct xt_read_view *view, int axis, int homes[]);
/* An axis, counted from the end where it is negative; -1, refused: there is none. */
int xt_read_axis_of(struct xt_reader *reader, const struct xt_read_node *node, int64_t axis,
                    int ndims);
/* Of kernels: an attribute of that many numbers, default 1 or 0; other counts are refused. */
bool xt_read_window(struct xt_reader *reader, const struct xt_read_node *node, const char *name,
                    int64_t otherwise, int count, int out[]);
/* Padding by the attributes pads and auto_pad, of an input with these sides. */
bool xt_read_pads(struct xt_reader *reader, const struct xt_read_node *node, const int sides[2],
                  const int kernel[2], const int stride[2], const int dilation[2], int pad[4]);
