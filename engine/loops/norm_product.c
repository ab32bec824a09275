/* What follows from a norm's sums over pixels (norm_product_job.h). */
#include <string.h>

#include "engine/loops/table.h"

enum { LANES = 16 };

/* Row i of W S, of 16 channels of z. */
XT_INLINE void times_squares(const struct xt_norm_product *job, const float *weights, size_t i,
                             float *restrict to)
{
    size_t in_c = (size_t)job->in_c;
    const float *squares = job->squares + i / LANES * in_c * LANES + i % LANES;
    memset(to, 0, LANES * sizeof *to);
    for (size_t k = 0; k < in_c; k++)
#pragma omp simd
        for (size_t o = 0; o < LANES; o++)
            to[o] += squares[k * LANES] * weights[k * LANES + o];
}

/* The gradient of 16 channels' weights, and those weights scaled; returns its squares' sum. */
static double finish_weights(const struct xt_norm_product *job, size_t first)
{
    size_t in_c = (size_t)job->in_c;
    size_t out_c = (size_t)job->out_c;
    const float *factors = job->factors + first;
    double square = 0;
    for (size_t i = 0; i < in_c; i++) {
        size_t at = first * in_c + i * LANES;
        float more[LANES];
        times_squares(job, job->weights + first * in_c, i, more);
#pragma omp simd reduction(+ : square)
        for (size_t o = 0; o < LANES; o++) {
            float grad = factors[o] * job->products[at + o] + factors[out_c + o] * more[o] +
                         factors[2 * out_c + o] * job->sums[i];
            job->weight_grad[at + o] = grad;
            job->scaled[at + o] = factors[o] * job->weights[at + o];
            square += (double)grad * (double)grad;
        }
    }
    return square;
}

/* 16 columns of W' b W, and as many numbers of W' d. */
static void finish_through(const struct xt_norm_product *job, size_t first)
{
    size_t in_c = (size_t)job->in_c;
    size_t out_c = (size_t)job->out_c;
    float *through = job->through + first * in_c;
    float *shift = job->shift + first;
    memset(through, 0, in_c * LANES * sizeof *through);
    memset(shift, 0, LANES * sizeof *shift);
    for (size_t o = 0; o < out_c; o++) {
        const float *row = job->weights + o / LANES * LANES * in_c + o % LANES;
        float own[LANES];
        for (size_t l = 0; l < LANES; l++)
            own[l] = row[(first + l) * LANES];
        for (size_t i = 0; i < in_c; i++) {
            float factor = job->factors[out_c + o] * row[i * LANES];
#pragma omp simd
            for (size_t l = 0; l < LANES; l++)
                through[i * LANES + l] += factor * own[l];
        }
#pragma omp simd
        for (size_t l = 0; l < LANES; l++)
            shift[l] += job->factors[2 * out_c + o] * own[l];
    }
}

double XT_LOOPS_NAME(norm_product)(const struct xt_norm_product *job, int part)
{
    size_t first = (size_t)part * LANES;
    size_t out_c = (size_t)job->out_c;
    if (first < out_c)
        return finish_weights(job, first);
    finish_through(job, first - out_c);
    return 0;
}

void XT_LOOPS_NAME(norm_statistics)(const struct xt_norm_statistics *job, int part)
{
    size_t in_c = (size_t)job->in_c;
    const float *weights = job->weights + (size_t)part * LANES * in_c;
    double sums[LANES] = {0};
    double squares[LANES] = {0};
    for (size_t i = 0; i < in_c; i++) {
        const double *row = job->squares + i / LANES * in_c * LANES + i % LANES;
        double product[LANES] = {0};
        for (size_t k = 0; k < in_c; k++)
#pragma omp simd
            for (size_t o = 0; o < LANES; o++)
                product[o] += row[k * LANES] * (double)weights[k * LANES + o];
#pragma omp simd
        for (size_t o = 0; o < LANES; o++) {
            double weight = (double)weights[i * LANES + o];
            sums[o] += job->sums[i] * weight;
            squares[o] += product[o] * weight;
        }
    }
    memcpy(job->totals[0] + (size_t)part * LANES, sums, sizeof sums);
    memcpy(job->totals[1] + (size_t)part * LANES, squares, sizeof squares);
}
