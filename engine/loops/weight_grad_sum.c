/* The sum of a weight gradient's parts (weight_grad_job.h), of its bias too. The gradient is
 * written past the caches: the optimizer reads it after all others have been written.
 */
#include <string.h>

#include "engine/loops/past.h"
#include "engine/loops/table.h"

enum { LANES = 16 };

typedef float line __attribute__((vector_size(LANES * sizeof(float))));

/* Every share has the sums of the whole bias, or of its own channels. */
static void sum_bias(const struct xt_weight_grad *job)
{
    bool shared = job->turned == job->shares_left;
    for (int share = 0; share < (shared ? job->shares : 1); share++) {
        int first = 0;
        int end = xt_weight_grad_share(job, share, job->turned, &first);
        end = (first + end) * job->edge;
        for (int o = first * job->edge; o < end && o < job->out_c; o++) {
            float sum = 0;
            for (int group = 0; group < job->groups; group++)
                sum += xt_weight_grad_bias(job, group * job->shares + share)[o];
            job->bias_grad[o] = sum;
        }
    }
}

/* Where a group's sums have what a place of the gradient gets. */
static size_t folded_place(const struct xt_weight_grad *job, size_t tile, size_t o, size_t i)
{
    size_t edge = (size_t)job->edge;
    size_t tap = tile % (size_t)job->taps;
    size_t kernel_w = (size_t)job->kernel_w;
    size_t channel = tap % kernel_w * (size_t)job->in_c + i;
    size_t row = tile / (size_t)job->taps * (size_t)job->right_tiles + channel / edge;
    return ((row * (size_t)job->kernel_h + tap / kernel_w) * edge + o) * edge + channel % edge;
}

static void unfold(const struct xt_weight_grad *job, size_t tile, float *to)
{
    size_t edge = (size_t)job->edge;
    for (size_t o = 0; o < edge; o++)
        for (size_t i = 0; i < edge; i++) {
            float sum = 0;
            for (int group = 0; group < job->groups && i < (size_t)job->in_c; group++)
                sum += xt_weight_grad_sums(job, group)[folded_place(job, tile, o, i)];
            to[o * edge + i] = sum;
        }
}

/* Whether a tile is to be turned back. */
static bool is_turned(const struct xt_weight_grad *job)
{
    return job->f32 && job->turned;
}

static void turn_back(float *tile, size_t edge)
{
    for (size_t i = 0; i < edge; i++)
        for (size_t k = 0; k < i; k++) {
            float value = tile[i * edge + k];
            tile[i * edge + k] = tile[k * edge + i];
            tile[k * edge + i] = value;
        }
}

static void sum_turned(const struct xt_weight_grad *job, size_t first, float *to)
{
    size_t count = xt_weight_grad_tile(job);
    memcpy(to, xt_weight_grad_sums(job, 0) + first, count * sizeof *to);
    for (int group = 1; group < job->groups; group++)
        for (size_t i = 0; i < count; i++)
            to[i] += xt_weight_grad_sums(job, group)[first + i];
    turn_back(to, (size_t)job->edge);
}

XT_INLINE void add_squares(const line *numbers, double *squares)
{
    for (size_t k = 0; k < LANES; k++)
        squares[k] += (double)(*numbers)[k] * (double)(*numbers)[k];
}

/* Writes the sums of `groups` arrays, and adds their squares. */
XT_INLINE void sum_lines(const float *from, size_t apart, size_t groups, size_t count, float *to,
                         double *squares)
{
    for (size_t i = 0; i < count; i += LANES) {
        line sum;
        memcpy(&sum, from + i, sizeof sum);
        for (size_t group = 1; group < groups; group++) {
            line more;
            memcpy(&more, from + group * apart + i, sizeof more);
            sum += more;
        }
        write_line_past(to + i, &sum);
        add_squares(&sum, squares);
    }
}

/* Of one group's sums, which are the gradient. */
static void finish_in_place(const struct xt_weight_grad *job, size_t first, size_t end,
                            double *squares)
{
    size_t tile = xt_weight_grad_tile(job);
    for (size_t i = first; i < end && is_turned(job); i += tile)
        turn_back(job->grad + i, (size_t)job->edge);
    for (size_t i = first; i < end; i += LANES) {
        line numbers;
        memcpy(&numbers, job->grad + i, sizeof numbers);
        add_squares(&numbers, squares);
    }
}

/* Tile by tile, where the sums have another order. */
static void sum_tiles(const struct xt_weight_grad *job, size_t first, size_t end, double *squares)
{
    size_t tile = xt_weight_grad_tile(job);
    float sums[XT_TILE_CHANNELS * XT_TILE_CHANNELS];
    for (size_t i = first; i < end; i += tile) {
        if (is_turned(job))
            sum_turned(job, i, sums);
        else
            unfold(job, i / tile, sums);
        sum_lines(sums, 0, 1, tile, job->grad + i, squares);
    }
}

static double written_squares(const struct xt_weight_grad *job)
{
    double square = 0;
    for (int part = 0; part < xt_weight_grad_parts(job); part++)
        square += *xt_weight_grad_square(job, part);
    return square;
}

double XT_LOOPS_NAME(weight_grad_sum)(const struct xt_weight_grad *job, size_t first, size_t end)
{
    double squares[LANES] = {0};
    double square = 0;
    if (first == 0 && job->bias_grad)
        sum_bias(job);
    if (xt_weight_grad_writes(job))
        return first == 0 ? written_squares(job) : 0;
    if (xt_weight_grad_is_in_place(job))
        finish_in_place(job, first, end, squares);
    else if (job->fold > 1 || is_turned(job))
        sum_tiles(job, first, end, squares);
    else
        sum_lines(xt_weight_grad_sums(job, 0) + first, job->sums, (size_t)job->groups, end - first,
                  job->grad + first, squares);
    for (size_t k = 0; k < LANES; k++)
        square += squares[k];
    end_writing_past();
    return square;
}
