/* Who runs a graph's ops. A back end is this table and what its overrides run: everything else
 * follows from the ops' descriptions (ops.h). All constant.
 */
#ifndef XT_ENGINE_BACKEND_H
#define XT_ENGINE_BACKEND_H

#include "engine/ops/ops.h"

/* Samples [first, first + count), which a worker takes. */
struct xt_slice {
    int worker;
    int first, count;
    bool begins, ends; /* the worker's first; its last one */
};

/* An op that goes by slices (slices.h). `second` is false for the sums of a norm, else true. */
struct xt_by_slices {
    /* NULL: always. Asked before the op is described. In inference a back end's whole pass goes by
     * slices or none of it. */
    bool (*can)(const struct xt_op *op, const struct xt_graph *graph, bool backward);
    /* Once, before the first slice and after the last one; NULL: nothing. */
    enum xt_status (*begin)(struct xt_op *op, struct xt_graph *graph, bool backward, bool second,
                            struct xt_err *err);
    enum xt_status (*end)(struct xt_op *op, struct xt_graph *graph, bool backward, bool second,
                          struct xt_err *err);
    /* One slice, in the caller's thread. */
    enum xt_status (*forward)(struct xt_op *op, struct xt_graph *graph, bool second,
                              const struct xt_slice *slice, struct xt_err *err);
    enum xt_status (*backward)(struct xt_op *op, struct xt_graph *graph, bool second,
                               const struct xt_slice *slice, struct xt_err *err);
};

/* What a back end runs instead of a kind's program. */
struct xt_override {
    const struct xt_op_kind *kind;
    /* Says which buffers are used when, and what runs (own_name); the description is left out,
     * unless this calls it. NULL: the program is described, and runs where a function below is
     * NULL. */
    void (*prepare)(struct xt_op *op, struct xt_graph *graph);
    enum xt_status (*forward)(struct xt_op *op, struct xt_graph *graph, struct xt_err *err);
    enum xt_status (*backward)(struct xt_op *op, struct xt_graph *graph, struct xt_err *err);
    /* Whether what the op gives can be made again before its backward pass, to the same bits, from
     * what is kept for that anyway; and does so, into the values whose `again` is not 0. NULL: it
     * cannot. */
    bool (*can_recompute)(const struct xt_op *op);
    void (*recompute)(struct xt_op *op, struct xt_graph *graph);
    const struct xt_by_slices *by_slices; /* NULL: it always runs whole */
};

struct xt_backend {
    bool averages_in_f32;
    bool any_pass;      /* a pass may be another than the options say */
    bool by_slices;     /* a pass may go by slices */
    bool master_format; /* trained weights lie as their gradient's primitive writes them */
    /* What a primitive adds to its result has to be of the result's own type, whatever oneDNN is
     * told (3.13). */
    bool adds_own_type;
    enum xt_status (*begin)(struct xt_graph *graph, struct xt_err *err); /* NULL: nothing */
    /* The weights' copies that loops can make (xt_conv_op's `copies`); NULL: primitives make all.
     */
    enum xt_status (*copy_weights)(struct xt_graph *graph, struct xt_err *err);
    const struct xt_override *overrides; /* ends in one without a kind */
};

extern const struct xt_backend xt_backend_cpu, xt_backend_xpu;
/* The CPU with no overrides: every op is its program, as on an XPU. Slower; for tests. */
extern const struct xt_backend xt_backend_programs;

/* The one for the device. */
const struct xt_backend *xt_backend_of(const struct xt_device *device);
/* NULL: the op's program runs. */
const struct xt_override *xt_backend_override(const struct xt_backend *backend,
                                              const struct xt_op_kind *kind);

#endif
