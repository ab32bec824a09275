/* What runs on an XPU: lists of oneDNN primitives on device memory, described while an op prepares,
 * made and bound once its memories have addresses, then run in order.
 *
 * A program is described through the functions below; each appends one primitive to a phase. What a
 * primitive works on is an operand: a place in device memory and how it is laid out there. Places
 * must be on the program's own device, which binding checks. Not thread-safe.
 *
 * Two primitives of oneDNN are left out for what they do on an XPU (3.13): `reduction` does not
 * compile on every driver, `sum` ignores its scales.
 */
#ifndef XT_MODELS_GRAPH_XPU_PROGRAM_H
#define XT_MODELS_GRAPH_XPU_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "device/device.h"
#include "models/graph/graph.h"

/* BEFORE is run when what it copies has changed: weights, say. */
enum xt_xpu_phase { XT_XPU_BEFORE, XT_XPU_FORWARD, XT_XPU_BACKWARD, XT_XPU_PHASES };

/* Memory that has an address by the time of binding: a buffer of a graph's arena, or a memory of
 * its own, from *floats_before (NULL: 0) float32 numbers on. */
struct xt_xpu_place {
    const struct xt_buffer *buffer;
    const struct xt_device_memory *memory;
    const size_t *floats_before;
};

enum { XT_XPU_DIMS_MAX = 4 };

struct xt_xpu_operand {
    struct xt_xpu_place place;
    dnnl_data_type_t dtype;
    int ndims;
    dnnl_dims_t dims;
    dnnl_dims_t strides; /* elements */
};

struct xt_xpu_place xt_xpu_in_buffer(const struct xt_buffer *buffer);
struct xt_xpu_place xt_xpu_in_memory(const struct xt_device_memory *memory);
struct xt_xpu_place xt_xpu_in_arena(const struct xt_device_memory *memory,
                                    const size_t *floats_before);

/* [n][c][h][w] as the tensor lies in a buffer of its own type: N, H, W, C. */
struct xt_xpu_operand xt_xpu_tensor(const struct xt_tensor *tensor, const struct xt_buffer *buffer);
/* Dense, row-major. */
struct xt_xpu_operand xt_xpu_matrix(struct xt_xpu_place place, dnnl_data_type_t dtype, size_t rows,
                                    size_t columns);
struct xt_xpu_operand xt_xpu_matrices(struct xt_xpu_place place, dnnl_data_type_t dtype,
                                      size_t count, size_t rows, size_t columns);
/* A matrix on its side, and one float32 number for all elements of so many dimensions. */
struct xt_xpu_operand xt_xpu_transposed(struct xt_xpu_operand matrix);
struct xt_xpu_operand xt_xpu_scalar(struct xt_xpu_place place, int ndims);

enum xt_status xt_xpu_desc(const struct xt_xpu_operand *operand, dnnl_memory_desc_t *out,
                           struct xt_err *err);

/* What is done to a result before it is written. */
enum xt_xpu_post_kind { XT_XPU_ELTWISE, XT_XPU_BINARY, XT_XPU_SUM };
struct xt_xpu_post {
    enum xt_xpu_post_kind kind;
    dnnl_alg_kind_t alg; /* ELTWISE: of x, with alpha and beta; BINARY: x alg with; SUM: none */
    float alpha, beta;
    struct xt_xpu_operand with;
};
struct xt_xpu_post xt_xpu_then(dnnl_alg_kind_t alg, float alpha, float beta);
struct xt_xpu_post xt_xpu_then_with(dnnl_alg_kind_t alg, struct xt_xpu_operand with);
struct xt_xpu_post xt_xpu_then_sum(void); /* added to what is there */
enum { XT_XPU_POSTS_MAX = 4 };
struct xt_xpu_posts {
    int count;
    struct xt_xpu_post items[XT_XPU_POSTS_MAX];
};

struct xt_xpu_step;

struct xt_xpu_program {
    struct xt_device *device;
    char name[64]; /* of the op, in errors */
    struct xt_xpu_step *steps[XT_XPU_PHASES];
    size_t count[XT_XPU_PHASES];
    size_t capacity[XT_XPU_PHASES];
    size_t scratchpad_bytes; /* that its largest primitive needs */
};

void xt_xpu_program_init(struct xt_xpu_program *program, struct xt_device *device,
                         const char *name);
void xt_xpu_program_clear(struct xt_xpu_program *program);

/* What owns an attribute: scratchpad by the user, and the posts. */
enum xt_status xt_xpu_attr(const struct xt_xpu_posts *posts, dnnl_primitive_attr_t *out,
                           struct xt_err *err);

/* Appends a primitive whose descriptor the caller made (taken over, also on failure); its arguments
 * follow with xt_xpu_arg, those of posts with xt_xpu_post_args. NULL with err set on failure. The
 * step moves when another is added. `what` names it in errors and is a constant. */
struct xt_xpu_step *xt_xpu_add(struct xt_xpu_program *program, enum xt_xpu_phase phase,
                               dnnl_primitive_desc_t pd, const char *what, struct xt_err *err);
void xt_xpu_arg(struct xt_xpu_step *step, int arg, struct xt_xpu_place place);
/* What the argument's numbers are multiplied by: `count` float32 numbers, as its mask says. */
void xt_xpu_scales(struct xt_xpu_step *step, int arg, struct xt_xpu_place place, int count);
void xt_xpu_post_args(struct xt_xpu_step *step, const struct xt_xpu_posts *posts);

/* ---- common primitives; `posts` may be NULL ---- */

/* What xt_xpu_reorder and xt_xpu_dequantise are called. */
extern const char xt_xpu_change[];

enum xt_status xt_xpu_reorder(struct xt_xpu_program *program, enum xt_xpu_phase phase,
                              const struct xt_xpu_operand *from, const struct xt_xpu_operand *to,
                              struct xt_err *err);
/* The same to or from the format of another primitive's argument. */
enum xt_status xt_xpu_reorder_md(struct xt_xpu_program *program, enum xt_xpu_phase phase,
                                 const_dnnl_memory_desc_t from_md, struct xt_xpu_place from,
                                 const_dnnl_memory_desc_t to_md, struct xt_xpu_place to,
                                 const char *what, struct xt_err *err);
/* int8 as the float32 numbers that it stands for: times the number at `scale`. */
enum xt_status xt_xpu_dequantise(struct xt_xpu_program *program, enum xt_xpu_phase phase,
                                 const struct xt_xpu_operand *from, struct xt_xpu_place scale,
                                 const struct xt_xpu_operand *to, struct xt_err *err);
/* a alg b; b may have 1 where a has more. */
enum xt_status xt_xpu_binary(struct xt_xpu_program *program, enum xt_xpu_phase phase,
                             dnnl_alg_kind_t alg, const struct xt_xpu_operand *a,
                             const struct xt_xpu_operand *b, const struct xt_xpu_operand *to,
                             const struct xt_xpu_posts *posts, struct xt_err *err);
enum xt_status xt_xpu_eltwise(struct xt_xpu_program *program, enum xt_xpu_phase phase,
                              dnnl_alg_kind_t alg, float alpha, float beta,
                              const struct xt_xpu_operand *from, const struct xt_xpu_operand *to,
                              struct xt_err *err);
/* The gradient before a ReLU from the one behind it (they may be one memory), where `y`, what came
 * out, is above 0. */
enum xt_status xt_xpu_relu_backward(struct xt_xpu_program *program, const struct xt_xpu_operand *y,
                                    const struct xt_xpu_operand *behind,
                                    const struct xt_xpu_operand *before, struct xt_err *err);
/* No post is BINARY: oneDNN passes that operand of a matrix product as a surface alone, and Intel's
 * OpenCL driver then writes 4 bytes 65535 bytes behind the kernel's arguments (its
 * Kernel::setArgSvmAlloc takes the offset that stands for "no address" for one). */
enum xt_status xt_xpu_matmul(struct xt_xpu_program *program, enum xt_xpu_phase phase,
                             const struct xt_xpu_operand *a, const struct xt_xpu_operand *b,
                             const struct xt_xpu_operand *to, const struct xt_xpu_posts *posts,
                             struct xt_err *err);
/* Along the channels of [n][c][h][w]. */
enum xt_status xt_xpu_concat(struct xt_xpu_program *program, enum xt_xpu_phase phase,
                             const struct xt_xpu_operand *parts, int count,
                             const struct xt_xpu_operand *to, struct xt_err *err);

/* ---- once addresses are known ---- */

/* Told after each primitive that was made. */
struct xt_xpu_making {
    void (*made)(void *context);
    void *context;
};
/* Makes the primitives and their memories. `scratchpad` holds at least scratchpad_bytes. Between
 * two of them a signal ends it, with XT_INTERRUPTED or XT_STOPPED. */
enum xt_status xt_xpu_program_bind(struct xt_xpu_program *program, struct xt_xpu_place scratchpad,
                                   const struct xt_xpu_making *making, struct xt_err *err);
size_t xt_xpu_program_count(const struct xt_xpu_program *program); /* primitives */

/* Starts a phase's primitives on the device's stream, without waiting. */
enum xt_status xt_xpu_program_run(const struct xt_xpu_program *program, enum xt_xpu_phase phase,
                                  struct xt_err *err);
/* The same for the primitives whose `what` holds `part`. */
enum xt_status xt_xpu_program_run_only(const struct xt_xpu_program *program,
                                       enum xt_xpu_phase phase, const char *part,
                                       struct xt_err *err);
/* Gives the argument `arg` of a phase's primitive `index` another address. */
enum xt_status xt_xpu_program_point(struct xt_xpu_program *program, enum xt_xpu_phase phase,
                                    size_t index, int arg, const struct xt_xpu_place *place,
                                    struct xt_err *err);
/* The name of the kernel behind the phase's first primitive of that `what`, "" where there is none.
 */
const char *xt_xpu_program_implementation(const struct xt_xpu_program *program,
                                          enum xt_xpu_phase phase, const char *what);

/* The address of a place; NULL with err set where it is on another device than the program. */
void *xt_xpu_address(const struct xt_xpu_program *program, const struct xt_xpu_place *place,
                     struct xt_err *err);

#endif
