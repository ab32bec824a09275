#include "infer/answer/softmax.h"

#include <math.h>

struct xt_softmax_norm xt_softmax_norm(const float *logits, int classes)
{
    struct xt_softmax_norm norm = {.max = logits[0]};
    for (int k = 1; k < classes; k++)
        norm.max = logits[k] > norm.max ? logits[k] : norm.max;
    for (int k = 0; k < classes; k++)
        norm.sum += (double)expf(logits[k] - norm.max);
    return norm;
}

void xt_softmax(const float *logits, int classes, float *out)
{
    struct xt_softmax_norm norm = xt_softmax_norm(logits, classes);
    for (int k = 0; k < classes; k++)
        out[k] = (float)((double)expf(logits[k] - norm.max) / norm.sum);
}
