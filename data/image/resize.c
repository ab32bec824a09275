#include "data/image/resize.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "data/image/loops/pixels.h"

/* Coefficients are integers of this many fractional bits: 8 bits of pixel, 22 of coefficient and
 * the sign fill an int32_t. */
enum { FRACTION = XT_FILTER_FRACTION };

/* The largest number of input rows that make an output row directly; beyond that, sums are
 * accumulated. */
enum { RING = 16 };

/* The filter along one axis: output i is the sum of count[i] inputs from first[i] on, times
 * weights[i * taps ...]. */
struct axis {
    int in; /* pixels of the input */
    int out;
    double from; /* where the part begins, and its length */
    double length;
    bool mirrored;
    int taps;
    int *first;
    int *count;
    int32_t *weights;
    size_t first_capacity;
    size_t count_capacity;
    size_t weights_capacity;
    uint32_t *packed; /* as struct xt_row_filter has it */
    size_t packed_capacity;
    bool is_packed;
};

struct state {
    struct axis x;
    struct axis y;
    uint8_t *row; /* [RING] input rows, filtered along x */
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
    double scale = axis->length / axis->out;
    double half = scale > 1 ? scale : 1;
    double centre = axis->from + ((axis->mirrored ? axis->out - 1 - i : i) + 0.5) * scale;
    double end_of_part = axis->from + axis->length;
    int least = (int)axis->from;
    int most = (int)end_of_part < end_of_part ? (int)end_of_part + 1 : (int)end_of_part;
    most = at_most(most, axis->in);
    int first = at_least((int)(centre - half + 0.5), least);
    int end = at_most((int)(centre + half + 0.5), most);
    double weights[RING];
    double sum = 0;
    for (int k = first; k < end; k++) {
        double weight = triangle((k + 0.5 - centre) / half);
        sum += weight;
        if (k - first < RING)
            weights[k - first] = weight;
    }
    int32_t *out = axis->weights + (size_t)i * (size_t)axis->taps;
    for (int k = first; k < end; k++) {
        double weight = k - first < RING ? weights[k - first] : triangle((k + 0.5 - centre) / half);
        out[k - first] = (int32_t)(weight / sum * (1 << FRACTION) + 0.5);
    }
    axis->first[i] = first;
    axis->count[i] = end - first;
}

/* Stores output `i`'s weights in packed order. */
static void pack_weights(struct axis *axis, int i)
{
    enum { PAIR = 2 * XT_FILTER_PACK, GROUP = XT_FILTER_PAIRS * PAIR };
    const int32_t *weights = axis->weights + (size_t)i * (size_t)axis->taps;
    uint32_t *packed =
        axis->packed + (size_t)(i / XT_FILTER_PACK) * GROUP + (size_t)(i % XT_FILTER_PACK);
    for (int pair = 0; pair < XT_FILTER_PAIRS; pair++, packed += PAIR) {
        uint32_t lower = 0;
        uint32_t upper = 0;
        for (int k = 2 * pair; k < 2 * pair + 2 && k < axis->count[i]; k++) {
            int shift = k % 2 * 16;
            uint32_t weight = (uint32_t)weights[k];
            lower |= (weight & ((1U << XT_FILTER_SPLIT) - 1)) << shift;
            upper |= (weight >> XT_FILTER_SPLIT) << shift;
        }
        packed[0] = lower;
        packed[XT_FILTER_PACK] = upper;
    }
}

static enum xt_status pack(struct axis *axis, struct xt_err *err)
{
    axis->is_packed = true;
    for (int i = 0; i < axis->out; i++)
        axis->is_packed &= axis->count[i] <= XT_FILTER_PACKED_TAPS;
    if (!axis->is_packed)
        return XT_OK;
    size_t groups = (size_t)(axis->out - 1) / XT_FILTER_PACK + 1;
    enum xt_status status = xt_mem_grow(&axis->packed, &axis->packed_capacity,
                                        groups * XT_FILTER_PAIRS * 2 * XT_FILTER_PACK,
                                        sizeof *axis->packed, "a filter", err);
    for (int i = 0; i < axis->out && !status; i++)
        pack_weights(axis, i);
    return status;
}

static enum xt_status axis_prepare(struct axis *axis, int in, double from, double length, int out,
                                   bool mirrored, struct xt_err *err)
{
    if (axis->in == in && axis->out == out && axis->from == from && axis->length == length &&
        axis->mirrored == mirrored)
        return XT_OK;
    axis->in = 0;
    const char *what = "a resize filter";
    /* The window is twice the half width, rounded outwards at both ends. */
    int taps = length > out ? 2 * ((int)(length / out) + 1) + 1 : 3;
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
    axis->from = from;
    axis->length = length;
    axis->mirrored = mirrored;
    axis->out = out;
    axis->taps = taps;
    axis->in = in;
    for (int i = 0; i < out; i++)
        fill_weights(axis, i);
    status = pack(axis, err);
    axis->in = status ? 0 : in;
    return status;
}

static void axis_clear(struct axis *axis)
{
    free(axis->first);
    free(axis->count);
    free(axis->weights);
    free(axis->packed);
}

static uint8_t rounded(int32_t sum)
{
    int32_t value = (sum + (1 << (FRACTION - 1))) >> FRACTION;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/* Whether an input row needs no filtering along x. */
static bool is_same(const struct axis *axis)
{
    return axis->in == axis->out && !axis->mirrored && axis->length == axis->in;
}

/* An input row, filtered along x into `out` if needed. */
static const uint8_t *filtered_row(const struct state *state, const struct xt_image *in, int number,
                                   uint8_t *out)
{
    const struct axis *x = &state->x;
    const uint8_t *row = in->pixels + (size_t)number * (size_t)in->width * 3;
    if (is_same(x))
        return row;
    struct xt_row_filter filter = {.in = x->in,
                                   .out = x->out,
                                   .taps = x->taps,
                                   .first = x->first,
                                   .count = x->count,
                                   .weights = x->weights,
                                   .packed = x->is_packed ? x->packed : NULL};
    xt_pixel_loops_get()->filter_row(&filter, row, out);
    return out;
}

/* Few input rows per output row: they are held in a ring, each filtered along x once. */
static void resize_by_ring(const struct state *state, const struct xt_image *in, uint8_t *pixels)
{
    const struct axis *y = &state->y;
    size_t stride = (size_t)state->x.out * 3;
    const struct xt_pixel_loops *loops = xt_pixel_loops_get();
    const uint8_t *ring[RING] = {0};
    int next = y->first[0]; /* the first row that is not in the ring yet */
    for (int to = 0; to < y->out; to++) {
        const uint8_t *rows[RING];
        int first = y->first[to];
        int count = y->count[to];
        next = at_least(next, first);
        for (; next < first + count; next++)
            ring[next % RING] =
                filtered_row(state, in, next, state->row + (size_t)(next % RING) * stride);
        for (int k = 0; k < count; k++)
            rows[k] = ring[(first + k) % RING];
        loops->mix_rows(rows, y->weights + (size_t)to * (size_t)y->taps, count, stride,
                        pixels + (size_t)to * stride);
    }
}

/* Each input row is filtered along x once, and added to the output rows that it belongs to: memory
 * is the output's and one row, however tall the input. */
static void resize_by_sums(const struct state *state, const struct xt_image *in, uint8_t *pixels)
{
    const struct axis *y = &state->y;
    size_t stride = (size_t)state->x.out * 3;
    const struct xt_pixel_loops *loops = xt_pixel_loops_get();
    memset(state->sums, 0, (size_t)y->out * stride * sizeof *state->sums);
    int open = 0; /* the first output row that is not complete */
    for (int from = y->first[0]; open < y->out; from++) {
        const uint8_t *row = filtered_row(state, in, from, state->row);
        for (int to = open; to < y->out && y->first[to] <= from; to++) {
            int k = from - y->first[to];
            if (k < y->count[to])
                loops->add_row(state->sums + (size_t)to * stride, row,
                               y->weights[(size_t)to * (size_t)y->taps + (size_t)k], stride);
        }
        while (open < y->out && y->first[open] + y->count[open] <= from + 1)
            open++;
    }
    for (size_t i = 0; i < (size_t)y->out * stride; i++)
        pixels[i] = rounded(state->sums[i]);
}

static enum xt_status prepare(struct xt_resizer *resizer, const struct xt_image *in,
                              const struct xt_box *part, bool mirrored, int width, int height,
                              struct xt_err *err)
{
    enum xt_status status = XT_OK;
    if (!resizer->state)
        status = xt_mem_calloc(&resizer->state, 1, sizeof(struct state), "a resizer", err);
    if (status)
        return status;
    struct state *state = resizer->state;
    size_t stride = (size_t)width * 3;
    status = axis_prepare(&state->x, in->width, part->left, part->width, width, mirrored, err);
    if (!status)
        status = axis_prepare(&state->y, in->height, part->top, part->height, height, false, err);
    if (!status)
        status = xt_mem_grow(&state->row, &state->row_capacity, stride * RING, 1, "rows", err);
    if (!status && state->y.taps > RING)
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

static bool is_within(const struct xt_box *part, const struct xt_image *in)
{
    /* A sum of two fractions may be off by rounding. */
    const double slack = 1e-6;
    return part->left >= -slack && part->top >= -slack && part->width > 0 && part->height > 0 &&
           part->left + part->width <= in->width + slack &&
           part->top + part->height <= in->height + slack;
}

bool xt_resize_is_copy(const struct xt_image *in, const struct xt_box *part, bool mirrored,
                       int width, int height)
{
    return part->width == in->width && part->height == in->height && !mirrored &&
           in->width == width && in->height == height;
}

enum xt_status xt_resize_part(struct xt_resizer *resizer, const struct xt_image *in,
                              const struct xt_box *part, bool mirrored, int width, int height,
                              uint8_t *pixels, struct xt_err *err)
{
    if (width < 1 || height < 1 || width > XT_IMAGE_PIXELS_MAX / height)
        return xt_err_set(err, XT_ERR_USAGE, "an image cannot be resized to %d x %d pixels", width,
                          height);
    if (!is_within(part, in))
        return xt_err_set(err, XT_ERR_DATA, "a part of an image of %d x %d lies outside it",
                          in->width, in->height);
    if (xt_resize_is_copy(in, part, mirrored, width, height)) {
        memcpy(pixels, in->pixels, (size_t)width * (size_t)height * 3);
        return XT_OK;
    }
    enum xt_status status = prepare(resizer, in, part, mirrored, width, height, err);
    if (status)
        return status;
    struct state *state = resizer->state;
    if (state->y.taps <= RING)
        resize_by_ring(state, in, pixels);
    else
        resize_by_sums(state, in, pixels);
    return XT_OK;
}

enum xt_status xt_resize(struct xt_resizer *resizer, const struct xt_image *in, int width,
                         int height, uint8_t *pixels, struct xt_err *err)
{
    struct xt_box whole = {.width = in->width, .height = in->height};
    return xt_resize_part(resizer, in, &whole, false, width, height, pixels, err);
}
