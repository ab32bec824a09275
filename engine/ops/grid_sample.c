/* Samples of an image at the points of a grid, bilinear (Jaderberg et al. 2015, spatial transformer
 * networks; PyTorch's grid_sample). Points are float32 in a graph of any type: bf16 would move them
 * by tenths of a pixel.
 *
 * The program multiplies by matrices of the pixels' weights, one axis after the other: row p of an
 * axis's matrix has 1 - |u| where the point is u pixels, |u| < 1, from a column. The slope at whole
 * coordinates is that of the cell behind, as in PyTorch: a transformer begins with the identity,
 * where every point is one.
 */
#include <math.h>

#include "engine/ops/ops.h"

enum { IMAGE, GRID };

struct xt_grid_axis xt_grid_axis(const struct xt_grid_sample_op *sample, int axis)
{
    const struct xt_tensor *image = xt_op_in(&sample->op, IMAGE);
    int length = axis == 0 ? image->w : image->h;
    bool align = sample->spec.align_corners;
    return (struct xt_grid_axis){.length = length,
                                 .scale = (float)(align ? length - 1 : length) / 2,
                                 .offset = (float)(length - 1) / 2};
}

/* ---- the program ---- */

struct description {
    struct xt_grid_sample_op *sample;
    struct xt_graph *graph;
    struct xt_program *program;
    size_t n, points, h, w, c;
    struct xt_operand numbers;      /* 0, 1, 2, ...: of the longer axis */
    struct xt_operand columns;      /* [n][w][h * c]: the image with its sides swapped */
    struct xt_operand places[2][2]; /* of x, of y: [n * points][1] before and after the border */
};

static struct xt_operand room(const struct description *d, enum xt_phase phase, size_t rows,
                              size_t columns)
{
    const int64_t dims[] = {1, 1, (int64_t)rows, (int64_t)columns};
    struct xt_operand memory = xt_op_room(&d->sample->op, d->graph, phase, dnnl_f32, dims);
    return xt_operand_matrix(memory.place, dnnl_f32, rows, columns);
}

static struct xt_operand as_matrices(const struct xt_operand *matrix, size_t count)
{
    return xt_operand_matrices(matrix->place, matrix->dtype, count, (size_t)matrix->dims[0] / count,
                               (size_t)matrix->dims[1]);
}

/* Points' coordinates along an axis as they lie in the grid's memory. */
static struct xt_operand coordinates(const struct description *d, const struct xt_buffer *buffer,
                                     int axis)
{
    struct xt_operand grid = xt_operand_matrix(xt_in_buffer(buffer), dnnl_f32, d->n * d->points, 2);
    grid.dims[1] = 1;
    grid.offsets[1] = axis;
    return grid;
}

/* In pixels. */
static void add_places(struct description *d, enum xt_phase phase, int axis)
{
    struct xt_grid_axis of = xt_grid_axis(d->sample, axis);
    struct xt_operand grid = coordinates(d, xt_op_in(&d->sample->op, GRID)->value, axis);
    struct xt_operand *place = d->places[axis];
    place[0] = place[1] = room(d, phase, d->n * d->points, 1);
    xt_program_reorder(d->program, phase, &grid, &place[0]);
    xt_program_eltwise(d->program, phase, dnnl_eltwise_linear, of.scale, of.offset, &place[0],
                       &place[0]);
    if (!d->sample->spec.border)
        return;
    place[1] = room(d, phase, d->n * d->points, 1);
    xt_program_eltwise(d->program, phase, dnnl_eltwise_clip, 0, (float)(of.length - 1), &place[0],
                       &place[1]);
}

/* What is made of each point's distance from each column, [n * points][length]. */
static struct xt_operand add_distances(struct description *d, enum xt_phase phase, int axis)
{
    size_t length = (size_t)xt_grid_axis(d->sample, axis).length;
    struct xt_operand ones = xt_op_ones(&d->sample->op, d->graph, length, dnnl_f32);
    struct xt_operand all = room(d, phase, d->n * d->points, length);
    xt_program_matmul(d->program, phase, &d->places[axis][1], &ones, &all, NULL);
    struct xt_operand each = xt_operand_matrix(d->numbers.place, dnnl_f32, 1, length);
    xt_program_binary(d->program, phase, dnnl_binary_sub, &all, &each, &all, NULL);
    return all;
}

/* 1 - |u|, or 0. */
static struct xt_operand add_weights(struct description *d, enum xt_phase phase, int axis)
{
    struct xt_operand u = add_distances(d, phase, axis);
    xt_program_eltwise(d->program, phase, dnnl_eltwise_abs, 0, 0, &u, &u);
    xt_program_eltwise(d->program, phase, dnnl_eltwise_linear, -1, 1, &u, &u);
    xt_program_eltwise(d->program, phase, dnnl_eltwise_relu, 0, 0, &u, &u);
    return u;
}

/* Their slope: 1 for -1 <= u < 0, -1 for 0 <= u < 1, as a sum of steps from 0 to 1. */
static struct xt_operand add_slopes(struct description *d, enum xt_phase phase, int axis)
{
    static const struct {
        float at, height;
    } steps[] = {{-1, 1}, {0, -2}, {1, 1}};
    static const float steep = 1e30F;
    struct xt_operand u = add_distances(d, phase, axis);
    struct xt_operand slopes = room(d, phase, (size_t)u.dims[0], (size_t)u.dims[1]);
    struct xt_operand step = room(d, phase, (size_t)u.dims[0], (size_t)u.dims[1]);
    for (int i = 0; i < 3; i++) {
        struct xt_operand *to = i ? &step : &slopes;
        xt_program_eltwise(d->program, phase, dnnl_eltwise_linear, 1, -steps[i].at, &u, to);
        xt_program_eltwise(d->program, phase, dnnl_eltwise_linear, -steep, 0, to, to);
        xt_program_eltwise(d->program, phase, dnnl_eltwise_clip, 0, 1, to, to);
        xt_program_eltwise(d->program, phase, dnnl_eltwise_linear, -steps[i].height,
                           steps[i].height, to, to);
        if (i)
            xt_program_binary(d->program, phase, dnnl_binary_add, &slopes, &step, &slopes, NULL);
    }
    return slopes;
}

/* What a matrix of x makes of the image: [n * points][h * c]. */
static struct xt_operand add_rows(struct description *d, enum xt_phase phase,
                                  const struct xt_operand *matrix)
{
    struct xt_operand rows = room(d, phase, d->n * d->points, d->h * d->c);
    struct xt_operand a = as_matrices(matrix, d->n);
    struct xt_operand to = as_matrices(&rows, d->n);
    xt_program_matmul(d->program, phase, &a, &d->columns, &to, NULL);
    return rows;
}

/* The axes 1 and 2 in one another's places. */
static struct xt_operand swapped(struct xt_operand image)
{
    struct xt_operand out = image;
    for (int i = 1; i <= 2; i++) {
        out.dims[i] = image.dims[3 - i];
        out.strides[i] = image.strides[3 - i];
    }
    return out;
}

/* [n * w][h * c] as [n][w][h][c] */
static struct xt_operand as_columns(const struct description *d, const struct xt_operand *matrix)
{
    const int64_t dims[] = {(int64_t)d->n, (int64_t)d->w, (int64_t)d->h, (int64_t)d->c};
    return xt_operand_dense(matrix->place, dnnl_f32, XT_DENSE_AXES, dims);
}

static void add_columns(struct description *d, enum xt_phase phase, const struct xt_operand *image)
{
    struct xt_operand matrix = room(d, phase, d->n * d->w, d->h * d->c);
    struct xt_operand from = swapped(*image);
    struct xt_operand to = as_columns(d, &matrix);
    xt_program_reorder(d->program, phase, &from, &to);
    d->columns = as_matrices(&matrix, d->n);
}

static void add_forward(struct description *d, const struct xt_operand *image)
{
    const struct xt_tensor *out = xt_op_out(&d->sample->op, 0);
    size_t all = d->n * d->points;
    add_columns(d, XT_FORWARD, image);
    add_places(d, XT_FORWARD, 0);
    add_places(d, XT_FORWARD, 1);
    struct xt_operand of_x = add_weights(d, XT_FORWARD, 0);
    struct xt_operand of_y = add_weights(d, XT_FORWARD, 1);
    struct xt_operand rows = add_rows(d, XT_FORWARD, &of_x);
    struct xt_operand a = xt_operand_matrices(of_y.place, dnnl_f32, all, 1, d->h);
    struct xt_operand b = xt_operand_matrices(rows.place, dnnl_f32, all, d->h, d->c);
    struct xt_operand y =
        xt_operand_matrices(xt_in_buffer(out->value), xt_dtype_dnnl(out->dtype), all, 1, d->c);
    struct xt_operand to = y;
    if (out->dtype != XT_F32)
        to.place = room(d, XT_FORWARD, all, d->c).place, to.dtype = dnnl_f32;
    xt_program_matmul(d->program, XT_FORWARD, &a, &b, &to, NULL);
    if (out->dtype != XT_F32)
        xt_program_reorder(d->program, XT_FORWARD, &to, &y);
}

/* The output's gradient times a matrix of y: [n * points][h * c]. */
static struct xt_operand add_outer(struct description *d, const struct xt_operand *of_y,
                                   const struct xt_operand *dy)
{
    size_t all = d->n * d->points;
    struct xt_operand outer = room(d, XT_BACKWARD, all, d->h * d->c);
    struct xt_operand a = xt_operand_matrices(of_y->place, dnnl_f32, all, d->h, 1);
    struct xt_operand b = xt_operand_matrices(dy->place, dnnl_f32, all, 1, d->c);
    struct xt_operand to = xt_operand_matrices(outer.place, dnnl_f32, all, d->h, d->c);
    xt_program_matmul(d->program, XT_BACKWARD, &a, &b, &to, NULL);
    return outer;
}

/* The gradient of the points along an axis: the sums over h and c of what both matrices made. */
static void add_point_gradient(struct description *d, int axis, const struct xt_operand *rows,
                               const struct xt_operand *outer)
{
    struct xt_grid_axis of = xt_grid_axis(d->sample, axis);
    struct xt_operand ones =
        xt_operand_transposed(xt_op_ones(&d->sample->op, d->graph, d->h * d->c, dnnl_f32));
    struct xt_operand sums = room(d, XT_BACKWARD, d->n * d->points, 1);
    struct xt_operand to = coordinates(d, xt_op_in_grad(&d->sample->op, GRID), axis);
    xt_program_binary(d->program, XT_BACKWARD, dnnl_binary_mul, rows, outer, rows, NULL);
    xt_program_matmul(d->program, XT_BACKWARD, rows, &ones, &sums, NULL);
    if (d->sample->spec.border)
        xt_program_eltwise_backward(d->program, dnnl_eltwise_clip_v2, 0, (float)(of.length - 1),
                                    &d->places[axis][0], &sums, &sums, "the border's gradient");
    xt_program_eltwise(d->program, XT_BACKWARD, dnnl_eltwise_linear, of.scale, 0, &sums, &sums);
    xt_program_reorder(d->program, XT_BACKWARD, &sums, &to);
}

static void add_image_gradient(struct description *d, const struct xt_operand *of_x,
                               const struct xt_operand *outer)
{
    const struct xt_tensor *image = xt_op_in(&d->sample->op, IMAGE);
    struct xt_operand columns = room(d, XT_BACKWARD, d->n * d->w, d->h * d->c);
    struct xt_operand a = xt_operand_transposed(as_matrices(of_x, d->n));
    struct xt_operand b = as_matrices(outer, d->n);
    struct xt_operand to = as_matrices(&columns, d->n);
    xt_program_matmul(d->program, XT_BACKWARD, &a, &b, &to, NULL);
    struct xt_operand from = swapped(as_columns(d, &columns));
    struct xt_operand dx = xt_operand_channels_last(image, xt_op_in_grad(&d->sample->op, IMAGE));
    xt_program_reorder(d->program, XT_BACKWARD, &from, &dx);
}

static void add_backward(struct description *d, const struct xt_operand *image)
{
    const struct xt_tensor *out = xt_op_out(&d->sample->op, 0);
    struct xt_operand behind = xt_operand_channels_last(out, out->grad[0]);
    struct xt_operand dy = behind;
    if (out->dtype != XT_F32) {
        dy = xt_op_room(&d->sample->op, d->graph, XT_BACKWARD, dnnl_f32, behind.dims);
        xt_program_reorder(d->program, XT_BACKWARD, &behind, &dy);
    }
    add_columns(d, XT_BACKWARD, image);
    add_places(d, XT_BACKWARD, 0);
    add_places(d, XT_BACKWARD, 1);
    struct xt_operand of_x = add_weights(d, XT_BACKWARD, 0);
    struct xt_operand of_y = add_weights(d, XT_BACKWARD, 1);
    struct xt_operand outer = add_outer(d, &of_y, &dy);
    if (xt_op_in(&d->sample->op, IMAGE)->wants_grad)
        add_image_gradient(d, &of_x, &outer);
    if (!xt_op_in(&d->sample->op, GRID)->wants_grad)
        return;
    struct xt_operand slopes = add_slopes(d, XT_BACKWARD, 0);
    struct xt_operand rows = add_rows(d, XT_BACKWARD, &slopes);
    add_point_gradient(d, 0, &rows, &outer);
    slopes = add_slopes(d, XT_BACKWARD, 1);
    outer = add_outer(d, &slopes, &dy);
    rows = add_rows(d, XT_BACKWARD, &of_x);
    add_point_gradient(d, 1, &rows, &outer);
}

static enum xt_status refresh(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    struct xt_grid_sample_op *sample = (struct xt_grid_sample_op *)op;
    const struct xt_tensor *image = xt_op_in(op, IMAGE);
    float *numbers = sample->numbers.host;
    (void)graph;
    (void)err;
    for (int i = 0; numbers && i < (image->w > image->h ? image->w : image->h); i++)
        numbers[i] = (float)i;
    return XT_OK;
}

static void describe(struct xt_op *op, struct xt_graph *graph)
{
    const struct xt_tensor *in = xt_op_in(op, IMAGE);
    const struct xt_tensor *out = xt_op_out(op, 0);
    struct description d = {.sample = (struct xt_grid_sample_op *)op,
                            .graph = graph,
                            .program = &op->program,
                            .n = (size_t)out->n,
                            .points = (size_t)out->h * (size_t)out->w,
                            .h = (size_t)in->h,
                            .w = (size_t)in->w,
                            .c = (size_t)in->c};
    size_t longer = d.w > d.h ? d.w : d.h;
    xt_graph_use(op, graph, 3, 0);
    d.numbers.place = xt_op_follow_host(op, graph, "columns", longer, &d.sample->numbers);
    struct xt_operand held = xt_op_numbers(op, graph, IMAGE);
    struct xt_operand image = xt_operand_channels_last(in, held.place.buffer);
    image.dtype = held.dtype;
    add_forward(&d, &image);
    if (xt_op_learns(op, graph))
        add_backward(&d, &image);
}

static void destroy(struct xt_op *op)
{
    xt_device_memory_destroy(&((struct xt_grid_sample_op *)op)->numbers);
}

/* ---- in double precision ---- */

/* A point along an axis: the pixel before it, its part of the way to the next one, and the pixel's
 * slope by the coordinate. */
struct place {
    double exact;
    int64_t first;
    double part, slope;
};
static struct place place_of(const struct xt_grid_sample_op *sample, int axis, double coordinate)
{
    struct xt_grid_axis of = xt_grid_axis(sample, axis);
    double at = coordinate * (double)of.scale + (double)of.offset;
    struct place place = {.exact = at, .slope = (double)of.scale};
    if (sample->spec.border && !(at > 0 && at < of.length - 1)) {
        place.slope = 0;
        at = at > 0 ? of.length - 1 : 0;
    }
    at = fmin(fmax(at, -2), of.length + 1);
    place.first = (int64_t)floor(at);
    place.part = at - floor(at);
    return place;
}

/* Of the four pixels around a point: the element of its first channel; false: outside. */
static bool corner(const struct xt_tensor *image, int64_t n, const struct place at[2], int k,
                   size_t *out)
{
    int64_t x = at[0].first + k % 2;
    int64_t y = at[1].first + k / 2;
    *out = (size_t)(((n * image->h + y) * image->w + x) * image->c);
    return x >= 0 && x < image->w && y >= 0 && y < image->h;
}

static double share(const struct place *at, int side)
{
    return side ? at->part : 1 - at->part;
}

/* One point: its output, or the gradients that follow from the output's. */
static void run_point(struct xt_reference_op *reference, size_t point, bool backward)
{
    const struct xt_grid_sample_op *sample = (const struct xt_grid_sample_op *)reference->op;
    const struct xt_tensor *image = xt_op_in(reference->op, IMAGE);
    const struct xt_tensor *out = xt_op_out(reference->op, 0);
    const struct place at[] = {place_of(sample, 0, reference->in[GRID][2 * point]),
                               place_of(sample, 1, reference->in[GRID][2 * point + 1])};
    int64_t n = (int64_t)(point / ((size_t)out->h * (size_t)out->w));
    size_t y = point * (size_t)out->c;
    double slopes[2] = {0};
    for (int c = 0; c < out->c && !backward; c++)
        reference->out[0][y + (size_t)c] = 0;
    for (int k = 0; k < 4; k++) {
        size_t from = 0;
        if (!corner(image, n, at, k, &from))
            continue;
        double of_x = share(&at[0], k % 2);
        double of_y = share(&at[1], k / 2);
        for (size_t c = 0; c < (size_t)out->c; c++) {
            double x = reference->in[IMAGE][from + c];
            if (!backward) {
                reference->out[0][y + c] += of_x * of_y * x;
                continue;
            }
            double dy = reference->out_grad[0][y + c];
            reference->in_grad[IMAGE][from + c] += of_x * of_y * dy;
            slopes[0] += (k % 2 ? 1 : -1) * of_y * x * dy;
            slopes[1] += (k / 2 ? 1 : -1) * of_x * x * dy;
        }
    }
    for (int axis = 0; axis < 2 && backward; axis++)
        reference->in_grad[GRID][2 * point + (size_t)axis] = slopes[axis] * at[axis].slope;
}

static enum xt_status run(struct xt_reference_op *reference, bool backward)
{
    const struct xt_tensor *out = xt_op_out(reference->op, 0);
    for (size_t i = 0; i < xt_tensor_count(out) / (size_t)out->c; i++)
        run_point(reference, i, backward);
    return XT_OK;
}

static enum xt_status reference_forward(struct xt_reference_op *reference)
{
    return run(reference, false);
}

static enum xt_status reference_backward(struct xt_reference_op *reference)
{
    return run(reference, true);
}

/* A coordinate of float32 moves by a few units of rounding of the side's length. */
static struct xt_bound bound(const struct xt_reference_op *reference, enum xt_part part, int which)
{
    const struct xt_tensor *image = xt_op_in(reference->op, IMAGE);
    const struct xt_tensor *out = xt_op_out(reference->op, 0);
    double moved = 8.0 * (image->w + image->h) * xt_reference_op_rounding(XT_F32);
    enum xt_dtype dtype = part == XT_PART_INPUT_GRAD && which == GRID ? XT_F32 : out->dtype;
    int terms = part == XT_PART_OUTPUT ? 4 : which == GRID ? 4 * out->c : out->h * out->w;
    return (struct xt_bound){.relative = xt_reference_op_relative(dtype, 2, terms) + moved};
}

/* Rounding decides at the side of which pixel a point lies that is almost on one. */
static void certain(struct xt_reference_op *reference, int output, double *keep)
{
    const struct xt_grid_sample_op *sample = (const struct xt_grid_sample_op *)reference->op;
    const struct xt_tensor *out = xt_op_out(reference->op, output);
    for (size_t i = 0; i < xt_tensor_count(out); i++) {
        keep[i] = 1;
        for (size_t axis = 0; axis < 2; axis++) {
            size_t point = i / (size_t)out->c;
            double at = place_of(sample, (int)axis, reference->in[GRID][2 * point + axis]).exact;
            if (fabs(at - round(at)) < 1e-4)
                keep[i] = 0;
        }
    }
}

const struct xt_op_kind xt_kind_grid_sample = {
    .name = "grid sample",
    .size = sizeof(struct xt_grid_sample_op),
    .describe = describe,
    .refresh = refresh,
    .what = {xt_what_matmul, xt_what_matmul},
    .reference = {.forward = reference_forward,
                  .backward = reference_backward,
                  .bound = bound,
                  .certain = certain,
                  .inputs = {"image", "grid"}},
    .destroy = destroy,
};

struct xt_tensor *xt_graph_grid_sample(struct xt_graph *graph, struct xt_tensor *image,
                                       struct xt_tensor *grid,
                                       const struct xt_grid_sample_spec *spec)
{
    struct xt_grid_sample_op *sample = xt_graph_add_op(graph, &xt_kind_grid_sample, spec->name);
    if (!sample || !xt_op_read(&sample->op, graph, image) || !xt_op_read(&sample->op, graph, grid))
        return NULL;
    if (grid->c != 2 || grid->dtype != XT_F32 || grid->n != image->n)
        return xt_graph_refuse(graph, XT_ERR_USAGE,
                               "%s: a grid is two float32 numbers for each point of each sample",
                               spec->name);
    sample->spec = *spec;
    sample->op.flops = 8.0 * image->n * grid->h * grid->w * image->c;
    sample->op.backward_flops = 2 * sample->op.flops;
    struct xt_tensor *out = xt_op_write(&sample->op, graph, spec->name, image->n, grid->h, grid->w,
                                        image->c, xt_op_numbers_type(graph, image));
    if (!out)
        return NULL;
    out->above_0 = image->above_0;
    out->one_reader = true;
    return out;
}
