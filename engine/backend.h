/* What runs a graph's ops. A back end is this table and its overrides; everything else follows from
 * the ops' descriptions (ops.h). All constant.
 */
#pragma once

#include "engine/ops/ops.h"

/* Samples [first, first + count), processed by a worker. */
struct xt_slice {
    int worker;
    int first, count;
    bool begins, ends; /* the worker's first; its last one */
};

/* How an op runs by slices (slices.h). `second` is false for the sums of a norm, else true. */
struct xt_by_slices {
    /* By slices of so many samples; NULL: always. Called before the op is described. In inference
     * all ops of a pass run by slices of as many, or none does. */
    bool (*can)(const struct xt_op *op, struct xt_graph *graph, bool backward, int samples);
    /* Once, before the first slice and after the last one; NULL: nothing. */
    enum xt_status (*begin)(struct xt_op *op, struct xt_graph *graph, bool backward, bool second,
                            struct xt_err *err);
    enum xt_status (*end)(struct xt_op *op, struct xt_graph *graph, bool backward, bool second,
                          struct xt_err *err);
    /* One sample of a slice, in the caller's thread, for ops without the functions below. */
    void (*sample)(struct xt_op *op, struct xt_graph *graph, bool backward, bool second, int n);
    /* One slice, likewise. */
    enum xt_status (*forward)(struct xt_op *op, struct xt_graph *graph, bool second,
                              const struct xt_slice *slice, struct xt_err *err);
    enum xt_status (*backward)(struct xt_op *op, struct xt_graph *graph, bool second,
                               const struct xt_slice *slice, struct xt_err *err);
    /* Forward in training: whether it can write an output that others read in the same slices past
     * the caches, and for those to `held`; whether it would read its input there. NULL: no. Called
     * before the op is described. */
    bool (*holds)(const struct xt_op *op, struct xt_graph *graph, const struct xt_tensor *out);
    bool (*reads_held)(const struct xt_op *op, struct xt_graph *graph);
    /* Whether its input's gradient may lie where the input does, by slices or not; NULL: no. */
    bool (*writes_over)(const struct xt_op *op, struct xt_graph *graph);
};

/* What a back end runs instead of a kind's program. */
struct xt_override {
    const struct xt_op_kind *kind;
    /* Declares the use of buffers, and what runs (own_name); it replaces the description unless it
     * calls it. NULL: the program is described, and runs where a function below is NULL. */
    void (*prepare)(struct xt_op *op, struct xt_graph *graph);
    /* After the kind's own `refresh`; NULL: nothing. */
    enum xt_status (*refresh)(struct xt_op *op, struct xt_graph *graph, struct xt_err *err);
    enum xt_status (*forward)(struct xt_op *op, struct xt_graph *graph, struct xt_err *err);
    enum xt_status (*backward)(struct xt_op *op, struct xt_graph *graph, struct xt_err *err);
    /* Whether the op's outputs can be recomputed bit for bit before its backward pass from values
     * that are stored anyway; and recomputes those whose buffer's `recompute` is not 0. NULL: it
     * cannot. */
    bool (*can_recompute)(const struct xt_op *op);
    void (*recompute)(struct xt_op *op, struct xt_graph *graph);
    const struct xt_by_slices *by_slices; /* NULL: it runs whole */
};

struct xt_backend {
    bool averages_in_f32;
    bool any_pass;      /* a pass may differ from the options */
    bool by_slices;     /* passes may run by slices */
    bool master_format; /* trained weights have the format of their gradient's primitive */
    /* Where no kernel of the program's own copies weights (ops/layout_kernel.h): those of
     * convolutions without groups are H, W, I, O, and cast all at once; kernels take them so. */
    bool hwio;
    bool adds_in_norm; /* a norm's primitive may add the residual */
    /* The operand of a sum post-op must have the result's type, whatever type oneDNN is given
     * (3.13). */
    bool adds_own_type;
    enum xt_status (*begin)(struct xt_graph *graph, struct xt_err *err); /* NULL: nothing */
    /* Writes the weights' copies that loops can write (xt_conv_op's `copies`); NULL: primitives
     * write all.
     */
    enum xt_status (*copy_weights)(struct xt_graph *graph, struct xt_err *err);
    /* Writes those of the values [offset, offset + count) again, whole blocks of one parameter, in
     * the caller's thread. */
    void (*copy_values)(struct xt_graph *graph, size_t offset, size_t count);
    const struct xt_override *overrides; /* terminated by one without a kind */
};

extern const struct xt_backend xt_backend_cpu, xt_backend_xpu;
/* The CPU with no overrides: every op is its program, as on an XPU. Slower; for tests. */
extern const struct xt_backend xt_backend_programs;

/* The device's own. */
const struct xt_backend *xt_backend_of(const struct xt_device *device);
/* NULL: the op's program runs. */
const struct xt_override *xt_backend_override(const struct xt_backend *backend,
                                              const struct xt_op_kind *kind);
