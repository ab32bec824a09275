/* Samples of an image at a grid's points: the program's matrices of weights are almost all zeros.
 */
#include <string.h>

#include "engine/cpu/cpu.h"

enum { IMAGE, GRID };

static bool is_own(const struct xt_op *op)
{
    enum xt_dtype dtype = xt_op_out(op, 0)->dtype;
    return dtype == XT_F32 || dtype == XT_BF16;
}

/* An image of int8 is float32 once the program has run. */
void xt_cpu_grid_sample_prepare(struct xt_op *op, struct xt_graph *graph)
{
    struct xt_grid_sample_op *sample = (struct xt_grid_sample_op *)op;
    const struct xt_tensor *image = xt_op_in(op, IMAGE);
    if (!is_own(op)) {
        op->own_name[0] = op->own_name[1] = NULL;
        op->kind->describe(op, graph);
        return;
    }
    xt_graph_use(op, graph, 3, 0);
    sample->image = xt_op_numbers(op, graph, IMAGE);
    if (xt_op_learns(op, graph) && image->wants_grad && image->dtype != XT_F32)
        xt_graph_want_scratch(graph, xt_tensor_count(image) / (size_t)image->n);
}

/* The same element of each sample n. */
static void *part_of(const struct xt_tensor *t, const struct xt_buffer *buffer, enum xt_dtype dtype,
                     int n, size_t element)
{
    size_t each = xt_tensor_count(t) / (size_t)t->n;
    return (char *)buffer->data + (each * (size_t)n + element) * xt_dtype_size(dtype);
}

/* `count` points of sample n, from `first` on. */
static struct xt_grid_points points_of(const struct xt_grid_sample_op *sample, int n, size_t first,
                                       size_t count)
{
    const struct xt_tensor *image = xt_op_in(&sample->op, IMAGE);
    const struct xt_tensor *grid = xt_op_in(&sample->op, GRID);
    struct xt_grid_points points = {.grid = part_of(grid, grid->value, XT_F32, n, 2 * first),
                                    .count = count,
                                    .w = image->w,
                                    .h = image->h,
                                    .c = image->c,
                                    .border = sample->spec.border};
    for (int axis = 0; axis < 2; axis++) {
        struct xt_grid_axis of = xt_grid_axis(sample, axis);
        points.scale[axis] = of.scale;
        points.offset[axis] = of.offset;
    }
    return points;
}

enum xt_status xt_cpu_grid_sample_forward(struct xt_op *op, struct xt_graph *graph,
                                          struct xt_err *err)
{
    const struct xt_grid_sample_op *sample = (const struct xt_grid_sample_op *)op;
    const struct xt_tensor *image = xt_op_in(op, IMAGE);
    const struct xt_tensor *out = xt_op_out(op, 0);
    enum xt_status status = xt_program_run(&op->program, XT_FORWARD, err);
    if (status || !is_own(op))
        return status;
    int parts = graph->options.device->threads;
    size_t all = (size_t)out->h * (size_t)out->w;
#pragma omp parallel for collapse(2) schedule(static)
    for (int n = 0; n < out->n; n++)
        for (int part = 0; part < parts; part++) {
            size_t first = all * (size_t)part / (size_t)parts;
            size_t end = all * (size_t)(part + 1) / (size_t)parts;
            struct xt_grid_points points = points_of(sample, n, first, end - first);
            graph->loops->grid_sample(
                &points, out->dtype, part_of(image, sample->image.place.buffer, out->dtype, n, 0),
                part_of(out, out->value, out->dtype, n, first * (size_t)out->c));
        }
    return XT_OK;
}

/* The image's gradient is summed in float32, in the gradient itself where that is. */
static void backward_of(const struct xt_grid_sample_op *sample, const struct xt_graph *graph, int n)
{
    const struct xt_tensor *image = xt_op_in(&sample->op, IMAGE);
    const struct xt_tensor *grid = xt_op_in(&sample->op, GRID);
    const struct xt_tensor *out = xt_op_out(&sample->op, 0);
    struct xt_grid_points points = points_of(sample, n, 0, (size_t)out->h * (size_t)out->w);
    size_t count = xt_tensor_count(image) / (size_t)image->n;
    void *dimage = image->wants_grad
                       ? part_of(image, xt_op_in_grad(&sample->op, IMAGE), image->dtype, n, 0)
                       : NULL;
    float *sums = image->dtype == XT_F32 || !dimage ? dimage : xt_graph_loop_scratch(graph);
    if (sums)
        memset(sums, 0, count * sizeof *sums);
    graph->loops->grid_sample_backward(
        &points, out->dtype, part_of(image, image->value, image->dtype, n, 0),
        part_of(out, out->grad[0], out->dtype, n, 0), sums,
        grid->wants_grad ? part_of(grid, xt_op_in_grad(&sample->op, GRID), XT_F32, n, 0) : NULL);
    if (sums != dimage)
        graph->loops->convert(image->dtype, sums, count, dimage);
}

enum xt_status xt_cpu_grid_sample_backward(struct xt_op *op, struct xt_graph *graph,
                                           struct xt_err *err)
{
    if (!is_own(op))
        return xt_program_run(&op->program, XT_BACKWARD, err);
    if (!xt_op_in(op, IMAGE)->wants_grad && !xt_op_in(op, GRID)->wants_grad)
        return XT_OK;
#pragma omp parallel for schedule(static)
    for (int n = 0; n < xt_op_out(op, 0)->n; n++)
        backward_of((const struct xt_grid_sample_op *)op, graph, n);
    return XT_OK;
}
