/* How a data gradient's work is divided: channels at a time, and scratch. */
#include "engine/loops/data_grad_job.h"

enum { TILE = 32, SUMS = 4 * 256 };

int xt_data_grad_channels(const struct xt_data_grad *job)
{
    return (job->out_c + 1) / 2 * 2;
}

/* Padded so that a whole tile may read past the last channel. */
size_t xt_data_grad_row(const struct xt_data_grad *job)
{
    size_t columns = (size_t)job->out_h * (size_t)xt_data_grad_channels(job);
    return (columns + 2 * XT_DATA_GRAD_SPARE + TILE - 1) / TILE * TILE;
}

size_t xt_data_grad_rows(const struct xt_data_grad *job)
{
    size_t rows = job->w > XT_DATA_GRAD_ROWS ? (size_t)job->w : XT_DATA_GRAD_ROWS;
    return rows + 2 * ((rows + TILE - 1) / TILE);
}

size_t xt_data_grad_scratch(const struct xt_data_grad *job)
{
    size_t summand = xt_data_grad_rows(job) * xt_data_grad_row(job);
    return SUMS + (size_t)xt_summands_of(job->f32) * summand / 2;
}
