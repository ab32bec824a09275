/* The ops on an XPU, each a program of oneDNN's primitives (xpu_program.h). ops.h has what they are
 * described by; this is shared by the xpu_*.c files and the functions that pick an op's class.
 */
#ifndef XT_MODELS_GRAPH_XPU_OPS_H
#define XT_MODELS_GRAPH_XPU_OPS_H

#include "models/graph/ops.h"
#include "models/graph/xpu_program.h"

extern const struct xt_op_class xt_xpu_input;
extern const struct xt_op_class xt_xpu_conv;
extern const struct xt_op_class xt_xpu_norm;
extern const struct xt_op_class xt_xpu_pool;
extern const struct xt_op_class xt_xpu_dropout;
extern const struct xt_op_class xt_xpu_context;

/* What a graph has of its own on an XPU. */
struct xt_xpu_graph {
    struct xt_device_memory arena[XT_PLAN_SEGMENTS_MAX]; /* its segments */
    struct xt_xpu_pinned *pinned;                        /* what ops have asked for */
    size_t pinned_count, pinned_capacity;
    struct xt_device_memory logits, logits_grad; /* pinned, on the host: what crosses each step */
    struct xt_device_memory batch_stats;         /* as params' statistics: of the pass's batch */
    struct xt_device_memory keep, gain;          /* the same layout: running = keep * running +
                                                    gain * of the batch */
    struct xt_device_memory scales;              /* int8: of each tensor, by its index */
    size_t scale_at[XT_TENSORS_MAX];             /* floats before each of them */
    struct xt_xpu_program crossing;              /* logits down, their gradient up */
    struct xt_xpu_program statistics;            /* the running statistics' update */
};

static inline bool xt_on_xpu(const struct xt_graph *graph)
{
    return graph->options.device->kind == XT_DEVICE_XPU;
}

/* The op's program, empty at first. The graph destroys it. */
enum xt_status xt_xpu_op_begin(struct xt_op *op, struct xt_graph *graph, struct xt_err *err);
/* For classes that add nothing of their own. */
enum xt_status xt_xpu_op_forward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err);
enum xt_status xt_xpu_op_backward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err);
enum xt_status xt_xpu_op_before(struct xt_op *op, struct xt_graph *graph, struct xt_err *err);

/* A buffer that is alive at `time` alone, and one that always is. */
struct xt_buffer *xt_xpu_temporary(struct xt_graph *graph, const struct xt_tensor *tensor,
                                   size_t bytes, int time, struct xt_err *err);
struct xt_buffer *xt_xpu_permanent(struct xt_graph *graph, const char *owner, const char *kind,
                                   size_t bytes, struct xt_err *err);
/* Asks for pinned memory of the host, laid out as the operand is, wherever that is: *out, which
 * stays where it is and is the caller's to destroy, has it once the graph is built. `what` names it
 * in errors and is a constant. */
enum xt_status xt_xpu_pin(struct xt_graph *graph, const struct xt_xpu_operand *operand,
                          const char *what, struct xt_device_memory *out, struct xt_err *err);
/* Where a parameter's value, statistic or gradient lies on the device. */
struct xt_xpu_place xt_xpu_value_of(const struct xt_graph *graph, int param);
struct xt_xpu_place xt_xpu_grad_of(const struct xt_graph *graph, int param);
/* A channel vector's batch statistic. */
struct xt_xpu_place xt_xpu_batch_stat_of(const struct xt_graph *graph, int param);
/* What a step of an int8 tensor is worth. */
struct xt_xpu_place xt_xpu_scale_of(const struct xt_graph *graph, const struct xt_tensor *tensor);
/* `count` numbers that the host works out, in pinned memory as xt_xpu_pin gives it, and where the
 * device has its copy of them. */
enum xt_status xt_xpu_follow_host(struct xt_op *op, struct xt_graph *graph, const char *kind,
                                  size_t count, struct xt_device_memory *host,
                                  struct xt_xpu_place *out, struct xt_err *err);

/* A pool of `in` (values at `from`) as one primitive; *workspace is created for a training graph's
 * max pool. */
struct xt_xpu_pooling {
    const struct xt_tensor *in;
    const struct xt_buffer *from;
    const struct xt_tensor *out; /* an average is in float32 */
    const struct xt_window *window;
    bool average;
    bool training;
    int forward, backward; /* times */
    struct xt_buffer *workspace;
};
enum xt_status xt_xpu_pool_forward(struct xt_xpu_program *program, struct xt_graph *graph,
                                   struct xt_xpu_pooling *pool, struct xt_err *err);
/* The gradient at `to`, of the type of `in`. */
enum xt_status xt_xpu_pool_backward(struct xt_xpu_program *program, struct xt_graph *graph,
                                    const struct xt_xpu_pooling *pool, const struct xt_buffer *grad,
                                    const struct xt_buffer *to, struct xt_err *err);

/* ---- xpu_graph.c: what graph.c calls ---- */

/* Before any op prepares; and once all have. */
enum xt_status xt_xpu_graph_begin(struct xt_graph *graph, struct xt_err *err);
enum xt_status xt_xpu_graph_prepare(struct xt_graph *graph, struct xt_err *err);
/* Takes the arena; buffers get their addresses from it. */
enum xt_status xt_xpu_graph_allocate(struct xt_graph *graph, struct xt_err *err);
/* Makes all primitives. */
enum xt_status xt_xpu_graph_bind(struct xt_graph *graph, struct xt_err *err);
/* XT_ERR_RUN where the pass is not of the kind that the primitives were made for. */
enum xt_status xt_xpu_graph_check_pass(const struct xt_graph *graph, struct xt_err *err);
/* Waits until the logits are on the host. */
enum xt_status xt_xpu_graph_after_forward(struct xt_graph *graph, struct xt_err *err);
enum xt_status xt_xpu_graph_before_backward(struct xt_graph *graph, struct xt_err *err);
void xt_xpu_graph_destroy(struct xt_graph *graph);

#endif
