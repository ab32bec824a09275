#include "engine/ops/reference_op.h"

#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/number.h"

double *xt_reference_op_take(struct xt_reference_op *reference, size_t count)
{
    struct xt_reference_op_array *array = NULL;
    size_t bytes = sizeof *array + count * sizeof(double);
    if (count > SIZE_MAX / 16) {
        xt_err_no_memory(reference->err, reference->op->name, count);
        return NULL;
    }
    if (xt_mem_calloc(&array, 1, bytes, reference->op->name, reference->err))
        return NULL;
    array->next = reference->arrays;
    reference->arrays = array;
    return array->values;
}

void xt_reference_op_clear(struct xt_reference_op *reference)
{
    while (reference->arrays) {
        struct xt_reference_op_array *next = reference->arrays->next;
        free(reference->arrays);
        reference->arrays = next;
    }
    *reference = (struct xt_reference_op){0};
}

size_t xt_reference_op_param_count(const struct xt_reference_op *reference, int which)
{
    const struct xt_params *params = reference->graph->options.params;
    const struct xt_param *param = &params->items[reference->op->params[which]];
    size_t count = 1;
    for (int i = 0; i < param->ndims; i++)
        count *= (size_t)param->dims[i];
    return count;
}

double xt_reference_op_largest(const double *values, size_t count)
{
    double largest = 0;
    for (size_t i = 0; i < count; i++)
        largest = fmax(largest, fabs(values[i]));
    return largest;
}

void xt_reference_op_round(enum xt_dtype dtype, double *values, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        float value = (float)values[i];
        uint32_t held = 0;
        xt_number_from_float(dtype, &value, 1, &held);
        xt_number_to_float(dtype, &held, 1, &value);
        values[i] = (double)value;
    }
}

double xt_reference_op_rounding(enum xt_dtype dtype)
{
    return dtype == XT_BF16 ? 0x1p-8 : dtype == XT_F16 ? 0x1p-11 : 0x1p-24;
}

double xt_reference_op_relative(enum xt_dtype dtype, double roundings, double terms)
{
    return roundings * xt_reference_op_rounding(dtype) +
           (4 + 4 * sqrt(terms)) * xt_reference_op_rounding(XT_F32);
}
