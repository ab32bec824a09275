#include "models/graph/xpu_program.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/stop.h"
#include "device/primitive.h"

enum { ARGS_MAX = 16 };

struct argument {
    int arg;
    struct xt_xpu_place place;
    int floats; /* laid out as so many float32 numbers; 0: as the primitive says */
};

struct xt_xpu_step {
    const char *what;
    dnnl_primitive_desc_t pd;
    dnnl_primitive_t primitive;
    struct argument args[ARGS_MAX];
    dnnl_exec_arg_t bound[ARGS_MAX]; /* once bound; the memories are the step's */
    int arg_count;
};

/* ---- operands ---- */

struct xt_xpu_place xt_xpu_in_buffer(const struct xt_buffer *buffer)
{
    return (struct xt_xpu_place){.buffer = buffer};
}

struct xt_xpu_place xt_xpu_in_memory(const struct xt_device_memory *memory)
{
    return (struct xt_xpu_place){.memory = memory};
}

struct xt_xpu_place xt_xpu_in_arena(const struct xt_device_memory *memory,
                                    const size_t *floats_before)
{
    return (struct xt_xpu_place){.memory = memory, .floats_before = floats_before};
}

struct xt_xpu_operand xt_xpu_tensor(const struct xt_tensor *t, const struct xt_buffer *buffer)
{
    return (struct xt_xpu_operand){
        .place = xt_xpu_in_buffer(buffer),
        .dtype = xt_dtype_dnnl(t->dtype),
        .ndims = 4,
        .dims = {t->n, t->c, t->h, t->w},
        .strides = {(int64_t)t->h * t->w * t->c, 1, (int64_t)t->w * t->c, t->c},
    };
}

struct xt_xpu_operand xt_xpu_matrix(struct xt_xpu_place place, dnnl_data_type_t dtype, size_t rows,
                                    size_t columns)
{
    return (struct xt_xpu_operand){
        .place = place,
        .dtype = dtype,
        .ndims = 2,
        .dims = {(int64_t)rows, (int64_t)columns},
        .strides = {(int64_t)columns, 1},
    };
}

struct xt_xpu_operand xt_xpu_matrices(struct xt_xpu_place place, dnnl_data_type_t dtype,
                                      size_t count, size_t rows, size_t columns)
{
    return (struct xt_xpu_operand){
        .place = place,
        .dtype = dtype,
        .ndims = 3,
        .dims = {(int64_t)count, (int64_t)rows, (int64_t)columns},
        .strides = {(int64_t)(rows * columns), (int64_t)columns, 1},
    };
}

struct xt_xpu_operand xt_xpu_transposed(struct xt_xpu_operand matrix)
{
    int last = matrix.ndims - 1;
    struct xt_xpu_operand turned = matrix;
    turned.dims[last] = matrix.dims[last - 1];
    turned.dims[last - 1] = matrix.dims[last];
    turned.strides[last] = matrix.strides[last - 1];
    turned.strides[last - 1] = matrix.strides[last];
    return turned;
}

struct xt_xpu_operand xt_xpu_scalar(struct xt_xpu_place place, int ndims)
{
    struct xt_xpu_operand operand = {.place = place, .dtype = dnnl_f32, .ndims = ndims};
    for (int i = 0; i < ndims; i++)
        operand.dims[i] = operand.strides[i] = 1;
    return operand;
}

enum xt_status xt_xpu_desc(const struct xt_xpu_operand *operand, dnnl_memory_desc_t *out,
                           struct xt_err *err)
{
    return xt_dnnl_check(xt_dnnl.memory_desc_create_with_strides(out, operand->ndims, operand->dims,
                                                                 operand->dtype, operand->strides),
                         "a memory's layout", err);
}

static void destroy_descs(dnnl_memory_desc_t *descs, int count)
{
    for (int i = 0; i < count; i++)
        if (descs[i])
            xt_dnnl.memory_desc_destroy(descs[i]);
}

/* ---- attributes ---- */

struct xt_xpu_post xt_xpu_then(dnnl_alg_kind_t alg, float alpha, float beta)
{
    return (struct xt_xpu_post){.kind = XT_XPU_ELTWISE, .alg = alg, .alpha = alpha, .beta = beta};
}

struct xt_xpu_post xt_xpu_then_with(dnnl_alg_kind_t alg, struct xt_xpu_operand with)
{
    return (struct xt_xpu_post){.kind = XT_XPU_BINARY, .alg = alg, .with = with};
}

struct xt_xpu_post xt_xpu_then_sum(void)
{
    return (struct xt_xpu_post){.kind = XT_XPU_SUM};
}

static enum xt_status append_post(dnnl_post_ops_t ops, const struct xt_xpu_post *post,
                                  struct xt_err *err)
{
    static const char what[] = "what follows a primitive";
    if (post->kind == XT_XPU_ELTWISE)
        return xt_dnnl_check(
            xt_dnnl.post_ops_append_eltwise(ops, post->alg, post->alpha, post->beta), what, err);
    if (post->kind == XT_XPU_SUM)
        return xt_dnnl_check(xt_dnnl.post_ops_append_sum(ops, 1, 0, dnnl_data_type_undef), what,
                             err);
    dnnl_memory_desc_t md = NULL;
    enum xt_status status = xt_xpu_desc(&post->with, &md, err);
    if (!status)
        status = xt_dnnl_check(xt_dnnl.post_ops_append_binary(ops, post->alg, md), what, err);
    destroy_descs(&md, 1);
    return status;
}

enum xt_status xt_xpu_attr(const struct xt_xpu_posts *posts, dnnl_primitive_attr_t *out,
                           struct xt_err *err)
{
    static const char what[] = "a primitive's attributes";
    dnnl_post_ops_t ops = NULL;
    enum xt_status status = xt_dnnl_check(xt_dnnl.primitive_attr_create(out), what, err);
    if (!status)
        status = xt_dnnl_check(
            xt_dnnl.primitive_attr_set_scratchpad_mode(*out, dnnl_scratchpad_mode_user), what, err);
    if (status || !posts || posts->count == 0)
        return status;
    status = xt_dnnl_check(xt_dnnl.post_ops_create(&ops), what, err);
    for (int i = 0; i < posts->count && !status; i++)
        status = append_post(ops, &posts->items[i], err);
    if (!status)
        status = xt_dnnl_check(xt_dnnl.primitive_attr_set_post_ops(*out, ops), what, err);
    if (ops)
        xt_dnnl.post_ops_destroy(ops);
    return status;
}

/* ---- programs ---- */

void xt_xpu_program_init(struct xt_xpu_program *program, struct xt_device *device, const char *name)
{
    *program = (struct xt_xpu_program){.device = device};
    snprintf(program->name, sizeof program->name, "%s", name);
}

static void clear_step(struct xt_xpu_step *step)
{
    for (int i = 0; i < step->arg_count; i++)
        if (step->bound[i].memory)
            xt_dnnl.memory_destroy(step->bound[i].memory);
    if (step->primitive)
        xt_dnnl.primitive_destroy(step->primitive);
    if (step->pd)
        xt_dnnl.primitive_desc_destroy(step->pd);
}

void xt_xpu_program_clear(struct xt_xpu_program *program)
{
    for (int phase = 0; phase < XT_XPU_PHASES; phase++) {
        for (size_t i = 0; i < program->count[phase]; i++)
            clear_step(&program->steps[phase][i]);
        free(program->steps[phase]);
    }
    *program = (struct xt_xpu_program){0};
}

static void count_scratchpad(struct xt_xpu_program *program, dnnl_primitive_desc_t pd)
{
    const_dnnl_memory_desc_t md = xt_dnnl.primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
    size_t bytes = md ? xt_dnnl.memory_desc_get_size(md) : 0;
    if (bytes > program->scratchpad_bytes)
        program->scratchpad_bytes = bytes;
}

struct xt_xpu_step *xt_xpu_add(struct xt_xpu_program *program, enum xt_xpu_phase phase,
                               dnnl_primitive_desc_t pd, const char *what, struct xt_err *err)
{
    size_t count = program->count[phase];
    if (xt_mem_grow(&program->steps[phase], &program->capacity[phase], count + 1,
                    sizeof **program->steps, what, err)) {
        xt_dnnl.primitive_desc_destroy(pd);
        return NULL;
    }
    struct xt_xpu_step *step = &program->steps[phase][program->count[phase]++];
    *step = (struct xt_xpu_step){.what = what, .pd = pd};
    count_scratchpad(program, pd);
    return step;
}

void xt_xpu_arg(struct xt_xpu_step *step, int arg, struct xt_xpu_place place)
{
    step->args[step->arg_count++] = (struct argument){.arg = arg, .place = place};
}

void xt_xpu_scales(struct xt_xpu_step *step, int arg, struct xt_xpu_place place, int count)
{
    step->args[step->arg_count++] =
        (struct argument){.arg = DNNL_ARG_ATTR_SCALES | arg, .place = place, .floats = count};
}

void xt_xpu_post_args(struct xt_xpu_step *step, const struct xt_xpu_posts *posts)
{
    for (int i = 0; posts && i < posts->count; i++)
        if (posts->items[i].kind == XT_XPU_BINARY)
            xt_xpu_arg(step, DNNL_ARG_ATTR_MULTIPLE_POST_OP(i) | DNNL_ARG_SRC_1,
                       posts->items[i].with.place);
}

/* ---- common primitives ---- */

const char xt_xpu_change[] = "a change of type or layout";

/* `scale`: where the number is that all are multiplied by; NULL: none. */
static enum xt_status add_reorder(struct xt_xpu_program *program, enum xt_xpu_phase phase,
                                  const_dnnl_memory_desc_t from_md, struct xt_xpu_place from,
                                  const_dnnl_memory_desc_t to_md, struct xt_xpu_place to,
                                  const struct xt_xpu_place *scale, const char *what,
                                  struct xt_err *err)
{
    dnnl_engine_t engine = program->device->engine;
    dnnl_primitive_desc_t pd = NULL;
    dnnl_primitive_attr_t attr = NULL;
    enum xt_status status = xt_xpu_attr(NULL, &attr, err);
    if (!status && scale)
        status = xt_dnnl_check(xt_dnnl.primitive_attr_set_scales_mask(attr, DNNL_ARG_FROM, 0), what,
                               err);
    if (!status)
        status = xt_dnnl_check(
            xt_dnnl.reorder_primitive_desc_create(&pd, from_md, engine, to_md, engine, attr), what,
            err);
    xt_dnnl.primitive_attr_destroy(attr);
    if (status)
        return status;
    struct xt_xpu_step *step = xt_xpu_add(program, phase, pd, what, err);
    if (!step)
        return err->status;
    xt_xpu_arg(step, DNNL_ARG_FROM, from);
    xt_xpu_arg(step, DNNL_ARG_TO, to);
    if (scale)
        xt_xpu_scales(step, DNNL_ARG_FROM, *scale, 1);
    return XT_OK;
}

enum xt_status xt_xpu_reorder_md(struct xt_xpu_program *program, enum xt_xpu_phase phase,
                                 const_dnnl_memory_desc_t from_md, struct xt_xpu_place from,
                                 const_dnnl_memory_desc_t to_md, struct xt_xpu_place to,
                                 const char *what, struct xt_err *err)
{
    return add_reorder(program, phase, from_md, from, to_md, to, NULL, what, err);
}

static enum xt_status reorder(struct xt_xpu_program *program, enum xt_xpu_phase phase,
                              const struct xt_xpu_operand *from, const struct xt_xpu_operand *to,
                              const struct xt_xpu_place *scale, struct xt_err *err)
{
    dnnl_memory_desc_t md[2] = {NULL, NULL};
    enum xt_status status = xt_xpu_desc(from, &md[0], err);
    if (!status)
        status = xt_xpu_desc(to, &md[1], err);
    if (!status)
        status = add_reorder(program, phase, md[0], from->place, md[1], to->place, scale,
                             xt_xpu_change, err);
    destroy_descs(md, 2);
    return status;
}

enum xt_status xt_xpu_reorder(struct xt_xpu_program *program, enum xt_xpu_phase phase,
                              const struct xt_xpu_operand *from, const struct xt_xpu_operand *to,
                              struct xt_err *err)
{
    return reorder(program, phase, from, to, NULL, err);
}

enum xt_status xt_xpu_dequantise(struct xt_xpu_program *program, enum xt_xpu_phase phase,
                                 const struct xt_xpu_operand *from, struct xt_xpu_place scale,
                                 const struct xt_xpu_operand *to, struct xt_err *err)
{
    return reorder(program, phase, from, to, &scale, err);
}

/* The layouts of up to three operands and the attributes of a primitive with posts. */
struct made {
    dnnl_memory_desc_t md[3];
    dnnl_primitive_attr_t attr;
    dnnl_primitive_desc_t pd;
};

static enum xt_status made_init(struct made *made, const struct xt_xpu_operand *const *operands,
                                int count, const struct xt_xpu_posts *posts, struct xt_err *err)
{
    *made = (struct made){0};
    enum xt_status status = xt_xpu_attr(posts, &made->attr, err);
    for (int i = 0; i < count && !status; i++)
        status = xt_xpu_desc(operands[i], &made->md[i], err);
    return status;
}

static void made_clear(struct made *made)
{
    destroy_descs(made->md, 3);
    if (made->attr)
        xt_dnnl.primitive_attr_destroy(made->attr);
}

/* Appends the primitive that was described, with its operands as these arguments. */
static enum xt_status append(struct xt_xpu_program *program, enum xt_xpu_phase phase,
                             const struct made *made, const char *what,
                             const struct xt_xpu_operand *const *operands, const int *args,
                             int count, const struct xt_xpu_posts *posts, struct xt_err *err)
{
    struct xt_xpu_step *step = xt_xpu_add(program, phase, made->pd, what, err);
    if (!step)
        return err->status;
    for (int i = 0; i < count; i++)
        xt_xpu_arg(step, args[i], operands[i]->place);
    xt_xpu_post_args(step, posts);
    return XT_OK;
}

enum xt_status xt_xpu_binary(struct xt_xpu_program *program, enum xt_xpu_phase phase,
                             dnnl_alg_kind_t alg, const struct xt_xpu_operand *a,
                             const struct xt_xpu_operand *b, const struct xt_xpu_operand *to,
                             const struct xt_xpu_posts *posts, struct xt_err *err)
{
    static const char what[] = "an operation on two tensors";
    static const int args[] = {DNNL_ARG_SRC_0, DNNL_ARG_SRC_1, DNNL_ARG_DST};
    const struct xt_xpu_operand *operands[] = {a, b, to};
    struct made made;
    enum xt_status status = made_init(&made, operands, 3, posts, err);
    if (!status)
        status = xt_dnnl_check(
            xt_dnnl.binary_primitive_desc_create(&made.pd, program->device->engine, alg, made.md[0],
                                                 made.md[1], made.md[2], made.attr),
            what, err);
    if (!status)
        status = append(program, phase, &made, what, operands, args, 3, posts, err);
    made_clear(&made);
    return status;
}

enum xt_status xt_xpu_eltwise(struct xt_xpu_program *program, enum xt_xpu_phase phase,
                              dnnl_alg_kind_t alg, float alpha, float beta,
                              const struct xt_xpu_operand *from, const struct xt_xpu_operand *to,
                              struct xt_err *err)
{
    static const char what[] = "an operation on each element";
    static const int args[] = {DNNL_ARG_SRC, DNNL_ARG_DST};
    const struct xt_xpu_operand *operands[] = {from, to};
    struct made made;
    enum xt_status status = made_init(&made, operands, 2, NULL, err);
    if (!status)
        status = xt_dnnl_check(xt_dnnl.eltwise_forward_primitive_desc_create(
                                   &made.pd, program->device->engine, dnnl_forward_inference, alg,
                                   made.md[0], made.md[1], alpha, beta, made.attr),
                               what, err);
    if (!status)
        status = append(program, phase, &made, what, operands, args, 2, NULL, err);
    made_clear(&made);
    return status;
}

enum xt_status xt_xpu_relu_backward(struct xt_xpu_program *program, const struct xt_xpu_operand *y,
                                    const struct xt_xpu_operand *behind,
                                    const struct xt_xpu_operand *before, struct xt_err *err)
{
    static const char what[] = "the ReLU's gradient";
    static const int args[] = {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC};
    const struct xt_xpu_operand *operands[] = {y, behind, before};
    dnnl_primitive_desc_t hint = NULL;
    struct made made;
    enum xt_status status = made_init(&made, operands, 3, NULL, err);
    if (!status)
        status = xt_dnnl_check(xt_dnnl.eltwise_forward_primitive_desc_create(
                                   &hint, program->device->engine, dnnl_forward_training,
                                   dnnl_eltwise_relu, made.md[0], made.md[0], 0, 0, NULL),
                               what, err);
    if (!status)
        status = xt_dnnl_check(xt_dnnl.eltwise_backward_primitive_desc_create(
                                   &made.pd, program->device->engine, dnnl_eltwise_relu, made.md[2],
                                   made.md[1], made.md[0], 0, 0, hint, made.attr),
                               what, err);
    if (hint)
        xt_dnnl.primitive_desc_destroy(hint);
    if (!status)
        status = append(program, XT_XPU_BACKWARD, &made, what, operands, args, 3, NULL, err);
    made_clear(&made);
    return status;
}

enum xt_status xt_xpu_matmul(struct xt_xpu_program *program, enum xt_xpu_phase phase,
                             const struct xt_xpu_operand *a, const struct xt_xpu_operand *b,
                             const struct xt_xpu_operand *to, const struct xt_xpu_posts *posts,
                             struct xt_err *err)
{
    static const char what[] = "a matrix product";
    static const int args[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    const struct xt_xpu_operand *operands[] = {a, b, to};
    struct made made;
    for (int i = 0; posts && i < posts->count; i++)
        assert(posts->items[i].kind != XT_XPU_BINARY);
    enum xt_status status = made_init(&made, operands, 3, posts, err);
    if (!status)
        status = xt_dnnl_check(
            xt_dnnl.matmul_primitive_desc_create(&made.pd, program->device->engine, made.md[0],
                                                 made.md[1], NULL, made.md[2], made.attr),
            what, err);
    if (!status)
        status = append(program, phase, &made, what, operands, args, 3, posts, err);
    made_clear(&made);
    return status;
}

enum xt_status xt_xpu_concat(struct xt_xpu_program *program, enum xt_xpu_phase phase,
                             const struct xt_xpu_operand *parts, int count,
                             const struct xt_xpu_operand *to, struct xt_err *err)
{
    static const char what[] = "a concatenation";
    enum { PARTS_MAX = 8, CHANNELS = 1 };
    dnnl_memory_desc_t md[PARTS_MAX] = {NULL};
    dnnl_primitive_desc_t pd = NULL;
    struct made made;
    enum xt_status status = made_init(&made, &to, 1, NULL, err);
    for (int i = 0; i < count && !status; i++)
        status = xt_xpu_desc(&parts[i], &md[i], err);
    if (!status)
        status = xt_dnnl_check(xt_dnnl.concat_primitive_desc_create(
                                   &pd, program->device->engine, made.md[0], count, CHANNELS,
                                   (const_dnnl_memory_desc_t const *)md, made.attr),
                               what, err);
    struct xt_xpu_step *step = status ? NULL : xt_xpu_add(program, phase, pd, what, err);
    for (int i = 0; step && i < count; i++)
        xt_xpu_arg(step, DNNL_ARG_MULTIPLE_SRC + i, parts[i].place);
    if (step)
        xt_xpu_arg(step, DNNL_ARG_DST, to->place);
    destroy_descs(md, PARTS_MAX);
    made_clear(&made);
    return step ? XT_OK : err->status;
}

/* ---- binding and running ---- */

void *xt_xpu_address(const struct xt_xpu_program *program, const struct xt_xpu_place *place,
                     struct xt_err *err)
{
    const struct xt_device *device = place->buffer ? place->buffer->device : place->memory->device;
    if (device != program->device) {
        xt_err_set(err, XT_ERR_RUN, "%s runs on %s, but its %s is on %s", program->name,
                   program->device->name, place->buffer ? place->buffer->tensor : "memory",
                   device ? device->name : "no device");
        return NULL;
    }
    void *data = place->buffer ? place->buffer->data : NULL;
    if (!place->buffer &&
        xt_dnnl_check(xt_dnnl.memory_get_data_handle(place->memory->memory, &data),
                      "the address of device memory", err))
        return NULL;
    return (float *)data + (place->floats_before ? *place->floats_before : 0);
}

/* oneDNN knows the layout of each argument by now, but for scales. */
static enum xt_status bind_argument(const struct xt_xpu_program *program, struct xt_xpu_step *step,
                                    int index, struct xt_err *err)
{
    const struct argument *argument = &step->args[index];
    void *data = xt_xpu_address(program, &argument->place, err);
    if (!data)
        return err->status;
    dnnl_memory_desc_t own = NULL;
    enum xt_status status = XT_OK;
    if (argument->floats)
        status = xt_dnnl_check(xt_dnnl.memory_desc_create_with_tag(
                                   &own, 1, (dnnl_dims_t){argument->floats}, dnnl_f32, dnnl_a),
                               step->what, err);
    const_dnnl_memory_desc_t md =
        own ? own
            : xt_dnnl.primitive_desc_query_md(step->pd, dnnl_query_exec_arg_md, argument->arg);
    dnnl_memory_t memory = NULL;
    if (!status)
        status = xt_memory_create(program->device, md, data, step->what, &memory, err);
    destroy_descs(&own, 1);
    step->bound[index] = (dnnl_exec_arg_t){argument->arg, memory};
    return status;
}

static enum xt_status bind_step(const struct xt_xpu_program *program, struct xt_xpu_step *step,
                                struct xt_err *err)
{
    enum xt_status status =
        xt_primitive_create(program->device, step->pd, step->what, &step->primitive, err);
    for (int i = 0; i < step->arg_count && !status; i++)
        status = bind_argument(program, step, i, err);
    return status;
}

static bool needs_scratchpad(const struct xt_xpu_step *step)
{
    const_dnnl_memory_desc_t md =
        xt_dnnl.primitive_desc_query_md(step->pd, dnnl_query_scratchpad_md, 0);
    return md && xt_dnnl.memory_desc_get_size(md) > 0;
}

/* A kernel's compilation is not broken off, but no other is begun. */
static enum xt_status check_stop(const struct xt_device *device, struct xt_err *err)
{
    enum xt_status stop = xt_stop_status();
    if (!stop)
        return XT_OK;
    return xt_err_set(err, stop, "%s before all kernels were made%s",
                      stop == XT_INTERRUPTED ? "interrupted" : "stopped",
                      device->cache.folder ? "; those that were compiled stay in the cache" : "");
}

enum xt_status xt_xpu_program_bind(struct xt_xpu_program *program, struct xt_xpu_place scratchpad,
                                   const struct xt_xpu_making *making, struct xt_err *err)
{
    for (int phase = 0; phase < XT_XPU_PHASES; phase++)
        for (size_t i = 0; i < program->count[phase]; i++) {
            struct xt_xpu_step *step = &program->steps[phase][i];
            if (check_stop(program->device, err))
                return err->status;
            if (needs_scratchpad(step))
                xt_xpu_arg(step, DNNL_ARG_SCRATCHPAD, scratchpad);
            if (bind_step(program, step, err)) {
                xt_err_prefix(err, "%s: ", program->name);
                return err->status;
            }
            if (making)
                making->made(making->context);
        }
    return XT_OK;
}

size_t xt_xpu_program_count(const struct xt_xpu_program *program)
{
    size_t count = 0;
    for (int phase = 0; phase < XT_XPU_PHASES; phase++)
        count += program->count[phase];
    return count;
}

static enum xt_status run_step(const struct xt_xpu_program *program, const struct xt_xpu_step *step,
                               struct xt_err *err)
{
    return xt_dnnl_check(xt_dnnl.primitive_execute(step->primitive, program->device->stream,
                                                   step->arg_count, step->bound),
                         step->what, err);
}

enum xt_status xt_xpu_program_run(const struct xt_xpu_program *program, enum xt_xpu_phase phase,
                                  struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < program->count[phase] && !status; i++)
        status = run_step(program, &program->steps[phase][i], err);
    return status;
}

enum xt_status xt_xpu_program_run_only(const struct xt_xpu_program *program,
                                       enum xt_xpu_phase phase, const char *part,
                                       struct xt_err *err)
{
    for (size_t i = 0; i < program->count[phase]; i++) {
        enum xt_status status = strstr(program->steps[phase][i].what, part)
                                    ? run_step(program, &program->steps[phase][i], err)
                                    : XT_OK;
        if (status)
            return status;
    }
    return XT_OK;
}

enum xt_status xt_xpu_program_point(struct xt_xpu_program *program, enum xt_xpu_phase phase,
                                    size_t index, int arg, const struct xt_xpu_place *place,
                                    struct xt_err *err)
{
    struct xt_xpu_step *step = &program->steps[phase][index];
    void *data = xt_xpu_address(program, place, err);
    enum xt_status status = data ? XT_OK : err->status;
    for (int i = 0; i < step->arg_count && !status; i++)
        if (step->bound[i].arg == arg)
            status = xt_dnnl_check(xt_dnnl.memory_set_data_handle(step->bound[i].memory, data),
                                   step->what, err);
    return status;
}

const char *xt_xpu_program_implementation(const struct xt_xpu_program *program,
                                          enum xt_xpu_phase phase, const char *what)
{
    for (size_t i = 0; i < program->count[phase]; i++)
        if (strcmp(program->steps[phase][i].what, what) == 0)
            return xt_dnnl_implementation(program->steps[phase][i].pd);
    return "";
}
