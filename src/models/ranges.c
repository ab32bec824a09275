#include "models/ranges.h"

#include <math.h>

#include "models/graph_ops.h"

void xt_ranges_see(struct xt_ranges *ranges, const struct xt_graph *graph,
                   const struct xt_tensor *tensor)
{
    size_t sample = xt_tensor_count(tensor) / (size_t)tensor->n;
    const float *values = tensor->value->data;
    float largest = ranges->largest[tensor->index];
    int broken = 0;
#pragma omp parallel for schedule(static) reduction(max : largest) reduction(| : broken)
    for (int n = 0; n < graph->pass.count; n++) {
        float own = graph->loops->largest(values + (size_t)n * sample, sample);
        broken |= !isfinite(own);
        largest = own > largest ? own : largest;
    }
    ranges->largest[tensor->index] = broken ? NAN : largest;
    ranges->tensors = graph->tensor_count;
}

enum xt_status xt_ranges_check(const struct xt_ranges *ranges, const struct xt_graph *recorded,
                               struct xt_err *err)
{
    if (!ranges->tensors)
        return xt_err_set(err, XT_ERR_DATA, "int8: no image was there to find ranges with");
    for (int i = 0; i < ranges->tensors; i++)
        if (!isfinite(ranges->largest[i]))
            return xt_err_set(err, XT_ERR_DATA,
                              "int8: %s is infinite or not a number on the images that give the "
                              "ranges, so the weights cannot be meant for them",
                              recorded->tensors[i]->name);
    return XT_OK;
}

void xt_ranges_quantise(const struct xt_ranges *ranges, struct xt_tensor *tensor, bool negative)
{
    float largest = ranges->largest[tensor->index];
    tensor->dtype = negative ? XT_S8 : XT_U8;
    tensor->scale = largest > 0 ? largest / (negative ? 127.0f : 255.0f) : 1;
}
