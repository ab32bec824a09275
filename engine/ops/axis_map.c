/* Linear maps of one axis with constant coefficients: resizing, padding, flips, picked elements,
 * pools to a size.
 * The program multiplies by the matrix, whose gradient is a product with its transpose; where the
 * tensor's type would round the coefficients, all of it is in float32 between two conversions.
 */
#include <math.h>
#include <stdlib.h>

#include "base/mem.h"
#include "engine/ops/ops.h"

struct xt_axis_parts xt_axis_parts(const struct xt_tensor *t, enum xt_axis axis)
{
    size_t n = (size_t)t->n;
    size_t h = (size_t)t->h;
    size_t w = (size_t)t->w;
    size_t c = (size_t)t->c;
    return axis == XT_AXIS_H   ? (struct xt_axis_parts){n, h, w * c}
           : axis == XT_AXIS_W ? (struct xt_axis_parts){n * h, w, c}
                               : (struct xt_axis_parts){n * h * w, c, 1};
}

/* ---- the program ---- */

static enum xt_status refresh(struct xt_op *op, struct xt_graph *graph, struct xt_err *err)
{
    struct xt_axis_map_op *map = (struct xt_axis_map_op *)op;
    const struct xt_sparse_rows *rows = &map->rows[0];
    float *matrix = map->is_filled ? NULL : map->matrix.host;
    float *added = map->added.host;
    size_t columns = (size_t)map->rows[1].count;
    (void)graph;
    (void)err;
    for (size_t i = 0; matrix && i < (size_t)rows->count * columns; i++)
        matrix[i] = 0;
    for (int j = 0; matrix && j < rows->count; j++)
        for (int k = rows->first[j]; k < rows->first[j + 1]; k++)
            matrix[(size_t)j * columns + (size_t)rows->at[k]] += rows->weight[k];
    for (int j = 0; added && j < rows->count; j++)
        added[j] = map->fill[j];
    map->is_filled = true;
    return XT_OK;
}

/* Numbers of the host's as an operand of this type. */
static struct xt_operand add_numbers(struct xt_op *op, struct xt_graph *graph, const char *kind,
                                     struct xt_operand shape, struct xt_device_memory *host)
{
    size_t count = 1;
    for (int i = 0; i < shape.ndims; i++)
        count *= (size_t)shape.dims[i];
    struct xt_operand wide = shape;
    wide.place = xt_op_follow_host(op, graph, kind, count, host);
    wide.dtype = dnnl_f32;
    if (shape.dtype == dnnl_f32)
        return wide;
    shape.place = xt_in_buffer(xt_graph_permanent(graph, op->name, kind, count * sizeof(float)));
    xt_program_reorder(&op->program, XT_BEFORE, &wide, &shape);
    return shape;
}

static struct xt_operand add_matrix(struct xt_axis_map_op *map, struct xt_graph *graph,
                                    dnnl_data_type_t dtype)
{
    struct xt_operand shape =
        xt_operand_matrix((struct xt_location){.buffer = NULL}, dtype, (size_t)map->rows[0].count,
                          (size_t)map->rows[1].count);
    return add_numbers(&map->op, graph, "coefficients", shape, &map->matrix);
}

/* to = matrix * from along the axis; both are dense and of the matrix's type. */
static void add_product(struct xt_axis_map_op *map, enum xt_phase phase, struct xt_operand matrix,
                        const struct xt_operand *from, const struct xt_operand *to)
{
    struct xt_axis_parts parts = xt_axis_parts(xt_op_in(&map->op, 0), map->axis);
    struct xt_program *program = &map->op.program;
    size_t rows = (size_t)matrix.dims[0];
    size_t columns = (size_t)matrix.dims[1];
    if (parts.inner == 1) {
        struct xt_operand x = xt_operand_matrix(from->place, from->dtype, parts.outer, columns);
        struct xt_operand y = xt_operand_matrix(to->place, to->dtype, parts.outer, rows);
        matrix = xt_operand_transposed(matrix);
        xt_program_matmul(program, phase, &x, &matrix, &y, NULL);
        return;
    }
    struct xt_operand m = xt_operand_matrices(matrix.place, matrix.dtype, 1, rows, columns);
    for (int i = 0; i < 2; i++)
        m.strides[i + 1] = matrix.strides[i];
    struct xt_operand x =
        xt_operand_matrices(from->place, from->dtype, parts.outer, columns, parts.inner);
    struct xt_operand y = xt_operand_matrices(to->place, to->dtype, parts.outer, rows, parts.inner);
    xt_program_matmul(program, phase, &m, &x, &y, NULL);
}

/* The number of padding, added to all elements of the output. */
static void add_fill(struct xt_axis_map_op *map, struct xt_graph *graph, const struct xt_operand *y)
{
    struct xt_axis_parts parts = xt_axis_parts(xt_op_out(&map->op, 0), map->axis);
    int64_t all[] = {1, (int64_t)parts.outer, (int64_t)parts.count, (int64_t)parts.inner};
    int64_t each[] = {1, 1, (int64_t)parts.count, 1};
    struct xt_operand fill = xt_operand_dense(y->place, y->dtype, 4, each);
    struct xt_operand to = xt_operand_dense(y->place, y->dtype, 4, all);
    fill = add_numbers(&map->op, graph, "padding", fill, &map->added);
    xt_program_binary(&map->op.program, XT_FORWARD, dnnl_binary_add, &to, &fill, &to, NULL);
}

static bool adds(const struct xt_axis_map_op *map)
{
    return map->map.kind == XT_MAP_CONSTANT && map->map.fill != 0;
}

/* to = matrix * from (+ the padding's number), by way of the matrix's type. */
static void add_map(struct xt_axis_map_op *map, struct xt_graph *graph, enum xt_phase phase,
                    const struct xt_operand *matrix, const struct xt_operand *from,
                    const struct xt_operand *to)
{
    struct xt_operand x = *from;
    struct xt_operand y = *to;
    if (x.dtype != matrix->dtype) {
        x = xt_op_room(&map->op, graph, phase, matrix->dtype, from->dims);
        xt_program_reorder(&map->op.program, phase, from, &x);
    }
    if (y.dtype != matrix->dtype)
        y = xt_op_room(&map->op, graph, phase, matrix->dtype, to->dims);
    add_product(map, phase, *matrix, &x, &y);
    if (phase == XT_FORWARD && adds(map))
        add_fill(map, graph, &y);
    if (y.dtype != to->dtype)
        xt_program_reorder(&map->op.program, phase, &y, to);
}

static void describe(struct xt_op *op, struct xt_graph *graph)
{
    struct xt_axis_map_op *map = (struct xt_axis_map_op *)op;
    const struct xt_tensor *in = xt_op_in(op, 0);
    const struct xt_tensor *out = xt_op_out(op, 0);
    xt_graph_use(op, graph, 0, 0);
    struct xt_operand numbers = xt_op_numbers(op, graph, 0);
    struct xt_operand x = xt_operand_channels_last(in, numbers.place.buffer);
    struct xt_operand y = xt_operand_channels_last(out, out->value);
    x.dtype = numbers.dtype;
    bool is_direct = map->is_exact && x.dtype == y.dtype;
    struct xt_operand matrix = add_matrix(map, graph, is_direct ? y.dtype : dnnl_f32);
    add_map(map, graph, XT_FORWARD, &matrix, &x, &y);
    if (!xt_op_learns(op, graph) || !in->wants_grad)
        return;
    struct xt_operand turned = xt_operand_transposed(matrix);
    struct xt_operand dy = xt_operand_channels_last(out, out->grad[0]);
    struct xt_operand dx = xt_operand_channels_last(in, xt_op_in_grad(op, 0));
    add_map(map, graph, XT_BACKWARD, &turned, &dy, &dx);
}

static void destroy(struct xt_op *op)
{
    struct xt_axis_map_op *map = (struct xt_axis_map_op *)op;
    xt_device_memory_destroy(&map->matrix);
    xt_device_memory_destroy(&map->added);
    for (int i = 0; i < 2; i++) {
        free(map->rows[i].first);
        free(map->rows[i].at);
        free(map->rows[i].weight);
    }
    free(map->fill);
}

/* ---- in double precision ---- */

/* to = rows * from (+ fill) along the axis. */
static void run(const struct xt_sparse_rows *rows, int columns, const struct xt_axis_parts *parts,
                const float *fill, const double *from, double *to)
{
    for (size_t o = 0; o < parts->outer; o++)
        for (int j = 0; j < rows->count; j++)
            for (size_t i = 0; i < parts->inner; i++) {
                double sum = fill ? (double)fill[j] : 0;
                const double *x = from + o * (size_t)columns * parts->inner + i;
                for (int k = rows->first[j]; k < rows->first[j + 1]; k++)
                    sum += (double)rows->weight[k] * x[(size_t)rows->at[k] * parts->inner];
                to[(o * (size_t)rows->count + (size_t)j) * parts->inner + i] = sum;
            }
}

static enum xt_status reference_forward(struct xt_reference_op *reference)
{
    const struct xt_axis_map_op *map = (const struct xt_axis_map_op *)reference->op;
    struct xt_axis_parts parts = xt_axis_parts(xt_op_in(&map->op, 0), map->axis);
    run(&map->rows[0], map->rows[1].count, &parts, map->fill, reference->in[0], reference->out[0]);
    return XT_OK;
}

static enum xt_status reference_backward(struct xt_reference_op *reference)
{
    const struct xt_axis_map_op *map = (const struct xt_axis_map_op *)reference->op;
    struct xt_axis_parts parts = xt_axis_parts(xt_op_in(&map->op, 0), map->axis);
    run(&map->rows[1], map->rows[0].count, &parts, NULL, reference->out_grad[0],
        reference->in_grad[0]);
    return XT_OK;
}

/* One rounding, of the result. */
static struct xt_bound bound(const struct xt_reference_op *reference, enum xt_part part, int which)
{
    const struct xt_axis_map_op *map = (const struct xt_axis_map_op *)reference->op;
    const struct xt_sparse_rows *rows = &map->rows[part == XT_PART_INPUT_GRAD];
    int terms = 1;
    (void)which;
    for (int j = 0; j < rows->count; j++)
        terms = terms < rows->first[j + 1] - rows->first[j] ? rows->first[j + 1] - rows->first[j]
                                                            : terms;
    return (struct xt_bound){
        .relative = xt_reference_op_relative(xt_op_out(reference->op, 0)->dtype, 1, terms)};
}

const struct xt_op_kind xt_kind_axis_map = {
    .name = "axis map",
    .size = sizeof(struct xt_axis_map_op),
    .describe = describe,
    .refresh = refresh,
    .what = {xt_what_matmul, xt_what_matmul},
    .reference = {.forward = reference_forward, .backward = reference_backward, .bound = bound},
    .destroy = destroy,
};

/* ---- adding it to a graph ---- */

static bool take_rows(struct xt_graph *graph, const char *name, struct xt_sparse_rows *rows,
                      int count, size_t terms)
{
    rows->count = count;
    return !xt_mem_calloc(&rows->first, (size_t)count + 1, sizeof *rows->first, name,
                          &graph->err) &&
           !xt_mem_calloc(&rows->at, terms, sizeof *rows->at, name, &graph->err) &&
           !xt_mem_calloc(&rows->weight, terms, sizeof *rows->weight, name, &graph->err);
}

static void transpose(const struct xt_sparse_rows *rows, struct xt_sparse_rows *out)
{
    int terms = rows->first[rows->count];
    for (int k = 0; k < terms; k++)
        out->first[rows->at[k] + 1]++;
    for (int i = 0; i < out->count; i++)
        out->first[i + 1] += out->first[i];
    /* Each row's begin moves to its end, which is the next one's begin. */
    for (int j = 0; j < rows->count; j++)
        for (int k = rows->first[j]; k < rows->first[j + 1]; k++) {
            int to = out->first[rows->at[k]]++;
            out->at[to] = j;
            out->weight[to] = rows->weight[k];
        }
    for (int i = out->count; i > 0; i--)
        out->first[i] = out->first[i - 1];
    out->first[0] = 0;
}

/* Whether the number is one of the type. */
static bool is_of(enum xt_dtype dtype, double number)
{
    double rounded = number;
    xt_reference_op_round(dtype, &rounded, 1);
    return rounded == number;
}

/* Adds a term to the row that begins at `first`, and of one element several as one; returns the
 * row's end. */
static int add_term(struct xt_sparse_rows *rows, int first, int end, int at, double weight)
{
    for (int k = first; k < end; k++)
        if (rows->at[k] == at) {
            rows->weight[k] = (float)((double)rows->weight[k] + weight);
            return end;
        }
    rows->at[end] = at;
    rows->weight[end] = (float)weight;
    return end + (weight != 0);
}

/* The nonzero coefficients; false after a failure. */
static bool fill_rows(struct xt_axis_map_op *map, struct xt_graph *graph,
                      const struct xt_axis_map *spec, int in, int out)
{
    struct xt_sparse_rows *rows = map->rows;
    size_t terms = 0;
    for (int j = 0; j < out; j++)
        terms += (size_t)xt_axis_map_row(spec, in, out, j).count;
    if (!take_rows(graph, map->op.name, &rows[0], out, terms) ||
        !take_rows(graph, map->op.name, &rows[1], in, terms) ||
        xt_mem_calloc(&map->fill, (size_t)out, sizeof *map->fill, map->op.name, &graph->err))
        return false;
    for (int j = 0, at = 0; j < out; j++) {
        struct xt_axis_map_row row = xt_axis_map_row(spec, in, out, j);
        map->fill[j] = (float)row.add;
        for (int k = 0; k < row.count; k++)
            at = add_term(&rows[0], rows[0].first[j], at, row.at[k], row.weight[k]);
        rows[0].first[j + 1] = at;
    }
    transpose(&rows[0], &rows[1]);
    return true;
}

/* Whether what comes of numbers that are not negative is not either. */
static bool stays_above_0(const struct xt_axis_map_op *map)
{
    for (int k = 0; k < map->rows[0].first[map->rows[0].count]; k++)
        if (map->rows[0].weight[k] < 0)
            return false;
    return map->map.fill >= 0;
}

struct xt_tensor *xt_graph_axis_map(struct xt_graph *graph, struct xt_tensor *in, enum xt_axis axis,
                                    const struct xt_axis_map *spec, const char *name)
{
    struct xt_axis_map_op *map = xt_graph_add_op(graph, &xt_kind_axis_map, name);
    if (!map || !xt_op_read(&map->op, graph, in))
        return NULL;
    int shape[XT_AXES] = {in->h, in->w, in->c};
    int length = shape[axis];
    const char *why = xt_axis_map_refusal(spec, length);
    if (why)
        return xt_graph_refuse(graph, XT_ERR_USAGE, "%s: an axis of %d %s", name, length, why);
    shape[axis] = (int)xt_axis_map_length(spec, length);
    map->axis = axis;
    map->map = *spec;
    map->map.picked = NULL;
    if (!fill_rows(map, graph, spec, length, shape[axis]))
        return NULL;
    enum xt_dtype dtype = xt_op_numbers_type(graph, in);
    map->is_exact = true;
    for (int k = 0; k < map->rows[0].first[shape[axis]]; k++)
        map->is_exact = map->is_exact && is_of(dtype, (double)map->rows[0].weight[k]);
    struct xt_tensor *out = xt_op_write(&map->op, graph, name, in->n, shape[XT_AXIS_H],
                                        shape[XT_AXIS_W], shape[XT_AXIS_C], dtype);
    if (!out)
        return NULL;
    out->above_0 = in->above_0 && stays_above_0(map);
    out->one_reader = true;
    return out;
}
