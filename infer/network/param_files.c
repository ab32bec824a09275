#include "infer/network/param_files.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/mem.h"
#include "base/str.h"

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

/* The data of a tensor in `tensors`, which was allocated here and so may be written. */
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
    struct xt_file_tensor tensor = {
        .name = param->name,
        .dtype = is_count ? XT_I64 : XT_F32,
        .ndims = is_count ? 0 : param->file_ndims,
    };
    size_t count = 1;
    for (int i = 0; i < tensor.ndims; i++) {
        tensor.dims[i] = param->file_dims[i];
        count *= (size_t)param->file_dims[i];
    }
    size_t size = xt_dtype_size(tensor.dtype);
    void *data = NULL;
    enum xt_status status = xt_mem_aligned(&data, count, size, param->name, err);
    if (status)
        return status;
    if (is_count)
        memcpy(data, &params->tracked[param - params->items], sizeof *params->tracked);
    tensor.data = data;
    tensor.bytes = count * size;
    out->items[out->count++] = tensor;
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

/* Missing, surplus and mis-shaped tensors of a weight file; and how many tensors the network has,
 * and how many of them the file. */
struct mismatches {
    struct xt_str text;
    int count;
    int wanted, fitting;
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

/* The file and the array that values come from, for messages. */
struct origin {
    const struct xt_weight_file *file;
    const char *name;
    bool checked; /* weights are checked for NaN; an optimizer's arrays are not */
};

/* "[3, 0, 1, 2]". */
static void print_place(char *out, size_t size, const struct xt_file_tensor *tensor, size_t element)
{
    size_t within = xt_file_tensor_count(tensor);
    size_t at = 0;
    for (int i = 0; i < tensor->ndims && at < size; i++) {
        within /= (size_t)tensor->dims[i];
        at += (size_t)snprintf(out + at, size - at, "%s%zu", i ? ", " : "[", element / within);
        element %= within;
    }
    if (at < size)
        snprintf(out + at, size - at, "]");
}

/* Refuses non-finite weights and negative variances. */
static enum xt_status check_numbers(const struct xt_param *param, const struct origin *from,
                                    const struct xt_file_tensor *tensor, const float *numbers,
                                    struct xt_err *err)
{
    bool is_variance = param->role == XT_PARAM_BN_VAR;
    size_t count = xt_file_tensor_count(tensor);
    size_t i = 0;
    while (i < count && isfinite(numbers[i]) && !(is_variance && numbers[i] < 0))
        i++;
    if (i == count)
        return XT_OK;
    char place[96];
    print_place(place, sizeof place, tensor, i);
    return xt_err_set(
        err, XT_ERR_DATA,
        "%s: %s%s is %g, %s; these weights cannot be used: take those of an earlier checkpoint",
        from->name, tensor->name, place, (double)numbers[i],
        isfinite(numbers[i]) ? "and a variance is not below 0" : "which is not finite");
}

static enum xt_status take_tensor(const struct xt_param *param, struct xt_device *device,
                                  const struct xt_params_view *view, const struct origin *from,
                                  const struct xt_file_tensor *tensor, struct xt_err *err)
{
    size_t count = xt_file_tensor_count(tensor);
    float *values = NULL;
    enum xt_status status = xt_mem_aligned(&values, count, sizeof *values, tensor->name, err);
    if (!status)
        status = xt_file_tensor_floats(tensor, values, count, err);
    if (!status && from->checked)
        status = check_numbers(param, from, tensor, values, err);
    if (!status)
        status = xt_params_import(param, device, view, values, err);
    free(values);
    return status;
}

static enum xt_status check_extra(const struct xt_params *params, const struct xt_weight_file *file,
                                  const struct xt_class_layer *except, struct mismatches *list,
                                  struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (size_t i = 0; i < file->count && !status; i++) {
        bool known = xt_str_ends(file->tensors[i].name, "num_batches_tracked") ||
                     xt_is_of_head(except, file->tensors[i].name);
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
                                   const struct xt_weight_file *file,
                                   const struct xt_class_layer *except, struct mismatches *list,
                                   struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (int i = 0; i < params->count && !status; i++) {
        const struct xt_param *param = &params->items[i];
        if (param->role == XT_PARAM_BN_COUNT || !in_view(param, view) ||
            !first_of_name(params, i) || xt_is_of_head(except, param->name))
            continue;
        const struct xt_file_tensor *tensor = xt_weight_file_find(file, param->name);
        bool fits = tensor && same_shape(param, tensor);
        list->wanted++;
        list->fitting += fits;
        if (!tensor)
            status = mismatch(list, "missing", param->name, err);
        else if (!fits)
            status = mismatch_shape(list, param, tensor, err);
    }
    return status;
}

static bool all_are(const float *numbers, int count, float a, float b)
{
    for (int k = 0; k < count; k++)
        if (numbers[k] != a && numbers[k] != b)
            return false;
    return true;
}

/* The published LPRNet weights were trained with BN in evaluation mode: their statistics are still
 * 0 and 1, all of them, though scale and shift have learned. In a file that nothing was trained in,
 * these too are as initialised: 1 (or 0, of a residual branch) and 0. *whole: the file has those
 * of all norms. */
static bool statistics_untouched(const struct xt_params *params, const struct xt_weight_file *file,
                                 bool *whole)
{
    bool any = false;
    bool learned = false;
    *whole = true;
    for (int i = 0; i < params->count; i++) {
        const struct xt_param *param = &params->items[i];
        const float *numbers = (xt_param_is_statistic(param) ? params->stats : params->values);
        if (param->role == XT_PARAM_BN_COUNT)
            continue;
        numbers += param->offset;
        bool is_statistic = param->role == XT_PARAM_BN_MEAN || param->role == XT_PARAM_BN_VAR;
        float initial = param->role == XT_PARAM_BN_VAR ? 1.0f : 0.0f;
        const struct xt_file_tensor *tensor = xt_weight_file_find(file, param->name);
        bool taken = tensor && same_shape(param, tensor);
        if (is_statistic && taken && !all_are(numbers, param->dims[0], initial, initial))
            return false;
        any |= is_statistic && taken;
        *whole &= !is_statistic || taken;
        learned |= (param->role == XT_PARAM_BN_SCALE && !all_are(numbers, param->dims[0], 1, 0)) ||
                   (param->role == XT_PARAM_BN_SHIFT && !all_are(numbers, param->dims[0], 0, 0));
    }
    return any && learned;
}

/* --init-partial takes weights of the same network in part, not those of another. */
static enum xt_status check_partial(const struct mismatches *list, const char *file_name,
                                    struct xt_err *err)
{
    if (2 * list->fitting >= list->wanted)
        return XT_OK;
    return xt_err_set(err, XT_ERR_DATA,
                      "%s fits %d of the network's %d tensors, too few to start from; "
                      "--init-partial takes weights of which at least half fit",
                      file_name, list->fitting, list->wanted);
}

static enum xt_status take_count(const struct xt_file_tensor *tensor, const char *file_name,
                                 int64_t *to, struct xt_err *err)
{
    /* The largest count that a double holds exactly, since training continues it. */
    static const int64_t most = INT64_C(1) << 53;
    int64_t count = 0;
    if (tensor->dtype != XT_I64 || tensor->bytes != sizeof count)
        return XT_OK;
    memcpy(&count, tensor->data, sizeof count);
    if (count < 0 || count > most)
        return xt_err_set(err, XT_ERR_DATA,
                          "%s is damaged: its %s is %" PRId64 ", outside 0 to %" PRId64, file_name,
                          tensor->name, count, most);
    *to = count;
    return XT_OK;
}

/* The batches that each norm has seen. */
static enum xt_status take_counts(struct xt_params *params, const struct xt_weight_file *file,
                                  const char *file_name, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (int i = 0; i < params->count && !status; i++) {
        const struct xt_param *param = &params->items[i];
        const struct xt_file_tensor *tensor =
            param->role == XT_PARAM_BN_COUNT ? xt_weight_file_find(file, param->name) : NULL;
        if (tensor)
            status = take_count(tensor, file_name, &params->tracked[i], err);
    }
    return status;
}

static enum xt_status take_all(struct xt_params *params, struct xt_device *device,
                               const struct xt_params_view *view, const struct origin *from,
                               const struct xt_class_layer *except, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (int i = 0; i < params->count && !status; i++) {
        const struct xt_param *param = &params->items[i];
        if (param->role == XT_PARAM_BN_COUNT || !in_view(param, view) ||
            xt_is_of_head(except, param->name))
            continue;
        const struct xt_file_tensor *tensor = xt_weight_file_find(from->file, param->name);
        if (tensor && same_shape(param, tensor))
            status = take_tensor(param, device, view, from, tensor, err);
    }
    return status;
}

enum xt_status xt_params_from_file(struct xt_params *params, struct xt_device *device,
                                   const struct xt_params_view *view,
                                   const struct xt_weight_file *file, const char *file_name,
                                   bool partial, const struct xt_class_layer *except,
                                   struct xt_err *err)
{
    const bool are_weights = view->values == params->values;
    const struct origin from = {file, file_name, are_weights};
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
    if (!status && partial)
        status = check_partial(&list, file_name, err);
    if (!status && list.count)
        xt_log_note("%s: skipped %d tensor%s not fit: %s%s", file_name, list.count,
                    list.count == 1 ? " that does" : "s that do", xt_str_get(&list.text),
                    list.count > 8 ? ", ..." : "");
    xt_str_clear(&list.text);
    if (!status)
        status = take_all(params, device, view, &from, except, err);
    if (!status && are_weights)
        status = take_counts(params, file, file_name, err);
    if (!status && are_weights) {
        bool whole = false;
        bool untouched = statistics_untouched(params, file, &whole);
        params->frozen_at_init = untouched && whole;
        params->version++;
        if (untouched && !whole)
            xt_log_warn(
                "%s was trained without batch norm statistics (they are 0 and 1), but lacks "
                "some of the network's norms: --bn auto freezes none, --bn frozen all",
                file_name);
    }
    return status;
}
