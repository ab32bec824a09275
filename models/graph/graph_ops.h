/* What the op files share with graph.c; nobody else includes it. */
#ifndef XT_MODELS_GRAPH_GRAPH_OPS_H
#define XT_MODELS_GRAPH_GRAPH_OPS_H

#include "models/graph/graph.h"

/* Appends an op of `size` bytes, which the graph owns; NULL with err set on failure. */
void *xt_graph_add_op(struct xt_graph *graph, size_t size, const struct xt_op_class *class,
                      const char *name, struct xt_err *err);
struct xt_tensor *xt_graph_add_tensor(struct xt_graph *graph, const char *name, int n, int h, int w,
                                      int c, enum xt_dtype dtype, struct xt_err *err);
/* Registers the op as a reader; returns which of the tensor's gradients is its to write, -1 with
 * err set. */
int xt_graph_read(struct xt_tensor *tensor, struct xt_err *err);
/* Adds a parameter, or finds it in an existing params; its index, -1 with err set. */
int xt_graph_param(struct xt_graph *graph, const struct xt_param *param, struct xt_err *err);

int xt_op_forward_time(const struct xt_op *op);
int xt_op_backward_time(const struct xt_graph *graph, const struct xt_op *op);

/* The buffer is alive at `time`; created where there is none yet. */
enum xt_status xt_graph_use_value(struct xt_graph *graph, struct xt_tensor *tensor, int time,
                                  struct xt_err *err);
enum xt_status xt_graph_use_grad(struct xt_graph *graph, struct xt_tensor *tensor, int reader,
                                 int time, struct xt_err *err);
struct xt_buffer *xt_graph_add_buffer(struct xt_graph *graph, const char *tensor, const char *kind,
                                      size_t bytes, struct xt_err *err);
void xt_buffer_use(struct xt_buffer *buffer, int time);

/* This thread's scratch for the loops. */
float *xt_graph_loop_scratch(const struct xt_graph *graph);

/* Moves an op behind all that have been described so far. */
void xt_graph_run_last(struct xt_graph *graph, struct xt_op *op);

#define XT_BN_EPS 1e-5
#define XT_BN_MOMENTUM 0.1

/* A norm as part of the convolution before it. */
struct xt_fold {
    struct xt_norm_params params;
    struct xt_tensor *residual;
    bool relu;
};
/* op_conv.c: whether `out` is the output of a convolution without ReLU, and not read yet; and the
 * residual (NULL: none) is not what that convolution reads, since it could not be written over. */
bool xt_conv_can_absorb(const struct xt_graph *graph, const struct xt_tensor *out,
                        const struct xt_tensor *residual);
/* The convolution takes the norm into its weights and bias and adds the residual (NULL: none) in
 * the residual's own memory, which is `out` from then on; it runs behind all ops described so far.
 */
enum xt_status xt_conv_absorb(struct xt_graph *graph, struct xt_tensor *out,
                              const struct xt_fold *fold, struct xt_err *err);

/* op_pool.c: a pool by itself, in inference; the window's out_h and out_w are set. An average is in
 * float32. */
struct xt_tensor *xt_graph_pool(struct xt_graph *graph, struct xt_tensor *in,
                                const struct xt_window *window, bool average, const char *name,
                                struct xt_err *err);

/* op_conv.c: the primitives alone, without the ReLU's backward. */
enum xt_status xt_conv_run_alone(struct xt_op *op, struct xt_graph *graph, bool backward,
                                 struct xt_err *err);
extern const struct xt_op_class xt_op_conv;

#endif
