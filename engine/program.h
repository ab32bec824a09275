/* A program: lists of oneDNN primitives on a device's memory, described once for every device,
 * created and bound when its memories have addresses, then run in order.
 *
 * A program is described through the functions below; each appends one primitive to a phase. A
 * primitive's operands are places in device memory with their layouts. The first error is stored in
 * *err, and later calls do nothing: a description needs no checks but one at its end. Places must
 * be on the program's own device, which binding checks. Not thread-safe.
 *
 * Two primitives of oneDNN are not used because of their behaviour on an XPU (3.13): `reduction`
 * does not compile on every driver, `sum` ignores its scales.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "device/device.h"
#include "device/dropout.h"
#include "engine/tensor.h"

/* BEFORE runs when its source, e.g. weights, has changed; COMPUTED before FORWARD, in inference
 * only when the parameters have changed of which its source is computed. */
enum xt_phase {
    XT_BEFORE,
    XT_COMPUTED,
    XT_FORWARD,
    XT_BACKWARD,
    XT_SET_ASIDE, /* gradients that other ops wrote, before XT_BACKWARD */
    XT_ADD,       /* those again, behind it */
    XT_PHASES
};

/* Memory that has an address by the time of binding: a buffer of a graph's arena, or a memory of
 * its own, from *floats_before (NULL: 0) float32 numbers and `bytes` on. */
struct xt_location {
    const struct xt_buffer *buffer;
    const struct xt_device_memory *memory;
    const size_t *floats_before;
    size_t bytes;
};

enum { XT_OPERAND_DIMS_MAX = 5 };

struct xt_operand {
    struct xt_location place;
    dnnl_data_type_t dtype;
    int ndims;
    dnnl_dims_t dims;
    dnnl_dims_t strides; /* elements */
    dnnl_dims_t offsets; /* of the first element that belongs to it, along each dimension */
    /* If all operands of a common primitive below are slices: of how many workers at a time, and
     * the bytes of a sample. 0: of the batch. */
    int workers;
    size_t sample;
};

struct xt_location xt_in_buffer(const struct xt_buffer *buffer);
struct xt_location xt_in_memory(const struct xt_device_memory *memory);
struct xt_location xt_in_arena(const struct xt_device_memory *memory, const size_t *floats_before);

/* [n][c][h][w] as the tensor lies in a buffer of its own type: N, H, W, C. */
struct xt_operand xt_operand_tensor(const struct xt_tensor *tensor, const struct xt_buffer *buffer);
/* Dense, row-major, of any number of dimensions; matrices of [rows][columns]. */
struct xt_operand xt_operand_dense(struct xt_location place, dnnl_data_type_t dtype, int ndims,
                                   const int64_t *dims);
struct xt_operand xt_operand_matrix(struct xt_location place, dnnl_data_type_t dtype, size_t rows,
                                    size_t columns);
struct xt_operand xt_operand_matrices(struct xt_location place, dnnl_data_type_t dtype,
                                      size_t count, size_t rows, size_t columns);
/* A transposed matrix, and one float32 number broadcast over N dimensions. */
struct xt_operand xt_operand_transposed(struct xt_operand matrix);
struct xt_operand xt_operand_scalar(struct xt_location place, int ndims);

/* The caller destroys *out. */
enum xt_status xt_operand_desc(const struct xt_operand *operand, dnnl_memory_desc_t *out,
                               struct xt_err *err);

/* Post-ops, applied to a result before it is written. */
enum xt_post_kind { XT_POST_ELTWISE, XT_POST_BINARY, XT_POST_SUM };
struct xt_post {
    enum xt_post_kind kind;
    dnnl_alg_kind_t alg;    /* ELTWISE: of x, with alpha and beta; BINARY: x alg with; SUM: none */
    float alpha, beta;      /* SUM: factor of the destination */
    dnnl_data_type_t dtype; /* SUM: the destination's type; undefined: the result's own */
    struct xt_operand with;
};
struct xt_post xt_then(dnnl_alg_kind_t alg, float alpha, float beta);
struct xt_post xt_then_with(dnnl_alg_kind_t alg, struct xt_operand with);
struct xt_post xt_then_sum(void); /* added to the destination */
enum { XT_POSTS_MAX = 8 };
struct xt_post_ops {
    int count;
    struct xt_post items[XT_POSTS_MAX];
};

struct xt_step;
struct xt_resource;
struct xt_own_program;

struct xt_program {
    struct xt_device *device;
    struct xt_err *err; /* the first error of describing */
    char name[64];      /* of the op, in errors */
    struct xt_step *steps[XT_PHASES];
    size_t count[XT_PHASES];
    size_t capacity[XT_PHASES];
    size_t scratchpad_bytes;       /* of its largest primitive */
    struct xt_resource *resources; /* layouts and attributes, until it is bound */
    size_t resource_count, resource_capacity;
};

/* If *err is not XT_OK, later calls do nothing; it outlives the describing. */
void xt_program_init(struct xt_program *program, struct xt_device *device, const char *name,
                     struct xt_err *err);
void xt_program_clear(struct xt_program *program);

/* ---- a primitive by hand: its parts, then xt_program_add and its arguments ---- */

bool xt_program_fails(const struct xt_program *program);
/* Stores the error of a oneDNN function; true on success. */
bool xt_program_check(struct xt_program *program, dnnl_status_t status, const char *what);
/* Owned by the program until it is bound; NULL after a failure. */
dnnl_memory_desc_t xt_program_layout(struct xt_program *program, const struct xt_operand *operand);
/* In one of oneDNN's formats; dnnl_format_tag_any: the primitive's preferred format. */
dnnl_memory_desc_t xt_program_layout_as(struct xt_program *program, dnnl_data_type_t dtype,
                                        int ndims, const int64_t *dims, dnnl_format_tag_t format);
/* Scratchpad by the user, and the post_ops (NULL: none). */
dnnl_primitive_attr_t xt_program_attr(struct xt_program *program,
                                      const struct xt_post_ops *post_ops);
/* Passes ownership of a descriptor that is a hint for others to the program. */
void xt_program_keep(struct xt_program *program, dnnl_primitive_desc_t hint);

/* Appends a primitive whose descriptor the caller made (taken over, also on failure); its arguments
 * follow with xt_step_arg, those of post_ops with xt_step_post_args. NULL after a failure, which
 * those take. The step moves when another is added. `what` names it in errors and is a constant. */
struct xt_step *xt_program_add(struct xt_program *program, enum xt_phase phase,
                               dnnl_primitive_desc_t pd, const char *what);
void xt_step_arg(struct xt_step *step, int arg, struct xt_location place);
/* The same for a step that is run by slices, with the bytes per sample (0: all share it). */
void xt_step_arg_samples(struct xt_step *step, int arg, struct xt_location place, size_t sample);
/* Scales of the argument: `count` float32 numbers, by its mask. */
void xt_step_scales(struct xt_step *step, int arg, struct xt_location place, int count);
void xt_step_post_args(struct xt_step *step, const struct xt_post_ops *post_ops);
/* The same with a kernel of the program's own (device/kernels/own.h) in place of a primitive; its
 * arguments, by their indices, follow with xt_step_arg and xt_step_number (32 bits). */
struct xt_own_launch {
    const struct xt_own_program *program;
    const char *kernel;
    size_t global[2], local[2];
};
struct xt_step *xt_program_add_own(struct xt_program *program, enum xt_phase phase,
                                   const struct xt_own_launch *launch, const char *what);
void xt_step_number(struct xt_step *step, int index, uint32_t number);
/* In errors, instead of its primitive's; a constant. */
void xt_step_name(struct xt_step *step, const char *what);
/* The step is run only by xt_program_run_lower_bound. */
void xt_step_is_lower_bound(struct xt_step *step);
void xt_step_is_lower_bound_alone(struct xt_step *step);

/* The step processes a slice's samples, run only by xt_program_run_slice, by up to `workers`
 * workers at a time. Its descriptor was created for one thread. */
void xt_step_by_slices(struct xt_program *program, struct xt_step *step, int workers);

/* The layout that a descriptor gives one of its arguments; NULL for no descriptor. */
const_dnnl_memory_desc_t xt_layout_of(const_dnnl_primitive_desc_t pd, dnnl_query_t what, int index);
size_t xt_layout_bytes(const_dnnl_memory_desc_t md); /* 0 for NULL */

/* ---- common primitives; `post_ops` may be NULL ---- */

/* The name of xt_program_reorder's and xt_program_dequantise's steps. */
extern const char xt_what_change[];
extern const char xt_what_binary[];
extern const char xt_what_eltwise[];
extern const char xt_what_matmul[];

void xt_program_reorder(struct xt_program *program, enum xt_phase phase,
                        const struct xt_operand *from, const struct xt_operand *to);
/* The same to or from the format of another primitive's argument. */
void xt_program_reorder_md(struct xt_program *program, enum xt_phase phase,
                           const_dnnl_memory_desc_t from_md, struct xt_location from,
                           const_dnnl_memory_desc_t to_md, struct xt_location to, const char *what);
/* int8 to the float32 numbers it represents: times the number at `scale`. */
void xt_program_dequantise(struct xt_program *program, enum xt_phase phase,
                           const struct xt_operand *from, struct xt_location scale,
                           const struct xt_operand *to);
/* a alg b; b may have 1 where a has more. */
void xt_program_binary(struct xt_program *program, enum xt_phase phase, dnnl_alg_kind_t alg,
                       const struct xt_operand *a, const struct xt_operand *b,
                       const struct xt_operand *to, const struct xt_post_ops *post_ops);
void xt_program_eltwise(struct xt_program *program, enum xt_phase phase, dnnl_alg_kind_t alg,
                        float alpha, float beta, const struct xt_operand *from,
                        const struct xt_operand *to);
/* Writes zeros, whatever the memory holds. */
void xt_program_zero(struct xt_program *program, enum xt_phase phase, const struct xt_operand *to);
/* Dropout in place, of a dense matrix, with these numbers (they outlive the program). False, adding
 * nothing, if oneDNN has no kernel for it, and after a failure. */
bool xt_program_dropout(struct xt_program *program, enum xt_phase phase,
                        const struct xt_operand *data, const struct xt_device_dropout *numbers);
/* The gradient before an element-wise function from the one behind it (they may be one memory);
 * `data` is its input, or its output for ReLU and the algorithms with `use_dst`. */
void xt_program_eltwise_backward(struct xt_program *program, dnnl_alg_kind_t alg, float alpha,
                                 float beta, const struct xt_operand *data,
                                 const struct xt_operand *behind, const struct xt_operand *before,
                                 const char *what);
/* No post-op may be BINARY: oneDNN passes that operand of a matrix product as a surface alone, and
 * Intel's OpenCL driver then writes 4 bytes 65535 bytes behind the kernel's arguments (its
 * Kernel::setArgSvmAlloc takes the offset that stands for "no address" for one). */
struct xt_step *xt_program_matmul(struct xt_program *program, enum xt_phase phase,
                                  const struct xt_operand *a, const struct xt_operand *b,
                                  const struct xt_operand *to, const struct xt_post_ops *post_ops);
/* Along the channels of [n][c][h][w]. */
void xt_program_concat(struct xt_program *program, enum xt_phase phase,
                       const struct xt_operand *parts, int count, const struct xt_operand *to);

/* ---- once addresses are known ---- */

/* Creates the program's primitive `index`; binding creates only the missing ones. Several threads
 * may create different ones. On an XPU a signal stops creation and binding between two of them,
 * with XT_INTERRUPTED or XT_STOPPED. */
enum xt_status xt_program_create(const struct xt_program *program, size_t index,
                                 struct xt_err *err);
/* Creates the primitives and their memories. `scratchpad` holds at least scratchpad_bytes. */
enum xt_status xt_program_bind(struct xt_program *program, struct xt_location scratchpad,
                               struct xt_err *err);
/* Ends the description of programs that share their error: reports it, as `what`'s, or allocates
 * one scratchpad for all on the device and binds them. */
enum xt_status xt_programs_bind(struct xt_program *programs, size_t count, const char *what,
                                struct xt_device_memory *scratchpad, struct xt_err *err);
size_t xt_program_count(const struct xt_program *program); /* primitives */

/* Starts a phase's primitives on the device's stream, without waiting. */
enum xt_status xt_program_run(const struct xt_program *program, enum xt_phase phase,
                              struct xt_err *err);
/* Runs a phase's sliced steps on the slice from sample `first` on, in the caller's thread. Workers
 * may run concurrently. */
enum xt_status xt_program_run_slice(const struct xt_program *program, enum xt_phase phase,
                                    int worker, int first, struct xt_err *err);
/* The same for the steps of the lower bound. */
enum xt_status xt_program_run_lower_bound(const struct xt_program *program, enum xt_phase phase,
                                          struct xt_err *err);
/* Gives the argument `arg` of a phase's primitive `index` another address. */
enum xt_status xt_program_point(struct xt_program *program, enum xt_phase phase, size_t index,
                                int arg, const struct xt_location *place, struct xt_err *err);
/* oneDNN's name for what runs as `what` in that phase; NULL: for the last step that is more than a
 * change of type, if there is one. "" if there is none. */
const char *xt_program_implementation(const struct xt_program *program, enum xt_phase phase,
                                      const char *what);
/* The device address of a place; NULL with err set if it is on no device or another one. */
void *xt_program_address(const struct xt_program *program, const struct xt_location *place,
                         struct xt_err *err);
