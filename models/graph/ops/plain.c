#include "models/graph/ops/plain.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/number.h"

double *xt_plain_take(struct xt_plain *plain, size_t count)
{
    struct xt_plain_array *array = NULL;
    size_t bytes = sizeof *array + count * sizeof(double);
    if (count > SIZE_MAX / 16) {
        xt_err_no_memory(plain->err, plain->op->name, count);
        return NULL;
    }
    if (xt_mem_calloc(&array, 1, bytes, plain->op->name, plain->err))
        return NULL;
    array->next = plain->arrays;
    plain->arrays = array;
    return array->values;
}

void xt_plain_clear(struct xt_plain *plain)
{
    while (plain->arrays) {
        struct xt_plain_array *next = plain->arrays->next;
        free(plain->arrays);
        plain->arrays = next;
    }
    *plain = (struct xt_plain){0};
}

size_t xt_plain_param_count(const struct xt_plain *plain, int which)
{
    const struct xt_params *params = plain->graph->options.params;
    const struct xt_param *param = &params->items[plain->op->params[which]];
    size_t count = 1;
    for (int i = 0; i < param->ndims; i++)
        count *= (size_t)param->dims[i];
    return count;
}

double xt_plain_largest(const double *values, size_t count)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(values[i]));
    return largest;
}

void xt_plain_round(enum xt_dtype dtype, double *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float value = (float)values[i];
        uint32_t held = 0;
        xt_number_from_float(dtype, &value, 1, &held);
        xt_number_to_float(dtype, &held, 1, &value);
        values[i] = (double)value;
    }
}

double xt_plain_rounding(enum xt_dtype dtype)
{
    return dtype == XT_BF16 ? 0x1p-8 : dtype == XT_F16 ? 0x1p-11 : 0x1p-24;
}

double xt_plain_relative(enum xt_dtype dtype, double roundings, double terms)
{
    return roundings * xt_plain_rounding(dtype) + (4 + 4 * sqrt(terms)) * xt_plain_rounding(XT_F32);
}
