/* A graph's life: created, described (graph.h), planned, built for its device, run.
 *
 * Each op runs its program, or the override of the device's back end (backend.h).
 */
#pragma once

#include "engine/graph.h"

enum xt_status xt_graph_create(struct xt_graph **out, const struct xt_graph_options *options,
                               struct xt_err *err);
void xt_graph_destroy(struct xt_graph *graph);

/* Describes every op's program and plans memory; allocates none. `logits` is the last tensor, whose
 * gradient the loss writes; NULL if describing failed, whose error is returned here. A tensor that
 * is too large for one allocation of the device is XT_ERR_MEMORY. */
enum xt_status xt_graph_plan(struct xt_graph *graph, struct xt_tensor *logits, struct xt_err *err);
/* Plans, if not yet done, and allocates. */
enum xt_status xt_graph_build(struct xt_graph *graph, struct xt_tensor *logits, struct xt_err *err);

/* Bytes of the arena that are working copies of the parameters; once planned. */
size_t xt_graph_working_bytes(const struct xt_graph *graph);
/* Bytes of its host memory that have not been touched yet. */
size_t xt_graph_untouched_bytes(const struct xt_graph *graph);

/* The pass is graph->pass, set by the caller. */
enum xt_status xt_graph_forward(struct xt_graph *graph, struct xt_err *err);
/* After a forward pass with pass.training and after the loss has written the logits' gradient. */
enum xt_status xt_graph_backward(struct xt_graph *graph, struct xt_err *err);

/* What changes the parameters' values may write their working copies at once, in its own threads,
 * which reads memory once less than before the next pass: if it can, for every range of one
 * parameter that changes (an offset of whole blocks of 16 by 16 from the parameter's; graph is a
 * struct xt_graph), and values_copied once params->version has been raised. */
bool xt_graph_can_copy_values(const struct xt_graph *graph);
void xt_graph_copy_values(void *graph, size_t offset, size_t count);
void xt_graph_values_copied(struct xt_graph *graph);

/* Runs the convolutions' primitives alone, forward and backward, on arbitrary data: a lower bound
 * of a step's time. All are oneDNN's, even those that the back end overrides. Needs
 * options.lower_bound. */
enum xt_status xt_graph_convolutions_alone(struct xt_graph *graph, bool training,
                                           struct xt_err *err);

/* Seconds of the same primitives in the formats that oneDNN prefers, each the fastest of `runs`
 * runs in a row, on random data in memory of its own: what a perfect program on oneDNN's
 * convolutions would take. The CPU's alone. XT_INTERRUPTED or XT_STOPPED by a signal. */
enum xt_status xt_graph_convolutions_free(struct xt_graph *graph, int runs, double *seconds,
                                          struct xt_err *err);

float *xt_graph_logits(struct xt_graph *graph);      /* [n][h * w][c], on the host */
float *xt_graph_logits_grad(struct xt_graph *graph); /* the same shape */

/* Whether average pools of a 16-bit tensor compute in float32, else in the tensor's type. */
bool xt_graph_averages_in_f32(const struct xt_graph *graph);
const char *xt_op_kind_name(const struct xt_op *op); /* "convolution" */
/* By its name, the length of the name of the layer that an op is a part of; 0: of none. */
int xt_op_layer_length(const char *name);
bool xt_op_shares_layer(const char *name, const char *other);
/* The end of the ops, from this one on, that are parts of one layer of the network's description,
 * such as the steps of a recurrent one; the next op for others. *length: of the layer's name, with
 * which theirs begin, or of the op's own. */
int xt_graph_layer_end(const struct xt_graph *graph, int first, int *length);
/* For the placement table: "jit:avx512_core_amx", "xtrain loops" or "xtrain AMX"; "" if nothing
 * runs. */
const char *xt_op_implementation(const struct xt_op *op, bool backward);

/* ---- one op alone, for tests: all its buffers are alive while it runs, so inputs can be written
 * before and outputs read after ---- */

/* Runs op `index` as a pass would; forward, index op_count is the work after the last op. */
enum xt_status xt_graph_run_op(struct xt_graph *graph, int index, bool backward,
                               struct xt_err *err);
/* A buffer's `count` elements of type dtype from and to float32. */
enum xt_status xt_graph_write(struct xt_graph *graph, const struct xt_buffer *buffer,
                              enum xt_dtype dtype, const float *from, size_t count,
                              struct xt_err *err);
enum xt_status xt_graph_read_back(struct xt_graph *graph, const struct xt_buffer *buffer,
                                  enum xt_dtype dtype, float *to, size_t count, struct xt_err *err);
