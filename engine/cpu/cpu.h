/* The CPU's overrides of primitives by the project's own loops (loops.h), parallel over samples,
 * where they are faster. One file per kind; cpu.c lists them. */
#pragma once

#include "engine/backend.h"

/* Whether it has left the caches when a later op reads it. */
bool xt_cpu_is_large(const struct xt_tensor *tensor);

void xt_cpu_input_prepare(struct xt_op *op, struct xt_graph *graph);
enum xt_status xt_cpu_input_forward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err);

void xt_cpu_conv_prepare(struct xt_op *op, struct xt_graph *graph);
enum xt_status xt_cpu_conv_refresh(struct xt_op *op, struct xt_graph *graph, struct xt_err *err);
enum xt_status xt_cpu_conv_forward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err);
enum xt_status xt_cpu_conv_backward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err);

/* What a profile calls loops of this CPU's vectors. */
const char *xt_cpu_vectors_name(const struct xt_graph *graph);

/* A convolution's weight gradient by loops (loops/weight_grad_job.h), in place of its primitive. */
struct xt_cpu_weight_grad {
    struct xt_weight_grad job;
    xt_weight_grad_loop *loop;
    struct xt_buffer *scratch;
    bool is_shared; /* the weight */
};
/* NULL: none is faster than the primitive. */
xt_weight_grad_loop *xt_cpu_weight_grad_loop(const struct xt_conv_op *conv,
                                             const struct xt_graph *graph);
/* The job's shape, before it is prepared; the format of the weights that it writes. */
struct xt_weight_grad xt_cpu_weight_grad_describe(const struct xt_conv_op *conv);
dnnl_format_tag_t xt_cpu_weight_grad_format(const struct xt_weight_grad *job);
/* Plans its work and memory, before the op is described. */
void xt_cpu_weight_grad_prepare(struct xt_cpu_weight_grad *weight_grad, struct xt_conv_op *conv,
                                struct xt_graph *graph, xt_weight_grad_loop *loop);
enum xt_status xt_cpu_weight_grad_backward(struct xt_cpu_weight_grad *weight_grad,
                                           const struct xt_op *op, const struct xt_graph *graph,
                                           struct xt_err *err);
/* By slices: before the first one sets its memory, one of them in the caller's thread, after the
 * last one adds up what the workers' parts are. */
enum xt_status xt_cpu_weight_grad_place(struct xt_cpu_weight_grad *weight_grad,
                                        const struct xt_op *op, const struct xt_graph *graph,
                                        struct xt_err *err);
void xt_cpu_weight_grad_slice(const struct xt_cpu_weight_grad *weight_grad, const struct xt_op *op,
                              const struct xt_slice *slice);
void xt_cpu_weight_grad_add_up(const struct xt_cpu_weight_grad *weight_grad,
                               const struct xt_conv_op *conv, const struct xt_graph *graph);
/* The sum of its squares, for the gradients' norm. Of weights that another op has too the executor
 * adds up the gradients: it is not known. */
void xt_cpu_weight_grad_know_square(const struct xt_cpu_weight_grad *weight_grad,
                                    const struct xt_conv_op *conv, const struct xt_graph *graph,
                                    double square);

/* Beside it the input's gradient by a loop (loops/data_grad_job.h): for a high kernel and a low
 * output as in LPRNet's 13x1, the only case measured. */
struct xt_cpu_data_grad {
    struct xt_data_grad job;
    const struct xt_buffer *weights; /* NULL: this loop does not compute it */
};
bool xt_cpu_data_grad_can(const struct xt_conv_op *conv, struct xt_graph *graph);
/* Plans its memory, before the op is described. */
void xt_cpu_data_grad_prepare(struct xt_cpu_data_grad *data_grad, struct xt_conv_op *conv,
                              struct xt_graph *graph);
/* Of some samples, in the caller's thread. */
void xt_cpu_data_grad_backward(const struct xt_cpu_data_grad *data_grad, const struct xt_op *op,
                               const struct xt_graph *graph, int first, int count);

/* A convolution by Winograd's loops (loops/winograd_job.h), in place of its primitives. */
struct xt_cpu_winograd {
    bool weights_alone; /* training: only their gradient; the rest is by tiles */
    struct xt_winograd output, input_grad;
    struct xt_winograd_grad weight_grad;
    struct xt_location master;       /* training: the weights */
    struct xt_buffer *stored;        /* NULL: their transform is not kept; int8: the weights */
    struct xt_buffer *stored_turned; /* for the input's gradient */
    struct xt_buffer *group_grads;   /* NULL: the weights' gradient needs no sum of groups */
    struct xt_buffer *bias, *scale;  /* int8: in the output's steps; else NULL */
};
/* Whether these loops can run it, and are faster than its primitives. */
bool xt_cpu_winograd_can(const struct xt_conv_op *conv, struct xt_graph *graph);
/* Whether tiles compute the output and the input's gradient then. */
bool xt_cpu_winograd_leaves_to_tiles(const struct xt_conv_op *conv, const struct xt_graph *graph);
/* Plans its work and memory, before the op is described. */
void xt_cpu_winograd_prepare(struct xt_cpu_winograd *winograd, struct xt_conv_op *conv,
                             struct xt_graph *graph);
/* Inference: transforms the weights, which are staged with the norm folded into them, if any;
 * int8's are sorted, and decide on the tiles. */
enum xt_status xt_cpu_winograd_fold(struct xt_cpu_winograd *winograd, const struct xt_conv_op *conv,
                                    const struct xt_graph *graph, struct xt_err *err);
enum xt_status xt_cpu_winograd_forward(const struct xt_cpu_winograd *winograd,
                                       const struct xt_op *op, const struct xt_graph *graph,
                                       struct xt_err *err);
enum xt_status xt_cpu_winograd_backward(const struct xt_cpu_winograd *winograd,
                                        const struct xt_op *op, const struct xt_graph *graph,
                                        struct xt_err *err);
/* By slices: before the first one, one of them in the caller's thread, after the last one of a
 * backward pass. */
enum xt_status xt_cpu_winograd_begin(const struct xt_cpu_winograd *winograd, const struct xt_op *op,
                                     const struct xt_graph *graph, bool backward,
                                     struct xt_err *err);
enum xt_status xt_cpu_winograd_forward_slice(const struct xt_cpu_winograd *winograd,
                                             const struct xt_op *op, const struct xt_graph *graph,
                                             const struct xt_slice *slice, struct xt_err *err);
enum xt_status xt_cpu_winograd_backward_slice(const struct xt_cpu_winograd *winograd,
                                              const struct xt_op *op, const struct xt_graph *graph,
                                              const struct xt_slice *slice, struct xt_err *err);
enum xt_status xt_cpu_winograd_end(const struct xt_cpu_winograd *winograd, const struct xt_op *op,
                                   const struct xt_graph *graph, struct xt_err *err);

/* A 1x1 convolution of a training graph by loops (loops/pointwise_job.h), in place of its
 * primitives except for the weights' gradient. */
struct xt_cpu_pointwise {
    struct xt_pointwise output, input_grad;
    struct xt_location master; /* the weights */
    struct xt_buffer *turned;  /* transposed for the input's gradient; NULL: that is not needed */
};
/* If the back end's loops write its weights' gradient. */
bool xt_cpu_pointwise_can(const struct xt_conv_op *conv, struct xt_graph *graph);
/* Plans its work and memory, before the op is described. */
void xt_cpu_pointwise_prepare(struct xt_cpu_pointwise *pointwise, struct xt_conv_op *conv,
                              struct xt_graph *graph);
enum xt_status xt_cpu_pointwise_forward(const struct xt_cpu_pointwise *pointwise,
                                        const struct xt_op *op, const struct xt_graph *graph,
                                        struct xt_err *err);
/* The input's gradient, at the pixels that are read. */
enum xt_status xt_cpu_pointwise_backward(const struct xt_cpu_pointwise *pointwise,
                                         const struct xt_op *op, const struct xt_graph *graph,
                                         struct xt_err *err);

/* A convolution in training by matrix tiles (loops/tile_conv_job.h), in place of its
 * primitives except for the weights' gradient. */
struct xt_cpu_tile_conv {
    struct xt_tile_conv output;
    struct xt_tile_conv input_grads[XT_TILE_CONV_PHASES_MAX];
    int phase_count; /* of the input's gradient; 0: another loop computes it, or it is not needed */
    int shares; /* of the output's channels, among which threads are divided; inference alone */
    struct xt_buffer *weights, *turned; /* copies; turned: for the input's gradient */
};
/* If the back end's loops write its weights' gradient. */
bool xt_cpu_tile_conv_can(const struct xt_conv_op *conv, const struct xt_graph *graph);
/* Whether the input's gradient is among what they compute. */
bool xt_cpu_tile_conv_can_input_grad(const struct xt_conv_op *conv);
bool xt_cpu_tile_conv_can_infer(const struct xt_conv_op *conv, const struct xt_graph *graph);
/* Plans its work and memory, before the op is described. out_is_row: of the weights' blocks. */
void xt_cpu_tile_conv_prepare(struct xt_cpu_tile_conv *tiles, struct xt_conv_op *conv,
                              struct xt_graph *graph, bool out_is_row, bool input_grad);
void xt_cpu_tile_conv_prepare_inference(struct xt_cpu_tile_conv *tiles, struct xt_conv_op *conv,
                                        struct xt_graph *graph);
/* Inference: takes the weights that are staged. */
void xt_cpu_tile_conv_refresh(const struct xt_cpu_tile_conv *tiles, const struct xt_graph *graph);
/* slice NULL: the batch. */
void xt_cpu_tile_conv_forward(const struct xt_cpu_tile_conv *tiles, const struct xt_op *op,
                              const struct xt_graph *graph, const struct xt_slice *slice);
void xt_cpu_tile_conv_backward(const struct xt_cpu_tile_conv *tiles, const struct xt_op *op,
                               const struct xt_graph *graph, const struct xt_slice *slice);
/* A job of the input's gradient that has its source and weights, with what belongs to the op. */
void xt_cpu_tile_conv_input_grad(const struct xt_tile_conv *job, const struct xt_op *op,
                                 const struct xt_graph *graph, const struct xt_slice *slice);

/* Computes one of an op's parts. */
typedef void xt_cpu_part(const void *context, const struct xt_graph *graph, int part);
/* How many parts of an op's work keep threads busy that are not equally fast. */
int xt_cpu_parts(const struct xt_graph *graph);
/* Runs all parts: each thread takes its own, in order, then what others have not begun, so that
 * none waits long for a slower core (a desktop CPU's efficient ones, or one that another process
 * uses too). Only where no result depends on the thread. */
void xt_cpu_share_out(const struct xt_graph *graph, int parts, xt_cpu_part *work,
                      const void *context);

/* Part `part` of `parts` of so many pixels, in units of what the loops keep in registers: from
 * *first up to the returned end. */
int xt_cpu_pointwise_part(int pixels, int part, int parts, int *first);

/* Whether loops for int8 write the output, with the residual and the activation that it has. */
bool xt_cpu_writes_int8(const struct xt_conv_op *conv);
/* From the sums of an output channel of int8 to steps of the output. */
struct xt_cpu_int8_factors {
    float scale, bias;
};
struct xt_cpu_int8_factors xt_cpu_int8_factors(const struct xt_conv_op *conv, int channel);

/* A 1x1 convolution of inference by loops (loops/pointwise_infer_job.h), in place of its primitive.
 */
struct xt_cpu_pointwise_infer {
    struct xt_pointwise_infer job; /* without the tensors' memory */
    xt_pointwise_infer_loop *loop;
    struct xt_buffer *weights, *bias;
    struct xt_buffer *scale; /* NULL: not int8 */
    int groups, shares; /* of pixels, of the output's channels: parts are groups times shares */
};
bool xt_cpu_pointwise_infer_can(const struct xt_conv_op *conv, const struct xt_graph *graph);
/* Plans its memory, before the op is described. */
void xt_cpu_pointwise_infer_prepare(struct xt_cpu_pointwise_infer *pointwise,
                                    struct xt_conv_op *conv, struct xt_graph *graph);
/* From the weights that are staged, with the norm folded into them, if any. */
void xt_cpu_pointwise_infer_refresh(const struct xt_cpu_pointwise_infer *pointwise,
                                    const struct xt_conv_op *conv, const struct xt_graph *graph);
void xt_cpu_pointwise_infer_forward(const struct xt_cpu_pointwise_infer *pointwise,
                                    const struct xt_op *op, const struct xt_graph *graph);
void xt_cpu_pointwise_infer_forward_slice(const struct xt_cpu_pointwise_infer *pointwise,
                                          const struct xt_op *op, const struct xt_graph *graph,
                                          const struct xt_slice *slice);

/* A depthwise convolution of a training graph by loops (loops/depthwise_job.h), in place of its
 * primitives. */
struct xt_cpu_depthwise {
    struct xt_depthwise job;
    struct xt_location master;            /* of the weights, [c][taps] */
    struct xt_buffer *forward, *backward; /* the weights as the loops want them, for a pass */
    struct xt_buffer *sums;               /* [n][taps + 1][c], those of the weights' gradient */
};
/* Whether it is one with a job that the loops can describe. */
bool xt_cpu_depthwise_is(const struct xt_conv_op *conv);
/* The whole output of a sample, with ReLU if that follows; without its bias. */
struct xt_depthwise xt_cpu_depthwise_describe(const struct xt_conv_op *conv);
/* Weights from [c][taps] to the loops' order, rounded as the job's type has them. */
void xt_cpu_depthwise_sort(const struct xt_depthwise *job, const float *from, bool backward,
                           float *to);
bool xt_cpu_depthwise_can(const struct xt_conv_op *conv, const struct xt_graph *graph);
/* Plans its memory, before the op is described. */
void xt_cpu_depthwise_prepare(struct xt_cpu_depthwise *depthwise, struct xt_conv_op *conv,
                              struct xt_graph *graph);
/* Before the first sample, and after the last one; then samples, in any order and by any thread:
 * the output, or both gradients. */
enum xt_status xt_cpu_depthwise_begin(const struct xt_cpu_depthwise *depthwise,
                                      const struct xt_op *op, bool backward, struct xt_err *err);
enum xt_status xt_cpu_depthwise_end(const struct xt_cpu_depthwise *depthwise,
                                    const struct xt_op *op, const struct xt_graph *graph,
                                    struct xt_err *err);
void xt_cpu_depthwise_forward(const struct xt_cpu_depthwise *depthwise, const struct xt_op *op,
                              const struct xt_graph *graph, int n);
void xt_cpu_depthwise_backward(const struct xt_cpu_depthwise *depthwise, const struct xt_op *op,
                               const struct xt_graph *graph, int n);

/* The same of an inference graph, in int8 too. */
struct xt_cpu_depthwise_infer {
    struct xt_depthwise job;
    struct xt_buffer *weights, *bias;
    struct xt_buffer *scale; /* NULL: not int8 */
};
bool xt_cpu_depthwise_infer_can(const struct xt_conv_op *conv, const struct xt_graph *graph);
/* Plans its memory, before the op is described. */
void xt_cpu_depthwise_infer_prepare(struct xt_cpu_depthwise_infer *depthwise,
                                    struct xt_conv_op *conv, struct xt_graph *graph);
/* From the weights that are staged, with the norm folded into them, if any. */
void xt_cpu_depthwise_infer_refresh(const struct xt_cpu_depthwise_infer *depthwise,
                                    const struct xt_conv_op *conv, const struct xt_graph *graph);
void xt_cpu_depthwise_infer_forward(const struct xt_cpu_depthwise_infer *depthwise,
                                    const struct xt_op *op, const struct xt_graph *graph);
void xt_cpu_depthwise_infer_forward_slice(const struct xt_cpu_depthwise_infer *depthwise,
                                          const struct xt_op *op, const struct xt_graph *graph,
                                          const struct xt_slice *slice);

void xt_cpu_norm_prepare(struct xt_op *op, struct xt_graph *graph);
enum xt_status xt_cpu_norm_forward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err);
enum xt_status xt_cpu_norm_backward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err);
/* Whether the loops that run a convolution form a norm's sums; also before it is prepared. */
bool xt_cpu_conv_forms_sums(const struct xt_op *op, struct xt_graph *graph, bool backward);
bool xt_cpu_norm_can_recompute(const struct xt_op *op);
void xt_cpu_norm_recompute(struct xt_op *op, struct xt_graph *graph);
/* A norm's sums by the loops of a convolution (xt_conv_op's sums_for): whether this pass uses the
 * statistics; what the gradient's are formed of, from a sample on; before a part of the pixels and,
 * forward, after it, in the caller's thread. A pivot that is written is the first of the thread's
 * scratch. */
bool xt_cpu_norm_wants_sums(const struct xt_op *op, const struct xt_graph *graph);
struct xt_norm_sums xt_cpu_norm_gradient(const struct xt_op *op, int sample);
void xt_cpu_norm_begin_part(const struct xt_op *op, const struct xt_graph *graph, bool backward,
                            int part, struct xt_norm_sums *of);
void xt_cpu_norm_end_part(const struct xt_op *op, const struct xt_graph *graph, int part,
                          int pixels, const struct xt_norm_sums *of);

/* Whether its weights have the format in which its loops write their gradient, as trained weights
 * without values do. */
bool xt_cpu_weights_are(const struct xt_conv_op *conv, struct xt_graph *graph,
                        dnnl_format_tag_t format);
/* A copy that is written together with those of oneDNN's kernels; its memory. */
struct xt_buffer *xt_cpu_add_weight_copy(struct xt_conv_op *conv, struct xt_graph *graph,
                                         const struct xt_weight_copy *copy);
enum xt_status xt_cpu_copy_weights(struct xt_graph *graph, struct xt_err *err);
void xt_cpu_copy_values(struct xt_graph *graph, size_t offset, size_t count);

extern const struct xt_by_slices xt_cpu_input_by_slices, xt_cpu_conv_by_slices,
    xt_cpu_norm_by_slices, xt_cpu_pool_by_slices, xt_cpu_dropout_by_slices,
    xt_cpu_context_by_slices, xt_cpu_gelu_by_slices, xt_cpu_program_by_slices;

void xt_cpu_pool_prepare(struct xt_op *op, struct xt_graph *graph);
enum xt_status xt_cpu_pool_forward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err);

enum xt_status xt_cpu_dropout_forward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err);
enum xt_status xt_cpu_dropout_backward(struct xt_op *op, struct xt_graph *graph,
                                       struct xt_err *err);

bool xt_cpu_program_can_slice(const struct xt_op *op, struct xt_graph *graph, bool backward,
                              int samples);
enum xt_status xt_cpu_program_forward_slice(struct xt_op *op, struct xt_graph *graph, bool second,
                                            const struct xt_slice *slice, struct xt_err *err);
void xt_cpu_gelu_prepare(struct xt_op *op, struct xt_graph *graph);
enum xt_status xt_cpu_gelu_forward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err);
enum xt_status xt_cpu_gelu_backward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err);

void xt_cpu_axis_map_prepare(struct xt_op *op, struct xt_graph *graph);
enum xt_status xt_cpu_axis_map_forward(struct xt_op *op, struct xt_graph *graph,
                                       struct xt_err *err);
enum xt_status xt_cpu_axis_map_backward(struct xt_op *op, struct xt_graph *graph,
                                        struct xt_err *err);

void xt_cpu_grid_sample_prepare(struct xt_op *op, struct xt_graph *graph);
enum xt_status xt_cpu_grid_sample_forward(struct xt_op *op, struct xt_graph *graph,
                                          struct xt_err *err);
enum xt_status xt_cpu_grid_sample_backward(struct xt_op *op, struct xt_graph *graph,
                                           struct xt_err *err);

void xt_cpu_recurrence_prepare(struct xt_op *op, struct xt_graph *graph);
enum xt_status xt_cpu_recurrence_forward(struct xt_op *op, struct xt_graph *graph,
                                         struct xt_err *err);
enum xt_status xt_cpu_recurrence_backward(struct xt_op *op, struct xt_graph *graph,
                                          struct xt_err *err);

void xt_cpu_gate_prepare(struct xt_op *op, struct xt_graph *graph);
enum xt_status xt_cpu_gate_backward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err);

void xt_cpu_context_prepare(struct xt_op *op, struct xt_graph *graph);
enum xt_status xt_cpu_context_forward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err);
enum xt_status xt_cpu_context_backward(struct xt_op *op, struct xt_graph *graph,
                                       struct xt_err *err);
