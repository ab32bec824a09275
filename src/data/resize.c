#include "data/resize.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"

/* Coefficients are integers of this many fractional bits: 8 bits of pixel, 22 of coefficient and
 * the sign fill an int32_t. */
enum { FRACTION = 22 };

/* The filter along one axis: output i is the sum of count[i] inputs from first[i] on, times
 * weights[i * taps ...]. */
struct axis {
    int in;
    int out;
    int taps;
    int *first;
    int *count;
    int32_t *weights;
    size_t first_capacity;
    size_t count_capacity;
    size_t weights_capacity;
};

struct state {
    struct axis x;
    struct axis y;
    uint8_t *row; /* one input row, filtered along x */
    size_t row_capacity;
    int32_t *sums; /* [height][width][3] of the output */
    size_t sums_capacity;
};

static int at_least(int value, int least)
{
    return value < least ? least : value;
}

static int at_most(int value, int most)
{
    return value > most ? most : value;
}

/* The triangle's height at `distance`, in units of its half width. */
static double triangle(double distance)
{
    double height = 1 - (distance < 0 ? -distance : distance);
    return height > 0 ? height : 0;
}

/* Output `i`'s weights, normalised to sum to one. Only + - * / of doubles: the same everywhere. */
static void fill_weights(struct axis *axis, int i)
{
    double scale = (double)axis->in / axis->out;
    double half = scale > 1 ? scale : 1;
    double centre = (i + 0.5) * scale;
    int first = at_least((int)(centre - half + 0.5), 0);
    int end = at_most((int)(centre + half + 0.5), axis->in);
    double sum = 0;
    for (int k = first; k < end; k++)
        sum += triangle((k + 0.5 - centre) / half);
    int32_t *weights = axis->weights + (size_t)i * (size_t)axis->taps;
    for (int k = first; k < end; k++) {
        double weight = triangle((k + 0.5 - centre) / half) / sum;
        weights[k - first] = (int32_t)(weight * (1 << FRACTION) + 0.5);
    }
    axis->first[i] = first;
    axis->count[i] = end - first;
}

static enum xt_status axis_prepare(struct axis *axis, int in, int out, struct xt_err *err)
{
    if (axis->in == in && axis->out == out)
        return XT_OK;
    axis->in = 0;
    const char *what = "a resize filter";
    /* The window is twice the half width, rounded outwards at both ends. */
    int taps = in > out ? 2 * (in / out + 1) + 1 : 3;
    size_t outputs = (size_t)out;
    enum xt_status status =
        xt_mem_grow(&axis->first, &axis->first_capacity, outputs, sizeof *axis->first, what, err);
    if (!status)
        status = xt_mem_grow(&axis->count, &axis->count_capacity, outputs, sizeof *axis->count,
                             what, err);
    if (!status)
        status = xt_mem_grow(&axis->weights, &axis->weights_capacity, outputs * (size_t)taps,
                             sizeof *axis->weights, what, err);
    if (status)
        return status;
    axis->in = in;
    axis->out = out;
    axis->taps = taps;
    for (int i = 0; i < out; i++)
        fill_weights(axis, i);
    return XT_OK;
}

static void axis_clear(struct axis *axis)
{
    free(axis->first);
    free(axis->count);
    free(axis->weights);
}

static uint8_t rounded(int32_t sum)
{
    int32_t value = (sum + (1 << (FRACTION - 1))) >> FRACTION;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

static void filter_row(const struct axis *axis, const uint8_t *in, uint8_t *out)
{
    for (int i = 0; i < axis->out; i++) {
        const uint8_t *pixel = in + (size_t)axis->first[i] * 3;
        const int32_t *weights = axis->weights + (size_t)i * (size_t)axis->taps;
        int32_t sum[3] = {0};
        for (int k = 0; k < axis->count[i]; k++, pixel += 3) {
            sum[0] += weights[k] * pixel[0];
            sum[1] += weights[k] * pixel[1];
            sum[2] += weights[k] * pixel[2];
        }
        for (int c = 0; c < 3; c++)
            out[i * 3 + c] = rounded(sum[c]);
    }
}

static void add_row(int32_t *restrict sums, const uint8_t *restrict row, int32_t weight,
                    size_t count)
{
    /* Blocks of a fixed length become vector instructions at -O2 too. */
    enum { BLOCK = 16 };
    size_t i = 0;
    for (; i + BLOCK <= count; i += BLOCK)
        for (size_t k = 0; k < BLOCK; k++)
            sums[i + k] += weight * row[i + k];
    for (; i < count; i++)
        sums[i] += weight * row[i];
}

/* Each input row is filtered along x once, and added to the output rows that it belongs to: so the
 * memory is the output's and one row, however tall the input. */
static void resize_rows(struct state *state, const struct xt_image *in, uint8_t *pixels)
{
    const struct axis *y = &state->y;
    size_t stride = (size_t)state->x.out * 3;
    memset(state->sums, 0, (size_t)y->out * stride * sizeof *state->sums);
    int open = 0; /* the first output row that still wants input */
    for (int from = 0; from < in->height; from++) {
        const uint8_t *row = in->pixels + (size_t)from * (size_t)in->width * 3;
        if (in->width != state->x.out) {
            filter_row(&state->x, row, state->row);
            row = state->row;
        }
        for (int to = open; to < y->out && y->first[to] <= from; to++) {
            int k = from - y->first[to];
            if (k < y->count[to])
                add_row(state->sums + (size_t)to * stride, row,
                        y->weights[(size_t)to * (size_t)y->taps + (size_t)k], stride);
        }
        while (open < y->out && y->first[open] + y->count[open] <= from + 1)
            open++;
    }
    for (size_t i = 0; i < (size_t)y->out * stride; i++)
        pixels[i] = rounded(state->sums[i]);
}

static enum xt_status prepare(struct xt_resizer *resizer, const struct xt_image *in, int width,
                              int height, struct xt_err *err)
{
    enum xt_status status = XT_OK;
    if (!resizer->state)
        status = xt_mem_calloc(&resizer->state, 1, sizeof(struct state), "a resizer", err);
    if (status)
        return status;
    struct state *state = resizer->state;
    size_t stride = (size_t)width * 3;
    status = axis_prepare(&state->x, in->width, width, err);
    if (!status)
        status = axis_prepare(&state->y, in->height, height, err);
    if (!status)
        status = xt_mem_grow(&state->row, &state->row_capacity, stride, 1, "a row", err);
    if (!status)
        status = xt_mem_grow(&state->sums, &state->sums_capacity, stride * (size_t)height,
                             sizeof *state->sums, "an image to resize to", err);
    return status;
}

void xt_resizer_clear(struct xt_resizer *resizer)
{
    struct state *state = resizer->state;
    if (!state)
        return;
    axis_clear(&state->x);
    axis_clear(&state->y);
    free(state->row);
    free(state->sums);
    free(state);
    resizer->state = NULL;
}

enum xt_status xt_resize(struct xt_resizer *resizer, const struct xt_image *in, int width,
                         int height, uint8_t *pixels, struct xt_err *err)
{
    if (in->width == width && in->height == height) {
        memcpy(pixels, in->pixels, (size_t)width * (size_t)height * 3);
        return XT_OK;
    }
    if (width < 1 || height < 1 || width > XT_IMAGE_PIXELS_MAX / height)
        return xt_err_set(err, XT_ERR_USAGE, "an image cannot be resized to %d x %d pixels", width,
                          height);
    enum xt_status status = prepare(resizer, in, width, height, err);
    if (!status)
        resize_rows(resizer->state, in, pixels);
    return status;
}
