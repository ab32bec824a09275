/* Maps of one axis by the coefficients that are not 0: the program's products with the whole matrix
 * take 2 to 7 times as long (bilinear, bicubic, reflection). */
#include "engine/cpu/cpu.h"

static bool is_own(const struct xt_op *op)
{
    const struct xt_tensor *in = xt_op_in(op, 0);
    return in->dtype == xt_op_out(op, 0)->dtype && (in->dtype == XT_F32 || in->dtype == XT_BF16) &&
           xt_axis_parts(in, ((const struct xt_axis_map_op *)op)->axis).inner > 1;
}

void xt_cpu_axis_map_prepare(struct xt_op *op, struct xt_graph *graph)
{
    if (is_own(op)) {
        xt_graph_use(op, graph, 0, 0);
        return;
    }
    op->own_name[0] = op->own_name[1] = NULL;
    op->kind->describe(op, graph);
}

/* Parallel over what lies outside of the axis, or over its parts too if that is less than there are
 * threads. */
static void run(const struct xt_axis_map_op *map, const struct xt_graph *graph, bool backward,
                const void *from, void *to)
{
    const struct xt_tensor *in = xt_op_in(&map->op, 0);
    const struct xt_sparse_rows *rows = &map->rows[backward];
    struct xt_axis_parts parts = xt_axis_parts(in, map->axis);
    size_t size = xt_dtype_size(in->dtype) * parts.inner;
    int threads = graph->options.device->threads;
    int cuts = parts.outer % (size_t)threads == 0 || rows->count < threads ? 1 : threads;
#pragma omp parallel for collapse(2) schedule(static)
    for (size_t i = 0; i < parts.outer; i++)
        for (int cut = 0; cut < cuts; cut++)
            graph->loops->sparse_product(
                in->dtype, rows,
                (const int[]){(int)((int64_t)rows->count * cut / cuts),
                              (int)((int64_t)rows->count * (cut + 1) / cuts)},
                backward ? NULL : map->fill,
                (const char *)from + i * (size_t)map->rows[!backward].count * size, parts.inner,
                (char *)to + i * (size_t)rows->count * size);
}

enum xt_status xt_cpu_axis_map_forward(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    if (!is_own(op))
        return xt_program_run(&op->program, XT_FORWARD, err);
    run((const struct xt_axis_map_op *)op, graph, false, xt_op_in(op, 0)->value->data,
        xt_op_out(op, 0)->value->data);
    return XT_OK;
}

enum xt_status xt_cpu_axis_map_backward(struct xt_op *op, struct xt_graph *graph,
                                        struct xt_err *err)
{
    if (!is_own(op))
        return xt_program_run(&op->program, XT_BACKWARD, err);
    if (xt_op_in(op, 0)->wants_grad)
        run((const struct xt_axis_map_op *)op, graph, true, xt_op_out(op, 0)->grad[0]->data,
            xt_op_in_grad(op, 0)->data);
    return XT_OK;
}
