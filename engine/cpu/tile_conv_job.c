/* How a convolution by tiles is divided: the copy of its source, and what is in L2 at a time. */
#include "engine/loops/tile_conv_job.h"

enum {
    SUMS = 2 * 4 * XT_TILE_CONV_WIDE * XT_TILE_CONV_WIDE, /* of two blocks */
    BLOCK = 2 * XT_TILE_CONV_WIDE,                        /* positions of a block of tiles */
    SOURCE_BYTES = 640 << 10, /* of L2, beside the weights of a block's channels */
    FLAT_MOST = 512,          /* positions, with few channels */
    FLAT_BLOCKS_LEAST = 2     /* that share what is read of the weights */
};

static int divide_up(int a, int b)
{
    return (a + b - 1) / b;
}

static int floor_divide(int a, int b)
{
    return a >= 0 ? a / b : -divide_up(-a, b);
}

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

static int phase_of(struct xt_tile_conv *job, int y, int x)
{
    for (int i = 0; i < job->phase_count; i++)
        if (job->phases[i].y == y && job->phases[i].x == x)
            return i;
    job->phases[job->phase_count] = (struct xt_tile_conv_phase){y, x};
    return job->phase_count++;
}

/* The copy's extent: the taps' reach, in steps. */
static void plan_reach(struct xt_tile_conv *job)
{
    int last_y = 0;
    int last_x = 0;
    job->first_y = job->first_x = 0;
    for (int i = 0; i < job->tap_count; i++) {
        int y = floor_divide(job->taps[i].y, job->step_h);
        int x = floor_divide(job->taps[i].x, job->step_w);
        job->first_y = i ? smaller(job->first_y, y) : y;
        job->first_x = i ? smaller(job->first_x, x) : x;
        last_y = i ? larger(last_y, y) : y;
        last_x = i ? larger(last_x, x) : x;
    }
    int before = -job->first_x;
    int behind = job->columns - 1 + last_x - (job->in_w - 1);
    job->shared = job->step_w > 1 ? 0 : larger(smaller(before, behind), 0);
    job->more_rows = last_y - job->first_y;
    job->pitch = job->columns + last_x - job->first_x - job->shared;
}

static size_t unit_bytes(const struct xt_tile_conv *job, int rows)
{
    size_t positions = (size_t)(rows + job->more_rows) * (size_t)job->pitch;
    size_t channels = (size_t)xt_tile_conv_blocks(job) * XT_TILE_CONV_CHANNELS;
    return positions * (size_t)job->phase_count * channels * sizeof(uint16_t) *
           (size_t)xt_summands_of(job->f32);
}

/* Units of equal height, and how many of them are in L2 at a time. */
static void plan_units(struct xt_tile_conv *job, int parts)
{
    job->image_units = 1;
    while (job->image_units < job->rows &&
           (job->n * job->image_units < parts ||
            unit_bytes(job, divide_up(job->rows, job->image_units)) > SOURCE_BYTES))
        job->image_units++;
    job->unit_rows = divide_up(job->rows, job->image_units);
    job->image_units = divide_up(job->rows, job->unit_rows);
    job->units = job->n * job->image_units;
    int fit = SOURCE_BYTES / larger((int)unit_bytes(job, job->unit_rows), 1);
    job->chunk_units = smaller(larger(fit, 1), XT_TILE_CONV_UNITS_MAX);
}

static void plan_offsets(struct xt_tile_conv *job)
{
    int positions = (job->unit_rows + job->more_rows) * job->pitch + job->shared;
    int blocks = xt_tile_conv_blocks(job);
    /* Odd, so that blocks do not map to the same cache sets. */
    job->block_positions = positions | 1;
    for (int i = 0; i < job->tap_count; i++) {
        const struct xt_tile_conv_tap *tap = &job->taps[i];
        int y = floor_divide(tap->y, job->step_h);
        int x = floor_divide(tap->x, job->step_w);
        int phase = phase_of(job, tap->y - y * job->step_h, tap->x - x * job->step_w);
        job->offsets[i] = phase * blocks * job->block_positions + (y - job->first_y) * job->pitch +
                          x - job->first_x;
    }
}

static bool is_flat(const struct xt_tile_conv *job)
{
    return job->tap_count == 1 && job->step_h == 1 && job->step_w == 1 && !job->taps[0].y &&
           !job->taps[0].x && job->out_step_h == 1 && job->out_step_w == 1 &&
           job->rows == job->in_h && job->columns == job->in_w;
}

void xt_tile_conv_plan(struct xt_tile_conv *job, int parts)
{
    job->flat = is_flat(job);
    job->out_pixel = job->out_c;
    job->phase_count = 0;
    if (job->flat) {
        int pixel = job->in_c * (int)sizeof(uint16_t) * xt_summands_of(job->f32);
        int most = smaller(SOURCE_BYTES / pixel, FLAT_MOST);
        job->units = job->n * job->rows * job->columns;
        job->chunk_units = larger(most / BLOCK, FLAT_BLOCKS_LEAST) * BLOCK;
        job->block_positions = job->chunk_units | 1;
        job->offsets[0] = 0;
        return;
    }
    plan_reach(job);
    /* Planes are counted before units, whose size depends on them. */
    for (int i = 0; i < job->tap_count; i++) {
        const struct xt_tile_conv_tap *tap = &job->taps[i];
        phase_of(job, tap->y - floor_divide(tap->y, job->step_h) * job->step_h,
                 tap->x - floor_divide(tap->x, job->step_w) * job->step_w);
    }
    plan_units(job, parts);
    plan_offsets(job);
}

size_t xt_tile_conv_scratch(const struct xt_tile_conv *job)
{
    size_t fixed = SUMS + xt_tile_conv_list(job);
    if (xt_tile_conv_is_in_place(job))
        return fixed;
    size_t unit = xt_tile_conv_summand(job) * (size_t)xt_summands_of(job->f32);
    size_t units = job->flat ? 1 : (size_t)job->chunk_units;
    return fixed + units * unit * sizeof(uint16_t) / sizeof(float);
}

int xt_tile_conv_pixels(const struct xt_tile_conv *job, int first, int end)
{
    if (job->flat)
        return end - first;
    int rows = 0;
    for (int unit = first, row = 0; unit < end; unit++)
        rows += xt_tile_conv_rows(job, unit, &row);
    return rows * job->columns;
}

int xt_tile_conv_part(const struct xt_tile_conv *job, int part, int parts, int *first)
{
    int each = job->flat ? BLOCK : 1;
    int64_t count = divide_up(job->units, each);
    *first = smaller((int)(count * part / parts) * each, job->units);
    return smaller((int)(count * (part + 1) / parts) * each, job->units);
}
