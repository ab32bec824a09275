#include "engine/selftest/values.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/rng.h"

size_t xt_selftest_file_index(const struct xt_param *param, size_t index)
{
    size_t rest = param->ndims == 4 ? (size_t)param->dims[2] * (size_t)param->dims[3] : 1;
    size_t columns = param->ndims == 4 ? (size_t)param->dims[1] : 1;
    size_t row = index / rest / columns;
    size_t column = index / rest % columns;
    row = param->rows ? (size_t)param->rows[row] : row;
    column = param->columns ? (size_t)param->columns[column] : column;
    if (param->in_first)
        return column * (size_t)param->file_dims[1] + row;
    size_t file_columns = param->ndims == 4 ? (size_t)param->file_dims[1] : 1;
    return (row * file_columns + column) * rest + index % rest;
}

uint64_t xt_selftest_key(const struct xt_param *param)
{
    uint64_t key = XT_SELFTEST_SEED;
    for (const char *at = param->name; *at; at++)
        key = xt_rng_mix(key ^ (unsigned char)*at);
    return key;
}

float xt_selftest_value(const struct xt_param *param, uint64_t key, size_t file_element)
{
    float u = (float)(xt_rng_mix(key ^ file_element) >> 40) * 0x1p-23f - 1;
    switch (param->role) {
    case XT_PARAM_WEIGHT:
    case XT_PARAM_RAW:
        return u * 3 / sqrtf((float)(param->dims[1] * param->dims[2] * param->dims[3]));
    case XT_PARAM_BN_SCALE:
    case XT_PARAM_BN_VAR:
        return 1 + 0.5f * u;
    default:
        return 0.3f * u;
    }
}

enum xt_status xt_selftest_fill(struct xt_params *params, struct xt_device *device, int index,
                                struct xt_err *err)
{
    const struct xt_param *param = &params->items[index];
    struct xt_params_view view = {params->values, params->stats};
    uint64_t key = xt_selftest_key(param);
    size_t count = xt_param_file_count(param);
    float *values = NULL;
    if (param->role == XT_PARAM_BN_COUNT)
        return XT_OK;
    enum xt_status status = xt_mem_aligned(&values, count, sizeof *values, param->name, err);
    for (size_t k = 0; k < count && !status; k++)
        values[k] = xt_selftest_value(param, key, k);
    if (!status)
        status = xt_params_import(param, device, &view, values, err);
    free(values);
    return status;
}

enum xt_status xt_selftest_fill_all(struct xt_params *params, struct xt_device *device,
                                    struct xt_err *err)
{
    enum xt_status status = XT_OK;
    for (int i = 0; i < params->count && !status; i++)
        status = xt_selftest_fill(params, device, i, err);
    params->version++;
    return status;
}
