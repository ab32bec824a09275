#include "engine/program.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/system/stop.h"
#include "device/faults/guard.h"
#include "device/kernels/own.h"
#include "device/primitive.h"

enum { ARGS_MAX = 24 };

struct argument {
    int arg;
    struct xt_location place;
    int floats;          /* number of float32 values; 0: the primitive's layout */
    size_t sample;       /* bytes per sample of a slice; 0: the same for all */
    size_t worker;       /* bytes that are each worker's own */
    dnnl_memory_t given; /* an existing memory to bind; NULL: one at `place` */
    bool is_number;      /* of an own kernel; else at `place` */
    uint32_t number;
};

struct xt_step {
    const char *what;
    dnnl_primitive_desc_t pd;
    dnnl_primitive_t primitive;
    struct xt_own_launch launch; /* without a program: the primitive runs */
    struct xt_own_kernel *own;
    struct argument args[ARGS_MAX];
    dnnl_exec_arg_t bound[ARGS_MAX]; /* once bound; the memories are the step's */
    int arg_count;
    bool lower_bound;
    bool lower_bound_alone;
    int workers;                            /* of a sliced step; 0: whole */
    dnnl_exec_arg_t (*of_worker)[ARGS_MAX]; /* [workers], instead of `bound` */
};

/* Exactly one is set. */
struct xt_resource {
    dnnl_memory_desc_t md;
    dnnl_primitive_attr_t attr;
    dnnl_primitive_desc_t hint;
};

/* ---- operands ---- */

struct xt_location xt_in_buffer(const struct xt_buffer *buffer)
{
    return (struct xt_location){.buffer = buffer};
}

struct xt_location xt_in_memory(const struct xt_device_memory *memory)
{
    return (struct xt_location){.memory = memory};
}

struct xt_location xt_in_arena(const struct xt_device_memory *memory, const size_t *floats_before)
{
    return (struct xt_location){.memory = memory, .floats_before = floats_before};
}

struct xt_operand xt_operand_tensor(const struct xt_tensor *t, const struct xt_buffer *buffer)
{
    return (struct xt_operand){
        .place = xt_in_buffer(buffer),
        .dtype = xt_dtype_dnnl(t->dtype),
        .ndims = 4,
        .dims = {t->n, t->c, t->h, t->w},
        .strides = {(int64_t)t->h * t->w * t->c, 1, (int64_t)t->w * t->c, t->c},
    };
}

struct xt_operand xt_operand_dense(struct xt_location place, dnnl_data_type_t dtype, int ndims,
                                   const int64_t *dims)
{
    struct xt_operand operand = {.place = place, .dtype = dtype, .ndims = ndims};
    int64_t stride = 1;
    for (int i = ndims - 1; i >= 0; i--) {
        operand.dims[i] = dims[i];
        operand.strides[i] = stride;
        stride *= dims[i];
    }
    return operand;
}

struct xt_operand xt_operand_matrix(struct xt_location place, dnnl_data_type_t dtype, size_t rows,
                                    size_t columns)
{
    return xt_operand_dense(place, dtype, 2, (int64_t[]){(int64_t)rows, (int64_t)columns});
}

struct xt_operand xt_operand_matrices(struct xt_location place, dnnl_data_type_t dtype,
                                      size_t count, size_t rows, size_t columns)
{
    return xt_operand_dense(place, dtype, 3,
                            (int64_t[]){(int64_t)count, (int64_t)rows, (int64_t)columns});
}

struct xt_operand xt_operand_transposed(struct xt_operand matrix)
{
    int last = matrix.ndims - 1;
    struct xt_operand turned = matrix;
    turned.dims[last] = matrix.dims[last - 1];
    turned.dims[last - 1] = matrix.dims[last];
    turned.strides[last] = matrix.strides[last - 1];
    turned.strides[last - 1] = matrix.strides[last];
    return turned;
}

struct xt_operand xt_operand_scalar(struct xt_location place, int ndims)
{
    static const int64_t ones[XT_OPERAND_DIMS_MAX] = {1, 1, 1, 1, 1};
    return xt_operand_dense(place, dnnl_f32, ndims, ones);
}

/* A part of `whole`, which is destroyed. */
static enum xt_status take_part(const struct xt_operand *operand, dnnl_memory_desc_t whole,
                                dnnl_memory_desc_t *out, struct xt_err *err)
{
    dnnl_status_t part =
        xt_dnnl.memory_desc_create_submemory(out, whole, operand->dims, operand->offsets);
    xt_dnnl.memory_desc_destroy(whole);
    return xt_dnnl_check(part, "the layout of a part of a memory", err);
}

enum xt_status xt_operand_desc(const struct xt_operand *operand, dnnl_memory_desc_t *out,
                               struct xt_err *err)
{
    dnnl_dims_t dims = {0};
    dnnl_memory_desc_t whole = NULL;
    bool is_part = false;
    for (int i = 0; i < operand->ndims; i++) {
        dims[i] = operand->offsets[i] + operand->dims[i];
        is_part = is_part || operand->offsets[i];
    }
    enum xt_status status =
        xt_dnnl_check(xt_dnnl.memory_desc_create_with_strides(&whole, operand->ndims, dims,
                                                              operand->dtype, operand->strides),
                      "a memory's layout", err);
    if (!status && is_part)
        return take_part(operand, whole, out, err);
    *out = whole;
    return status;
}

const_dnnl_memory_desc_t xt_layout_of(const_dnnl_primitive_desc_t pd, dnnl_query_t what, int index)
{
    return pd ? xt_dnnl.primitive_desc_query_md(pd, what, index) : NULL;
}

size_t xt_layout_bytes(const_dnnl_memory_desc_t md)
{
    return md ? xt_dnnl.memory_desc_get_size(md) : 0;
}

/* ---- post_ops ---- */

struct xt_post xt_then(dnnl_alg_kind_t alg, float alpha, float beta)
{
    return (struct xt_post){.kind = XT_POST_ELTWISE, .alg = alg, .alpha = alpha, .beta = beta};
}

struct xt_post xt_then_with(dnnl_alg_kind_t alg, struct xt_operand with)
{
    return (struct xt_post){.kind = XT_POST_BINARY, .alg = alg, .with = with};
}

struct xt_post xt_then_sum(void)
{
    return (struct xt_post){.kind = XT_POST_SUM, .alpha = 1, .dtype = dnnl_data_type_undef};
}

/* ---- programs ---- */

void xt_program_init(struct xt_program *program, struct xt_device *device, const char *name,
                     struct xt_err *err)
{
    *program = (struct xt_program){.device = device, .err = err};
    snprintf(program->name, sizeof program->name, "%s", name);
}

/* Number of sets of memories: 0 before a sliced step is bound. */
static int workers_of(const struct xt_step *step)
{
    return !step->workers ? 1 : step->of_worker ? step->workers : 0;
}

static dnnl_exec_arg_t *bound_of(struct xt_step *step, int worker)
{
    return step->workers ? step->of_worker[worker] : step->bound;
}

static void clear_step(struct xt_step *step)
{
    for (int worker = 0; worker < workers_of(step); worker++)
        for (int i = 0; i < step->arg_count; i++)
            if (bound_of(step, worker)[i].memory && !step->args[i].given)
                xt_dnnl.memory_destroy(bound_of(step, worker)[i].memory);
    free(step->of_worker);
    xt_own_kernel_destroy(step->own);
    if (step->primitive)
        xt_dnnl.primitive_destroy(step->primitive);
    if (step->pd)
        xt_dnnl.primitive_desc_destroy(step->pd);
}

static void clear_resources(struct xt_program *program)
{
    for (size_t i = 0; i < program->resource_count; i++) {
        struct xt_resource *resource = &program->resources[i];
        if (resource->md)
            xt_dnnl.memory_desc_destroy(resource->md);
        if (resource->attr)
            xt_dnnl.primitive_attr_destroy(resource->attr);
        if (resource->hint)
            xt_dnnl.primitive_desc_destroy(resource->hint);
    }
    free(program->resources);
    program->resources = NULL;
    program->resource_count = program->resource_capacity = 0;
}

void xt_program_clear(struct xt_program *program)
{
    clear_resources(program);
    for (int phase = 0; phase < XT_PHASES; phase++) {
        for (size_t i = 0; i < program->count[phase]; i++)
            clear_step(&program->steps[phase][i]);
        free(program->steps[phase]);
    }
    *program = (struct xt_program){0};
}

bool xt_program_fails(const struct xt_program *program)
{
    return program->err->status != XT_OK;
}

bool xt_program_check(struct xt_program *program, dnnl_status_t status, const char *what)
{
    if (!xt_program_fails(program))
        xt_dnnl_check(status, what, program->err);
    return !xt_program_fails(program);
}

/* Room for one more; NULL after a failure. */
static struct xt_resource *add_resource(struct xt_program *program)
{
    if (xt_program_fails(program) ||
        xt_mem_grow(&program->resources, &program->resource_capacity, program->resource_count + 1,
                    sizeof *program->resources, program->name, program->err))
        return NULL;
    struct xt_resource *resource = &program->resources[program->resource_count++];
    *resource = (struct xt_resource){0};
    return resource;
}

dnnl_memory_desc_t xt_program_layout(struct xt_program *program, const struct xt_operand *operand)
{
    struct xt_resource *resource = add_resource(program);
    if (resource)
        xt_operand_desc(operand, &resource->md, program->err);
    return resource ? resource->md : NULL;
}

dnnl_memory_desc_t xt_program_layout_as(struct xt_program *program, dnnl_data_type_t dtype,
                                        int ndims, const int64_t *dims, dnnl_format_tag_t format)
{
    struct xt_resource *resource = add_resource(program);
    dnnl_dims_t all = {0};
    memcpy(all, dims, (size_t)ndims * sizeof *all);
    if (resource)
        xt_program_check(
            program, xt_dnnl.memory_desc_create_with_tag(&resource->md, ndims, all, dtype, format),
            "a memory's layout");
    return resource ? resource->md : NULL;
}

void xt_program_keep(struct xt_program *program, dnnl_primitive_desc_t hint)
{
    struct xt_resource *resource = add_resource(program);
    if (resource)
        resource->hint = hint;
    else if (hint)
        xt_dnnl.primitive_desc_destroy(hint);
}

static dnnl_status_t append_post(struct xt_program *program, dnnl_post_ops_t ops,
                                 const struct xt_post *post)
{
    if (post->kind == XT_POST_ELTWISE)
        return xt_dnnl.post_ops_append_eltwise(ops, post->alg, post->alpha, post->beta);
    if (post->kind == XT_POST_SUM)
        return xt_dnnl.post_ops_append_sum(ops, post->alpha, 0, post->dtype);
    dnnl_memory_desc_t md = xt_program_layout(program, &post->with);
    return md ? xt_dnnl.post_ops_append_binary(ops, post->alg, md) : dnnl_success;
}

static void set_post_ops(struct xt_program *program, dnnl_primitive_attr_t attr,
                         const struct xt_post_ops *post_ops)
{
    static const char what[] = "what follows a primitive";
    dnnl_post_ops_t ops = NULL;
    xt_program_check(program, xt_dnnl.post_ops_create(&ops), what);
    for (int i = 0; i < post_ops->count && !xt_program_fails(program); i++)
        xt_program_check(program, append_post(program, ops, &post_ops->items[i]), what);
    if (!xt_program_fails(program))
        xt_program_check(program, xt_dnnl.primitive_attr_set_post_ops(attr, ops), what);
    if (ops)
        xt_dnnl.post_ops_destroy(ops);
}

dnnl_primitive_attr_t xt_program_attr(struct xt_program *program,
                                      const struct xt_post_ops *post_ops)
{
    static const char what[] = "a primitive's attributes";
    struct xt_resource *resource = add_resource(program);
    if (!resource ||
        !xt_program_check(program, xt_dnnl.primitive_attr_create(&resource->attr), what))
        return NULL;
    dnnl_primitive_attr_t attr = resource->attr;
    xt_program_check(
        program, xt_dnnl.primitive_attr_set_scratchpad_mode(attr, dnnl_scratchpad_mode_user), what);
    if (program->device->deterministic && !xt_program_fails(program))
        xt_program_check(program, xt_dnnl_set_deterministic(attr), what);
    if (post_ops && post_ops->count && !xt_program_fails(program))
        set_post_ops(program, attr, post_ops);
    return attr;
}

/* Of a primitive that is run by workers: whole pages of each. */
static size_t scratchpad_of(const_dnnl_primitive_desc_t pd)
{
    return (xt_layout_bytes(xt_layout_of(pd, dnnl_query_scratchpad_md, 0)) + 4095) / 4096 * 4096;
}

static void count_scratchpad(struct xt_program *program, size_t bytes)
{
    if (bytes > program->scratchpad_bytes)
        program->scratchpad_bytes = bytes;
}

struct xt_step *xt_program_add(struct xt_program *program, enum xt_phase phase,
                               dnnl_primitive_desc_t pd, const char *what)
{
    size_t count = program->count[phase];
    if (xt_program_fails(program) ||
        xt_mem_grow(&program->steps[phase], &program->capacity[phase], count + 1,
                    sizeof **program->steps, what, program->err)) {
        if (pd)
            xt_dnnl.primitive_desc_destroy(pd);
        return NULL;
    }
    struct xt_step *step = &program->steps[phase][program->count[phase]++];
    *step = (struct xt_step){.what = what, .pd = pd};
    count_scratchpad(program, xt_layout_bytes(xt_layout_of(pd, dnnl_query_scratchpad_md, 0)));
    return step;
}

struct xt_step *xt_program_add_own(struct xt_program *program, enum xt_phase phase,
                                   const struct xt_own_launch *launch, const char *what)
{
    struct xt_step *step = xt_program_add(program, phase, NULL, what);
    if (step)
        step->launch = *launch;
    return step;
}

void xt_step_by_slices(struct xt_program *program, struct xt_step *step, int workers)
{
    if (!step)
        return;
    step->workers = workers;
    count_scratchpad(program, (size_t)workers * scratchpad_of(step->pd));
}

static void add_argument(struct xt_step *step, struct argument argument)
{
    if (!step)
        return;
    assert(step->arg_count < ARGS_MAX - 1); /* binding adds the scratchpad */
    step->args[step->arg_count++] = argument;
}

void xt_step_arg(struct xt_step *step, int arg, struct xt_location place)
{
    add_argument(step, (struct argument){.arg = arg, .place = place});
}

void xt_step_number(struct xt_step *step, int index, uint32_t number)
{
    add_argument(step, (struct argument){.arg = index, .is_number = true, .number = number});
}

void xt_step_arg_samples(struct xt_step *step, int arg, struct xt_location place, size_t sample)
{
    add_argument(step, (struct argument){.arg = arg, .place = place, .sample = sample});
}

void xt_step_scales(struct xt_step *step, int arg, struct xt_location place, int count)
{
    add_argument(step, (struct argument){
                           .arg = DNNL_ARG_ATTR_SCALES | arg, .place = place, .floats = count});
}

void xt_step_post_args(struct xt_step *step, const struct xt_post_ops *post_ops)
{
    for (int i = 0; post_ops && i < post_ops->count; i++)
        if (post_ops->items[i].kind == XT_POST_BINARY)
            xt_step_arg(step, DNNL_ARG_ATTR_MULTIPLE_POST_OP(i) | DNNL_ARG_SRC_1,
                        post_ops->items[i].with.place);
}

void xt_step_name(struct xt_step *step, const char *what)
{
    if (step)
        step->what = what;
}

void xt_step_is_lower_bound(struct xt_step *step)
{
    if (step)
        step->lower_bound = true;
}

void xt_step_is_lower_bound_alone(struct xt_step *step)
{
    xt_step_is_lower_bound(step);
    if (step)
        step->lower_bound_alone = true;
}

/* ---- common primitives ---- */

const char xt_what_change[] = "a change of type or layout";
const char xt_what_binary[] = "an operation on two tensors";
const char xt_what_eltwise[] = "an operation on each element";
const char xt_what_matmul[] = "a matrix product";

/* A slice's primitive is for one thread. */
static void make_for_slices(int workers)
{
    if (workers)
        xt_device_make_for_threads(1);
}

static void run_by_slices(struct xt_program *program, struct xt_step *step, int workers)
{
    if (!workers)
        return;
    xt_step_by_slices(program, step, workers);
    xt_device_use_threads(program->device);
}

/* What a primitive reads or writes, once it is laid out. */
struct side {
    const_dnnl_memory_desc_t md;
    struct xt_location place;
    size_t sample; /* bytes, of a slice's; else 0 */
};

static struct side side_of(struct xt_program *program, const struct xt_operand *operand)
{
    return (struct side){xt_program_layout(program, operand), operand->place, operand->sample};
}

/* `scale`: location of the common factor; NULL: none. `workers`: of slices; else 0. */
static void add_reorder(struct xt_program *program, enum xt_phase phase, const struct side *from,
                        const struct side *to, const struct xt_location *scale, int workers,
                        const char *what)
{
    dnnl_engine_t engine = program->device->engine;
    dnnl_primitive_attr_t attr = xt_program_attr(program, NULL);
    dnnl_primitive_desc_t pd = NULL;
    if (xt_program_fails(program))
        return;
    if (scale)
        xt_program_check(program, xt_dnnl.primitive_attr_set_scales_mask(attr, DNNL_ARG_FROM, 0),
                         what);
    make_for_slices(workers);
    xt_program_check(
        program, xt_dnnl.reorder_primitive_desc_create(&pd, from->md, engine, to->md, engine, attr),
        what);
    struct xt_step *step = xt_program_add(program, phase, pd, what);
    xt_step_arg_samples(step, DNNL_ARG_FROM, from->place, from->sample);
    xt_step_arg_samples(step, DNNL_ARG_TO, to->place, to->sample);
    if (scale)
        xt_step_scales(step, DNNL_ARG_FROM, *scale, 1);
    run_by_slices(program, step, workers);
}

void xt_program_reorder_md(struct xt_program *program, enum xt_phase phase,
                           const_dnnl_memory_desc_t from_md, struct xt_location from,
                           const_dnnl_memory_desc_t to_md, struct xt_location to, const char *what)
{
    add_reorder(program, phase, &(struct side){from_md, from, 0}, &(struct side){to_md, to, 0},
                NULL, 0, what);
}

void xt_program_reorder(struct xt_program *program, enum xt_phase phase,
                        const struct xt_operand *from, const struct xt_operand *to)
{
    const struct side sides[] = {side_of(program, from), side_of(program, to)};
    add_reorder(program, phase, &sides[0], &sides[1], NULL, from->workers, xt_what_change);
}

void xt_program_dequantise(struct xt_program *program, enum xt_phase phase,
                           const struct xt_operand *from, struct xt_location scale,
                           const struct xt_operand *to)
{
    const struct side sides[] = {side_of(program, from), side_of(program, to)};
    add_reorder(program, phase, &sides[0], &sides[1], &scale, from->workers, xt_what_change);
}

enum { OPERANDS_MAX = 3 };

/* Layouts of a primitive with up to three operands. */
struct described {
    dnnl_memory_desc_t md[OPERANDS_MAX];
    dnnl_primitive_attr_t attr;
    dnnl_primitive_desc_t pd;
};

static struct described describe(struct xt_program *program,
                                 const struct xt_operand *const *operands, int count,
                                 const struct xt_post_ops *post_ops)
{
    make_for_slices(operands[0]->workers);
    struct described d = {.attr = xt_program_attr(program, post_ops)};
    for (int i = 0; i < count; i++)
        d.md[i] = xt_program_layout(program, operands[i]);
    return d;
}

/* Appends it, with the operands as these arguments. */
static struct xt_step *append(struct xt_program *program, enum xt_phase phase,
                              const struct described *d, const char *what,
                              const struct xt_operand *const *operands, const int *args, int count,
                              const struct xt_post_ops *post_ops)
{
    struct xt_step *step = xt_program_add(program, phase, d->pd, what);
    for (int i = 0; i < count; i++)
        xt_step_arg_samples(step, args[i], operands[i]->place, operands[i]->sample);
    xt_step_post_args(step, post_ops);
    run_by_slices(program, step, operands[0]->workers);
    return step;
}

void xt_program_binary(struct xt_program *program, enum xt_phase phase, dnnl_alg_kind_t alg,
                       const struct xt_operand *a, const struct xt_operand *b,
                       const struct xt_operand *to, const struct xt_post_ops *post_ops)
{
    static const int args[] = {DNNL_ARG_SRC_0, DNNL_ARG_SRC_1, DNNL_ARG_DST};
    const struct xt_operand *operands[] = {a, b, to};
    struct described d = describe(program, operands, 3, post_ops);
    if (!xt_program_fails(program))
        xt_program_check(program,
                         xt_dnnl.binary_primitive_desc_create(&d.pd, program->device->engine, alg,
                                                              d.md[0], d.md[1], d.md[2], d.attr),
                         xt_what_binary);
    append(program, phase, &d, xt_what_binary, operands, args, 3, post_ops);
}

void xt_program_eltwise(struct xt_program *program, enum xt_phase phase, dnnl_alg_kind_t alg,
                        float alpha, float beta, const struct xt_operand *from,
                        const struct xt_operand *to)
{
    static const int args[] = {DNNL_ARG_SRC, DNNL_ARG_DST};
    const struct xt_operand *operands[] = {from, to};
    struct described d = describe(program, operands, 2, NULL);
    if (!xt_program_fails(program))
        xt_program_check(program,
                         xt_dnnl.eltwise_forward_primitive_desc_create(
                             &d.pd, program->device->engine, dnnl_forward_inference, alg, d.md[0],
                             d.md[1], alpha, beta, d.attr),
                         xt_what_eltwise);
    append(program, phase, &d, xt_what_eltwise, operands, args, 2, NULL);
}

/* x < x is false for every number and for NaN. */
void xt_program_zero(struct xt_program *program, enum xt_phase phase, const struct xt_operand *to)
{
    xt_program_binary(program, phase, dnnl_binary_lt, to, to, to, NULL);
}

bool xt_program_dropout(struct xt_program *program, enum xt_phase phase,
                        const struct xt_operand *data, const struct xt_device_dropout *numbers)
{
    static const char what[] = "dropout";
    static const int args[] = {DNNL_ARG_SRC, DNNL_ARG_DST};
    const struct xt_operand *operands[] = {data, data};
    struct described d = describe(program, operands, 2, NULL);
    if (xt_program_fails(program) || xt_device_dropout_attr(d.attr) != dnnl_success ||
        xt_dnnl.eltwise_forward_primitive_desc_create(&d.pd, program->device->engine,
                                                      dnnl_forward_inference, dnnl_eltwise_linear,
                                                      d.md[0], d.md[1], 1, 0, d.attr))
        return false;
    append(program, phase, &d, what, operands, args, 2, NULL);
    const struct argument given[] = {
        {.arg = XT_ARG_DROPOUT_PROBABILITY, .given = numbers->probability},
        {.arg = XT_ARG_DROPOUT_SEED, .given = numbers->seed},
        {.arg = XT_ARG_DROPOUT_OFFSET, .given = numbers->offset},
    };
    size_t count = program->count[phase];
    for (size_t i = 0; i < sizeof given / sizeof given[0] && !xt_program_fails(program); i++)
        add_argument(&program->steps[phase][count - 1], given[i]);
    return !xt_program_fails(program);
}

/* oneDNN's algorithms whose gradient follows from the output have this bit. */
enum { FROM_DST = dnnl_eltwise_relu_use_dst_for_bwd };

void xt_program_eltwise_backward(struct xt_program *program, dnnl_alg_kind_t alg, float alpha,
                                 float beta, const struct xt_operand *data,
                                 const struct xt_operand *behind, const struct xt_operand *before,
                                 const char *what)
{
    const int data_arg = alg & FROM_DST ? DNNL_ARG_DST : DNNL_ARG_SRC;
    const int args[] = {data_arg, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_SRC};
    const struct xt_operand *operands[] = {data, behind, before};
    struct described d = describe(program, operands, 3, NULL);
    dnnl_primitive_desc_t hint = NULL;
    if (!xt_program_fails(program))
        xt_program_check(program,
                         xt_dnnl.eltwise_forward_primitive_desc_create(
                             &hint, program->device->engine, dnnl_forward_training, alg, d.md[0],
                             d.md[0], alpha, beta, NULL),
                         what);
    if (!xt_program_fails(program))
        xt_program_check(program,
                         xt_dnnl.eltwise_backward_primitive_desc_create(
                             &d.pd, program->device->engine, alg, d.md[2], d.md[1], d.md[0], alpha,
                             beta, hint, d.attr),
                         what);
    xt_program_keep(program, hint);
    append(program, XT_BACKWARD, &d, what, operands, args, 3, NULL);
}

struct xt_step *xt_program_matmul(struct xt_program *program, enum xt_phase phase,
                                  const struct xt_operand *a, const struct xt_operand *b,
                                  const struct xt_operand *to, const struct xt_post_ops *post_ops)
{
    static const int args[] = {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST};
    const struct xt_operand *operands[] = {a, b, to};
    for (int i = 0; post_ops && i < post_ops->count; i++)
        assert(post_ops->items[i].kind != XT_POST_BINARY);
    struct described d = describe(program, operands, 3, post_ops);
    if (!xt_program_fails(program))
        xt_program_check(program,
                         xt_dnnl.matmul_primitive_desc_create(&d.pd, program->device->engine,
                                                              d.md[0], d.md[1], NULL, d.md[2],
                                                              d.attr),
                         xt_what_matmul);
    return append(program, phase, &d, xt_what_matmul, operands, args, 3, post_ops);
}

void xt_program_concat(struct xt_program *program, enum xt_phase phase,
                       const struct xt_operand *parts, int count, const struct xt_operand *to)
{
    static const char what[] = "a concatenation";
    enum { PARTS_MAX = 8, CHANNELS = 1 };
    const struct xt_operand *operands[] = {to};
    struct described d = describe(program, operands, 1, NULL);
    const_dnnl_memory_desc_t md[PARTS_MAX] = {NULL};
    for (int i = 0; i < count; i++)
        md[i] = xt_program_layout(program, &parts[i]);
    if (!xt_program_fails(program))
        xt_program_check(program,
                         xt_dnnl.concat_primitive_desc_create(&d.pd, program->device->engine,
                                                              d.md[0], count, CHANNELS, md, d.attr),
                         what);
    struct xt_step *step = xt_program_add(program, phase, d.pd, what);
    for (int i = 0; i < count; i++)
        xt_step_arg(step, DNNL_ARG_MULTIPLE_SRC + i, parts[i].place);
    xt_step_arg(step, DNNL_ARG_DST, to->place);
}

/* ---- binding and running ---- */

void *xt_program_address(const struct xt_program *program, const struct xt_location *place,
                         struct xt_err *err)
{
    const struct xt_device *device = place->buffer ? place->buffer->device : place->memory->device;
    if (!device || device->engine != program->device->engine) {
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
    return (char *)((float *)data + (place->floats_before ? *place->floats_before : 0)) +
           place->bytes;
}

static enum xt_status bind_own_argument(const struct xt_program *program,
                                        const struct xt_step *step, const struct argument *argument,
                                        struct xt_err *err)
{
    if (argument->is_number)
        return xt_own_kernel_number(step->own, argument->arg, argument->number, err);
    void *data = xt_program_address(program, &argument->place, err);
    return data ? xt_own_kernel_point(step->own, argument->arg, data, err) : err->status;
}

/* oneDNN knows the layout of each argument by now, except of scales. */
static enum xt_status bind_argument(const struct xt_program *program, struct xt_step *step,
                                    int worker, int index, struct xt_err *err)
{
    const struct argument *argument = &step->args[index];
    if (step->own)
        return bind_own_argument(program, step, argument, err);
    if (argument->given) {
        bound_of(step, worker)[index] = (dnnl_exec_arg_t){argument->arg, argument->given};
        return XT_OK;
    }
    char *data = xt_program_address(program, &argument->place, err);
    if (!data)
        return err->status;
    data += argument->worker * (size_t)worker;
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
    if (own)
        xt_dnnl.memory_desc_destroy(own);
    bound_of(step, worker)[index] = (dnnl_exec_arg_t){argument->arg, memory};
    return status;
}

static enum xt_status bind_arguments(const struct xt_program *program, struct xt_step *step,
                                     struct xt_err *err)
{
    enum xt_status status = XT_OK;
    if (step->workers)
        status = xt_mem_calloc(&step->of_worker, (size_t)step->workers, sizeof *step->of_worker,
                               step->what, err);
    for (int worker = 0; worker < workers_of(step) && !status; worker++)
        for (int i = 0; i < step->arg_count && !status; i++)
            status = bind_argument(program, step, worker, i, err);
    return status;
}

static bool needs_scratchpad(const struct xt_step *step)
{
    return xt_layout_bytes(xt_layout_of(step->pd, dnnl_query_scratchpad_md, 0)) > 0;
}

/* Workers run steps of different ops at the same time, so a worker's part is the same for all. A
 * program beside the graph has no buffers, and no workers. */
static size_t worker_scratchpad(const struct xt_step *step, struct xt_location scratchpad)
{
    return step->workers && scratchpad.buffer
               ? scratchpad.buffer->bytes / (size_t)step->workers / 64 * 64
               : 0;
}

/* A kernel's compilation is not interrupted, but no other is begun. */
static enum xt_status check_stop(const struct xt_device *device, struct xt_err *err)
{
    if (!device->compiles)
        return XT_OK;
    return xt_stop_check(err, "before all kernels were created%s",
                         device->cache.folder ? "; those that were compiled stay in the cache"
                                              : "");
}

/* For as many threads as it was described for: oneDNN's cache distinguishes primitives by the
 * caller's, and a descriptor from the cache may refer to one that is destroyed (3.2), which only
 * matters where a primitive is created from it. */
static enum xt_status make_step(const struct xt_program *program, struct xt_step *step,
                                struct xt_err *err)
{
    enum xt_status status = check_stop(program->device, err);
    if (status || step->primitive)
        return status;
    if (step->workers)
        xt_device_make_for_threads(1);
    xt_guard_set_kernel(program->name, step->what);
    if (step->launch.program)
        status = step->own ? XT_OK
                           : xt_own_kernel_create(program->device, step->launch.program,
                                                  step->launch.kernel, &step->own, err);
    else
        status = xt_primitive_create(program->device, step->pd, step->what, &step->primitive, err);
    if (step->workers)
        xt_device_use_threads(program->device);
    if (status)
        xt_err_prefix(err, "%s: ", program->name);
    return status;
}

enum xt_status xt_program_create(const struct xt_program *program, size_t index, struct xt_err *err)
{
    int phase = 0;
    while (index >= program->count[phase])
        index -= program->count[phase++];
    return make_step(program, &program->steps[phase][index], err);
}

enum xt_status xt_program_bind(struct xt_program *program, struct xt_location scratchpad,
                               struct xt_err *err)
{
    for (int phase = 0; phase < XT_PHASES; phase++)
        for (size_t i = 0; i < program->count[phase]; i++) {
            struct xt_step *step = &program->steps[phase][i];
            if (make_step(program, step, err))
                return err->status;
            if (needs_scratchpad(step))
                add_argument(step,
                             (struct argument){.arg = DNNL_ARG_SCRATCHPAD,
                                               .place = scratchpad,
                                               .worker = worker_scratchpad(step, scratchpad)});
            if (bind_arguments(program, step, err)) {
                xt_err_prefix(err, "%s: ", program->name);
                return err->status;
            }
        }
    clear_resources(program);
    return XT_OK;
}

enum xt_status xt_programs_bind(struct xt_program *programs, size_t count, const char *what,
                                struct xt_device_memory *scratchpad, struct xt_err *err)
{
    size_t bytes = 0;
    if (programs->err->status)
        return xt_err_set(err, programs->err->status, "%s: %s", what, programs->err->text);
    for (size_t i = 0; i < count; i++)
        if (programs[i].scratchpad_bytes > bytes)
            bytes = programs[i].scratchpad_bytes;
    enum xt_status status =
        xt_device_memory_create_bytes(programs->device, bytes, XT_ON_DEVICE, what, scratchpad, err);
    for (size_t i = 0; i < count && !status; i++)
        status = xt_program_bind(&programs[i], xt_in_memory(scratchpad), err);
    return status;
}

size_t xt_program_count(const struct xt_program *program)
{
    size_t count = 0;
    for (int phase = 0; phase < XT_PHASES; phase++)
        count += program->count[phase];
    return count;
}

static enum xt_status run_step(const struct xt_program *program, const struct xt_step *step,
                               struct xt_err *err)
{
    xt_guard_note(program->name, step->what);
    if (step->own)
        return xt_own_kernel_launch(step->own, step->launch.global, step->launch.local, err);
    return xt_dnnl_check(xt_dnnl.primitive_execute(step->primitive, program->device->stream,
                                                   step->arg_count, step->bound),
                         step->what, err);
}

enum xt_status xt_program_run(const struct xt_program *program, enum xt_phase phase,
                              struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < program->count[phase] && !status; i++)
        if (!program->steps[phase][i].lower_bound_alone && !program->steps[phase][i].workers)
            status = run_step(program, &program->steps[phase][i], err);
    return status;
}

/* Touches only the worker's memories. */
static enum xt_status run_slice(const struct xt_program *program, const struct xt_step *step,
                                int worker, int first, struct xt_err *err)
{
    const dnnl_exec_arg_t *bound = step->of_worker[worker];
    for (int i = 0; i < step->arg_count; i++) {
        const struct argument *argument = &step->args[i];
        if (!argument->sample)
            continue;
        void *data = xt_buffer_sample(argument->place.buffer, argument->sample, first);
        if (xt_dnnl_check(xt_dnnl.memory_set_data_handle(bound[i].memory, data), step->what, err))
            return err->status;
    }
    return xt_dnnl_check(
        xt_dnnl.primitive_execute(step->primitive, program->device->stream, step->arg_count, bound),
        step->what, err);
}

enum xt_status xt_program_run_slice(const struct xt_program *program, enum xt_phase phase,
                                    int worker, int first, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < program->count[phase] && !status; i++)
        if (program->steps[phase][i].workers)
            status = run_slice(program, &program->steps[phase][i], worker, first, err);
    return status;
}

enum xt_status xt_program_run_lower_bound(const struct xt_program *program, enum xt_phase phase,
                                          struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < program->count[phase] && !status; i++)
        if (program->steps[phase][i].lower_bound)
            status = run_step(program, &program->steps[phase][i], err);
    return status;
}

enum xt_status xt_program_point(struct xt_program *program, enum xt_phase phase, size_t index,
                                int arg, const struct xt_location *place, struct xt_err *err)
{
    struct xt_step *step = &program->steps[phase][index];
    void *data = xt_program_address(program, place, err);
    enum xt_status status = data ? XT_OK : err->status;
    for (int i = 0; i < step->arg_count && !status; i++)
        if (step->bound[i].arg == arg)
            status = xt_dnnl_check(xt_dnnl.memory_set_data_handle(step->bound[i].memory, data),
                                   step->what, err);
    return status;
}

const char *xt_program_implementation(const struct xt_program *program, enum xt_phase phase,
                                      const char *what)
{
    const char *found = "";
    for (size_t i = 0; i < program->count[phase]; i++) {
        const struct xt_step *step = &program->steps[phase][i];
        if (what ? strcmp(step->what, what) == 0 : step->what != xt_what_change || !*found)
            found = step->launch.program ? "xtrain:opencl" : xt_dnnl_implementation(step->pd);
        if (*found && what)
            break;
    }
    return found;
}
