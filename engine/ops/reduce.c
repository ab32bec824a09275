/* Sums over axes, and repetition over samples, as products with a matrix of ones: not every driver
 * compiles oneDNN's reduction (program.h).
 */
#include "engine/ops/ops.h"

struct xt_operand xt_operand_channels_last(const struct xt_tensor *t,
                                           const struct xt_buffer *buffer)
{
    return xt_operand_dense(xt_in_buffer(buffer), xt_dtype_dnnl(t->dtype), XT_DENSE_AXES,
                            (int64_t[]){t->n, t->h, t->w, t->c});
}

/* 0 + 1, before the first pass. */
struct xt_operand xt_op_ones(struct xt_op *op, struct xt_graph *graph, size_t count,
                             dnnl_data_type_t dtype)
{
    struct xt_buffer *buffer = xt_graph_permanent(graph, op->name, "ones", count * sizeof(float));
    struct xt_operand ones = xt_operand_matrix(xt_in_buffer(buffer), dtype, 1, count);
    xt_program_zero(&op->program, XT_BEFORE, &ones);
    xt_program_eltwise(&op->program, XT_BEFORE, dnnl_eltwise_linear, 1, 1, &ones, &ones);
    return ones;
}

/* A run of consecutive summed axes, and the axes before and after it. */
struct run {
    int64_t outer, count, inner;
    int first, end; /* axes */
};

/* The last run; count 1: none is left. */
static struct run last_run(const int64_t *dims, const int64_t *wanted)
{
    struct run run = {1, 1, 1, 0, XT_DENSE_AXES};
    int axis = XT_DENSE_AXES - 1;
    for (; axis >= 0 && dims[axis] == wanted[axis]; axis--)
        run.inner *= dims[axis];
    run.end = axis + 1;
    for (; axis >= 0 && wanted[axis] == 1; axis--)
        run.count *= dims[axis];
    run.first = axis + 1;
    for (; axis >= 0; axis--)
        run.outer *= dims[axis];
    return run;
}

/* to[outer][inner] = the sum of from[outer][count][inner] */
static void add_product(struct xt_op *op, struct xt_graph *graph, enum xt_phase phase,
                        const struct run *run, const struct xt_operand *from,
                        const struct xt_operand *to)
{
    struct xt_operand ones = xt_op_ones(op, graph, (size_t)run->count, from->dtype);
    if (run->inner == 1) {
        struct xt_operand rows =
            xt_operand_matrix(from->place, from->dtype, (size_t)run->outer, (size_t)run->count);
        struct xt_operand side = xt_operand_transposed(ones);
        struct xt_operand sums = xt_operand_matrix(to->place, to->dtype, (size_t)run->outer, 1);
        xt_program_matmul(&op->program, phase, &rows, &side, &sums, NULL);
        return;
    }
    struct xt_operand row = xt_operand_matrices(ones.place, ones.dtype, 1, 1, (size_t)run->count);
    struct xt_operand rows = xt_operand_matrices(from->place, from->dtype, (size_t)run->outer,
                                                 (size_t)run->count, (size_t)run->inner);
    struct xt_operand sums =
        xt_operand_matrices(to->place, to->dtype, (size_t)run->outer, 1, (size_t)run->inner);
    xt_program_matmul(&op->program, phase, &row, &rows, &sums, NULL);
}

static int64_t product(const int64_t *dims)
{
    int64_t count = 1;
    for (int i = 0; i < XT_DENSE_AXES; i++)
        count *= dims[i];
    return count;
}

static int time_of(const struct xt_op *op, const struct xt_graph *graph, enum xt_phase phase)
{
    return phase == XT_BACKWARD ? xt_op_backward_time(graph, op) : xt_op_forward_time(op);
}

struct xt_operand xt_op_room(struct xt_op *op, struct xt_graph *graph, enum xt_phase phase,
                             dnnl_data_type_t dtype, const int64_t *dims)
{
    struct xt_buffer *buffer = xt_graph_temporary(
        graph, xt_op_out(op, 0), (size_t)product(dims) * sizeof(float), time_of(op, graph, phase));
    return xt_operand_dense(xt_in_buffer(buffer), dtype, XT_DENSE_AXES, dims);
}

void xt_op_sum(struct xt_op *op, struct xt_graph *graph, enum xt_phase phase,
               const struct xt_operand *from, const struct xt_operand *to)
{
    struct xt_operand now = *from;
    struct run run = last_run(now.dims, to->dims);
    if (run.count == 1)
        xt_program_reorder(&op->program, phase, from, to);
    while (run.count > 1) {
        int64_t dims[XT_DENSE_AXES];
        for (int i = 0; i < XT_DENSE_AXES; i++)
            dims[i] = i >= run.first && i < run.end ? 1 : now.dims[i];
        bool last = product(dims) == product(to->dims);
        /* A product has its factors' type or float32. */
        bool direct = last && (to->dtype == now.dtype || to->dtype == dnnl_f32);
        struct xt_operand sums = direct ? *to : xt_op_room(op, graph, phase, dnnl_f32, dims);
        add_product(op, graph, phase, &run, &now, &sums);
        if (last && !direct)
            xt_program_reorder(&op->program, phase, &sums, to);
        now = sums;
        run = last_run(now.dims, to->dims);
    }
}

void xt_op_expand(struct xt_op *op, struct xt_graph *graph, enum xt_phase phase,
                  const struct xt_operand *from, const struct xt_operand *to)
{
    size_t n = (size_t)to->dims[0];
    size_t each = (size_t)product(to->dims) / n;
    struct xt_operand ones = xt_operand_transposed(xt_op_ones(op, graph, n, from->dtype));
    struct xt_operand row = xt_operand_matrix(from->place, from->dtype, 1, each);
    struct xt_operand rows = xt_operand_matrix(to->place, to->dtype, n, each);
    xt_program_matmul(&op->program, phase, &ones, &row, &rows, NULL);
}
