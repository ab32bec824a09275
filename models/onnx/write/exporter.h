/* What the writers of the kinds of ops share in exporting a graph to ONNX. A kind has one function,
 * in a file of its own in this folder, and a line in export.c.
 *
 * ONNX uses NCHW. A tensor of the graph becomes a value, float32 or fp16; an int8 tensor is
 * quantised and dequantised (QDQ), and its value is the dequantised one.
 */
#pragma once

#include "models/onnx/onnx.h"
#include "engine/graph.h"
#include "engine/ops/ops.h"

struct xt_exporter {
    const struct xt_graph *graph;
    struct xt_onnx *onnx;
    int64_t batch;        /* 0: any */
    bool with_preprocess; /* the model takes bytes */
    bool for_onnxruntime; /* int8 activations are u8, with a zero point where they have a sign */
    struct {
        const char *name;
        enum xt_dtype dtype;
    } values[XT_TENSORS_MAX]; /* by the tensors' index */
};

/* The type of an op's arithmetic: fp16 where its output is fp16, else float32. */
enum xt_dtype xt_export_dtype(const struct xt_tensor *out);

/* The value of a tensor that has been written, cast to this type. */
const char *xt_export_in(struct xt_exporter *exporter, const struct xt_tensor *tensor,
                         enum xt_dtype dtype);
/* The same as the tensor holds it: less its offset, which is contained in the bias of an int8
 * convolution that reads it (ops/conv.c). */
const char *xt_export_held(struct xt_exporter *exporter, const struct xt_tensor *tensor,
                           enum xt_dtype dtype);
/* Registers the value of a tensor, in the tensor's own type from then on. */
void xt_export_out(struct xt_exporter *exporter, const struct xt_tensor *tensor, const char *value,
                   enum xt_dtype dtype);
/* What a value or node of an op or a tensor is called: its name, and what follows. */
struct xt_export_name {
    char text[96];
};
struct xt_export_name xt_export_name(const char *owner, const char *rest);
/* "NAME/TYPE" as the name of a node of this op, with these attributes (the last has no name). */
const char *xt_export_node(struct xt_exporter *exporter, const struct xt_op *op,
                           const struct xt_onnx_node *node);

/* A constant of float32 numbers, cast to `dtype`. An overflow of fp16 is refused by name. */
const char *xt_export_constant(struct xt_exporter *exporter, const char *name, enum xt_dtype dtype,
                               int ndims, const int64_t *dims, const float *numbers);
/* An int64 constant: axes, shapes. */
const char *xt_export_axes(struct xt_exporter *exporter, const char *name, const int64_t *axes,
                           int count);
/* value * number, value + number, ...: `type` is the node's. */
const char *xt_export_with_number(struct xt_exporter *exporter, const struct xt_op *op,
                                  const char *type, const char *value, enum xt_dtype dtype,
                                  float number);

/* The value with other dimensions (0: unchanged), or with its axes in this order. */
const char *xt_export_reshaped(struct xt_exporter *exporter, const struct xt_op *op,
                               const char *value, const int64_t *dims, int count);
const char *xt_export_transposed(struct xt_exporter *exporter, const struct xt_op *op,
                                 const char *value, const int64_t *from, int count);
/* NCHW to NHWC, and back. */
const char *xt_export_channels_last(struct xt_exporter *exporter, const struct xt_op *op,
                                    const char *value);
const char *xt_export_channels_first(struct xt_exporter *exporter, const struct xt_op *op,
                                     const char *value);
/* Our axis as an index in NCHW. */
int64_t xt_export_axis(enum xt_axis axis);
/* The value of a tensor that rearranges another's elements: of its type, without a second
 * quantisation of int8. */
void xt_export_moved(struct xt_exporter *exporter, const struct xt_op *op, const char *value);

/* A pool of a value of this type: its output, of the same type. */
const char *xt_export_pool(struct xt_exporter *exporter, const struct xt_op *op, const char *value,
                           const struct xt_window *window, bool average);

/* The activation of a value of this type. */
const char *xt_export_activation(struct xt_exporter *exporter, const struct xt_op *op,
                                 const struct xt_activation *activation, const char *value,
                                 enum xt_dtype dtype);

/* The kinds. */
void xt_export_input(struct xt_exporter *exporter, const struct xt_op *op);
void xt_export_conv(struct xt_exporter *exporter, const struct xt_op *op);
void xt_export_conv_transpose(struct xt_exporter *exporter, const struct xt_op *op);
void xt_export_conv_by(struct xt_exporter *exporter, const struct xt_op *op);
void xt_export_norm(struct xt_exporter *exporter, const struct xt_op *op);
void xt_export_pool_op(struct xt_exporter *exporter, const struct xt_op *op);
void xt_export_eltwise(struct xt_exporter *exporter, const struct xt_op *op);
void xt_export_slice(struct xt_exporter *exporter, const struct xt_op *op);
void xt_export_shuffle(struct xt_exporter *exporter, const struct xt_op *op);
void xt_export_transpose(struct xt_exporter *exporter, const struct xt_op *op);
void xt_export_axis_map(struct xt_exporter *exporter, const struct xt_op *op);
void xt_export_grid_sample(struct xt_exporter *exporter, const struct xt_op *op);
void xt_export_recurrence(struct xt_exporter *exporter, const struct xt_op *op);
/* Whether the op, a linear layer, is written as a part of the recurrence that reads it. */
bool xt_export_is_in_recurrence(const struct xt_graph *graph, const struct xt_op *op);
void xt_export_reshape(struct xt_exporter *exporter, const struct xt_op *op);
void xt_export_cast(struct xt_exporter *exporter, const struct xt_op *op);
void xt_export_parameter(struct xt_exporter *exporter, const struct xt_op *op);
void xt_export_numbers(struct xt_exporter *exporter, const struct xt_op *op); /* a constant */
void xt_export_concat(struct xt_exporter *exporter, const struct xt_op *op);
void xt_export_window_pool(struct xt_exporter *exporter, const struct xt_op *op);
void xt_export_binary(struct xt_exporter *exporter, const struct xt_op *op);
void xt_export_matmul(struct xt_exporter *exporter, const struct xt_op *op);
void xt_export_softmax(struct xt_exporter *exporter, const struct xt_op *op);
void xt_export_channel_mean(struct xt_exporter *exporter, const struct xt_op *op);
void xt_export_layer_norm(struct xt_exporter *exporter, const struct xt_op *op);
void xt_export_dropout(struct xt_exporter *exporter, const struct xt_op *op);
void xt_export_context(struct xt_exporter *exporter, const struct xt_op *op);
