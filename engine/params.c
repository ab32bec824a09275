#include "engine/params.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/rng.h"
#include "engine/form.h"
#include "engine/loops/loops.h"

bool xt_param_is_weight(const struct xt_param *param)
{
    return param->role == XT_PARAM_WEIGHT || param->role == XT_PARAM_RAW;
}

bool xt_param_is_statistic(const struct xt_param *param)
{
    return param->role == XT_PARAM_BN_MEAN || param->role == XT_PARAM_BN_VAR ||
           param->role == XT_PARAM_BN_COUNT;
}

static size_t product(const int *dims, int ndims)
{
    size_t count = 1;
    for (int i = 0; i < ndims; i++)
        count *= (size_t)dims[i];
    return count;
}

static enum xt_status copy_map(int **out, const int *map, int count, struct xt_err *err)
{
    *out = NULL;
    if (!map)
        return XT_OK;
    enum xt_status status = xt_mem_calloc(out, (size_t)count, sizeof **out, "a channel map", err);
    if (!status)
        memcpy(*out, map, (size_t)count * sizeof **out);
    return status;
}

int xt_params_add(struct xt_params *params, const struct xt_param *param, struct xt_err *err)
{
    if (params->count == XT_PARAMS_MAX) {
        xt_err_set(err, XT_ERR_RUN, "a network of more than %d parameter tensors", XT_PARAMS_MAX);
        return -1;
    }
    struct xt_param *item = &params->items[params->count];
    *item = *param;
    item->rows = item->columns = NULL;
    item->md = NULL;
    if (!item->file_ndims)
        item->file_ndims = item->ndims;
    if (copy_map(&item->rows, param->rows, param->dims[0], err) ||
        copy_map(&item->columns, param->columns, param->dims[1], err)) {
        free(item->rows);
        return -1;
    }
    params->grad_squares[params->count] = NAN;
    return params->count++;
}

size_t xt_param_floats(const struct xt_param *param)
{
    return param->md ? xt_dnnl.memory_desc_get_size(param->md) / sizeof(float)
                     : product(param->dims, param->ndims);
}

size_t xt_param_file_count(const struct xt_param *param)
{
    return product(param->file_dims, param->ndims);
}

bool xt_param_learns(const struct xt_param *param)
{
    return !xt_param_is_statistic(param) && !param->frozen;
}

/* The arena's copy in a type of 16 bits begins each weight at a multiple of 64 bytes too. */
static size_t unit_of(const struct xt_params *params)
{
    for (int i = 0; i < params->count; i++)
        if (params->items[i].hwio)
            return 32;
    return 16;
}

/* Weights come first: parameters with the same update rule are adjacent, and an XPU updates them at
 * once. */
void xt_params_lay_out(struct xt_params *params)
{
    size_t values = 0;
    size_t stats = 0;
    size_t unit = unit_of(params);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < params->count; i++) {
            struct xt_param *param = &params->items[i];
            bool first = xt_param_is_weight(param);
            if (param->role == XT_PARAM_BN_COUNT || first != (round == 0))
                continue;
            size_t *end = xt_param_is_statistic(param) ? &stats : &values;
            param->floats = (xt_param_floats(param) + unit - 1) / unit * unit;
            param->offset = *end;
            *end += param->floats;
        }
    params->value_floats = (values + XT_PARAMS_CHUNK - 1) / XT_PARAMS_CHUNK * XT_PARAMS_CHUNK;
    params->stat_floats = stats;
}

static uint64_t mix(uint64_t hash, const int64_t *numbers, int count)
{
    for (int i = 0; i < count; i++)
        hash = xt_rng_mix(hash ^ (uint64_t)numbers[i]);
    return hash;
}

static uint64_t format_of(const struct xt_param *param, uint64_t hash)
{
    static const dnnl_query_t of_dims[] = {dnnl_query_padded_dims, dnnl_query_strides};
    static const dnnl_query_t of_blocks[] = {dnnl_query_inner_blks, dnnl_query_inner_idxs};
    const dnnl_dims_t *numbers = NULL;
    int ndims = 0;
    int blocks = 0;
    if (xt_dnnl.memory_desc_query(param->md, dnnl_query_ndims_s32, &ndims) != dnnl_success)
        return hash;
    for (size_t i = 0; i < 2; i++)
        if (xt_dnnl.memory_desc_query(param->md, of_dims[i], &numbers) == dnnl_success)
            hash = mix(hash, *numbers, ndims);
    if (xt_dnnl.memory_desc_query(param->md, dnnl_query_inner_nblks_s32, &blocks) != dnnl_success)
        return hash;
    for (size_t i = 0; i < 2; i++)
        if (xt_dnnl.memory_desc_query(param->md, of_blocks[i], &numbers) == dnnl_success)
            hash = mix(hash, *numbers, blocks);
    return hash;
}

uint64_t xt_params_layout(const struct xt_params *params)
{
    uint64_t hash = 0;
    for (int i = 0; i < params->count; i++) {
        const struct xt_param *param = &params->items[i];
        hash =
            mix(hash, (int64_t[]){(int64_t)param->offset, (int64_t)param->floats, param->hwio}, 3);
        if (param->md)
            hash = format_of(param, hash);
    }
    return hash;
}

enum xt_status xt_params_allocate(struct xt_params *params, bool gradients, struct xt_err *err)
{
    xt_params_lay_out(params);
    enum xt_status status =
        xt_mem_aligned(&params->values, params->value_floats, sizeof(float), "the parameters", err);
    if (!status && gradients)
        status = xt_mem_aligned(&params->grads, params->value_floats, sizeof(float),
                                "the gradients", err);
    if (!status)
        status = xt_mem_aligned(&params->stats, params->stat_floats, sizeof(float),
                                "running statistics", err);
    return status;
}

/* A device that can access host memory uses the host's array. */
static enum xt_status place_array(struct xt_device *device, float *host, size_t floats,
                                  const char *what, struct xt_device_memory *out,
                                  struct xt_err *err)
{
    size_t bytes = floats * sizeof(float);
    if (out->memory)
        return XT_OK;
    return device->own_memory
               ? xt_device_memory_create_bytes(device, bytes, XT_ON_DEVICE, what, out, err)
               : xt_device_memory_view(device, host, bytes, out, err);
}

/* Padding between parameters and the gradients of frozen ones are never written, but are summed. */
static enum xt_status clear_array(struct xt_device_memory *memory, struct xt_err *err)
{
    void *zeros = NULL;
    enum xt_status status = xt_mem_calloc(&zeros, memory->bytes, 1, "zeros", err);
    if (!status)
        status = xt_device_memory_write(memory, zeros, memory->bytes, XT_CAUSE_WEIGHTS, err);
    free(zeros);
    return status;
}

enum xt_status xt_params_place(struct xt_params *params, struct xt_device *device, bool gradients,
                               struct xt_err *err)
{
    struct xt_params_on_device *there = &params->device;
    enum xt_status status = place_array(device, params->values, params->value_floats,
                                        "the parameters", &there->values, err);
    if (!status)
        status = place_array(device, params->stats, params->stat_floats, "running statistics",
                             &there->stats, err);
    if (status || !gradients || there->grads.memory)
        return status;
    status = place_array(device, params->grads, params->value_floats, "the gradients",
                         &there->grads, err);
    return status ? status : clear_array(&there->grads, err);
}

enum xt_status xt_params_push(struct xt_params *params, struct xt_err *err)
{
    struct xt_params_on_device *there = &params->device;
    if (!there->values.memory || there->values.borrowed || there->pushed == params->version)
        return XT_OK;
    enum xt_status status =
        xt_device_memory_write(&there->values, params->values, params->value_floats * sizeof(float),
                               XT_CAUSE_WEIGHTS, err);
    if (!status)
        status = xt_device_memory_write(&there->stats, params->stats,
                                        params->stat_floats * sizeof(float), XT_CAUSE_WEIGHTS, err);
    there->pushed = params->version;
    there->is_newer = false;
    return status;
}

enum xt_status xt_params_pull(struct xt_params *params, struct xt_err *err)
{
    struct xt_params_on_device *there = &params->device;
    if (!there->is_newer)
        return XT_OK;
    enum xt_status status =
        xt_device_memory_read(&there->values, params->values, params->value_floats * sizeof(float),
                              XT_CAUSE_WEIGHTS, err);
    if (!status)
        status = xt_device_memory_read(&there->stats, params->stats,
                                       params->stat_floats * sizeof(float), XT_CAUSE_WEIGHTS, err);
    there->is_newer = status != XT_OK;
    return status;
}

void xt_params_changed_on_device(struct xt_params *params)
{
    params->version++;
    params->device.pushed = params->version;
    params->device.is_newer = true;
}

enum xt_status xt_params_pull_grads(struct xt_params *params, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    if (!params->device.grads.memory || params->device.grads.borrowed)
        return XT_OK;
    if (!params->grads)
        status = xt_mem_aligned(&params->grads, params->value_floats, sizeof(float),
                                "the gradients", err);
    return status
               ? status
               : xt_device_memory_read(&params->device.grads, params->grads,
                                       params->value_floats * sizeof(float), XT_CAUSE_OTHER, err);
}

void xt_params_clear(struct xt_params *params)
{
    xt_device_memory_destroy(&params->device.values);
    xt_device_memory_destroy(&params->device.grads);
    xt_device_memory_destroy(&params->device.stats);
    for (int i = 0; i < params->count; i++) {
        free(params->items[i].rows);
        free(params->items[i].columns);
        if (params->items[i].md)
            xt_dnnl.memory_desc_destroy(params->items[i].md);
    }
    free(params->values);
    free(params->grads);
    free(params->stats);
    *params = (struct xt_params){0};
}

float *xt_params_value(struct xt_params *params, const struct xt_param *param)
{
    if (param->role == XT_PARAM_BN_COUNT)
        return NULL;
    return (xt_param_is_statistic(param) ? params->stats : params->values) + param->offset;
}

float *xt_params_grad(struct xt_params *params, const struct xt_param *param)
{
    return params->grads + param->offset;
}

void xt_params_grads_changed(struct xt_params *params)
{
    for (int i = 0; i < params->count; i++)
        params->grad_squares[i] = NAN;
}

/* The index in the file's tensor of element i of the part. */
static size_t file_index(const struct xt_param *param, size_t i)
{
    size_t at[4] = {0};
    for (int axis = param->ndims - 1; axis >= 0; axis--) {
        at[axis] = i % (size_t)param->dims[axis];
        i /= (size_t)param->dims[axis];
    }
    if (param->rows)
        at[0] = (size_t)param->rows[at[0]];
    if (param->columns)
        at[1] = (size_t)param->columns[at[1]];
    if (param->in_first)
        return at[1] * (size_t)param->file_dims[1] + at[0];
    size_t index = 0;
    for (int axis = 0; axis < param->ndims; axis++)
        index = index * (size_t)param->file_dims[axis] + at[axis];
    return index;
}

static enum xt_status dense_md(const struct xt_param *param, dnnl_memory_desc_t *md,
                               struct xt_err *err)
{
    dnnl_dims_t dims;
    for (int i = 0; i < 4; i++)
        dims[i] = param->dims[i];
    return xt_dnnl_check(xt_dnnl.memory_desc_create_with_tag(md, 4, dims, dnnl_f32, dnnl_oihw),
                         param->name, err);
}

static float *view_data(const struct xt_param *param, const struct xt_params_view *view)
{
    return (xt_param_is_statistic(param) ? view->stats : view->values) + param->offset;
}

/* Between O, I, H, W and the form. */
static void turn(const struct xt_param *param, const struct xt_form *form, const float *from,
                 float *to, bool to_arena)
{
    uint32_t width = (uint32_t)param->dims[3];
    uint32_t taps = (uint32_t)param->dims[2] * width;
    uint32_t row = (uint32_t)param->dims[1] * taps;
    for (uint32_t o = 0; o < (uint32_t)param->dims[0]; o++)
        for (uint32_t i = 0; i < row; i++) {
            const uint32_t at[] = {o / form->dims[1], o % form->dims[1], i / taps, i % taps / width,
                                   i % width};
            size_t plain = (size_t)o * row + i;
            size_t turned = xt_form_place(form, at);
            to[to_arena ? turned : plain] = from[to_arena ? plain : turned];
        }
}

/* Converts the part between row-major and the arena's format. */
static enum xt_status reformat(const struct xt_param *param, struct xt_device *device,
                               const float *from, float *to, bool to_arena, struct xt_err *err)
{
    struct xt_form form;
    bool turns = param->hwio || (device->own_memory && xt_form_of(param->md, &form));
    if (param->hwio)
        form = xt_form_hwio(param->dims);
    if (turns)
        turn(param, &form, from, to, to_arena);
    else if (!param->md)
        memcpy(to, from, product(param->dims, param->ndims) * sizeof(float));
    if (turns || !param->md)
        return XT_OK;
    dnnl_memory_desc_t md = NULL;
    enum xt_status status = dense_md(param, &md, err);
    if (status)
        return status;
    status = to_arena ? xt_device_reorder(device, md, from, param->md, to, err)
                      : xt_device_reorder(device, param->md, from, md, to, err);
    xt_dnnl.memory_desc_destroy(md);
    return status;
}

enum xt_status xt_param_read(const struct xt_param *param, struct xt_device *device,
                             const float *arena, float *part, struct xt_err *err)
{
    return reformat(param, device, arena, part, false, err);
}

/* The part is all of the file's tensor, in its order. */
static bool is_whole(const struct xt_param *param)
{
    return !param->rows && !param->columns && !param->in_first;
}

enum xt_status xt_params_import(const struct xt_param *param, struct xt_device *device,
                                const struct xt_params_view *view, const float *reference,
                                struct xt_err *err)
{
    size_t count = product(param->dims, param->ndims);
    float *arena = view_data(param, view);
    float *part = NULL;
    if (is_whole(param))
        return reformat(param, device, reference, arena, true, err);
    enum xt_status status = xt_mem_aligned(&part, count, sizeof *part, param->name, err);
    if (status)
        return status;
    for (size_t i = 0; i < count; i++)
        part[i] = reference[file_index(param, i)];
    status = reformat(param, device, part, arena, true, err);
    free(part);
    return status;
}

enum xt_status xt_params_export(const struct xt_param *param, struct xt_device *device,
                                const struct xt_params_view *view, float *reference,
                                struct xt_err *err)
{
    size_t count = product(param->dims, param->ndims);
    const float *arena = view_data(param, view);
    float *part = NULL;
    if (is_whole(param))
        return reformat(param, device, arena, reference, false, err);
    enum xt_status status = xt_mem_aligned(&part, count, sizeof *part, param->name, err);
    if (status)
        return status;
    status = reformat(param, device, arena, part, false, err);
    for (size_t i = 0; i < count && !status; i++)
        reference[file_index(param, i)] = part[i];
    free(part);
    return status;
}

static uint64_t hash_name(const char *name)
{
    uint64_t hash = 0;
    for (; *name; name++)
        hash = xt_rng_mix(hash ^ (unsigned char)*name);
    return hash;
}

/* Kaiming normal with fan-out of a weight. */
static float deviation_of(const struct xt_param *param)
{
    const int *dims = param->file_dims;
    return sqrtf(2.0f / (float)(dims[param->in_first] * dims[2] * dims[3]));
}

/* The rule, or its default for the role. */
static struct xt_init init_of(const struct xt_param *param, float bias)
{
    bool is_1 = param->role == XT_PARAM_BN_SCALE || param->role == XT_PARAM_BN_VAR;
    if (param->init.rule != XT_INIT_BY_ROLE)
        return param->init;
    if (xt_param_is_weight(param))
        return (struct xt_init){XT_INIT_NORMAL, deviation_of(param)};
    return (struct xt_init){XT_INIT_CONSTANT, param->role == XT_PARAM_BIAS ? bias : is_1};
}

/* Each number has its own index in the parameter's random sequence, so threads can divide them. */
static void fill_row_major(const struct xt_param *param, uint64_t seed, float bias,
                           float *reference)
{
    enum { SOME = 4096 };
    size_t count = product(param->file_dims, param->ndims);
    const struct xt_rng begin = xt_rng_begin(seed, hash_name(param->name));
    const struct xt_init init = init_of(param, bias);
    const struct xt_loops *loops = xt_loops_get();
#pragma omp parallel for schedule(static) if (count > SOME)
    for (size_t at = 0; at < count; at += SOME) {
        size_t some = count - at < SOME ? count - at : SOME;
        struct xt_rng rng = begin;
        rng.counter += at;
        if (init.rule == XT_INIT_NORMAL)
            loops->normal(begin, at, some, init.value, reference + at);
        for (size_t i = at; i < at + some && init.rule == XT_INIT_CONSTANT; i++)
            reference[i] = init.value;
        for (size_t i = at; i < at + some && init.rule == XT_INIT_UNIFORM; i++)
            reference[i] = (float)((double)(xt_rng_next(&rng) >> 11) * 0x1p-52 - 1) * init.value;
    }
}

enum xt_status xt_params_initialise(struct xt_params *params, struct xt_device *device,
                                    uint64_t seed, float bias, struct xt_err *err)
{
    struct xt_params_view view = {.values = params->values, .stats = params->stats};
    enum xt_status status = XT_OK;
    for (int i = 0; i < params->count && !status; i++) {
        const struct xt_param *param = &params->items[i];
        if (param->role == XT_PARAM_BN_COUNT)
            continue;
        float *reference = NULL;
        status = xt_mem_aligned(&reference, product(param->file_dims, param->ndims),
                                sizeof *reference, param->name, err);
        if (!status) {
            fill_row_major(param, seed, bias, reference);
            status = xt_params_import(param, device, &view, reference, err);
        }
        free(reference);
    }
    params->version++;
    memset(params->tracked, 0, sizeof params->tracked);
    params->frozen_at_init = false;
    return status;
}
