#include "models/graph/params.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/rng.h"
#include "base/str.h"

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
    return params->count++;
}

static size_t param_floats(const struct xt_param *param)
{
    size_t floats = param->md ? xt_dnnl.memory_desc_get_size(param->md) / sizeof(float)
                              : product(param->dims, param->ndims);
    return (floats + 15) / 16 * 16;
}

/* Weights lie before all others: what is updated alike lies side by side, and an XPU updates a
 * stretch at once. */
void xt_params_lay_out(struct xt_params *params)
{
    size_t values = 0;
    size_t stats = 0;
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < params->count; i++) {
            struct xt_param *param = &params->items[i];
            bool first = param->role == XT_PARAM_WEIGHT;
            if (param->role == XT_PARAM_BN_COUNT || first != (round == 0))
                continue;
            size_t *end = xt_param_is_statistic(param) ? &stats : &values;
            param->floats = param_floats(param);
            param->offset = *end;
            *end += param->floats;
        }
    params->value_floats = (values + XT_PARAMS_CHUNK - 1) / XT_PARAMS_CHUNK * XT_PARAMS_CHUNK;
    params->stat_floats = stats;
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

/* Where the device reaches the host's memory it works on the host's array. */
static enum xt_status place_array(struct xt_device *device, float *host, size_t floats,
                                  const char *what, struct xt_device_memory *out,
                                  struct xt_err *err)
{
    size_t bytes = floats * sizeof(float);
    if (out->memory)
        return XT_OK;
    return xt_device_is_apart(device)
               ? xt_device_memory_create_bytes(device, bytes, XT_ON_DEVICE, what, out, err)
               : xt_device_memory_view(device, host, bytes, out, err);
}

/* Padding between parameters and the gradients of frozen ones are never written, but are summed. */
static enum xt_status clear_array(struct xt_device_memory *memory, struct xt_err *err)
{
    void *data = NULL;
    enum xt_status status = xt_device_memory_map(memory, XT_CAUSE_WEIGHTS, &data, err);
    if (status)
        return status;
    memset(data, 0, memory->bytes);
    return xt_device_memory_unmap(memory, XT_CAUSE_WEIGHTS, err);
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
    size_t index = 0;
    for (int axis = 0; axis < param->ndims; axis++)
        index = index * (size_t)param->file_dims[axis] + at[axis];
    return index;
}

static enum xt_status plain_md(const struct xt_param *param, dnnl_memory_desc_t *md,
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

/* The part as a plain tensor <-> the arena's format. */
static enum xt_status reformat(const struct xt_param *param, struct xt_device *device, float *plain,
                               float *arena, bool to_arena, struct xt_err *err)
{
    size_t bytes = product(param->dims, param->ndims) * sizeof(float);
    if (!param->md) {
        memcpy(to_arena ? arena : plain, to_arena ? plain : arena, bytes);
        return XT_OK;
    }
    dnnl_memory_desc_t md = NULL;
    enum xt_status status = plain_md(param, &md, err);
    if (status)
        return status;
    status = to_arena ? xt_device_reorder(device, md, plain, param->md, arena, err)
                      : xt_device_reorder(device, param->md, arena, md, plain, err);
    xt_dnnl.memory_desc_destroy(md);
    return status;
}

enum xt_status xt_params_import(const struct xt_param *param, struct xt_device *device,
                                const struct xt_params_view *view, const float *plain,
                                struct xt_err *err)
{
    size_t count = product(param->dims, param->ndims);
    float *part = NULL;
    enum xt_status status = xt_mem_aligned(&part, count, sizeof *part, param->name, err);
    if (status)
        return status;
    for (size_t i = 0; i < count; i++)
        part[i] = plain[file_index(param, i)];
    status = reformat(param, device, part, view_data(param, view), true, err);
    free(part);
    return status;
}

enum xt_status xt_params_export(const struct xt_param *param, struct xt_device *device,
                                const struct xt_params_view *view, float *plain, struct xt_err *err)
{
    size_t count = product(param->dims, param->ndims);
    float *part = NULL;
    enum xt_status status = xt_mem_aligned(&part, count, sizeof *part, param->name, err);
    if (status)
        return status;
    status = reformat(param, device, part, view_data(param, view), false, err);
    for (size_t i = 0; i < count && !status; i++)
        plain[file_index(param, i)] = part[i];
    free(part);
    return status;
}

static bool in_view(const struct xt_param *param, const struct xt_params_view *view)
{
    return !xt_param_is_statistic(param) || view->stats;
}

static struct xt_file_tensor *find_tensor(struct xt_params_tensors *tensors, const char *name)
{
    for (int i = 0; i < tensors->count; i++)
        if (strcmp(tensors->items[i].name, name) == 0)
            return &tensors->items[i];
    return NULL;
}

/* The data of a tensor in `tensors`, which this file allocated and so may write. */
static float *own_data(const struct xt_file_tensor *tensor)
{
    union {
        const void *in;
        float *out;
    } data = {.in = tensor->data};
    return data.out;
}

static enum xt_status add_tensor(const struct xt_params *params, const struct xt_param *param,
                                 struct xt_params_tensors *out, struct xt_err *err)
{
    bool is_count = param->role == XT_PARAM_BN_COUNT;
    size_t count = is_count ? 1 : product(param->file_dims, param->file_ndims);
    size_t size = is_count ? sizeof(int64_t) : sizeof(float);
    void *data = NULL;
    enum xt_status status = xt_mem_aligned(&data, count, size, param->name, err);
    if (status)
        return status;
    struct xt_file_tensor *tensor = &out->items[out->count++];
    *tensor = (struct xt_file_tensor){
        .name = param->name,
        .dtype = is_count ? XT_I64 : XT_F32,
        .ndims = is_count ? 0 : param->file_ndims,
        .data = data,
        .bytes = count * size,
    };
    for (int i = 0; i < tensor->ndims; i++)
        tensor->dims[i] = param->file_dims[i];
    if (is_count)
        memcpy(data, &params->batches_tracked, sizeof params->batches_tracked);
    return XT_OK;
}

enum xt_status xt_params_to_tensors(const struct xt_params *params, struct xt_device *device,
                                    const struct xt_params_view *view,
                                    struct xt_params_tensors *out, struct xt_err *err)
{
    *out = (struct xt_params_tensors){0};
    enum xt_status status = xt_mem_calloc(&out->items, (size_t)params->count, sizeof *out->items,
                                          "the list of tensors", err);
    for (int i = 0; i < params->count && !status; i++) {
        const struct xt_param *param = &params->items[i];
        if (!in_view(param, view))
            continue;
        if (!find_tensor(out, param->name))
            status = add_tensor(params, param, out, err);
        if (!status && param->role != XT_PARAM_BN_COUNT)
            status =
                xt_params_export(param, device, view, own_data(find_tensor(out, param->name)), err);
    }
    if (status)
        xt_params_free_tensors(out);
    return status;
}

void xt_params_free_tensors(struct xt_params_tensors *tensors)
{
    for (int i = 0; i < tensors->count; i++)
        free(own_data(&tensors->items[i]));
    free(tensors->items);
    *tensors = (struct xt_params_tensors){0};
}

/* What a weight file lacks, has too much of, or has in another shape. */
struct mismatches {
    struct xt_str text;
    int count;
};

static enum xt_status mismatch(struct mismatches *list, const char *kind, const char *name,
                               struct xt_err *err)
{
    enum { SHOWN = 8 };
    if (list->count++ >= SHOWN)
        return XT_OK;
    return xt_str_printf(&list->text, err, "%s%s %s", list->count > 1 ? ", " : "", kind, name);
}

static bool same_shape(const struct xt_param *param, const struct xt_file_tensor *tensor)
{
    if (tensor->ndims != param->file_ndims)
        return false;
    for (int i = 0; i < param->file_ndims; i++)
        if (tensor->dims[i] != param->file_dims[i])
            return false;
    return true;
}

/* "64x3x7x7"; cut where there is no room. */
static void print_shape(char *out, size_t size, const int64_t *dims, int ndims)
{
    size_t at = 0;
    snprintf(out, size, "no dimensions");
    for (int i = 0; i < ndims && at < size; i++)
        at += (size_t)snprintf(out + at, size - at, "%s%" PRId64, i ? "x" : "", dims[i]);
}

static enum xt_status mismatch_shape(struct mismatches *list, const struct xt_param *param,
                                     const struct xt_file_tensor *tensor, struct xt_err *err)
{
    int64_t dims[4];
    char theirs[48];
    char ours[48];
    char text[sizeof param->name + sizeof theirs + sizeof ours + 16];
    for (int i = 0; i < param->file_ndims; i++)
        dims[i] = param->file_dims[i];
    print_shape(theirs, sizeof theirs, tensor->dims, tensor->ndims);
    print_shape(ours, sizeof ours, dims, param->file_ndims);
    snprintf(text, sizeof text, "%s (%s, not %s)", param->name, theirs, ours);
    return mismatch(list, "of another shape", text, err);
}

static enum xt_status take_tensor(const struct xt_param *param, struct xt_device *device,
                                  const struct xt_params_view *view,
                                  const struct xt_file_tensor *tensor, struct xt_err *err)
{
    size_t count = xt_file_tensor_count(tensor);
    float *plain = NULL;
    enum xt_status status = xt_mem_aligned(&plain, count, sizeof *plain, tensor->name, err);
    if (!status)
        status = xt_file_tensor_floats(tensor, plain, count, err);
    if (!status)
        status = xt_params_import(param, device, view, plain, err);
    free(plain);
    return status;
}

static bool is_excepted(const char *name, const char *except)
{
    return except && xt_str_starts(name, except);
}

static enum xt_status check_extra(const struct xt_params *params, const struct xt_weight_file *file,
                                  const char *except, struct mismatches *list, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < file->count && !status; i++) {
        bool known = xt_str_ends(file->tensors[i].name, "num_batches_tracked") ||
                     is_excepted(file->tensors[i].name, except);
        for (int k = 0; k < params->count && !known; k++)
            known = strcmp(params->items[k].name, file->tensors[i].name) == 0;
        if (!known)
            status = mismatch(list, "extra", file->tensors[i].name, err);
    }
    return status;
}

static bool first_of_name(const struct xt_params *params, int index)
{
    for (int i = 0; i < index; i++)
        if (strcmp(params->items[i].name, params->items[index].name) == 0)
            return false;
    return true;
}

static enum xt_status check_shapes(const struct xt_params *params,
                                   const struct xt_params_view *view,
                                   const struct xt_weight_file *file, const char *except,
                                   struct mismatches *list, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (int i = 0; i < params->count && !status; i++) {
        const struct xt_param *param = &params->items[i];
        if (param->role == XT_PARAM_BN_COUNT || !in_view(param, view) ||
            !first_of_name(params, i) || is_excepted(param->name, except))
            continue;
        const struct xt_file_tensor *tensor = xt_weight_file_find(file, param->name);
        if (!tensor)
            status = mismatch(list, "missing", param->name, err);
        else if (!same_shape(param, tensor))
            status = mismatch_shape(list, param, tensor, err);
    }
    return status;
}

/* The published LPRNet weights were trained with BN in evaluation mode: their statistics are still
 * 0 and 1. */
static bool statistics_untouched(const struct xt_params *params)
{
    bool any = false;
    for (int i = 0; i < params->count; i++) {
        const struct xt_param *param = &params->items[i];
        if (param->role != XT_PARAM_BN_MEAN && param->role != XT_PARAM_BN_VAR)
            continue;
        any = true;
        float untouched = param->role == XT_PARAM_BN_MEAN ? 0.0f : 1.0f;
        for (int k = 0; k < param->dims[0]; k++)
            if (params->stats[param->offset + (size_t)k] != untouched)
                return false;
    }
    return any;
}

static void read_batches_tracked(struct xt_params *params, const struct xt_weight_file *file)
{
    for (size_t i = 0; i < file->count; i++) {
        const struct xt_file_tensor *tensor = &file->tensors[i];
        if (tensor->dtype == XT_I64 && tensor->bytes == sizeof(int64_t) &&
            xt_str_ends(tensor->name, "num_batches_tracked")) {
            memcpy(&params->batches_tracked, tensor->data, sizeof(int64_t));
            return;
        }
    }
}

static enum xt_status take_all(struct xt_params *params, struct xt_device *device,
                               const struct xt_params_view *view, const struct xt_weight_file *file,
                               const char *except, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (int i = 0; i < params->count && !status; i++) {
        const struct xt_param *param = &params->items[i];
        if (param->role == XT_PARAM_BN_COUNT || !in_view(param, view) ||
            is_excepted(param->name, except))
            continue;
        const struct xt_file_tensor *tensor = xt_weight_file_find(file, param->name);
        if (tensor && same_shape(param, tensor))
            status = take_tensor(param, device, view, tensor, err);
    }
    return status;
}

enum xt_status xt_params_from_file(struct xt_params *params, struct xt_device *device,
                                   const struct xt_params_view *view,
                                   const struct xt_weight_file *file, const char *file_name,
                                   bool partial, const char *except, struct xt_err *err)
{
    struct mismatches list = {0};
    enum xt_status status = check_shapes(params, view, file, except, &list, err);
    if (!status)
        status = check_extra(params, file, except, &list, err);
    if (!status && list.count && !partial)
        status = xt_err_set(err, XT_ERR_DATA,
                            "%s does not fit the network; %d tensor%s: %s%s; --init-partial takes "
                            "the ones that fit",
                            file_name, list.count, list.count == 1 ? " differs" : "s differ",
                            xt_str_get(&list.text), list.count > 8 ? ", ..." : "");
    if (!status && list.count)
        xt_log_note("%s: left out %d tensor%s not fit: %s%s", file_name, list.count,
                    list.count == 1 ? " that does" : "s that do", xt_str_get(&list.text),
                    list.count > 8 ? ", ..." : "");
    xt_str_clear(&list.text);
    if (!status)
        status = take_all(params, device, view, file, except, err);
    if (!status && view->values == params->values) {
        read_batches_tracked(params, file);
        params->frozen_at_init = statistics_untouched(params);
        params->version++;
    }
    return status;
}

/* A standard normal number from two uniform ones (Box and Muller 1958). */
static float normal(struct xt_rng *rng)
{
    double u = ((double)(xt_rng_next(rng) >> 11) + 1) * 0x1p-53;
    double v = (double)(xt_rng_next(rng) >> 11) * 0x1p-53;
    return (float)(sqrt(-2 * log(u)) * cos(2 * 3.14159265358979323846 * v));
}

static uint64_t hash_name(const char *name)
{
    uint64_t hash = 0;
    for (; *name; name++)
        hash = xt_rng_mix(hash ^ (unsigned char)*name);
    return hash;
}

static void fill_plain(const struct xt_param *param, uint64_t seed, float bias, float *plain)
{
    size_t count = product(param->file_dims, param->ndims);
    struct xt_rng rng = xt_rng_begin(seed, hash_name(param->name));
    float fan_out = 1;
    if (param->role == XT_PARAM_WEIGHT)
        fan_out = (float)(param->file_dims[0] * param->file_dims[2] * param->file_dims[3]);
    for (size_t i = 0; i < count && param->uniform > 0; i++)
        plain[i] = (float)((double)(xt_rng_next(&rng) >> 11) * 0x1p-52 - 1) * param->uniform;
    for (size_t i = 0; i < count && !(param->uniform > 0); i++) {
        switch (param->role) {
        case XT_PARAM_WEIGHT:
            plain[i] = normal(&rng) * sqrtf(2.0f / fan_out);
            break;
        case XT_PARAM_BIAS:
            plain[i] = bias;
            break;
        case XT_PARAM_BN_SCALE:
        case XT_PARAM_BN_VAR:
            plain[i] = 1;
            break;
        default:
            plain[i] = 0;
        }
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
        float *plain = NULL;
        status = xt_mem_aligned(&plain, product(param->file_dims, param->ndims), sizeof *plain,
                                param->name, err);
        if (!status) {
            fill_plain(param, seed, bias, plain);
            status = xt_params_import(param, device, &view, plain, err);
        }
        free(plain);
    }
    params->version++;
    params->batches_tracked = 0;
    params->frozen_at_init = false;
    return status;
}
