#include "train/optim/rule.h"

#include <math.h>
#ifdef __SSE__
#include <xmmintrin.h>
#endif

void xt_optim_roots(float *values, size_t count)
{
    size_t i = 0;
#ifdef __SSE__
    for (; i + 4 <= count; i += 4)
        _mm_storeu_ps(values + i, _mm_sqrt_ps(_mm_loadu_ps(values + i)));
#endif
    for (; i < count; i++)
        values[i] = sqrtf(values[i]);
}
